//! OffsetForLeaderEpoch.

use rillway_wire::ApiKey;
use rillway_wire::api::offset_for_leader_epoch::{Partition, Request, Topic};

use super::produce::{batch, to};
use super::{Case, case, case_from};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case(ApiKey::OffsetForLeaderEpoch, "epochs of a partition", epochs),
    case(ApiKey::OffsetForLeaderEpoch, "what the reader believes", believed),
    case(ApiKey::OffsetForLeaderEpoch, "topics and partitions that there are not", unknown),
    case_from(ApiKey::OffsetForLeaderEpoch, 3, "who asks", who),
];

fn of(topics: Vec<(&'static str, Vec<Partition>)>) -> Request<'static> {
    let topics = topics
        .into_iter()
        .map(|(topic, partitions)| Topic { topic, partitions: partitions.into() });
    Request { replica_id: -1, topics: topics.collect() }
}

fn at(leader_epoch: i32) -> Partition {
    Partition { leader_epoch, ..Default::default() }
}

fn epochs(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    for step in ["empty", "filled"] {
        for epoch in [-1, 0, 1, 100, i32::MAX, -2] {
            peer.call(&format!("{step}, {epoch}"), &of(vec![(name, vec![at(epoch)])]), version);
        }
        let bytes = batch(peer, &["a", "b"]);
        peer.ask(&to(name, 0, &bytes, -1), 7).expect("produced");
    }
}

fn believed(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    for current_leader_epoch in [-1, 0, 1, -2] {
        let p = Partition { current_leader_epoch, ..at(0) };
        peer.call(&format!("{current_leader_epoch}"), &of(vec![(name, vec![p])]), version);
    }
}

fn unknown(peer: &mut Peer, version: i16) {
    let (name, missing) = (peer.create("t", 1, &[]), peer.name("missing"));
    let other = |partition| Partition { partition, ..at(0) };
    for (step, topics) in [
        ("no such topic", vec![(missing, vec![at(0)])]),
        ("no such partition", vec![(name, vec![other(1)])]),
        ("a negative partition", vec![(name, vec![other(-1)])]),
        ("one of two", vec![(name, vec![at(0), other(5)])]),
        ("a partition twice", vec![(name, vec![at(0), at(0)])]),
        ("no topics", vec![]),
    ] {
        peer.call(step, &of(topics), version);
    }
}

fn who(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    for replica_id in [-1, -2] {
        let request = Request { replica_id, ..of(vec![(name, vec![at(0)])]) };
        peer.call(&format!("replica {replica_id}"), &request, version);
    }
}
