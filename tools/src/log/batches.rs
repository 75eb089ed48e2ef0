//! Batches one behind the other, with the position of each.

use rillway_wire::batch::{BatchError, BatchView};

/// Walks the batches of a segment. The walk ends at the first bytes that are no batch.
pub(super) struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    ended: bool,
}

pub(super) fn walk(bytes: &[u8]) -> Walk<'_> {
    Walk { bytes, at: 0, ended: false }
}

impl<'a> Iterator for Walk<'a> {
    /// Position, and the batch or what is wrong.
    type Item = (u64, Result<BatchView<'a>, BatchError>);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty() && !self.ended)?;
        let at = self.at as u64;
        let parsed = BatchView::parse(rest);
        match &parsed {
            Ok(batch) => self.at += batch.total_len(),
            Err(_) => self.ended = true,
        }
        Some((at, parsed))
    }
}

/// Whether there is nothing but zeros: room that was taken ahead of the contents.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| *b == 0)
}
