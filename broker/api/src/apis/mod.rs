//! One file per Kafka API. Each decodes into what the shard understands, and encodes what the shard says.

pub(crate) mod alter_configs;
pub(crate) mod api_versions;
pub(crate) mod create_partitions;
pub(crate) mod create_topics;
pub(crate) mod delete_groups;
pub(crate) mod delete_records;
pub(crate) mod delete_topics;
pub(crate) mod describe_cluster;
pub(crate) mod describe_configs;
pub(crate) mod describe_groups;
pub(crate) mod describe_log_dirs;
pub(crate) mod describe_topic_partitions;
pub(crate) mod fetch;
pub(crate) mod find_coordinator;
pub(crate) mod group_report;
pub(crate) mod heartbeat;
pub(crate) mod incremental_alter_configs;
pub(crate) mod init_producer_id;
pub(crate) mod join_group;
pub(crate) mod leave_group;
pub(crate) mod list_config_resources;
pub(crate) mod list_groups;
pub(crate) mod list_offsets;
pub(crate) mod metadata;
pub(crate) mod offset_commit;
pub(crate) mod offset_delete;
pub(crate) mod offset_fetch;
pub(crate) mod offset_for_leader_epoch;
pub(crate) mod produce;
pub(crate) mod sync_group;

mod assignments;
mod leaders;
mod resources;

use std::future::Future;

use rillway_io::IoList;
use rillway_wire::ResponseMessage;

use crate::connection::{Answer, Close};
use crate::context::Request;

/// What a client may do to the cluster, as bits by ACL operation: all of it, while there is no authorization. Create,
/// alter, describe, cluster action, describe and alter configs, idempotent write.
const CLUSTER_OPERATIONS: i32 = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;
/// The same for a topic: read, write, create, delete, alter, describe, describe and alter configs.
const TOPIC_OPERATIONS: i32 =
    1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11;

/// The same for a group: read, delete, describe, describe and alter configs.
const GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

/// A response without records, as bytes to send.
fn list<'a>(
    request: &Request,
    response: &impl ResponseMessage<'a>,
) -> Result<Option<IoList>, Close> {
    let frame = response.response_frame(request.version, request.correlation_id);
    let bytes = frame.into_bytes().map_err(|_| Close("a response with holes".to_owned()))?;
    let mut list = IoList::new();
    list.push_bytes(bytes);
    Ok(Some(list))
}

/// An answer that is there already.
fn ready<'a>(request: &Request, response: &impl ResponseMessage<'a>) -> Result<Answer, Close> {
    let list = list(request, response);
    Ok(Box::pin(std::future::ready(list)))
}

/// An answer that is worked out when its turn comes.
fn later(
    work: impl Future<Output = Result<Option<IoList>, Close>> + 'static,
) -> Result<Answer, Close> {
    Ok(Box::pin(work))
}
