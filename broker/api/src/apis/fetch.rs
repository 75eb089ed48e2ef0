//! Fetch, key 1, served 4-12.
//!
//! - Size limits by KIP-74: the first batch of the first partition that has one comes whole, whatever the limits.
//! - No fetch sessions: session id 0 is always answered, which makes every client send full fetches (KIP-227). One that
//!   goes on with a session names only what has changed in it, so it is FETCH_SESSION_ID_NOT_FOUND.
//! - READ_COMMITTED is accepted: without transactions the last stable offset is the high watermark.
//! - The preferred replica is always -1; aborted transactions are null, and an empty list for READ_COMMITTED.
//!
//! Skipped: rack id, log start and last fetched epoch of followers (there are none yet).

use std::time::Duration;

use rillway_io::IoList;
use rillway_shard::{
    FetchPartition, FetchSpec, Fetched, FetchedPartition, FetchedRecords, PartitionError,
};
use rillway_wire::api::fetch::{PartitionResponse, Request as Body, Response, TopicResponse};
use rillway_wire::{ErrorCode, Frame, Part, Records, ResponseMessage};

use crate::apis::{later, ready};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

/// A topic of the request: its name, and for each partition its index and where its answer is.
struct Topic {
    name: String,
    partitions: Vec<(i32, Place)>,
}

#[derive(Clone, Copy)]
enum Place {
    Asked(usize),
    Unknown,
}

/// `isolation_level` of a reader that wants nothing of an open transaction.
const READ_COMMITTED: i8 = 1;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    if body.session_epoch > 0 {
        let error_code = ErrorCode::FetchSessionIdNotFound;
        return ready(&request, &Response { error_code, ..Default::default() });
    }
    let committed = body.isolation_level == READ_COMMITTED;
    let view = request.context.shard().view();
    let mut topics = Vec::new();
    let mut asked = Vec::new();
    for topic in &body.topics {
        let mut partitions = Vec::new();
        for p in &topic.partitions {
            let place = match view.partition(topic.topic, p.partition) {
                None => Place::Unknown,
                Some(id) => {
                    asked.push(FetchPartition {
                        id,
                        offset: p.fetch_offset,
                        max_bytes: usize::try_from(p.partition_max_bytes).unwrap_or(0),
                        leader_epoch: p.current_leader_epoch,
                    });
                    Place::Asked(asked.len() - 1)
                }
            };
            partitions.push((p.partition, place));
        }
        topics.push(Topic { name: topic.topic.to_owned(), partitions });
    }
    let unknown =
        topics.iter().flat_map(|t| &t.partitions).any(|(_, place)| matches!(place, Place::Unknown));
    let max_wait = if unknown { 0 } else { u64::try_from(body.max_wait_ms).unwrap_or(0) };
    let spec = FetchSpec {
        partitions: asked,
        max_bytes: usize::try_from(body.max_bytes)
            .unwrap_or(0)
            .min(request.context.limits().fetch_bytes_max),
        min_bytes: usize::try_from(body.min_bytes).unwrap_or(0),
        max_wait: Duration::from_millis(max_wait),
        cached: request.context.shard().store().transfer().splices(),
    };
    later(async move {
        let fetched = request.context.shard().fetch(spec).await;
        let frame = response(&topics, &fetched.partitions, committed)
            .response_frame(request.version, request.correlation_id);
        Ok(Some(fill(frame, fetched)))
    })
}

fn response<'a>(
    topics: &'a [Topic],
    fetched: &[FetchedPartition],
    committed: bool,
) -> Response<'a> {
    let responses = topics.iter().map(|topic| TopicResponse {
        topic: &topic.name,
        partitions: topic
            .partitions
            .iter()
            .map(|(index, place)| partition(*index, *place, fetched, committed))
            .collect(),
        ..Default::default()
    });
    Response { responses: responses.collect(), ..Default::default() }
}

fn partition<'a>(
    partition_index: i32,
    place: Place,
    fetched: &[FetchedPartition],
    committed: bool,
) -> PartitionResponse<'a> {
    // Offsets are told only with success, as in Kafka.
    let failed = |e: &PartitionError| PartitionResponse {
        partition_index,
        error_code: error_codes::partition(e),
        high_watermark: -1,
        records: Records::Bytes(&[]),
        ..Default::default()
    };
    let none_aborted = Some(Vec::new().into());
    let Place::Asked(at) = place else {
        let unknown = failed(&PartitionError::UnknownPartition);
        return PartitionResponse { aborted_transactions: none_aborted, ..unknown };
    };
    let found = &fetched[at];
    if let Err(e) = &found.result {
        return failed(e);
    }
    PartitionResponse {
        partition_index,
        high_watermark: found.high_watermark,
        last_stable_offset: found.high_watermark,
        log_start_offset: found.log_start,
        aborted_transactions: if committed { none_aborted } else { None },
        records: if found.bytes == 0 { Records::Bytes(&[]) } else { Records::Later(found.bytes) },
        ..Default::default()
    }
}

/// Puts the records into the frame's holes, in order, without a copy.
fn fill(frame: Frame, fetched: Fetched) -> IoList {
    let mut records = fetched.partitions.into_iter().filter(|p| p.bytes > 0).map(|p| p.records);
    let mut list = IoList::new();
    for part in frame.parts() {
        match part {
            Part::Bytes(bytes) => list.push_bytes(bytes.to_vec()),
            Part::Records { .. } => {
                match records.next().expect("a hole for each partition with records") {
                    FetchedRecords::None => unreachable!("it has bytes"),
                    FetchedRecords::Here(range) => list.push_file(range),
                    FetchedRecords::Copied(chunk) => list.push_chunk(chunk),
                }
            }
        }
    }
    fetched.memory.into_iter().for_each(|permit| list.hold(permit));
    list
}
