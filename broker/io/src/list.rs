//! `IoList`, the ordered parts of one message, and `Outgoing`, those that are on their way into a socket.

use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use crate::chunk::Chunk;
use crate::semaphore::Permit;
use crate::transfer::{Source, Transfer};

/// Bytes in memory, ready to be sent.
pub(crate) enum Part {
    Bytes(Vec<u8>),
    Chunk(Chunk),
}

impl Part {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Part::Bytes(bytes) => bytes,
            Part::Chunk(chunk) => chunk,
        }
    }
}

pub(crate) enum ListPart {
    Memory(Part),
    File(FileRange),
}

/// Bytes to be found, and read if need be, when the socket has room for them. They must stay as they are until then.
#[derive(Clone)]
pub struct FileRange {
    pub(crate) source: Rc<dyn Source>,
    pub(crate) pos: u64,
    pub(crate) len: u64,
    pub(crate) transfer: Transfer,
}

impl FileRange {
    /// `len` bytes at `pos` of a source.
    pub fn new(source: Rc<dyn Source>, pos: u64, len: u64, transfer: &Transfer) -> FileRange {
        FileRange { source, pos, len, transfer: transfer.clone() }
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for FileRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileRange({} bytes at {})", self.len, self.pos)
    }
}

/// What to send: header bytes, chunks and file ranges, in order.
#[derive(Default)]
pub struct IoList {
    pub(crate) parts: Vec<ListPart>,
    pub(crate) held: Vec<Permit>,
    len: u64,
}

impl IoList {
    /// Nothing yet.
    pub fn new() -> IoList {
        IoList::default()
    }

    /// Adds bytes.
    pub fn push_bytes(&mut self, bytes: Vec<u8>) {
        self.len += bytes.len() as u64;
        self.parts.push(ListPart::Memory(Part::Bytes(bytes)));
    }

    /// Adds a chunk, without copying it.
    pub fn push_chunk(&mut self, chunk: Chunk) {
        self.len += chunk.len() as u64;
        self.parts.push(ListPart::Memory(Part::Chunk(chunk)));
    }

    /// Adds part of a file.
    pub fn push_file(&mut self, range: FileRange) {
        self.len = self.len.saturating_add(range.len);
        self.parts.push(ListPart::File(range));
    }

    /// Adds all of another list, with the permits that it keeps.
    pub fn append(&mut self, mut other: IoList) {
        self.len = self.len.saturating_add(other.len);
        self.parts.append(&mut other.parts);
        self.held.append(&mut other.held);
    }

    /// Keeps a permit for memory of the list until it is sent, or its connection has ended.
    pub fn hold(&mut self, permit: Permit) {
        self.held.push(permit);
    }

    /// True if it keeps permits, so that others may wait for it to be sent.
    pub fn holds_memory(&self) -> bool {
        !self.held.is_empty()
    }

    /// Bytes in all.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for IoList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoList({} parts, {} bytes)", self.parts.len(), self.len)
    }
}

/// Parts in memory that a socket is taking, and how much of the first one it has.
#[derive(Default)]
pub(crate) struct Outgoing {
    parts: VecDeque<Part>,
    sent: usize,
    len: usize,
}

impl Outgoing {
    pub(crate) fn push(&mut self, part: Part) {
        if !part.bytes().is_empty() {
            self.len += part.bytes().len();
            self.parts.push_back(part);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first `max` parts, without what is sent.
    pub(crate) fn slices(&self, max: usize) -> impl Iterator<Item = &[u8]> {
        let sent = self.sent;
        let parts = self.parts.iter().take(max).enumerate();
        parts.map(move |(i, part)| &part.bytes()[if i == 0 { sent } else { 0 }..])
    }

    /// The socket has taken `n` bytes.
    pub(crate) fn advance(&mut self, mut n: usize) {
        assert!(n <= self.len, "a socket took {n} of {} bytes", self.len);
        self.len -= n;
        while let Some(first) = self.parts.front() {
            let left = first.bytes().len() - self.sent;
            if n < left {
                self.sent += n;
                return;
            }
            n -= left;
            self.sent = 0;
            self.parts.pop_front();
        }
    }

    /// Forgets what is unsent of the parts pushed last, `pushed` bytes in all; returns how many bytes that are.
    pub(crate) fn forget(&mut self, pushed: usize) -> usize {
        let forgotten = pushed.min(self.len);
        let mut left = forgotten;
        while left > 0 {
            let last = self.parts.pop_back().expect("as many bytes as `len` says");
            let skip = if self.parts.is_empty() { std::mem::take(&mut self.sent) } else { 0 };
            let bytes = last.bytes().len() - skip;
            assert!(bytes <= left, "a part was pushed whole");
            left -= bytes;
        }
        self.len -= forgotten;
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(parts: &[usize]) -> Outgoing {
        let mut out = Outgoing::default();
        let mut at = 0u8;
        for n in parts {
            out.push(Part::Bytes((0..*n).map(|i| at.wrapping_add(i as u8)).collect()));
            at = at.wrapping_add(*n as u8);
        }
        out
    }

    fn bytes(out: &Outgoing) -> Vec<u8> {
        out.slices(usize::MAX).flatten().copied().collect()
    }

    #[test]
    fn what_is_left_follows_what_was_taken_across_parts() {
        for taken in 0..=9 {
            let mut out = outgoing(&[2, 0, 3, 4]);
            out.advance(taken);
            assert_eq!(bytes(&out), (taken as u8..9).collect::<Vec<_>>());
            assert_eq!(out.len, 9 - taken);
        }
    }

    #[test]
    fn forgetting_leaves_what_was_there_before_wherever_the_socket_stopped() {
        for taken in 0..=9 {
            let mut out = outgoing(&[2, 3, 4]);
            out.advance(taken);
            let unsent = out.forget(7);
            assert_eq!(unsent, 7.min(9 - taken));
            assert_eq!(bytes(&out), (taken as u8..2).collect::<Vec<_>>());
            out.push(Part::Bytes(vec![7, 8]));
            assert_eq!(out.len, bytes(&out).len());
        }
    }
}
