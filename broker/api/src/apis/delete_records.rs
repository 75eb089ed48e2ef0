//! DeleteRecords, key 21, served 0-2: the start of a partition moves up, durably, and readers below it are out of range.
//!
//! - Offset -1 stands for the high watermark; beyond it, or below -1, is OFFSET_OUT_OF_RANGE. One that lies before the
//!   start is no change. A partition that is named twice gets the last of its offsets, as in Kafka.
//! - A topic whose cleanup.policy has no `delete` is POLICY_VIOLATION, the broker's own INVALID_TOPIC_EXCEPTION.
//!
//! Skipped: timeout_ms. One node waits for its own disk and for nobody else.

use std::collections::BTreeMap;

use rillway_shard::OFFSETS_TOPIC;
use rillway_wire::ErrorCode;
use rillway_wire::api::delete_records::{
    HIGH_WATERMARK, PartitionResponse, Request as Body, Response, TopicResponse,
};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let mut topics: BTreeMap<String, BTreeMap<i32, i64>> = BTreeMap::new();
    for topic in body.topics.iter().filter(|t| !t.partitions.is_empty()) {
        let partitions = topics.entry(topic.name.to_owned()).or_default();
        partitions.extend(topic.partitions.iter().map(|p| (p.partition_index, p.offset)));
    }
    later(async move {
        let mut answers = Vec::with_capacity(topics.len());
        for (name, partitions) in &topics {
            let mut done = Vec::with_capacity(partitions.len());
            for (index, offset) in partitions {
                done.push(delete(&request, name, *index, *offset).await);
            }
            answers.push(TopicResponse { name, partitions: done.into() });
        }
        list(&request, &Response { topics: answers.into(), ..Default::default() })
    })
}

async fn delete(request: &Request, topic: &str, index: i32, offset: i64) -> PartitionResponse {
    let failed =
        |error_code| PartitionResponse { partition_index: index, low_watermark: -1, error_code };
    let shard = request.context.shard();
    let Some(id) = shard.view().partition(topic, index) else {
        return failed(ErrorCode::UnknownTopicOrPartition);
    };
    if topic == OFFSETS_TOPIC {
        return failed(ErrorCode::InvalidTopicException);
    }
    let before = Some(offset).filter(|offset| *offset != HIGH_WATERMARK);
    match shard.delete_records(id, before).await {
        Ok(low_watermark) => {
            PartitionResponse { partition_index: index, low_watermark, error_code: ErrorCode::None }
        }
        Err(e) => failed(error_codes::partition(&e)),
    }
}
