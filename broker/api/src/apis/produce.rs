//! Produce, key 0, advertised 0-12, served 3-12.
//!
//! - Versions 0-2 carry formats that Kafka 4 no longer takes; they are advertised for old librdkafka and answered with
//!   UNSUPPORTED_VERSION (see `versions`).
//! - zstd needs version 7 (KIP-110).
//! - acks=0 gets no answer; an error closes the connection, so that the client looks again.
//! - acks=1 and acks=all both wait for the flush: on one node they are the same. min.insync.replicas asks for no more
//!   replicas than a partition has, in Kafka as here, so one is always enough.
//! - A topic with LogAppendTime gets the broker's time, and the answer tells it.
//! - Where a batch reached its log and was refused there, the answer tells where the log starts, as in Kafka.
//! - From version 10 on an answer that says that another node leads says which, and where it is (KIP-951).
//!
//! Skipped: timeout_ms. One node waits for its own disk and for nobody else.

use rillway_io::IoList;
use rillway_shard::{OFFSETS_TOPIC, OffsetQuery, PartitionError, Produced, Producing, View};
use rillway_wire::api::produce::{
    LeaderIdAndEpoch, NodeEndpoint, Partition, PartitionResponse, RecordError, Request as Body,
    Response, TopicResponse,
};
use rillway_wire::batch::{BatchError, BatchView, Codec};
use rillway_wire::{ErrorCode, Records};

use crate::apis::leaders::Leaders;
use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

mod keys;
mod timestamps;

/// First version that tells who leads instead.
const TELLS_LEADERS: i16 = 10;

/// Why a batch is not stored.
#[derive(Clone)]
struct Refusal {
    code: ErrorCode,
    why: String,
    /// Kafka had it at its log when it found out, and tells where the log starts.
    at_log: bool,
    /// The records at fault, by their place in the batch.
    records: Vec<(i32, String)>,
}

impl Refusal {
    fn new(code: ErrorCode, why: impl Into<String>) -> Refusal {
        Refusal { code, why: why.into(), at_log: false, records: Vec::new() }
    }
}

impl From<BatchError> for Refusal {
    fn from(e: BatchError) -> Refusal {
        let at_log = matches!(
            e,
            BatchError::Control
                | BatchError::BaseOffset(_)
                | BatchError::Count { .. }
                | BatchError::Sequence { .. }
        );
        Refusal { at_log, ..Refusal::new(e.error_code(), e.to_string()) }
    }
}

impl From<PartitionError> for Refusal {
    fn from(e: PartitionError) -> Refusal {
        let at_log = matches!(
            e,
            PartitionError::OutOfOrderSequence { .. } | PartitionError::ProducerFenced { .. }
        );
        Refusal { at_log, ..Refusal::new(error_codes::partition(&e), e.to_string()) }
    }
}

/// A partition's answer, refused at once or waiting for its flush.
enum Outcome {
    Refused(Refusal),
    /// With the time that the broker gave the records, if it did.
    Waiting(Producing, Option<i64>),
}

struct Topic {
    name: String,
    partitions: Vec<(i32, Outcome)>,
}

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let acks = body.acks;
    let refused = refuse_all(&request, body);
    let view = request.context.shard().view();
    let mut topics = Vec::new();
    for topic in &body.topic_data {
        let mut partitions = Vec::new();
        for partition in &topic.partition_data {
            let outcome = match &refused {
                Some(refusal) => Outcome::Refused(refusal.clone()),
                None => append(&request, &view, topic.name, &partition).await,
            };
            partitions.push((partition.index, outcome));
        }
        topics.push(Topic { name: topic.name.to_owned(), partitions });
    }
    if acks == 0 {
        return later(no_answer(topics));
    }
    later(answer(request, topics))
}

/// What is wrong with the request as a whole.
fn refuse_all(request: &Request, body: &Body<'_>) -> Option<Refusal> {
    if request.version < 3 {
        let why = "message formats 0 and 1 are not taken; use a client that speaks Produce version 3 or later";
        return Some(Refusal::new(ErrorCode::UnsupportedVersion, why));
    }
    if ![-1, 0, 1].contains(&body.acks) {
        let why = format!("acks {}, must be -1, 0 or 1", body.acks);
        return Some(Refusal::new(ErrorCode::InvalidRequiredAcks, why));
    }
    if body.transactional_id.is_some() {
        let why = "transactions are not served by this broker";
        return Some(Refusal::new(ErrorCode::TransactionalIdAuthorizationFailed, why));
    }
    None
}

async fn append(request: &Request, view: &View, topic: &str, partition: &Partition<'_>) -> Outcome {
    let shard = request.context.shard();
    let Some(id) = view.partition(topic, partition.index) else {
        return Outcome::Refused(PartitionError::UnknownPartition.into());
    };
    if topic == OFFSETS_TOPIC {
        let why = format!("{topic} is written by groups that commit, and by nobody else");
        return Outcome::Refused(Refusal::new(ErrorCode::InvalidTopicException, why));
    }
    let settings = view.settings(id.topic);
    let bytes = match partition.records {
        Records::Bytes(bytes) => bytes,
        Records::Null | Records::Later(_) => &[],
    };
    let batch = match BatchView::validate_produce(bytes) {
        Ok(batch) => batch,
        Err(e) => {
            // Before zstd came, Kafka looks at the codec before the log does.
            let at_log = request.version >= 7 && matches!(e, BatchError::Codec(_));
            let refusal = Refusal::from(e);
            return Outcome::Refused(Refusal { at_log: refusal.at_log || at_log, ..refusal });
        }
    };
    if batch.is_transactional() {
        let why = "a transactional batch, and transactions are not served by this broker";
        return Outcome::Refused(Refusal::new(ErrorCode::TransactionalIdAuthorizationFailed, why));
    }
    if request.version < 7 && matches!(batch.codec(), Ok(Codec::Zstd)) {
        let why = "zstd needs Produce version 7 or later";
        return Outcome::Refused(Refusal::new(ErrorCode::UnsupportedCompressionType, why));
    }
    if settings.log.compact
        && let Err(refusal) =
            keys::check(shard.runtime(), &batch, &format!("{topic}-{}", partition.index)).await
    {
        return Outcome::Refused(refusal);
    }
    let now_ms = shard.runtime().wall_ms();
    match timestamps::timed(&batch, &settings, now_ms) {
        Ok(mended) => {
            let bytes = mended.as_deref().unwrap_or(bytes);
            let given = settings.log_append_time.then_some(now_ms);
            Outcome::Waiting(shard.produce(id, bytes).await, given)
        }
        Err((code, why)) => Outcome::Refused(Refusal { at_log: true, ..Refusal::new(code, why) }),
    }
}

/// acks=0: the client does not listen. Only an error says anything, by closing the connection.
async fn no_answer(topics: Vec<Topic>) -> Result<Option<IoList>, Close> {
    for topic in topics {
        for (index, outcome) in topic.partitions {
            let why = match outcome {
                Outcome::Refused(refusal) => refusal.why,
                Outcome::Waiting(producing, _) => match producing.done().await {
                    Ok(_) => continue,
                    Err(e) => e.to_string(),
                },
            };
            return Err(Close(format!("acks=0 produce to {}-{index}: {why}", topic.name)));
        }
    }
    Ok(None)
}

async fn answer(request: Request, topics: Vec<Topic>) -> Result<Option<IoList>, Close> {
    let mut leaders = Leaders::default();
    let mut settled = Vec::with_capacity(topics.len());
    for topic in topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (index, outcome) in topic.partitions {
            partitions.push(match settle(outcome).await {
                Ok((produced, given)) => Settled::Done(index, produced, given),
                // In a box: looking up what a refusal tells made every waiting answer 3.5 KiB large, and a core has
                // thousands of them waiting.
                Err(refusal) => {
                    let name = &topic.name;
                    Box::pin(Settled::refused(&request, &mut leaders, name, index, refusal)).await
                }
            });
        }
        settled.push((topic.name, partitions));
    }
    let responses = settled.iter().map(|(name, partitions)| TopicResponse {
        name,
        partition_responses: partitions.iter().map(Settled::response).collect(),
        ..Default::default()
    });
    let nodes = leaders.advertised(&request);
    let node_endpoints = nodes.iter().map(|n| NodeEndpoint {
        node_id: n.id,
        host: &n.host,
        port: n.port,
        rack: None,
    });
    let response = Response {
        responses: responses.collect(),
        node_endpoints: node_endpoints.collect(),
        ..Default::default()
    };
    list(&request, &response)
}

async fn settle(outcome: Outcome) -> Result<(Produced, Option<i64>), Refusal> {
    match outcome {
        Outcome::Refused(refusal) => Err(refusal),
        Outcome::Waiting(producing, given) => Ok((producing.done().await?, given)),
    }
}

/// What a partition's answer says.
enum Settled {
    /// With the time that the broker gave the records, if it did.
    Done(i32, Produced, Option<i64>),
    Refused {
        index: i32,
        refusal: Refusal,
        log_start: i64,
        leader: Option<(i32, i32)>,
    },
}

impl Settled {
    async fn refused(
        request: &Request,
        leaders: &mut Leaders,
        topic: &str,
        index: i32,
        refusal: Refusal,
    ) -> Settled {
        let shard = request.context.shard();
        let id = shard.view().partition(topic, index);
        let log_start = match id.filter(|_| refusal.at_log) {
            Some(id) => shard.offset(id, OffsetQuery::Earliest, -1).await.map_or(-1, |o| o.offset),
            None => -1,
        };
        let elsewhere = refusal.code == ErrorCode::NotLeaderOrFollower;
        let leader = match id.filter(|_| elsewhere && request.version >= TELLS_LEADERS) {
            Some(id) => leaders.of(request, id),
            None => None,
        };
        Settled::Refused { index, refusal, log_start, leader }
    }

    fn response(&self) -> PartitionResponse<'_> {
        match self {
            Settled::Done(index, produced, given) => PartitionResponse {
                index: *index,
                base_offset: produced.base_offset,
                log_append_time_ms: given.unwrap_or(-1),
                log_start_offset: produced.log_start,
                ..Default::default()
            },
            Settled::Refused { index, refusal, log_start, leader } => PartitionResponse {
                index: *index,
                error_code: refusal.code,
                base_offset: -1,
                log_start_offset: *log_start,
                record_errors: refusal
                    .records
                    .iter()
                    .map(|(at, why)| RecordError {
                        batch_index: *at,
                        batch_index_error_message: Some(why),
                    })
                    .collect(),
                error_message: Some(&refusal.why),
                current_leader: leader.map_or_else(LeaderIdAndEpoch::default, |(id, epoch)| {
                    LeaderIdAndEpoch { leader_id: id, leader_epoch: epoch }
                }),
                ..Default::default()
            },
        }
    }
}
