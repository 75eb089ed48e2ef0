//! The one place where our errors become Kafka's codes. No wildcard arm: a new error must be given a code.

use rillway_shard::{PartitionError, TopicError};
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
