//! DeleteGroups, key 42, served 0-2: a group without members, with everything that it has committed.

use rillway_wire::ErrorCode;
use rillway_wire::api::delete_groups::{GroupResponse, Request as Body, Response};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let names: Vec<String> = body.groups_names.iter().map(str::to_owned).collect();
    later(async move {
        let mut deleted = Vec::new();
        for name in names {
            let done = request.context.shard().delete_group(&name).await;
            let code = done.err().map_or(ErrorCode::None, |e| error_codes::coordinator(&e));
            deleted.push((name, code));
        }
        let results = deleted
            .iter()
            .map(|(group_id, error_code)| GroupResponse { group_id, error_code: *error_code });
        list(&request, &Response { results: results.collect(), ..Default::default() })
    })
}
