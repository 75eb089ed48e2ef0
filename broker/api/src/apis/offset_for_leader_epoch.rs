//! OffsetForLeaderEpoch, key 23, served 2-4: where a leader epoch ends (KIP-101, KIP-320).
//!
//! - An old epoch ends where the next one begins, this life's at the log end, one below the oldest known at the log
//!   start; a future one gets -1 and -1.
//! - A stale or future `current_leader_epoch` is fenced as in Fetch.
//!
//! Skipped: replica_id. There are no followers, and nobody sees beyond the high watermark.

use rillway_shard::PartitionId;
use rillway_wire::ErrorCode;
use rillway_wire::api::offset_for_leader_epoch::{
    PartitionResponse, Request as Body, Response, TopicResponse,
};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

struct Asked {
    index: i32,
    id: Option<PartitionId>,
    current_leader_epoch: i32,
    leader_epoch: i32,
}

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let view = request.context.shard().view();
    let mut topics = Vec::new();
    for topic in &body.topics {
        let mut partitions = Vec::new();
        for p in &topic.partitions {
            partitions.push(Asked {
                index: p.partition,
                id: view.partition(topic.topic, p.partition),
                current_leader_epoch: p.current_leader_epoch,
                leader_epoch: p.leader_epoch,
            });
        }
        topics.push((topic.topic.to_owned(), partitions));
    }
    later(async move {
        let mut answers = Vec::new();
        for (topic, partitions) in &topics {
            let mut found = Vec::new();
            for asked in partitions {
                found.push(look_up(&request, asked).await);
            }
            answers.push(TopicResponse { topic, partitions: found.into_iter().collect() });
        }
        list(&request, &Response { topics: answers.into_iter().collect(), ..Default::default() })
    })
}

async fn look_up(request: &Request, asked: &Asked) -> PartitionResponse {
    let none = PartitionResponse { partition: asked.index, ..Default::default() };
    let Some(id) = asked.id else {
        return PartitionResponse { error_code: ErrorCode::UnknownTopicOrPartition, ..none };
    };
    let shard = request.context.shard();
    match shard.epoch_end(id, asked.current_leader_epoch, asked.leader_epoch).await {
        Ok((leader_epoch, end_offset)) => PartitionResponse { leader_epoch, end_offset, ..none },
        Err(e) => PartitionResponse { error_code: error_codes::partition(&e), ..none },
    }
}
