//! IncrementalAlterConfigs, key 44, versions 0-1, flexible from 1: changes single configurations (KIP-339).

use crate::codec::api;
use crate::{Array, ErrorCode};

/// `config_operation`: set the value.
pub const SET: i8 = 0;
/// `config_operation`: go back to the default.
pub const DELETE: i8 = 1;
/// `config_operation`: add to a list.
pub const APPEND: i8 = 2;
/// `config_operation`: take out of a list.
pub const SUBTRACT: i8 = 3;

api! {
    IncrementalAlterConfigs 0..=1;

    request<'a> {
        resources: Array<'a, Resource<'a>> [0..],
        /// Only say whether it could be done.
        validate_only: bool [0..],
    }

    response<'a> {
        throttle_time_ms: i32 [0..],
        responses: Array<'a, ResourceResponse<'a>> [0..],
    }

    /// A resource and the changes to it.
    pub struct Resource<'a> {
        /// As in [`describe_configs`](super::describe_configs).
        resource_type: i8 [0..],
        resource_name: &'a str [0..],
        configs: Array<'a, Config<'a>> [0..],
    }

    /// One change.
    pub struct Config<'a> {
        name: &'a str [0..],
        /// [`SET`], [`DELETE`], [`APPEND`] or [`SUBTRACT`].
        config_operation: i8 [0..],
        value: Option<&'a str> [0..],
    }

    /// What became of a resource.
    pub struct ResourceResponse<'a> {
        error_code: ErrorCode [0..],
        error_message: Option<&'a str> [0..],
        resource_type: i8 [0..],
        resource_name: &'a str [0..],
    }
}
