//! `log verify` on directories that the log crate made in the simulated world: healthy, damaged bit by bit, cut short,
//! killed, and while a node is writing them.

mod damage;
mod live;
mod made;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::files::{Files, Stamp};

/// A data directory in memory.
#[derive(Clone, Default)]
struct Memory {
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Memory {
    fn bytes(&self, path: &Path) -> Result<&Vec<u8>> {
        self.files.get(path).ok_or_else(|| Error::from(ErrorKind::NotFound))
    }

    fn change(&mut self, path: &Path) -> &mut Vec<u8> {
        self.files.get_mut(path).expect("a test that damages nothing tests nothing")
    }

    fn flip(&mut self, path: &Path, byte: usize, bit: u8) {
        self.change(path)[byte] ^= 1 << bit;
    }
}

impl Files for Memory {
    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        self.bytes(path).cloned()
    }

    fn read_at(&self, path: &Path, position: u64, len: usize) -> Result<Vec<u8>> {
        Ok(part(self.bytes(path)?, position, len))
    }

    fn list(&self, dir: &Path) -> Result<Vec<(PathBuf, bool)>> {
        children(self.files.keys(), dir)
    }

    fn stamp(&self, path: &Path) -> Option<Stamp> {
        self.bytes(path).ok().map(|bytes| stamp(bytes))
    }

    fn pause(&self, _: Duration) {}
}

fn part(bytes: &[u8], position: u64, len: usize) -> Vec<u8> {
    let from = bytes.len().min(position as usize);
    bytes[from..bytes.len().min(from + len)].to_vec()
}

/// Other contents have another time of their last write.
fn stamp(bytes: &[u8]) -> Stamp {
    let sum = bytes.chunks(512).map(|c| u64::from(c[c.len() / 2]) + 31 * u64::from(c[0])).sum();
    let modified = SystemTime::UNIX_EPOCH + Duration::from_nanos(sum);
    Stamp { bytes: bytes.len() as u64, modified: Some(modified) }
}

fn children<'a>(
    files: impl Iterator<Item = &'a PathBuf>,
    dir: &Path,
) -> Result<Vec<(PathBuf, bool)>> {
    let mut all = BTreeSet::new();
    for path in files {
        let Ok(rest) = path.strip_prefix(dir) else { continue };
        let mut names = rest.components();
        if let Some(first) = names.next() {
            all.insert((dir.join(first), names.next().is_some()));
        }
    }
    match all.is_empty() {
        true => Err(Error::from(ErrorKind::NotFound)),
        false => Ok(all.into_iter().collect()),
    }
}
