//! JoinGroup, key 11, versions 0-9, flexible from 6: a member enters a group, or takes part in its next generation.
//!
//! | version | change |
//! |---|---|
//! | 1 | a timeout of its own for the rebalance |
//! | 2 | throttle time |
//! | 4 | a new member is sent back once, with its id and `MEMBER_ID_REQUIRED` (KIP-394) |
//! | 5 | members that keep their place over a restart (KIP-345) |
//! | 6 | flexible |
//! | 7 | the response names the type of the protocol; its name may be null (KIP-559) |
//! | 8 | why the member joins (KIP-800) |
//! | 9 | a leader that comes back need not assign again (KIP-814) |

use crate::codec::api;
use crate::{Array, ErrorCode};

api! {
    JoinGroup 0..=9;

    request<'a> {
        group_id: &'a str [0..],
        /// The member is dead when nothing is heard of it for so long.
        session_timeout_ms: i32 [0..],
        /// How long a rebalance waits for each member; before version 1 the session's timeout is used.
        rebalance_timeout_ms: i32 [1..] = -1,
        /// Empty: a new member.
        member_id: &'a str [0..],
        group_instance_id: Option<&'a str> [5..],
        /// `consumer` for consumers.
        protocol_type: &'a str [0..],
        /// What the member can do, best first.
        protocols: Array<'a, Protocol<'a>> [0..],
        reason: Option<&'a str> [8..],
    }

    response<'a> {
        throttle_time_ms: i32 [2..],
        error_code: ErrorCode [0..],
        generation_id: i32 [0..] = -1,
        protocol_type: Option<&'a str> [7..],
        /// The one that all members know.
        protocol_name: Option<&'a str> [0..] null [7..],
        /// Member id of the one that assigns.
        leader: &'a str [0..],
        /// The leader keeps the assignment that there is.
        skip_assignment: bool [9..],
        member_id: &'a str [0..],
        /// For the leader only: everybody.
        members: Array<'a, Member<'a>> [0..],
    }

    /// A way to assign that a member knows.
    pub struct Protocol<'a> {
        name: &'a str [0..],
        /// For the leader; the broker does not look inside.
        metadata: &'a [u8] [0..],
    }

    /// A member, and what it said under the protocol that was chosen.
    pub struct Member<'a> {
        member_id: &'a str [0..],
        group_instance_id: Option<&'a str> [5..],
        metadata: &'a [u8] [0..],
    }
}
