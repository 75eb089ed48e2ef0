//! ListGroups, key 16, versions 0-5, flexible from 3: the groups that this node coordinates.
//!
//! | version | change |
//! |---|---|
//! | 1 | throttle time |
//! | 3 | flexible |
//! | 4 | only groups in certain states; the state (KIP-518) |
//! | 5 | only groups of certain types; the type (KIP-848) |

use crate::codec::api;
use crate::{Array, ErrorCode};

api! {
    ListGroups 0..=5;

    request<'a> {
        /// Empty: all.
        states_filter: Array<'a, &'a str> [4..],
        /// Empty: all.
        types_filter: Array<'a, &'a str> [5..],
    }

    response<'a> {
        throttle_time_ms: i32 [1..],
        error_code: ErrorCode [0..],
        groups: Array<'a, Group<'a>> [0..],
    }

    /// A group.
    pub struct Group<'a> {
        group_id: &'a str [0..],
        protocol_type: &'a str [0..],
        group_state: &'a str [4..],
        group_type: &'a str [5..],
    }
}
