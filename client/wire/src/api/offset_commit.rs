//! OffsetCommit, key 8, versions 2-10, flexible from 8: how far a group has read.
//!
//! | version | change |
//! |---|---|
//! | 3 | throttle time |
//! | 5 | the retention of an offset is the broker's affair: the field goes (KIP-211) |
//! | 6 | leader epoch of the last record read (KIP-320) |
//! | 7 | members that keep their place over a restart (KIP-345) |
//! | 8 | flexible |
//! | 9 | for groups of the newer protocol too: member epochs, `STALE_MEMBER_EPOCH`, `GROUP_ID_NOT_FOUND` (KIP-848) |
//! | 10 | topic ids replace names (KIP-848) |

use crate::codec::api;
use crate::{Array, ErrorCode, Uuid};

api! {
    OffsetCommit 2..=10;

    request<'a> {
        group_id: &'a str [2..],
        /// -1 with an empty member id: a commit from outside the group's protocol.
        generation_id_or_member_epoch: i32 [2..] = -1,
        member_id: &'a str [2..],
        group_instance_id: Option<&'a str> [7..],
        /// -1: the broker's own.
        retention_time_ms: i64 [2..=4] = -1,
        topics: Array<'a, Topic<'a>> [2..],
    }

    response<'a> {
        throttle_time_ms: i32 [3..],
        topics: Array<'a, TopicResponse<'a>> [2..],
    }

    /// The partitions of a topic.
    pub struct Topic<'a> {
        name: &'a str [2..=9],
        topic_id: Uuid [10..],
        partitions: Array<'a, Partition<'a>> [2..],
    }

    /// An offset to keep for a partition.
    pub struct Partition<'a> {
        partition_index: i32 [2..],
        /// The next record to read.
        committed_offset: i64 [2..],
        committed_leader_epoch: i32 [6..] = -1,
        /// The client's own words, kept as they are.
        committed_metadata: Option<&'a str> [2..],
    }

    /// The answers for a topic.
    pub struct TopicResponse<'a> {
        name: &'a str [2..=9],
        topic_id: Uuid [10..],
        partitions: Array<'a, PartitionResponse> [2..],
    }

    /// The answer for a partition.
    pub struct PartitionResponse {
        partition_index: i32 [2..],
        error_code: ErrorCode [2..],
    }
}
