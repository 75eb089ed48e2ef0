//! Reads a ring and its two checkpoints: the frames behind the newest checkpoint, and what ends them.

use std::path::PathBuf;

use rillway_log::inspect::{self, Checkpoint, FRAMES_START};
use rillway_log::{
    Entry, Expected, FrameHeader, FrameRead, RingRef, Sequence, frame_bytes_max, read_frame,
};

/// The path of a ring.
pub(super) fn path(ring: &RingRef) -> PathBuf {
    ring.dir.join("rings").join(format!("{}.ring", ring.id))
}

/// The paths of its checkpoints.
pub(super) fn checkpoint_paths(ring: &RingRef) -> [PathBuf; 2] {
    ["a", "b"].map(|slot| ring.dir.join("rings").join(format!("{}.{slot}", ring.id)))
}

/// A frame, where it stands, and its entries.
pub(super) struct Frame<'a> {
    pub(super) position: u64,
    pub(super) header: FrameHeader,
    pub(super) entries: Result<Vec<Entry<'a>>, inspect::Problem>,
}

/// Why the frames end where they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing was begun behind the last frame.
    Whole,
    /// A frame was begun and never acknowledged.
    Torn,
    /// A later frame is there: the one in between is damaged.
    Damaged { later: Sequence, at: u64 },
}

/// The frames behind a checkpoint, the place behind them, and why they end there.
pub(super) fn frames<'a>(
    ring: &RingRef,
    bytes: &'a [u8],
    from: &Checkpoint<'_>,
) -> (Vec<Frame<'a>>, u64, End) {
    let mut all = Vec::new();
    let mut position = from.replay_position;
    let mut expected = Expected {
        ring: ring.id,
        salt: ring.salt,
        sequence: from.replay_sequence,
        previous_crc: from.previous_crc,
        frame_bytes_max: frame_bytes_max(ring.bytes),
    };
    // At its place, or at the beginning once more.
    while let Some((at, header, crc, payload)) =
        [position, FRAMES_START].into_iter().find_map(|at| frame_at(bytes, at, &expected))
    {
        let entries = inspect::frame_entries(&header, payload);
        all.push(Frame { position: at, header, entries });
        position = at + header.frame_len();
        expected.sequence = Sequence(expected.sequence.0 + 1);
        expected.previous_crc = crc;
    }
    let headers = inspect::headers_from(ring, bytes, expected.sequence);
    let later =
        headers.iter().filter(|(_, sequence)| *sequence > expected.sequence).min_by_key(|h| h.1);
    let end = match later {
        Some((at, later)) => End::Damaged { later: *later, at: *at },
        None if headers.is_empty() => End::Whole,
        None => End::Torn,
    };
    (all, position, end)
}

fn frame_at<'a>(
    bytes: &'a [u8],
    at: u64,
    expected: &Expected,
) -> Option<(u64, FrameHeader, u32, &'a [u8])> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?;
    match read_frame(expected, rest) {
        FrameRead::Valid { header, crc, payload } => Some((at, header, crc, payload)),
        FrameRead::NeedBytes(_) | FrameRead::Invalid => None,
    }
}
