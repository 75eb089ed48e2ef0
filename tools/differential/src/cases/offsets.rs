//! ListOffsets: the ends of a partition, and searches by time.

use rillway_wire::ApiKey;
use rillway_wire::api::list_offsets::{Partition, Request, Topic};
use rillway_wire::batch::{BatchBuilder, Codec};

use super::produce::to;
use super::{Case, case, case_from};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case(ApiKey::ListOffsets, "of an empty partition", empty),
    case(ApiKey::ListOffsets, "by time, in one batch and in several", by_time),
    case(ApiKey::ListOffsets, "by time, in every codec", by_codec),
    case(ApiKey::ListOffsets, "by the broker's time", append_time),
    case(ApiKey::ListOffsets, "topics and partitions that there are not", unknown),
    case_from(ApiKey::ListOffsets, 2, "both isolation levels, and others", isolation),
    case_from(ApiKey::ListOffsets, 4, "leader epochs", epochs),
    case(ApiKey::ListOffsets, "times that are none", strange),
];

/// The version of a look at what another API did.
const LOOK: i16 = 7;

fn partition(partition_index: i32, timestamp: i64) -> Partition {
    Partition { partition_index, timestamp, ..Default::default() }
}

fn of(topics: Vec<(&'static str, Vec<Partition>)>) -> Request<'static> {
    let topics =
        topics.into_iter().map(|(name, partitions)| Topic { name, partitions: partitions.into() });
    Request { replica_id: -1, topics: topics.collect(), ..Default::default() }
}

fn ask_all(peer: &mut Peer, step: &str, name: &'static str, times: &[i64], version: i16) {
    for time in times {
        let request = of(vec![(name, vec![partition(0, *time)])]);
        peer.call(&format!("{step}, {time}"), &request, version);
    }
}

/// Notes what stands at these times.
pub(super) fn ask_times(peer: &mut Peer, step: &str, name: &'static str, times: &[i64]) {
    ask_all(peer, step, name, times, LOOK);
}

fn append(peer: &mut Peer, name: &'static str, codec: Codec, times: &[i64]) {
    let mut builder = BatchBuilder::new(codec);
    for time in times {
        builder.push(*time, None, Some(b"value"), &[]);
    }
    let bytes = builder.build().expect("a batch");
    let answer = peer.ask(&to(name, 0, &bytes, -1), 7).unwrap_or_default();
    let code =
        answer.responses.first().and_then(|t| t.partition_responses.first().map(|p| p.error_code));
    assert_eq!(code, Some(rillway_wire::ErrorCode::None), "{name} is filled");
}

fn empty(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    ask_all(peer, "empty", name, &[-1, -2, -3, -4, -5, 0, 1_000], version);
}

fn by_time(peer: &mut Peer, version: i16) {
    let times = [-1, -2, -3, 0, 3, 4, 5, 6, 9, 10];
    let several = peer.create("several", 1, &[]);
    for time in [5, 9, 3] {
        append(peer, several, Codec::None, &[time]);
    }
    ask_all(peer, "5, 9, 3 in three", several, &times, version);
    let one = peer.create("one", 1, &[]);
    append(peer, one, Codec::None, &[5, 9, 3]);
    ask_all(peer, "5, 9, 3 in one", one, &times, version);
    let equal = peer.create("equal", 1, &[]);
    append(peer, equal, Codec::None, &[7, 7]);
    append(peer, equal, Codec::None, &[7, 7]);
    ask_all(peer, "equal", equal, &[-3, 7, 8], version);
    let none = peer.create("none", 1, &[]);
    append(peer, none, Codec::None, &[-1, -1]);
    ask_all(peer, "without times", none, &[-1, -2, -3, 0], version);
    append(peer, none, Codec::None, &[-1, 5]);
    ask_all(peer, "partly without", none, &[-3, 0, 5], version);
}

fn by_codec(peer: &mut Peer, version: i16) {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let name = peer.create(&format!("{codec:?}"), 1, &[]);
        append(peer, name, codec, &[5, 9, 3]);
        ask_all(peer, &format!("{codec:?}"), name, &[-3, 4, 6, 10], version);
    }
}

fn append_time(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[("message.timestamp.type", "LogAppendTime")]);
    append(peer, name, Codec::None, &[5, 9, 3]);
    let ahead = peer.now_ms + 48 * 3_600_000;
    ask_all(peer, "LogAppendTime", name, &[-1, -2, -3, 0, 9], version);
    let request = of(vec![(name, vec![partition(0, ahead)])]);
    peer.call("the future", &request, version);
}

fn unknown(peer: &mut Peer, version: i16) {
    let (name, missing) = (peer.create("t", 1, &[]), peer.name("missing"));
    for (step, topics) in [
        ("no such topic", vec![(missing, vec![partition(0, -1)])]),
        ("no such partition", vec![(name, vec![partition(1, -1)])]),
        ("a negative partition", vec![(name, vec![partition(-1, -1)])]),
        ("no name", vec![("", vec![partition(0, -1)])]),
        ("one of two", vec![(name, vec![partition(0, -1)]), (missing, vec![partition(0, -1)])]),
        ("twice", vec![(name, vec![partition(0, -1), partition(0, -2)])]),
        ("no partitions", vec![(name, vec![])]),
        ("no topics", vec![]),
    ] {
        peer.call(step, &of(topics), version);
    }
}

fn isolation(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    append(peer, name, Codec::None, &[5, 9]);
    for isolation_level in [0, 1, 2, -1] {
        for time in [-1, -2, 6] {
            let request = Request { isolation_level, ..of(vec![(name, vec![partition(0, time)])]) };
            peer.call(&format!("level {isolation_level}, {time}"), &request, version);
        }
    }
}

fn epochs(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    append(peer, name, Codec::None, &[5]);
    for current_leader_epoch in [-1, 0, 1, -2] {
        for time in [-1, -2, 0] {
            let p = Partition { current_leader_epoch, ..partition(0, time) };
            let step = format!("epoch {current_leader_epoch}, {time}");
            peer.call(&step, &of(vec![(name, vec![p])]), version);
        }
    }
}

fn strange(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    append(peer, name, Codec::None, &[5]);
    ask_all(peer, "strange", name, &[-4, -5, -6, -7, -100, i64::MIN, i64::MAX], version);
}
