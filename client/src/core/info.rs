//! What the answers of calls tell of topics, settings and nodes, and what a topic to create is.

use rillway_wire::api::{create_topics, metadata};
use rillway_wire::{Array, ErrorCode, Uuid};

/// A topic to create.
#[derive(Clone, Debug, Default)]
pub struct NewTopic {
    pub name: String,
    /// -1: the broker's default.
    pub partitions: i32,
    /// -1: the broker's default.
    pub replication_factor: i16,
    pub configs: Vec<(String, String)>,
}

/// A topic that was created. -1: the broker did not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreatedTopic {
    pub partitions: i32,
    pub replication_factor: i16,
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeInfo {
    pub id: i32,
    pub host: String,
    pub port: i32,
}

/// A setting of a topic or a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigInfo {
    pub name: String,
    /// `None`: it is secret.
    pub value: Option<String>,
    /// One of the `SOURCE_` constants of [`describe_configs`].
    pub source: i8,
    /// It cannot be changed while the broker runs.
    pub read_only: bool,
}

/// What the cluster says of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    pub name: String,
    pub id: Uuid,
    pub error: ErrorCode,
    pub internal: bool,
    /// By number.
    pub partitions: Vec<PartitionInfo>,
}

/// What the cluster says of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionInfo {
    pub index: i32,
    pub error: ErrorCode,
    /// -1: none.
    pub leader: i32,
    pub leader_epoch: i32,
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
}

impl NewTopic {
    /// As a line of CreateTopics.
    pub(super) fn to_wire(&self) -> create_topics::Topic<'_> {
        let configs: Array<'_, _> = self
            .configs
            .iter()
            .map(|(name, value)| create_topics::Config { name, value: Some(value) })
            .collect();
        create_topics::Topic {
            name: &self.name,
            num_partitions: self.partitions,
            replication_factor: self.replication_factor,
            configs,
            ..Default::default()
        }
    }
}

pub(super) fn topic_info(topic: metadata::Topic<'_>) -> TopicInfo {
    let mut partitions: Vec<PartitionInfo> = topic
        .partitions
        .iter()
        .map(|p| PartitionInfo {
            index: p.partition_index,
            error: p.error_code,
            leader: p.leader_id,
            leader_epoch: p.leader_epoch,
            replicas: p.replica_nodes.iter().collect(),
            isr: p.isr_nodes.iter().collect(),
        })
        .collect();
    partitions.sort_by_key(|p| p.index);
    TopicInfo {
        name: topic.name.unwrap_or_default().to_string(),
        id: topic.topic_id,
        error: topic.error_code,
        internal: topic.is_internal,
        partitions,
    }
}
