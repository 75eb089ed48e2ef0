//! The one place where our errors become Kafka's codes. No wildcard arm: a new error must be given a code.

use rillway_group::GroupError;
use rillway_shard::{CoordinatorError, PartitionError, TopicError};
use rillway_wire::ErrorCode;

/// Code of a partition's error.
pub(crate) fn partition(e: &PartitionError) -> ErrorCode {
    match e {
        PartitionError::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
        PartitionError::OffsetOutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        PartitionError::FencedLeaderEpoch { .. } => ErrorCode::FencedLeaderEpoch,
        PartitionError::UnknownLeaderEpoch { .. } => ErrorCode::UnknownLeaderEpoch,
        PartitionError::MessageTooLarge { .. } => ErrorCode::MessageTooLarge,
        PartitionError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
        PartitionError::ProducerFenced { .. } => ErrorCode::InvalidProducerEpoch,
        PartitionError::NotDeletable => ErrorCode::PolicyViolation,
        // Retriable: the client keeps its records until there is room.
        PartitionError::DiskFull(_) => ErrorCode::KafkaStorageError,
        PartitionError::Refused(_) => ErrorCode::KafkaStorageError,
        PartitionError::Stopping => ErrorCode::NotLeaderOrFollower,
    }
}

/// Code of a coordinator's error.
pub(crate) fn coordinator(e: &CoordinatorError) -> ErrorCode {
    match e {
        CoordinatorError::Group(e) => group(e),
        CoordinatorError::Loading => ErrorCode::CoordinatorLoadInProgress,
        CoordinatorError::NotCoordinator | CoordinatorError::Stopping => ErrorCode::NotCoordinator,
        CoordinatorError::NotAvailable(_) => ErrorCode::CoordinatorNotAvailable,
    }
}

fn group(e: &GroupError) -> ErrorCode {
    match e {
        GroupError::InvalidGroupId => ErrorCode::InvalidGroupId,
        GroupError::UnknownMember(_) => ErrorCode::UnknownMemberId,
        GroupError::IllegalGeneration { .. } => ErrorCode::IllegalGeneration,
        GroupError::InconsistentProtocol => ErrorCode::InconsistentGroupProtocol,
        GroupError::RebalanceInProgress => ErrorCode::RebalanceInProgress,
        GroupError::InvalidSessionTimeout { .. } => ErrorCode::InvalidSessionTimeout,
        GroupError::MemberIdRequired(_) => ErrorCode::MemberIdRequired,
        GroupError::FencedInstance(_) => ErrorCode::FencedInstanceId,
        GroupError::MaxSizeReached { .. } => ErrorCode::GroupMaxSizeReached,
        GroupError::NonEmpty => ErrorCode::NonEmptyGroup,
        GroupError::NotFound(_) => ErrorCode::GroupIdNotFound,
        GroupError::SubscribedToTopic => ErrorCode::GroupSubscribedToTopic,
        GroupError::NotAvailable => ErrorCode::CoordinatorNotAvailable,
        GroupError::OffsetMetadataTooLarge { .. } => ErrorCode::OffsetMetadataTooLarge,
    }
}

/// Code of the controller's error.
pub(crate) fn topic(e: &TopicError) -> ErrorCode {
    match e {
        TopicError::Exists(_) => ErrorCode::TopicAlreadyExists,
        TopicError::Unknown(_) => ErrorCode::UnknownTopicOrPartition,
        TopicError::InvalidName(_) | TopicError::Collides { .. } => {
            ErrorCode::InvalidTopicException
        }
        TopicError::InvalidPartitions { .. } | TopicError::CannotGrow(_) => {
            ErrorCode::InvalidPartitions
        }
        TopicError::InvalidReplicationFactor { .. } => ErrorCode::InvalidReplicationFactor,
        TopicError::InvalidAssignment(_) => ErrorCode::InvalidReplicaAssignment,
        TopicError::InvalidRequest(_) => ErrorCode::InvalidRequest,
        TopicError::InvalidConfig(_) => ErrorCode::InvalidConfig,
        TopicError::DiskFull(_) => ErrorCode::KafkaStorageError,
        TopicError::Failed(_) => ErrorCode::UnknownServerError,
    }
}
