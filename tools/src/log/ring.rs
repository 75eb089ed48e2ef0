//! Reads a ring as a start would: the newest checkpoint, the frames behind it, and what ends them.
//!
//! The broker may be writing it. A frame is complete before the next one is begun, and no frame is overwritten before a
//! newer checkpoint is flushed: so when a later frame is seen where one is missing, the missing one is looked for once
//! more, then a newer checkpoint, and only if there is neither it is damaged. Nothing is guessed from times.

use std::path::PathBuf;

use rillway_log::inspect::{self, FRAMES_START, Problem, Replaying};
use rillway_log::{
    BLOCK, Entry, Expected, FRAME_HEADER, FrameHeader, FrameRead, RingRef, Sequence, read_frame,
};

use super::files::Files;

/// Bytes that are read at once, so that small frames do not cost a read each.
const WINDOW: usize = 1 << 20;
/// How often the frames are caught up with before what came so far is enough.
const ROUNDS: usize = 16;

/// The path of a ring.
pub(super) fn path(ring: &RingRef) -> PathBuf {
    ring.dir.join("rings").join(format!("{}.ring", ring.id))
}

/// The paths of its checkpoints.
pub(super) fn checkpoint_paths(ring: &RingRef) -> [PathBuf; 2] {
    ["a", "b"].map(|slot| ring.dir.join("rings").join(format!("{}.{slot}", ring.id)))
}

/// A checkpoint file, and what it is.
pub(super) struct Slot {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    pub(super) judged: Judged,
}

/// What a checkpoint file is.
#[derive(Debug)]
pub(super) enum Judged {
    /// Whole, with its number.
    Valid {
        number: u64,
    },
    /// Made, and not written yet.
    New,
    /// Torn by a crash, or damaged; which of the two cannot be told from the file.
    Invalid(Problem),
    /// What no crash leaves.
    Refused(rillway_log::Error),
    Unreadable(std::io::Error),
}

/// Both checkpoint files.
pub(super) fn checkpoints(files: &impl Files, ring: &RingRef) -> [Slot; 2] {
    checkpoint_paths(ring).map(|path| {
        let bytes = match files.read(&path) {
            Ok(bytes) => bytes,
            Err(why) => return Slot { path, bytes: Vec::new(), judged: Judged::Unreadable(why) },
        };
        let judged = match inspect::checkpoint(&path, ring, &bytes) {
            Ok(Ok(checkpoint)) => Judged::Valid { number: checkpoint.number },
            Ok(Err(_)) if inspect::never_written(&bytes) => Judged::New,
            Ok(Err(problem)) => Judged::Invalid(problem),
            Err(error) => Judged::Refused(error),
        };
        Slot { path, bytes, judged }
    })
}

/// The valid one with the higher number, with that.
pub(super) fn newest(slots: &[Slot; 2]) -> Option<(&Slot, u64)> {
    let numbered = slots.iter().filter_map(|slot| match slot.judged {
        Judged::Valid { number } => Some((slot, number)),
        Judged::New | Judged::Invalid(_) | Judged::Refused(_) | Judged::Unreadable(_) => None,
    });
    numbered.max_by_key(|(_, number)| *number)
}

/// A frame that is whole, where it stands, and its entries.
pub(super) struct Frame<'a> {
    pub(super) position: u64,
    pub(super) header: FrameHeader,
    pub(super) entries: Result<&'a [Entry<'a>], &'a Problem>,
}

/// Why the frames end where they do.
#[derive(Debug)]
pub(super) enum End {
    /// Nothing was begun behind the last frame.
    Whole,
    /// A frame was begun and never acknowledged.
    Torn,
    /// The broker goes on writing.
    Written,
    /// A later frame is there: the one in between is damaged, or a newer checkpoint has it.
    Missing { sequence: Sequence, later: Sequence, at: u64 },
    /// What stands in a whole frame does not parse, or does not fit what is known.
    Refused(rillway_log::Error),
    /// The ring cannot be read.
    Unreadable(std::io::Error),
}

impl End {
    /// In a word.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Torn => "torn",
            Self::Written => "written",
            Self::Missing { .. } | Self::Refused(_) => "damaged",
            Self::Unreadable(_) => "unreadable",
        }
    }
}

/// Applies the frames behind a checkpoint and shows each. Gives the place behind the last one, why they end there, and
/// the newest checkpoint that a frame says is flushed.
pub(super) fn replay(
    files: &impl Files,
    ring: &RingRef,
    replaying: &mut Replaying,
    mut shown: impl FnMut(&Frame<'_>),
) -> (u64, End, u64) {
    let mut reader = Reader { files, path: path(ring), start: 0, window: Vec::new() };
    let mut flushed = 0;
    let mut rounds = 0;
    let end = loop {
        match step(&mut reader, replaying, &mut flushed, &mut shown) {
            Ok(Step::Applied) => continue,
            Ok(Step::Torn) => break End::Torn,
            Ok(Step::Refused(error)) => break End::Refused(error),
            Ok(Step::None) => {}
            Err(error) => break End::Unreadable(error),
        }
        let expected = replaying.expected();
        let later = match later(&mut reader, ring, &expected, replaying.position()) {
            Ok(Later::None) => break End::Whole,
            Ok(Later::Begun) => break End::Torn,
            Ok(Later::Frame { sequence, at }) => {
                End::Missing { sequence: expected.sequence, later: sequence, at }
            }
            Err(error) => break End::Unreadable(error),
        };
        // Written since it was looked for?
        reader.forget();
        match find(&mut reader, &expected, replaying.position()) {
            Ok(None) => break later,
            Ok(Some(_)) if rounds == ROUNDS => break End::Written,
            Ok(Some(_)) => rounds += 1,
            Err(error) => break End::Unreadable(error),
        }
    };
    (replaying.position(), end, flushed)
}

enum Step {
    Applied,
    /// There is no such frame.
    None,
    /// Its extents are not there, and nothing is behind it.
    Torn,
    Refused(rillway_log::Error),
}

fn step(
    reader: &mut Reader<'_, impl Files>,
    replaying: &mut Replaying,
    flushed: &mut u64,
    shown: &mut impl FnMut(&Frame<'_>),
) -> std::io::Result<Step> {
    let expected = replaying.expected();
    let Some((position, bytes)) = find(reader, &expected, replaying.position())? else {
        return Ok(Step::None);
    };
    let FrameRead::Valid { header, crc, payload } = read_frame(&expected, &bytes) else {
        return Ok(Step::None);
    };
    *flushed = header.checkpoint.max(*flushed);
    let list = match inspect::frame_entries(&header, payload) {
        Ok(list) => list,
        Err(problem) => {
            shown(&Frame { position, header, entries: Err(&problem) });
            return Ok(Step::Refused(rillway_log::Error::Corrupt {
                path: reader.path.clone(),
                position: position + FRAME_HEADER as u64 + problem.position,
                what: problem.what,
                got: problem.got,
                expected: problem.expected,
            }));
        }
    };
    for (path, extent) in replaying.extents(&list) {
        let whole = usize::try_from(extent.length)
            .ok()
            .and_then(|len| reader.files.read_at(&path, extent.position, len).ok())
            .is_some_and(|bytes| inspect::extent_fits(extent, &bytes));
        let behind = replaying.behind(&header, crc);
        if !whole && find(reader, &behind, position + header.frame_len())?.is_none() {
            return Ok(Step::Torn);
        }
    }
    shown(&Frame { position, header, entries: Ok(&list) });
    Ok(match replaying.apply(position, &header, crc, &list) {
        Ok(()) => Step::Applied,
        Err(error) => Step::Refused(error),
    })
}

/// The bytes of the expected frame, and where they stand: at its place, or at the beginning once more.
fn find(
    reader: &mut Reader<'_, impl Files>,
    expected: &Expected,
    position: u64,
) -> std::io::Result<Option<(u64, Vec<u8>)>> {
    // What is in the window may be older than what is in the file.
    for fresh in [false, true] {
        if fresh {
            reader.forget();
        }
        for at in [position, FRAMES_START] {
            let mut bytes = reader.bytes(at, BLOCK)?;
            if let FrameRead::NeedBytes(len) = read_frame(expected, &bytes) {
                bytes = reader.bytes(at, len)?;
            }
            if let FrameRead::Valid { .. } = read_frame(expected, &bytes) {
                return Ok(Some((at, bytes)));
            }
        }
    }
    Ok(None)
}

enum Later {
    None,
    /// The header of the frame that is looked for, without the rest of it.
    Begun,
    Frame {
        sequence: Sequence,
        at: u64,
    },
}

/// What stands within one largest frame of the places where the expected one may be (FORMAT.md 3.3).
fn later(
    reader: &mut Reader<'_, impl Files>,
    ring: &RingRef,
    expected: &Expected,
    position: u64,
) -> std::io::Result<Later> {
    let mut begun = Later::None;
    for start in [position, FRAMES_START] {
        let end = start.saturating_add(expected.frame_bytes_max as u64).min(ring.bytes);
        let mut at = start;
        while at < end {
            let block = reader.bytes(at, BLOCK)?;
            match inspect::frame_header(ring, &block) {
                Some(header) if header.sequence > expected.sequence => {
                    return Ok(Later::Frame { sequence: header.sequence, at });
                }
                Some(header) if header.sequence == expected.sequence && at == start => {
                    begun = Later::Begun;
                }
                Some(_) | None => {}
            }
            at += BLOCK as u64;
        }
    }
    Ok(begun)
}

/// A ring in pieces.
struct Reader<'a, F: Files> {
    files: &'a F,
    path: PathBuf,
    /// Where the window stands.
    start: u64,
    window: Vec<u8>,
}

impl<F: Files> Reader<'_, F> {
    /// `len` bytes at `position`, fewer at the ring's end.
    fn bytes(&mut self, position: u64, len: usize) -> std::io::Result<Vec<u8>> {
        if let Some(held) = self.held(position, len) {
            return Ok(held.to_vec());
        }
        self.window = self.files.read_at(&self.path, position, len.max(WINDOW))?;
        self.start = position;
        Ok(self.window.get(..len).unwrap_or(&self.window).to_vec())
    }

    fn held(&self, position: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(position.checked_sub(self.start)?).ok()?;
        self.window.get(from..from.checked_add(len)?)
    }

    fn forget(&mut self) {
        self.window.clear();
    }
}
