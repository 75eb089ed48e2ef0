//! DescribeConfigs, key 32, versions 1-4, flexible from 4: the configuration of topics and brokers (KIP-133).
//!
//! | version | change |
//! |---|---|
//! | 1 | where a value comes from, and what it hides (KIP-226) |
//! | 3 | type and documentation of a configuration (KIP-569) |
//! | 4 | flexible |

use crate::codec::api;
use crate::{Array, ErrorCode};

/// `resource_type` of a topic, here and in AlterConfigs.
pub const TOPIC: i8 = 2;
/// `resource_type` of a broker, here and in AlterConfigs.
pub const BROKER: i8 = 4;

/// `config_source`: set on the topic.
pub const SOURCE_TOPIC: i8 = 1;
/// `config_source`: set at run time on this broker.
pub const SOURCE_DYNAMIC_BROKER: i8 = 2;
/// `config_source`: set at run time on all brokers.
pub const SOURCE_DYNAMIC_DEFAULT_BROKER: i8 = 3;
/// `config_source`: from the broker's configuration file.
pub const SOURCE_STATIC_BROKER: i8 = 4;
/// `config_source`: built in.
pub const SOURCE_DEFAULT: i8 = 5;

api! {
    DescribeConfigs 1..=4;

    request<'a> {
        resources: Array<'a, Resource<'a>> [1..],
        include_synonyms: bool [1..],
        include_documentation: bool [3..],
    }

    response<'a> {
        throttle_time_ms: i32 [1..],
        results: Array<'a, ResourceResponse<'a>> [1..],
    }

    /// What to describe.
    pub struct Resource<'a> {
        resource_type: i8 [1..],
        resource_name: &'a str [1..],
        /// Null: all.
        configuration_keys: Option<Array<'a, &'a str>> [1..],
    }

    /// The configuration of a resource.
    pub struct ResourceResponse<'a> {
        error_code: ErrorCode [1..],
        error_message: Option<&'a str> [1..],
        resource_type: i8 [1..],
        resource_name: &'a str [1..],
        configs: Array<'a, Config<'a>> [1..],
    }

    /// A configuration.
    pub struct Config<'a> {
        name: &'a str [1..],
        /// Null when it is sensitive.
        value: Option<&'a str> [1..],
        read_only: bool [1..],
        /// One of the `SOURCE_` constants.
        config_source: i8 [1..] = -1,
        is_sensitive: bool [1..],
        /// The values of this configuration by source, the one in force first.
        synonyms: Array<'a, Synonym<'a>> [1..],
        /// 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password.
        config_type: i8 [3..],
        documentation: Option<&'a str> [3..],
    }

    /// A value of a configuration from one source.
    pub struct Synonym<'a> {
        name: &'a str [1..],
        value: Option<&'a str> [1..],
        source: i8 [1..],
    }
}
