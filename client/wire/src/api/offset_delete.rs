//! OffsetDelete, key 47, version 0, never flexible: forget offsets that a group has committed (KIP-496).

use crate::codec::api;
use crate::{Array, ErrorCode};

api! {
    OffsetDelete 0..=0;

    request<'a> {
        group_id: &'a str [0..],
        topics: Array<'a, Topic<'a>> [0..],
    }

    response<'a> {
        error_code: ErrorCode [0..],
        throttle_time_ms: i32 [0..],
        topics: Array<'a, TopicResponse<'a>> [0..],
    }

    /// The partitions of a topic.
    pub struct Topic<'a> {
        name: &'a str [0..],
        partitions: Array<'a, Partition> [0..],
    }

    /// A partition whose offset goes.
    pub struct Partition {
        partition_index: i32 [0..],
    }

    /// The answers for a topic.
    pub struct TopicResponse<'a> {
        name: &'a str [0..],
        partitions: Array<'a, PartitionResponse> [0..],
    }

    /// The answer for a partition.
    pub struct PartitionResponse {
        partition_index: i32 [0..],
        /// `GROUP_SUBSCRIBED_TO_TOPIC` while a member reads the topic.
        error_code: ErrorCode [0..],
    }
}
