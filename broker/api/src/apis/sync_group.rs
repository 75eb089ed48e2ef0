//! SyncGroup, key 14, served 0-5: the leader brings the assignment, everybody waits for a part of it.

use rillway_group::{Fence, Sync};
use rillway_wire::ErrorCode;
use rillway_wire::api::sync_group::{Request as Body, Response};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let sync = Sync {
        group: body.group_id.to_owned(),
        fence: Fence {
            member: body.member_id.to_owned(),
            instance: body.group_instance_id.map(str::to_owned),
            generation: body.generation_id,
        },
        protocol_type: body.protocol_type.map(str::to_owned),
        protocol_name: body.protocol_name.map(str::to_owned),
        assignments: body
            .assignments
            .iter()
            .map(|a| (a.member_id.to_owned(), a.assignment.to_vec()))
            .collect(),
    };
    // Nullable on the wire, and yet to be there, since version 5 is for comparing them (KIP-559).
    let named = body.protocol_type.is_some() && body.protocol_name.is_some();
    later(async move {
        if request.version >= 5 && !named {
            let error_code = ErrorCode::InconsistentGroupProtocol;
            return list(&request, &Response { error_code, ..Default::default() });
        }
        match request.context.shard().sync_group(sync).await {
            Ok(synced) => {
                let response = Response {
                    protocol_type: Some(&synced.protocol_type),
                    protocol_name: Some(&synced.protocol_name),
                    assignment: &synced.assignment,
                    ..Default::default()
                };
                list(&request, &response)
            }
            Err(e) => {
                let error_code = error_codes::coordinator(&e);
                list(&request, &Response { error_code, ..Default::default() })
            }
        }
    })
}
