//! DeleteRecords, and what others see of it.

use rillway_wire::ApiKey;
use rillway_wire::api::delete_records::{Partition, Request, Topic};
use rillway_wire::api::find_coordinator;
use rillway_wire::batch::{BatchBuilder, Codec};

use super::fetch::all_of;
use super::offsets::ask_times;
use super::produce::to;
use super::{Case, case};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case(ApiKey::DeleteRecords, "up to every place", places),
    case(ApiKey::DeleteRecords, "topics and partitions that there are not", unknown),
    case(ApiKey::DeleteRecords, "topics that keep their records", policies),
    case(ApiKey::DeleteRecords, "searches behind a head that is gone", searches),
];

fn partition(partition_index: i32, offset: i64) -> Partition {
    Partition { partition_index, offset }
}

fn of(topics: Vec<(&'static str, Vec<Partition>)>) -> Request<'static> {
    let topics =
        topics.into_iter().map(|(name, partitions)| Topic { name, partitions: partitions.into() });
    Request { topics: topics.collect(), timeout_ms: 10_000 }
}

fn fill(peer: &mut Peer, name: &'static str, times: &[&[i64]]) {
    for times in times {
        let mut builder = BatchBuilder::new(Codec::None);
        for time in *times {
            builder.push(*time, None, Some(b"value"), &[]);
        }
        let bytes = builder.build().expect("a batch");
        peer.ask(&to(name, 0, &bytes, -1), 7).expect("produced");
    }
}

fn places(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    peer.call("an empty one, to its end", &of(vec![(name, vec![partition(0, -1)])]), version);
    fill(peer, name, &[&[5, 6, 7], &[8, 9]]);
    for offset in [0, -2, 6, i64::MAX, i64::MIN, 1, 0, 4, 2, 4] {
        let request = of(vec![(name, vec![partition(0, offset)])]);
        peer.call(&format!("to {offset}"), &request, version);
        ask_times(peer, &format!("after {offset}"), name, &[-1, -2, 0]);
    }
    all_of(peer, "below the start", name, 0);
    peer.call("to the end", &of(vec![(name, vec![partition(0, -1)])]), version);
    ask_times(peer, "after all", name, &[-1, -2, 0]);
    fill(peer, name, &[&[10]]);
    ask_times(peer, "one more", name, &[-1, -2, 0]);
}

fn unknown(peer: &mut Peer, version: i16) {
    let (name, missing) = (peer.create("t", 2, &[]), peer.name("missing"));
    fill(peer, name, &[&[5, 6]]);
    for (step, topics) in [
        ("no such topic", vec![(missing, vec![partition(0, 0)])]),
        ("no such partition", vec![(name, vec![partition(2, 0)])]),
        ("a negative partition", vec![(name, vec![partition(-1, 0)])]),
        ("no name", vec![("", vec![partition(0, 0)])]),
        (
            "one of each",
            vec![(name, vec![partition(0, 1), partition(1, 9)]), (missing, vec![partition(0, 0)])],
        ),
        ("a partition twice", vec![(name, vec![partition(0, 2), partition(0, 1)])]),
        ("no partitions", vec![(name, vec![])]),
        ("no topics", vec![]),
    ] {
        peer.call(step, &of(topics), version);
    }
}

fn policies(peer: &mut Peer, version: i16) {
    for policy in ["compact", "compact,delete"] {
        let name = peer.create(&policy.replace(',', "-"), 1, &[("cleanup.policy", policy)]);
        for offset in [0, -1, 7] {
            let request = of(vec![(name, vec![partition(0, offset)])]);
            peer.call(&format!("{policy}, to {offset}"), &request, version);
        }
    }
    // Whoever asks for a coordinator first makes the topic.
    let group = find_coordinator::Request { key: "differential", ..Default::default() };
    let _ = peer.ask(&group, 1);
    let own = of(vec![("__consumer_offsets", vec![partition(0, 0)])]);
    peer.call("the broker's own topic", &own, version);
}

fn searches(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    fill(peer, name, &[&[100], &[900], &[300, 400], &[200]]);
    for offset in [1, 2, 3] {
        let request = of(vec![(name, vec![partition(0, offset)])]);
        peer.call(&format!("to {offset}"), &request, version);
        let at = format!("behind {offset}");
        ask_times(peer, &at, name, &[0, 150, 250, 350, 500, 1_000]);
    }
}
