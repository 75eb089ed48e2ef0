//! DescribeConfigs, key 32, served 1-4: the settings of topics and of this node (KIP-133, KIP-226, KIP-569).
//!
//! - A topic's value comes from the topic, from the broker's settings, or is built in; the synonyms say so in that order,
//!   the one in force first. Everything that is described can be set again.
//! - Each node of this host describes the same settings, all read-only. The name "" asks for what was set for all
//!   brokers at run time, which is nothing.
//! - No names of keys, null or empty, asks for all. Keys that there are not are left out, as in Kafka.

use std::collections::BTreeSet;

use rillway_shard::{TOPIC_CONFIGS, TopicConfig, TopicSettings};
use rillway_wire::api::describe_configs::{
    BROKER, Config, Request as Body, ResourceResponse, Response, SOURCE_DEFAULT,
    SOURCE_STATIC_BROKER, SOURCE_TOPIC, Synonym, TOPIC,
};
use rillway_wire::{ErrorCode, TopicName};

use crate::apis::ready;
use crate::connection::{Answer, Close};
use crate::context::Request;

/// One value, where it comes from, and what it hides.
struct Described {
    name: &'static str,
    read_only: bool,
    config_type: i8,
    doc: String,
    /// Name, value, source; the one in force first.
    synonyms: Vec<(&'static str, String, i8)>,
}

struct Answered<'a> {
    resource_type: i8,
    name: &'a str,
    found: Result<Vec<Described>, (ErrorCode, String)>,
}

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let mut answers = Vec::new();
    for resource in &body.resources {
        let keys: BTreeSet<&str> = resource.configuration_keys.iter().flatten().collect();
        let found = match resource.resource_type {
            TOPIC => topic(&request, resource.resource_name),
            BROKER => broker(&request, resource.resource_name),
            other => Err((
                ErrorCode::InvalidRequest,
                format!("Unsupported resource type {other}: topics are 2, brokers 4"),
            )),
        };
        let wanted = |mut all: Vec<Described>| {
            all.retain(|d| keys.is_empty() || keys.contains(d.name));
            all
        };
        answers.push(Answered {
            resource_type: resource.resource_type,
            name: resource.resource_name,
            found: found.map(wanted),
        });
    }
    let results = answers.iter().map(|a| result(a, body));
    ready(&request, &Response { results: results.collect(), ..Default::default() })
}

fn topic(request: &Request, name: &str) -> Result<Vec<Described>, (ErrorCode, String)> {
    if let Err(e) = TopicName::new(name) {
        return Err((ErrorCode::InvalidTopicException, e.to_string()));
    }
    let context = &request.context;
    let view = context.shard().view();
    let Some(topic) = view.topic(name) else {
        return Err((ErrorCode::UnknownTopicOrPartition, format!("no topic '{name}'")));
    };
    let settings = view.settings(topic.id);
    let known = TOPIC_CONFIGS.iter().map(|config| {
        describe(
            request,
            config,
            &settings,
            topic.configs.contains_key(config.name),
            &topic.configs,
        )
    });
    Ok(known.collect())
}

fn describe(
    request: &Request,
    config: &'static TopicConfig,
    settings: &TopicSettings,
    given: bool,
    configs: &std::collections::BTreeMap<String, String>,
) -> Described {
    let mut synonyms = Vec::new();
    if given {
        synonyms.push((config.name, config.value(settings, configs), SOURCE_TOPIC));
    }
    if let Some(broker) = request.context.configs().given(config.broker) {
        synonyms.push((config.broker, broker.value.clone(), SOURCE_STATIC_BROKER));
    }
    synonyms.push((config.broker, config.default_value(), SOURCE_DEFAULT));
    let inert = if config.is_inert() { " No effect in this broker." } else { "" };
    Described {
        name: config.name,
        read_only: false,
        config_type: config.config_type as i8,
        doc: format!("{}{inert} May be {}.", config.doc, config.bounds()),
        synonyms,
    }
}

fn broker(request: &Request, name: &str) -> Result<Vec<Described>, (ErrorCode, String)> {
    let invalid = |why: String| Err((ErrorCode::InvalidRequest, why));
    if name.is_empty() {
        return Ok(Vec::new());
    }
    match name.parse::<i32>() {
        Err(_) => return invalid(format!("Broker id must be an integer, but it is: {name}")),
        Ok(id) if !request.context.nodes().is_here(id) => {
            return invalid(format!("Unexpected broker id {id}: this is not a node of this host"));
        }
        Ok(_) => {}
    }
    let known = request.context.configs().iter().map(|c| {
        let mut synonyms = Vec::new();
        if c.given {
            synonyms.push((c.name, c.value.clone(), SOURCE_STATIC_BROKER));
        }
        synonyms.push((c.name, c.default.clone(), SOURCE_DEFAULT));
        Described {
            name: c.name,
            read_only: true,
            config_type: c.config_type as i8,
            doc: c.doc.to_owned(),
            synonyms,
        }
    });
    Ok(known.collect())
}

fn result<'a>(answered: &'a Answered<'a>, body: &Body<'_>) -> ResourceResponse<'a> {
    let (error_code, error_message, described) = match &answered.found {
        // Empty and not null, as Kafka has it.
        Ok(described) => (ErrorCode::None, Some(""), described.as_slice()),
        Err((code, why)) => (*code, Some(why.as_str()), [].as_slice()),
    };
    let synonym = |(name, value, source): &'a (&'static str, String, i8)| Synonym {
        name,
        value: Some(value),
        source: *source,
    };
    let config = |d: &'a Described| {
        let (_, value, source) = &d.synonyms[0];
        Config {
            name: d.name,
            value: Some(value),
            read_only: d.read_only,
            config_source: *source,
            is_sensitive: false,
            synonyms: if body.include_synonyms {
                d.synonyms.iter().map(synonym).collect()
            } else {
                Default::default()
            },
            config_type: d.config_type,
            documentation: body.include_documentation.then_some(d.doc.as_str()),
        }
    };
    ResourceResponse {
        error_code,
        error_message,
        resource_type: answered.resource_type,
        resource_name: answered.name,
        configs: described.iter().map(config).collect(),
    }
}
