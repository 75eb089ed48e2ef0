//! LeaveGroup, key 13, served 0-5: one member leaves, or from version 3 on several are removed (KIP-345).

use rillway_group::{GroupError, Leave, Leaving};
use rillway_shard::CoordinatorError;
use rillway_wire::ErrorCode;
use rillway_wire::api::leave_group::{MemberResponse, Request as Body, Response};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let members = if request.version < 3 {
        vec![Leaving { member: body.member_id.to_owned(), instance: None, reason: None }]
    } else {
        let several = body.members.iter().map(|m| Leaving {
            member: m.member_id.to_owned(),
            instance: m.group_instance_id.map(str::to_owned),
            reason: m.reason.map(str::to_owned),
        });
        several.collect()
    };
    let leave = Leave { group: body.group_id.to_owned(), members };
    later(async move {
        let left = request.context.shard().leave_group(leave.clone()).await;
        let error_code = match &left {
            // One member: its own error is the answer's.
            Ok(left) if request.version < 3 => left.first().map_or(ErrorCode::None, code),
            Ok(_) => ErrorCode::None,
            Err(e) => error_codes::coordinator(e),
        };
        let left = left.unwrap_or_default();
        let members = leave.members.iter().zip(&left).map(|(member, left)| MemberResponse {
            member_id: &member.member,
            group_instance_id: member.instance.as_deref(),
            error_code: code(left),
        });
        list(&request, &Response { error_code, members: members.collect(), ..Default::default() })
    })
}

fn code(left: &Result<(), GroupError>) -> ErrorCode {
    match left {
        Ok(()) => ErrorCode::None,
        Err(e) => error_codes::coordinator(&CoordinatorError::Group(e.clone())),
    }
}
