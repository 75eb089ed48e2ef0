//! Produce: sizes and times that a topic allows.

use rillway_wire::ApiKey;
use rillway_wire::batch::{BatchBuilder, Codec};

use super::fetch::all_of;
use super::offsets::ask_times;
use super::produce::{batch, edited, to};
use super::{Case, case_from};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case_from(ApiKey::Produce, 3, "the size of a batch as it is stored", sizes),
    case_from(ApiKey::Produce, 3, "times that are too far away", times),
    case_from(ApiKey::Produce, 3, "the largest time of a batch is set wrong", wrong_max),
    case_from(ApiKey::Produce, 3, "the broker's time", append_time),
    case_from(ApiKey::Produce, 3, "more replicas in sync than there are", in_sync),
];

/// A batch of one record that is `len` bytes long.
fn sized(peer: &Peer, codec: Codec, len: usize) -> Vec<u8> {
    let mut value = len - 80;
    loop {
        let mut builder = BatchBuilder::new(codec);
        builder.push(peer.now_ms, None, Some(&vec![b'x'; value]), &[]);
        let bytes = builder.build().expect("a batch");
        if bytes.len() >= len || codec != Codec::None {
            return bytes;
        }
        value += 1;
    }
}

fn sizes(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[("max.message.bytes", "10000")]);
    for (step, bytes) in [
        ("as large as may be", sized(peer, Codec::None, 10_000)),
        ("one byte larger", sized(peer, Codec::None, 10_001)),
        ("small once it is compressed", sized(peer, Codec::Gzip, 500_000)),
    ] {
        peer.call(step, &to(name, 0, &bytes, -1), version);
    }
    all_of(peer, "what is there", name, 0);
    let zero = peer.create("zero", 1, &[("max.message.bytes", "0")]);
    let one = batch(peer, &["a"]);
    peer.call("a limit of nothing", &to(zero, 0, &one, -1), version);
}

fn at(times: &[i64]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None);
    for time in times {
        builder.push(*time, None, Some(b"v"), &[]);
    }
    builder.build().expect("a batch")
}

fn times(peer: &mut Peer, version: i16) {
    let (now, hour) = (peer.now_ms, 3_600_000);
    let name = peer.create("default", 1, &[]);
    for (step, bytes) in [
        ("two hours ahead", at(&[now + 2 * hour])),
        ("two days ahead", at(&[now + 48 * hour])),
        ("0", at(&[0])),
        ("none", at(&[-1])),
        ("below none", at(&[-2])),
        ("a year ago", at(&[now - 8_760 * hour])),
    ] {
        peer.call(step, &to(name, 0, &bytes, -1), version);
    }
    let strict = [
        ("message.timestamp.before.max.ms", "7200000"),
        ("message.timestamp.after.max.ms", "7200000"),
    ];
    let name = peer.create("strict", 1, &strict);
    for (step, bytes) in [
        ("three hours ahead", at(&[now + 3 * hour])),
        ("three hours behind", at(&[now - 3 * hour])),
        ("one hour each way", at(&[now - hour, now + hour])),
        ("the first too old", at(&[now - 3 * hour, now])),
        ("the last too old", at(&[now, now - 3 * hour])),
        ("none", at(&[-1])),
    ] {
        peer.call(step, &to(name, 0, &bytes, -1), version);
    }
    all_of(peer, "what is there", name, 0);
}

fn wrong_max(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    for (step, max) in [("unset", -1), ("0", 0), ("too low", 500), ("too high", 5_000)] {
        let bytes = edited(at(&[1_000, 3_000, 2_000]), |b| {
            b[35..43].copy_from_slice(&i64::to_be_bytes(max));
        });
        peer.call(step, &to(name, 0, &bytes, -1), version);
    }
    all_of(peer, "what is there", name, 0);
    ask_times(peer, "searched", name, &[0, 2_500, 3_000, 3_001, 4_000]);
}

fn append_time(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[("message.timestamp.type", "LogAppendTime")]);
    peer.call("any time will do", &to(name, 0, &at(&[1_000, 2_000]), -1), version);
    let ahead = peer.now_ms + 48 * 3_600_000;
    peer.call("even the future", &to(name, 0, &at(&[ahead]), -1), version);
    let claimed = edited(at(&[1_000]), |b| b[22] = 8);
    peer.call("one that claims the broker's", &to(name, 0, &claimed, -1), version);
    all_of(peer, "what is there", name, 0);
}

fn in_sync(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[("min.insync.replicas", "2")]);
    let one = batch(peer, &["a"]);
    for acks in [-1, 1] {
        peer.call(&format!("acks {acks}"), &to(name, 0, &one, acks), version);
    }
    all_of(peer, "what is there", name, 0);
}
