//! CreateTopics, key 19, served 2-7.
//!
//! - From version 4 on, -1 stands for the broker's defaults (KIP-464); we take it in every version.
//! - From version 5 on the answer has the real counts and all effective settings (KIP-525); from 7 the topic id.
//! - A name that comes twice in one request is refused, all of it, with INVALID_REQUEST, and the others are created.
//! - A manual assignment that names two nodes of one host is INVALID_REPLICA_ASSIGNMENT: cores are not replicas.
//! - A topic is shown by every core before it is answered.

use std::collections::{BTreeMap, BTreeSet};

use rillway_shard::{CreatedTopic, NewTopic, TOPIC_CONFIGS, TopicError};
use rillway_wire::api::create_topics::{
    ConfigResponse, Request as Body, Response, Topic, TopicResponse,
};
use rillway_wire::{ErrorCode, Uuid};

use crate::apis::assignments::on_one_host;
use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let mut seen = BTreeSet::new();
    let mut twice = BTreeSet::new();
    for topic in &body.topics {
        if !seen.insert(topic.name.to_owned()) {
            twice.insert(topic.name.to_owned());
        }
    }
    let mut asked = Vec::new();
    for topic in &body.topics {
        if !twice.contains(topic.name) {
            asked.push((topic.name.to_owned(), new_topic(&request, &topic)));
        }
    }
    let validate_only = body.validate_only;
    later(async move {
        let mut done = Vec::new();
        for (name, new) in asked {
            let created = match new {
                Ok(new) => request.context.shard().create_topic(new, validate_only).await,
                Err(e) => Err(e),
            };
            done.push((name, created.map_err(|e| (error_codes::topic(&e), e.to_string()))));
        }
        for name in twice {
            let why = "the topic is named more than once in the request".to_owned();
            done.push((name, Err((ErrorCode::InvalidRequest, why))));
        }
        // Values that the response borrows.
        let values: Vec<Vec<String>> = done.iter().map(|(_, created)| values(created)).collect();
        let topics = done
            .iter()
            .zip(&values)
            .map(|((name, created), values)| topic_response(&request, name, created, values));
        list(&request, &Response { topics: topics.collect(), ..Default::default() })
    })
}

fn new_topic(request: &Request, topic: &Topic<'_>) -> Result<NewTopic, TopicError> {
    let mut configs = BTreeMap::new();
    for config in &topic.configs {
        let Some(value) = config.value else {
            return Err(TopicError::InvalidConfig(format!(
                "Null value not supported for topic configs: {}",
                config.name
            )));
        };
        configs.insert(config.name.to_owned(), value.to_owned());
    }
    Ok(NewTopic {
        name: topic.name.to_owned(),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assigned_partitions: assigned(request, topic)?,
        configs,
    })
}

/// How many partitions a manual assignment has, if there is one.
fn assigned(request: &Request, topic: &Topic<'_>) -> Result<Option<u32>, TopicError> {
    if topic.assignments.is_empty() {
        return Ok(None);
    }
    let bad = |why: String| Err(TopicError::InvalidAssignment(why));
    if topic.num_partitions != -1 || topic.replication_factor != -1 {
        return Err(TopicError::InvalidRequest(
            "num.partitions and replication.factor must be -1 when partitions are assigned by hand"
                .to_owned(),
        ));
    }
    let mut indexes = BTreeSet::new();
    for a in &topic.assignments {
        let brokers: Vec<i32> = a.broker_ids.iter().collect();
        if !indexes.insert(a.partition_index) {
            return bad(format!("partition {} is assigned twice", a.partition_index));
        }
        on_one_host(request, a.partition_index, &brokers)?;
    }
    let n = indexes.len();
    if indexes.iter().copied().ne(0..i32::try_from(n).unwrap_or(i32::MAX)) {
        return bad("partitions must be assigned from 0 on, without a gap".to_owned());
    }
    Ok(u32::try_from(n).ok())
}

fn values(created: &Result<CreatedTopic, (ErrorCode, String)>) -> Vec<String> {
    match created {
        Ok(topic) => {
            TOPIC_CONFIGS.iter().map(|c| c.value(&topic.settings, &topic.configs)).collect()
        }
        Err(_) => Vec::new(),
    }
}

fn topic_response<'a>(
    request: &Request,
    name: &'a str,
    created: &'a Result<CreatedTopic, (ErrorCode, String)>,
    values: &'a [String],
) -> TopicResponse<'a> {
    match created {
        Err((error_code, why)) => TopicResponse {
            name,
            error_code: *error_code,
            error_message: Some(why),
            configs: Some(Vec::new().into()),
            ..Default::default()
        },
        Ok(topic) => TopicResponse {
            name,
            topic_id: Uuid(topic.id.0),
            num_partitions: i32::try_from(topic.partitions).unwrap_or(i32::MAX),
            replication_factor: 1,
            configs: Some(configs(request, topic, values).into()),
            ..Default::default()
        },
    }
}

fn configs<'a>(
    request: &Request,
    topic: &CreatedTopic,
    values: &'a [String],
) -> Vec<ConfigResponse<'a>> {
    TOPIC_CONFIGS
        .iter()
        .zip(values)
        .map(|(config, value)| ConfigResponse {
            name: config.name,
            value: Some(value),
            config_source: request.context.configs().topic_source(config, &topic.configs),
            ..Default::default()
        })
        .collect()
}
