//! DeleteGroups, key 42, served 0-2: a group without members, with everything that it has committed.

use std::collections::BTreeSet;

use rillway_io::join_all;
use rillway_wire::ErrorCode;
use rillway_wire::api::delete_groups::{GroupResponse, Request as Body, Response};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

/// Groups that are deleted at a time, so that they share flushes: 1,500 one by one took 5.4 s.
const TOGETHER: usize = 100;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    // A name that is given twice is answered once, as in Kafka.
    let mut names: Vec<String> = Vec::new();
    let mut seen = BTreeSet::new();
    for name in body.groups_names.iter().filter(|name| seen.insert(*name)) {
        names.push(name.to_owned());
    }
    later(async move {
        let shard = request.context.shard();
        let mut deleted = Vec::new();
        for together in names.chunks(TOGETHER) {
            let all = together.iter().map(|name| async move {
                let done = shard.delete_group(name).await;
                (name, done.err().map_or(ErrorCode::None, |e| error_codes::coordinator(&e)))
            });
            deleted.extend(join_all(all).await);
        }
        let results = deleted
            .iter()
            .map(|(group_id, error_code)| GroupResponse { group_id, error_code: *error_code });
        list(&request, &Response { results: results.collect(), ..Default::default() })
    })
}
