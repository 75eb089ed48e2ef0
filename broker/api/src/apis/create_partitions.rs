//! CreatePartitions, key 37, served 0-3: more partitions for topics that exist (KIP-195).
//!
//! - New partitions are shown by every core, and can be written, before the answer goes out.
//! - A topic that comes twice in one request is refused, all of it, with INVALID_REQUEST, and the others grow.
//! - Manual assignments are one node of this host each; as many as there are new partitions.
//!
//! Skipped: timeout_ms. The answer comes when it is done.

use std::collections::BTreeSet;

use rillway_shard::{Growth, TopicError};
use rillway_wire::ErrorCode;
use rillway_wire::api::create_partitions::{Request as Body, Response, Topic, TopicResponse};

use crate::apis::assignments::on_one_host;
use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let mut seen = BTreeSet::new();
    let mut twice = BTreeSet::new();
    for topic in &body.topics {
        if !seen.insert(topic.name) {
            twice.insert(topic.name.to_owned());
        }
    }
    let asked: Vec<(String, Result<Growth, TopicError>)> = body
        .topics
        .iter()
        .filter(|t| !twice.contains(t.name))
        .map(|t| (t.name.to_owned(), growth(&request, &t)))
        .collect();
    let validate_only = body.validate_only;
    later(async move {
        let mut done = Vec::new();
        for (name, growth) in asked {
            let grown = match growth {
                Ok(growth) => request.context.shard().grow_topic(growth, validate_only).await,
                Err(e) => Err(e),
            };
            done.push((name, grown.map_err(|e| (error_codes::topic(&e), e.to_string()))));
        }
        for name in twice {
            let why = "the topic is named more than once in the request".to_owned();
            done.push((name, Err((ErrorCode::InvalidRequest, why))));
        }
        let results = done.iter().map(|(name, grown)| match grown {
            Ok(()) => TopicResponse { name, ..Default::default() },
            Err((error_code, why)) => {
                TopicResponse { name, error_code: *error_code, error_message: Some(why) }
            }
        });
        list(&request, &Response { results: results.collect(), ..Default::default() })
    })
}

fn growth(request: &Request, topic: &Topic<'_>) -> Result<Growth, TopicError> {
    let mut assigned = None;
    if let Some(assignments) = &topic.assignments {
        for (at, a) in assignments.iter().enumerate() {
            let brokers: Vec<i32> = a.broker_ids.iter().collect();
            on_one_host(request, i32::try_from(at).unwrap_or(i32::MAX), &brokers)?;
        }
        assigned = Some(assignments.iter().count());
    }
    Ok(Growth { name: topic.name.to_owned(), count: topic.count, assigned })
}
