//! DescribeLogDirs, key 35, versions 1-4, flexible from 2: how many bytes which partition takes on a node (KIP-113).
//!
//! | version | change |
//! |---|---|
//! | 2 | flexible |
//! | 3 | an error for the whole response |
//! | 4 | size of the volume, and what of it is free (KIP-827) |

use crate::codec::api;
use crate::{Array, ErrorCode};

api! {
    DescribeLogDirs 1..=4;

    request<'a> {
        /// Null: all.
        topics: Option<Array<'a, Topic<'a>>> [1..],
    }

    response<'a> {
        throttle_time_ms: i32 [1..],
        error_code: ErrorCode [3..],
        results: Array<'a, LogDir<'a>> [1..],
    }

    /// The partitions of a topic.
    pub struct Topic<'a> {
        topic: &'a str [1..],
        partitions: Array<'a, i32> [1..],
    }

    /// A directory of logs.
    pub struct LogDir<'a> {
        error_code: ErrorCode [1..],
        /// Its absolute path.
        log_dir: &'a str [1..],
        topics: Array<'a, TopicResponse<'a>> [1..],
        /// Of the volume; -1: unknown.
        total_bytes: i64 [4..] = -1,
        /// Of the volume; -1: unknown.
        usable_bytes: i64 [4..] = -1,
    }

    /// A topic.
    pub struct TopicResponse<'a> {
        name: &'a str [1..],
        partitions: Array<'a, Partition> [1..],
    }

    /// A partition.
    pub struct Partition {
        partition_index: i32 [1..],
        /// Bytes of its segments.
        partition_size: i64 [1..],
        /// How far its end lies behind the high watermark.
        offset_lag: i64 [1..],
        /// A copy that is going to replace the log, in another directory.
        is_future_key: bool [1..],
    }
}
