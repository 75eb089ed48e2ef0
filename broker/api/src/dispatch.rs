//! From a frame to its API. What is not served closes the connection, as Kafka does; ApiVersions alone answers any
//! version.

use rillway_wire::{ApiKey, Message, RequestHeader};

use crate::apis;
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::versions;

/// Decodes the request, gives it its place in the order, and returns the answer to wait for.
pub(crate) async fn dispatch(request: Request, key: i16, content: &[u8]) -> Result<Answer, Close> {
    let version = request.version;
    let Some(served) = versions::find(key, version) else {
        if key == ApiKey::ApiVersions.code() {
            return Ok(apis::api_versions::unsupported(request));
        }
        return Err(Close(format!("API key {key} version {version} is not served")));
    };
    let (header, body) = RequestHeader::decode(content).map_err(|e| Close(e.to_string()))?;
    macro_rules! handle {
        ($api:ident) => {{
            let body = rillway_wire::api::$api::Request::decode_body(body, version)
                .map_err(|e| Close(e.to_string()))?;
            apis::$api::handle(request, &body).await
        }};
    }
    match served.api {
        ApiKey::Produce => handle!(produce),
        ApiKey::Fetch => handle!(fetch),
        ApiKey::ListOffsets => handle!(list_offsets),
        ApiKey::Metadata => handle!(metadata),
        ApiKey::OffsetCommit => handle!(offset_commit),
        ApiKey::OffsetFetch => handle!(offset_fetch),
        ApiKey::FindCoordinator => handle!(find_coordinator),
        ApiKey::JoinGroup => {
            let body = rillway_wire::api::join_group::Request::decode_body(body, version)
                .map_err(|e| Close(e.to_string()))?;
            apis::join_group::handle(request, &body, header.client_id).await
        }
        ApiKey::Heartbeat => handle!(heartbeat),
        ApiKey::LeaveGroup => handle!(leave_group),
        ApiKey::SyncGroup => handle!(sync_group),
        ApiKey::DescribeGroups => handle!(describe_groups),
        ApiKey::ListGroups => handle!(list_groups),
        ApiKey::ApiVersions => handle!(api_versions),
        ApiKey::CreateTopics => handle!(create_topics),
        ApiKey::DeleteTopics => handle!(delete_topics),
        ApiKey::InitProducerId => handle!(init_producer_id),
        ApiKey::OffsetForLeaderEpoch => handle!(offset_for_leader_epoch),
        ApiKey::DescribeConfigs => handle!(describe_configs),
        ApiKey::AlterConfigs => handle!(alter_configs),
        ApiKey::CreatePartitions => handle!(create_partitions),
        ApiKey::DeleteGroups => handle!(delete_groups),
        ApiKey::OffsetDelete => handle!(offset_delete),
        ApiKey::IncrementalAlterConfigs => handle!(incremental_alter_configs),
        ApiKey::DescribeCluster => handle!(describe_cluster),
        ApiKey::GroupReport => handle!(group_report),
        ApiKey::DeleteRecords => handle!(delete_records),
        ApiKey::DescribeTopicPartitions => handle!(describe_topic_partitions),
        ApiKey::DescribeLogDirs => handle!(describe_log_dirs),
        ApiKey::ListConfigResources => handle!(list_config_resources),
        other => Err(Close(format!("{other} is in the table of served APIs and has no handler"))),
    }
}
