//! What a partition, and the controller, can answer instead. `api` maps each to a Kafka code, exhaustively.

/// From a partition. `Clone` and `Send`, because it crosses cores.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartitionError {
    #[error("no such topic or partition")]
    UnknownPartition,
    #[error("offset {offset} is not in {start}..={end}")]
    OffsetOutOfRange { offset: i64, start: i64, end: i64 },
    #[error("leader epoch {got} is older than {current}")]
    FencedLeaderEpoch { got: i32, current: i32 },
    #[error("leader epoch {got} is newer than {current}")]
    UnknownLeaderEpoch { got: i32, current: i32 },
    #[error("a batch of {got} bytes, the limit is {limit}")]
    MessageTooLarge { got: usize, limit: usize },
    #[error("sequence {got} of a producer, expected {expected}")]
    OutOfOrderSequence { got: i32, expected: i32 },
    #[error("producer epoch {got}, current is {current}")]
    ProducerFenced { got: i16, current: i16 },
    #[error("no room: {0}")]
    DiskFull(String),
    #[error("records of a topic without cleanup.policy=delete are not deleted by offset")]
    NotDeletable,
    #[error("{0}")]
    Refused(String),
    #[error("the broker is stopping")]
    Stopping,
}

impl From<rillway_log::Error> for PartitionError {
    fn from(e: rillway_log::Error) -> Self {
        use rillway_log::Error as E;
        match e {
            E::OffsetOutOfRange { offset, start, end } => {
                PartitionError::OffsetOutOfRange { offset, start, end }
            }
            E::NoSpace { .. } => PartitionError::DiskFull(e.to_string()),
            E::Closed => PartitionError::Stopping,
            E::Io(_)
            | E::Corrupt { .. }
            | E::Version { .. }
            | E::ForeignStorage { .. }
            | E::InUse { .. }
            | E::Config { .. }
            | E::Replaced { .. }
            | E::Partition { .. } => PartitionError::Refused(e.to_string()),
        }
    }
}

impl From<rillway_log::AppendError> for PartitionError {
    fn from(e: rillway_log::AppendError) -> Self {
        use rillway_log::AppendError as E;
        match e {
            E::TooLarge { got, limit } => PartitionError::MessageTooLarge { got, limit },
            E::OutOfOrderSequence { got, expected } => {
                PartitionError::OutOfOrderSequence { got, expected }
            }
            E::ProducerFenced { got, current } => PartitionError::ProducerFenced { got, current },
            E::NotTheNext { .. } => PartitionError::Refused(e.to_string()),
            E::Deleted => PartitionError::UnknownPartition,
            E::Log(e) => e.into(),
        }
    }
}

/// From the coordinator of a group. `Send`, because it crosses cores.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoordinatorError {
    #[error("{0}")]
    Group(#[from] rillway_group::GroupError),
    #[error("what was committed before the last start is being read")]
    Loading,
    #[error("nobody coordinates this group yet: ask for its coordinator")]
    NotCoordinator,
    #[error("the group's state cannot be kept: {0}")]
    NotAvailable(String),
    #[error("the broker is stopping")]
    Stopping,
}

impl From<PartitionError> for CoordinatorError {
    fn from(e: PartitionError) -> Self {
        match e {
            PartitionError::Stopping => CoordinatorError::Stopping,
            PartitionError::UnknownPartition => CoordinatorError::NotCoordinator,
            PartitionError::OffsetOutOfRange { .. }
            | PartitionError::FencedLeaderEpoch { .. }
            | PartitionError::UnknownLeaderEpoch { .. }
            | PartitionError::MessageTooLarge { .. }
            | PartitionError::OutOfOrderSequence { .. }
            | PartitionError::ProducerFenced { .. }
            | PartitionError::DiskFull(_)
            | PartitionError::NotDeletable
            | PartitionError::Refused(_) => CoordinatorError::NotAvailable(e.to_string()),
        }
    }
}

/// From the controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    #[error("topic '{0}' already exists")]
    Exists(String),
    #[error("no topic '{0}'")]
    Unknown(String),
    #[error("invalid topic name: {0}")]
    InvalidName(String),
    #[error(
        "topic '{name}' collides with existing topic '{other}': '.' and '_' are the same in metric names"
    )]
    Collides { name: String, other: String },
    #[error("number of partitions was {got}, must be 1 to {limit}")]
    InvalidPartitions { got: i32, limit: u32 },
    #[error("{0}")]
    CannotGrow(String),
    #[error("replication factor {got}, but there is 1 broker")]
    InvalidReplicationFactor { got: i16 },
    #[error("{0}")]
    InvalidAssignment(String),
    /// What contradicts itself.
    #[error("{0}")]
    InvalidRequest(String),
    #[error("{0}")]
    InvalidConfig(String),
    #[error("no room: {0}")]
    DiskFull(String),
    #[error("{0}")]
    Failed(String),
}

impl From<rillway_meta::Error> for TopicError {
    fn from(e: rillway_meta::Error) -> Self {
        use rillway_meta::Error as E;
        match e {
            E::Log(rillway_log::Error::NoSpace { .. })
            | E::Append(rillway_log::AppendError::Log(rillway_log::Error::NoSpace { .. })) => {
                TopicError::DiskFull(e.to_string())
            }
            E::Log(_)
            | E::Append(_)
            | E::Corrupt { .. }
            | E::Snapshot { .. }
            | E::Value { .. }
            | E::Conflict { .. } => TopicError::Failed(e.to_string()),
        }
    }
}

impl From<PartitionError> for TopicError {
    fn from(e: PartitionError) -> Self {
        match e {
            PartitionError::DiskFull(what) => TopicError::DiskFull(what),
            PartitionError::UnknownPartition
            | PartitionError::OffsetOutOfRange { .. }
            | PartitionError::FencedLeaderEpoch { .. }
            | PartitionError::UnknownLeaderEpoch { .. }
            | PartitionError::MessageTooLarge { .. }
            | PartitionError::OutOfOrderSequence { .. }
            | PartitionError::ProducerFenced { .. }
            | PartitionError::NotDeletable
            | PartitionError::Refused(_)
            | PartitionError::Stopping => TopicError::Failed(e.to_string()),
        }
    }
}
