//! Heartbeat, key 12, served 0-4: a member is alive, and learns whether the group rebalances.

use rillway_group::{Fence, Heartbeat};
use rillway_wire::ErrorCode;
use rillway_wire::api::heartbeat::{Request as Body, Response};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let beat = Heartbeat {
        group: body.group_id.to_owned(),
        fence: Fence {
            member: body.member_id.to_owned(),
            instance: body.group_instance_id.map(str::to_owned),
            generation: body.generation_id,
        },
    };
    later(async move {
        let alive = request.context.shard().heartbeat(beat).await;
        let error_code = alive.err().map_or(ErrorCode::None, |e| error_codes::coordinator(&e));
        list(&request, &Response { error_code, ..Default::default() })
    })
}
