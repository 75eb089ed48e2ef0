//! ListConfigResources, key 74, versions 0-1, always flexible: what has a configuration (KIP-1142).
//!
//! | version | change |
//! |---|---|
//! | 0 | metrics subscriptions of clients only, under the name ListClientMetricsResources (KIP-714) |
//! | 1 | resources of every type, or of those asked for |

use crate::codec::api;
use crate::{Array, ErrorCode};

/// `resource_type` of a subscription to metrics of clients, the only type of version 0.
pub const CLIENT_METRICS: i8 = 16;
/// `resource_type` of a group.
pub const GROUP: i8 = 32;

api! {
    ListConfigResources 0..=1;

    request<'a> {
        /// Empty: all types.
        resource_types: Array<'a, i8> [1..],
    }

    response<'a> {
        throttle_time_ms: i32 [0..],
        error_code: ErrorCode [0..],
        config_resources: Array<'a, ConfigResource<'a>> [0..],
    }

    /// Something that has a configuration.
    pub struct ConfigResource<'a> {
        resource_name: &'a str [0..],
        resource_type: i8 [1..] = CLIENT_METRICS,
    }
}
