//! OffsetFetch, key 9, served 1-10: what a group has committed; from version 8 on several groups (KIP-709), from version
//! 10 on topics by id. A partition without a commit, and one that does not exist, is -1 without an error; a topic id that
//! does not exist is UNKNOWN_TOPIC_ID. Without transactions every offset is stable, whatever `require_stable` says.

use std::collections::BTreeMap;

use rillway_group::{Committed, TopicPartition};
use rillway_shard::{CommittedOffset, TopicId};
use rillway_wire::api::offset_fetch::{
    GroupResponse, GroupTopicResponse, PartitionResponse, Request as Body, Response, TopicResponse,
};
use rillway_wire::{ErrorCode, Uuid};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

/// One group of a request.
struct Asked {
    group: String,
    member: Option<String>,
    member_epoch: i32,
    /// `None`: everything that it has committed.
    topics: Option<Vec<Topic>>,
}

struct Topic {
    /// `None`: there is no topic with this id.
    name: Option<String>,
    id: Uuid,
    partitions: Vec<i32>,
}

/// One group of an answer.
struct Told {
    group: String,
    error: ErrorCode,
    topics: Vec<ToldTopic>,
}

struct ToldTopic {
    name: String,
    id: Uuid,
    partitions: Vec<(i32, Option<Committed>, ErrorCode)>,
}

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let asked = asked(&request, body);
    later(async move {
        let mut told = Vec::new();
        for asked in asked {
            told.push(fetch(&request, asked).await);
        }
        list(&request, &response(&request, &told))
    })
}

fn asked(request: &Request, body: &Body<'_>) -> Vec<Asked> {
    if request.version < 8 {
        let topics = body.topics.as_ref().map(|topics| {
            let topic = |t: rillway_wire::api::offset_fetch::Topic<'_>| Topic {
                name: Some(t.name.to_owned()),
                id: Uuid::ZERO,
                partitions: t.partition_indexes.iter().collect(),
            };
            topics.iter().map(topic).collect()
        });
        let group = body.group_id.to_owned();
        return vec![Asked { group, member: None, member_epoch: -1, topics }];
    }
    let view = request.context.shard().view();
    let by_id = request.version >= 10;
    let group = |group: rillway_wire::api::offset_fetch::Group<'_>| Asked {
        group: group.group_id.to_owned(),
        member: group.member_id.map(str::to_owned),
        member_epoch: group.member_epoch,
        topics: group.topics.as_ref().map(|topics| {
            let topic = |t: rillway_wire::api::offset_fetch::GroupTopic<'_>| {
                let known =
                    || view.image.topic_by_id(TopicId(t.topic_id.0)).map(|t| t.name.clone());
                Topic {
                    name: if by_id { known() } else { Some(t.name.to_owned()) },
                    id: t.topic_id,
                    partitions: t.partition_indexes.iter().collect(),
                }
            };
            topics.iter().map(topic).collect()
        }),
    };
    body.groups.iter().map(group).collect()
}

async fn fetch(request: &Request, asked: Asked) -> Told {
    let Asked { group, member, member_epoch, topics } = asked;
    let at = |topic: &str, partition: i32| TopicPartition { topic: topic.to_owned(), partition };
    let wanted = topics.as_ref().map(|topics| {
        let named = topics.iter().filter_map(|t| Some((t.name.as_deref()?, &t.partitions)));
        named.flat_map(|(name, indexes)| indexes.iter().map(move |i| at(name, *i))).collect()
    });
    let shard = request.context.shard();
    match shard.fetch_offsets(&group, wanted, member, member_epoch).await {
        Ok(found) => {
            let topics = match topics {
                Some(topics) => as_asked(topics, found),
                None => everything(request, found),
            };
            Told { group, error: ErrorCode::None, topics }
        }
        Err(e) => Told { group, error: error_codes::coordinator(&e), topics: Vec::new() },
    }
}

/// The answers in the order of the question.
fn as_asked(topics: Vec<Topic>, found: Vec<CommittedOffset>) -> Vec<ToldTopic> {
    let mut found = found.into_iter();
    let topic = |t: Topic| {
        let unknown = t.name.is_none();
        let mut partition = |index| {
            if unknown {
                return (index, None, ErrorCode::UnknownTopicId);
            }
            let (_, committed) = found.next().expect("one answer for each question");
            (index, committed, ErrorCode::None)
        };
        let partitions = t.partitions.into_iter().map(&mut partition).collect();
        ToldTopic { name: t.name.unwrap_or_default(), id: t.id, partitions }
    };
    topics.into_iter().map(topic).collect()
}

fn everything(request: &Request, found: Vec<CommittedOffset>) -> Vec<ToldTopic> {
    let view = request.context.shard().view();
    let mut topics = BTreeMap::<String, Vec<_>>::new();
    for (at, committed) in found {
        topics.entry(at.topic).or_default().push((at.partition, committed, ErrorCode::None));
    }
    let topic = |(name, partitions): (String, _)| {
        let id = view.topic(&name).map_or(Uuid::ZERO, |t| Uuid(t.id.0));
        ToldTopic { name, id, partitions }
    };
    topics.into_iter().map(topic).collect()
}

fn response<'a>(request: &Request, told: &'a [Told]) -> Response<'a> {
    if request.version >= 8 {
        let groups = told.iter().map(|told| GroupResponse {
            group_id: &told.group,
            error_code: told.error,
            topics: told
                .topics
                .iter()
                .map(|t| GroupTopicResponse {
                    name: &t.name,
                    topic_id: t.id,
                    partitions: t.partitions.iter().map(partition).collect(),
                })
                .collect(),
        });
        return Response { groups: groups.collect(), ..Default::default() };
    }
    let told = &told[0];
    let topics = told.topics.iter().map(|t| TopicResponse {
        name: &t.name,
        partitions: t.partitions.iter().map(partition).collect(),
    });
    Response { topics: topics.collect(), error_code: told.error, ..Default::default() }
}

fn partition(
    (index, committed, error): &(i32, Option<Committed>, ErrorCode),
) -> PartitionResponse<'_> {
    PartitionResponse {
        partition_index: *index,
        committed_offset: committed.as_ref().map_or(-1, |c| c.offset),
        committed_leader_epoch: committed.as_ref().map_or(-1, |c| c.leader_epoch),
        metadata: Some(committed.as_ref().map_or("", |c| &c.metadata)),
        error_code: *error,
    }
}
