//! Kafka's API keys, all of Apache Kafka 4.2, with the first version of each whose encoding is flexible (KIP-482), and
//! those of our own.
//!
//! Which versions a broker serves is not here: that is the broker's decision. Which versions this crate can encode and
//! decode stands at the head of each file in [`crate::api`].

/// What [`ApiKey`] knows of an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiInfo {
    pub key: ApiKey,
    /// Kafka's name, without "Request".
    pub name: &'static str,
    /// First version with compact lengths, tagged fields and request header v2. `None`: no version has them.
    pub first_flexible: Option<i16>,
}

/// Writes the enum and the table from the lines below.
macro_rules! api_keys {
    ($($name:ident = $key:literal flexible $flexible:tt,)*) => {
        /// An API of the Kafka protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i16)]
        pub enum ApiKey {
            $($name = $key,)*
        }

        /// Every API, in the order of the keys.
        pub const API_TABLE: &[ApiInfo] = &[
            $(ApiInfo { key: ApiKey::$name, name: stringify!($name), first_flexible: api_keys!(@$flexible) },)*
        ];

        impl ApiKey {
            /// The API that a number stands for, `None` for one that Kafka 4.2 does not have.
            #[must_use]
            pub const fn from_code(code: i16) -> Option<Self> {
                match code {
                    $($key => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
    (@never) => { None };
    (@$version:literal) => { Some($version) };
}

/// APIs of Kafka: the first rows of the table.
const KAFKA_APIS: usize = 93;
/// Key of the first API that is not Kafka's.
const FIRST_OWN: usize = 20_000;

impl ApiKey {
    /// Whether Kafka does not have it. Advertised to clients of ours only: others are not to stumble over it.
    #[must_use]
    pub const fn is_own(self) -> bool {
        self as usize >= FIRST_OWN
    }

    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The line of [`API_TABLE`] for this API.
    #[must_use]
    pub const fn info(self) -> ApiInfo {
        // The keys have no gaps but the one before ours, which a test holds on to.
        let at = self as usize;
        if at < KAFKA_APIS { API_TABLE[at] } else { API_TABLE[at - FIRST_OWN + KAFKA_APIS] }
    }

    /// Kafka's name, without "Request".
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// Whether this version writes compact lengths and tagged fields.
    #[must_use]
    pub const fn is_flexible(self, version: i16) -> bool {
        match self.info().first_flexible {
            Some(first) => version >= first,
            None => false,
        }
    }
}

impl std::fmt::Display for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

api_keys! {
    Produce = 0 flexible 9,
    Fetch = 1 flexible 12,
    ListOffsets = 2 flexible 6,
    Metadata = 3 flexible 9,
    LeaderAndIsr = 4 flexible 4,
    StopReplica = 5 flexible 2,
    UpdateMetadata = 6 flexible 6,
    ControlledShutdown = 7 flexible 3,
    OffsetCommit = 8 flexible 8,
    OffsetFetch = 9 flexible 6,
    FindCoordinator = 10 flexible 3,
    JoinGroup = 11 flexible 6,
    Heartbeat = 12 flexible 4,
    LeaveGroup = 13 flexible 4,
    SyncGroup = 14 flexible 4,
    DescribeGroups = 15 flexible 5,
    ListGroups = 16 flexible 3,
    SaslHandshake = 17 flexible never,
    ApiVersions = 18 flexible 3,
    CreateTopics = 19 flexible 5,
    DeleteTopics = 20 flexible 4,
    DeleteRecords = 21 flexible 2,
    InitProducerId = 22 flexible 2,
    OffsetForLeaderEpoch = 23 flexible 4,
    AddPartitionsToTxn = 24 flexible 3,
    AddOffsetsToTxn = 25 flexible 3,
    EndTxn = 26 flexible 3,
    WriteTxnMarkers = 27 flexible 1,
    TxnOffsetCommit = 28 flexible 3,
    DescribeAcls = 29 flexible 2,
    CreateAcls = 30 flexible 2,
    DeleteAcls = 31 flexible 2,
    DescribeConfigs = 32 flexible 4,
    AlterConfigs = 33 flexible 2,
    AlterReplicaLogDirs = 34 flexible 2,
    DescribeLogDirs = 35 flexible 2,
    SaslAuthenticate = 36 flexible 2,
    CreatePartitions = 37 flexible 2,
    CreateDelegationToken = 38 flexible 2,
    RenewDelegationToken = 39 flexible 2,
    ExpireDelegationToken = 40 flexible 2,
    DescribeDelegationToken = 41 flexible 2,
    DeleteGroups = 42 flexible 2,
    ElectLeaders = 43 flexible 2,
    IncrementalAlterConfigs = 44 flexible 1,
    AlterPartitionReassignments = 45 flexible 0,
    ListPartitionReassignments = 46 flexible 0,
    OffsetDelete = 47 flexible never,
    DescribeClientQuotas = 48 flexible 1,
    AlterClientQuotas = 49 flexible 1,
    DescribeUserScramCredentials = 50 flexible 0,
    AlterUserScramCredentials = 51 flexible 0,
    Vote = 52 flexible 0,
    BeginQuorumEpoch = 53 flexible 1,
    EndQuorumEpoch = 54 flexible 1,
    DescribeQuorum = 55 flexible 0,
    AlterPartition = 56 flexible 0,
    UpdateFeatures = 57 flexible 0,
    Envelope = 58 flexible 0,
    FetchSnapshot = 59 flexible 0,
    DescribeCluster = 60 flexible 0,
    DescribeProducers = 61 flexible 0,
    BrokerRegistration = 62 flexible 0,
    BrokerHeartbeat = 63 flexible 0,
    UnregisterBroker = 64 flexible 0,
    DescribeTransactions = 65 flexible 0,
    ListTransactions = 66 flexible 0,
    AllocateProducerIds = 67 flexible 0,
    ConsumerGroupHeartbeat = 68 flexible 0,
    ConsumerGroupDescribe = 69 flexible 0,
    ControllerRegistration = 70 flexible 0,
    GetTelemetrySubscriptions = 71 flexible 0,
    PushTelemetry = 72 flexible 0,
    AssignReplicasToDirs = 73 flexible 0,
    ListConfigResources = 74 flexible 0,
    DescribeTopicPartitions = 75 flexible 0,
    ShareGroupHeartbeat = 76 flexible 0,
    ShareGroupDescribe = 77 flexible 0,
    ShareFetch = 78 flexible 0,
    ShareAcknowledge = 79 flexible 0,
    AddRaftVoter = 80 flexible 0,
    RemoveRaftVoter = 81 flexible 0,
    UpdateRaftVoter = 82 flexible 0,
    InitializeShareGroupState = 83 flexible 0,
    ReadShareGroupState = 84 flexible 0,
    WriteShareGroupState = 85 flexible 0,
    DeleteShareGroupState = 86 flexible 0,
    ReadShareGroupStateSummary = 87 flexible 0,
    StreamsGroupHeartbeat = 88 flexible 0,
    StreamsGroupDescribe = 89 flexible 0,
    DescribeShareGroupOffsets = 90 flexible 0,
    AlterShareGroupOffsets = 91 flexible 0,
    DeleteShareGroupOffsets = 92 flexible 0,
    // Not Kafka's: far above its keys.
    GroupReport = 20_000 flexible 0,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_gap_so_the_table_is_indexed_by_them() {
        for (index, info) in API_TABLE.iter().enumerate() {
            let own = index.checked_sub(KAFKA_APIS).map(|at| FIRST_OWN + at);
            let code = own.unwrap_or(index);
            assert_eq!(info.key as usize, code);
            assert_eq!(info.key.info(), *info);
            assert_eq!(info.key.is_own(), own.is_some());
            assert_eq!(ApiKey::from_code(code as i16), Some(info.key));
        }
        assert_eq!(ApiKey::from_code(-1), None);
        assert_eq!(ApiKey::from_code(KAFKA_APIS as i16), None);
    }
}
