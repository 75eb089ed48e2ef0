//! Metadata, key 3, versions 0-13, flexible from 9: brokers, topics, and who leads which partition.
//!
//! | version | change |
//! |---|---|
//! | 1 | null asks for all topics (in 0 an empty array does); racks, controller, internal topics |
//! | 2 | cluster id |
//! | 3 | throttle time |
//! | 4 | the client may forbid automatic creation |
//! | 5 | offline replicas |
//! | 7 | leader epoch, which the Java client trusts from 9 on |
//! | 8 | authorized operations (KIP-430) |
//! | 9 | flexible |
//! | 10 | topic ids (KIP-516); as keys of a request only from 12 on |
//! | 11 | authorized operations of the cluster move to DescribeCluster (KIP-700) |
//! | 12 | a topic of the response may have no name: its id was unknown |
//! | 13 | an error for the whole response (KIP-1102) |

use crate::codec::api;
use crate::{Array, ErrorCode, Uuid};

api! {
    Metadata 0..=13;

    request<'a> {
        /// Null: all topics. In version 0, which has no null, empty means that.
        topics: Option<Array<'a, TopicRequest<'a>>> [0..] null [1..],
        /// Create the topics that do not exist, if the broker is configured to. Always so before version 4.
        allow_auto_topic_creation: bool [4..] = true,
        include_cluster_authorized_operations: bool [8..=10],
        include_topic_authorized_operations: bool [8..],
    }

    response<'a> {
        throttle_time_ms: i32 [3..],
        /// The brokers that are alive.
        brokers: Array<'a, Broker<'a>> [0..],
        cluster_id: Option<&'a str> [2..],
        /// -1: none.
        controller_id: i32 [1..] = -1,
        topics: Array<'a, Topic<'a>> [0..],
        /// Bits by ACL operation; the smallest number: not asked for.
        cluster_authorized_operations: i32 [8..=10] = i32::MIN,
        /// `REBOOTSTRAP_REQUIRED` sends the client back to its bootstrap servers.
        error_code: ErrorCode [13..],
    }

    /// A topic that is asked for, by name, or by id from version 12 on.
    pub struct TopicRequest<'a> {
        topic_id: Uuid [10..],
        name: Option<&'a str> [0..] null [10..],
    }

    /// A broker, and where clients reach it.
    pub struct Broker<'a> {
        node_id: i32 [0..],
        host: &'a str [0..],
        port: i32 [0..],
        rack: Option<&'a str> [1..],
    }

    /// A topic.
    pub struct Topic<'a> {
        error_code: ErrorCode [0..],
        /// Null when an unknown id was asked for.
        name: Option<&'a str> [0..] null [12..],
        topic_id: Uuid [10..],
        is_internal: bool [1..],
        partitions: Array<'a, Partition<'a>> [0..],
        /// Bits by ACL operation; the smallest number: not asked for.
        topic_authorized_operations: i32 [8..] = i32::MIN,
    }

    /// A partition.
    pub struct Partition<'a> {
        error_code: ErrorCode [0..],
        partition_index: i32 [0..],
        /// -1: none.
        leader_id: i32 [0..],
        leader_epoch: i32 [7..] = -1,
        /// Preferred leader first.
        replica_nodes: Array<'a, i32> [0..],
        isr_nodes: Array<'a, i32> [0..],
        offline_replicas: Array<'a, i32> [5..],
    }
}
