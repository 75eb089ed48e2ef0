//! DeleteGroups, key 42, served 0-2: a group without members, with everything that it has committed.

use std::collections::BTreeSet;

use rillway_wire::ErrorCode;
use rillway_wire::api::delete_groups::{GroupResponse, Request as Body, Response};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    // A name that is given twice is answered once, as in Kafka.
    let mut seen = BTreeSet::new();
    let names = body.groups_names.iter().filter(|name| seen.insert(*name));
    let names: Vec<String> = names.map(str::to_owned).collect();
    later(async move {
        let deleted = request.context.shard().delete_groups(&names).await;
        let results = names.iter().zip(deleted).map(|(group_id, done)| GroupResponse {
            group_id,
            error_code: done.err().map_or(ErrorCode::None, |e| error_codes::coordinator(&e)),
        });
        list(&request, &Response { results: results.collect(), ..Default::default() })
    })
}
