//! Recycled aligned memory, one pool per thread (so per core; simulated cores share one).
//!
//! Why: a freshly faulted buffer costs 0.25 CPU-s per GiB, more than the append it carries. Buffers are
//! kept by exact size, because glommio writes whole buffers only: a 256 KiB append that got a 256 KiB
//! buffer is written without a copy. Bounded: beyond `LIMIT` the least recently used size is let go.

use std::cell::RefCell;
use std::collections::BTreeMap;

use glommio::io::DmaBuffer;

/// Bytes kept per core. Sixteen largest frames of 1 MiB in flight and as much again for reads.
const LIMIT: usize = 32 << 20;

#[derive(Default)]
struct Pool {
    sizes: BTreeMap<usize, Shelf>,
    bytes: usize,
    tick: u64,
}

#[derive(Default)]
struct Shelf {
    buffers: Vec<DmaBuffer>,
    used_at: u64,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::new(Pool::default());
}

/// A buffer of exactly `size` bytes, a positive multiple of the block. Its content is undefined: the caller
/// must write a byte before it shows it to anyone.
pub(crate) fn take(size: usize) -> DmaBuffer {
    let recycled = POOL.try_with(|pool| pool.borrow_mut().take(size)).ok().flatten();
    let buffer = recycled.unwrap_or_else(|| glommio::allocate_dma_buffer_global(size));
    debug_assert_eq!(buffer.len(), size);
    buffer
}

/// Gives a buffer back. On a thread that is ending it is freed.
pub(crate) fn give(buffer: DmaBuffer) {
    let mut slot = Some(buffer);
    // An ending thread has no pool any more; then `slot` keeps the buffer and drops it here.
    let _ = POOL.try_with(|pool| {
        if let Some(buffer) = slot.take() {
            pool.borrow_mut().give(buffer);
        }
    });
}

impl Pool {
    fn take(&mut self, size: usize) -> Option<DmaBuffer> {
        self.tick += 1;
        let shelf = self.sizes.get_mut(&size)?;
        shelf.used_at = self.tick;
        let buffer = shelf.buffers.pop()?;
        self.bytes -= size;
        Some(buffer)
    }

    fn give(&mut self, buffer: DmaBuffer) {
        let size = buffer.len();
        if size > LIMIT {
            return;
        }
        self.tick += 1;
        while self.bytes + size > LIMIT {
            let Some(oldest) = self
                .sizes
                .iter()
                .filter(|(_, shelf)| !shelf.buffers.is_empty())
                .min_by_key(|(_, shelf)| shelf.used_at)
                .map(|(size, _)| *size)
            else {
                break;
            };
            if let Some(shelf) = self.sizes.remove(&oldest) {
                self.bytes -= oldest * shelf.buffers.len();
            }
        }
        let shelf = self.sizes.entry(size).or_default();
        shelf.used_at = self.tick;
        shelf.buffers.push(buffer);
        self.bytes += size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_stays_within_its_limit() {
        let mut pool = Pool::default();
        for i in 0..100 {
            pool.give(glommio::allocate_dma_buffer_global((1 + i % 7) << 20));
            assert!(pool.bytes <= LIMIT);
        }
        let kept: usize = pool.sizes.iter().map(|(size, s)| size * s.buffers.len()).sum();
        assert_eq!(kept, pool.bytes);
    }

    #[test]
    fn a_buffer_given_back_is_handed_out_again() {
        let mut pool = Pool::default();
        let buffer = glommio::allocate_dma_buffer_global(8192);
        let address = buffer.as_ptr() as usize;
        pool.give(buffer);
        assert!(pool.take(4096).is_none());
        assert_eq!(pool.take(8192).map(|b| b.as_ptr() as usize), Some(address));
    }
}
