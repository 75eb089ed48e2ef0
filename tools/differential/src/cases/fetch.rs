//! Fetch: sizes, waits, places, sessions, isolation.

use rillway_wire::api::fetch::{ForgottenTopic, Partition, Request, Response, Topic};
use rillway_wire::batch::{BatchBuilder, Codec};
use rillway_wire::{ApiKey, Uuid};

use super::produce::{batch, to};
use super::{Case, case, case_from};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case(ApiKey::Fetch, "from every place", places),
    case(ApiKey::Fetch, "topics and partitions that there are not", unknown),
    case(ApiKey::Fetch, "limits below one batch", limits),
    case(ApiKey::Fetch, "limits between batches", between),
    case(ApiKey::Fetch, "waits that end without enough", waits),
    case(ApiKey::Fetch, "both isolation levels, and others", isolation),
    case(ApiKey::Fetch, "several partitions", several),
    case(ApiKey::Fetch, "zstd and old versions", zstd),
    case_from(ApiKey::Fetch, 7, "sessions", sessions),
    case_from(ApiKey::Fetch, 7, "within a session", within),
    case_from(ApiKey::Fetch, 7, "a topic that goes during a session", deleted),
    case_from(ApiKey::Fetch, 9, "leader epochs", epochs),
    case(ApiKey::Fetch, "nothing, and strange numbers", strange),
    case_from(ApiKey::Fetch, 11, "racks", racks),
];

const LARGE: i32 = 1 << 20;

fn partition(partition: i32, fetch_offset: i64) -> Partition {
    Partition { partition, fetch_offset, partition_max_bytes: LARGE, ..Default::default() }
}

pub(super) fn from(topics: Vec<(&'static str, Vec<Partition>)>) -> Request<'static> {
    let topics = topics.into_iter().map(|(topic, partitions)| Topic {
        topic,
        partitions: partitions.into(),
        ..Default::default()
    });
    Request {
        replica_id: -1,
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: 64 << 20,
        topics: topics.collect(),
        ..Default::default()
    }
}

/// The request with its topics named by id, as versions from 13 on do.
fn by_id(peer: &mut Peer, request: &Request<'static>, version: i16) -> Request<'static> {
    if version < 13 {
        return request.clone();
    }
    // Without a name, no id; and an id that nobody has for a topic that there is not. (In a session Kafka fails inside at
    // no id at all.)
    let mut id = |name: &'static str| match peer.topic_id(name) {
        none if none.is_zero() && !name.is_empty() => Uuid([0xab; 16]),
        id => id,
    };
    let topics = request.topics.iter().map(|t| Topic { topic_id: id(t.topic), ..t }).collect();
    let gone = request.forgotten_topics_data.iter();
    let gone = gone.map(|t| ForgottenTopic { topic_id: id(t.topic), ..t }).collect();
    Request { topics, forgotten_topics_data: gone, ..request.clone() }
}

fn ask(peer: &mut Peer, step: &str, request: &Request<'static>, version: i16) -> Response<'static> {
    let request = by_id(peer, request, version);
    peer.call(step, &request, version)
}

/// Notes all that is in a partition.
pub(super) fn all_of(peer: &mut Peer, step: &str, name: &'static str, index: i32) {
    peer.call(step, &from(vec![(name, vec![partition(index, 0)])]), 11);
}

fn fill(peer: &mut Peer, name: &'static str, index: i32, batches: &[&[&str]]) {
    for values in batches {
        let bytes = batch(peer, values);
        let answer = peer.ask(&to(name, index, &bytes, -1), 7).unwrap_or_default();
        let code = answer
            .responses
            .first()
            .and_then(|t| t.partition_responses.first().map(|p| p.error_code));
        assert_eq!(code, Some(rillway_wire::ErrorCode::None), "{name}-{index} is filled");
    }
}

fn places(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    all_of(peer, "an empty one", name, 0);
    fill(peer, name, 0, &[&["a", "b", "c"], &["d", "e"]]);
    for offset in [0, 1, 3, 4, 5, 6, 100, i64::MAX, -1, -2] {
        let request = from(vec![(name, vec![partition(0, offset)])]);
        ask(peer, &format!("from {offset}"), &request, version);
    }
}

fn unknown(peer: &mut Peer, version: i16) {
    let (name, missing) = (peer.create("t", 1, &[]), peer.name("missing"));
    fill(peer, name, 0, &[&["a"]]);
    for (step, topics) in [
        ("no such topic", vec![(missing, vec![partition(0, 0)])]),
        ("no such partition", vec![(name, vec![partition(1, 0)])]),
        ("a negative partition", vec![(name, vec![partition(-1, 0)])]),
        ("no name", vec![("", vec![partition(0, 0)])]),
        ("one of two", vec![(name, vec![partition(0, 0)]), (missing, vec![partition(0, 0)])]),
        ("no partitions", vec![(name, vec![])]),
    ] {
        ask(peer, step, &from(topics), version);
    }
}

fn limits(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 2, &[]);
    let large: &'static str = "x".repeat(100_000).leak();
    fill(peer, name, 0, &[&[large]]);
    fill(peer, name, 1, &[&[large]]);
    for (step, max_bytes, partition_max_bytes) in
        [("1 and 1", 1, 1), ("0 and 0", 0, 0), ("1 and much", 1, LARGE), ("much and 1", LARGE, 1)]
    {
        let mut at = [0, 0];
        // From the positions that each answer leads to, until both are at their end.
        for round in 0..3 {
            let partitions = [0, 1].map(|index: i32| Partition {
                partition_max_bytes,
                ..partition(index, at[index as usize])
            });
            let request = Request {
                max_bytes,
                min_bytes: 1,
                max_wait_ms: 200,
                ..from(vec![(name, partitions.to_vec())])
            };
            let answer = ask(peer, &format!("{step}, round {round}"), &request, version);
            for p in answer.responses.iter().flat_map(|t| t.partitions.iter().collect::<Vec<_>>()) {
                if !p.records.bytes().is_empty() {
                    at[p.partition_index as usize] += 1;
                }
            }
        }
    }
}

fn between(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    fill(peer, name, 0, &[&["a"], &["b"], &["c"]]);
    let one = i32::try_from(batch(peer, &["a"]).len()).expect("small");
    for (step, bytes) in [
        ("one", one),
        ("one and a byte", one + 1),
        ("two less a byte", 2 * one - 1),
        ("two", 2 * one),
        ("less than one", one - 1),
    ] {
        // What is cut off at the end of an answer is not compared: a reader skips it.
        let whole = |bytes: i32| Partition { partition_max_bytes: bytes, ..partition(0, 0) };
        let request = from(vec![(name, vec![whole(bytes)])]);
        let request = by_id(peer, &request, version);
        peer.call_showing(step, &request, version, |answer| {
            let topic = answer.responses.first();
            let found = topic.and_then(|t| t.partitions.first());
            let batches = found.map(|p| {
                rillway_wire::batch::batches(p.records.bytes()).filter(Result::is_ok).count()
            });
            batches.unwrap_or_default()
        });
    }
}

fn waits(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    let asking = |offset, min_bytes, max_wait_ms| Request {
        min_bytes,
        max_wait_ms,
        ..from(vec![(name, vec![partition(0, offset)])])
    };
    ask(peer, "nothing there", &asking(0, 1, 100), version);
    fill(peer, name, 0, &[&["a"]]);
    ask(peer, "too little", &asking(0, 1_000_000, 100), version);
    ask(peer, "enough", &asking(0, 1, 10_000), version);
    ask(peer, "no wait", &asking(0, 1_000_000, 0), version);
    ask(peer, "a negative wait", &asking(1, 1, -1), version);
    ask(peer, "an error does not wait", &asking(7, 1, 10_000), version);
}

fn isolation(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    for step in ["empty", "filled"] {
        for isolation_level in [0, 1, 2, -1] {
            let request = Request { isolation_level, ..from(vec![(name, vec![partition(0, 0)])]) };
            ask(peer, &format!("{step}, level {isolation_level}"), &request, version);
        }
        if step == "empty" {
            fill(peer, name, 0, &[&["a", "b"]]);
        }
    }
}

fn several(peer: &mut Peer, version: i16) {
    let (a, b) = (peer.create("a", 2, &[]), peer.create("b", 1, &[]));
    fill(peer, a, 0, &[&["a"]]);
    fill(peer, b, 0, &[&["b", "c"]]);
    let all = vec![(a, vec![partition(0, 0), partition(1, 0)]), (b, vec![partition(0, 1)])];
    ask(peer, "all", &from(all), version);
    ask(
        peer,
        "a topic in two parts",
        &from(vec![(a, vec![partition(1, 0)]), (a, vec![partition(0, 0)])]),
        version,
    );
    ask(
        peer,
        "a partition twice",
        &from(vec![(a, vec![partition(0, 0), partition(0, 1)])]),
        version,
    );
}

fn zstd(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    let mut builder = BatchBuilder::new(Codec::Zstd);
    builder.push(peer.now_ms, None, Some(&[b'x'; 200]), &[]);
    let bytes = builder.build().expect("a batch");
    peer.ask(&to(name, 0, &bytes, -1), 7).expect("produced");
    ask(peer, "zstd", &from(vec![(name, vec![partition(0, 0)])]), version);
}

fn sessions(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    fill(peer, name, 0, &[&["a"]]);
    let asking = |session_id, session_epoch| Request {
        session_id,
        session_epoch,
        ..from(vec![(name, vec![partition(0, 0)])])
    };
    ask(peer, "no session wanted", &asking(0, -1), version);
    let id = ask(peer, "a new one", &asking(0, 0), version).session_id;
    let done = forgetting(vec![(name, vec![0])], from(vec![]));
    ask(peer, "no session, and a topic to forget", &done, version);
    ask(peer, "one that nobody has", &asking(77, 5), version);
    ask(peer, "an end of one that nobody has", &asking(77, -1), version);
    ask(peer, "an epoch without a session", &asking(0, 5), version);
    ask(peer, "its end", &asking(id, -1), version);
    ask(peer, "after its end", &asking(id, 1), version);
}

fn forgetting(
    topics: Vec<(&'static str, Vec<i32>)>,
    request: Request<'static>,
) -> Request<'static> {
    let topics = topics.into_iter().map(|(topic, partitions)| ForgottenTopic {
        topic,
        partitions: partitions.into(),
        ..Default::default()
    });
    Request { forgotten_topics_data: topics.collect(), ..request }
}

/// A session from its first request to its end.
fn within(peer: &mut Peer, version: i16) {
    let (a, b) = (peer.create("a", 2, &[]), peer.create("b", 1, &[]));
    let missing = peer.name("missing");
    let all = from(vec![
        (a, vec![partition(0, 0), partition(1, 0)]),
        (b, vec![partition(0, 0), partition(5, 0)]),
        (missing, vec![partition(0, 0)]),
    ]);
    let first = Request { session_epoch: 0, ..all };
    let session_id = ask(peer, "a new one", &first, version).session_id;
    let mut epoch = 0;
    let mut next = |peer: &mut Peer, step: &str, request: Request<'static>| {
        epoch += 1;
        ask(peer, step, &Request { session_id, session_epoch: epoch, ..request }, version);
    };
    next(peer, "nothing new", from(vec![]));
    next(
        peer,
        "without what there is not",
        forgetting(vec![(b, vec![5]), (missing, vec![0])], from(vec![])),
    );
    next(peer, "nothing new again", from(vec![]));
    fill(peer, a, 1, &[&["a"]]);
    next(peer, "records", from(vec![]));
    next(peer, "records again", from(vec![]));
    next(peer, "read on", from(vec![(a, vec![partition(1, 1)])]));
    next(peer, "out of range", from(vec![(b, vec![partition(0, 7)])]));
    next(peer, "still out of range", from(vec![]));
    next(peer, "in range again", from(vec![(b, vec![partition(0, 0)])]));
    next(peer, "nothing new at last", from(vec![]));
    let wrong = |session_epoch| Request { session_id, session_epoch, ..from(vec![]) };
    for wrong_epoch in [1, 100, -2] {
        ask(peer, &format!("epoch {wrong_epoch}"), &wrong(wrong_epoch), version);
    }
    if version >= 12 {
        // As a client that changes its mind about ids.
        let other = if version >= 13 { 12 } else { 13 };
        ask(peer, "names and ids mixed", &wrong(11), other);
    }
    next(peer, "one is forgotten", forgetting(vec![(a, vec![1])], from(vec![])));
    fill(peer, a, 1, &[&["b"]]);
    next(peer, "records of the forgotten one", from(vec![]));
    next(peer, "it comes back", from(vec![(a, vec![partition(1, 1)])]));
    next(peer, "all are forgotten", forgetting(vec![(a, vec![0, 1]), (b, vec![0])], from(vec![])));
    next(peer, "after that", from(vec![]));
}

/// A topic that goes while a session has it, and another one of its name.
fn deleted(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    let request = Request { session_epoch: 0, ..from(vec![(name, vec![partition(0, 0)])]) };
    let session_id = ask(peer, "a new one", &request, version).session_id;
    let next = |session_epoch| Request { session_id, session_epoch, ..from(vec![]) };
    let old = Request { session_epoch: -1, ..by_id(peer, &request, version) };
    peer.delete(name);
    ask(peer, "deleted", &next(1), version);
    peer.call("deleted, without a session", &old, version);
    peer.create("t", 1, &[]);
    ask(peer, "created again", &next(2), version);
    peer.call("created again, without a session", &old, version);
}

fn epochs(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    fill(peer, name, 0, &[&["a"]]);
    for epoch in [-1, 0, 1, 100, -2] {
        for offset in [0, 7] {
            let p = Partition { current_leader_epoch: epoch, ..partition(0, offset) };
            ask(
                peer,
                &format!("epoch {epoch}, from {offset}"),
                &from(vec![(name, vec![p])]),
                version,
            );
        }
    }
    if version >= 12 {
        let p = Partition { last_fetched_epoch: 0, ..partition(0, 0) };
        ask(peer, "with the last epoch", &from(vec![(name, vec![p])]), version);
        let p = Partition { last_fetched_epoch: 5, ..partition(0, 1) };
        ask(peer, "with a last epoch from the future", &from(vec![(name, vec![p])]), version);
    }
}

fn strange(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    fill(peer, name, 0, &[&["a"]]);
    ask(peer, "no topics", &from(vec![]), version);
    let whole = from(vec![(name, vec![partition(0, 0)])]);
    ask(peer, "a negative max_bytes", &Request { max_bytes: -1, ..whole.clone() }, version);
    ask(peer, "a negative min_bytes", &Request { min_bytes: -1, ..whole }, version);
    let p = Partition { partition_max_bytes: -1, ..partition(0, 0) };
    ask(peer, "a negative limit", &from(vec![(name, vec![p])]), version);
}

fn racks(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    fill(peer, name, 0, &[&["a"]]);
    let request = Request { rack_id: "a rack", ..from(vec![(name, vec![partition(0, 0)])]) };
    ask(peer, "a rack", &request, version);
}
