//! DescribeTopicPartitions, key 75, served 0: topics by name, in pages of so many partitions (KIP-966).
//!
//! - A page has at most 2,000 partitions (Kafka: max.request.partition.size.limit) and at least one. What is left begins at
//!   `next_cursor`, with which the client asks again.
//! - The topic of a cursor has to be among those that are asked for; where all are, one that was deleted meanwhile is
//!   passed over.
//! - Replicas, ISR and leader are those of Metadata. A partition has one replica, so there are no eligible leaders beside
//!   it.

use std::collections::BTreeSet;

use rillway_shard::{Image, OFFSETS_TOPIC, PartitionId, Topic as KnownTopic, View};
use rillway_wire::api::describe_topic_partitions::{
    Cursor, Partition, Request as Body, Response, TopicResponse,
};
use rillway_wire::{ErrorCode, TopicName, Uuid};

use crate::apis::{TOPIC_OPERATIONS, ready};
use crate::connection::{Answer, Close};
use crate::context::Request;

/// Most partitions of a page.
const PARTITIONS_MAX: i32 = 2000;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let view = request.context.shard().view();
    let from = body.cursor.as_ref().map_or("", |cursor| cursor.topic_name);
    let all = body.topics.is_empty();
    let asked: BTreeSet<&str> = body.topics.iter().map(|t| t.name).collect();
    let lost = !all && body.cursor.as_ref().is_some_and(|c| !asked.contains(c.topic_name));
    if lost || body.cursor.as_ref().is_some_and(|c| c.partition_index < 0) {
        return refuse(&request, body);
    }
    let names: Vec<&str> = if all { names(&view.image) } else { asked.into_iter().collect() };
    let mut left = body.response_partition_limit.clamp(1, PARTITIONS_MAX);
    let mut response = Response::default();
    let mut topics = Vec::new();
    for name in names.into_iter().filter(|name| *name >= from) {
        if left == 0 {
            response.next_cursor = Some(Cursor { topic_name: name, partition_index: 0 });
            break;
        }
        let Some(topic) = view.topic(name) else {
            if !all {
                topics.push(unknown(name));
            }
            continue;
        };
        let first = body.cursor.as_ref().filter(|c| c.topic_name == name);
        let first = first.map_or(0, |c| c.partition_index);
        let count = i32::try_from(topic.partitions).unwrap_or(i32::MAX);
        let end = first.saturating_add(left).min(count);
        let partitions: Vec<_> =
            (first..end).map(|index| partition(&request, &view, topic, index)).collect();
        left -= end.saturating_sub(first).max(0);
        topics.push(TopicResponse {
            name: Some(name),
            topic_id: Uuid(topic.id.0),
            is_internal: name == OFFSETS_TOPIC,
            partitions: partitions.into(),
            topic_authorized_operations: TOPIC_OPERATIONS,
            ..Default::default()
        });
        if end < count {
            response.next_cursor = Some(Cursor { topic_name: name, partition_index: end });
            break;
        }
    }
    ready(&request, &Response { topics: topics.into(), ..response })
}

fn names(image: &Image) -> Vec<&str> {
    image.created().map(|topic| topic.name.as_str()).collect()
}

/// The answer to a cursor that does not fit.
fn refuse(request: &Request, body: &Body<'_>) -> Result<Answer, Close> {
    let topics = body.topics.iter().map(|topic| TopicResponse {
        error_code: ErrorCode::InvalidRequest,
        name: Some(topic.name),
        ..Default::default()
    });
    ready(request, &Response { topics: topics.collect(), ..Default::default() })
}

fn unknown(name: &str) -> TopicResponse<'_> {
    TopicResponse {
        error_code: match TopicName::new(name) {
            Ok(_) => ErrorCode::UnknownTopicOrPartition,
            Err(_) => ErrorCode::InvalidTopicException,
        },
        name: Some(name),
        topic_authorized_operations: TOPIC_OPERATIONS,
        ..Default::default()
    }
}

fn partition<'a>(
    request: &Request,
    view: &View,
    topic: &KnownTopic,
    partition_index: i32,
) -> Partition<'a> {
    let index = partition_index.unsigned_abs();
    let none = Partition {
        partition_index,
        leader_id: -1,
        eligible_leader_replicas: Some(Vec::new().into()),
        last_known_elr: Some(Vec::new().into()),
        ..Default::default()
    };
    match view.owner(PartitionId { topic: topic.id, index }) {
        Some(owner) => {
            let node = request.context.nodes().id(owner.core);
            Partition {
                leader_id: node,
                leader_epoch: owner.leader_epoch,
                replica_nodes: vec![node].into(),
                isr_nodes: vec![node].into(),
                ..none
            }
        }
        None => Partition { error_code: ErrorCode::LeaderNotAvailable, ..none },
    }
}
