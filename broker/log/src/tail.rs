//! The recent bytes of one unsealed segment, in memory, in block-aligned buffers.
//!
//! Bytes that are not durable in the segment are always here. Bytes that are may stay for tail fetches until the
//! store's budget takes them. One writer (the append path) and any number of readers, all on the partition's core:
//! readers hold refcounted slices of what is already written, and later bytes go behind them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use rillway_io::{AppendBuffer, Chunk};

use crate::limits::{BLOCK, TAIL_BUFFER_MAX, TAIL_BUFFER_MIN, block_down};
use crate::state::{SegmentState, SegmentStatus};

struct Buffer {
    base: u64,
    bytes: AppendBuffer,
    /// Where the next buffer begins, if that repeats what stands at this one's end.
    cut: Option<u64>,
}

impl Buffer {
    fn new(base: u64, bytes: AppendBuffer) -> Buffer {
        Buffer { base, bytes, cut: None }
    }

    fn end(&self) -> u64 {
        self.cut.unwrap_or(self.base + self.bytes.len() as u64)
    }

    /// Bytes that can still be appended.
    fn room(&self) -> usize {
        if self.cut.is_some() { 0 } else { self.bytes.remaining() }
    }
}

/// Bytes `start() .. end()` of a segment.
pub(crate) struct Tail {
    start: u64,
    end: u64,
    buffers: VecDeque<Buffer>,
}

impl Tail {
    /// An empty tail whose first byte will stand at `position`, a block boundary.
    pub(crate) fn new(position: u64) -> Tail {
        assert_eq!(position % BLOCK as u64, 0, "a tail begins at a block boundary");
        Tail { start: position, end: position, buffers: VecDeque::new() }
    }

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Memory that the buffers take, used or not.
    pub(crate) fn memory(&self) -> usize {
        self.buffers.iter().map(|b| b.bytes.capacity()).sum()
    }

    /// Appends; returns the memory that was added.
    pub(crate) fn extend(&mut self, mut bytes: &[u8]) -> usize {
        let mut added = 0;
        while !bytes.is_empty() {
            if self.buffers.back().is_none_or(|b| b.room() == 0) {
                // A busy partition gets larger buffers, each written to its segment in one piece; an idle one keeps one block.
                let last = self.buffers.back().map_or(0, |b| b.bytes.capacity());
                let capacity = (last * 2)
                    .max(bytes.len().next_multiple_of(BLOCK))
                    .clamp(TAIL_BUFFER_MIN, TAIL_BUFFER_MAX);
                let buffer = AppendBuffer::with_capacity(capacity);
                added += buffer.capacity();
                self.buffers.push_back(Buffer::new(self.end, buffer));
            }
            let buffer = self.buffers.back_mut().expect("one was just made sure of");
            let n = bytes.len().min(buffer.room());
            let (now, later) = bytes.split_at(n);
            buffer.bytes.extend(now);
            self.end += n as u64;
            bytes = later;
        }
        added
    }

    /// Appends `parts`, one batch, so that the whole blocks of it stand in buffers that hold nothing else, each full: an
    /// extent is then written without a copy. What is left of the last block begins a buffer of its own. The bytes of
    /// the partial block before it are copied (at most one block). Returns the memory that was added and freed.
    pub(crate) fn extend_extent(&mut self, parts: [&[u8]; 2]) -> (usize, usize) {
        let (mut added, mut freed) = (0, 0);
        let from = block_down(self.end).max(self.start);
        let mut partial = vec![0; (self.end - from) as usize];
        assert!(self.copy(from, &mut partial), "a partial block is always in memory");
        let mut parts = [&partial[..], parts[0], parts[1]].into_iter();
        let mut part: &[u8] = &[];
        let mut left = partial.len() + parts.clone().skip(1).map(<[u8]>::len).sum::<usize>();
        match self.buffers.back_mut() {
            Some(last) if last.base == from => {
                freed = last.bytes.capacity();
                self.buffers.pop_back();
            }
            Some(last) if last.end() > from => last.cut = Some(from),
            _ => {}
        }
        self.end = from;
        while left > 0 {
            let whole = left - left % BLOCK;
            let size = if whole == 0 { left } else { whole.min(TAIL_BUFFER_MAX) };
            let mut bytes = AppendBuffer::with_capacity(size);
            while bytes.len() < size {
                if part.is_empty() {
                    part = parts.next().expect("as many bytes as were counted");
                }
                let (now, later) = part.split_at(part.len().min(size - bytes.len()));
                bytes.extend(now);
                part = later;
            }
            added += bytes.capacity();
            self.buffers.push_back(Buffer::new(self.end, bytes));
            self.end += size as u64;
            left -= size;
        }
        (added, freed)
    }

    fn find(&self, position: u64) -> usize {
        self.buffers.partition_point(|b| b.end() <= position)
    }

    /// The buffers that hold `range`, in order: the position and the part of each.
    fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &Buffer, Range<usize>)> {
        assert!(
            range.start >= self.start && range.end <= self.end,
            "{range:?} outside {}..{}",
            self.start,
            self.end
        );
        let buffers = self.buffers.iter().skip(self.find(range.start));
        let within = buffers.take_while(move |b| b.base < range.end && range.start < range.end);
        within.map(move |b| {
            let (from, to) = (range.start.max(b.base), range.end.min(b.end()));
            (from, b, (from - b.base) as usize..(to - b.base) as usize)
        })
    }

    /// Slices that together are `range`, one per buffer, with their positions.
    pub(crate) fn slices(&self, range: Range<u64>) -> Vec<(u64, Chunk)> {
        self.parts(range).map(|(position, b, part)| (position, b.bytes.slice(part))).collect()
    }

    /// The bytes of `range`, borrowed, one piece per buffer.
    pub(crate) fn pieces(&self, range: Range<u64>) -> Vec<&[u8]> {
        self.parts(range).map(|(_, b, part)| &b.bytes.as_slice()[part]).collect()
    }

    /// Copies `into.len()` bytes from `position`; false if they are not all here.
    pub(crate) fn copy(&self, position: u64, into: &mut [u8]) -> bool {
        let end = position + into.len() as u64;
        if position < self.start || end > self.end {
            return false;
        }
        let mut at = 0;
        for piece in self.pieces(position..end) {
            into[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        true
    }

    /// Lets go of whole buffers below `position`; returns the memory that was freed.
    pub(crate) fn drop_front(&mut self, position: u64) -> usize {
        let mut freed = 0;
        while let Some(first) = self.buffers.front() {
            // The last buffer stays while it can take more.
            if first.end() > position || (first.room() > 0 && self.buffers.len() == 1) {
                break;
            }
            freed += first.bytes.capacity();
            self.start = first.end();
            self.buffers.pop_front();
        }
        freed
    }

    /// Moves what an idle partition still needs, bytes from `durable` on, into the smallest buffer that holds them;
    /// returns the memory that was freed.
    pub(crate) fn shrink(&mut self, durable: u64) -> usize {
        let from = block_down(durable).max(self.start);
        let mut kept = vec![0; (self.end - from) as usize];
        assert!(self.copy(from, &mut kept), "a tail holds what is not durable");
        let before = self.memory();
        // More than one buffer's worth is not idle, and would be rounded up to whole ones.
        if kept.len() > TAIL_BUFFER_MAX || kept.len().next_multiple_of(BLOCK) >= before {
            return 0;
        }
        self.buffers.clear();
        self.start = from;
        self.end = from;
        let added = self.extend(&kept);
        before - added
    }

    /// Cuts everything at and beyond `end`.
    pub(crate) fn truncate(&mut self, end: u64) {
        let from = block_down(end).clamp(self.start, self.end);
        let mut kept = vec![0; end.saturating_sub(from) as usize];
        assert!(self.copy(from, &mut kept), "a tail holds what is not durable");
        self.buffers.retain(|b| b.end() <= from);
        if self.buffers.back().is_none_or(|b| b.end() < from) {
            // `from` lies inside a buffer that went: its earlier blocks are read from the file from now on.
            self.buffers.clear();
            self.start = from;
        }
        self.end = from;
        self.extend(&kept);
    }
}

/// What a partition record keeps of a segment's tail: the bytes that are not durable in its file; nothing once sealed.
pub(crate) fn recorded<'a>(tails: &'a BTreeMap<i64, Tail>, s: &SegmentState) -> Vec<&'a [u8]> {
    match (s.status, tails.get(&s.base)) {
        (SegmentStatus::Sealed, _) | (_, None) => Vec::new(),
        (_, Some(tail)) => tail.pieces(s.durable..s.length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_tail_gives_back_any_range_of_what_was_appended(
            parts in proptest::collection::vec(1usize..9000, 1..30),
            a in 0.0f64..1.0, b in 0.0f64..1.0, dropped in 0.0f64..1.0,
        ) {
            let mut tail = Tail::new(8192);
            let mut all = Vec::new();
            for (i, n) in parts.iter().enumerate() {
                let bytes: Vec<u8> = (0..*n).map(|j| (i * 31 + j) as u8).collect();
                tail.extend(&bytes);
                all.extend_from_slice(&bytes);
            }
            prop_assert_eq!(tail.end(), 8192 + all.len() as u64);
            tail.drop_front(8192 + (dropped * all.len() as f64) as u64);
            let held = (tail.start() - 8192) as usize;
            let from = held + (a * (all.len() - held) as f64) as usize;
            let to = from + (b * (all.len() - from) as f64) as usize;
            let got: Vec<u8> = tail
                .slices(8192 + from as u64..8192 + to as u64)
                .iter()
                .flat_map(|(_, c)| c.to_vec())
                .collect();
            prop_assert_eq!(&got[..], &all[from..to]);
        }

        #[test]
        fn appends_and_extents_mix_and_an_extent_stands_in_whole_buffers(
            parts in proptest::collection::vec((1usize..400_000, any::<bool>()), 1..12),
            cut in 0.0f64..1.0,
        ) {
            let mut tail = Tail::new(0);
            let mut all = Vec::new();
            for (i, (n, extent)) in parts.iter().enumerate() {
                let bytes: Vec<u8> = (0..*n).map(|j| (i * 31 + j) as u8).collect();
                let head = block_down(tail.end());
                let memory = tail.memory();
                let (added, freed) = if *extent && *n >= BLOCK {
                    let (first, rest) = bytes.split_at(*n / 3);
                    let added = tail.extend_extent([first, rest]);
                    all.extend_from_slice(&bytes);
                    for (_, chunk) in tail.slices(head..block_down(tail.end())) {
                        prop_assert!(chunk.is_whole_buffer());
                    }
                    added
                } else {
                    all.extend_from_slice(&bytes);
                    (tail.extend(&bytes), 0)
                };
                prop_assert_eq!(tail.memory(), memory + added - freed);
                prop_assert_eq!(tail.end(), all.len() as u64);
            }
            prop_assert_eq!(tail.pieces(0..tail.end()).concat(), all.clone());
            let end = (cut * all.len() as f64) as usize;
            tail.truncate(end as u64);
            tail.extend(b"after");
            all.truncate(end);
            all.extend_from_slice(b"after");
            prop_assert_eq!(tail.pieces(tail.start()..tail.end()).concat(), &all[tail.start() as usize..]);
        }

        #[test]
        fn shrinking_never_takes_more_memory(parts in proptest::collection::vec(1usize..400_000, 1..4), durable in 0.0f64..1.0) {
            let mut tail = Tail::new(0);
            for n in &parts {
                tail.extend(&vec![7; *n]);
            }
            let before = tail.memory();
            let freed = tail.shrink(block_down((durable * tail.end() as f64) as u64));
            prop_assert_eq!(tail.memory(), before - freed);
        }

        #[test]
        fn an_idle_tail_shrinks_to_what_is_not_durable(len in 1usize..600_000) {
            let mut tail = Tail::new(0);
            let all: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            tail.extend(&all);
            let durable = block_down(len as u64);
            tail.shrink(durable);
            prop_assert!(tail.memory() <= BLOCK);
            let mut kept = vec![0; len - durable as usize];
            prop_assert!(tail.copy(durable, &mut kept));
            prop_assert_eq!(&kept[..], &all[durable as usize..]);
        }
    }
}
