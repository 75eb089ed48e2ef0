//! Which version of each API a connection speaks.

use std::collections::BTreeMap;

use rillway_wire::ApiKey;
use rillway_wire::api::api_versions;

use crate::error::{Error, Result};

/// The versions this client speaks: those of the wire crate, but for what it has no use for.
#[must_use]
pub(super) fn spoken(api: ApiKey) -> Option<(i16, i16)> {
    match api {
        ApiKey::ApiVersions => Some((0, 3)),
        ApiKey::Metadata => Some((1, 13)),
        // Version 3 is the first with batches of format v2; 12 changes transactions only.
        ApiKey::Produce => Some((3, 11)),
        // From 13 on topics have ids instead of names.
        ApiKey::Fetch => Some((4, 12)),
        ApiKey::ListOffsets => Some((1, 7)),
        ApiKey::InitProducerId => Some((0, 4)),
        // For whoever measures groups, by a `Pipe`.
        ApiKey::JoinGroup => Some((0, 9)),
        ApiKey::SyncGroup => Some((0, 5)),
        ApiKey::Heartbeat => Some((0, 4)),
        // For whoever watches sizes, by a `Pipe`.
        ApiKey::DescribeLogDirs => Some((1, 4)),
        ApiKey::CreateTopics => Some((2, 7)),
        ApiKey::DeleteTopics => Some((1, 5)),
        ApiKey::CreatePartitions => Some((0, 3)),
        ApiKey::DescribeConfigs => Some((1, 4)),
        ApiKey::IncrementalAlterConfigs => Some((0, 1)),
        // From 4 on an answer has many coordinators, from 8 on one has many groups: of no use to who asks for one.
        ApiKey::FindCoordinator => Some((0, 3)),
        // Version 2 is the first that can ask for all topics.
        ApiKey::OffsetFetch => Some((2, 7)),
        // From 10 on topics have ids instead of names.
        ApiKey::OffsetCommit => Some((2, 9)),
        ApiKey::OffsetDelete => Some((0, 0)),
        ApiKey::ListGroups => Some((0, 5)),
        ApiKey::DescribeGroups => Some((0, 6)),
        ApiKey::DeleteGroups => Some((0, 2)),
        ApiKey::GroupReport => Some((0, 0)),
        _ => None,
    }
}

/// What a broker said it serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Versions {
    /// By number, since brokers name keys that are newer than we are.
    ranges: BTreeMap<i16, (i16, i16)>,
}

impl Versions {
    /// From the broker's answer.
    #[must_use]
    pub(super) fn new(answer: &api_versions::Response<'_>) -> Self {
        let ranges = answer.api_keys.iter();
        Self { ranges: ranges.map(|k| (k.api_key, (k.min_version, k.max_version))).collect() }
    }

    /// The highest version that both sides speak.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when there is none.
    pub(super) fn pick(&self, api: ApiKey) -> Result<i16> {
        let ours = spoken(api).unwrap_or((-1, -1));
        let theirs = self.ranges.get(&api.code()).copied();
        theirs
            .map(|(min, max)| (min.max(ours.0), max.min(ours.1)))
            .filter(|(min, max)| min <= max)
            .map(|(_, max)| max)
            .ok_or(Error::Unsupported { api, ours, theirs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_version_is_picked_and_a_gap_is_an_error() {
        let served = |min, max| Versions { ranges: [(ApiKey::Fetch.code(), (min, max))].into() };
        assert_eq!(served(0, 11).pick(ApiKey::Fetch), Ok(11));
        assert_eq!(served(4, 99).pick(ApiKey::Fetch), Ok(12));
        for gap in [served(0, 3), served(13, 17), served(9, 5), Versions::default()] {
            assert!(matches!(gap.pick(ApiKey::Fetch), Err(Error::Unsupported { .. })));
        }
    }
}
