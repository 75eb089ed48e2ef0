//! JoinGroup, key 11, served 0-9: a member comes, or comes again because the group rebalances. Answered when all have
//! come or the rebalance timeout is over.

use rillway_group::{GroupError, Join, Joined, Protocol};
use rillway_shard::CoordinatorError;
use rillway_wire::Uuid;
use rillway_wire::api::join_group::{Member, Request as Body, Response};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

pub(crate) async fn handle(
    request: Request,
    body: &Body<'_>,
    client_id: Option<&str>,
) -> Result<Answer, Close> {
    let client_id = client_id.unwrap_or_default();
    let unique = Uuid(request.context.shard().runtime().random_bytes::<16>());
    let join = Join {
        group: body.group_id.to_owned(),
        member: body.member_id.to_owned(),
        instance: body.group_instance_id.map(str::to_owned),
        new_member: format!("{}-{}", body.group_instance_id.unwrap_or(client_id), dashed(unique)),
        client_id: client_id.to_owned(),
        client_host: format!("/{}", request.peer.ip().to_canonical()),
        protocol_type: body.protocol_type.to_owned(),
        protocols: body
            .protocols
            .iter()
            .map(|p| Protocol { name: p.name.to_owned(), metadata: p.metadata.to_vec() })
            .collect(),
        session_timeout_ms: body.session_timeout_ms,
        rebalance_timeout_ms: if request.version == 0 {
            body.session_timeout_ms
        } else {
            body.rebalance_timeout_ms
        },
        id_required: request.version >= 4 && body.group_instance_id.is_none(),
        skip_assignment: request.version >= 9,
        reason: body.reason.map(str::to_owned),
    };
    later(async move {
        let member = join.member.clone();
        match request.context.shard().join_group(join).await {
            Ok(joined) => list(&request, &answer(&joined)),
            Err(e) => {
                // The id that a new member is to come again with.
                let member_id = match &e {
                    CoordinatorError::Group(GroupError::MemberIdRequired(id)) => id,
                    _ => &member,
                };
                let refused = Response {
                    error_code: error_codes::coordinator(&e),
                    protocol_name: no_name(&request),
                    member_id,
                    ..Default::default()
                };
                list(&request, &refused)
            }
        }
    })
}

/// The name of no protocol: null where it may be (from version 7 on).
fn no_name(request: &Request) -> Option<&'static str> {
    if request.version >= 7 { None } else { Some("") }
}

fn answer(joined: &Joined) -> Response<'_> {
    let members = joined.members.iter().map(|m| Member {
        member_id: &m.member,
        group_instance_id: m.instance.as_deref(),
        metadata: &m.metadata,
    });
    Response {
        generation_id: joined.generation,
        protocol_type: Some(&joined.protocol_type),
        protocol_name: Some(&joined.protocol_name),
        leader: &joined.leader,
        skip_assignment: joined.skip_assignment,
        member_id: &joined.member,
        members: members.collect(),
        ..Default::default()
    }
}

/// As Java writes a UUID, version 4: what people expect behind a member's client id.
fn dashed(mut id: Uuid) -> String {
    id.0[6] = id.0[6] & 0x0f | 0x40;
    id.0[8] = id.0[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (i, byte) in id.0.iter().enumerate() {
        if [4, 6, 8, 10].contains(&i) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}
