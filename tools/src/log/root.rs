//! The data directory as a whole: its identity, its rings, and the state that their checkpoints hold.

use std::path::{Path, PathBuf};

use rillway_log::RingRef;
use rillway_log::inspect;

use super::read;
use crate::error::{Error, Result};

/// A data directory.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) dir: PathBuf,
    pub(super) storage: [u8; 16],
    pub(super) rings: Vec<RingRef>,
}

impl Root {
    /// Opens a data directory by its two text files.
    pub(super) fn open(dir: &Path) -> Result<Root> {
        let path = dir.join("storage");
        let storage = inspect::storage(&path, &read(&path)?)?;
        let path = dir.join("rings").join("current");
        let rings = inspect::rings(&path, dir, &read(&path)?)?;
        Ok(Root { dir: dir.to_path_buf(), storage, rings })
    }

    /// The ring with this number.
    pub(super) fn ring(&self, id: u64) -> Option<&RingRef> {
        self.rings.iter().find(|r| r.id.0 == id)
    }
}

/// The data directory that a path is or lies in: the nearest folder with a file `storage`.
pub(super) fn find(path: &Path) -> Result<PathBuf> {
    let failed = |source| Error::File { path: path.to_path_buf(), source };
    let path = path.canonicalize().map_err(failed)?;
    let found = path.ancestors().find(|dir| dir.join("storage").is_file());
    found.map(Path::to_path_buf).ok_or(Error::NoDataDirectory(path))
}
