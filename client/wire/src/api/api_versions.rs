//! ApiVersions, key 18, versions 0-4, flexible from 3: the first question of every client, which APIs in which versions?
//!
//! | version | change |
//! |---|---|
//! | 1 | throttle time |
//! | 3 | flexible; name and version of the client's software (KIP-511), features (KIP-584) |
//! | 4 | features whose smallest version is 0 are no longer left out (KAFKA-17011) |
//!
//! A version above the broker's is answered with `UNSUPPORTED_VERSION` in the form of **version 0**, and with the
//! range of ApiVersions itself in the list. The response header is v0 in every version. No feature tags are sent
//! unless there are features: librdkafka before 2.2 stumbles over tags that say nothing.

use crate::codec::api;
use crate::{Array, DecodeError, ErrorCode, Message};

impl<'a> Response<'a> {
    /// Decodes the answer to a request of `version`. A broker that does not know the version answers in version 0.
    ///
    /// # Errors
    /// As [`Message::decode_body`].
    pub fn decode_answer(body: &'a [u8], version: i16) -> Result<Self, DecodeError> {
        let refused = body.starts_with(&ErrorCode::UnsupportedVersion.code().to_be_bytes());
        Self::decode_body(body, if refused { 0 } else { version })
    }
}

api! {
    ApiVersions 0..=4;

    request<'a> {
        /// As in `librdkafka`; `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`, or `INVALID_REQUEST`.
        client_software_name: &'a str [3..],
        /// As in `2.0.2`; the same rule.
        client_software_version: &'a str [3..],
    }

    response<'a> {
        error_code: ErrorCode [0..],
        api_keys: Array<'a, ApiVersion> [0..],
        throttle_time_ms: i32 [1..],
        /// What the broker could do.
        supported_features: Array<'a, SupportedFeature<'a>> [3..] tag 0,
        /// Version of `finalized_features`; -1: unknown.
        finalized_features_epoch: i64 [3..] tag 1 = -1,
        /// What the cluster has agreed to do.
        finalized_features: Array<'a, FinalizedFeature<'a>> [3..] tag 2,
        zk_migration_ready: bool [3..] tag 3,
    }

    /// The versions of one API that the broker serves, both inclusive.
    pub struct ApiVersion {
        /// Not an [`ApiKey`](crate::ApiKey): brokers name keys that are newer than we are.
        api_key: i16 [0..],
        min_version: i16 [0..],
        max_version: i16 [0..],
    }

    /// A feature and the levels the broker knows.
    pub struct SupportedFeature<'a> {
        name: &'a str [3..],
        min_version: i16 [3..],
        max_version: i16 [3..],
    }

    /// A feature and the levels the cluster is at.
    pub struct FinalizedFeature<'a> {
        name: &'a str [3..],
        max_version_level: i16 [3..],
        min_version_level: i16 [3..],
    }
}
