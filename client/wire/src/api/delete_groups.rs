//! DeleteGroups, key 42, versions 0-2, flexible from 2: delete groups without members, with their offsets (KIP-229).
//!
//! | version | change |
//! |---|---|
//! | 2 | flexible |

use crate::codec::api;
use crate::{Array, ErrorCode};

api! {
    DeleteGroups 0..=2;

    request<'a> {
        groups_names: Array<'a, &'a str> [0..],
    }

    response<'a> {
        throttle_time_ms: i32 [0..],
        results: Array<'a, GroupResponse<'a>> [0..],
    }

    /// The answer for a group.
    pub struct GroupResponse<'a> {
        group_id: &'a str [0..],
        error_code: ErrorCode [0..],
    }
}
