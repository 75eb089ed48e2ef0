//! AlterConfigs, key 33, versions 0-2, flexible from 2: replaces the whole configuration of a resource (KIP-133).
//!
//! What is not named goes back to its default, which is why [`super::incremental_alter_configs`] followed.

use crate::codec::api;
use crate::{Array, ErrorCode};

api! {
    AlterConfigs 0..=2;

    request<'a> {
        resources: Array<'a, Resource<'a>> [0..],
        /// Only say whether it could be done.
        validate_only: bool [0..],
    }

    response<'a> {
        throttle_time_ms: i32 [0..],
        responses: Array<'a, ResourceResponse<'a>> [0..],
    }

    /// A resource and all its configuration.
    pub struct Resource<'a> {
        /// As in [`describe_configs`](super::describe_configs).
        resource_type: i8 [0..],
        resource_name: &'a str [0..],
        configs: Array<'a, Config<'a>> [0..],
    }

    /// A configuration to set.
    pub struct Config<'a> {
        name: &'a str [0..],
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
