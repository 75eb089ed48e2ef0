//! Heartbeat, key 12, versions 0-4, flexible from 4: a member of a group is alive, and hears of a rebalance.
//!
//! | version | change |
//! |---|---|
//! | 1 | throttle time |
//! | 3 | members that keep their place over a restart (KIP-345) |
//! | 4 | flexible |

use crate::ErrorCode;
use crate::codec::api;

api! {
    Heartbeat 0..=4;

    request<'a> {
        group_id: &'a str [0..],
        generation_id: i32 [0..],
        member_id: &'a str [0..],
        group_instance_id: Option<&'a str> [3..],
    }

    response {
        throttle_time_ms: i32 [1..],
        /// `REBALANCE_IN_PROGRESS` sends the member to JoinGroup.
        error_code: ErrorCode [0..],
    }
}
