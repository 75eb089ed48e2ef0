//! Aligned memory that files and sockets share: `Chunk`, an immutable counted view, and `AppendBuffer`, its
//! one writer.
//!
//! Both stay on their core; what goes to another core is copied. The memory is glommio's `DmaBuffer`, since
//! that is the only thing glommio writes; the simulator uses the same. Absent on purpose: growing. A buffer
//! that moved would leave the views behind.

use std::fmt;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::rc::Rc;

use glommio::io::{DmaBuffer, ReadResult};

use crate::pool;

/// The unit of direct input and output, in bytes: position and length of every write are multiples of it.
pub const BLOCK: usize = 4096;

/// `bytes` rounded up to a whole number of blocks.
pub(crate) fn blocks(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK)
}

/// One aligned allocation, returned to the pool when the last view is gone.
struct Buffer {
    /// `None` only inside `drop`. Counted, because a write in flight holds it too.
    memory: Option<Rc<DmaBuffer>>,
    /// The start of `memory`, taken while it was exclusively ours, so that it may be written through.
    start: NonNull<u8>,
    capacity: usize,
}

impl Buffer {
    fn new(bytes: usize) -> Buffer {
        let capacity = blocks(bytes.max(1));
        let mut memory = pool::take(capacity);
        let start =
            NonNull::new(memory.as_mut_ptr()).expect("an allocation is not at address zero");
        Buffer { memory: Some(Rc::new(memory)), start, capacity }
    }

    /// # Safety
    /// The bytes of `r` were written, `r` lies within the capacity, and nobody writes them while the
    /// returned slice is alive.
    unsafe fn bytes(&self, r: Range<usize>) -> &[u8] {
        debug_assert!(r.start <= r.end && r.end <= self.capacity);
        // SAFETY: in bounds, initialised and unwritten for the life of the slice, by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(r.start), r.end - r.start) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // A write in flight may still hold the memory (its future was dropped): then it is freed, not
        // recycled, when the operation lets go.
        if let Some(Ok(memory)) = self.memory.take().map(Rc::try_unwrap) {
            pool::give(memory);
        }
    }
}

#[derive(Clone)]
enum Memory {
    Buffer(Rc<Buffer>),
    /// What a direct read of glommio returned.
    Read(ReadResult),
}

/// A counted, immutable view of aligned memory. Cheap to clone and to cut.
#[derive(Clone)]
pub struct Chunk {
    memory: Memory,
    start: usize,
    len: usize,
}

impl Chunk {
    /// Copies `bytes` into a new aligned buffer; the rest of its last block is zeroed.
    pub fn copy_from(bytes: &[u8]) -> Chunk {
        let mut buffer = AppendBuffer::with_capacity(bytes.len());
        buffer.extend(bytes);
        buffer.zero_padding();
        buffer.freeze()
    }

    /// A view of part of this view.
    ///
    /// # Panics
    /// If `r` does not lie within it.
    #[must_use]
    pub fn slice(&self, r: Range<usize>) -> Chunk {
        assert!(
            r.start <= r.end && r.end <= self.len,
            "chunk slice {}..{} of {} bytes",
            r.start,
            r.end,
            self.len
        );
        Chunk { memory: self.memory.clone(), start: self.start + r.start, len: r.end - r.start }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn from_read(read: ReadResult, r: Range<usize>) -> Chunk {
        assert!(r.start <= r.end && r.end <= read.len(), "view beyond what was read");
        Chunk { memory: Memory::Read(read), start: r.start, len: r.end - r.start }
    }

    /// Whether it covers its buffer: only then is it written without a copy.
    pub fn is_whole_buffer(&self) -> bool {
        self.whole_buffer().is_some()
    }

    /// The memory as glommio wants it, if it can be written without a copy.
    pub(crate) fn whole_buffer(&self) -> Option<Rc<DmaBuffer>> {
        match &self.memory {
            Memory::Buffer(b) if self.start == 0 && self.len == b.capacity => b.memory.clone(),
            Memory::Buffer(_) => None,
            Memory::Read(read) => ReadResult::slice(read, self.start, self.len)
                .filter(|part| !part.is_empty())
                .map(|part| Rc::new(DmaBuffer::from(part))),
        }
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            // SAFETY: a chunk covers bytes below the writer's length at the time it was made (or zeroed
            // padding of a frozen buffer): they were written. The writer only writes at or above its
            // length, and `patch` refuses while a view exists, so nobody writes them now.
            Memory::Buffer(b) => unsafe { b.bytes(self.start..self.start + self.len) },
            Memory::Read(read) => &read[self.start..self.start + self.len],
        }
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunk({} bytes at {})", self.len, self.start)
    }
}

/// The one writer of an aligned buffer of fixed capacity. Views of what was written may be taken at any time.
pub struct AppendBuffer {
    buffer: Rc<Buffer>,
    len: usize,
}

impl AppendBuffer {
    /// An empty buffer for `bytes` bytes, rounded up to a whole number of blocks (at least one).
    pub fn with_capacity(bytes: usize) -> AppendBuffer {
        AppendBuffer { buffer: Rc::new(Buffer::new(bytes)), len: 0 }
    }

    /// Bytes written.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes it can hold.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity
    }

    /// Bytes that still fit.
    pub fn remaining(&self) -> usize {
        self.buffer.capacity - self.len
    }

    /// Appends `bytes`.
    ///
    /// # Panics
    /// If they do not fit: room is reserved before it is written.
    pub fn extend(&mut self, bytes: &[u8]) {
        assert!(
            bytes.len() <= self.remaining(),
            "append of {} bytes into a buffer with room for {}",
            bytes.len(),
            self.remaining()
        );
        // SAFETY: len..len + n lies within the allocation. Views cover only bytes below `len`, and we are
        // the one writer (`&mut self`), so nobody reads or writes this range; `bytes` cannot overlap it,
        // since a reference into it could only come from such a view.
        unsafe {
            let to = self.buffer.start.as_ptr().add(self.len);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        self.len += bytes.len();
    }

    /// What was written.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: 0..len was written; writing again takes `&mut self`, which this borrow excludes.
        unsafe { self.buffer.bytes(0..self.len) }
    }

    /// A view of part of what was written. Later appends never touch it.
    ///
    /// # Panics
    /// If `r` does not lie within `0..len`.
    pub fn slice(&self, r: Range<usize>) -> Chunk {
        assert!(
            r.start <= r.end && r.end <= self.len,
            "slice {}..{} of a buffer of {} bytes",
            r.start,
            r.end,
            self.len
        );
        Chunk {
            memory: Memory::Buffer(Rc::clone(&self.buffer)),
            start: r.start,
            len: r.end - r.start,
        }
    }

    /// Overwrites bytes already written.
    ///
    /// # Panics
    /// If `at..at + bytes.len()` does not lie within `0..len`, or while any view exists.
    pub fn patch(&mut self, at: usize, bytes: &[u8]) {
        assert!(Rc::strong_count(&self.buffer) == 1, "patch of a buffer that has views");
        assert!(
            at.checked_add(bytes.len()).is_some_and(|end| end <= self.len),
            "patch of {} bytes at {at} of a buffer of {} bytes",
            bytes.len(),
            self.len
        );
        // SAFETY: within what was written; there is no view (checked) and no slice (`&mut self`).
        unsafe {
            let to = self.buffer.start.as_ptr().add(at);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    /// Zeroes from `len` to the end of the last block, so that recycled memory never reaches the disk.
    fn zero_padding(&mut self) {
        let end = blocks(self.len).min(self.buffer.capacity);
        // SAFETY: len..end lies within the allocation and, as in `extend`, is ours alone.
        unsafe {
            std::ptr::write_bytes(self.buffer.start.as_ptr().add(self.len), 0, end - self.len);
        }
    }

    /// The whole of what was written, as a view. The buffer can no longer be appended to.
    pub fn freeze(self) -> Chunk {
        Chunk { memory: Memory::Buffer(self.buffer), start: 0, len: self.len }
    }

    /// The same, extended with zeros to a whole number of blocks.
    pub fn freeze_padded(mut self) -> Chunk {
        self.zero_padding();
        let len = blocks(self.len);
        Chunk { memory: Memory::Buffer(self.buffer), start: 0, len }
    }
}

impl fmt::Debug for AppendBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AppendBuffer({} of {} bytes)", self.len, self.buffer.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_keeps_its_bytes_while_the_writer_goes_on() {
        let mut b = AppendBuffer::with_capacity(5000);
        assert_eq!(b.capacity(), 2 * BLOCK);
        b.extend(b"abc");
        let view = b.slice(1..3);
        b.extend(b"defg");
        assert_eq!(&*view, b"bc");
        assert_eq!(b.as_slice(), b"abcdefg");
        assert_eq!(&*b.freeze(), b"abcdefg");
    }

    #[test]
    fn padding_is_zero_even_in_recycled_memory() {
        for _ in 0..2 {
            let mut dirty = AppendBuffer::with_capacity(BLOCK);
            dirty.extend(&[0xAA; BLOCK]);
            drop(dirty);
            let mut b = AppendBuffer::with_capacity(BLOCK);
            b.extend(b"x");
            let padded = b.freeze_padded();
            assert_eq!(padded.len(), BLOCK);
            assert!(padded[1..].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn memory_starts_at_a_block() {
        let c = Chunk::copy_from(b"hello");
        assert_eq!(c.as_ptr() as usize % BLOCK, 0);
        assert_eq!(c.len(), 5);
        assert!(Chunk::copy_from(b"").is_empty());
    }

    #[test]
    fn a_patch_lands_before_there_are_views() {
        let mut b = AppendBuffer::with_capacity(10);
        b.extend(b"0123456789");
        b.patch(2, b"xy");
        assert_eq!(b.as_slice(), b"01xy456789");
    }

    #[test]
    #[should_panic(expected = "has views")]
    fn a_patch_under_a_view_panics() {
        let mut b = AppendBuffer::with_capacity(10);
        b.extend(b"0123456789");
        let _view = b.slice(0..1);
        b.patch(2, b"xy");
    }

    #[test]
    #[should_panic(expected = "with room for")]
    fn an_append_that_does_not_fit_panics() {
        let mut b = AppendBuffer::with_capacity(BLOCK);
        b.extend(&[0; BLOCK + 1]);
    }

    #[test]
    fn only_a_view_of_the_whole_buffer_is_written_without_a_copy() {
        let mut b = AppendBuffer::with_capacity(2 * BLOCK);
        b.extend(&[7; 2 * BLOCK]);
        let whole = b.freeze();
        assert!(whole.whole_buffer().is_some());
        assert!(whole.slice(0..BLOCK).whole_buffer().is_none());
    }
}
