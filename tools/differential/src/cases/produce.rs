//! Produce: where to, acknowledgements, batches good and bad. Sizes and times are in `limits`, sequences in
//! `producers`.

use rillway_wire::api::produce::{Partition, Request, Topic};
use rillway_wire::batch::{BatchBuilder, CRC_START, Codec};
use rillway_wire::{ApiKey, Records};

use super::fetch::all_of;
use super::{Case, case, case_from};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case(ApiKey::Produce, "one record, with every kind of acknowledgement", acks),
    case_from(ApiKey::Produce, 3, "topics and partitions that there are not", unknown),
    case_from(ApiKey::Produce, 3, "several partitions, one of them bad", several),
    case_from(ApiKey::Produce, 3, "batches that are damaged", damaged),
    case_from(ApiKey::Produce, 3, "batches that a producer may not send", not_allowed),
    case_from(ApiKey::Produce, 3, "more or fewer batches than one", how_many),
    case_from(ApiKey::Produce, 3, "every codec comes back as it was sent", codecs),
    case_from(ApiKey::Produce, 3, "keys, nulls and headers come back", content),
    case_from(ApiKey::Produce, 3, "nothing for anybody", nothing),
    case_from(ApiKey::Produce, 3, "acks=0 that fails", silent_failure),
];

pub(super) fn to<'a>(name: &'a str, index: i32, batch: &'a [u8], acks: i16) -> Request<'a> {
    let partition = Partition { index, records: Records::Bytes(batch) };
    let topic = Topic { name, partition_data: vec![partition].into(), ..Default::default() };
    Request { acks, timeout_ms: 10_000, topic_data: vec![topic].into(), ..Default::default() }
}

/// A batch with one record for each value, of now.
pub(super) fn batch(peer: &Peer, values: &[&str]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None);
    for value in values {
        builder.push(peer.now_ms, None, Some(value.as_bytes()), &[]);
    }
    builder.build().expect("a batch")
}

/// A batch with bytes changed by `edit`, and a checksum that is right again.
pub(super) fn edited(mut batch: Vec<u8>, edit: impl FnOnce(&mut [u8])) -> Vec<u8> {
    edit(&mut batch);
    let crc = crc(&batch[CRC_START..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch
}

/// CRC-32C, bit by bit: a judge of checksums does not borrow the one it judges.
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(!0, |crc, b| (0..8).fold(crc ^ u32::from(*b), |c, _| step(c)))
}

fn acks(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    let one = batch(peer, &["a"]);
    for acks in [1, -1] {
        peer.call(&format!("acks {acks}"), &to(name, 0, &one, acks), version);
    }
    if version >= 3 {
        peer.send_only("acks 0", &to(name, 0, &one, 0), version);
    }
    for acks in [2, -2, 100] {
        peer.call(&format!("acks {acks}"), &to(name, 0, &one, acks), version);
    }
    all_of(peer, "what is there", name, 0);
}

fn unknown(peer: &mut Peer, version: i16) {
    let (name, missing) = (peer.create("t", 1, &[]), peer.name("missing"));
    let one = batch(peer, &["a"]);
    peer.call("no such topic", &to(missing, 0, &one, -1), version);
    peer.call("no such partition", &to(name, 1, &one, -1), version);
    peer.call("a negative partition", &to(name, -1, &one, -1), version);
    peer.call("no name", &to("", 0, &one, -1), version);
    peer.call("a name that no topic may have", &to("a/b", 0, &one, -1), version);
    peer.call("no such topic, and a damaged batch", &to(missing, 0, &one[..40], -1), version);
}

fn several(peer: &mut Peer, version: i16) {
    let (a, b) = (peer.create("a", 2, &[]), peer.create("b", 1, &[]));
    let (good, other) = (batch(peer, &["a", "b"]), batch(peer, &["c"]));
    let mut bad = good.clone();
    bad[70] ^= 1;
    let partition = |index, bytes| Partition { index, records: Records::Bytes(bytes) };
    let topics = vec![
        Topic {
            name: a,
            partition_data: vec![partition(0, &good), partition(1, &bad), partition(7, &good)]
                .into(),
            ..Default::default()
        },
        Topic {
            name: b,
            partition_data: vec![partition(0, &other[..])].into(),
            ..Default::default()
        },
    ];
    let request =
        Request { acks: -1, timeout_ms: 10_000, topic_data: topics.into(), ..Default::default() };
    peer.call("three good ones", &request, version);
    peer.call("and again", &request, version);
    for (topic, index) in [(a, 0), (a, 1), (b, 0)] {
        all_of(peer, &format!("partition {index} of {}", topic.len()), topic, index);
    }
}

fn damaged(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    let good = batch(peer, &["a", "b"]);
    let mut flipped = good.clone();
    flipped[70] ^= 1;
    let with = |at: usize, byte: u8| {
        let mut batch = good.clone();
        batch[at] = byte;
        batch
    };
    let records_cut = edited(good.clone(), |b| b[61] = 0x7e);
    for (step, bytes) in [
        ("a flipped bit", flipped),
        ("cut off in the records", good[..good.len() - 1].to_vec()),
        ("cut off in the header", good[..40].to_vec()),
        ("cut off in the length", good[..10].to_vec()),
        ("a length of 0", [&good[..8], &[0; 4], &good[12..]].concat()),
        ("a negative length", [&good[..8], &[0xff; 4], &good[12..]].concat()),
        ("magic 0", with(16, 0)),
        ("magic 1", with(16, 1)),
        ("magic 3", with(16, 3)),
        ("magic -1", with(16, 0xff)),
        ("garbage", vec![0x5a; 100]),
        ("a record that is cut off, and a right checksum", records_cut),
    ] {
        peer.call(step, &to(name, 0, &bytes, -1), version);
    }
    all_of(peer, "nothing is there", name, 0);
}

fn not_allowed(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    let good = batch(peer, &["a", "b"]);
    let edit = |at: usize, bytes: &'static [u8]| {
        edited(good.clone(), |b| b[at..at + bytes.len()].copy_from_slice(bytes))
    };
    for (step, bytes) in [
        ("a control batch", edit(21, &[0, 0x20])),
        ("a transactional batch without a transaction", edit(21, &[0, 0x10])),
        ("a codec that there is not", edit(21, &[0, 5])),
        ("the broker's timestamps", edit(21, &[0, 8])),
        ("fewer records than claimed", edit(57, &[0, 0, 0, 3])),
        ("no records by the count", edit(57, &[0, 0, 0, 0])),
        ("a negative count", edit(57, &[0xff, 0xff, 0xff, 0xff])),
        ("a last offset too large", edit(23, &[0, 0, 0, 9])),
        ("count and last offset too large", {
            edited(good.clone(), |b| {
                b[57..61].copy_from_slice(&[0, 0, 0, 3]);
                b[23..27].copy_from_slice(&[0, 0, 0, 2]);
            })
        }),
        ("a base offset", edit(0, &[0, 0, 0, 0, 0, 0, 0, 5])),
    ] {
        peer.call(step, &to(name, 0, &bytes, -1), version);
    }
    all_of(peer, "what is there", name, 0);
    let request = Request { transactional_id: Some("differential"), ..to(name, 0, &good, -1) };
    peer.call("a plain batch with a transactional id", &request, version);
}

fn how_many(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    let one = batch(peer, &["a"]);
    let two = [one.clone(), one.clone()].concat();
    peer.call("two", &to(name, 0, &two, -1), version);
    peer.call("one and a part", &to(name, 0, &two[..two.len() - 3], -1), version);
    peer.call("one and three bytes", &to(name, 0, &two[..one.len() + 3], -1), version);
    peer.call("none", &to(name, 0, &[], -1), version);
    let partition = Partition { index: 0, records: Records::Null };
    let topic = Topic { name, partition_data: vec![partition].into(), ..Default::default() };
    let request = Request {
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![topic].into(),
        ..Default::default()
    };
    // Kafka never answers this, so it is waited for once.
    if version == 9 {
        peer.call("null", &request, version);
    }
    let partition = |bytes| Partition { index: 0, records: Records::Bytes(bytes) };
    let topic = Topic {
        name,
        partition_data: vec![partition(&one), partition(&one)].into(),
        ..Default::default()
    };
    let request = Request { topic_data: vec![topic].into(), ..request };
    peer.call("a partition twice", &request, version);
    all_of(peer, "what is there", name, 0);
}

fn codecs(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut builder = BatchBuilder::new(codec);
        for value in ["one", "two", "two", "two"] {
            builder.push(peer.now_ms, Some(b"key"), Some(value.as_bytes()), &[]);
        }
        let bytes = builder.build().expect("a batch");
        peer.call(&format!("{codec:?}"), &to(name, 0, &bytes, -1), version);
    }
    all_of(peer, "what is there", name, 0);
}

fn content(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    let mut builder = BatchBuilder::new(Codec::None);
    let now = peer.now_ms;
    builder.push(now, None, None, &[]);
    builder.push(now + 5, Some(b""), Some(b""), &[]);
    builder.push(
        now - 5,
        Some(b"k"),
        Some(b"v"),
        &[("h", None), ("h", Some(b"")), ("h", Some(b"1"))],
    );
    let bytes = builder.build().expect("a batch");
    peer.call("produced", &to(name, 0, &bytes, -1), version);
    all_of(peer, "what is there", name, 0);
}

fn nothing(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    let request = Request { acks: -1, timeout_ms: 10_000, ..Default::default() };
    peer.call("no topics", &request, version);
    let topic = Topic { name, partition_data: vec![].into(), ..Default::default() };
    peer.call("no partitions", &Request { topic_data: vec![topic].into(), ..request }, version);
}

fn silent_failure(peer: &mut Peer, version: i16) {
    let missing = peer.name("missing");
    let one = batch(peer, &["a"]);
    peer.send_only("no such topic", &to(missing, 0, &one, 0), version);
    let name = peer.create("t", 1, &[]);
    peer.send_only("a damaged batch", &to(name, 0, &one[..40], 0), version);
    all_of(peer, "nothing is there", name, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rillway_wire::batch::BatchView;

    #[test]
    fn an_edited_batch_has_a_right_checksum() {
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(1, None, Some(b"a"), &[]);
        let edited = edited(builder.build().unwrap(), |b| b[22] = 8);
        assert!(BatchView::parse(&edited).unwrap().check_crc());
    }
}
