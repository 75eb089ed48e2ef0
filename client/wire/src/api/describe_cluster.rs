//! DescribeCluster, key 60, versions 0-2, flexible from 0: the brokers, without topics (KIP-700).
//!
//! | version | change |
//! |---|---|
//! | 1 | brokers or controllers (KIP-919) |
//! | 2 | fenced brokers, when asked for (KIP-1073) |

use crate::codec::api;
use crate::{Array, ErrorCode};

/// `endpoint_type` for brokers.
pub const BROKERS: i8 = 1;
/// `endpoint_type` for controllers.
pub const CONTROLLERS: i8 = 2;

api! {
    DescribeCluster 0..=2;

    request {
        include_cluster_authorized_operations: bool [0..],
        /// [`BROKERS`] or [`CONTROLLERS`].
        endpoint_type: i8 [1..] = BROKERS,
        include_fenced_brokers: bool [2..],
    }

    response<'a> {
        throttle_time_ms: i32 [0..],
        /// `MISMATCHED_ENDPOINT_TYPE` when brokers are asked for controllers.
        error_code: ErrorCode [0..],
        error_message: Option<&'a str> [0..],
        endpoint_type: i8 [1..] = BROKERS,
        cluster_id: &'a str [0..],
        /// -1: none.
        controller_id: i32 [0..] = -1,
        brokers: Array<'a, Broker<'a>> [0..],
        /// Bits by ACL operation; the smallest number: not asked for.
        cluster_authorized_operations: i32 [0..] = i32::MIN,
    }

    /// A broker, and where clients reach it.
    pub struct Broker<'a> {
        broker_id: i32 [0..],
        host: &'a str [0..],
        port: i32 [0..],
        rack: Option<&'a str> [0..],
        is_fenced: bool [2..],
    }
}
