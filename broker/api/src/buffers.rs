//! Memory of large requests that are done, kept for the next ones: one shelf per core, shared by its connections.
//!
//! A megabyte that grows by doubling, and goes back to the system after each request, is moved and faulted in anew every
//! time: 492 calls of mremap for 44 requests of 1 MB. Bounded by [`KEPT_MAX`]; what is in use is bounded by the permits
//! of its requests (`frames`).

use std::cell::RefCell;

/// Bytes kept while nobody uses them.
const KEPT_MAX: usize = 16 << 20;
/// Capacities are multiples of this, so that requests of about one size share buffers.
const STEP: usize = 256 << 10;

#[derive(Default)]
pub(crate) struct Buffers {
    kept: RefCell<Vec<Vec<u8>>>,
}

impl Buffers {
    /// An empty buffer with room for `bytes`: the smallest kept one that is large enough, and not far too large.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        let mut kept = self.kept.borrow_mut();
        let fits = |b: &&Vec<u8>| b.capacity() >= bytes && b.capacity() / 4 <= bytes;
        let best = kept.iter().filter(fits).map(Vec::capacity).min();
        match best.and_then(|capacity| kept.iter().position(|b| b.capacity() == capacity)) {
            Some(at) => kept.swap_remove(at),
            None => Vec::with_capacity(bytes.next_multiple_of(STEP)),
        }
    }

    /// Gives a buffer back. The oldest ones make room.
    pub(crate) fn give(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        if buffer.capacity() > KEPT_MAX {
            return;
        }
        let mut kept = self.kept.borrow_mut();
        kept.push(buffer);
        while kept.iter().map(Vec::capacity).sum::<usize>() > KEPT_MAX {
            kept.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_given_back_serves_the_next_request_of_about_its_size() {
        let buffers = Buffers::default();
        buffers.give(buffers.take(1_000_000));
        buffers.take(100_000);
        assert_eq!(buffers.kept.borrow().len(), 1, "far too large for it");
        let again = buffers.take(1_040_000);
        assert!(buffers.kept.borrow().is_empty() && again.capacity() >= 1_040_000);
    }

    #[test]
    fn what_is_kept_stays_within_its_limit() {
        let buffers = Buffers::default();
        for megabytes in [1, 5, 9, 3, 40, 7, 2] {
            buffers.give(Vec::with_capacity(megabytes << 20));
            let kept: usize = buffers.kept.borrow().iter().map(Vec::capacity).sum();
            assert!(kept <= KEPT_MAX, "{kept}");
        }
    }
}
