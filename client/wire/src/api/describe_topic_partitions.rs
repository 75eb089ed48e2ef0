//! DescribeTopicPartitions, key 75, version 0, always flexible: topics in pages of so many partitions (KIP-966).

use crate::codec::api;
use crate::{Array, ErrorCode, Uuid};

api! {
    DescribeTopicPartitions 0..=0;

    request<'a> {
        /// Empty: all.
        topics: Array<'a, Topic<'a>> [0..],
        /// Most partitions of a response.
        response_partition_limit: i32 [0..] = 2000,
        /// Where to begin; null: with the first topic.
        cursor: Option<Cursor<'a>> [0..],
    }

    response<'a> {
        throttle_time_ms: i32 [0..],
        topics: Array<'a, TopicResponse<'a>> [0..],
        /// Where to go on; null: that was all.
        next_cursor: Option<Cursor<'a>> [0..],
    }

    /// A topic that is asked for.
    pub struct Topic<'a> {
        name: &'a str [0..],
    }

    /// A place between two responses: the next partition to tell.
    pub struct Cursor<'a> {
        topic_name: &'a str [0..],
        partition_index: i32 [0..],
    }

    /// A topic, with the partitions that fit.
    pub struct TopicResponse<'a> {
        error_code: ErrorCode [0..],
        name: Option<&'a str> [0..],
        topic_id: Uuid [0..],
        is_internal: bool [0..],
        partitions: Array<'a, Partition<'a>> [0..],
        /// Bits by ACL operation; the smallest number: not known.
        topic_authorized_operations: i32 [0..] = i32::MIN,
    }

    /// A partition.
    pub struct Partition<'a> {
        error_code: ErrorCode [0..],
        partition_index: i32 [0..],
        /// -1: none.
        leader_id: i32 [0..],
        leader_epoch: i32 [0..] = -1,
        /// Preferred leader first.
        replica_nodes: Array<'a, i32> [0..],
        isr_nodes: Array<'a, i32> [0..],
        /// Replicas that may lead without loss although they are not in sync.
        eligible_leader_replicas: Option<Array<'a, i32>> [0..],
        last_known_elr: Option<Array<'a, i32>> [0..],
        offline_replicas: Array<'a, i32> [0..],
    }
}
