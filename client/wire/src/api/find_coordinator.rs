//! FindCoordinator, key 10, versions 0-6, flexible from 3: which broker coordinates a group or a transactional id?
//!
//! | version | change |
//! |---|---|
//! | 1 | transactional ids (KIP-98), throttle time, a message with the error |
//! | 3 | flexible |
//! | 4 | many keys at once (KIP-699): the single answer moves into an array |
//! | 5 | `TRANSACTION_ABORTABLE` may come back (KIP-890) |
//! | 6 | share groups (KIP-932) |
//!
//! Version 0 has to be advertised, or librdkafka before 2.11 takes the broker for one without groups.

use crate::codec::api;
use crate::{Array, ErrorCode};

/// `key_type` of a consumer group.
pub const GROUP: i8 = 0;
/// `key_type` of a transactional id.
pub const TRANSACTION: i8 = 1;
/// `key_type` of a share group's partition: `group:topic id:partition`.
pub const SHARE: i8 = 2;

api! {
    FindCoordinator 0..=6;

    request<'a> {
        key: &'a str [0..=3],
        /// [`GROUP`], [`TRANSACTION`] or [`SHARE`].
        key_type: i8 [1..] = GROUP,
        coordinator_keys: Array<'a, &'a str> [4..],
    }

    response<'a> {
        throttle_time_ms: i32 [1..],
        error_code: ErrorCode [0..=3],
        error_message: Option<&'a str> [1..=3],
        node_id: i32 [0..=3],
        host: &'a str [0..=3],
        port: i32 [0..=3],
        coordinators: Array<'a, Coordinator<'a>> [4..],
    }

    /// The coordinator of a key; node -1 and an empty host with an error.
    pub struct Coordinator<'a> {
        key: &'a str [4..],
        node_id: i32 [4..],
        host: &'a str [4..],
        port: i32 [4..],
        error_code: ErrorCode [4..],
        error_message: Option<&'a str> [4..],
    }
}
