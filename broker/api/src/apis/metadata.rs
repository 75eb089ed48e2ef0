//! Metadata, key 3, served 0-13: the nodes, and who leads what.
//!
//! - Version 0 asks for all topics with an empty list; from version 1 on empty means none and null means all.
//! - Before version 4 a topic that is asked for and missing is always created, if the broker allows it; later the
//!   request says.
//! - Topic ids come from version 10 on, and are keys from version 12 on; 10 and 11 refuse a request with an id or a null
//!   name whole, and tell no nodes. A topic that is named twice is answered once.
//! - Each core is a node (design section 5), at the address that this client used.
//! - Replicas and ISR of a node that is alone are its leader.

use std::collections::BTreeSet;

use rillway_shard::{
    NewTopic, OFFSETS_TOPIC, PartitionId, Topic as KnownTopic, TopicError, TopicId, View,
};
use rillway_wire::api::metadata::{
    Broker, Partition, Request as Body, Response, Topic, TopicRequest,
};
use rillway_wire::{ErrorCode, Uuid};

use crate::apis::{CLUSTER_OPERATIONS, TOPIC_OPERATIONS, later, list, ready};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

/// What a client asks for.
enum Wanted {
    Name(String),
    Id(TopicId),
    /// A null name where names are the keys.
    Nothing,
}

/// What it may do, as bits; the smallest number: it did not ask.
#[derive(Clone, Copy)]
struct Operations {
    cluster: i32,
    topic: i32,
}

/// What it gets for that.
enum Found {
    Topic(std::sync::Arc<KnownTopic>),
    Error(ErrorCode, Wanted),
}

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let by_key = |topic: &TopicRequest<'_>| topic.name.is_none() || !topic.topic_id.is_zero();
    if (10..=11).contains(&request.version) && body.topics.iter().flatten().any(|t| by_key(&t)) {
        return refuse_keys(&request, body);
    }
    let wanted: Option<Vec<Wanted>> = body.topics.as_ref().map(|topics| {
        let by_id = request.version >= 12;
        let want = |(name, id): (Option<&str>, Uuid)| match name {
            Some(name) if !name.is_empty() || id.is_zero() => Wanted::Name(name.to_owned()),
            _ if by_id && !id.is_zero() => Wanted::Id(TopicId(id.0)),
            _ => Wanted::Nothing,
        };
        let mut seen = BTreeSet::new();
        let fresh = |t: &TopicRequest<'_>| seen.insert((t.name.map(str::to_owned), t.topic_id));
        topics.iter().filter(fresh).map(|t| want((t.name, t.topic_id))).collect()
    });
    let all = match &wanted {
        None => true,
        Some(list) => list.is_empty() && request.version == 0,
    };
    let create = body.allow_auto_topic_creation || request.version < 4;
    let operations = Operations {
        cluster: if body.include_cluster_authorized_operations {
            CLUSTER_OPERATIONS
        } else {
            i32::MIN
        },
        topic: if body.include_topic_authorized_operations { TOPIC_OPERATIONS } else { i32::MIN },
    };
    later(async move {
        let found = if all {
            let view = request.context.shard().view();
            view.image.created().map(|t| Found::Topic(t.clone())).collect()
        } else {
            find(&request, wanted.unwrap_or_default(), create).await
        };
        answer(&request, &found, operations)
    })
}

/// The answer to keys in a version that has none (KAFKA-14480).
fn refuse_keys(request: &Request, body: &Body<'_>) -> Result<Answer, Close> {
    let mut topics = Vec::new();
    for TopicRequest { topic_id, name } in body.topics.iter().flatten() {
        let error_code = ErrorCode::InvalidRequest;
        topics.push(Topic { error_code, name, topic_id, ..Default::default() });
    }
    ready(request, &Response { topics: topics.into(), ..Default::default() })
}

async fn find(request: &Request, wanted: Vec<Wanted>, create: bool) -> Vec<Found> {
    let shard = request.context.shard();
    let create = create && shard.options().auto_create_topics;
    let mut found = Vec::new();
    for want in wanted {
        let name = match want {
            Wanted::Nothing => {
                found.push(Found::Error(ErrorCode::InvalidRequest, want));
                continue;
            }
            Wanted::Id(id) => {
                found.push(match shard.view().topic_by_id(id) {
                    Some(topic) => Found::Topic(topic.clone()),
                    None => Found::Error(ErrorCode::UnknownTopicId, want),
                });
                continue;
            }
            Wanted::Name(name) => name,
        };
        let mut code = match rillway_wire::TopicName::new(&name) {
            Ok(_) => ErrorCode::UnknownTopicOrPartition,
            Err(_) => ErrorCode::InvalidTopicException,
        };
        if create
            && code == ErrorCode::UnknownTopicOrPartition
            && shard.view().topic(&name).is_none()
        {
            let new = NewTopic {
                name: name.clone(),
                partitions: -1,
                replication_factor: -1,
                ..Default::default()
            };
            let created = if name == OFFSETS_TOPIC {
                shard.create_offsets_topic().await
            } else {
                shard.create_topic(new, false).await.map(|_| ())
            };
            match created {
                // Somebody else was faster: the view has it, or will in a moment.
                Ok(_) => {}
                Err(TopicError::Exists(_)) => code = ErrorCode::LeaderNotAvailable,
                Err(e) => code = error_codes::topic(&e),
            }
        }
        found.push(match shard.view().topic(&name) {
            Some(topic) => Found::Topic(topic.clone()),
            None => Found::Error(code, Wanted::Name(name)),
        });
    }
    found
}

fn answer(
    request: &Request,
    found: &[Found],
    operations: Operations,
) -> Result<Option<rillway_io::IoList>, Close> {
    let context = &request.context;
    let view = context.shard().view();
    let nodes = context.nodes().advertised(request.door, request.local);
    let brokers =
        nodes.iter().map(|n| Broker { node_id: n.id, host: &n.host, port: n.port, rack: None });
    let topics = found.iter().map(|f| match f {
        Found::Topic(topic) => {
            Topic { topic_authorized_operations: operations.topic, ..known(request, &view, topic) }
        }
        Found::Error(error_code, wanted) => Topic {
            error_code: *error_code,
            name: match wanted {
                Wanted::Name(name) => Some(name.as_str()),
                Wanted::Id(_) | Wanted::Nothing => None,
            },
            topic_id: match wanted {
                Wanted::Id(id) => Uuid(id.0),
                Wanted::Name(_) | Wanted::Nothing => Uuid::default(),
            },
            ..Default::default()
        },
    });
    let response = Response {
        brokers: brokers.collect(),
        cluster_id: Some(&context.nodes().cluster_id),
        controller_id: context.nodes().controller(),
        topics: topics.collect(),
        cluster_authorized_operations: operations.cluster,
        ..Default::default()
    };
    list(request, &response)
}

fn known<'a>(request: &Request, view: &View, topic: &'a KnownTopic) -> Topic<'a> {
    let partition = |index: u32| {
        let partition_index = i32::try_from(index).unwrap_or(i32::MAX);
        match view.owner(PartitionId { topic: topic.id, index }) {
            Some(owner) => {
                let node = request.context.nodes().id(owner.core);
                Partition {
                    partition_index,
                    leader_id: node,
                    leader_epoch: owner.leader_epoch,
                    replica_nodes: vec![node].into(),
                    isr_nodes: vec![node].into(),
                    ..Default::default()
                }
            }
            None => Partition {
                error_code: ErrorCode::LeaderNotAvailable,
                partition_index,
                leader_id: -1,
                ..Default::default()
            },
        }
    };
    Topic {
        name: Some(&topic.name),
        topic_id: Uuid(topic.id.0),
        is_internal: topic.name == OFFSETS_TOPIC,
        partitions: (0..topic.partitions).map(partition).collect(),
        ..Default::default()
    }
}
