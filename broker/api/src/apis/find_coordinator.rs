//! FindCoordinator, key 10, served 0-6: the node of the core that leads the group's partition of `__consumer_offsets`,
//! which is created for the first group.
//!
//! Transactions have no coordinator here (fatal at once; UNSUPPORTED_VERSION makes Java and librdkafka wait for their
//! timeout). librdkafka (2.0.2 and 2.16 alike) turns lz4 off, in silence, when the advertised ranges lack version 0.

use rillway_wire::ErrorCode;
use rillway_wire::api::find_coordinator::{
    Coordinator, GROUP, Request as Body, Response, TRANSACTION,
};

use crate::advertise::Advertised;
use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

type Found = Result<Advertised, (ErrorCode, String)>;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    // From version 4 on keys come in a list and so do the answers (KIP-699).
    let keys: Vec<String> = if request.version < 4 {
        vec![body.key.to_owned()]
    } else {
        body.coordinator_keys.iter().map(str::to_owned).collect()
    };
    let key_type = body.key_type;
    later(async move {
        let mut found = Vec::new();
        for key in keys {
            let coordinator = find(&request, key_type, &key).await;
            found.push((key, coordinator));
        }
        let one = found.first().filter(|_| request.version < 4).map(|(key, f)| answer(key, f));
        let one = one.unwrap_or_default();
        let all = found.iter().map(|(key, found)| answer(key, found));
        let response = Response {
            error_code: one.error_code,
            error_message: one.error_message,
            node_id: one.node_id,
            host: one.host,
            port: one.port,
            coordinators: all.collect(),
            ..Default::default()
        };
        list(&request, &response)
    })
}

async fn find(request: &Request, key_type: i8, key: &str) -> Found {
    match key_type {
        GROUP => {}
        TRANSACTION => {
            let why = "transactions are not served by this broker";
            return Err((ErrorCode::TransactionalIdAuthorizationFailed, why.to_owned()));
        }
        _ => {
            let why = "coordinators are of groups (0) and transactions (1)";
            return Err((ErrorCode::InvalidRequest, why.to_owned()));
        }
    }
    let core = request
        .context
        .shard()
        .find_coordinator(key)
        .await
        .map_err(|e| (error_codes::coordinator(&e), e.to_string()))?;
    let nodes = request.context.nodes();
    let id = nodes.id(core);
    let all = nodes.advertised(request.door, request.local);
    Ok(all.into_iter().find(|n| n.id == id).expect("every core is one of the nodes that are shown"))
}

fn answer<'a>(key: &'a str, found: &'a Found) -> Coordinator<'a> {
    match found {
        Ok(node) => Coordinator {
            key,
            node_id: node.id,
            host: &node.host,
            port: node.port,
            error_message: Some(""),
            ..Default::default()
        },
        Err((error_code, why)) => Coordinator {
            key,
            node_id: -1,
            port: -1,
            error_code: *error_code,
            error_message: Some(why),
            ..Default::default()
        },
    }
}
