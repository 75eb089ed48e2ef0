//! Which versions of which API are advertised, and which are really served. Raise a range only with the behaviour
//! behind it: clients infer features from it (features-and-protocol 2.6).

use rillway_wire::ApiKey;

/// One API.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    pub api: ApiKey,
    pub min: i16,
    pub max: i16,
    /// Versions from `min` up to this one are advertised and answered with UNSUPPORTED_VERSION: librdkafka before
    /// 2.12 turns compression off when Produce does not start at 0 (apache/kafka#18727 does the same).
    pub answered_from: i16,
}

const fn served(api: ApiKey, min: i16, max: i16) -> Served {
    Served { api, min, max, answered_from: min }
}

/// The table.
pub const SERVED: &[Served] = &[
    Served { api: ApiKey::Produce, min: 0, max: 12, answered_from: 3 },
    served(ApiKey::Fetch, 4, 17),
    served(ApiKey::ListOffsets, 1, 10),
    served(ApiKey::Metadata, 0, 13),
    served(ApiKey::OffsetCommit, 2, 10),
    served(ApiKey::OffsetFetch, 1, 10),
    served(ApiKey::FindCoordinator, 0, 6),
    served(ApiKey::JoinGroup, 0, 9),
    served(ApiKey::Heartbeat, 0, 4),
    served(ApiKey::LeaveGroup, 0, 5),
    served(ApiKey::SyncGroup, 0, 5),
    served(ApiKey::DescribeGroups, 0, 6),
    served(ApiKey::ListGroups, 0, 5),
    served(ApiKey::ApiVersions, 0, 4),
    served(ApiKey::CreateTopics, 2, 7),
    served(ApiKey::DeleteTopics, 1, 6),
    served(ApiKey::InitProducerId, 0, 4),
    served(ApiKey::OffsetForLeaderEpoch, 2, 4),
    served(ApiKey::DescribeConfigs, 1, 4),
    served(ApiKey::AlterConfigs, 0, 2),
    served(ApiKey::CreatePartitions, 0, 3),
    served(ApiKey::DeleteGroups, 0, 2),
    served(ApiKey::OffsetDelete, 0, 0),
    served(ApiKey::IncrementalAlterConfigs, 0, 1),
    served(ApiKey::DescribeCluster, 0, 1),
    served(ApiKey::GroupReport, 0, 0),
    served(ApiKey::DeleteRecords, 0, 2),
    served(ApiKey::DescribeTopicPartitions, 0, 0),
    served(ApiKey::DescribeLogDirs, 1, 4),
    served(ApiKey::ListConfigResources, 0, 1),
];

/// The row of an API, if a version of it is advertised.
pub(crate) fn find(key: i16, version: i16) -> Option<Served> {
    let api = ApiKey::from_code(key)?;
    SERVED.iter().copied().find(|s| s.api == api && (s.min..=s.max).contains(&version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_librdkafka_finds_the_exact_versions_that_it_looks_for() {
        for (key, version) in [(0, 3), (0, 7), (1, 4), (1, 10), (2, 1), (22, 0)] {
            assert!(find(key, version).is_some(), "key {key} version {version}");
        }
    }

    #[test]
    fn every_row_lies_within_what_wire_can_read() {
        for s in SERVED {
            assert!(
                s.min <= s.max && s.answered_from >= s.min && s.answered_from <= s.max,
                "{:?}",
                s.api
            );
        }
    }
}
