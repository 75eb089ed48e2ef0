//! What a group refuses, mapped to Kafka's codes in `broker/api`.

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    #[error("the group id is empty")]
    InvalidGroupId,
    #[error("no such member: {0}")]
    UnknownMember(String),
    #[error("generation {got}, the group is at {current}")]
    IllegalGeneration { got: i32, current: i32 },
    #[error("no assignor, or another protocol type, in common with the group")]
    InconsistentProtocol,
    #[error("a rebalance is under way")]
    RebalanceInProgress,
    #[error("session timeout of {got} ms, allowed are {min} to {max}")]
    InvalidSessionTimeout { got: i32, min: i32, max: i32 },
    #[error("join again with the member id {0}")]
    MemberIdRequired(String),
    #[error("another member has taken the group instance id {0}")]
    FencedInstance(String),
    #[error("the group has its {max} members")]
    MaxSizeReached { max: usize },
    #[error("the group has members")]
    NonEmpty,
    #[error("no such group: {0}")]
    NotFound(String),
    #[error("the group's members are subscribed to the topic")]
    SubscribedToTopic,
    /// The state could not be kept; members try again.
    #[error("the state of the group could not be kept")]
    NotAvailable,
    #[error("the metadata of an offset is longer than {max} bytes")]
    OffsetMetadataTooLarge { max: usize },
}
