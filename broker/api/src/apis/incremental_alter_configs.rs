//! IncrementalAlterConfigs, key 44, served 0-1 (KIP-339): sets, deletes, appends to and subtracts from single settings of
//! a topic. The changes to one topic happen all or none; a broker's settings are read-only.

use rillway_shard::{ConfigChange, ConfigOperation, TopicAlteration};
use rillway_wire::ErrorCode;
use rillway_wire::api::incremental_alter_configs::{
    APPEND, DELETE, Request as Body, Resource, ResourceResponse, Response, SET, SUBTRACT,
};

use crate::apis::resources::{Altering, Refusal, alter_all, invalid_request, once};
use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let asked = body.resources.iter().map(|r| Altering {
        resource_type: r.resource_type,
        name: r.resource_name.to_owned(),
        alteration: changes(&r),
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

fn changes(resource: &Resource<'_>) -> Result<TopicAlteration, Refusal> {
    once(resource.configs.iter().map(|c| c.name))?;
    let mut changes = Vec::new();
    for config in &resource.configs {
        let operation = match config.config_operation {
            SET => ConfigOperation::Set,
            DELETE => ConfigOperation::Delete,
            APPEND => ConfigOperation::Append,
            SUBTRACT => ConfigOperation::Subtract,
            other => return invalid_request(format!("Unknown operation type {other}")),
        };
        let value = match (operation, config.value) {
            (ConfigOperation::Delete, value) => value.unwrap_or_default(),
            (_, Some(value)) => value,
            (_, None) => {
                return invalid_request(format!("Null value not supported for: {}", config.name));
            }
        };
        changes.push(ConfigChange {
            name: config.name.to_owned(),
            operation,
            value: value.to_owned(),
        });
    }
    Ok(TopicAlteration::Change(changes))
}
