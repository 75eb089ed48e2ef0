//! Fetch, key 1, versions 4-18, flexible from 12: read record batches, for consumers and followers alike.
//!
//! | version | change |
//! |---|---|
//! | 4 | record format v2, isolation level, last stable offset (KIP-98) |
//! | 5 | log start offset |
//! | 7 | fetch sessions (KIP-227); session 0 in an answer declines one |
//! | 9 | the leader epoch fences a stale reader (KIP-320) |
//! | 10 | zstd may come back (KIP-110) |
//! | 11 | rack of the reader, preferred replica (KIP-392) |
//! | 12 | flexible; divergence of followers (KIP-595) |
//! | 13 | topic ids replace names (KIP-516) |
//! | 14 | `OFFSET_MOVED_TO_TIERED_STORAGE` may come back (KIP-405) |
//! | 15 | the replica moves into a tagged field, with its epoch (KIP-903) |
//! | 16 | the new leader's address comes with the error (KIP-951) |
//! | 17 | directory of the replica (KIP-853) |
//! | 18 | high watermark of the replica (KIP-1166) |
//!
//! In a response the records stand last in each partition, so that everything else is a header before them. With
//! [`Records::Later`] the frame has a hole there, and the bytes go from the cache or the disk to the socket.

use crate::codec::api;
use crate::{Array, ErrorCode, Records, Uuid};

api! {
    Fetch 4..=18;

    request<'a> {
        cluster_id: Option<&'a str> [12..] tag 0,
        /// A follower's node id; -1 for consumers.
        replica_id: i32 [4..=14] = -1,
        replica_state: ReplicaState [15..] tag 1,
        /// Wait this long for `min_bytes`.
        max_wait_ms: i32 [4..],
        min_bytes: i32 [4..],
        /// The first batch comes whole, even when it is larger.
        max_bytes: i32 [4..] = i32::MAX,
        /// 0: up to the high watermark, 1: up to the last stable offset.
        isolation_level: i8 [4..],
        session_id: i32 [7..],
        /// -1: no session wanted, or the end of this one; 0: a new one; else the number of the request in the session.
        session_epoch: i32 [7..] = -1,
        topics: Array<'a, Topic<'a>> [4..],
        /// Partitions that leave the session.
        forgotten_topics_data: Array<'a, ForgottenTopic<'a>> [7..],
        rack_id: &'a str [11..],
    }

    response<'a> {
        throttle_time_ms: i32 [4..],
        /// For the whole response: a session that is unknown.
        error_code: ErrorCode [7..],
        /// 0: no session.
        session_id: i32 [7..],
        responses: Array<'a, TopicResponse<'a>> [4..],
        /// Addresses of the leaders in `current_leader`.
        node_endpoints: Array<'a, NodeEndpoint<'a>> [16..] tag 0,
    }

    /// The follower that asks; -1: a consumer.
    pub struct ReplicaState {
        replica_id: i32 [15..] = -1,
        replica_epoch: i64 [15..] = -1,
    }

    /// The partitions to read of a topic.
    pub struct Topic<'a> {
        topic: &'a str [4..=12],
        topic_id: Uuid [13..],
        partitions: Array<'a, Partition> [4..],
    }

    /// What to read of a partition.
    pub struct Partition {
        partition: i32 [4..],
        /// What the reader believes; -1: nothing.
        current_leader_epoch: i32 [9..] = -1,
        fetch_offset: i64 [4..],
        /// Epoch of the follower's last batch; -1 for consumers.
        last_fetched_epoch: i32 [12..] = -1,
        /// The follower's; -1 for consumers.
        log_start_offset: i64 [5..] = -1,
        partition_max_bytes: i32 [4..],
        replica_directory_id: Uuid [17..] tag 0,
        /// What the follower knows of it; -1: nothing; the largest number: it does not say.
        high_watermark: i64 [18..] tag 1 = i64::MAX,
    }

    /// Partitions that leave the session.
    pub struct ForgottenTopic<'a> {
        topic: &'a str [7..=12],
        topic_id: Uuid [13..],
        partitions: Array<'a, i32> [7..],
    }

    /// The answers for a topic.
    pub struct TopicResponse<'a> {
        topic: &'a str [4..=12],
        topic_id: Uuid [13..],
        partitions: Array<'a, PartitionResponse<'a>> [4..],
    }

    /// The answer for a partition.
    pub struct PartitionResponse<'a> {
        partition_index: i32 [4..],
        error_code: ErrorCode [4..],
        /// -1 with an error.
        high_watermark: i64 [4..],
        last_stable_offset: i64 [4..] = -1,
        log_start_offset: i64 [5..] = -1,
        /// A follower's log goes wrong behind this epoch and offset.
        diverging_epoch: EpochEndOffset [12..] tag 0,
        /// With `NOT_LEADER_OR_FOLLOWER` or `FENCED_LEADER_EPOCH`: who leads.
        current_leader: LeaderIdAndEpoch [12..] tag 1,
        snapshot_id: SnapshotId [12..] tag 2,
        /// Null or empty when no transaction was aborted.
        aborted_transactions: Option<Array<'a, AbortedTransaction>> [4..],
        /// Node to read from instead; -1: this one.
        preferred_read_replica: i32 [11..] = -1,
        /// Whole batches, but for the last, which may be cut off.
        records: Records<'a> [4..],
    }

    /// An epoch and where it ends; -1: none.
    pub struct EpochEndOffset {
        epoch: i32 [12..] = -1,
        end_offset: i64 [12..] = -1,
    }

    /// A leader; -1: unknown.
    pub struct LeaderIdAndEpoch {
        leader_id: i32 [12..] = -1,
        leader_epoch: i32 [12..] = -1,
    }

    /// A snapshot of a Raft log; -1: none.
    pub struct SnapshotId {
        end_offset: i64 [12..] = -1,
        epoch: i32 [12..] = -1,
    }

    /// An aborted transaction with records in the answer.
    pub struct AbortedTransaction {
        producer_id: i64 [4..],
        first_offset: i64 [4..],
    }

    /// Where a broker is reached.
    pub struct NodeEndpoint<'a> {
        node_id: i32 [16..],
        host: &'a str [16..],
        port: i32 [16..],
        rack: Option<&'a str> [16..],
    }
}
