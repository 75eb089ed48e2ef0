//! Bytes of one file, held sparsely, and which of its blocks take up space.

use std::collections::BTreeMap;

use crate::chunk::BLOCK;

const B: u64 = BLOCK as u64;

/// The content of a file: a size, and the blocks that were ever written. The rest reads as zeros.
#[derive(Clone, Default)]
pub(crate) struct Content {
    pub(crate) size: u64,
    blocks: BTreeMap<u64, Box<[u8; BLOCK]>>,
}

impl Content {
    /// Puts bytes at `pos` without changing the size.
    pub(crate) fn put(&mut self, pos: u64, mut bytes: &[u8]) {
        let mut pos = pos;
        while !bytes.is_empty() {
            let within = (pos % B) as usize;
            let n = bytes.len().min(BLOCK - within);
            let block = self.blocks.entry(pos / B).or_insert_with(|| Box::new([0; BLOCK]));
            block[within..within + n].copy_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            pos += n as u64;
        }
    }

    /// Puts bytes at `pos`, extending the file to their end.
    pub(crate) fn write(&mut self, pos: u64, bytes: &[u8]) {
        self.put(pos, bytes);
        self.size = self.size.max(pos + bytes.len() as u64);
    }

    /// At most `len` bytes at `pos`, fewer at the end.
    pub(crate) fn read(&self, pos: u64, len: usize) -> Vec<u8> {
        let left = usize::try_from(self.size.saturating_sub(pos)).unwrap_or(usize::MAX);
        let len = len.min(left);
        let mut bytes = vec![0; len];
        let mut done = 0;
        while done < len {
            let at = pos + done as u64;
            let within = (at % B) as usize;
            let n = (len - done).min(BLOCK - within);
            if let Some(block) = self.blocks.get(&(at / B)) {
                bytes[done..done + n].copy_from_slice(&block[within..within + n]);
            }
            done += n;
        }
        bytes
    }

    /// Sets the size; what is cut off is forgotten.
    pub(crate) fn set_size(&mut self, size: u64) {
        if size < self.size {
            self.forget_beyond(size);
        }
        self.size = size;
    }

    /// Drops bytes at or beyond `size`, which an extension later would otherwise show again.
    pub(crate) fn forget_beyond(&mut self, size: u64) {
        self.blocks.split_off(&size.div_ceil(B));
        let within = (size % B) as usize;
        if within > 0
            && let Some(block) = self.blocks.get_mut(&(size / B))
        {
            block[within..].fill(0);
        }
    }

    pub(crate) fn flip(&mut self, byte: u64, bit: u8) {
        let mut value = self.read(byte, 1);
        if let Some(v) = value.first_mut() {
            *v ^= 1 << (bit % 8);
        }
        self.put(byte, &value);
    }
}

/// Ranges of blocks that are allocated.
#[derive(Clone, Default)]
pub(crate) struct Extents {
    /// Start of a range to its end, not touching each other.
    ranges: BTreeMap<u64, u64>,
}

impl Extents {
    fn span(pos: u64, len: u64) -> (u64, u64) {
        (pos / B, pos.saturating_add(len).div_ceil(B))
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// Blocks that allocating these bytes would add.
    pub(crate) fn missing(&self, pos: u64, len: u64) -> u64 {
        let (start, end) = Extents::span(pos, len);
        let held: u64 = self
            .ranges
            .range(..end)
            .map(|(s, e)| (*e).min(end).saturating_sub((*s).max(start)))
            .sum();
        (end - start).saturating_sub(held)
    }

    /// Allocates these bytes.
    pub(crate) fn insert(&mut self, pos: u64, len: u64) {
        let (mut start, mut end) = Extents::span(pos, len);
        if start >= end {
            return;
        }
        let touching: Vec<u64> = self
            .ranges
            .range(..=end)
            .rev()
            .take_while(|(_, e)| **e >= start)
            .map(|(s, _)| *s)
            .collect();
        for s in touching {
            if let Some(e) = self.ranges.remove(&s) {
                start = start.min(s);
                end = end.max(e);
            }
        }
        self.ranges.insert(start, end);
    }

    /// Frees what lies beyond `size` bytes.
    pub(crate) fn cut(&mut self, size: u64) {
        let keep = size.div_ceil(B);
        self.ranges.split_off(&keep);
        if let Some(mut last) = self.ranges.last_entry()
            && *last.get() > keep
        {
            *last.get_mut() = keep;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_written_reads_as_zeros() {
        let mut c = Content::default();
        c.write(B * 3 + 5, b"abc");
        assert_eq!(c.size, B * 3 + 8);
        assert_eq!(c.read(B * 3 + 3, 100), b"\0\0abc");
        c.set_size(B * 3 + 6);
        c.set_size(B * 4);
        assert_eq!(c.read(B * 3 + 4, 4), b"\0a\0\0");
    }

    #[test]
    fn extents_join_and_count() {
        let mut e = Extents::default();
        e.insert(0, B);
        e.insert(2 * B, B);
        assert_eq!(e.missing(0, 4 * B), 2);
        e.insert(B, 1);
        assert_eq!((e.blocks(), e.missing(0, 3 * B)), (3, 0));
        e.insert(10 * B, 2 * B);
        e.cut(11 * B);
        assert_eq!(e.blocks(), 4);
        e.cut(1);
        assert_eq!(e.blocks(), 1);
    }
}
