//! CreatePartitions, key 37, versions 0-3, flexible from 2: more partitions for topics that exist (KIP-195).
//!
//! | version | change |
//! |---|---|
//! | 2 | flexible |
//! | 3 | `THROTTLING_QUOTA_EXCEEDED` may come back (KIP-599) |

use crate::codec::api;
use crate::{Array, ErrorCode};

api! {
    CreatePartitions 0..=3;

    request<'a> {
        topics: Array<'a, Topic<'a>> [0..],
        timeout_ms: i32 [0..],
        /// Only say whether it could be done.
        validate_only: bool [0..],
    }

    response<'a> {
        throttle_time_ms: i32 [0..],
        results: Array<'a, TopicResponse<'a>> [0..],
    }

    /// A topic that grows.
    pub struct Topic<'a> {
        name: &'a str [0..],
        /// Partitions in all, not how many more.
        count: i32 [0..],
        /// Brokers of the new partitions; null: the broker decides.
        assignments: Option<Array<'a, Assignment<'a>>> [0..],
    }

    /// The replicas of a new partition, preferred leader first.
    pub struct Assignment<'a> {
        broker_ids: Array<'a, i32> [0..],
    }

    /// What became of a topic.
    pub struct TopicResponse<'a> {
        name: &'a str [0..],
        error_code: ErrorCode [0..],
        error_message: Option<&'a str> [0..],
    }
}
