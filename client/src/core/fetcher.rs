//! Reads assigned partitions from explicit offsets, and leaves what to do with the batches to whoever takes them.
//!
//! One request per node is on its way, a long poll over all partitions that the node leads, on a connection of its own
//! (answers come in order, so a long poll would delay every acknowledgement behind it). The next one is sent when its
//! answer has come, unless too much waits to be taken. No fetch sessions: each request is complete.
//!
//! Batches are handed on as they came: compressed, control batches included, and the first one may start before the
//! offset that was asked for, since brokers cut at batches. Reading is up to the high watermark (`read_uncommitted`).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use rillway_wire::ErrorCode;
use rillway_wire::api::fetch;
use rillway_wire::batch::{BatchError, BatchView, CRC_START, batches};

use super::TopicPartition;
use crate::config::FetcherConfig;
use crate::error::{Error, Result};

/// One partition's part of an answer.
#[derive(Clone, Debug)]
pub struct Fetched {
    pub at: TopicPartition,
    /// The error is final: the partition is no longer read until it is assigned again.
    pub result: Result<FetchedData>,
}

/// Whole batches, and where the log stands.
#[derive(Clone, Debug)]
pub struct FetchedData {
    /// Whole batches; see [`rillway_wire::batch::batches`].
    pub batches: Bytes,
    /// What was asked for: records of the first batch before it are to be skipped.
    pub from: i64,
    /// Where the next request goes on.
    pub next: i64,
    pub high_watermark: i64,
}

#[derive(Debug)]
struct Assigned {
    next: i64,
    busy: bool,
    not_before: Duration,
    /// Size of the request; doubled when not one whole batch came back.
    max_bytes: i32,
    /// When it was last asked for: partitions take turns at the front of the request, since a full answer ends early.
    turn: u64,
}

/// The fetcher of a client.
#[derive(Debug)]
pub(super) struct Fetcher {
    config: FetcherConfig,
    backoff: Duration,
    partitions: BTreeMap<TopicPartition, Assigned>,
    ready: VecDeque<Fetched>,
    buffered: usize,
    turns: u64,
}

/// What a part of an answer comes to.
enum Outcome {
    Data {
        whole: usize,
        next: i64,
    },
    /// Not one whole batch.
    TooSmall,
}

impl Fetcher {
    pub(super) fn new(config: FetcherConfig, backoff: Duration) -> Self {
        Self {
            config,
            backoff,
            partitions: BTreeMap::new(),
            ready: VecDeque::new(),
            buffered: 0,
            turns: 0,
        }
    }

    pub(super) fn config(&self) -> &FetcherConfig {
        &self.config
    }

    /// Reads `at` from `offset` on; also to go on after an error. What waits to be taken of it is forgotten.
    pub(super) fn assign(&mut self, at: TopicPartition, offset: i64) {
        self.drop_ready(&at);
        let max_bytes = self.config.partition_bytes;
        let assigned =
            Assigned { next: offset, busy: false, not_before: Duration::ZERO, max_bytes, turn: 0 };
        self.partitions.insert(at, assigned);
    }

    /// Stops reading `at`.
    pub(super) fn unassign(&mut self, at: &TopicPartition) {
        self.drop_ready(at);
        self.partitions.remove(at);
    }

    fn drop_ready(&mut self, at: &TopicPartition) {
        self.ready.retain(|fetched| fetched.at != *at);
        self.buffered = self.ready.iter().map(size).sum();
    }

    pub(super) fn take(&mut self) -> Option<Fetched> {
        let fetched = self.ready.pop_front()?;
        self.buffered -= size(&fetched);
        Some(fetched)
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The partitions to ask for now, those first whose turn is the longest ago; none while too much waits.
    pub(super) fn due(&self, now: Duration) -> Vec<TopicPartition> {
        if self.buffered >= self.config.buffer_bytes {
            return Vec::new();
        }
        let idle = |a: &Assigned| !a.busy && a.not_before <= now;
        let due = self.partitions.iter().filter(|(_, a)| idle(a));
        let mut due: Vec<_> = due.map(|(at, a)| (a.turn, at)).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, at)| at.clone()).collect()
    }

    /// The lines of a request, which goes out now: `(partition, offset, size)`.
    pub(super) fn ask(&mut self, partitions: &[TopicPartition]) -> Vec<(TopicPartition, i64, i32)> {
        self.turns += 1;
        let mut lines = Vec::with_capacity(partitions.len());
        for at in partitions {
            if let Some(assigned) = self.partitions.get_mut(at) {
                assigned.busy = true;
                assigned.turn = self.turns;
                lines.push((at.clone(), assigned.next, assigned.max_bytes));
            }
        }
        lines
    }

    /// No answer will come for this partition.
    pub(super) fn lost(&mut self, at: &TopicPartition, now: Duration) {
        if let Some(assigned) = self.partitions.get_mut(at) {
            assigned.busy = false;
            assigned.not_before = now.saturating_add(self.backoff);
        }
    }

    /// One part of an answer to a request for `from`; `records` are those of the part. True when the leader should be
    /// looked up again.
    pub(super) fn answered(
        &mut self,
        at: &TopicPartition,
        from: i64,
        answer: &fetch::PartitionResponse<'_>,
        records: Bytes,
        max_frame: usize,
        now: Duration,
    ) -> bool {
        let Some(assigned) = self.partitions.get_mut(at).filter(|a| a.next == from) else {
            // Assigned anew in the meantime.
            return false;
        };
        assigned.busy = false;
        let code = answer.error_code;
        if code != ErrorCode::None {
            // Kafka's client, too, takes these as news about the leader, though they are not marked as retriable.
            let fenced =
                matches!(code, ErrorCode::FencedLeaderEpoch | ErrorCode::UnknownLeaderEpoch);
            if code.is_retriable() || fenced {
                assigned.not_before = now.saturating_add(self.backoff);
                return true;
            }
            let error = Error::Broker {
                doing: format!("fetching {at} from offset {from}"),
                code,
                message: None,
            };
            self.fail(at, error);
            return false;
        }
        match walk(&records, from, self.config.check_crcs) {
            Ok(Outcome::Data { whole: 0, .. }) => {}
            Ok(Outcome::Data { whole, next }) => {
                assigned.next = next;
                assigned.max_bytes = self.config.partition_bytes;
                self.buffered += whole;
                let high_watermark = answer.high_watermark;
                let batches = records.slice(..whole);
                let data = FetchedData { batches, from, next, high_watermark };
                self.ready.push_back(Fetched { at: at.clone(), result: Ok(data) });
            }
            Ok(Outcome::TooSmall) => {
                let limit = i32::try_from(max_frame / 2).unwrap_or(i32::MAX);
                if assigned.max_bytes >= limit {
                    let have = records.len();
                    self.fail_batch(at, from, BatchError::Truncated { need: have + 1, have });
                } else {
                    assigned.max_bytes = assigned.max_bytes.saturating_mul(2).min(limit);
                }
            }
            Err((offset, source)) => self.fail_batch(at, offset, source),
        }
        false
    }

    fn fail_batch(&mut self, at: &TopicPartition, offset: i64, source: BatchError) {
        let error =
            Error::Batch { topic: at.topic.to_string(), partition: at.partition, offset, source };
        self.fail(at, error);
    }

    fn fail(&mut self, at: &TopicPartition, error: Error) {
        self.partitions.remove(at);
        self.ready.push_back(Fetched { at: at.clone(), result: Err(error) });
    }

    /// When something becomes due by time alone.
    pub(super) fn next_timer(&self, now: Duration) -> Option<Duration> {
        let idle = self.partitions.values().filter(|a| !a.busy);
        idle.map(|a| a.not_before).filter(|at| *at > now).min()
    }
}

fn size(fetched: &Fetched) -> usize {
    fetched.result.as_ref().map_or(0, |data| data.batches.len())
}

/// Checks the batches of an answer: how many bytes are whole batches, and which offset comes next.
///
/// The end of an answer may cut a batch off; that is no error. Offsets must rise, or reading would never end.
fn walk(records: &[u8], from: i64, check_crcs: bool) -> Result<Outcome, (i64, BatchError)> {
    let (mut whole, mut next) = (0, from);
    for batch in batches(records) {
        let batch = match batch {
            Ok(batch) => batch,
            Err(BatchError::Truncated { .. }) => break,
            Err(error) => return Err((next, error)),
        };
        if check_crcs && !batch.check_crc() {
            let computed = crc(&batch);
            let claimed = batch.crc();
            return Err((batch.base_offset(), BatchError::Crc { claimed, computed }));
        }
        let delta = batch.last_offset_delta();
        if batch.next_offset() <= next || delta < 0 {
            let count = batch.record_count();
            return Err((batch.base_offset(), BatchError::Count { count, delta }));
        }
        whole += batch.total_len();
        next = batch.next_offset();
    }
    if whole == 0 && !records.is_empty() {
        return Ok(Outcome::TooSmall);
    }
    Ok(Outcome::Data { whole, next })
}

fn crc(batch: &BatchView<'_>) -> u32 {
    crc32c::crc32c(&batch.bytes()[CRC_START..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rillway_wire::Records;
    use rillway_wire::batch::{BatchBuilder, Codec, assign};

    fn batch(base: i64) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(1, None, Some(b"a value"), &[]);
        builder.push(2, None, Some(b"another"), &[]);
        let mut bytes = builder.build().expect("no codec");
        assign(&mut bytes, base, 0);
        bytes
    }

    fn answer(fetcher: &mut Fetcher, from: i64, records: Vec<u8>) {
        let at = TopicPartition::new("t", 0);
        let asked = fetcher.ask(std::slice::from_ref(&at));
        assert_eq!(asked[0].1, from);
        let part = fetch::PartitionResponse { records: Records::Null, ..Default::default() };
        fetcher.answered(&at, from, &part, records.into(), 1 << 20, Duration::ZERO);
    }

    fn fetcher(offset: i64) -> Fetcher {
        let mut fetcher = Fetcher::new(FetcherConfig::default(), Duration::from_millis(100));
        fetcher.assign(TopicPartition::new("t", 0), offset);
        fetcher
    }

    #[test]
    fn the_next_offset_is_behind_the_last_whole_batch() {
        let mut fetcher = fetcher(11);
        let mut records = [batch(10), batch(12), batch(14)].concat();
        records.truncate(records.len() - 1);
        answer(&mut fetcher, 11, records);
        let data = fetcher.take().expect("an answer").result.expect("two batches");
        assert_eq!((data.from, data.next, data.batches.len()), (11, 14, 2 * batch(0).len()));
    }

    #[test]
    fn a_damaged_batch_ends_its_partition_with_its_offset() {
        let mut fetcher = fetcher(10);
        let mut records = [batch(10), batch(12)].concat();
        let last = records.len() - 1;
        records[last] ^= 1;
        answer(&mut fetcher, 10, records);
        let error = fetcher.take().expect("an answer").result.expect_err("damage");
        assert!(
            matches!(error, Error::Batch { offset: 12, source: BatchError::Crc { .. }, .. }),
            "{error}"
        );
        assert!(fetcher.due(Duration::MAX).is_empty());
    }

    #[test]
    fn offsets_that_do_not_rise_are_refused_rather_than_read_for_ever() {
        let mut fetcher = fetcher(10);
        answer(&mut fetcher, 10, batch(8));
        assert!(fetcher.take().expect("an answer").result.is_err());
    }

    #[test]
    fn a_batch_that_did_not_fit_is_asked_for_with_twice_the_size() {
        let mut fetcher = fetcher(0);
        let size = fetcher.config.partition_bytes;
        fetcher.partitions.values_mut().for_each(|a| a.max_bytes = 50);
        answer(&mut fetcher, 0, batch(0)[..50].to_vec());
        assert!(!fetcher.has_ready());
        let asked = fetcher.ask(&[TopicPartition::new("t", 0)]);
        assert_eq!(asked[0].2, 100);
        fetcher.lost(&TopicPartition::new("t", 0), Duration::ZERO);
        answer(&mut fetcher, 0, batch(0));
        assert_eq!(fetcher.ask(&[TopicPartition::new("t", 0)])[0].2, size);
    }

    #[test]
    fn nothing_is_asked_while_too_much_waits_to_be_taken() {
        let mut fetcher = fetcher(0);
        fetcher.config.buffer_bytes = 1;
        answer(&mut fetcher, 0, batch(0));
        assert!(fetcher.due(Duration::ZERO).is_empty());
        fetcher.take();
        assert_eq!(fetcher.due(Duration::ZERO).len(), 1);
    }
}
