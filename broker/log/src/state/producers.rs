//! Idempotent producers: the last batches of each, to tell a retry from a gap (KIP-98; five batches in flight).

use std::collections::{BTreeMap, VecDeque};

use crate::limits::{PRODUCER_BATCHES, PRODUCERS_PER_PARTITION_MAX};
use crate::state::BatchInfo;

/// A batch that a producer has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducedBatch {
    pub first_sequence: i32,
    pub last_sequence: i32,
    pub base_offset: i64,
    pub last_offset: i64,
}

/// One producer id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    pub epoch: i16,
    pub last_append_ms: i64,
    /// Oldest first, at most [`PRODUCER_BATCHES`].
    pub batches: VecDeque<ProducedBatch>,
}

/// What a batch is to the state of its producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The next one, or the first of an unknown producer.
    Next,
    /// Written before, at these offsets.
    Duplicate { base_offset: i64, last_offset: i64 },
    /// A gap, or older than what is remembered.
    OutOfOrder { got: i32, expected: i32 },
    /// A newer incarnation has written already.
    Fenced { got: i16, current: i16 },
}

/// All producers of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerTable {
    producers: BTreeMap<i64, ProducerState>,
}

/// Sequences run from 0 to i32::MAX and then begin again.
fn next_sequence(last: i32) -> i32 {
    if last == i32::MAX { 0 } else { last + 1 }
}

impl ProducerTable {
    pub fn len(&self) -> usize {
        self.producers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (i64, &ProducerState)> {
        self.producers.iter().map(|(id, state)| (*id, state))
    }

    pub(crate) fn insert(&mut self, id: i64, state: ProducerState) {
        self.producers.insert(id, state);
    }

    /// Judges a batch. `expired_before_ms`: a producer that was idle since before that is unknown.
    pub(crate) fn check(&self, b: &BatchInfo, expired_before_ms: i64) -> Verdict {
        if b.producer_id < 0 {
            return Verdict::Next;
        }
        let known =
            self.producers.get(&b.producer_id).filter(|p| p.last_append_ms >= expired_before_ms);
        let Some(state) = known else {
            return Verdict::Next;
        };
        if b.producer_epoch < state.epoch {
            return Verdict::Fenced { got: b.producer_epoch, current: state.epoch };
        }
        if b.producer_epoch > state.epoch {
            return if b.base_sequence == 0 {
                Verdict::Next
            } else {
                Verdict::OutOfOrder { got: b.base_sequence, expected: 0 }
            };
        }
        let same = |w: &&ProducedBatch| {
            w.first_sequence == b.base_sequence && w.last_sequence == b.last_sequence
        };
        if let Some(w) = state.batches.iter().find(same) {
            return Verdict::Duplicate { base_offset: w.base_offset, last_offset: w.last_offset };
        }
        match state.batches.back().map(|w| next_sequence(w.last_sequence)) {
            Some(expected) if expected != b.base_sequence => {
                Verdict::OutOfOrder { got: b.base_sequence, expected }
            }
            _ => Verdict::Next,
        }
    }

    /// Counts a batch that was judged [`Verdict::Next`] (or replayed).
    pub(crate) fn push(&mut self, b: &BatchInfo, wall_ms: i64) {
        if b.producer_id < 0 {
            return;
        }
        if !self.producers.contains_key(&b.producer_id)
            && self.producers.len() >= PRODUCERS_PER_PARTITION_MAX
        {
            self.evict_idlest();
        }
        let state = self.producers.entry(b.producer_id).or_insert_with(|| ProducerState {
            epoch: b.producer_epoch,
            last_append_ms: wall_ms,
            batches: VecDeque::new(),
        });
        if state.epoch != b.producer_epoch {
            state.epoch = b.producer_epoch;
            state.batches.clear();
        }
        // A producer that had expired may begin anywhere; what it wrote before no longer explains its sequences.
        if state.batches.back().is_some_and(|w| next_sequence(w.last_sequence) != b.base_sequence) {
            state.batches.clear();
        }
        if state.batches.len() == PRODUCER_BATCHES {
            state.batches.pop_front();
        }
        state.batches.push_back(ProducedBatch {
            first_sequence: b.base_sequence,
            last_sequence: b.last_sequence,
            base_offset: b.base_offset,
            last_offset: b.next_offset - 1,
        });
        state.last_append_ms = state.last_append_ms.max(wall_ms);
    }

    /// Drops producers that were idle since before `expired_before_ms`.
    pub(crate) fn expire(&mut self, expired_before_ms: i64) {
        self.producers.retain(|_, p| p.last_append_ms >= expired_before_ms);
    }

    fn evict_idlest(&mut self) {
        let idlest =
            self.producers.iter().min_by_key(|(id, p)| (p.last_append_ms, **id)).map(|(id, _)| *id);
        if let Some(id) = idlest {
            self.producers.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(epoch: i16, first: i32, last: i32, offset: i64) -> BatchInfo {
        BatchInfo {
            base_offset: offset,
            next_offset: offset + i64::from(last.wrapping_sub(first)) + 1,
            len: 100,
            base_timestamp: 0,
            max_timestamp: 0,
            producer_id: 9,
            producer_epoch: epoch,
            base_sequence: first,
            last_sequence: last,
            leader_epoch: 0,
        }
    }

    fn with(batches: &[BatchInfo]) -> ProducerTable {
        let mut t = ProducerTable::default();
        for b in batches {
            t.push(b, 1_000);
        }
        t
    }

    #[test]
    fn a_retry_of_each_of_the_last_five_batches_gets_its_first_offsets() {
        let all: Vec<_> = (0..7).map(|i| batch(0, i * 10, i * 10 + 9, i64::from(i) * 10)).collect();
        let t = with(&all);
        for b in &all[2..] {
            let want =
                Verdict::Duplicate { base_offset: b.base_offset, last_offset: b.next_offset - 1 };
            assert_eq!(t.check(b, 0), want);
        }
        assert_eq!(t.check(&all[0], 0), Verdict::OutOfOrder { got: 0, expected: 70 });
    }

    #[test]
    fn a_gap_is_refused_and_the_next_sequence_taken() {
        let t = with(&[batch(0, 0, 4, 0)]);
        assert_eq!(t.check(&batch(0, 7, 7, 5), 0), Verdict::OutOfOrder { got: 7, expected: 5 });
        assert_eq!(t.check(&batch(0, 5, 5, 5), 0), Verdict::Next);
    }

    #[test]
    fn sequences_wrap_after_the_largest() {
        let t = with(&[batch(0, i32::MAX, i32::MAX, 0)]);
        assert_eq!(t.check(&batch(0, 0, 3, 1), 0), Verdict::Next);
    }

    #[test]
    fn an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero() {
        let t = with(&[batch(3, 0, 4, 0)]);
        assert_eq!(t.check(&batch(2, 5, 5, 5), 0), Verdict::Fenced { got: 2, current: 3 });
        assert_eq!(t.check(&batch(4, 5, 5, 5), 0), Verdict::OutOfOrder { got: 5, expected: 0 });
        assert_eq!(t.check(&batch(4, 0, 0, 5), 0), Verdict::Next);
    }

    #[test]
    fn a_producer_that_rested_longer_than_the_expiry_may_begin_anywhere() {
        let t = with(&[batch(0, 0, 9, 0)]);
        assert_eq!(t.check(&batch(0, 55, 55, 10), 1_001), Verdict::Next);
        assert_eq!(
            t.check(&batch(0, 55, 55, 10), 1_000),
            Verdict::OutOfOrder { got: 55, expected: 10 }
        );
    }

    #[test]
    fn the_idlest_producer_goes_first_when_there_are_too_many() {
        let mut t = ProducerTable::default();
        for id in 0..=PRODUCERS_PER_PARTITION_MAX as i64 {
            t.push(&BatchInfo { producer_id: id, ..batch(0, 0, 0, id) }, id);
        }
        assert_eq!(t.len(), PRODUCERS_PER_PARTITION_MAX);
        assert!(!t.producers.contains_key(&0));
    }
}
