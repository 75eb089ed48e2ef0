//! The Kafka protocol as bytes: record batches, and the requests and responses of each API.
//!
//! Shared by the broker and the client. It knows no socket, no clock and no thread, and runs on whichever core calls
//! it. Everything decodes borrowed, and what a decode allocates is bounded by the bytes that were received.
//!
//! - [`batch`]: what a log stores, read in place.
//! - [`api`]: one table per API; [`Message`] is what they have in common.
//! - [`header`]: request and response headers.
//! - [`codec`]: the machinery below.
//! - [`ApiKey`], [`ErrorCode`], [`Uuid`], [`TopicName`]: Kafka's vocabulary.

pub mod api;
pub mod batch;
pub mod codec;
pub mod header;
pub mod varint;

mod api_key;
mod error;
mod message;
mod topic_name;
mod uuid;

#[cfg(test)]
mod tests;

pub use api_key::{API_TABLE, ApiInfo, ApiKey};
pub use codec::{Array, DecodeError, DecodeErrorKind, Frame, Part, Records};
pub use error::ErrorCode;
pub use header::{HeaderVersion, RequestHeader, RequestPeek, ResponseHeader, header_version};
pub use message::{Message, RequestMessage, ResponseMessage, frame_len};
pub use topic_name::{MAX_TOPIC_NAME, TopicName, TopicNameError};
pub use uuid::{Uuid, UuidError};
