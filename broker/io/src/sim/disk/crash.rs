//! What a kill and a power cut do to a disk (storage.md section 11).
//!
//! A kill keeps what has completed; a write in flight lands late, in pieces, or not at all. A power cut keeps
//! what was made durable, and of the rest a random subset: of every write some sectors, of every change of
//! names, sizes and allocations some. Absent on purpose: order. No operation implies that an earlier one is kept.

use super::super::rng::Rng;
use super::content::Content;
use super::file::{Change, Done, File};
use super::fs::{Fs, Kind};
use crate::chunk::BLOCK;

/// The smallest piece a disk writes whole.
const SECTOR: usize = 512;

/// How much of one operation survives.
enum Share {
    None,
    All,
    Some,
}

fn share(rng: &mut Rng) -> Share {
    match rng.below(4) {
        0 => Share::None,
        1 => Share::All,
        _ => Share::Some,
    }
}

fn grain(rng: &mut Rng) -> usize {
    if rng.coin() { SECTOR } else { BLOCK }
}

/// Pieces of `len` bytes at `pos`, cut at multiples of `grain`: offset and length within the bytes.
pub(crate) fn pieces(pos: u64, len: usize, grain: usize) -> Vec<(usize, usize)> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < len {
        let to_edge = grain - ((pos + at as u64) % grain as u64) as usize;
        let n = to_edge.min(len - at);
        pieces.push((at, n));
        at += n;
    }
    pieces
}

/// Puts a random subset of a write's pieces, without changing the size.
pub(crate) fn put_some(rng: &mut Rng, to: &mut Content, pos: u64, bytes: &[u8]) {
    match share(rng) {
        Share::None => {}
        Share::All => to.put(pos, bytes),
        Share::Some => {
            let grain = grain(rng);
            for (at, n) in pieces(pos, bytes.len(), grain) {
                if rng.coin() {
                    to.put(pos + at as u64, &bytes[at..at + n]);
                }
            }
        }
    }
}

/// What a power cut leaves of an operation that no flush covered.
fn maybe(rng: &mut Rng, change: &Change, to: &mut Content) {
    match change {
        Change::Write { pos, bytes } => {
            let bytes = bytes.get();
            put_some(rng, to, *pos, bytes);
            // The size is metadata of its own: it may be kept without the bytes, and the other way round.
            if rng.coin() {
                to.size = to.size.max(pos + bytes.len() as u64);
            }
        }
        Change::Size(size) => {
            if rng.coin() {
                to.set_size(*size);
            }
        }
        Change::Allocate { pos, len } => {
            if rng.coin() {
                to.size = to.size.max(pos + len);
            }
        }
    }
}

impl File {
    /// `in_flight` are writes issued but not completed.
    fn power_cut(&mut self, rng: &mut Rng, in_flight: &[Change]) {
        let mut left = std::mem::take(&mut self.durable);
        for Done { change, durable, .. } in self.done.drain(..) {
            if durable {
                change.apply(&mut left);
            } else {
                maybe(rng, &change, &mut left);
            }
        }
        for change in in_flight {
            maybe(rng, change, &mut left);
        }
        let size = left.size;
        left.forget_beyond(size);
        self.now = left.clone();
        self.durable = left;
        self.lock = None;
        self.late = 0;
        self.space.cut(0);
        self.space.insert(0, size);
    }
}

impl Fs {
    /// The power is cut. `in_flight` are the writes that had been issued and not completed, by file.
    pub(crate) fn power_cut(&mut self, in_flight: &[(u64, Change)]) {
        let mut rng = self.rng.clone();
        let named = std::mem::take(&mut self.named);
        for named in named {
            if named.durable() || rng.coin() {
                self.name_durably(&named.naming);
            }
        }
        for (ino, inode) in &mut self.inodes {
            match &mut inode.kind {
                Kind::Dir { now, durable } => now.clone_from(durable),
                Kind::File(file) => {
                    let mine: Vec<Change> = in_flight
                        .iter()
                        .filter(|(i, _)| i == ino)
                        .map(|(_, change)| change.clone())
                        .collect();
                    file.power_cut(&mut rng, &mine);
                }
            }
        }
        self.cuts += 1;
        self.down = false;
        self.handles.clear();
        self.busy.clear();
        self.recount();
        self.rng = rng;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_at_multiples_of_the_grain() {
        assert_eq!(pieces(4096, 1024, 512), vec![(0, 512), (512, 512)]);
        assert_eq!(pieces(100, 600, 512), vec![(0, 412), (412, 188)]);
        assert_eq!(pieces(0, 0, 512), vec![]);
    }
}
