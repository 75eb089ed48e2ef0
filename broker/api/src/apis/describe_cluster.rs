//! DescribeCluster, key 60, served 0-1 (KIP-700): the nodes and the controller. Version 1 may ask for the controllers
//! of a KRaft quorum (KIP-919); a broker answers MISMATCHED_ENDPOINT_TYPE, and UNSUPPORTED_ENDPOINT_TYPE to what is
//! neither.

use rillway_wire::ErrorCode;
use rillway_wire::api::describe_cluster::{
    BROKERS, Broker, CONTROLLERS, Request as Body, Response,
};

use crate::apis::{CLUSTER_OPERATIONS, ready};
use crate::connection::{Answer, Close};
use crate::context::Request;

pub(crate) async fn handle(request: Request, body: &Body) -> Result<Answer, Close> {
    let nodes = request.context.nodes();
    let refused = match body.endpoint_type {
        BROKERS => None,
        CONTROLLERS => Some((ErrorCode::MismatchedEndpointType, "this is a broker endpoint")),
        _ => Some((ErrorCode::UnsupportedEndpointType, "endpoint type must be 1 or 2")),
    };
    if let Some((error_code, why)) = refused {
        let response = Response { error_code, error_message: Some(why), ..Default::default() };
        return ready(&request, &response);
    }
    let shown = nodes.advertised(request.door, request.local);
    let brokers = shown.iter().map(|n| Broker {
        broker_id: n.id,
        host: &n.host,
        port: n.port,
        ..Default::default()
    });
    let response = Response {
        cluster_id: &nodes.cluster_id,
        controller_id: nodes.controller(),
        brokers: brokers.collect(),
        cluster_authorized_operations: if body.include_cluster_authorized_operations {
            CLUSTER_OPERATIONS
        } else {
            i32::MIN
        },
        ..Default::default()
    };
    ready(&request, &response)
}
