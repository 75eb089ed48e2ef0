//! DescribeCluster and FindCoordinator: who there is.

use rillway_wire::ApiKey;
use rillway_wire::api::{describe_cluster, find_coordinator};

use super::{Case, case, case_from};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case(ApiKey::DescribeCluster, "the brokers, with and without operations", brokers),
    case_from(ApiKey::DescribeCluster, 1, "controllers, and what is neither", endpoint_types),
    case(ApiKey::FindCoordinator, "of a group", group),
    case_from(
        ApiKey::FindCoordinator,
        1,
        "of a transactional id, and of what there is not",
        others,
    ),
];

fn brokers(peer: &mut Peer, version: i16) {
    let request = describe_cluster::Request::default();
    peer.call("brokers", &request, version);
    let request =
        describe_cluster::Request { include_cluster_authorized_operations: true, ..request };
    peer.call("with operations", &request, version);
}

fn endpoint_types(peer: &mut Peer, version: i16) {
    for endpoint_type in [2, 0, 3] {
        let request = describe_cluster::Request { endpoint_type, ..Default::default() };
        peer.call(&format!("type {endpoint_type}"), &request, version);
    }
}

fn find(peer: &mut Peer, step: &str, key: &'static str, key_type: i8, version: i16) {
    let keys = if version >= 4 { vec![key] } else { vec![] };
    let request = find_coordinator::Request { key, key_type, coordinator_keys: keys.into() };
    peer.call(step, &request, version);
}

fn group(peer: &mut Peer, version: i16) {
    let group = peer.name("group");
    find(peer, "a group", group, 0, version);
    find(peer, "without a name", "", 0, version);
}

fn others(peer: &mut Peer, version: i16) {
    let id = peer.name("id");
    find(peer, "a transactional id", id, 1, version);
    find(peer, "no such type", id, 9, version);
}
