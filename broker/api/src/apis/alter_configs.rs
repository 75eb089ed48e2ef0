//! AlterConfigs, key 33, served 0-2 (KIP-133): replaces all settings of a topic. What is not named goes back to its
//! default. A topic's alteration happens whole or not at all; a broker's settings are read-only.

use std::collections::BTreeMap;

use rillway_shard::TopicAlteration;
use rillway_wire::ErrorCode;
use rillway_wire::api::alter_configs::{Request as Body, Resource, ResourceResponse, Response};

use crate::apis::resources::{Altering, Refusal, alter_all, invalid_request, once};
use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let asked = body.resources.iter().map(|r| Altering {
        resource_type: r.resource_type,
        name: r.resource_name.to_owned(),
        alteration: replacement(&r),
    });
    let (asked, validate_only) = (asked.collect(), body.validate_only);
    later(async move {
        let done = alter_all(&request, asked, validate_only).await;
        let responses = done.iter().map(|(resource_type, name, done)| ResourceResponse {
            resource_type: *resource_type,
            resource_name: name,
            error_code: done.as_ref().err().map_or(ErrorCode::None, |(code, _)| *code),
            error_message: done.as_ref().err().map(|(_, why)| why.as_str()),
        });
        list(&request, &Response { responses: responses.collect(), ..Default::default() })
    })
}

fn replacement(resource: &Resource<'_>) -> Result<TopicAlteration, Refusal> {
    once(resource.configs.iter().map(|c| c.name))?;
    let mut configs = BTreeMap::new();
    for config in &resource.configs {
        let Some(value) = config.value else {
            return invalid_request(format!("Null value not supported for: {}", config.name));
        };
        configs.insert(config.name.to_owned(), value.to_owned());
    }
    Ok(TopicAlteration::Replace(configs))
}
