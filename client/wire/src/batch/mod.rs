//! Record batches, Kafka's format v2: what a log stores, a producer sends and a consumer gets, byte for byte.
//!
//! - `view` ([`BatchView`], [`batches`], [`assign`]): the 61-byte header read in place, its checks, and the two edits a broker makes.
//! - `record` ([`records()`]): the records inside an uncompressed payload.
//! - `build` ([`BatchBuilder`]): what a producer does.
//! - `compress` ([`decompress()`], [`compress()`]): the four codecs, with a bound on what comes out; `steps` ([`Unpacker`],
//!   [`Packer`]): the same in small steps.
//!
//! Formats v0 and v1 are absent on purpose: Kafka 4 no longer reads them from clients.

mod build;
mod compress;
mod record;
mod steps;
#[cfg(test)]
mod tests;
mod view;

use crate::ErrorCode;

pub use build::BatchBuilder;
pub use compress::{compress, decompress};
pub use record::{Header, Headers, RecordIter, RecordView, records};
pub use steps::{Packer, STEP, Unpacker};
pub use view::{
    BATCH_HEADER, BatchView, Batches, CRC_START, LENGTH_PREFIX, MAGIC, assign, batches,
    sequence_after, set_max_timestamp_and_type,
};

/// How the records of a batch are compressed: bits 0-2 of its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i16)]
pub enum Codec {
    None = 0,
    Gzip = 1,
    Snappy = 2,
    Lz4 = 3,
    /// Only to be sent to Fetch v10 and newer, and accepted from Produce v7 (KIP-110).
    Zstd = 4,
}

impl Codec {
    /// The codec that an attribute value names; `None` for 5, 6 and 7.
    #[must_use]
    pub fn from_id(id: i16) -> Option<Self> {
        match id {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// Whose clock the timestamps of a batch come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// The producer's.
    CreateTime,
    /// The broker's, at append.
    LogAppendTime,
}

/// What is wrong with a batch or a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    #[error("batch is cut off: {need} bytes needed, {have} there")]
    Truncated { need: usize, have: usize },
    #[error("batch length {0} is below the 49 bytes that every batch has")]
    Length(i32),
    #[error("batch format {0}, only 2 is supported")]
    Magic(i8),
    #[error("one batch expected, but the first ends after {first} of {all} bytes")]
    MoreThanOne { first: usize, all: usize },
    #[error("a producer may not send a control batch")]
    Control,
    #[error("a producer numbers its offsets from 0, not from {0}")]
    BaseOffset(i64),
    #[error("unknown compression codec {0}")]
    Codec(i16),
    #[error("{count} records do not fit a last offset delta of {delta}")]
    Count { count: i32, delta: i32 },
    #[error("a producer id needs an epoch and a sequence, got {epoch} and {sequence}")]
    Sequence { epoch: i16, sequence: i32 },
    #[error("checksum {computed:#010x} computed, {claimed:#010x} claimed")]
    Crc { claimed: u32, computed: u32 },
    #[error("record at byte {at} of the payload is broken: {what}")]
    Record { at: usize, what: &'static str },
    #[error("payload is not what its codec {0:?} says")]
    Decompress(Codec),
    #[error("payload is larger than {limit} bytes when decompressed")]
    TooLarge { limit: usize },
    #[error("payload could not be compressed with {0:?}")]
    Compress(Codec),
}

impl BatchError {
    /// The code a producer gets when its batch fails this way, as Kafka answers it.
    ///
    /// Kafka looks for the one whole batch first, so that a cut-off one is no batch at all: `INVALID_RECORD`.
    #[must_use]
    pub const fn error_code(&self) -> ErrorCode {
        match self {
            Self::Length(_)
            | Self::Crc { .. }
            | Self::Decompress(_)
            | Self::Magic(i8::MIN..=-1 | 2..) => ErrorCode::CorruptMessage,
            Self::Truncated { .. }
            | Self::Magic(0 | 1)
            | Self::MoreThanOne { .. }
            | Self::Control
            | Self::BaseOffset(_)
            | Self::Count { .. }
            | Self::Sequence { .. }
            | Self::Record { .. } => ErrorCode::InvalidRecord,
            Self::Codec(_) => ErrorCode::UnsupportedCompressionType,
            Self::TooLarge { .. } => ErrorCode::MessageTooLarge,
            Self::Compress(_) => ErrorCode::UnknownServerError,
        }
    }
}
