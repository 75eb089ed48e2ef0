//! ListConfigResources, key 74, served 0-1: what has a configuration (KIP-714, KIP-1142).
//!
//! - Topics and the nodes of this host. Groups, subscriptions to metrics and loggers have no settings here, so there are
//!   none of them.
//! - Version 0 asks for subscriptions to metrics only. A type that no version knows is UNSUPPORTED_VERSION, as in Kafka.

use rillway_wire::ErrorCode;
use rillway_wire::api::describe_configs::{BROKER, TOPIC};
use rillway_wire::api::list_config_resources::{
    CLIENT_METRICS, ConfigResource, GROUP, Request as Body, Response,
};

use crate::apis::ready;
use crate::connection::{Answer, Close};
use crate::context::Request;

/// `resource_type` of a broker's loggers.
const BROKER_LOGGER: i8 = 8;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let all: &[i8] = match request.version {
        0 => &[CLIENT_METRICS],
        _ => &[TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP],
    };
    let asked: Vec<i8> = body.resource_types.iter().collect();
    if asked.iter().any(|t| !all.contains(t)) {
        let error_code = ErrorCode::UnsupportedVersion;
        return ready(&request, &Response { error_code, ..Default::default() });
    }
    let wants = |t: i8| all.contains(&t) && (asked.is_empty() || asked.contains(&t));
    let view = request.context.shard().view();
    let nodes = request.context.nodes().advertised(request.door, request.local);
    let ids: Vec<String> = nodes.iter().map(|n| n.id.to_string()).collect();
    let topics = view
        .image
        .created()
        .filter(|_| wants(TOPIC))
        .map(|t| ConfigResource { resource_name: &t.name, resource_type: TOPIC });
    let brokers = ids
        .iter()
        .filter(|_| wants(BROKER))
        .map(|id| ConfigResource { resource_name: id, resource_type: BROKER });
    let config_resources = topics.chain(brokers).collect();
    ready(&request, &Response { config_resources, ..Default::default() })
}
