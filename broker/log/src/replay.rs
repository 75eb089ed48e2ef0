//! The replay of a ring's frames over its newest checkpoint (FORMAT.md 3.3, 4), without reading anything: whoever has the
//! bytes hands frames in, in their order. Recovery does so at a start, [`crate::inspect`] for who looks from outside, so
//! that both believe the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rillway_wire::batch::{BatchView, batches};

use crate::checkpoint::{Checkpoint, Deletion};
use crate::directory::{log_file, partition_dir};
use crate::entry::{Entry, ExtentEntry};
use crate::error::{Error, Result};
use crate::frame::{Expected, FrameHeader};
use crate::ids::{PartitionId, Sequence};
use crate::limits::frame_bytes_max;
use crate::state::{
    BatchInfo, Change, Mismatch, PartitionState, ProducerTable, SegmentKey, SegmentStatus,
};
use crate::storage::RingRef;
use crate::tail::{Tail, recorded};

/// One partition, with the bytes that are not durable in its segments.
pub(crate) struct RecoveredPartition {
    pub state: PartitionState,
    /// By segment base; one for each unsealed segment.
    pub tails: BTreeMap<i64, Tail>,
}

impl RecoveredPartition {
    /// Writes the partition record (FORMAT.md 4).
    pub(crate) fn put(&self, body: &mut Vec<u8>) {
        self.state.put(|s| recorded(&self.tails, s), body);
    }

    fn tail(&mut self, base: i64) -> &mut Tail {
        self.tails.entry(base).or_insert_with(|| Tail::new(0))
    }
}

/// What a ring held.
#[derive(Default)]
pub(crate) struct Recovered {
    /// With the place (core) of the ring that held it.
    pub partitions: BTreeMap<PartitionId, (usize, RecoveredPartition)>,
    pub deletions: Vec<Deletion>,
    pub next_producer_id: i64,
}

impl Recovered {
    /// Adds what another ring held. Of two states of one partition the higher generation wins.
    pub(crate) fn absorb(&mut self, other: Recovered, core: usize) {
        for (id, (_, p)) in other.partitions {
            let newer = self
                .partitions
                .get(&id)
                .is_none_or(|(_, known)| known.state.generation < p.state.generation);
            if newer {
                self.partitions.insert(id, (core, p));
            }
        }
        self.deletions.extend(other.deletions);
        self.next_producer_id = self.next_producer_id.max(other.next_producer_id);
    }
}

/// The replay of one ring.
pub(crate) struct Replay {
    /// The ring's file, for errors.
    path: PathBuf,
    pub expected: Expected,
    /// Where the next frame is looked for first.
    pub position: u64,
    /// Sequence, position and length of each frame that was applied.
    pub used: Vec<(Sequence, u64, u64)>,
    pub recovered: Recovered,
    /// Up to which frame the checkpoint's record of a partition is complete.
    complete: BTreeMap<PartitionId, Sequence>,
    /// Entries of partitions that nobody knows: legal only if a DELETE or MOVE follows.
    orphans: BTreeMap<PartitionId, u64>,
}

impl Replay {
    pub(crate) fn new(reference: &RingRef, path: PathBuf, checkpoint: Checkpoint<'_>) -> Replay {
        let header = checkpoint.header;
        let mut recovered = Recovered {
            deletions: checkpoint.deletions,
            next_producer_id: header.next_producer_id,
            ..Default::default()
        };
        let mut complete = BTreeMap::new();
        for record in checkpoint.partitions {
            let state = record.state;
            let mut tails = BTreeMap::new();
            for (segment, bytes) in state.segments.iter().zip(record.tails) {
                if segment.status != SegmentStatus::Sealed {
                    let mut tail = Tail::new(segment.durable);
                    tail.extend(bytes);
                    tails.insert(segment.base, tail);
                }
            }
            complete.insert(state.id, state.applied);
            recovered.partitions.insert(state.id, (0, RecoveredPartition { state, tails }));
        }
        Replay {
            path,
            expected: Expected {
                ring: reference.id,
                salt: reference.salt,
                sequence: header.replay_sequence,
                previous_crc: header.previous_crc,
                frame_bytes_max: frame_bytes_max(reference.bytes),
            },
            position: header.replay_position,
            used: Vec::new(),
            recovered,
            complete,
            orphans: BTreeMap::new(),
        }
    }

    /// What is expected behind a frame.
    pub(crate) fn behind(&self, header: &FrameHeader, crc: u32) -> Expected {
        Expected { sequence: header.sequence.next(), previous_crc: crc, ..self.expected }
    }

    /// Applies the expected frame, which stands at `position`.
    pub(crate) fn apply_frame(
        &mut self,
        position: u64,
        header: &FrameHeader,
        crc: u32,
        list: &[Entry<'_>],
    ) -> Result<()> {
        assert_eq!(header.sequence, self.expected.sequence, "frames are replayed in their order");
        for entry in list {
            self.apply_entry(entry, header, position)?;
        }
        self.used.push((header.sequence, position, header.frame_len()));
        self.position = position + header.frame_len();
        self.expected = self.behind(header, crc);
        Ok(())
    }

    /// The extents of a frame that is about to be applied, with the files that they stand in. Files of a partition that
    /// the same frame deletes may be gone by right.
    pub(crate) fn extents<'a>(
        &self,
        dir: &Path,
        list: &'a [Entry<'a>],
    ) -> Vec<(PathBuf, &'a ExtentEntry<'a>)> {
        let mut all = Vec::new();
        for (n, e) in list.iter().enumerate() {
            let Entry::Extent(e) = e else { continue };
            let gone = |later: &Entry<'_>| {
                matches!(later, Entry::Delete { partition } | Entry::Move { partition, .. }
                    if partition.id == e.partition.id)
            };
            if list[n..].iter().any(gone) {
                continue;
            }
            let Some((_, p)) = self.recovered.partitions.get(&e.partition.id) else { continue };
            let dir = partition_dir(dir, &p.state.topic, e.partition.id.index);
            all.push((dir.join(log_file(e.segment, 0)), e));
        }
        all
    }

    /// Where the log ends, every entry must have had its partition.
    pub(crate) fn check_orphans(&self) -> Result<()> {
        match self.orphans.first_key_value() {
            None => Ok(()),
            Some((id, position)) => Err(Error::corrupt(
                &self.path,
                *position,
                "partition of an entry",
                id,
                "one that was created before, or is deleted later",
            )),
        }
    }

    fn corrupt(&self, position: u64, m: Mismatch) -> Error {
        Error::corrupt(&self.path, position, m.what, m.got, m.expected)
    }

    fn apply_entry(
        &mut self,
        entry: &Entry<'_>,
        header: &FrameHeader,
        position: u64,
    ) -> Result<()> {
        let Some(partition) = entry.partition() else {
            if let Entry::ProducerIds { next } = entry {
                self.recovered.next_producer_id = self.recovered.next_producer_id.max(*next);
            }
            return Ok(());
        };
        let id = partition.id;
        if self.complete.get(&id).is_some_and(|complete| *complete >= header.sequence) {
            return Ok(());
        }
        match entry {
            Entry::Create { log_start, topic, .. } => {
                let state = PartitionState::new(partition, topic, *log_start, header.sequence);
                let tails = BTreeMap::from([(*log_start, Tail::new(0))]);
                self.recovered.partitions.insert(id, (0, RecoveredPartition { state, tails }));
                return Ok(());
            }
            Entry::Delete { .. } | Entry::Move { .. } => {
                self.orphans.remove(&id);
                if let Some((_, gone)) = self.recovered.partitions.remove(&id)
                    && matches!(entry, Entry::Delete { .. })
                {
                    let directory = format!("{}-{}", gone.state.topic, id.index);
                    self.recovered.deletions.push(Deletion { partition, directory });
                }
                return Ok(());
            }
            _ => {}
        }
        let Some((_, known)) = self.recovered.partitions.get_mut(&id) else {
            self.orphans.entry(id).or_insert(position);
            return Ok(());
        };
        if partition.generation != known.state.generation {
            let (got, want) = (partition.generation.0, known.state.generation.0);
            return if got < want {
                Ok(())
            } else {
                Err(Error::corrupt(&self.path, position, "generation of an entry", got, want))
            };
        }
        let result = replay_entry(known, entry, header);
        result.map_err(|m| self.corrupt(position, m))
    }
}

/// An entry of a known partition: its change to the state, and its bytes to the tail.
fn replay_entry(
    p: &mut RecoveredPartition,
    entry: &Entry<'_>,
    header: &FrameHeader,
) -> std::result::Result<(), Mismatch> {
    let (change, bytes) = change_of(entry)?;
    p.state.apply(&change, header.wall_ms, header.sequence)?;
    match (&change, entry) {
        (Change::Append { segment, .. }, _) => {
            p.tail(*segment).extend(bytes);
        }
        (Change::Extent { segment, position, length, .. }, _) => {
            let mut tail = Tail::new(position + length);
            tail.extend(bytes);
            p.tails.insert(*segment, tail);
        }
        (Change::Roll { next, .. }, _) => {
            p.tails.insert(*next, Tail::new(0));
        }
        (Change::Seal { segment, .. }, _) => {
            p.tails.remove(segment);
        }
        (Change::Truncate { segment, length, .. }, Entry::Truncate { tail, .. }) => {
            let base = *segment;
            p.tails.retain(|b, _| *b <= base);
            let durable = p.state.active().durable;
            let held =
                p.tails.get(&base).is_some_and(|t| t.start() <= durable && t.end() >= *length);
            if held {
                p.tail(base).truncate(*length);
            } else {
                let mut fresh = Tail::new(durable);
                fresh.extend(tail);
                p.tails.insert(base, fresh);
            }
        }
        // The tail of a sealed segment went with its SEAL.
        (
            Change::Truncate { .. }
            | Change::Replace { .. }
            | Change::LogStart { .. }
            | Change::Epoch { .. },
            _,
        ) => {}
    }
    Ok(())
}

/// What an entry changes, and the bytes that it brings.
fn change_of<'a>(entry: &Entry<'a>) -> std::result::Result<(Change, &'a [u8]), Mismatch> {
    let none: &[u8] = &[];
    Ok(match entry {
        Entry::Append { segment, position, batches: bytes, .. } => {
            let mut infos = Vec::new();
            for b in batches(bytes) {
                let b = b.map_err(|e| malformed(&e))?;
                if !b.check_crc() {
                    return Err(mismatch(
                        "CRC of a batch",
                        format!("offset {}", b.base_offset()),
                        "one that fits",
                    ));
                }
                infos.push(BatchInfo::of(&b));
            }
            (Change::Append { segment: *segment, position: *position, batches: infos }, bytes)
        }
        Entry::Extent(ExtentEntry { segment, position, length, headers, tail, .. }) => {
            let infos = headers
                .iter()
                .map(|h| {
                    BatchView::parse_header(h).map(|b| BatchInfo::of(&b)).map_err(|e| malformed(&e))
                })
                .collect::<std::result::Result<Vec<_>, _>>()?;
            (
                Change::Extent {
                    segment: *segment,
                    position: *position,
                    length: *length,
                    batches: infos,
                },
                tail,
            )
        }
        Entry::Roll { ended, length, next, .. } => {
            (Change::Roll { ended: *ended, length: *length, next: *next }, none)
        }
        Entry::Seal { segment, length, meta_crc, .. } => {
            (Change::Seal { segment: *segment, length: *length, meta_crc: *meta_crc }, none)
        }
        Entry::LogStart { offset, .. } => (Change::LogStart { offset: *offset }, none),
        Entry::Epoch { epoch, start, .. } => (Change::Epoch { epoch: *epoch, start: *start }, none),
        Entry::Truncate { end, segment, length, tail, producers, .. } => {
            let table = ProducerTable::take(&mut crate::bytes::Take::new(producers))
                .map_err(|m| Mismatch { what: m.what, got: m.got, expected: m.expected })?;
            (
                Change::Truncate {
                    end: *end,
                    segment: *segment,
                    length: *length,
                    producers: table,
                },
                tail,
            )
        }
        Entry::Replace { clean_end, old, new, .. } => {
            let old = old
                .iter()
                .map(|(base, compaction)| SegmentKey { base: *base, compaction: *compaction });
            let change =
                Change::Replace { clean_end: *clean_end, old: old.collect(), new: new.clone() };
            (change, none)
        }
        Entry::ProducerIds { .. }
        | Entry::Create { .. }
        | Entry::Delete { .. }
        | Entry::Move { .. } => {
            unreachable!("these change the set of partitions and are handled before")
        }
    })
}

fn mismatch(what: &'static str, got: impl ToString, expected: impl ToString) -> Mismatch {
    Mismatch { what, got: got.to_string(), expected: expected.to_string() }
}

fn malformed(e: &rillway_wire::batch::BatchError) -> Mismatch {
    mismatch("batch", e, "a record batch")
}
