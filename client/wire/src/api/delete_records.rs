//! DeleteRecords, key 21, versions 0-2, flexible from 2: move the start of logs, and lose what lies before it (KIP-107).
//!
//! | version | change |
//! |---|---|
//! | 2 | flexible |

use crate::codec::api;
use crate::{Array, ErrorCode};

/// Offset that stands for the high watermark.
pub const HIGH_WATERMARK: i64 = -1;

api! {
    DeleteRecords 0..=2;

    request<'a> {
        topics: Array<'a, Topic<'a>> [0..],
        /// How long to wait for the replicas.
        timeout_ms: i32 [0..],
    }

    response<'a> {
        throttle_time_ms: i32 [0..],
        topics: Array<'a, TopicResponse<'a>> [0..],
    }

    /// The partitions of a topic.
    pub struct Topic<'a> {
        name: &'a str [0..],
        partitions: Array<'a, Partition> [0..],
    }

    /// Where a partition is going to start.
    pub struct Partition {
        partition_index: i32 [0..],
        /// The first record that stays; [`HIGH_WATERMARK`] stands for that.
        offset: i64 [0..],
    }

    /// The answers for a topic.
    pub struct TopicResponse<'a> {
        name: &'a str [0..],
        partitions: Array<'a, PartitionResponse> [0..],
    }

    /// The answer for a partition.
    pub struct PartitionResponse {
        partition_index: i32 [0..],
        /// Where the log starts now, on every replica; -1 with an error.
        low_watermark: i64 [0..],
        error_code: ErrorCode [0..],
    }
}
