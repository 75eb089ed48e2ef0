//! One simulated file: what is in it now, what of it is durable, and the operations in between.
//!
//! The list of operations is ordered by completion. A flush marks those that completed before it was issued;
//! marked ones at the head of the list move into the durable content. What a power cut does to the others is
//! in `crash`.

use std::collections::VecDeque;

use super::content::{Content, Extents};
use super::fs::HandleId;
use crate::chunk::Chunk;

/// Bytes an operation wrote.
#[derive(Clone)]
pub(crate) enum Bytes {
    Chunk(Chunk),
    Vec(Vec<u8>),
}

impl Bytes {
    pub(crate) fn get(&self) -> &[u8] {
        match self {
            Bytes::Chunk(chunk) => chunk,
            Bytes::Vec(vec) => vec,
        }
    }
}

#[derive(Clone)]
pub(crate) enum Change {
    Write {
        pos: u64,
        bytes: Bytes,
    },
    /// A truncate, either way.
    Size(u64),
    /// An allocation: at least this size.
    Allocate {
        pos: u64,
        len: u64,
    },
}

/// A completed operation that is not yet part of the durable content.
#[derive(Clone)]
pub(crate) struct Done {
    /// When it completed, on the file system's own count.
    pub(crate) at: u64,
    pub(crate) change: Change,
    pub(crate) durable: bool,
    /// A flush that should have covered it failed: no later flush covers it.
    pub(crate) lost: bool,
}

#[derive(Default)]
pub(crate) struct File {
    pub(crate) now: Content,
    pub(crate) durable: Content,
    pub(crate) done: VecDeque<Done>,
    pub(crate) space: Extents,
    pub(crate) lock: Option<HandleId>,
    /// Pieces of writes of a dead life, through a locked descriptor, that have not landed yet. They hold
    /// its lock.
    pub(crate) late: usize,
}

impl Change {
    /// What it does to a content, whole.
    pub(crate) fn apply(&self, to: &mut Content) {
        match self {
            Change::Write { pos, bytes } => to.write(*pos, bytes.get()),
            Change::Size(size) => to.set_size(*size),
            Change::Allocate { pos, len } => to.size = to.size.max(pos + len),
        }
    }
}

impl File {
    /// Completes an operation: visible now, durable only if `durable`.
    pub(crate) fn complete(&mut self, at: u64, change: Change, durable: bool) {
        change.apply(&mut self.now);
        match &change {
            Change::Write { pos, bytes } => self.space.insert(*pos, bytes.get().len() as u64),
            Change::Size(size) => self.space.cut(*size),
            Change::Allocate { pos, len } => self.space.insert(*pos, *len),
        }
        self.done.push_back(Done { at, change, durable, lost: false });
        self.absorb();
    }

    /// A flush issued at `mark` has succeeded.
    pub(crate) fn flushed(&mut self, mark: u64) {
        for done in self.done.iter_mut().take_while(|d| d.at <= mark) {
            done.durable |= !done.lost;
        }
        self.absorb();
    }

    /// A flush issued at `mark` has failed: what it should have covered is durable by no later one.
    pub(crate) fn flush_failed(&mut self, mark: u64) {
        for done in self.done.iter_mut().take_while(|d| d.at <= mark) {
            done.lost |= !done.durable;
        }
    }

    fn absorb(&mut self) {
        while let Some(done) = self.done.pop_front_if(|d| d.durable) {
            done.change.apply(&mut self.durable);
        }
    }
}
