//! From a ring's files to the state that was flushed: newest valid checkpoint, then frames in order, up to the place
//! where the log ends (FORMAT.md 3.3, 4). Reads the ring, never the segments, except the last frame's extents.
//!
//! Nothing is written here. `store.rs` makes what was read durable again before it serves any of it.

use std::path::PathBuf;
use std::time::Duration;

use rillway_io::{Chunk, DirectFile, Disk, OpenOptions, Runtime};

use crate::checkpoint::{CheckpointHeader, CheckpointRead, read_checkpoint};
use crate::entry::{Entry, entries};
use crate::error::{Error, Result};
use crate::frame::{Expected, FrameHeader, FrameRead, read_frame};
use crate::limits::BLOCK;
use crate::replay::{Recovered, Replay};
use crate::ring::Ring;
use crate::rings::{FRAMES_START, check_header, checkpoint_path, ring_path};
use crate::storage::RingRef;

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
    let CheckpointRead::Valid(read) = read_checkpoint(&path, reference, &bytes)? else {
        unreachable!("the same bytes were valid a moment ago");
    };
    let mut replay = Replay::new(reference, path.clone(), read);
    let mut reader = RingReader {
        file: file.clone(),
        path,
        dir: reference.dir.clone(),
        len: reference.bytes,
        position: 0,
        window: None,
    };
    while let Some(at) = reader.find_next(&replay.expected, replay.position).await? {
        if !reader.apply_frame(rt, &mut replay, at).await? {
            break;
        }
    }
    reader.check_end(&replay).await?;
    let torn = u64::from(reader.torn(&replay).await?);
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
    path: PathBuf,
    /// The data directory, where extents lie.
    dir: PathBuf,
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

    /// Where the expected frame stands, if it does: at its place, or at the start.
    async fn find_next(&mut self, expected: &Expected, position: u64) -> Result<Option<u64>> {
        for position in [position, FRAMES_START] {
            let mut bytes = self.bytes(position, BLOCK).await?;
            if let FrameRead::NeedBytes(n) = read_frame(expected, &bytes) {
                bytes = self.bytes(position, n).await?;
            }
            if let FrameRead::Valid { .. } = read_frame(expected, &bytes) {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    /// Applies the frame at `position`; false if its extents are torn, which ends the log before it.
    async fn apply_frame(
        &mut self,
        rt: &Runtime,
        replay: &mut Replay,
        position: u64,
    ) -> Result<bool> {
        let first = self.bytes(position, BLOCK).await?;
        let Some((header, _)) = FrameHeader::decode(replay.expected.salt, &first) else {
            unreachable!("the frame was valid a moment ago");
        };
        let bytes = self.bytes(position, header.frame_len() as usize).await?;
        let FrameRead::Valid { header, crc, payload } = read_frame(&replay.expected, &bytes) else {
            unreachable!("the frame was valid a moment ago");
        };
        let list = entries(payload, header.entries).map_err(|m| {
            Error::corrupt(&self.path, position + 64 + m.at as u64, m.what, m.got, m.expected)
        })?;
        if list.iter().any(|e| matches!(e, Entry::Extent(_))) {
            let (behind, end) = (replay.behind(&header, crc), position + header.frame_len());
            let is_last = self.find_next(&behind, end).await?.is_none();
            if is_last && !self.extents_whole(rt, replay, &list).await? {
                return Ok(false);
            }
        }
        replay.apply_frame(position, &header, crc, &list)?;
        Ok(true)
    }

    async fn extents_whole(
        &self,
        rt: &Runtime,
        replay: &Replay,
        list: &[Entry<'_>],
    ) -> Result<bool> {
        for (path, e) in replay.extents(&self.dir, list) {
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

    /// Whether the header of the frame that was looked for stands there, without the rest of it.
    async fn torn(&mut self, replay: &Replay) -> Result<bool> {
        let expected = &replay.expected;
        for position in [replay.position, FRAMES_START] {
            let bytes = self.bytes(position, BLOCK).await?;
            let header = FrameHeader::decode(expected.salt, &bytes);
            if header
                .is_some_and(|(h, _)| h.ring == expected.ring && h.sequence == expected.sequence)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Nothing valid follows. Is this where the log ended, or has something rotted?
    async fn check_end(&mut self, replay: &Replay) -> Result<()> {
        replay.check_orphans()?;
        let expected = &replay.expected;
        let span = expected.frame_bytes_max as u64;
        for start in [replay.position, FRAMES_START] {
            let mut position = start;
            while position < (start + span).min(self.len) {
                let bytes = self.bytes(position, BLOCK).await?;
                if let Some((header, _)) = FrameHeader::decode(expected.salt, &bytes)
                    && header.ring == expected.ring
                    && header.sequence > expected.sequence
                {
                    return Err(Error::corrupt(
                        &self.path,
                        replay.position,
                        "frame",
                        format!(
                            "none that is valid, but frame {} at byte {position}",
                            header.sequence.0
                        ),
                        format!("frame {}", expected.sequence.0),
                    ));
                }
                position += BLOCK as u64;
            }
        }
        Ok(())
    }
}
