//! How answers that are not in memory leave a core: by which way, and within what memory.
//!
//! One `Transfer` per core. Memory is taken when a socket may have room and given back when the socket has taken the
//! bytes: a peer that stalls keeps it only while nobody else waits for it, then the unsent rest is forgotten and read
//! again when there is room. So a slow reader is tolerated for ever, pins files and not memory, and starves nobody.
//! What cannot be read again (bytes from another core) has a half of its own and is held until it is sent. Absent on
//! purpose: an order among peers beyond first come, first served.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

use crate::chunk::Chunk;
use crate::disk::DirectFile;
use crate::sealed::SealedFile;
use crate::semaphore::{Permit, Semaphore};
use crate::sync::{Notified, Notify};

/// Bytes of a file that are read at once for a socket.
pub(crate) const PIECE: usize = 1 << 20;

/// Smallest budget: each half must hold a few pieces.
pub const TRANSFER_BYTES_MIN: usize = 8 << 20;

const _: () = assert!(TRANSFER_BYTES_MIN / 2 >= 4 * PIECE);

/// Which way bytes of sealed files take to a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransferMode {
    /// What was measured to be better for data that is read once: copy (kernel-notes/04-transfer.md).
    #[default]
    Auto,
    /// From the page cache, by sendfile(2).
    Splice,
    /// Direct reads into memory of ours, and sends from there.
    Copy,
}

impl FromStr for TransferMode {
    type Err = String;

    fn from_str(text: &str) -> Result<TransferMode, String> {
        match text {
            "auto" => Ok(TransferMode::Auto),
            "splice" => Ok(TransferMode::Splice),
            "copy" => Ok(TransferMode::Copy),
            other => Err(format!("transfer is `{other}`, must be auto, splice or copy")),
        }
    }
}

/// What a core has transferred, since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferCounters {
    /// Bytes read from files into memory of ours for a socket; those that had to be read again count again.
    pub read: u64,
    /// Bytes that went from the page cache to a socket.
    pub spliced: u64,
    /// Times that pages were not resident and a thread brought them in.
    pub brought: u64,
    /// Times that the unsent rest of a stalled peer was forgotten since another needed its memory.
    pub evicted: u64,
    /// Times that somebody waited for memory.
    pub waits: u64,
}

struct Inner {
    mode: TransferMode,
    /// For pieces of files; half of the budget.
    pieces: Semaphore,
    /// For what is held until it is sent; the other half.
    held: Semaphore,
    half: usize,
    /// Somebody waits for a piece's memory.
    pressed: Notify,
    counters: Cell<TransferCounters>,
}

/// One core's transfers. Clone: a handle.
#[derive(Clone)]
pub struct Transfer {
    inner: Rc<Inner>,
}

impl Transfer {
    /// With `bytes` of memory in all.
    ///
    /// # Panics
    /// If that is less than [`TRANSFER_BYTES_MIN`].
    pub fn new(mode: TransferMode, bytes: usize) -> Transfer {
        assert!(
            bytes >= TRANSFER_BYTES_MIN,
            "transfers need {TRANSFER_BYTES_MIN} bytes, got {bytes}"
        );
        let half = bytes / 2;
        Transfer {
            inner: Rc::new(Inner {
                mode,
                pieces: Semaphore::new(half),
                held: Semaphore::new(half),
                half,
                pressed: Notify::new(),
                counters: Cell::default(),
            }),
        }
    }

    /// Whether sealed files go from the page cache.
    pub fn splices(&self) -> bool {
        match self.inner.mode {
            TransferMode::Splice => true,
            // Cold data is dearer through the page cache, whatever the peer does with it: filling the cache costs more
            // than the copy that sendfile saves.
            TransferMode::Copy | TransferMode::Auto => false,
        }
    }

    /// Memory for bytes that will be let go of soon, or can be read again; at most a half of the budget, whatever is
    /// asked for. Who has such memory must not wait for more.
    pub async fn memory(&self, bytes: usize) -> Permit {
        let bytes = bytes.min(self.inner.half);
        if let Some(permit) = self.inner.pieces.try_acquire(bytes) {
            return permit;
        }
        self.count(|c| c.waits += 1);
        self.inner.pressed.notify_all();
        self.inner.pieces.acquire(bytes).await
    }

    /// Memory for bytes that are held until a peer has taken them; at most a half of the budget. Who has such memory
    /// must not wait for more of it.
    pub async fn held(&self, bytes: usize) -> Permit {
        let bytes = bytes.min(self.inner.half);
        if let Some(permit) = self.inner.held.try_acquire(bytes) {
            return permit;
        }
        self.count(|c| c.waits += 1);
        self.inner.held.acquire(bytes).await
    }

    /// True while somebody waits for memory of the held kind.
    pub fn held_is_short(&self) -> bool {
        self.inner.held.waiting() > 0
    }

    /// Bytes of memory that are taken, of both kinds.
    pub fn in_use(&self) -> usize {
        2 * self.inner.half - self.inner.pieces.available() - self.inner.held.available()
    }

    /// What was transferred.
    pub fn counters(&self) -> TransferCounters {
        self.inner.counters.get()
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut TransferCounters)) {
        let mut counters = self.inner.counters.get();
        change(&mut counters);
        self.inner.counters.set(counters);
    }

    /// True while somebody waits for a piece's memory.
    pub(crate) fn is_pressed(&self) -> bool {
        self.inner.pieces.waiting() > 0
    }

    pub(crate) fn pressed(&self) -> Notified {
        self.inner.pressed.notified()
    }
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transfer({:?}, {} bytes in use)", self.inner.mode, self.in_use())
    }
}

/// Where bytes are at this moment.
pub enum Located {
    /// In memory that costs nothing more; they are let go of when the peer stalls, and looked for again.
    Memory(Vec<Chunk>),
    /// In a file, so many of them at least: to be read directly.
    File(DirectFile, usize),
    /// In a file that nobody writes any more, so many of them at least: to be sent from the page cache.
    Sealed(SealedFile, usize),
}

/// Bytes that do not change, and may move from memory to a file while they wait to be sent. A source pins its files.
pub trait Source {
    /// At least one byte at `pos` and at most `max`, which is not zero. `None`: they are gone for good, and the
    /// connection that was promised them ends.
    fn locate(&self, pos: u64, max: usize) -> Option<Located>;
}

impl Source for DirectFile {
    fn locate(&self, _pos: u64, max: usize) -> Option<Located> {
        Some(Located::File(self.clone(), max))
    }
}

impl Source for SealedFile {
    fn locate(&self, _pos: u64, max: usize) -> Option<Located> {
        Some(Located::Sealed(self.clone(), max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_three_ways_have_a_name() {
        assert_eq!("splice".parse(), Ok(TransferMode::Splice));
        assert!("sendfile".parse::<TransferMode>().is_err());
    }
}
