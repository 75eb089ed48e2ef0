//! What administrators ask of groups, and what time does to them: describe, list, delete, forget, expire.

use std::collections::BTreeMap;

use rillway_group::{Described, GroupError, Listed, TopicPartition};
use rillway_io::join_all;

use crate::error::CoordinatorError;
use crate::shard::Shard;

/// Groups whose offsets are removed at a time, so that they share flushes.
const GROUPS_TOGETHER: usize = 100;

impl Shard {
    /// DescribeGroups; `None`: there is no such group.
    pub async fn describe_group(&self, group: &str) -> Result<Option<Described>, CoordinatorError> {
        let name = group.to_owned();
        let described = self.at_coordinator(group, |shard| async move {
            Ok(shard.inner.groups.coordinator.borrow().describe(&name))
        });
        match described.await {
            Err(CoordinatorError::NotCoordinator) => Ok(None),
            described => described,
        }
    }

    /// ListGroups: the groups of some cores.
    pub async fn list_groups(
        &self,
        cores: impl Iterator<Item = usize>,
    ) -> Result<Vec<Listed>, CoordinatorError> {
        let mut all = Vec::new();
        for core in cores {
            let listed = self.on(core, |shard: Shard| async move {
                shard.until_groups_are_loaded().await?;
                Ok::<_, CoordinatorError>(shard.inner.groups.coordinator.borrow().list())
            });
            all.extend(listed.await.map_err(|_| CoordinatorError::Stopping)??);
        }
        Ok(all)
    }

    /// DeleteGroups: groups without members, and all that they have committed; one answer for each, in their order. Gone
    /// for good when it returns. One by one, 1,500 of them took 5.4 s.
    pub async fn delete_groups(&self, groups: &[String]) -> Vec<Result<(), CoordinatorError>> {
        let mut deleted = Vec::new();
        for together in groups.chunks(GROUPS_TOGETHER) {
            deleted.extend(join_all(together.iter().map(|group| self.delete_group(group))).await);
        }
        deleted
    }

    async fn delete_group(&self, group: &str) -> Result<(), CoordinatorError> {
        let name = group.to_owned();
        let deleted = self.at_coordinator(group, |shard| async move {
            let offsets = shard.ask_groups(|groups, _, effects| groups.delete(&name, effects))?;
            shard.forget(&name, offsets).await?;
            shard.until_kept(&name).await;
            Ok(())
        });
        match deleted.await {
            Err(CoordinatorError::NotCoordinator) => {
                Err(GroupError::NotFound(group.to_owned()).into())
            }
            deleted => deleted,
        }
    }

    /// OffsetDelete: what a group has committed for partitions that its members do not read; one answer for each.
    pub async fn delete_offsets(
        &self,
        group: &str,
        partitions: Vec<TopicPartition>,
    ) -> Result<Vec<Result<(), GroupError>>, CoordinatorError> {
        let name = group.to_owned();
        let deleted = self.at_coordinator(group, |shard| async move {
            let checked: Vec<Result<(), GroupError>> = {
                let groups = shard.inner.groups.coordinator.borrow();
                if groups.describe(&name).is_none() {
                    return Err(GroupError::NotFound(name).into());
                }
                let check = |at: &TopicPartition| groups.check_offset_delete(&name, &at.topic);
                partitions.iter().map(check).collect()
            };
            let free = partitions.into_iter().zip(&checked).filter(|(_, checked)| checked.is_ok());
            let free = free.map(|(at, _)| at).collect();
            shard.forget(&name, free).await?;
            Ok(checked)
        });
        match deleted.await {
            Err(CoordinatorError::NotCoordinator) => {
                Err(GroupError::NotFound(group.to_owned()).into())
            }
            deleted => deleted,
        }
    }

    /// Removes offsets of a group that are there.
    async fn forget(
        &self,
        group: &str,
        partitions: Vec<TopicPartition>,
    ) -> Result<(), CoordinatorError> {
        let there = {
            let groups = self.inner.groups.coordinator.borrow();
            let there = |at: &TopicPartition| groups.offsets().get(group, at).is_some();
            partitions.into_iter().filter(there).map(|at| (at, None)).collect::<Vec<_>>()
        };
        if there.is_empty() { Ok(()) } else { self.write_offsets(group, there).await }
    }

    /// Removes what was committed for a topic that is gone, on this core. It would not be served in any case: offsets
    /// name their topic by its id too.
    pub(crate) async fn forget_topic(&self, topic: &str) {
        let stale = {
            let groups = self.inner.groups.coordinator.borrow();
            let mut by_group = BTreeMap::<String, Vec<TopicPartition>>::new();
            for (group, at) in groups.offsets().of_topic(topic) {
                by_group.entry(group.to_owned()).or_default().push(at.clone());
            }
            by_group
        };
        self.forget_all(stale, "offsets of a deleted topic stay").await;
    }

    /// Removes offsets of many groups. One by one, the deletion of a topic that 3,000 groups had read took 10 s.
    async fn forget_all(&self, stale: BTreeMap<String, Vec<TopicPartition>>, or: &'static str) {
        let mut stale = stale.into_iter();
        loop {
            let some = stale.by_ref().take(GROUPS_TOGETHER);
            let forgets = some.map(|(group, partitions)| async move {
                if let Err(e) = self.forget(&group, partitions).await {
                    tracing::warn!(group, "{or}: {e}");
                }
            });
            if join_all(forgets).await.is_empty() {
                return;
            }
        }
    }

    /// Looks at the retention of offsets from time to time (KIP-211).
    pub(super) async fn expire_offsets(self) {
        loop {
            self.runtime().sleep(self.inner.options.groups.retention_check_interval).await;
            if self.inner.groups.loaded.get() {
                self.expire_offsets_now().await;
            }
        }
    }

    async fn expire_offsets_now(&self) {
        let expired = self.ask_groups(|groups, clock, effects| groups.expired(clock, effects));
        let count = expired.len();
        let mut by_group = BTreeMap::<String, Vec<TopicPartition>>::new();
        for (group, at) in expired {
            by_group.entry(group).or_default().push(at);
        }
        self.forget_all(by_group, "expired offsets stay").await;
        if count > 0 {
            tracing::info!(core = self.core(), offsets = count, "expired offsets are removed");
        }
    }
}
