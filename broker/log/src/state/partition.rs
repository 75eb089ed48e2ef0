//! One partition, as flushed entries tell it.

use crate::entry::PartitionRef;
use crate::ids::{Generation, PartitionId, Sequence};
use crate::state::{EpochMap, ProducerTable, SegmentKey, SegmentState, SegmentStatus};

/// Flushed state of one partition. `log_start <= end`; the segments are ordered by base offset, dense, and the last
/// one is the only one that is active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionState {
    pub id: PartitionId,
    pub generation: Generation,
    pub topic: String,
    /// Frames up to this one are in here.
    pub applied: Sequence,
    pub log_start: i64,
    /// Offset after the last flushed record: the high watermark of a node that is alone.
    pub end: i64,
    /// Compaction has seen everything below: no key has two records there. Up to the active segment.
    pub clean_end: i64,
    pub epochs: EpochMap,
    pub segments: Vec<SegmentState>,
    pub producers: ProducerTable,
}

impl PartitionState {
    pub(crate) fn new(
        partition: PartitionRef,
        topic: &str,
        log_start: i64,
        applied: Sequence,
    ) -> PartitionState {
        PartitionState {
            id: partition.id,
            generation: partition.generation,
            topic: topic.to_owned(),
            applied,
            log_start,
            end: log_start,
            clean_end: log_start,
            epochs: EpochMap::default(),
            segments: vec![SegmentState::new(log_start)],
            producers: ProducerTable::default(),
        }
    }

    pub fn reference(&self) -> PartitionRef {
        PartitionRef { id: self.id, generation: self.generation }
    }

    /// The segment that takes appends.
    pub fn active(&self) -> &SegmentState {
        self.segments.last().expect("a partition has an active segment, always")
    }

    pub(crate) fn active_mut(&mut self) -> &mut SegmentState {
        self.segments.last_mut().expect("a partition has an active segment, always")
    }

    pub fn segment(&self, base: i64) -> Option<&SegmentState> {
        self.segments.binary_search_by_key(&base, |s| s.base).ok().map(|at| &self.segments[at])
    }

    pub(crate) fn segment_mut(&mut self, base: i64) -> Option<&mut SegmentState> {
        self.segments.binary_search_by_key(&base, |s| s.base).ok().map(|at| &mut self.segments[at])
    }

    /// Whether the table has this segment, and in this form.
    pub(crate) fn has(&self, key: SegmentKey) -> bool {
        self.segment(key.base).is_some_and(|s| s.key() == key)
    }

    /// The segment that holds `offset`, or would.
    pub fn segment_of(&self, offset: i64) -> Option<&SegmentState> {
        let at = self.segments.partition_point(|s| s.base <= offset);
        at.checked_sub(1).map(|at| &self.segments[at])
    }

    /// What must hold after every change; a violation is a bug and never input.
    pub(crate) fn check(&self) {
        assert!(
            self.log_start <= self.end,
            "{}: log start {} above end {}",
            self.id,
            self.log_start,
            self.end
        );
        for w in self.segments.windows(2) {
            assert!(
                w[0].end == w[1].base,
                "{}: segments {} and {} are not dense",
                self.id,
                w[0].base,
                w[1].base
            );
            assert!(
                w[0].status != SegmentStatus::Active,
                "{}: segment {} is active and not last",
                self.id,
                w[0].base
            );
        }
        let active = self.active();
        assert!(
            active.status == SegmentStatus::Active,
            "{}: the last segment is not active",
            self.id
        );
        assert!(
            active.end == self.end,
            "{}: active segment ends at {}, log at {}",
            self.id,
            active.end,
            self.end
        );
        assert!(
            self.clean_end <= active.base,
            "{}: clean up to {}, the active segment begins at {}",
            self.id,
            self.clean_end,
            active.base
        );
        for s in &self.segments {
            assert!(
                s.durable <= s.length,
                "{}: segment {} durable beyond its length",
                self.id,
                s.base
            );
        }
    }
}
