//! The files of a data directory as values, for who looks at them from outside (`rillctl log`): the readers of recovery,
//! on bytes that somebody else has read. Nothing is opened, locked or written here.
//!
//! Frames are read with [`crate::read_frame`], batches with rillway-wire.

use std::path::{Path, PathBuf};

use crate::bytes::Malformed;
use crate::checkpoint::{CheckpointRead, read_checkpoint};
use crate::directory::{CurrentFile, StorageFile};
use crate::entry::{Entry, ExtentEntry, entries};
use crate::error::{Error, Result};
use crate::frame::{Expected, FrameHeader};
use crate::ids::{Generation, Sequence};
use crate::meta::SegmentMeta;
use crate::replay::{RecoveredPartition, Replay};
use crate::state::PartitionState;
use crate::storage::RingRef;
use crate::tail::recorded;

/// Where the first frame of a ring stands, in bytes.
pub const FRAMES_START: u64 = crate::rings::FRAMES_START;

/// What is wrong with bytes that do not parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// In bytes from the start of what was read.
    pub position: u64,
    pub what: &'static str,
    pub got: String,
    pub expected: String,
}

impl From<Malformed> for Problem {
    fn from(m: Malformed) -> Self {
        Self { position: m.at as u64, what: m.what, got: m.got, expected: m.expected }
    }
}

/// `DIR/storage`: the id of the storage.
///
/// # Errors
/// [`Error::Corrupt`], [`Error::Version`].
pub fn storage(path: &Path, bytes: &[u8]) -> Result<[u8; 16]> {
    Ok(StorageFile::decode(path, bytes)?.id)
}

/// `DIR/rings/current`: the live rings.
///
/// # Errors
/// [`Error::Corrupt`], [`Error::Version`].
pub fn rings(path: &Path, dir: &Path, bytes: &[u8]) -> Result<Vec<RingRef>> {
    let file = CurrentFile::decode(path, bytes)?;
    let ring = |line: &crate::directory::RingLine| RingRef {
        dir: dir.to_path_buf(),
        storage: file.storage,
        generation: Generation(file.generation),
        id: line.id,
        salt: line.salt,
        bytes: line.bytes,
    };
    Ok(file.rings.iter().map(ring).collect())
}

/// The first block of a ring.
///
/// # Errors
/// [`Error::Corrupt`], [`Error::Version`], [`Error::ForeignStorage`].
pub fn ring_header(path: &Path, ring: &RingRef, block: &[u8]) -> Result<()> {
    crate::rings::check_header(path, ring, block)
}

/// A partition of a checkpoint, with the bytes `durable .. length` of its segments, in their order.
#[derive(Clone, Debug)]
pub struct CheckpointPartition<'a> {
    pub state: PartitionState,
    pub tails: Vec<&'a [u8]>,
}

/// A checkpoint that is whole.
#[derive(Clone, Debug)]
pub struct Checkpoint<'a> {
    pub number: u64,
    /// Written by a clean stop.
    pub clean: bool,
    /// In bytes: where the frame `replay_sequence` will be.
    pub replay_position: u64,
    pub replay_sequence: Sequence,
    /// Header CRC of the frame before it.
    pub previous_crc: u32,
    /// Milliseconds since 1970.
    pub wall_ms: i64,
    pub next_producer_id: i64,
    pub partitions: Vec<CheckpointPartition<'a>>,
    /// Directories of partitions that are being deleted.
    pub deletions: Vec<String>,
}

/// A checkpoint file; the inner error: torn, damaged or never written.
///
/// # Errors
/// What no crash leaves: [`Error::Corrupt`], [`Error::Version`], [`Error::ForeignStorage`].
pub fn checkpoint<'a>(
    path: &Path,
    ring: &RingRef,
    bytes: &'a [u8],
) -> Result<std::result::Result<Checkpoint<'a>, Problem>> {
    let read = match read_checkpoint(path, ring, bytes)? {
        CheckpointRead::Valid(read) => read,
        CheckpointRead::Invalid(malformed) => return Ok(Err(malformed.into())),
    };
    let partition = |p: crate::state::PartitionRecord<'a>| CheckpointPartition {
        state: p.state,
        tails: p.tails,
    };
    Ok(Ok(Checkpoint {
        number: read.header.number,
        clean: read.header.clean,
        replay_position: read.header.replay_position,
        replay_sequence: read.header.replay_sequence,
        previous_crc: read.header.previous_crc,
        wall_ms: read.header.wall_ms,
        next_producer_id: read.header.next_producer_id,
        partitions: read.partitions.into_iter().map(partition).collect(),
        deletions: read.deletions.into_iter().map(|d| d.directory).collect(),
    }))
}

/// The entries of a frame's payload.
///
/// # Errors
/// Bytes that are no entries.
pub fn frame_entries<'a>(
    header: &FrameHeader,
    payload: &'a [u8],
) -> std::result::Result<Vec<Entry<'a>>, Problem> {
    entries(payload, header.entries).map_err(Problem::from)
}

/// The header of a frame of this ring, if a block of it begins with one.
pub fn frame_header(ring: &RingRef, block: &[u8]) -> Option<FrameHeader> {
    let (header, _) = FrameHeader::decode(ring.salt, block)?;
    (header.ring == ring.id).then_some(header)
}

/// Whether a file that is one of a ring's checkpoints was made and never written: it holds what it was pre-written with.
pub fn never_written(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| *b == crate::rings::PATTERN)
}

/// What a start would find: a checkpoint, and the frames behind it, applied one after the other as recovery does.
pub struct Replaying {
    dir: PathBuf,
    replay: Replay,
}

impl Replaying {
    /// Begins with a checkpoint's bytes.
    ///
    /// # Errors
    /// As [`checkpoint`]; the inner error too.
    pub fn new(path: &Path, ring: &RingRef, bytes: &[u8]) -> Result<Replaying> {
        match read_checkpoint(path, ring, bytes)? {
            CheckpointRead::Valid(read) => {
                let ring_path = crate::rings::ring_path(&ring.dir, ring.id);
                Ok(Replaying { dir: ring.dir.clone(), replay: Replay::new(ring, ring_path, read) })
            }
            CheckpointRead::Invalid(m) => {
                Err(Error::corrupt(path, m.at as u64, m.what, m.got, m.expected))
            }
        }
    }

    /// The frame that is looked for next.
    pub fn expected(&self) -> Expected {
        self.replay.expected
    }

    /// Where it is looked for first, in bytes; then at [`FRAMES_START`].
    pub fn position(&self) -> u64 {
        self.replay.position
    }

    /// What is expected behind a frame that was not applied yet.
    pub fn behind(&self, header: &FrameHeader, crc: u32) -> Expected {
        self.replay.behind(header, crc)
    }

    /// Extents of a frame that was not applied yet, with the files in which they stand. Recovery compares those of a
    /// ring's last frame with their CRC, and ends the log before that frame if they do not fit.
    pub fn extents<'a>(&self, list: &'a [Entry<'a>]) -> Vec<(PathBuf, &'a ExtentEntry<'a>)> {
        self.replay.extents(&self.dir, list)
    }

    /// Applies the expected frame, which was found at `position`.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: an entry that does not fit what is known.
    pub fn apply(
        &mut self,
        position: u64,
        header: &FrameHeader,
        crc: u32,
        list: &[Entry<'_>],
    ) -> Result<()> {
        self.replay.apply_frame(position, header, crc, list)
    }

    /// What is known where the log ends.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: entries of a partition that nobody knows.
    pub fn finish(self) -> Result<Replayed> {
        self.replay.check_orphans()?;
        let recovered = self.replay.recovered;
        let partition = |(_, p): (usize, RecoveredPartition)| {
            let tail = |s| recorded(&p.tails, s).concat();
            let tails = p.state.segments.iter().map(tail).collect();
            ReplayedPartition { tails, state: p.state }
        };
        Ok(Replayed {
            partitions: recovered.partitions.into_values().map(partition).collect(),
            deletions: recovered.deletions.into_iter().map(|d| d.directory).collect(),
        })
    }
}

/// What a ring holds.
#[derive(Debug, Default)]
pub struct Replayed {
    pub partitions: Vec<ReplayedPartition>,
    /// Directories of partitions that are being deleted.
    pub deletions: Vec<String>,
}

/// A partition, with the bytes `durable .. length` of its segments, in their order.
#[derive(Clone, Debug)]
pub struct ReplayedPartition {
    pub state: PartitionState,
    pub tails: Vec<Vec<u8>>,
}

/// Whether these are the bytes of an extent.
pub fn extent_fits(extent: &ExtentEntry<'_>, bytes: &[u8]) -> bool {
    bytes.len() as u64 == extent.length && crc32c::crc32c(bytes) == extent.crc
}

/// A `.meta` file.
///
/// # Errors
/// [`Error::Corrupt`], [`Error::Version`].
pub fn meta(path: &Path, storage: &[u8; 16], bytes: &[u8]) -> Result<SegmentMeta> {
    crate::meta::decode(path, storage, bytes)
}

/// The CRC of a whole `.meta` file, as the segment table has it.
pub fn meta_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// A text file whose last line is `crc <8 hex digits>` over everything before it.
///
/// # Errors
/// [`Error::Corrupt`].
pub fn checked_text(path: &Path, bytes: &[u8]) -> Result<()> {
    let at = bytes.windows(4).rposition(|w| w == b"crc ");
    let Some(at) = at else {
        return Err(Error::corrupt(path, 0, "checksum", "none", "a last line `crc ...`"));
    };
    let (text, line) = bytes.split_at(at);
    let computed = format!("crc {:08x}\n", crc32c::crc32c(text));
    if line == computed.as_bytes() {
        return Ok(());
    }
    let got = String::from_utf8_lossy(line);
    Err(Error::corrupt(path, at as u64, "checksum", got.trim_end(), computed.trim_end()))
}
