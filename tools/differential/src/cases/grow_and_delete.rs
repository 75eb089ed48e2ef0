//! CreatePartitions and DeleteTopics.

use rillway_wire::api::create_partitions::{Assignment, Request as Grow, Topic as Growing};
use rillway_wire::api::delete_topics::{Request as Delete, Topic as Doomed};
use rillway_wire::api::metadata;
use rillway_wire::{ApiKey, ErrorCode, Uuid};

use super::{Case, case, case_from};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case(ApiKey::CreatePartitions, "numbers", numbers),
    case(ApiKey::CreatePartitions, "assignments by hand", assignments),
    case(ApiKey::CreatePartitions, "only checked", validate_only),
    case(ApiKey::CreatePartitions, "a topic twice, and several", twice),
    case(ApiKey::DeleteTopics, "topics by name", by_name),
    case_from(ApiKey::DeleteTopics, 6, "topics by id", by_id),
];

fn growing(name: &'static str, count: i32) -> Growing<'static> {
    Growing { name, count, assignments: None }
}

fn grow(peer: &mut Peer, step: &str, topics: Vec<Growing<'static>>, version: i16) {
    peer.call(
        step,
        &Grow { topics: topics.into(), timeout_ms: 10_000, validate_only: false },
        version,
    );
}

fn numbers(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 2, &[]);
    for count in [-1, 0, 1, 2] {
        grow(peer, &format!("to {count}"), vec![growing(name, count)], version);
    }
    grow(peer, "to 3", vec![growing(name, 3)], version);
    peer.wait_for(name, 0..3);
    let missing = peer.name("missing");
    grow(peer, "a topic that there is not", vec![growing(missing, 3)], version);
    grow(peer, "no name", vec![growing("", 3)], version);
    grow(peer, "no topics", vec![], version);
}

fn assignments(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    let assigned = |count, brokers: &[&[i32]]| {
        let assignment = |b: &&[i32]| Assignment { broker_ids: b.to_vec().into() };
        let assignments = Some(brokers.iter().map(assignment).collect());
        Growing { assignments, ..growing(name, count) }
    };
    for (step, topic) in [
        ("too few", assigned(3, &[&[1000]])),
        ("too many", assigned(2, &[&[1000], &[1000]])),
        ("none", assigned(2, &[])),
        ("no replica", assigned(2, &[&[]])),
        ("a broker that there is not", assigned(2, &[&[7]])),
        ("a broker twice", assigned(2, &[&[1000, 1000]])),
        ("good", assigned(2, &[&[1000]])),
    ] {
        grow(peer, step, vec![topic], version);
    }
}

fn validate_only(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    for (step, count) in [("good", 2), ("and again: it did not grow", 2), ("not more", 1)] {
        let request = Grow {
            topics: vec![growing(name, count)].into(),
            timeout_ms: 10_000,
            validate_only: true,
        };
        peer.call(step, &request, version);
    }
}

fn twice(peer: &mut Peer, version: i16) {
    let (a, b) = (peer.create("a", 1, &[]), peer.create("b", 1, &[]));
    let topics = vec![growing(a, 2), growing(b, 2), growing(a, 3)];
    grow(peer, "one twice", topics, version);
}

fn delete(peer: &mut Peer, step: &str, topics: &[(Option<&'static str>, Uuid)], version: i16) {
    let request = if version >= 6 {
        let doomed = |(name, topic_id): &(Option<&'static str>, Uuid)| Doomed {
            name: *name,
            topic_id: *topic_id,
        };
        Delete {
            topics: topics.iter().map(doomed).collect(),
            timeout_ms: 10_000,
            ..Default::default()
        }
    } else {
        let names = topics.iter().filter_map(|(name, _)| *name).collect();
        Delete { topic_names: names, timeout_ms: 10_000, ..Default::default() }
    };
    peer.call(step, &request, version);
}

fn by_name(peer: &mut Peer, version: i16) {
    let (a, b) = (peer.create("a", 2, &[]), peer.create("b", 1, &[]));
    let missing = peer.name("missing");
    let name = |n| (Some(n), Uuid::ZERO);
    delete(peer, "missing", &[name(missing)], version);
    delete(peer, "no name", &[name("")], version);
    delete(peer, "a name that no topic may have", &[name("a/b")], version);
    delete(peer, "one, and a missing one", &[name(a), name(missing)], version);
    delete(peer, "gone already", &[name(a)], version);
    delete(peer, "twice in one request", &[name(b), name(b)], version);
    delete(peer, "no topics", &[], version);
}

/// The id of a topic.
pub(super) fn id_of(peer: &mut Peer, name: &'static str) -> Uuid {
    let topic = metadata::TopicRequest { name: Some(name), ..Default::default() };
    let request = metadata::Request { topics: Some(vec![topic].into()), ..Default::default() };
    let found = peer.ask(&request, 12).unwrap_or_default();
    let topic = found.topics.first().expect("a topic");
    assert_eq!(topic.error_code, ErrorCode::None, "{name}");
    topic.topic_id
}

fn by_id(peer: &mut Peer, version: i16) {
    let (a, b) = (peer.create("a", 1, &[]), peer.create("b", 1, &[]));
    let (a_id, b_id) = (id_of(peer, a), id_of(peer, b));
    delete(peer, "nobody's", &[(None, Uuid([7; 16]))], version);
    delete(peer, "neither", &[(None, Uuid::ZERO)], version);
    delete(peer, "both", &[(Some(a), a_id)], version);
    delete(peer, "its id", &[(None, a_id)], version);
    delete(peer, "its id again", &[(None, a_id)], version);
    delete(peer, "twice, by id", &[(None, b_id), (None, b_id)], version);
    let c = peer.create("c", 1, &[]);
    let c_id = id_of(peer, c);
    delete(peer, "twice, by id and by name", &[(None, c_id), (Some(c), Uuid::ZERO)], version);
}
