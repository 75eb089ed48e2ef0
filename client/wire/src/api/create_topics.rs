//! CreateTopics, key 19, versions 2-7, flexible from 5.
//!
//! | version | change |
//! |---|---|
//! | 4 | -1 asks for the broker's default of partitions and replicas (KIP-464) |
//! | 5 | flexible; the response tells the configuration of the new topic (KIP-525) |
//! | 6 | `THROTTLING_QUOTA_EXCEEDED` may come back (KIP-599) |
//! | 7 | the response tells the topic's id (KIP-516) |

use crate::codec::api;
use crate::{Array, ErrorCode, Uuid};

api! {
    CreateTopics 2..=7;

    request<'a> {
        topics: Array<'a, Topic<'a>> [2..],
        timeout_ms: i32 [2..] = 60_000,
        /// Only say whether it could be done.
        validate_only: bool [2..],
    }

    response<'a> {
        throttle_time_ms: i32 [2..],
        topics: Array<'a, TopicResponse<'a>> [2..],
    }

    /// A topic to create.
    pub struct Topic<'a> {
        name: &'a str [2..],
        /// -1 with `assignments`, and from version 4 on for the broker's default.
        num_partitions: i32 [2..],
        /// -1 with `assignments`, and from version 4 on for the broker's default.
        replication_factor: i16 [2..],
        /// Which brokers get which partition; empty: the broker decides.
        assignments: Array<'a, Assignment<'a>> [2..],
        configs: Array<'a, Config<'a>> [2..],
    }

    /// The replicas of a partition, preferred leader first.
    pub struct Assignment<'a> {
        partition_index: i32 [2..],
        broker_ids: Array<'a, i32> [2..],
    }

    /// A configuration to set.
    pub struct Config<'a> {
        name: &'a str [2..],
        value: Option<&'a str> [2..],
    }

    /// What became of a topic.
    pub struct TopicResponse<'a> {
        name: &'a str [2..],
        topic_id: Uuid [7..],
        error_code: ErrorCode [2..],
        error_message: Option<&'a str> [2..],
        /// Why there are no `configs`: the client may not see them.
        topic_config_error_code: ErrorCode [5..] tag 0,
        num_partitions: i32 [5..] = -1,
        replication_factor: i16 [5..] = -1,
        configs: Option<Array<'a, ConfigResponse<'a>>> [5..],
    }

    /// A configuration of the new topic.
    pub struct ConfigResponse<'a> {
        name: &'a str [5..],
        value: Option<&'a str> [5..],
        read_only: bool [5..],
        /// As in [`describe_configs`](super::describe_configs).
        config_source: i8 [5..] = -1,
        is_sensitive: bool [5..],
    }
}
