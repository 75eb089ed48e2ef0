//! OffsetFetch, key 9, versions 1-10, flexible from 6: the offsets that groups have committed.
//!
//! | version | change |
//! |---|---|
//! | 2 | null asks for all topics; an error for the whole response |
//! | 3 | throttle time |
//! | 5 | leader epoch of the last record read (KIP-320) |
//! | 6 | flexible |
//! | 7 | the reader may insist on offsets that no open transaction can change (KIP-447) |
//! | 8 | many groups at once: topics and error move into the group (KIP-709) |
//! | 9 | for groups of the newer protocol too: member ids and epochs (KIP-848) |
//! | 10 | topic ids replace names (KIP-848) |

use crate::codec::api;
use crate::{Array, ErrorCode, Uuid};

api! {
    OffsetFetch 1..=10;

    request<'a> {
        group_id: &'a str [1..=7],
        /// Null: all topics.
        topics: Option<Array<'a, Topic<'a>>> [1..=7] null [2..],
        groups: Array<'a, Group<'a>> [8..],
        /// `UNSTABLE_OFFSET_COMMIT` rather than an offset that an open transaction may yet replace.
        require_stable: bool [7..],
    }

    response<'a> {
        throttle_time_ms: i32 [3..],
        topics: Array<'a, TopicResponse<'a>> [1..=7],
        error_code: ErrorCode [2..=7],
        groups: Array<'a, GroupResponse<'a>> [8..],
    }

    /// The partitions of a topic, before groups had their own.
    pub struct Topic<'a> {
        name: &'a str [1..=7],
        partition_indexes: Array<'a, i32> [1..=7],
    }

    /// A group, and what to tell of it.
    pub struct Group<'a> {
        group_id: &'a str [8..],
        member_id: Option<&'a str> [9..],
        member_epoch: i32 [9..] = -1,
        /// Null: all topics.
        topics: Option<Array<'a, GroupTopic<'a>>> [8..],
    }

    /// The partitions of a topic.
    pub struct GroupTopic<'a> {
        name: &'a str [8..=9],
        topic_id: Uuid [10..],
        partition_indexes: Array<'a, i32> [8..],
    }

    /// The answers for a topic, before groups had their own.
    pub struct TopicResponse<'a> {
        name: &'a str [1..=7],
        partitions: Array<'a, PartitionResponse<'a>> [1..=7],
    }

    /// The answers for a group.
    pub struct GroupResponse<'a> {
        group_id: &'a str [8..],
        topics: Array<'a, GroupTopicResponse<'a>> [8..],
        error_code: ErrorCode [8..],
    }

    /// The answers for a topic.
    pub struct GroupTopicResponse<'a> {
        name: &'a str [8..=9],
        topic_id: Uuid [10..],
        partitions: Array<'a, PartitionResponse<'a>> [8..],
    }

    /// The offset of a partition; -1, without an error: none was committed.
    pub struct PartitionResponse<'a> {
        partition_index: i32 [1..],
        committed_offset: i64 [1..],
        committed_leader_epoch: i32 [5..] = -1,
        /// The client's own words.
        metadata: Option<&'a str> [1..],
        error_code: ErrorCode [1..],
    }
}
