//! What exists and who owns it: the cluster image and the core of every partition. Immutable, swapped whole, shared by
//! all cores.

use std::collections::BTreeMap;
use std::sync::Arc;

use rillway_log::{PartitionId, TopicId};
use rillway_meta::{Image, Topic};

use crate::config::TopicSettings;

/// Where a partition is led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub core: usize,
    pub leader_epoch: i32,
}

/// One version of everything that a request may need to know.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub image: Arc<Image>,
    owners: BTreeMap<TopicId, Vec<Option<Owner>>>,
    settings: BTreeMap<TopicId, TopicSettings>,
    /// The topics that clients may see: requests name them by id from Fetch 13 on, thousands of times a second.
    by_id: BTreeMap<TopicId, Arc<Topic>>,
}

impl View {
    pub(crate) fn new(
        image: Arc<Image>,
        owners: BTreeMap<TopicId, Vec<Option<Owner>>>,
        settings: BTreeMap<TopicId, TopicSettings>,
    ) -> View {
        let by_id = image.created().map(|topic| (topic.id, Arc::clone(topic))).collect();
        View { image, owners, settings, by_id }
    }

    /// Effective settings of a topic; the built-in ones if there is none.
    pub fn settings(&self, topic: TopicId) -> TopicSettings {
        self.settings.get(&topic).copied().unwrap_or_default()
    }

    /// A topic that clients may see.
    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.image.topic(name)
    }

    /// As [`View::topic`], by id.
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.by_id.get(&id)
    }

    /// The core that leads a partition; `None` if the partition does not exist or its state is missing.
    pub fn owner(&self, id: PartitionId) -> Option<Owner> {
        *self.owners.get(&id.topic)?.get(id.index as usize)?
    }

    /// A partition by its topic's name.
    pub fn partition(&self, topic: &str, index: i32) -> Option<PartitionId> {
        partition_of(self.topic(topic)?, index)
    }

    pub(crate) fn owners(&self) -> &BTreeMap<TopicId, Vec<Option<Owner>>> {
        &self.owners
    }
}

/// A partition of a topic, if the topic has so many.
pub fn partition_of(topic: &Topic, index: i32) -> Option<PartitionId> {
    let index = u32::try_from(index).ok().filter(|i| *i < topic.partitions)?;
    Some(PartitionId { topic: topic.id, index })
}
