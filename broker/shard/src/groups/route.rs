//! Whose group is it: a group's partition of `__consumer_offsets`, and the core that leads it.

use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;

use rillway_log::{Log, PartitionId};

use crate::error::{CoordinatorError, TopicError};
use crate::shard::Shard;
use crate::topics::NewTopic;

/// Kafka's name of the topic of committed offsets.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// Kafka's: the hash of a Java string modulo the number of partitions, so that tools that know it look in the right
/// place.
fn partition_of(group: &str, partitions: u32) -> u32 {
    let hash = group
        .encode_utf16()
        .fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)));
    // Java's absolute value of the smallest number is taken as 0, which is what clearing the sign gives here too.
    let hash = hash.cast_signed();
    let absolute = if hash == i32::MIN { 0 } else { hash.unsigned_abs() };
    absolute % partitions
}

impl Shard {
    /// The core that coordinates a group. Makes the topic of committed offsets if this is the first group.
    pub async fn find_coordinator(&self, group: &str) -> Result<usize, CoordinatorError> {
        if let Some((core, _)) = self.coordinator_of(group) {
            return Ok(core);
        }
        match self.create_offsets_topic().await {
            // Somebody else was first.
            Ok(()) | Err(TopicError::Exists(_)) => {}
            Err(e) => return Err(CoordinatorError::NotAvailable(e.to_string())),
        }
        self.coordinator_of(group)
            .map(|(core, _)| core)
            .ok_or_else(|| CoordinatorError::NotAvailable(format!("{OFFSETS_TOPIC} is not there")))
    }

    /// Creates the topic of committed offsets.
    pub async fn create_offsets_topic(&self) -> Result<(), TopicError> {
        let settings = &self.inner.options.groups;
        let configs = BTreeMap::from([
            ("cleanup.policy".to_owned(), "compact".to_owned()),
            ("segment.bytes".to_owned(), settings.offsets_segment_bytes.to_string()),
        ]);
        let topic = NewTopic {
            name: OFFSETS_TOPIC.to_owned(),
            partitions: i32::try_from(settings.offsets_partitions).unwrap_or(i32::MAX),
            replication_factor: -1,
            assigned_partitions: None,
            configs,
        };
        self.create_topic(topic, false).await.map(|_| ())
    }

    /// The core that coordinates a group, and its partition; `None` while there is no group.
    pub(super) fn coordinator_of(&self, group: &str) -> Option<(usize, PartitionId)> {
        let view = self.view();
        let topic = view.topic(OFFSETS_TOPIC)?;
        let index = partition_of(group, topic.partitions);
        let id = PartitionId { topic: topic.id, index };
        Some((view.owner(id)?.core, id))
    }

    /// The log of a group's committed offsets, on its core.
    pub(super) fn offsets_log(&self, group: &str) -> Result<Rc<Log>, CoordinatorError> {
        let (_, id) = self.coordinator_of(group).ok_or(CoordinatorError::NotCoordinator)?;
        self.inner.store.log(id).ok_or(CoordinatorError::NotCoordinator)
    }

    /// Runs `work` on the core that coordinates a group, when what was committed before this life is known there.
    pub(super) async fn at_coordinator<T, F, Fut>(
        &self,
        group: &str,
        work: F,
    ) -> Result<T, CoordinatorError>
    where
        T: Send + 'static,
        F: FnOnce(Shard) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, CoordinatorError>> + 'static,
    {
        let (core, _) = self.coordinator_of(group).ok_or(CoordinatorError::NotCoordinator)?;
        if core == self.core() {
            self.until_groups_are_loaded().await?;
            return work(self.clone()).await;
        }
        let there = move |shard: Shard| async move {
            shard.until_groups_are_loaded().await?;
            work(shard).await
        };
        self.inner.mesh.call(core, there).await.unwrap_or(Err(CoordinatorError::Stopping))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_in_the_partition_where_kafka_has_it() {
        // From java.lang.String.hashCode: "" is 0, "a" 97, "test-group" 1,950,076,548... the last is the one whose hash
        // is the smallest number, which has no absolute value.
        assert_eq!(partition_of("", 50), 0);
        assert_eq!(partition_of("a", 50), 97 % 50);
        assert_eq!(partition_of("ab", 50), (97 * 31 + 98) % 50);
        assert_eq!(partition_of("polygenelubricants", 50), 0);
        assert!(partition_of("größer", 50) < 50);
    }
}
