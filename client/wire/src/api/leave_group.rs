//! LeaveGroup, key 13, versions 0-5, flexible from 4: members leave a group before their sessions run out.
//!
//! | version | change |
//! |---|---|
//! | 1 | throttle time |
//! | 3 | many members at once, by id or by instance (KIP-345) |
//! | 4 | flexible |
//! | 5 | why (KIP-800) |

use crate::codec::api;
use crate::{Array, ErrorCode};

api! {
    LeaveGroup 0..=5;

    request<'a> {
        group_id: &'a str [0..],
        member_id: &'a str [0..=2],
        members: Array<'a, Member<'a>> [3..],
    }

    response<'a> {
        throttle_time_ms: i32 [1..],
        error_code: ErrorCode [0..],
        members: Array<'a, MemberResponse<'a>> [3..],
    }

    /// A member that leaves.
    pub struct Member<'a> {
        /// Empty when only the instance is known, as tools do.
        member_id: &'a str [3..],
        group_instance_id: Option<&'a str> [3..],
        reason: Option<&'a str> [5..],
    }

    /// The answer for a member.
    pub struct MemberResponse<'a> {
        member_id: &'a str [3..],
        group_instance_id: Option<&'a str> [3..],
        error_code: ErrorCode [3..],
    }
}
