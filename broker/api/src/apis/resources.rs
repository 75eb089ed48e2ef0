//! What AlterConfigs and IncrementalAlterConfigs have in common: resources, what may be altered of them, and the answer
//! for each. A resource that comes twice is refused, all of it, and the others are altered.

use std::collections::BTreeSet;

use rillway_shard::TopicAlteration;
use rillway_wire::api::describe_configs::{BROKER, TOPIC};
use rillway_wire::{ErrorCode, TopicName};

use crate::context::Request;
use crate::error_codes;

/// Why not: a code and a sentence.
pub(super) type Refusal = (ErrorCode, String);

/// One resource and what is to become of it.
pub(super) struct Altering {
    pub resource_type: i8,
    pub name: String,
    pub alteration: Result<TopicAlteration, Refusal>,
}

/// An INVALID_REQUEST.
pub(super) fn invalid_request<T>(why: impl Into<String>) -> Result<T, Refusal> {
    Err((ErrorCode::InvalidRequest, why.into()))
}

/// Refuses keys that come twice; Kafka does.
pub(super) fn once<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    match names.find(|name| !seen.insert(*name)) {
        Some(name) => invalid_request(format!("Error due to duplicate config keys: {name}")),
        None => Ok(()),
    }
}

/// Alters one after the other; what became of each.
pub(super) async fn alter_all(
    request: &Request,
    resources: Vec<Altering>,
    validate_only: bool,
) -> Vec<(i8, String, Result<(), Refusal>)> {
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<(i8, String)> = resources
        .iter()
        .map(|r| (r.resource_type, r.name.clone()))
        .filter(|key| !seen.insert(key.clone()))
        .collect();
    let mut out: Vec<(i8, String, Result<(), Refusal>)> = Vec::new();
    for Altering { resource_type, name, alteration } in resources {
        let done = match (resource_type, alteration) {
            _ if twice.contains(&(resource_type, name.clone())) => {
                invalid_request("Each resource must appear at most once.")
            }
            (_, Err(refusal)) => Err(refusal),
            (TOPIC, Ok(_)) if name.is_empty() => {
                invalid_request("The default topic resource cannot be altered.")
            }
            (TOPIC, Ok(alteration)) => {
                let shard = request.context.shard();
                match TopicName::new(&name) {
                    Err(e) => Err((ErrorCode::InvalidTopicException, e.to_string())),
                    Ok(_) => {
                        let altered = shard.alter_topic(&name, alteration, validate_only).await;
                        altered.map_err(|e| (error_codes::topic(&e), e.to_string()))
                    }
                }
            }
            (BROKER, Ok(_)) => invalid_request(
                "The broker's settings are read when it starts: change its configuration file and restart it",
            ),
            (other, Ok(_)) => invalid_request(format!(
                "Unsupported resource type {other}: only topics (2) can be altered"
            )),
        };
        out.push((resource_type, name, done));
    }
    out
}
