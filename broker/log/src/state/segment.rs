//! A segment's row in the segment table, and the coarse index of one that is not sealed.

use std::rc::Rc;

use rillway_wire::batch::BatchView;

use crate::entry::NewSegment;
use crate::limits::INDEX_INTERVAL;

/// Where a segment stands in its life: ACTIVE takes appends; ROLLED takes no more and waits for its SEAL; SEALED is
/// final, has its `.meta`, and may be deleted by retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentStatus {
    Active,
    Rolled,
    Sealed,
}

/// What the log needs to know of one batch, from its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchInfo {
    pub base_offset: i64,
    pub next_offset: i64,
    pub len: u32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub last_sequence: i32,
    pub leader_epoch: i32,
}

impl BatchInfo {
    pub(crate) fn of(b: &BatchView<'_>) -> BatchInfo {
        BatchInfo {
            base_offset: b.base_offset(),
            next_offset: b.next_offset(),
            len: u32::try_from(b.total_len()).expect("a batch's length field is an i32"),
            base_timestamp: b.base_timestamp(),
            max_timestamp: b.max_timestamp(),
            producer_id: b.producer_id(),
            producer_epoch: b.producer_epoch(),
            base_sequence: b.base_sequence(),
            last_sequence: b.last_sequence(),
            leader_epoch: b.leader_epoch(),
        }
    }
}

/// One entry of a coarse index: a batch begins at `position`, and nothing before it is newer than `max_timestamp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    pub position: u64,
    pub base_offset: i64,
    pub max_timestamp: i64,
}

/// One row of the segment table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentState {
    pub base: i64,
    /// Offset after the last flushed record.
    pub end: i64,
    pub status: SegmentStatus,
    pub compaction: u32,
    /// Flushed bytes.
    pub length: u64,
    /// Bytes that are durable in the segment file: whole blocks, or all of a sealed one.
    pub durable: u64,
    pub first_append_ms: i64,
    pub last_append_ms: i64,
    pub first_timestamp: i64,
    pub max_timestamp: i64,
    /// Base offset of the batch with the largest timestamp (the first such batch).
    pub max_timestamp_offset: i64,
    pub meta_crc: u32,
    /// When the first of its tombstones may go, in ms (KIP-534); -1: it has none whose time is running.
    pub horizon_ms: i64,
    /// Empty once sealed: then it is in `.meta`. Shared with whoever is reading, who need not copy it.
    pub index: Rc<Vec<IndexEntry>>,
}

/// Names one file of a segment: its base offset, and how often it was compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentKey {
    pub base: i64,
    pub compaction: u32,
}

impl SegmentKey {
    /// The segment as it was appended to.
    pub(crate) fn written(base: i64) -> SegmentKey {
        SegmentKey { base, compaction: 0 }
    }
}

/// No timestamp: what an empty segment, and a record without one, has.
pub(crate) const NO_TIMESTAMP: i64 = -1;

impl From<&NewSegment> for SegmentState {
    fn from(n: &NewSegment) -> SegmentState {
        SegmentState {
            end: n.end,
            status: SegmentStatus::Sealed,
            compaction: n.compaction,
            length: n.length,
            durable: n.length,
            first_append_ms: n.first_append_ms,
            last_append_ms: n.last_append_ms,
            first_timestamp: n.first_timestamp,
            max_timestamp: n.max_timestamp,
            max_timestamp_offset: n.max_timestamp_offset,
            meta_crc: n.meta_crc,
            horizon_ms: n.horizon_ms,
            ..SegmentState::new(n.base)
        }
    }
}

impl SegmentState {
    pub(crate) fn new(base: i64) -> SegmentState {
        SegmentState {
            base,
            end: base,
            status: SegmentStatus::Active,
            compaction: 0,
            length: 0,
            durable: 0,
            first_append_ms: NO_TIMESTAMP,
            last_append_ms: NO_TIMESTAMP,
            first_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
            max_timestamp_offset: NO_TIMESTAMP,
            meta_crc: 0,
            horizon_ms: NO_TIMESTAMP,
            index: Rc::default(),
        }
    }

    /// Which file it is.
    pub(crate) fn key(&self) -> SegmentKey {
        SegmentKey { base: self.base, compaction: self.compaction }
    }

    /// Counts a batch that is flushed at the segment's end.
    pub(crate) fn push(&mut self, batch: &BatchInfo, wall_ms: i64) {
        assert_eq!(batch.base_offset, self.end, "batches are dense");
        self.push_sparse(batch, wall_ms);
    }

    /// Counts a batch that compaction keeps: offsets before it may be gone.
    pub(crate) fn push_sparse(&mut self, batch: &BatchInfo, wall_ms: i64) {
        assert!(batch.base_offset >= self.end, "batches are in order");
        let due =
            self.index.last().is_none_or(|last| self.length - last.position >= INDEX_INTERVAL);
        if due {
            Rc::make_mut(&mut self.index).push(IndexEntry {
                position: self.length,
                base_offset: batch.base_offset,
                max_timestamp: self.max_timestamp,
            });
        }
        if self.length == 0 {
            self.first_append_ms = wall_ms;
            self.first_timestamp = batch.base_timestamp;
        }
        self.last_append_ms = self.last_append_ms.max(wall_ms);
        if batch.max_timestamp > self.max_timestamp {
            self.max_timestamp = batch.max_timestamp;
            self.max_timestamp_offset = batch.base_offset;
        }
        self.length += u64::from(batch.len);
        self.end = batch.next_offset;
    }

    /// The last index entry at or before `offset`.
    pub fn floor(index: &[IndexEntry], offset: i64) -> Option<IndexEntry> {
        let at = index.partition_point(|e| e.base_offset <= offset);
        at.checked_sub(1).map(|at| index[at])
    }

    /// Age for retention by time: the largest timestamp, or the last append where no record has one.
    pub fn retention_ms(&self) -> i64 {
        if self.max_timestamp >= 0 { self.max_timestamp } else { self.last_append_ms }
    }
}
