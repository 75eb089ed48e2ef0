//! DescribeGroups, key 15, served 0-6: state, protocol and members. A group that does not exist is Dead without an
//! error, and from version 6 on GROUP_ID_NOT_FOUND (KIP-1043).

use rillway_group::Described;
use rillway_shard::CoordinatorError;
use rillway_wire::ErrorCode;
use rillway_wire::api::describe_groups::{Group, Member, Request as Body, Response};

use crate::apis::{GROUP_OPERATIONS, later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

type Found = Result<Option<Described>, CoordinatorError>;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let names: Vec<String> = body.groups.iter().map(str::to_owned).collect();
    let operations = if body.include_authorized_operations { GROUP_OPERATIONS } else { i32::MIN };
    later(async move {
        let mut found = Vec::new();
        for name in names {
            let described = request.context.shard().describe_group(&name).await;
            found.push((name, described));
        }
        let not_found: Vec<String> =
            found.iter().map(|(name, _)| format!("Group {name} not found.")).collect();
        let groups = found
            .iter()
            .zip(&not_found)
            .map(|((name, found), not_found)| group(&request, name, found, operations, not_found));
        list(&request, &Response { groups: groups.collect(), ..Default::default() })
    })
}

fn group<'a>(
    request: &Request,
    group_id: &'a str,
    found: &'a Found,
    authorized_operations: i32,
    not_found: &'a str,
) -> Group<'a> {
    match found {
        Ok(Some(d)) => Group {
            group_id,
            group_state: d.phase.name(),
            protocol_type: &d.protocol_type,
            protocol_data: &d.protocol,
            members: d
                .members
                .iter()
                .map(|m| Member {
                    member_id: &m.member,
                    group_instance_id: m.instance.as_deref(),
                    client_id: &m.client_id,
                    client_host: &m.client_host,
                    member_metadata: &m.metadata,
                    member_assignment: &m.assignment,
                })
                .collect(),
            authorized_operations,
            ..Default::default()
        },
        Ok(None) if request.version >= 6 => Group {
            group_id,
            group_state: "Dead",
            error_code: ErrorCode::GroupIdNotFound,
            error_message: Some(not_found),
            ..Default::default()
        },
        Ok(None) => {
            Group { group_id, group_state: "Dead", authorized_operations, ..Default::default() }
        }
        Err(e) => Group { group_id, error_code: error_codes::coordinator(e), ..Default::default() },
    }
}
