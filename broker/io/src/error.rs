//! The one error of this crate: what was tried, where, and what the system said.
//!
//! Owned by whoever made the call; no backend has errors of its own. Absent on purpose: retry hints.
//! Whether an error may be retried is the caller's knowledge (EIO of a flush never is).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Result of every operation of this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation of disk or network.
#[derive(Debug)]
pub struct Error {
    /// The operation, as a word or two: `open`, `fdatasync`, `connect`.
    pub op: &'static str,
    /// The file it concerned, if it concerned one.
    pub path: Option<PathBuf>,
    /// What the operating system (or the simulator in its place) answered.
    pub source: io::Error,
    /// What was expected and what was got, where the source does not say it. May be empty.
    pub detail: String,
}

impl Error {
    /// An error without a path.
    pub fn new(op: &'static str, source: io::Error) -> Error {
        Error { op, path: None, source, detail: String::new() }
    }

    /// An error of an operation on `path`.
    pub fn at(op: &'static str, path: &Path, source: io::Error) -> Error {
        Error { op, path: Some(path.to_path_buf()), source, detail: String::new() }
    }

    /// Adds what was expected and what was got.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Error {
        self.detail = detail.into();
        self
    }

    /// The kind of the source.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// True for ENOSPC and EDQUOT: a served state, not a reason to stop (design section 4).
    pub fn is_no_space(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// True if the process, or the system, has no descriptor left: passing, and no fault of the device.
    pub fn is_descriptor_limit(&self) -> bool {
        matches!(self.source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
    }

    /// True if the file, directory or peer does not exist.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.op)?;
        if let Some(path) = &self.path {
            write!(f, " {}", path.display())?;
        }
        write!(f, ": {}", self.source)?;
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
