//! The data directory as a whole: its identity, its rings, and the state that their checkpoints hold.

use std::path::{Path, PathBuf};

use rillway_log::RingRef;
use rillway_log::inspect;

use super::files::{Disk, Files};
use super::known::RootError;
use crate::error::{Error, Result};

/// A data directory.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) storage: [u8; 16],
    pub(super) rings: Vec<RingRef>,
}

impl Root {
    /// Reads a data directory's two text files.
    pub(super) fn read(files: &impl Files, dir: &Path) -> std::result::Result<Root, RootError> {
        let path = dir.join("storage");
        let bytes = files.read(&path).map_err(|why| (path.clone(), Err(why)))?;
        let storage = inspect::storage(&path, &bytes).map_err(|error| (path, Ok(error)))?;
        let path = dir.join("rings").join("current");
        let bytes = files.read(&path).map_err(|why| (path.clone(), Err(why)))?;
        let rings = inspect::rings(&path, dir, &bytes).map_err(|error| (path, Ok(error)))?;
        Ok(Root { storage, rings })
    }

    /// The same of a directory that is on disk.
    pub(super) fn open(dir: &Path) -> Result<Root> {
        Root::read(&Disk, dir).map_err(|(path, error)| match error {
            Ok(error) => Error::Log(error),
            Err(source) => Error::File { path, source },
        })
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
