//! One core: the partitions that it owns, and the doors to the cores that own the others.
//!
//! Only this crate knows how many cores there are. Reading order: `view` (what exists and who owns it), `mesh` (how a
//! request reaches another core), `shard`, then what a client can ask of partitions: `produce`, `fetch`, `offsets`;
//! of groups: `groups`; and of the cluster: `topics`, `grow` and `alter`, which run on core 0, the controller.
//!
//! Absent on purpose: Kafka's wire format and its versions, sockets, files.

mod config;
mod error;
mod view;

mod mesh;
mod shard;
mod start;

mod delete_records;
mod fetch;
mod log_dirs;
mod offsets;
mod partition;
mod produce;

mod groups;

mod alter;
mod grow;
mod producer_ids;
mod topics;

pub use config::{
    ConfigChange, ConfigOperation, ConfigType, Defaults, TOPIC_CONFIGS, TopicAlteration,
    TopicConfig, TopicSettings, topic_config_document,
};
pub use error::{CoordinatorError, PartitionError, TopicError};
pub use fetch::{FetchPartition, FetchSpec, Fetched, FetchedPartition, FetchedRecords};
pub use groups::{
    CommittedOffset, GroupReport, GroupSettings, OFFSETS_TOPIC, OffsetToCommit, PartitionLag,
};
pub use grow::Growth;
pub use log_dirs::{PartitionSize, Volume};
pub use mesh::{Mesh, Port, mesh};
pub use offsets::{OffsetAnswer, OffsetQuery};
pub use produce::{Produced, Producing};
pub use rillway_io::Chunk;
pub use rillway_log::{PartitionId, TopicId, UNPACKED_BYTES_MAX};
pub use rillway_meta::{Image, Topic, TopicState};
pub use shard::{Shard, ShardOptions};
pub use start::{Start, start};
pub use topics::{CreatedTopic, NewTopic};
pub use view::{Owner, View, partition_of};
