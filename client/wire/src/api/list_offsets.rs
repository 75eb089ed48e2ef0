//! ListOffsets, key 2, versions 1-11, flexible from 6: which offset goes with a time, or with an end of the log?
//!
//! | version | change |
//! |---|---|
//! | 1 | one offset per partition, with its timestamp (KIP-79) |
//! | 2 | isolation level, throttle time |
//! | 4 | leader epochs fence a stale reader (KIP-320) |
//! | 5 | `OFFSET_NOT_AVAILABLE` may come back: a new leader does not know its high watermark yet |
//! | 6 | flexible |
//! | 7 | timestamp -3: the record with the largest timestamp (KIP-734) |
//! | 8 | timestamp -4: where the local log starts (KIP-405) |
//! | 9 | timestamp -5: the last tiered offset (KIP-1005) |
//! | 10 | a timeout for reads from remote storage (KIP-1075) |
//! | 11 | timestamp -6: the first offset that is still to be tiered (KIP-1023) |

use crate::codec::api;
use crate::{Array, ErrorCode};

/// Timestamp that asks for the end of the log.
pub const LATEST: i64 = -1;
/// Timestamp that asks for the start of the log.
pub const EARLIEST: i64 = -2;
/// Timestamp that asks for the record with the largest timestamp, from version 7 on.
pub const MAX_TIMESTAMP: i64 = -3;
/// Timestamp that asks for the start of the part of the log that is not tiered, from version 8 on.
pub const EARLIEST_LOCAL: i64 = -4;
/// Timestamp that asks for the last offset that is tiered, from version 9 on.
pub const LATEST_TIERED: i64 = -5;
/// Timestamp that asks for the first offset that is still to be tiered, from version 11 on.
pub const EARLIEST_PENDING_UPLOAD: i64 = -6;

api! {
    ListOffsets 1..=11;

    request<'a> {
        /// A follower's node id; -1 for consumers.
        replica_id: i32 [1..],
        /// 0: up to the high watermark, 1: up to the last stable offset.
        isolation_level: i8 [2..],
        topics: Array<'a, Topic<'a>> [1..],
        timeout_ms: i32 [10..],
    }

    response<'a> {
        throttle_time_ms: i32 [2..],
        topics: Array<'a, TopicResponse<'a>> [1..],
    }

    /// The partitions of a topic.
    pub struct Topic<'a> {
        name: &'a str [1..],
        partitions: Array<'a, Partition> [1..],
    }

    /// A partition, and the time that is asked for.
    pub struct Partition {
        partition_index: i32 [1..],
        /// What the reader believes; -1: nothing.
        current_leader_epoch: i32 [4..] = -1,
        /// Milliseconds since 1970, or one of the negative constants of this module.
        timestamp: i64 [1..],
    }

    /// The answers for a topic.
    pub struct TopicResponse<'a> {
        name: &'a str [1..],
        partitions: Array<'a, PartitionResponse> [1..],
    }

    /// The first record at or behind the time; offset and timestamp -1 when there is none.
    pub struct PartitionResponse {
        partition_index: i32 [1..],
        error_code: ErrorCode [1..],
        timestamp: i64 [1..] = -1,
        offset: i64 [1..] = -1,
        leader_epoch: i32 [4..] = -1,
    }
}
