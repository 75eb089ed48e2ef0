//! Produce, key 0, versions 0-13, flexible from 9: append record batches.
//!
//! | version | change |
//! |---|---|
//! | 0-2 | older record formats: decoded only to be answered with `UNSUPPORTED_VERSION` |
//! | 3 | record format v2, transactional id (KIP-98) |
//! | 4 | `KAFKA_STORAGE_ERROR` may come back |
//! | 5 | log start offset in the response |
//! | 7 | zstd is allowed (KIP-110) |
//! | 8 | which records of a batch are at fault (KIP-467) |
//! | 9 | flexible |
//! | 10 | the new leader comes with the error (KIP-951) |
//! | 11 | `TRANSACTION_ABORTABLE` may come back (KIP-890) |
//! | 12 | transactions that need no AddPartitionsToTxn (KIP-890) |
//! | 13 | topic ids replace names (KIP-516) |
//!
//! A request with `acks` 0 gets no response at all. Versions 0-2 have to be advertised, or librdkafka before 2.11
//! takes the broker for one that cannot compress.

use crate::codec::api;
use crate::{Array, ErrorCode, Records, Uuid};

api! {
    Produce 0..=13;

    request<'a> {
        transactional_id: Option<&'a str> [3..],
        /// 0: no answer, 1: the leader has it, -1: every in-sync replica has it. Others are `INVALID_REQUIRED_ACKS`.
        acks: i16 [0..],
        /// How long to wait for the replicas.
        timeout_ms: i32 [0..],
        topic_data: Array<'a, Topic<'a>> [0..],
    }

    response<'a> {
        responses: Array<'a, TopicResponse<'a>> [0..],
        throttle_time_ms: i32 [1..],
        /// Addresses of the leaders in `current_leader`.
        node_endpoints: Array<'a, NodeEndpoint<'a>> [10..] tag 0,
    }

    /// The partitions of a topic.
    pub struct Topic<'a> {
        name: &'a str [0..=12],
        topic_id: Uuid [13..],
        partition_data: Array<'a, Partition<'a>> [0..],
    }

    /// What to append to a partition.
    pub struct Partition<'a> {
        index: i32 [0..],
        /// Exactly one batch, see [`BatchView::validate_produce`](crate::batch::BatchView::validate_produce).
        records: Records<'a> [0..],
    }

    /// The answers for a topic.
    pub struct TopicResponse<'a> {
        name: &'a str [0..=12],
        topic_id: Uuid [13..],
        partition_responses: Array<'a, PartitionResponse<'a>> [0..],
    }

    /// The answer for a partition.
    pub struct PartitionResponse<'a> {
        index: i32 [0..],
        error_code: ErrorCode [0..],
        /// Offset of the batch's first record; -1 with an error.
        base_offset: i64 [0..],
        /// When the broker's clock stamps the records; -1 when the producer's does.
        log_append_time_ms: i64 [2..] = -1,
        log_start_offset: i64 [5..] = -1,
        /// The records at fault, when the batch was refused for them.
        record_errors: Array<'a, RecordError<'a>> [8..],
        error_message: Option<&'a str> [8..],
        /// With `NOT_LEADER_OR_FOLLOWER`: who is.
        current_leader: LeaderIdAndEpoch [10..] tag 0,
    }

    /// A record at fault.
    pub struct RecordError<'a> {
        batch_index: i32 [8..],
        batch_index_error_message: Option<&'a str> [8..],
    }

    /// A leader; -1: unknown.
    pub struct LeaderIdAndEpoch {
        leader_id: i32 [10..] = -1,
        leader_epoch: i32 [10..] = -1,
    }

    /// Where a broker is reached.
    pub struct NodeEndpoint<'a> {
        node_id: i32 [10..],
        host: &'a str [10..],
        port: i32 [10..],
        rack: Option<&'a str> [10..],
    }
}
