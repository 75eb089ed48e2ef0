//! Kafka's error codes, all of Apache Kafka 4.2, one a line.
//!
//! The second column is what a client does: `retriable` errors are tried again, `fatal` ones reach the application.
//! It is Kafka's own rule (whether the Java exception is a `RetriableException`), so a broker that picks a code also
//! picks the behaviour of every client.

/// Writes the enum and its lookups from the table below, so that a code exists in one place.
macro_rules! error_codes {
    ($($(#[$default:meta])? $variant:ident = $code:literal $kind:ident $name:literal,)*) => {
        /// An error as it stands in a response.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i16)]
        pub enum ErrorCode {
            $(
                #[doc = concat!("`", $name, "`")]
                $(#[$default])?
                $variant = $code,
            )*
        }

        impl ErrorCode {
            /// Every code, in Kafka's order.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The error that a number stands for, `None` for one that Kafka 4.2 does not have.
            #[must_use]
            pub const fn from_code(code: i16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Kafka's name for it, as in its documentation: `NOT_LEADER_OR_FOLLOWER`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Whether clients try again by themselves.
            #[must_use]
            pub const fn is_retriable(self) -> bool {
                match self {
                    $(Self::$variant => error_codes!(@$kind),)*
                }
            }
        }
    };
    (@retriable) => { true };
    (@fatal) => { false };
    (@none) => { false };
}

impl ErrorCode {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The error that a number stands for; as in Kafka's own client, a number from the future is an unknown error.
    #[must_use]
    pub const fn from_wire(code: i16) -> Self {
        match Self::from_code(code) {
            Some(known) => known,
            None => Self::UnknownServerError,
        }
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

error_codes! {
    UnknownServerError = -1 fatal "UNKNOWN_SERVER_ERROR",
    #[default]
    None = 0 none "NONE",
    OffsetOutOfRange = 1 fatal "OFFSET_OUT_OF_RANGE",
    CorruptMessage = 2 retriable "CORRUPT_MESSAGE",
    UnknownTopicOrPartition = 3 retriable "UNKNOWN_TOPIC_OR_PARTITION",
    InvalidFetchSize = 4 fatal "INVALID_FETCH_SIZE",
    LeaderNotAvailable = 5 retriable "LEADER_NOT_AVAILABLE",
    NotLeaderOrFollower = 6 retriable "NOT_LEADER_OR_FOLLOWER",
    RequestTimedOut = 7 retriable "REQUEST_TIMED_OUT",
    BrokerNotAvailable = 8 fatal "BROKER_NOT_AVAILABLE",
    ReplicaNotAvailable = 9 retriable "REPLICA_NOT_AVAILABLE",
    MessageTooLarge = 10 fatal "MESSAGE_TOO_LARGE",
    StaleControllerEpoch = 11 fatal "STALE_CONTROLLER_EPOCH",
    OffsetMetadataTooLarge = 12 fatal "OFFSET_METADATA_TOO_LARGE",
    NetworkException = 13 retriable "NETWORK_EXCEPTION",
    CoordinatorLoadInProgress = 14 retriable "COORDINATOR_LOAD_IN_PROGRESS",
    CoordinatorNotAvailable = 15 retriable "COORDINATOR_NOT_AVAILABLE",
    NotCoordinator = 16 retriable "NOT_COORDINATOR",
    InvalidTopicException = 17 fatal "INVALID_TOPIC_EXCEPTION",
    RecordListTooLarge = 18 fatal "RECORD_LIST_TOO_LARGE",
    NotEnoughReplicas = 19 retriable "NOT_ENOUGH_REPLICAS",
    NotEnoughReplicasAfterAppend = 20 retriable "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    InvalidRequiredAcks = 21 fatal "INVALID_REQUIRED_ACKS",
    IllegalGeneration = 22 fatal "ILLEGAL_GENERATION",
    InconsistentGroupProtocol = 23 fatal "INCONSISTENT_GROUP_PROTOCOL",
    InvalidGroupId = 24 fatal "INVALID_GROUP_ID",
    UnknownMemberId = 25 fatal "UNKNOWN_MEMBER_ID",
    InvalidSessionTimeout = 26 fatal "INVALID_SESSION_TIMEOUT",
    RebalanceInProgress = 27 fatal "REBALANCE_IN_PROGRESS",
    InvalidCommitOffsetSize = 28 fatal "INVALID_COMMIT_OFFSET_SIZE",
    TopicAuthorizationFailed = 29 fatal "TOPIC_AUTHORIZATION_FAILED",
    GroupAuthorizationFailed = 30 fatal "GROUP_AUTHORIZATION_FAILED",
    ClusterAuthorizationFailed = 31 fatal "CLUSTER_AUTHORIZATION_FAILED",
    InvalidTimestamp = 32 fatal "INVALID_TIMESTAMP",
    UnsupportedSaslMechanism = 33 fatal "UNSUPPORTED_SASL_MECHANISM",
    IllegalSaslState = 34 fatal "ILLEGAL_SASL_STATE",
    UnsupportedVersion = 35 fatal "UNSUPPORTED_VERSION",
    TopicAlreadyExists = 36 fatal "TOPIC_ALREADY_EXISTS",
    InvalidPartitions = 37 fatal "INVALID_PARTITIONS",
    InvalidReplicationFactor = 38 fatal "INVALID_REPLICATION_FACTOR",
    InvalidReplicaAssignment = 39 fatal "INVALID_REPLICA_ASSIGNMENT",
    InvalidConfig = 40 fatal "INVALID_CONFIG",
    NotController = 41 retriable "NOT_CONTROLLER",
    InvalidRequest = 42 fatal "INVALID_REQUEST",
    UnsupportedForMessageFormat = 43 fatal "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    PolicyViolation = 44 fatal "POLICY_VIOLATION",
    OutOfOrderSequenceNumber = 45 fatal "OUT_OF_ORDER_SEQUENCE_NUMBER",
    DuplicateSequenceNumber = 46 fatal "DUPLICATE_SEQUENCE_NUMBER",
    InvalidProducerEpoch = 47 fatal "INVALID_PRODUCER_EPOCH",
    InvalidTxnState = 48 fatal "INVALID_TXN_STATE",
    InvalidProducerIdMapping = 49 fatal "INVALID_PRODUCER_ID_MAPPING",
    InvalidTransactionTimeout = 50 fatal "INVALID_TRANSACTION_TIMEOUT",
    ConcurrentTransactions = 51 retriable "CONCURRENT_TRANSACTIONS",
    TransactionCoordinatorFenced = 52 fatal "TRANSACTION_COORDINATOR_FENCED",
    TransactionalIdAuthorizationFailed = 53 fatal "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    SecurityDisabled = 54 fatal "SECURITY_DISABLED",
    OperationNotAttempted = 55 fatal "OPERATION_NOT_ATTEMPTED",
    KafkaStorageError = 56 retriable "KAFKA_STORAGE_ERROR",
    LogDirNotFound = 57 fatal "LOG_DIR_NOT_FOUND",
    SaslAuthenticationFailed = 58 fatal "SASL_AUTHENTICATION_FAILED",
    UnknownProducerId = 59 fatal "UNKNOWN_PRODUCER_ID",
    ReassignmentInProgress = 60 fatal "REASSIGNMENT_IN_PROGRESS",
    DelegationTokenAuthDisabled = 61 fatal "DELEGATION_TOKEN_AUTH_DISABLED",
    DelegationTokenNotFound = 62 fatal "DELEGATION_TOKEN_NOT_FOUND",
    DelegationTokenOwnerMismatch = 63 fatal "DELEGATION_TOKEN_OWNER_MISMATCH",
    DelegationTokenRequestNotAllowed = 64 fatal "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
    DelegationTokenAuthorizationFailed = 65 fatal "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
    DelegationTokenExpired = 66 fatal "DELEGATION_TOKEN_EXPIRED",
    InvalidPrincipalType = 67 fatal "INVALID_PRINCIPAL_TYPE",
    NonEmptyGroup = 68 fatal "NON_EMPTY_GROUP",
    GroupIdNotFound = 69 fatal "GROUP_ID_NOT_FOUND",
    FetchSessionIdNotFound = 70 retriable "FETCH_SESSION_ID_NOT_FOUND",
    InvalidFetchSessionEpoch = 71 retriable "INVALID_FETCH_SESSION_EPOCH",
    ListenerNotFound = 72 retriable "LISTENER_NOT_FOUND",
    TopicDeletionDisabled = 73 fatal "TOPIC_DELETION_DISABLED",
    FencedLeaderEpoch = 74 retriable "FENCED_LEADER_EPOCH",
    UnknownLeaderEpoch = 75 retriable "UNKNOWN_LEADER_EPOCH",
    UnsupportedCompressionType = 76 fatal "UNSUPPORTED_COMPRESSION_TYPE",
    StaleBrokerEpoch = 77 fatal "STALE_BROKER_EPOCH",
    OffsetNotAvailable = 78 retriable "OFFSET_NOT_AVAILABLE",
    MemberIdRequired = 79 fatal "MEMBER_ID_REQUIRED",
    PreferredLeaderNotAvailable = 80 retriable "PREFERRED_LEADER_NOT_AVAILABLE",
    GroupMaxSizeReached = 81 fatal "GROUP_MAX_SIZE_REACHED",
    FencedInstanceId = 82 fatal "FENCED_INSTANCE_ID",
    EligibleLeadersNotAvailable = 83 retriable "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    ElectionNotNeeded = 84 retriable "ELECTION_NOT_NEEDED",
    NoReassignmentInProgress = 85 fatal "NO_REASSIGNMENT_IN_PROGRESS",
    GroupSubscribedToTopic = 86 fatal "GROUP_SUBSCRIBED_TO_TOPIC",
    InvalidRecord = 87 fatal "INVALID_RECORD",
    UnstableOffsetCommit = 88 retriable "UNSTABLE_OFFSET_COMMIT",
    ThrottlingQuotaExceeded = 89 retriable "THROTTLING_QUOTA_EXCEEDED",
    ProducerFenced = 90 fatal "PRODUCER_FENCED",
    ResourceNotFound = 91 fatal "RESOURCE_NOT_FOUND",
    DuplicateResource = 92 fatal "DUPLICATE_RESOURCE",
    UnacceptableCredential = 93 fatal "UNACCEPTABLE_CREDENTIAL",
    InconsistentVoterSet = 94 fatal "INCONSISTENT_VOTER_SET",
    InvalidUpdateVersion = 95 fatal "INVALID_UPDATE_VERSION",
    FeatureUpdateFailed = 96 fatal "FEATURE_UPDATE_FAILED",
    PrincipalDeserializationFailure = 97 fatal "PRINCIPAL_DESERIALIZATION_FAILURE",
    SnapshotNotFound = 98 fatal "SNAPSHOT_NOT_FOUND",
    PositionOutOfRange = 99 fatal "POSITION_OUT_OF_RANGE",
    UnknownTopicId = 100 retriable "UNKNOWN_TOPIC_ID",
    DuplicateBrokerRegistration = 101 fatal "DUPLICATE_BROKER_REGISTRATION",
    BrokerIdNotRegistered = 102 fatal "BROKER_ID_NOT_REGISTERED",
    InconsistentTopicId = 103 retriable "INCONSISTENT_TOPIC_ID",
    InconsistentClusterId = 104 fatal "INCONSISTENT_CLUSTER_ID",
    TransactionalIdNotFound = 105 fatal "TRANSACTIONAL_ID_NOT_FOUND",
    FetchSessionTopicIdError = 106 retriable "FETCH_SESSION_TOPIC_ID_ERROR",
    IneligibleReplica = 107 fatal "INELIGIBLE_REPLICA",
    NewLeaderElected = 108 fatal "NEW_LEADER_ELECTED",
    OffsetMovedToTieredStorage = 109 fatal "OFFSET_MOVED_TO_TIERED_STORAGE",
    FencedMemberEpoch = 110 fatal "FENCED_MEMBER_EPOCH",
    UnreleasedInstanceId = 111 fatal "UNRELEASED_INSTANCE_ID",
    UnsupportedAssignor = 112 fatal "UNSUPPORTED_ASSIGNOR",
    StaleMemberEpoch = 113 fatal "STALE_MEMBER_EPOCH",
    MismatchedEndpointType = 114 fatal "MISMATCHED_ENDPOINT_TYPE",
    UnsupportedEndpointType = 115 fatal "UNSUPPORTED_ENDPOINT_TYPE",
    UnknownControllerId = 116 fatal "UNKNOWN_CONTROLLER_ID",
    UnknownSubscriptionId = 117 fatal "UNKNOWN_SUBSCRIPTION_ID",
    TelemetryTooLarge = 118 fatal "TELEMETRY_TOO_LARGE",
    InvalidRegistration = 119 fatal "INVALID_REGISTRATION",
    TransactionAbortable = 120 fatal "TRANSACTION_ABORTABLE",
    InvalidRecordState = 121 fatal "INVALID_RECORD_STATE",
    ShareSessionNotFound = 122 retriable "SHARE_SESSION_NOT_FOUND",
    InvalidShareSessionEpoch = 123 retriable "INVALID_SHARE_SESSION_EPOCH",
    FencedStateEpoch = 124 fatal "FENCED_STATE_EPOCH",
    InvalidVoterKey = 125 fatal "INVALID_VOTER_KEY",
    DuplicateVoter = 126 fatal "DUPLICATE_VOTER",
    VoterNotFound = 127 fatal "VOTER_NOT_FOUND",
    InvalidRegularExpression = 128 fatal "INVALID_REGULAR_EXPRESSION",
    RebootstrapRequired = 129 fatal "REBOOTSTRAP_REQUIRED",
    StreamsInvalidTopology = 130 fatal "STREAMS_INVALID_TOPOLOGY",
    StreamsInvalidTopologyEpoch = 131 fatal "STREAMS_INVALID_TOPOLOGY_EPOCH",
    StreamsTopologyFenced = 132 fatal "STREAMS_TOPOLOGY_FENCED",
    ShareSessionLimitReached = 133 retriable "SHARE_SESSION_LIMIT_REACHED",
}
