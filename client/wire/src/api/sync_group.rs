//! SyncGroup, key 14, versions 0-5, flexible from 4: the leader hands in the assignment, every member gets its own.
//!
//! | version | change |
//! |---|---|
//! | 1 | throttle time |
//! | 3 | members that keep their place over a restart (KIP-345) |
//! | 4 | flexible |
//! | 5 | type and name of the protocol are checked and come back (KIP-559) |

use crate::codec::api;
use crate::{Array, ErrorCode};

api! {
    SyncGroup 0..=5;

    request<'a> {
        group_id: &'a str [0..],
        generation_id: i32 [0..],
        member_id: &'a str [0..],
        group_instance_id: Option<&'a str> [3..],
        /// `INCONSISTENT_GROUP_PROTOCOL` when it is not the group's; null is not compared.
        protocol_type: Option<&'a str> [5..],
        protocol_name: Option<&'a str> [5..],
        /// From the leader only.
        assignments: Array<'a, Assignment<'a>> [0..],
    }

    response<'a> {
        throttle_time_ms: i32 [1..],
        error_code: ErrorCode [0..],
        protocol_type: Option<&'a str> [5..],
        protocol_name: Option<&'a str> [5..],
        /// The broker does not look inside.
        assignment: &'a [u8] [0..],
    }

    /// What a member is given.
    pub struct Assignment<'a> {
        member_id: &'a str [0..],
        assignment: &'a [u8] [0..],
    }
}
