//! Fetch, key 1, served 4-17.
//!
//! - Size limits by KIP-74: the first batch of the first partition that has one comes whole, whatever the limits.
//! - Sessions (KIP-227): `plan` works out what is wanted, from the request alone or from its session; `fetch_sessions`
//!   keeps them. An answer within a session names only partitions with records, errors or new ends.
//! - From version 13 on topics are named by id: an unknown one is UNKNOWN_TOPIC_ID for each of its partitions, and one
//!   that a session knew and that has been deleted and created anew is INCONSISTENT_TOPIC_ID.
//! - READ_COMMITTED is accepted: without transactions the last stable offset is the high watermark.
//! - The preferred replica is always -1; aborted transactions are null, and an empty list for READ_COMMITTED.
//! - From version 16 on an answer that says that another node or epoch leads says which, and where it is (KIP-951).
//!
//! Skipped: rack id, state, directory, log start and last fetched epoch of followers (there are none yet).

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use rillway_io::IoList;
use rillway_shard::{
    FetchSpec, Fetched, FetchedPartition, FetchedRecords, PartitionError, PartitionId,
};
use rillway_wire::api::fetch::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionResponse, Request as Body, Response, TopicResponse,
};
use rillway_wire::{ErrorCode, Frame, Part, Records, ResponseMessage, Uuid};

use crate::apis::leaders::Leaders;
use crate::apis::{later, ready};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;
use crate::fetch_sessions::{Answered, FINAL_EPOCH, Opened, Session, Told, TopicKey};

mod plan;

use plan::{Line, Place, Plan, Topic};

/// `isolation_level` of a reader that wants nothing of an open transaction.
const READ_COMMITTED: i8 = 1;
/// First version that names topics by id.
const BY_ID: i16 = 13;
/// First version that tells who leads instead.
const TELLS_LEADERS: i16 = 16;

/// What becomes of the session when the answer is there.
enum Keeping {
    Nothing,
    /// A new one is made of what was asked.
    New,
    /// It goes on, if it still has this epoch.
    Session(Rc<RefCell<Session>>, i32),
}

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let by_id = request.version >= BY_ID;
    let view = request.context.shard().view();
    let (plan, keeping) = match open(&request, body, by_id) {
        Opened::Refused(error_code) => {
            return ready(&request, &Response { error_code, ..Default::default() });
        }
        Opened::Sessionless => (Plan::of_request(body, by_id, &view, false), Keeping::Nothing),
        Opened::New => (Plan::of_request(body, by_id, &view, true), Keeping::New),
        Opened::Incremental(session, epoch) => {
            let plan = Plan::of_session(&mut session.borrow_mut(), &view);
            (plan, Keeping::Session(session, epoch))
        }
    };
    // Who names a partition that is not there hears of it at once. In a session it is named by every request without a
    // word: answered at once each time, a reader that does not drop it would go round and round.
    let at_once = plan.has_failed && !matches!(keeping, Keeping::Session(..));
    let max_wait = if at_once { 0 } else { u64::try_from(body.max_wait_ms).unwrap_or(0) };
    let Plan { topics, asked, wanted, .. } = plan;
    let spec = FetchSpec {
        partitions: asked,
        max_bytes: usize::try_from(body.max_bytes)
            .unwrap_or(0)
            .min(request.context.limits().fetch_bytes_max),
        min_bytes: usize::try_from(body.min_bytes).unwrap_or(0),
        max_wait: Duration::from_millis(max_wait),
        cached: request.context.shard().store().transfer().splices(),
    };
    let committed = body.isolation_level == READ_COMMITTED;
    later(async move {
        let fetched = request.context.shard().fetch(spec).await;
        let leaders = Leaders::default();
        let mut answers =
            Answers { request: &request, fetched: &fetched.partitions, committed, leaders };
        let response = match keeping {
            Keeping::Nothing => answers.all(&topics, 0),
            Keeping::New => {
                let lines = topics.iter().flat_map(|t| &t.partitions);
                let told: Vec<Answered> = lines.map(|l| answers.answered(l)).collect();
                let shard = request.context.shard();
                let mut sessions = request.context.inner.sessions.borrow_mut();
                let answered = wanted.into_iter().zip(told).map(|((w, name), a)| (w, name, a));
                let rt = shard.runtime();
                let id = sessions.create(rt.now(), by_id, answered, || rt.random_u64());
                answers.all(&topics, id)
            }
            Keeping::Session(session, epoch) => {
                let mut session = session.borrow_mut();
                if session.epoch() == epoch {
                    answers.changed(&topics, &mut session)
                } else {
                    let error_code = ErrorCode::InvalidFetchSessionEpoch;
                    Response { error_code, session_id: session.id(), ..Default::default() }
                }
            }
        };
        let nodes = answers.leaders.advertised(&request);
        let node_endpoints = nodes.iter().map(|n| NodeEndpoint {
            node_id: n.id,
            host: &n.host,
            port: n.port,
            rack: None,
        });
        let response = Response { node_endpoints: node_endpoints.collect(), ..response };
        let refused = response.error_code != ErrorCode::None;
        let frame = response.response_frame(request.version, request.correlation_id);
        Ok(Some(if refused { fill(frame, Vec::new()) } else { finish(frame, fetched) }))
    })
}

/// What the request is to its session; most readers of few partitions have none.
fn open(request: &Request, body: &Body<'_>, by_id: bool) -> Opened {
    if body.session_epoch == FINAL_EPOCH && body.session_id == 0 {
        return Opened::Sessionless;
    }
    let naming =
        crate::fetch_sessions::Naming { id: body.session_id, epoch: body.session_epoch, by_id };
    let now = request.context.shard().runtime().now();
    let mut sessions = request.context.inner.sessions.borrow_mut();
    sessions.open(now, naming, plan::wanted(body, by_id), plan::forgotten(body, by_id))
}

/// Makes the parts of an answer.
struct Answers<'a> {
    request: &'a Request,
    fetched: &'a [FetchedPartition],
    committed: bool,
    leaders: Leaders,
}

impl<'a> Answers<'a> {
    fn all(&mut self, topics: &'a [Topic], session_id: i32) -> Response<'a> {
        let mut responses = Vec::with_capacity(topics.len());
        for topic in topics {
            let partitions = topic.partitions.iter().map(|line| self.partition(line)).collect();
            responses.push(TopicResponse { partitions, ..named(topic) });
        }
        Response { session_id, responses: responses.into(), ..Default::default() }
    }

    fn changed(&mut self, topics: &'a [Topic], session: &mut Session) -> Response<'a> {
        let mut responses = Vec::new();
        for topic in topics {
            let mut partitions = Vec::new();
            for line in &topic.partitions {
                let told = self.answered(line);
                if line.turn.is_some_and(|turn| session.answer(turn, told)) {
                    partitions.push(self.partition(line));
                }
            }
            if !partitions.is_empty() {
                responses.push(TopicResponse { partitions: partitions.into(), ..named(topic) });
            }
        }
        let session_id = session.id();
        Response { session_id, responses: responses.into(), ..Default::default() }
    }

    /// What a partition's answer says to its session.
    fn answered(&self, line: &Line) -> Answered {
        let found = match line.place {
            Place::Asked(at, _) => Some(&self.fetched[at]).filter(|f| f.result.is_ok()),
            Place::Failed(_) => None,
        };
        match found {
            Some(f) => Answered {
                told: Told { high_watermark: f.high_watermark, log_start: f.log_start },
                has_records: f.bytes > 0,
                failed: false,
            },
            None => Answered {
                told: Told { high_watermark: -1, log_start: -1 },
                has_records: false,
                failed: true,
            },
        }
    }

    fn partition(&mut self, line: &Line) -> PartitionResponse<'a> {
        let partition_index = line.index;
        // Offsets are told only with success, as in Kafka.
        let failed = |error_code| PartitionResponse {
            partition_index,
            error_code,
            high_watermark: -1,
            records: Records::Bytes(&[]),
            ..Default::default()
        };
        let none_aborted = Some(Vec::new().into());
        let (at, id) = match line.place {
            Place::Asked(at, id) => (at, id),
            // Known by its name, as Kafka finds out when it reads.
            Place::Failed(code @ ErrorCode::InconsistentTopicId) => return failed(code),
            Place::Failed(code) => {
                return PartitionResponse { aborted_transactions: none_aborted, ..failed(code) };
            }
        };
        let found = &self.fetched[at];
        if let Err(e) = &found.result {
            let current_leader = self.leader(id, e);
            return PartitionResponse { current_leader, ..failed(error_codes::partition(e)) };
        }
        PartitionResponse {
            partition_index,
            high_watermark: found.high_watermark,
            last_stable_offset: found.high_watermark,
            log_start_offset: found.log_start,
            aborted_transactions: if self.committed { none_aborted } else { None },
            records: match found.bytes {
                0 => Records::Bytes(&[]),
                bytes => Records::Later(bytes),
            },
            ..Default::default()
        }
    }

    fn leader(&mut self, id: PartitionId, e: &PartitionError) -> LeaderIdAndEpoch {
        let code = error_codes::partition(e);
        let elsewhere =
            [ErrorCode::NotLeaderOrFollower, ErrorCode::FencedLeaderEpoch].contains(&code);
        if !elsewhere || self.request.version < TELLS_LEADERS {
            return LeaderIdAndEpoch::default();
        }
        match self.leaders.of(self.request, id) {
            Some((leader_id, leader_epoch)) => LeaderIdAndEpoch { leader_id, leader_epoch },
            None => LeaderIdAndEpoch::default(),
        }
    }
}

fn named(topic: &Topic) -> TopicResponse<'_> {
    match &topic.key {
        TopicKey::Name(name) => TopicResponse { topic: name, ..Default::default() },
        TopicKey::Id(id) => TopicResponse { topic_id: Uuid(id.0), ..Default::default() },
    }
}

fn finish(frame: Frame, fetched: Fetched) -> IoList {
    let mut list = fill(frame, fetched.partitions);
    fetched.memory.into_iter().for_each(|permit| list.hold(permit));
    list
}

/// Puts the records into the frame's holes, in order, without a copy.
fn fill(frame: Frame, partitions: Vec<FetchedPartition>) -> IoList {
    let mut records = partitions.into_iter().filter(|p| p.bytes > 0).map(|p| p.records);
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
    list
}
