//! OffsetCommit, key 8, served 2-10: answered when the offsets are on disk. Topics by name, and from version 10 on by id
//! (KIP-848). Each partition has an answer of its own: one that does not exist does not fail the others.

use rillway_group::{Commit, Fence, GroupError, TopicPartition};
use rillway_io::Class;
use rillway_shard::{CoordinatorError, OffsetToCommit, PartitionId, TopicId};
use rillway_wire::api::offset_commit::{
    Partition, PartitionResponse, Request as Body, Response, TopicResponse,
};
use rillway_wire::{ErrorCode, Uuid};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

/// One topic of the answer: what of it may be committed, or why not.
struct Topic {
    name: String,
    id: Uuid,
    partitions: Vec<(i32, ErrorCode)>,
}

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let view = request.context.shard().view();
    let by_id = request.version >= 10;
    let retention_ms = Some(body.retention_time_ms).filter(|ms| *ms >= 0);
    let mut offsets = Vec::new();
    let mut topics = Vec::new();
    for topic in &body.topics {
        let known = if by_id {
            view.image.topic_by_id(TopicId(topic.topic_id.0))
        } else {
            view.topic(topic.name)
        };
        let unknown =
            if by_id { ErrorCode::UnknownTopicId } else { ErrorCode::UnknownTopicOrPartition };
        let mut partitions = Vec::new();
        for p in &topic.partitions {
            let index = p.partition_index;
            let code = match known {
                None => unknown,
                Some(known) => {
                    let id = u32::try_from(index).ok();
                    let id = id.filter(|index| *index < known.partitions);
                    let id = id.map(|index| PartitionId { topic: known.id, index });
                    check(&request, id, &p)
                }
            };
            if let (ErrorCode::None, Some(known)) = (code, known) {
                offsets.push(OffsetToCommit {
                    at: TopicPartition { topic: known.name.clone(), partition: index },
                    offset: p.committed_offset,
                    leader_epoch: p.committed_leader_epoch,
                    metadata: p.committed_metadata.unwrap_or_default().to_owned(),
                    topic_id: known.id.0,
                    retention_ms,
                });
            }
            partitions.push((index, code));
        }
        topics.push(Topic { name: topic.name.to_owned(), id: topic.topic_id, partitions });
    }
    let commit = Commit {
        group: body.group_id.to_owned(),
        fence: Fence {
            member: body.member_id.to_owned(),
            instance: body.group_instance_id.map(str::to_owned),
            generation: body.generation_id_or_member_epoch,
        },
    };
    // Begun now and not when its answer's turn comes: commits that a client pipelines share flushes.
    let shard = request.context.shard().clone();
    let rt = shard.runtime().clone();
    let committing =
        rt.spawn(Class::Data, async move { shard.commit_offsets(commit, offsets).await });
    later(async move {
        let failed = match committing.await.unwrap_or(Err(CoordinatorError::Stopping)) {
            Ok(()) => None,
            // The name of this fault is younger than the old versions.
            Err(CoordinatorError::Group(GroupError::NotFound(_))) if request.version < 9 => {
                Some(ErrorCode::IllegalGeneration)
            }
            Err(e) => Some(error_codes::coordinator(&e)),
        };
        let code =
            |code: ErrorCode| if code == ErrorCode::None { failed.unwrap_or(code) } else { code };
        let answers = topics.iter().map(|topic| TopicResponse {
            name: &topic.name,
            topic_id: topic.id,
            partitions: topic
                .partitions
                .iter()
                .map(|(partition_index, c)| PartitionResponse {
                    partition_index: *partition_index,
                    error_code: code(*c),
                })
                .collect(),
        });
        list(&request, &Response { topics: answers.collect(), ..Default::default() })
    })
}

fn check(request: &Request, id: Option<PartitionId>, p: &Partition<'_>) -> ErrorCode {
    let shard = request.context.shard();
    let longest = shard.options().groups.options.offset_metadata_max;
    match id {
        Some(id) if shard.view().owner(id).is_some() => {
            if p.committed_metadata.unwrap_or_default().len() > longest {
                return ErrorCode::OffsetMetadataTooLarge;
            }
            ErrorCode::None
        }
        _ => ErrorCode::UnknownTopicOrPartition,
    }
}
