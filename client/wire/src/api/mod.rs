//! One table per Kafka API: what stands in its request and its response, in which versions.
//!
//! [`crate::codec`]'s `table` explains how to read them. Names are Kafka's, in snake case. An error of a response is
//! an [`ErrorCode`](crate::ErrorCode), a time in milliseconds ends in `_ms`, a node id is an `i32`.
//!
//! The ranges say what can be encoded and decoded. What a broker serves is decided there, API by API, when the
//! behaviour is there too.

pub mod alter_configs;
pub mod api_versions;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_groups;
pub mod delete_records;
pub mod delete_topics;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_groups;
pub mod describe_log_dirs;
pub mod describe_topic_partitions;
pub mod fetch;
pub mod find_coordinator;
pub mod group_report;
pub mod heartbeat;
pub mod incremental_alter_configs;
pub mod init_producer_id;
pub mod join_group;
pub mod leave_group;
pub mod list_config_resources;
pub mod list_groups;
pub mod list_offsets;
pub mod metadata;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
pub mod produce;
pub mod sync_group;
