//! Where the bytes come from: the file system, or a test's map of files that can be damaged and changed between two reads.

use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Files, only ever read.
pub(super) trait Files {
    /// All of a file.
    fn read(&self, path: &Path) -> Result<Vec<u8>>;
    /// Up to `len` bytes from `position` on, fewer at the file's end.
    fn read_at(&self, path: &Path, position: u64, len: usize) -> Result<Vec<u8>>;
    /// What lies in a folder, by name, and whether it is a folder.
    fn list(&self, dir: &Path) -> Result<Vec<(PathBuf, bool)>>;
    /// What changes when a file is written; `None` when it is gone.
    fn stamp(&self, path: &Path) -> Option<Stamp>;
    /// Lets a broker that runs go on for a moment.
    fn pause(&self, time: Duration);
}

/// Length, and time of the last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) bytes: u64,
    pub(super) modified: Option<SystemTime>,
}

/// The file system.
pub(super) struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn read_at(&self, path: &Path, position: u64, len: usize) -> Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        file.seek(SeekFrom::Start(position))?;
        let mut bytes = Vec::new();
        file.take(len as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn list(&self, dir: &Path) -> Result<Vec<(PathBuf, bool)>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            match entry.file_type() {
                Ok(kind) => all.push((entry.path(), kind.is_dir())),
                // It went while others were looked at.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        all.sort();
        Ok(all)
    }

    fn stamp(&self, path: &Path) -> Option<Stamp> {
        let about = std::fs::symlink_metadata(path).ok()?;
        Some(Stamp { bytes: about.len(), modified: about.modified().ok() })
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Whether an error says that there is no such file.
pub(super) fn is_gone(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound
}
