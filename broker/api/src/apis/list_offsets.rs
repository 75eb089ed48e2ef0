//! ListOffsets, key 2, served 1-10: earliest (-2), latest (-1), by time; from version 7 the largest timestamp (-3,
//! KIP-734), from 8 where the local log starts (-4), from 9 the last tiered offset (-5).
//!
//! - Nothing is tiered: the local log starts where the log does, and no offset is the last tiered one.
//! - Other negative times, and these before their versions, are UNSUPPORTED_VERSION for that partition: they must not be
//!   served as if they were times. A partition that is named twice is INVALID_REQUEST, as in Kafka.
//!
//! Skipped: timeout_ms, which is for reads from remote storage.

use std::collections::BTreeSet;

use rillway_shard::{OffsetAnswer, OffsetQuery, PartitionId};
use rillway_wire::ErrorCode;
use rillway_wire::api::list_offsets::{
    EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, MAX_TIMESTAMP, PartitionResponse,
    Request as Body, Response, TopicResponse,
};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

struct Asked {
    index: i32,
    leader_epoch: i32,
    what: Result<(PartitionId, OffsetQuery), ErrorCode>,
}

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let view = request.context.shard().view();
    let mut topics = Vec::new();
    for topic in &body.topics {
        let mut seen = BTreeSet::new();
        let repeated: BTreeSet<i32> = topic
            .partitions
            .iter()
            .map(|p| p.partition_index)
            .filter(|index| !seen.insert(*index))
            .collect();
        let mut partitions = Vec::new();
        for p in &topic.partitions {
            let query = query(p.timestamp, request.version);
            let what = match (view.partition(topic.name, p.partition_index), query) {
                _ if repeated.contains(&p.partition_index) => Err(ErrorCode::InvalidRequest),
                (None, _) => Err(ErrorCode::UnknownTopicOrPartition),
                (_, None) => Err(ErrorCode::UnsupportedVersion),
                (Some(id), Some(query)) => Ok((id, query)),
            };
            partitions.push(Asked {
                index: p.partition_index,
                leader_epoch: p.current_leader_epoch,
                what,
            });
        }
        topics.push((topic.name.to_owned(), partitions));
    }
    later(async move {
        let mut answers = Vec::new();
        for (name, partitions) in &topics {
            let mut found = Vec::new();
            for asked in partitions {
                found.push(look_up(&request, asked).await);
            }
            answers.push(TopicResponse { name, partitions: found.into_iter().collect() });
        }
        list(&request, &Response { topics: answers.into_iter().collect(), ..Default::default() })
    })
}

fn query(timestamp: i64, version: i16) -> Option<OffsetQuery> {
    match timestamp {
        LATEST => Some(OffsetQuery::Latest),
        EARLIEST => Some(OffsetQuery::Earliest),
        MAX_TIMESTAMP if version >= 7 => Some(OffsetQuery::MaxTimestamp),
        EARLIEST_LOCAL if version >= 8 => Some(OffsetQuery::Earliest),
        LATEST_TIERED if version >= 9 => Some(OffsetQuery::LatestTiered),
        time if time >= 0 => Some(OffsetQuery::AtTime(time)),
        _ => None,
    }
}

async fn look_up(request: &Request, asked: &Asked) -> PartitionResponse {
    let none = PartitionResponse { partition_index: asked.index, ..Default::default() };
    let (id, query) = match asked.what {
        Ok(what) => what,
        Err(error_code) => return PartitionResponse { error_code, ..none },
    };
    match request.context.shard().offset(id, query, asked.leader_epoch).await {
        Ok(OffsetAnswer { offset, timestamp, leader_epoch }) => {
            PartitionResponse { offset, timestamp, leader_epoch, ..none }
        }
        Err(e) => PartitionResponse { error_code: error_codes::partition(&e), ..none },
    }
}
