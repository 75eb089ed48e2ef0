//! GroupReport, key 20000, version 0, flexible: not Kafka's. How far behind a group is, in records, bytes and time, and
//! why it rebalanced. Told by the broker itself, so that nobody has to put it together from a dozen answers.

use crate::codec::api;
use crate::{Array, ErrorCode};

api! {
    GroupReport 0..=0;

    request<'a> {
        group_id: &'a str [0..],
    }

    response<'a> {
        /// `GROUP_ID_NOT_FOUND`: it has neither members nor offsets.
        error_code: ErrorCode [0..],
        error_message: Option<&'a str> [0..],
        /// Empty: it has committed, and never had members.
        group_state: &'a str [0..],
        generation_id: i32 [0..] = -1,
        protocol_type: &'a str [0..],
        protocol_name: &'a str [0..],
        members: Array<'a, Member<'a>> [0..],
        partitions: Array<'a, Partition<'a>> [0..],
        /// Oldest first.
        transitions: Array<'a, Transition<'a>> [0..],
    }

    /// A member.
    pub struct Member<'a> {
        member_id: &'a str [0..],
        group_instance_id: Option<&'a str> [0..],
        client_id: &'a str [0..],
        client_host: &'a str [0..],
        /// As its leader wrote it.
        assignment: &'a [u8] [0..],
    }

    /// What is committed for a partition, and what lies behind it.
    pub struct Partition<'a> {
        topic: &'a str [0..],
        partition_index: i32 [0..],
        committed_offset: i64 [0..],
        metadata: &'a str [0..],
        /// Milliseconds since 1970.
        commit_time_ms: i64 [0..],
        log_start_offset: i64 [0..],
        end_offset: i64 [0..],
        lag_records: i64 [0..],
        lag_bytes: i64 [0..],
        /// Age of the first record that is still to be read; 0: there is none.
        lag_ms: i64 [0..],
    }

    /// A change of the group's state.
    pub struct Transition<'a> {
        /// Milliseconds since 1970.
        time_ms: i64 [0..],
        from: &'a str [0..],
        to: &'a str [0..],
        generation_id: i32 [0..],
        member_count: i32 [0..],
        /// A sentence.
        cause: &'a str [0..],
    }
}
