//! What is to be cleaned, and in which pieces. Pure: state, settings and a time in, a plan out.
//!
//! Kafka's rules: a partition is cleaned when more of it is dirty than min.cleanable.dirty.ratio allows, or when
//! something dirty is older than max.compaction.lag.ms. Only sealed segments are; what is younger than
//! min.compaction.lag.ms, and everything behind it, waits. One rule more than Kafka: tombstones whose time is over make
//! their segments due by themselves, or they would stay for ever in a partition that nobody writes to any more.

use std::ops::Range;

use crate::limits::REPLACED_MAX;
use crate::log::LogConfig;
use crate::state::{PartitionState, SegmentState, SegmentStatus};

/// What one look at a partition says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Look {
    Nothing,
    /// The active segment holds what must be compacted soon: it must be rolled and sealed first.
    Roll,
    Clean(Plan),
    /// Only tombstones are due, in these rows of the segment table.
    Expire(Vec<usize>),
}

/// A cleaning.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// Records from here on may supersede others.
    pub dirty: i64,
    /// Up to here, the end of a segment.
    pub until: i64,
    /// Share of the bytes that are dirty.
    pub ratio: f64,
}

/// Looks at a partition.
pub(crate) fn look(p: &PartitionState, config: &LogConfig, now_ms: i64) -> Look {
    if !config.compact {
        return Look::Nothing;
    }
    let dirty = p.clean_end.max(p.log_start);
    let old = |s: &SegmentState| {
        let first = if s.first_timestamp >= 0 { s.first_timestamp } else { s.first_append_ms };
        s.length > 0 && now_ms.saturating_sub(first) > config.compaction_lag_ms()
    };
    let young = |s: &SegmentState| {
        let lag = config.min_compaction_lag_ms;
        lag > 0 && s.end > dirty && s.retention_ms() > now_ms.saturating_sub(lag)
    };
    let sealed = p.segments.iter().take_while(|s| s.status == SegmentStatus::Sealed);
    let cleanable: Vec<&SegmentState> = sealed.take_while(|s| !young(s)).collect();
    let until = cleanable.last().map_or(dirty, |s| s.end);
    let bytes = |dirty_ones: bool| -> u64 {
        let wanted = cleanable.iter().filter(|s| (s.end > dirty) == dirty_ones);
        wanted.map(|s| s.length).sum()
    };
    let (clean_bytes, dirty_bytes) = (bytes(false), bytes(true));
    if dirty_bytes > 0 && until > dirty {
        let ratio = dirty_bytes as f64 / (clean_bytes + dirty_bytes) as f64;
        let overdue = cleanable.iter().any(|s| s.end > dirty && old(s));
        if overdue || ratio > config.min_cleanable_ratio.get() {
            return Look::Clean(Plan { dirty, until, ratio });
        }
    }
    let expired = |s: &SegmentState| {
        s.status == SegmentStatus::Sealed && s.horizon_ms >= 0 && s.horizon_ms <= now_ms
    };
    // Whatever of it is clean: nothing older than such a tombstone is left of its key.
    let rows: Vec<usize> = (0..p.segments.len())
        .filter(|at| expired(&p.segments[*at]) && p.segments[*at].end <= p.clean_end)
        .collect();
    if !rows.is_empty() {
        return Look::Expire(rows);
    }
    if old(p.active()) { Look::Roll } else { Look::Nothing }
}

/// Which rows of the table become one segment each: neighbours, as long as together they are not larger than a segment
/// may be. `until`: the end of the last row that is cleaned.
pub(crate) fn groups(
    segments: &[SegmentState],
    until: i64,
    segment_bytes: u64,
) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0u64;
    for (at, s) in segments.iter().enumerate().take_while(|(_, s)| s.end <= until) {
        let fits = out.last().is_some_and(|group| {
            bytes.saturating_add(s.length) <= segment_bytes
                && s.end - segments[group.start].base <= i64::from(i32::MAX)
                && group.len() < REPLACED_MAX
        });
        match out.last_mut() {
            Some(group) if fits => {
                group.end = at + 1;
                bytes += s.length;
            }
            _ => {
                out.push(at..at + 1);
                bytes = s.length;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::PartitionRef;
    use crate::ids::{Generation, PartitionId, Sequence, TopicId};
    use crate::log::Ratio;
    use proptest::prelude::*;

    /// Sealed segments of ten offsets each, of (length, first timestamp), and an active one of as many.
    fn partition(sealed: &[(u64, i64)], clean: usize) -> PartitionState {
        let id = PartitionId { topic: TopicId([1; 16]), index: 0 };
        let reference = PartitionRef { id, generation: Generation(1) };
        let mut p = PartitionState::new(reference, "t", 0, Sequence(0));
        p.segments.clear();
        let rows = sealed.iter().chain([&(100, 990)]);
        for (at, (length, first)) in rows.enumerate() {
            let mut s = SegmentState::new(at as i64 * 10);
            s.end = s.base + 10;
            s.status = SegmentStatus::Sealed;
            (s.length, s.durable, s.first_timestamp, s.max_timestamp) =
                (*length, *length, *first, *first + 5);
            p.segments.push(s);
        }
        p.active_mut().status = SegmentStatus::Active;
        p.end = p.active().end;
        p.clean_end = clean as i64 * 10;
        p
    }

    fn config() -> LogConfig {
        LogConfig { compact: true, delete: false, ..Default::default() }
    }

    #[test]
    fn a_partition_is_due_when_more_than_the_ratio_is_dirty() {
        let p = partition(&[(100, 1), (100, 2), (100, 3)], 1);
        let Look::Clean(plan) = look(&p, &config(), 1_000) else { panic!("two thirds are dirty") };
        assert_eq!((plan.dirty, plan.until), (10, 30));
        assert!((plan.ratio - 2.0 / 3.0).abs() < 1e-9);
        let lazy = LogConfig { min_cleanable_ratio: Ratio::new(0.7).unwrap(), ..config() };
        assert_eq!(look(&p, &lazy, 1_000), Look::Nothing);
        assert_eq!(look(&p, &LogConfig { compact: false, ..config() }, 1_000), Look::Nothing);
        assert_eq!(look(&partition(&[(100, 1)], 1), &config(), 1_000), Look::Nothing);
    }

    #[test]
    fn what_is_not_sealed_and_everything_behind_it_waits() {
        let mut p = partition(&[(100, 1), (100, 2), (100, 3)], 0);
        p.segments[1].status = SegmentStatus::Rolled;
        assert!(matches!(look(&p, &config(), 1_000), Look::Clean(Plan { until: 10, .. })));
        p.segments[0].status = SegmentStatus::Rolled;
        assert_eq!(look(&p, &config(), 1_000), Look::Nothing);
    }

    #[test]
    fn what_is_younger_than_the_least_lag_and_everything_behind_it_waits() {
        let p = partition(&[(100, 1), (100, 900), (100, 3)], 0);
        let lag = LogConfig { min_compaction_lag_ms: 200, ..config() };
        assert!(matches!(look(&p, &lag, 1_000), Look::Clean(Plan { until: 10, .. })));
        assert!(matches!(look(&p, &lag, 2_000), Look::Clean(Plan { until: 30, .. })));
    }

    #[test]
    fn what_is_older_than_the_most_lag_is_due_whatever_the_ratio_and_rolls_the_active_segment() {
        let lazy = LogConfig { min_cleanable_ratio: Ratio::new(1.0).unwrap(), ..config() };
        let p = partition(&[(9_000, 1), (100, 700)], 1);
        assert_eq!(look(&p, &lazy, 1_000), Look::Nothing);
        let lag = LogConfig { max_compaction_lag_ms: 250, ..lazy };
        assert!(matches!(look(&p, &lag, 1_000), Look::Clean(Plan { until: 20, .. })));
        let clean = partition(&[(9_000, 1), (100, 700)], 2);
        assert_eq!(look(&clean, &lag, 1_000), Look::Nothing);
        assert_eq!(look(&clean, &lag, 1_241), Look::Roll);
    }

    #[test]
    fn tombstones_whose_time_is_over_make_their_segments_due() {
        let mut p = partition(&[(100, 1), (100, 2)], 2);
        p.segments[1].horizon_ms = 1_500;
        assert_eq!(look(&p, &config(), 1_499), Look::Nothing);
        assert_eq!(look(&p, &config(), 1_500), Look::Expire(vec![1]));
        p.clean_end = 15;
        assert!(matches!(
            look(
                &p,
                &LogConfig { min_cleanable_ratio: Ratio::new(1.0).unwrap(), ..config() },
                1_500
            ),
            Look::Nothing
        ));
    }

    proptest! {
        #[test]
        fn groups_are_neighbours_that_fit_and_no_two_of_them_could_be_one(
            lengths in prop::collection::vec(0u64..500, 0..30),
            most in 1u64..1_000,
            cleaned in 0usize..31,
        ) {
            let rows: Vec<(u64, i64)> = lengths.iter().map(|l| (*l, 1)).collect();
            let p = partition(&rows, 0);
            let cleaned = cleaned.min(rows.len());
            let groups = groups(&p.segments, cleaned as i64 * 10, most);
            let flat: Vec<usize> = groups.iter().cloned().flatten().collect();
            prop_assert_eq!(flat, (0..cleaned).collect::<Vec<_>>());
            let bytes = |g: &Range<usize>| g.clone().map(|at| lengths[at]).sum::<u64>();
            for g in &groups {
                prop_assert!(g.len() == 1 || bytes(g) <= most);
            }
            for pair in groups.windows(2) {
                prop_assert!(bytes(&pair[0]) + lengths[pair[1].start] > most);
            }
        }
    }
}
