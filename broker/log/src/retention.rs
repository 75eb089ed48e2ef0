//! Retention: whole sealed segments go, by age and by size, and the log start moves behind them.

use std::rc::Rc;

use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::journal::{Effect, Room};
use crate::log::{Log, LogConfig};
use crate::state::{Change, PartitionState, SegmentState, SegmentStatus};
use crate::store::{Inner, Store};

/// What one look at a partition says.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    /// Everything up to this offset can go.
    Delete(i64),
    /// The active segment has expired as a whole: it must be rolled and sealed first.
    Roll,
}

impl Store {
    /// One round over all partitions. The caller decides when (Kafka: log.retention.check.interval.ms).
    pub async fn enforce_retention(&self) -> Result<()> {
        for log in self.logs() {
            log.expire_producers(self.inner.expired_before_ms());
            self.inner.retain(&log).await?;
            self.inner.rt.yield_now().await;
        }
        self.inner.upkeep.notify_all();
        Ok(())
    }
}

impl Inner {
    async fn retain(self: &Rc<Self>, log: &Rc<Log>) -> Result<()> {
        if log.is_deleted() || log.refused().is_some() {
            return Ok(());
        }
        let due = {
            let state = log.state();
            due(&state.flushed, &state.config, self.rt.wall_ms())
        };
        match due {
            Due::Nothing => Ok(()),
            Due::Roll => log.roll().await,
            Due::Delete(offset) => log.move_log_start(offset).await,
        }
    }
}

impl Log {
    /// Gives up every record before `offset` and nothing else (DeleteRecords); durable when it returns. The bytes go with
    /// whole sealed segments. A lower offset than the log start is no change.
    ///
    /// # Errors
    /// [`Error::OffsetOutOfRange`] for an offset below 0 or beyond what is flushed.
    pub async fn trim(self: &Rc<Self>, offset: i64) -> Result<()> {
        self.check_refused()?;
        let (start, end) = (self.log_start(), self.flushed_end());
        if !(0..=end).contains(&offset) {
            return Err(Error::OffsetOutOfRange { offset, start, end });
        }
        self.move_log_start(offset).await
    }

    /// Whether a sealed segment lies before the log start: it was not sealed yet when the start moved behind it.
    fn has_passed(&self) -> bool {
        let state = self.state();
        state.flushed.segments.first().is_some_and(|s| is_passed(s, state.flushed.log_start))
    }

    /// Gives up what lies before `offset`, segment by segment: the active one is rolled, and what is sealed by now goes.
    pub async fn drop_before(self: &Rc<Self>, offset: i64) -> Result<()> {
        self.roll().await?;
        let start = {
            let state = self.state();
            let sealed = |s: &&SegmentState| s.status == SegmentStatus::Sealed && s.end <= offset;
            state.flushed.segments.iter().take_while(sealed).last().map(|s| s.end)
        };
        match start {
            Some(start) => self.move_log_start(start).await,
            None => Ok(()),
        }
    }

    /// Moves the log start up; durable when it returns. Lower values are no change.
    pub(crate) async fn move_log_start(self: &Rc<Self>, offset: i64) -> Result<()> {
        let store = self.store()?;
        let _table = self.table_turn.acquire(1).await;
        let entry = Entry::LogStart { partition: self.reference(), offset };
        store.reserve(Room::entry(entry.encoded_len())).await?;
        let start = self.log_start();
        if self.is_deleted() || offset < start || (offset == start && !self.has_passed()) {
            return Ok(());
        }
        store
            .push(&entry, Effect::Partition(Rc::clone(self), Change::LogStart { offset }))
            .wait()
            .await
    }
}

fn is_passed(s: &SegmentState, log_start: i64) -> bool {
    s.status == SegmentStatus::Sealed && s.end <= log_start
}

fn due(p: &PartitionState, config: &LogConfig, now_ms: i64) -> Due {
    if p.segments.first().is_some_and(|s| is_passed(s, p.log_start)) {
        return Due::Delete(p.log_start);
    }
    if !config.delete {
        return Due::Nothing;
    }
    let expired = |s: &SegmentState| {
        config.retention_ms >= 0
            && s.length > 0
            && now_ms.saturating_sub(s.retention_ms()) > config.retention_ms
    };
    let mut excess = match u64::try_from(config.retention_bytes) {
        Ok(limit) => p.segments.iter().map(|s| s.length).sum::<u64>().saturating_sub(limit),
        Err(_) => 0,
    };
    let mut start = p.log_start;
    for s in &p.segments {
        let oversize = excess >= s.length && s.length > 0;
        if !expired(s) && !oversize {
            break;
        }
        match s.status {
            SegmentStatus::Sealed => start = s.end,
            // Its seal is on the way; the next round finds it sealed.
            SegmentStatus::Rolled => break,
            SegmentStatus::Active if start == p.log_start && expired(s) => return Due::Roll,
            SegmentStatus::Active => break,
        }
        excess = excess.saturating_sub(s.length);
    }
    if start > p.log_start { Due::Delete(start) } else { Due::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::PartitionRef;
    use crate::ids::{Generation, PartitionId, Sequence, TopicId};

    /// Sealed segments of (length, largest timestamp), each of ten records, and an empty active one.
    fn partition(sealed: &[(u64, i64)]) -> PartitionState {
        let id = PartitionId { topic: TopicId([1; 16]), index: 0 };
        let mut p = PartitionState::new(
            PartitionRef { id, generation: Generation(1) },
            "t",
            0,
            Sequence(0),
        );
        p.segments.clear();
        for (i, (length, max_timestamp)) in sealed.iter().enumerate() {
            let mut s = SegmentState::new(i as i64 * 10);
            s.end = s.base + 10;
            s.status = SegmentStatus::Sealed;
            (s.length, s.durable, s.max_timestamp, s.last_append_ms) =
                (*length, *length, *max_timestamp, 500);
            p.segments.push(s);
        }
        p.segments.push(SegmentState::new(sealed.len() as i64 * 10));
        p.end = sealed.len() as i64 * 10;
        p
    }

    fn config(retention_ms: i64, retention_bytes: i64) -> LogConfig {
        LogConfig { retention_ms, retention_bytes, ..Default::default() }
    }

    #[test]
    fn segments_older_than_the_retention_time_go_from_the_front() {
        let p = partition(&[(100, 10), (100, 20), (100, 900)]);
        assert_eq!(due(&p, &config(100, -1), 1_000), Due::Delete(20));
    }

    #[test]
    fn a_young_segment_keeps_the_older_ones_behind_it() {
        let p = partition(&[(100, 990), (100, 20)]);
        assert_eq!(due(&p, &config(100, -1), 1_000), Due::Nothing);
    }

    #[test]
    fn size_keeps_at_least_what_the_limit_says() {
        let p = partition(&[(100, 1), (100, 1), (100, 1)]);
        assert_eq!(due(&p, &config(-1, 150), 1_000), Due::Delete(10));
        assert_eq!(due(&p, &config(-1, 300), 1_000), Due::Nothing);
        assert_eq!(due(&p, &config(-1, 0), 1_000), Due::Delete(30));
    }

    #[test]
    fn records_without_a_time_age_from_their_append() {
        let p = partition(&[(100, -1)]);
        assert_eq!(due(&p, &config(600, -1), 1_000), Due::Nothing);
        assert_eq!(due(&p, &config(400, -1), 1_000), Due::Delete(10));
    }

    #[test]
    fn a_segment_that_was_sealed_behind_the_log_start_goes_whatever_the_settings() {
        let mut p = partition(&[(100, 900), (100, 900)]);
        p.log_start = 9;
        assert_eq!(due(&p, &config(-1, -1), 1_000), Due::Nothing, "its last record is there");
        p.log_start = 13;
        assert_eq!(due(&p, &config(-1, -1), 1_000), Due::Delete(13));
    }

    #[test]
    fn a_topic_that_is_only_compacted_keeps_its_segments_whatever_their_age_and_size() {
        let p = partition(&[(100, 10), (100, 20)]);
        let both = LogConfig { compact: true, ..config(100, 0) };
        assert_eq!(due(&p, &both, 1_000), Due::Delete(20));
        assert_eq!(due(&p, &LogConfig { delete: false, ..both }, 1_000), Due::Nothing);
    }

    #[test]
    fn an_active_segment_that_expired_as_a_whole_is_rolled_first() {
        let mut p = partition(&[]);
        let s = p.active_mut();
        (s.length, s.end, s.max_timestamp) = (50, 5, 10);
        p.end = 5;
        assert_eq!(due(&p, &config(100, -1), 1_000), Due::Roll);
    }
}
