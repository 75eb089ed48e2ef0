//! A ring's writing end: where the next frame goes, what is still needed of the old ones, and the one write that makes
//! a commit durable. Owned by the store of the core that adopted the ring; only its committer writes.

use std::collections::VecDeque;

use rillway_io::{AppendBuffer, DirectFile};

use crate::bytes::salted_crc;
use crate::error::Result;
use crate::frame::FrameHeader;
use crate::ids::Sequence;
use crate::limits::{BLOCK, FRAME_HEADER, block_up, frame_bytes_max};
use crate::rings::FRAMES_START;
use crate::storage::RingRef;

/// A frame that a crash would still need.
#[derive(Clone, Copy, Debug)]
struct Used {
    sequence: Sequence,
    position: u64,
    len: u64,
}

/// Positions of one ring. Frames live in `FRAMES_START .. bytes`; the used ones are contiguous in the order of time,
/// with at most one jump back to the start.
pub(crate) struct Ring {
    pub reference: RingRef,
    pub file: DirectFile,
    /// Where the next frame goes if it fits before the end.
    head: u64,
    used: VecDeque<Used>,
    next_sequence: Sequence,
    previous_crc: u32,
    /// `previous_crc` as it was before the newest frame.
    before_last_crc: u32,
    /// Number of the newest flushed checkpoint.
    pub checkpoint: u64,
}

impl Ring {
    /// A ring whose next frame is `next_sequence` at `head`; `used` are the frames that recovery replayed.
    pub(crate) fn new(
        reference: RingRef,
        file: DirectFile,
        head: u64,
        next_sequence: Sequence,
        previous_crc: u32,
        checkpoint: u64,
        used: impl IntoIterator<Item = (Sequence, u64, u64)>,
    ) -> Ring {
        let used = used
            .into_iter()
            .map(|(sequence, position, len)| Used { sequence, position, len })
            .collect();
        Ring {
            reference,
            file,
            head,
            used,
            next_sequence,
            previous_crc,
            before_last_crc: previous_crc,
            checkpoint,
        }
    }

    pub(crate) fn frame_bytes_max(&self) -> usize {
        frame_bytes_max(self.reference.bytes)
    }

    pub(crate) fn next_sequence(&self) -> Sequence {
        self.next_sequence
    }

    /// Where replay begins if everything below `committed` is in a checkpoint: position, sequence, CRC of the frame
    /// before. At most one frame, the one in flight, is at or above it.
    pub(crate) fn replay_point(&self, committed: Sequence) -> (u64, Sequence, u32) {
        if committed == self.next_sequence {
            return (self.head, committed, self.previous_crc);
        }
        let last = self.used.back().expect("a frame is in flight");
        assert_eq!(last.sequence, committed, "one frame is in flight");
        (last.position, committed, self.before_last_crc)
    }

    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Bytes of frames that are not released.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.iter().map(|u| u.len).sum()
    }

    /// Where a frame of `len` bytes would go, if there is room. It never reaches the oldest frame that is still
    /// needed, so that a full ring and an empty one look different.
    fn place(&self, len: u64) -> Option<u64> {
        let end = self.reference.bytes;
        let fits_at_end = self.head + len <= end;
        match self.used.front() {
            None if fits_at_end => Some(self.head),
            None => (FRAMES_START + len <= end).then_some(FRAMES_START),
            Some(oldest) if self.head > oldest.position => {
                if fits_at_end {
                    Some(self.head)
                } else {
                    (FRAMES_START + len < oldest.position).then_some(FRAMES_START)
                }
            }
            Some(oldest) => (self.head + len < oldest.position).then_some(self.head),
        }
    }

    /// Whether a frame with `payload` bytes of entries can be written now.
    pub(crate) fn fits(&self, payload: usize) -> bool {
        let len = block_up((FRAME_HEADER + payload) as u64);
        self.place(len).is_some()
    }

    /// Seals `frame` (64 bytes of room for the header, then entries) and gives the write to do. The caller writes
    /// `chunk` at `position` through `file`, once, and calls nothing else here before that has returned.
    pub(crate) fn seal(
        &mut self,
        mut frame: AppendBuffer,
        entries: u32,
        wall_ms: i64,
    ) -> (rillway_io::Chunk, u64) {
        let mark = entries == 0;
        let len = block_up(frame.len() as u64);
        let padding = len as usize - frame.len();
        frame.extend(&[0; BLOCK][..padding]);
        let position = self
            .place(len)
            .expect("room in the ring is reserved before anything is put into a frame");
        let header = FrameHeader {
            mark,
            entries,
            ring: self.reference.id,
            sequence: self.next_sequence,
            checkpoint: self.checkpoint,
            wall_ms,
            payload_len: (len as usize - FRAME_HEADER) as u32,
            previous_crc: self.previous_crc,
            payload_crc: salted_crc(self.reference.salt, &frame.as_slice()[FRAME_HEADER..]),
        };
        let (bytes, crc) = header.encode(self.reference.salt);
        frame.patch(0, &bytes);
        self.used.push_back(Used { sequence: self.next_sequence, position, len });
        self.before_last_crc = std::mem::replace(&mut self.previous_crc, crc);
        self.next_sequence = self.next_sequence.next();
        self.head = position + len;
        (frame.freeze(), position)
    }

    /// Frames below `sequence` are covered by a flushed checkpoint that began after them.
    pub(crate) fn release_below(&mut self, sequence: Sequence) {
        while self.used.front().is_some_and(|u| u.sequence < sequence) {
            self.used.pop_front();
        }
    }

    /// Locks the ring's file through the descriptor that does the IO: a killed process's writes in flight hold it.
    pub(crate) async fn lock(file: &DirectFile, wait: std::time::Duration) -> Result<()> {
        Ok(file.lock_exclusive(wait).await?)
    }
}
