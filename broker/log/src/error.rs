//! The crate's one error. `log::AppendError` is what an append can answer beside it.

use std::path::{Path, PathBuf};

pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong below the log. `Io` of a write or flush never reaches a caller: the store ends the process
/// (storage.md section 1).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Io(#[from] rillway_io::Error),

    #[error("{}: corrupt at byte {position}: {what}: got {got}, expected {expected}", path.display())]
    Corrupt { path: PathBuf, position: u64, what: &'static str, got: String, expected: String },

    #[error(
        "{}: format version {got}, this build reads version {expected}; start the version of the broker that wrote it, or upgrade",
        path.display()
    )]
    Version { path: PathBuf, got: u32, expected: u32 },

    #[error("{}: belongs to storage {got}, this directory is storage {expected}; put the file back where it came from", path.display())]
    ForeignStorage { path: PathBuf, got: String, expected: String },

    #[error("{} is in use by another broker (its LOCK is held); stop that one, or give this one its own --data-dir", path.display())]
    InUse { path: PathBuf },

    #[error("{}: no room: {what}", path.display())]
    NoSpace { path: PathBuf, what: String },

    #[error("{what}: got {got}, expected {expected}")]
    Config { what: &'static str, got: String, expected: String },

    #[error("partition {partition}: {what}")]
    Partition { partition: String, what: String },

    #[error("offset {offset} is not in {start}..={end}")]
    OffsetOutOfRange { offset: i64, start: i64, end: i64 },

    /// Within the crate: whoever was reading it begins anew, with the segment that took its place.
    #[error("segment {base} was replaced by compaction while it was read")]
    Replaced { base: i64 },

    #[error("the log is closed")]
    Closed,
}

impl Error {
    pub(crate) fn corrupt(
        path: &Path,
        position: u64,
        what: &'static str,
        got: impl ToString,
        expected: impl ToString,
    ) -> Error {
        Error::Corrupt {
            path: path.to_path_buf(),
            position,
            what,
            got: got.to_string(),
            expected: expected.to_string(),
        }
    }
}
