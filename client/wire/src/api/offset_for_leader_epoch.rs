//! OffsetForLeaderEpoch, key 23, versions 2-4, flexible from 4: where does an epoch end in the leader's log?
//!
//! Followers truncate by it (KIP-101), consumers check their position with it after a change of leader (KIP-320).
//!
//! | version | change |
//! |---|---|
//! | 2 | the leader epoch fences a stale reader; throttle time |
//! | 3 | who asks |
//! | 4 | flexible |

use crate::codec::api;
use crate::{Array, ErrorCode};

api! {
    OffsetForLeaderEpoch 2..=4;

    request<'a> {
        /// A follower's node id; -1 for consumers, -2 for tools that may see beyond the high watermark.
        replica_id: i32 [3..] = -2,
        topics: Array<'a, Topic<'a>> [2..],
    }

    response<'a> {
        throttle_time_ms: i32 [2..],
        topics: Array<'a, TopicResponse<'a>> [2..],
    }

    /// The partitions of a topic.
    pub struct Topic<'a> {
        topic: &'a str [2..],
        partitions: Array<'a, Partition> [2..],
    }

    /// A partition and the epoch that is asked for.
    pub struct Partition {
        partition: i32 [2..],
        /// What the reader believes; -1: nothing.
        current_leader_epoch: i32 [2..] = -1,
        leader_epoch: i32 [2..],
    }

    /// The answers for a topic.
    pub struct TopicResponse<'a> {
        topic: &'a str [2..],
        partitions: Array<'a, PartitionResponse> [2..],
    }

    /// The largest epoch up to the one asked for, and the offset behind its last record; -1: none.
    pub struct PartitionResponse {
        error_code: ErrorCode [2..],
        partition: i32 [2..],
        leader_epoch: i32 [2..] = -1,
        end_offset: i64 [2..] = -1,
    }
}
