//! DescribeGroups, key 15, versions 0-6, flexible from 5: the state and the members of groups of the classic protocol.
//!
//! | version | change |
//! |---|---|
//! | 1 | throttle time |
//! | 3 | authorized operations (KIP-430) |
//! | 4 | members that keep their place over a restart (KIP-345) |
//! | 5 | flexible |
//! | 6 | a group that is unknown is `GROUP_ID_NOT_FOUND`, no longer a dead one; messages (KIP-1043) |

use crate::codec::api;
use crate::{Array, ErrorCode};

api! {
    DescribeGroups 0..=6;

    request<'a> {
        groups: Array<'a, &'a str> [0..],
        include_authorized_operations: bool [3..],
    }

    response<'a> {
        throttle_time_ms: i32 [1..],
        groups: Array<'a, Group<'a>> [0..],
    }

    /// A group.
    pub struct Group<'a> {
        error_code: ErrorCode [0..],
        error_message: Option<&'a str> [6..],
        group_id: &'a str [0..],
        /// Empty with an error.
        group_state: &'a str [0..],
        protocol_type: &'a str [0..],
        /// Name of the protocol that was chosen, while the group is stable.
        protocol_data: &'a str [0..],
        members: Array<'a, Member<'a>> [0..],
        /// Bits by ACL operation; the smallest number: not asked for.
        authorized_operations: i32 [3..] = i32::MIN,
    }

    /// A member. What it said and was given is there while the group is stable.
    pub struct Member<'a> {
        member_id: &'a str [0..],
        group_instance_id: Option<&'a str> [4..],
        client_id: &'a str [0..],
        client_host: &'a str [0..],
        member_metadata: &'a [u8] [0..],
        member_assignment: &'a [u8] [0..],
    }
}
