//! The Kafka protocol as bytes: record batches, and the requests and responses of each API.
//!
//! Shared by the broker and the client. It knows no socket, no clock and no thread, and runs on whichever core calls
//! it. Everything decodes borrowed, and what a decode allocates is bounded by the bytes that were received.

pub mod batch;

mod api_key;
mod error;

pub use api_key::{API_TABLE, ApiInfo, ApiKey};
pub use error::ErrorCode;
