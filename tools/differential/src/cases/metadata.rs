//! Metadata: topics by name and by id, that there are and that there are not.

use rillway_wire::api::metadata::{Request, Response, TopicRequest};
use rillway_wire::{ApiKey, Array, Uuid};

use super::{Case, case, case_from};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case(ApiKey::Metadata, "no topics, or all", none_or_all),
    case(ApiKey::Metadata, "topics by name", by_name),
    case(ApiKey::Metadata, "a topic that is missing, without creation", missing),
    case(ApiKey::Metadata, "a topic that is missing is created when it is asked for", created),
    case(ApiKey::Metadata, "names that no topic may have", bad_names),
    case_from(ApiKey::Metadata, 10, "topics by id", by_id),
    case_from(ApiKey::Metadata, 8, "what a client may do", operations),
];

fn named(names: &[&'static str]) -> Option<Array<'static, TopicRequest<'static>>> {
    let topic = |name: &&'static str| TopicRequest { name: Some(name), ..Default::default() };
    Some(names.iter().map(topic).collect())
}

fn quiet(names: &[&'static str]) -> Request<'static> {
    Request { topics: named(names), allow_auto_topic_creation: false, ..Default::default() }
}

fn none_or_all(peer: &mut Peer, version: i16) {
    let mine = peer.create("mine", 2, &[]);
    // Other cases have left theirs behind, so only one topic and the rest of the answer are looked at.
    let shown = |answer: &Response<'static>| {
        let topics = answer.topics.iter().filter(|t| t.name == Some(mine));
        Response { topics: topics.collect(), ..answer.clone() }
    };
    let nothing = quiet(&[]);
    peer.call_showing("an empty list", &nothing, version, shown);
    peer.call_showing("null", &Request { topics: None, ..nothing }, version, shown);
}

fn by_name(peer: &mut Peer, version: i16) {
    let (one, three) = (peer.create("one", 1, &[]), peer.create("three", 3, &[]));
    peer.call("one", &quiet(&[one]), version);
    peer.call("both", &quiet(&[one, three]), version);
    peer.call("one, twice", &quiet(&[one, one]), version);
}

fn missing(peer: &mut Peer, version: i16) {
    // Before version 4 it is created whatever the request says.
    if version >= 4 {
        let there = peer.create("there", 1, &[]);
        let name = peer.name("missing");
        peer.call("missing", &quiet(&[name]), version);
        peer.call("and one that is there", &quiet(&[name, there]), version);
    }
}

fn created(peer: &mut Peer, version: i16) {
    let name = peer.name("auto");
    let request = Request { topics: named(&[name]), ..Default::default() };
    let led = |answer: &Response<'_>| {
        let topic = answer.topics.first();
        topic.is_some_and(|t| t.error_code == rillway_wire::ErrorCode::None)
    };
    peer.call_until("created", &request, version, led);
}

fn bad_names(peer: &mut Peer, version: i16) {
    let long: &'static str = "x".repeat(250).leak();
    for (step, name) in [
        ("empty", ""),
        ("a dot", "."),
        ("two dots", ".."),
        ("a slash", "a/b"),
        ("a space", "a b"),
        ("letters of elsewhere", "ä"),
        ("250 bytes", long),
    ] {
        peer.call(step, &Request { topics: named(&[name]), ..Default::default() }, version);
    }
}

fn by_id(peer: &mut Peer, version: i16) {
    let name = peer.create("known", 2, &[]);
    let found = peer.ask(&quiet(&[name]), 12).unwrap_or_default();
    let id = found.topics.first().map_or(Uuid::ZERO, |t| t.topic_id);
    let ask = |peer: &mut Peer, step: &str, topic_id, name| {
        let topic = TopicRequest { topic_id, name };
        let request = Request {
            topics: Some(vec![topic].into()),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        peer.call(step, &request, version);
    };
    ask(peer, "its id", id, None);
    ask(peer, "its id and its name", id, Some(name));
    ask(peer, "an id that nobody has", Uuid([7; 16]), None);
    ask(peer, "neither", Uuid::ZERO, None);
    ask(peer, "an empty name", Uuid::ZERO, Some(""));
    ask(peer, "its id and an empty name", id, Some(""));
}

fn operations(peer: &mut Peer, version: i16) {
    let name = peer.create("mine", 1, &[]);
    let request = Request {
        include_topic_authorized_operations: true,
        include_cluster_authorized_operations: version <= 10,
        ..quiet(&[name])
    };
    peer.call("operations", &request, version);
}
