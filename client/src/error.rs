//! What can go wrong, as one enum. Cloneable, since one broken connection ends several things at once.

use std::time::Duration;

use rillway_wire::batch::BatchError;
use rillway_wire::{ApiKey, DecodeError, ErrorCode};

use crate::Address;

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something did not work, with what is needed to act on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No connection could be opened.
    #[error("cannot connect to {address}: {detail}")]
    Connect { address: Address, detail: String },
    /// An open connection ended.
    #[error("connection to {address} ended: {detail}")]
    Disconnected { address: Address, detail: String },
    /// The broker sent what the protocol does not allow.
    #[error("{address} answered {api} with bytes that make no sense: {source}")]
    Decode { address: Address, api: &'static str, source: DecodeError },
    /// The broker answered another request than the oldest one, or none.
    #[error("{address} answered request {got}, expected {expected:?}")]
    Correlation { address: Address, got: i32, expected: Option<i32> },
    /// The broker left something out of its answer, or put something in that was not asked for.
    #[error("{api} was answered without {what}")]
    Incomplete { api: ApiKey, what: String },
    /// No common version.
    #[error("{api} is served in versions {theirs:?}, this client speaks {ours:?}")]
    Unsupported { api: ApiKey, ours: (i16, i16), theirs: Option<(i16, i16)> },
    /// The broker said no.
    #[error("{doing}: {code}{}", message.as_deref().map(|m| format!(" ({m})")).unwrap_or_default())]
    Broker { doing: String, code: ErrorCode, message: Option<String> },
    /// Not done in time, for this last reason.
    #[error("{doing}: not done within {after:?}{}", last.as_ref().map(|e| format!("; last error: {e}")).unwrap_or_default())]
    Timeout { doing: String, after: Duration, last: Option<Box<Error>> },
    /// A batch that was fetched is damaged, or one that was to be sent could not be built.
    #[error("{topic}-{partition}, batch at offset {offset}: {source}")]
    Batch { topic: String, partition: i32, offset: i64, source: BatchError },
    /// A record that no batch of the configured size can hold.
    #[error("record of {len} bytes is larger than a batch may be ({limit} bytes)")]
    RecordTooLarge { len: usize, limit: usize },
    /// An earlier batch of the partition failed, so nothing behind it is sent: order and completeness would be lost.
    #[error("{topic}-{partition}: not sent, because an earlier batch failed: {source}")]
    Behind { topic: String, partition: i32, source: Box<Error> },
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

impl Error {
    /// The broker's code, when a broker said no.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Broker { code, .. } => Some(*code),
            Self::Behind { source, .. } => source.code(),
            Self::Timeout { last, .. } => last.as_ref().and_then(|e| e.code()),
            Self::Connect { .. }
            | Self::Disconnected { .. }
            | Self::Decode { .. }
            | Self::Correlation { .. }
            | Self::Incomplete { .. }
            | Self::Unsupported { .. }
            | Self::Batch { .. }
            | Self::RecordTooLarge { .. }
            | Self::Closed => None,
        }
    }
}
