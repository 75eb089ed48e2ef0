//! ListGroups, key 16, served 0-5: the groups that this node coordinates, by state and type if asked. Clients ask every
//! node.

use rillway_wire::ErrorCode;
use rillway_wire::api::list_groups::{Group, Request as Body, Response};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let lower = |s: &str| s.to_ascii_lowercase();
    let states: Vec<String> = body.states_filter.iter().map(lower).collect();
    let types: Vec<String> = body.types_filter.iter().map(lower).collect();
    later(async move {
        let shard = request.context.shard();
        let shown = request.context.nodes().shown;
        // Cores beyond the nodes that are shown are folded onto them.
        let cores = (0..shard.cores()).filter(|core| core % shown == shard.core() % shown);
        let listed = shard.list_groups(cores).await;
        let error_code = listed.as_ref().err().map_or(ErrorCode::None, error_codes::coordinator);
        let wanted = |words: &[String], word: &str| {
            words.is_empty() || words.contains(&word.to_ascii_lowercase())
        };
        let listed = listed.unwrap_or_default();
        let groups = listed
            .iter()
            .filter(|g| wanted(&states, g.phase.name()) && wanted(&types, CLASSIC))
            .map(|g| Group {
                group_id: &g.group,
                protocol_type: &g.protocol_type,
                group_state: g.phase.name(),
                group_type: CLASSIC,
            });
        list(&request, &Response { error_code, groups: groups.collect(), ..Default::default() })
    })
}

/// Kafka's name of the type of all groups that there are here.
const CLASSIC: &str = "classic";
