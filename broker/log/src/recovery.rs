//! From a ring's files to the state that was flushed: newest valid checkpoint, then frames in order, up to the place
//! where the log ends (FORMAT.md 3.3, 4). Reads the ring, never the segments, except the last frame's extents.
//!
//! Nothing is written here. `store.rs` makes what was read durable again before it serves any of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rillway_io::{Chunk, DirectFile, Disk, OpenOptions, Runtime};
use rillway_wire::batch::{BatchView, batches};

use crate::checkpoint::{CheckpointHeader, CheckpointRead, Deletion, read_checkpoint};
use crate::directory::{log_file, partition_dir};
use crate::entry::{Entry, ExtentEntry, entries};
use crate::error::{Error, Result};
use crate::frame::{Expected, FrameHeader, FrameRead, read_frame};
use crate::ids::{PartitionId, Sequence};
use crate::limits::{BLOCK, frame_bytes_max};
use crate::ring::Ring;
use crate::rings::{FRAMES_START, check_header, checkpoint_path, ring_path};
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

/// A ring, read to its end.
pub(crate) struct RingRecovery {
    pub ring: Ring,
    pub recovered: Recovered,
    /// Both checkpoint files, locked.
    pub checkpoints: [DirectFile; 2],
    /// Which of the two checkpoint files is the older: the next one goes there.
    pub next_slot: usize,
    pub clean: bool,
    pub replayed: u64,
    /// Frames that were begun and never finished: 0 or 1.
    pub torn: u64,
}

/// Reads ring and checkpoints.
pub(crate) async fn recover(
    rt: &Runtime,
    reference: &RingRef,
    lock_wait: Duration,
) -> Result<RingRecovery> {
    let disk = rt.disk();
    let path = ring_path(&reference.dir, reference.id);
    let options = OpenOptions { write: true, dsync: true, ..Default::default() };
    let file = disk.open(&path, options).await?;
    Ring::lock(&file, lock_wait).await?;
    check_header(&path, reference, &file.read_at(0, BLOCK).await?)?;
    // A ring that was cut would look like one whose log ended early.
    let len = file.len().await?;
    if len != reference.bytes {
        return Err(Error::corrupt(
            &path,
            len.min(reference.bytes),
            "length of a ring",
            len,
            reference.bytes,
        ));
    }

    // Locked through the descriptors that will write them, for the same reason as the ring: a write of the life before
    // that landed later would tear a newer checkpoint.
    let checkpoints =
        [open_checkpoint(&disk, reference, 0).await?, open_checkpoint(&disk, reference, 1).await?];
    for file in &checkpoints {
        Ring::lock(file, lock_wait).await?;
    }
    let (checkpoint, slot, bytes) = newest_checkpoint(&checkpoints, reference).await?;
    make_durable(&checkpoints[slot], &bytes).await?;
    let mut replay = Replay::new(reference, path, &bytes, &checkpoint)?;
    let mut reader =
        RingReader { file: file.clone(), len: reference.bytes, position: 0, window: None };
    while let Some(at) = replay.find_next(&mut reader).await? {
        if !replay.apply_frame(rt, &mut reader, at).await? {
            break;
        }
    }
    replay.check_end(&mut reader).await?;
    let torn = u64::from(replay.torn(&mut reader).await?);
    let replayed = replay.used.len() as u64;
    let ring = Ring::new(
        reference.clone(),
        file,
        replay.position,
        replay.expected.sequence,
        replay.expected.previous_crc,
        checkpoint.number,
        replay.used,
    );
    Ok(RingRecovery {
        ring,
        checkpoints,
        recovered: replay.recovered,
        next_slot: 1 - slot,
        clean: checkpoint.clean,
        replayed,
        torn,
    })
}

/// The valid checkpoint with the higher number, its slot and its file's bytes.
async fn newest_checkpoint(
    files: &[DirectFile; 2],
    ring: &RingRef,
) -> Result<(CheckpointHeader, usize, Vec<u8>)> {
    let mut best: Option<(CheckpointHeader, usize, Vec<u8>)> = None;
    let mut reasons = Vec::new();
    for (slot, file) in files.iter().enumerate() {
        let path = checkpoint_path(&ring.dir, ring.id, slot);
        let bytes = read_all(file).await?;
        match read_checkpoint(&path, ring, &bytes)? {
            CheckpointRead::Valid(c) => {
                let header = c.header;
                if best.as_ref().is_none_or(|(known, _, _)| known.number < header.number) {
                    best = Some((header, slot, bytes));
                }
            }
            CheckpointRead::Invalid(m) => reasons.push(format!("{}: {}", path.display(), m.what)),
        }
    }
    best.ok_or_else(|| {
        let path = checkpoint_path(&ring.dir, ring.id, 0);
        Error::corrupt(&path, 0, "both checkpoints", reasons.join("; "), "one that is valid")
    })
}

async fn open_checkpoint(disk: &Disk, ring: &RingRef, slot: usize) -> Result<DirectFile> {
    let options = OpenOptions { write: true, create: true, ..Default::default() };
    Ok(disk.open(&checkpoint_path(&ring.dir, ring.id, slot), options).await?)
}

/// Writes a checkpoint over itself and flushes it. It was read, but its own flush may have failed, or never begun, and
/// the other file is about to be overwritten: then nothing would be left of either if the power went.
async fn make_durable(file: &DirectFile, bytes: &[u8]) -> Result<()> {
    let blocks = bytes.len() - bytes.len() % BLOCK;
    for (n, piece) in bytes[..blocks].chunks(1 << 20).enumerate() {
        file.write_at(Chunk::copy_from(piece), (n as u64) << 20).await?;
    }
    Ok(file.fdatasync().await?)
}

async fn read_all(file: &DirectFile) -> Result<Vec<u8>> {
    let len = file.len().await?;
    let mut out = Vec::with_capacity(len as usize);
    while (out.len() as u64) < len {
        let chunk = file.read_at(out.len() as u64, (1 << 20).min(len as usize - out.len())).await?;
        if chunk.is_empty() {
            break;
        }
        out.extend_from_slice(&chunk);
    }
    Ok(out)
}

/// Reads a ring in pieces of 1 MiB, so that small frames do not cost a read each.
struct RingReader {
    file: DirectFile,
    len: u64,
    position: u64,
    window: Option<Chunk>,
}

impl RingReader {
    const WINDOW: u64 = 1 << 20;

    /// `len` bytes at `position`, fewer at the ring's end.
    async fn bytes(&mut self, position: u64, len: usize) -> Result<Chunk> {
        let end = (position + len as u64).min(self.len);
        if end <= position {
            return Ok(Chunk::copy_from(&[]));
        }
        let held = |w: &Chunk, at: u64| position >= at && end <= at + w.len() as u64;
        if !self.window.as_ref().is_some_and(|w| held(w, self.position)) {
            let want = (end - position).max(Self::WINDOW).min(self.len - position);
            self.window = Some(self.file.read_at(position, want as usize).await?);
            self.position = position;
        }
        let window = self.window.as_ref().expect("just read");
        let from = (position - self.position) as usize;
        let to = ((end - self.position) as usize).min(window.len());
        Ok(window.slice(from.min(to)..to))
    }
}

/// The replay of one ring.
struct Replay {
    path: PathBuf,
    dir: PathBuf,
    expected: Expected,
    /// Where the next frame is looked for first.
    position: u64,
    used: Vec<(Sequence, u64, u64)>,
    recovered: Recovered,
    /// Up to which frame the checkpoint's record of a partition is complete.
    complete: BTreeMap<PartitionId, Sequence>,
    /// Entries of partitions that nobody knows: legal only if a DELETE or MOVE follows.
    orphans: BTreeMap<PartitionId, u64>,
}

impl Replay {
    fn new(
        reference: &RingRef,
        path: PathBuf,
        bytes: &[u8],
        header: &CheckpointHeader,
    ) -> Result<Replay> {
        let CheckpointRead::Valid(checkpoint) = read_checkpoint(&path, reference, bytes)? else {
            unreachable!("the same bytes were valid a moment ago");
        };
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
        Ok(Replay {
            path,
            dir: reference.dir.clone(),
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
        })
    }

    /// Where the expected frame stands, if it does: at its place, or at the start.
    async fn find_next(&self, reader: &mut RingReader) -> Result<Option<u64>> {
        for position in [self.position, FRAMES_START] {
            let mut bytes = reader.bytes(position, BLOCK).await?;
            if let FrameRead::NeedBytes(n) = read_frame(&self.expected, &bytes) {
                bytes = reader.bytes(position, n).await?;
            }
            if let FrameRead::Valid { .. } = read_frame(&self.expected, &bytes) {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    /// Applies the frame at `position`; false if its extents are torn, which ends the log before it.
    async fn apply_frame(
        &mut self,
        rt: &Runtime,
        reader: &mut RingReader,
        position: u64,
    ) -> Result<bool> {
        let first = reader.bytes(position, BLOCK).await?;
        let Some((header, _)) = FrameHeader::decode(self.expected.salt, &first) else {
            unreachable!("the frame was valid a moment ago");
        };
        let bytes = reader.bytes(position, header.frame_len() as usize).await?;
        let FrameRead::Valid { header, crc, payload } = read_frame(&self.expected, &bytes) else {
            unreachable!("the frame was valid a moment ago");
        };
        let list = entries(payload, header.entries).map_err(|m| {
            Error::corrupt(&self.path, position + 64 + m.at as u64, m.what, m.got, m.expected)
        })?;
        let next =
            Expected { sequence: header.sequence.next(), previous_crc: crc, ..self.expected };
        if list.iter().any(|e| matches!(e, Entry::Extent(_))) {
            let ahead =
                Replay { expected: next, position: position + header.frame_len(), ..self.empty() };
            if ahead.find_next(reader).await?.is_none() && !self.extents_whole(rt, &list).await? {
                return Ok(false);
            }
        }
        for entry in &list {
            self.apply_entry(entry, &header, position)?;
        }
        self.used.push((header.sequence, position, header.frame_len()));
        self.position = position + header.frame_len();
        self.expected = next;
        Ok(true)
    }

    fn empty(&self) -> Replay {
        Replay {
            path: self.path.clone(),
            dir: self.dir.clone(),
            expected: self.expected,
            position: self.position,
            used: Vec::new(),
            recovered: Recovered::default(),
            complete: BTreeMap::new(),
            orphans: BTreeMap::new(),
        }
    }

    async fn extents_whole(&self, rt: &Runtime, list: &[Entry<'_>]) -> Result<bool> {
        for (n, e) in list.iter().enumerate() {
            let Entry::Extent(e) = e else { continue };
            // Its files may be gone by right: the DELETE behind it is in the same frame.
            let gone = |later: &Entry<'_>| {
                matches!(later, Entry::Delete { partition } | Entry::Move { partition, .. }
                    if partition.id == e.partition.id)
            };
            if list[n..].iter().any(gone) {
                continue;
            }
            let Some((_, p)) = self.recovered.partitions.get(&e.partition.id) else { continue };
            let dir = partition_dir(&self.dir, &p.state.topic, e.partition.id.index);
            let path = dir.join(log_file(e.segment, 0));
            let file = match rt.disk().open(&path, OpenOptions::new()).await {
                Ok(file) => file,
                Err(err) if err.is_not_found() => return Ok(false),
                Err(err) => return Err(err.into()),
            };
            let mut crc = 0;
            let mut at = 0;
            while at < e.length {
                let chunk =
                    file.read_at(e.position + at, (1 << 20).min((e.length - at) as usize)).await?;
                if chunk.is_empty() {
                    return Ok(false);
                }
                crc = crc32c::crc32c_append(crc, &chunk);
                at += chunk.len() as u64;
            }
            if crc != e.crc {
                return Ok(false);
            }
        }
        Ok(true)
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

    /// Whether the header of the frame that was looked for stands there, without the rest of it.
    async fn torn(&self, reader: &mut RingReader) -> Result<bool> {
        for position in [self.position, FRAMES_START] {
            let bytes = reader.bytes(position, BLOCK).await?;
            let header = FrameHeader::decode(self.expected.salt, &bytes);
            if header.is_some_and(|(h, _)| {
                h.ring == self.expected.ring && h.sequence == self.expected.sequence
            }) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Nothing valid follows. Is this where the log ended, or has something rotted?
    async fn check_end(&self, reader: &mut RingReader) -> Result<()> {
        if let Some((id, position)) = self.orphans.first_key_value() {
            return Err(Error::corrupt(
                &self.path,
                *position,
                "partition of an entry",
                id,
                "one that was created before, or is deleted later",
            ));
        }
        let span = self.expected.frame_bytes_max as u64;
        for start in [self.position, FRAMES_START] {
            let mut position = start;
            while position < (start + span).min(reader.len) {
                let bytes = reader.bytes(position, BLOCK).await?;
                if let Some((header, _)) = FrameHeader::decode(self.expected.salt, &bytes)
                    && header.ring == self.expected.ring
                    && header.sequence > self.expected.sequence
                {
                    return Err(Error::corrupt(
                        &self.path,
                        self.position,
                        "frame",
                        format!(
                            "none that is valid, but frame {} at byte {position}",
                            header.sequence.0
                        ),
                        format!("frame {}", self.expected.sequence.0),
                    ));
                }
                position += BLOCK as u64;
            }
        }
        Ok(())
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
