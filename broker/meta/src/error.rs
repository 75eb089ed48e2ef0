//! The crate's one error.

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("metadata log: {0}")]
    Log(#[from] rillway_log::Error),
    #[error("metadata log: {0}")]
    Append(#[from] rillway_log::AppendError),
    #[error("metadata record at offset {offset}: {what}")]
    Corrupt { offset: i64, what: String },
    #[error("metadata snapshot {path}: {what}")]
    Snapshot { path: String, what: String },
    #[error("the value {key} could not be kept: {what}")]
    Value { key: String, what: String },
    #[error("{key} has changed meanwhile: version {got}, expected {expected}")]
    Conflict { key: String, got: u64, expected: u64 },
}
