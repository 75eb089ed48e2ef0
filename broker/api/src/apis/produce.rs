//! Produce, key 0, advertised 0-9, served 3-9.
//!
//! - Versions 0-2 carry formats that Kafka 4 no longer takes; they are advertised for old librdkafka and answered with
//!   UNSUPPORTED_VERSION (see `versions`).
//! - zstd needs version 7 (KIP-110).
//! - acks=0 gets no answer; an error closes the connection, so that the client looks again.
//! - acks=1 and acks=all both wait for the flush: on one node they are the same. min.insync.replicas asks for no more
//!   replicas than a partition has, in Kafka as here, so one is always enough.
//! - A topic with LogAppendTime gets the broker's time, and the answer tells it.
//!
//! Skipped: timeout_ms. One node waits for its own disk and for nobody else.

use rillway_io::IoList;
use rillway_shard::{PartitionError, Producing, View};
use rillway_wire::api::produce::{
    Partition, PartitionResponse, RecordError, Request as Body, Response, TopicResponse,
};
use rillway_wire::batch::{BatchView, Codec};
use rillway_wire::{ErrorCode, Records};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

mod keys;
mod timestamps;

/// Why a batch is not taken.
struct Refusal {
    code: ErrorCode,
    why: String,
    /// The records at fault, by their place in the batch.
    records: Vec<(i32, String)>,
}

impl Refusal {
    fn of(code: ErrorCode, why: String) -> Refusal {
        Refusal { code, why, records: Vec::new() }
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
                Some((code, why)) => Outcome::Refused(Refusal::of(*code, why.clone())),
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
fn refuse_all(request: &Request, body: &Body<'_>) -> Option<(ErrorCode, String)> {
    if request.version < 3 {
        let why = "message formats 0 and 1 are not taken; use a client that speaks Produce version 3 or later";
        return Some((ErrorCode::UnsupportedVersion, why.to_owned()));
    }
    if ![-1, 0, 1].contains(&body.acks) {
        return Some((
            ErrorCode::InvalidRequiredAcks,
            format!("acks {}, must be -1, 0 or 1", body.acks),
        ));
    }
    if body.transactional_id.is_some() {
        let why = "transactions are not served by this broker";
        return Some((ErrorCode::TransactionalIdAuthorizationFailed, why.to_owned()));
    }
    None
}

async fn append(request: &Request, view: &View, topic: &str, partition: &Partition<'_>) -> Outcome {
    let shard = request.context.shard();
    let Some(id) = view.partition(topic, partition.index) else {
        return refused(&PartitionError::UnknownPartition);
    };
    let settings = view.settings(id.topic);
    let bytes = match partition.records {
        Records::Bytes(bytes) => bytes,
        Records::Null | Records::Later(_) => &[],
    };
    let batch = match BatchView::validate_produce(bytes) {
        Ok(batch) => batch,
        Err(e) => return Outcome::Refused(Refusal::of(e.error_code(), e.to_string())),
    };
    if batch.is_transactional() {
        let why = "a transactional batch, and transactions are not served by this broker";
        let code = ErrorCode::TransactionalIdAuthorizationFailed;
        return Outcome::Refused(Refusal::of(code, why.to_owned()));
    }
    if request.version < 7 && matches!(batch.codec(), Ok(Codec::Zstd)) {
        let why = "zstd needs Produce version 7 or later".to_owned();
        return Outcome::Refused(Refusal::of(ErrorCode::UnsupportedCompressionType, why));
    }
    if settings.log.compact
        && let Err(refusal) = keys::check(&batch, &format!("{topic}-{}", partition.index))
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
        Err((code, why)) => Outcome::Refused(Refusal::of(code, why)),
    }
}

fn refused(e: &PartitionError) -> Outcome {
    Outcome::Refused(Refusal::of(error_codes::partition(e), e.to_string()))
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
    let mut settled = Vec::new();
    for topic in topics {
        let mut partitions = Vec::new();
        for (index, outcome) in topic.partitions {
            partitions.push((index, settle(outcome).await));
        }
        settled.push((topic.name, partitions));
    }
    let responses = settled.iter().map(|(name, partitions)| TopicResponse {
        name,
        partition_responses: partitions
            .iter()
            .map(|(index, settled)| partition_response(*index, settled))
            .collect(),
    });
    list(&request, &Response { responses: responses.collect(), ..Default::default() })
}

type Settled = Result<(rillway_shard::Produced, Option<i64>), Refusal>;

async fn settle(outcome: Outcome) -> Settled {
    match outcome {
        Outcome::Refused(refusal) => Err(refusal),
        Outcome::Waiting(producing, given) => match producing.done().await {
            Ok(produced) => Ok((produced, given)),
            Err(e) => Err(Refusal::of(error_codes::partition(&e), e.to_string())),
        },
    }
}

fn partition_response(index: i32, settled: &Settled) -> PartitionResponse<'_> {
    match settled {
        Ok((produced, given)) => PartitionResponse {
            index,
            base_offset: produced.base_offset,
            log_append_time_ms: given.unwrap_or(-1),
            log_start_offset: produced.log_start,
            ..Default::default()
        },
        Err(refusal) => PartitionResponse {
            index,
            error_code: refusal.code,
            base_offset: -1,
            record_errors: refusal
                .records
                .iter()
                .map(|(at, why)| RecordError {
                    batch_index: *at,
                    batch_index_error_message: Some(why),
                })
                .collect(),
            error_message: Some(&refusal.why),
            ..Default::default()
        },
    }
}
