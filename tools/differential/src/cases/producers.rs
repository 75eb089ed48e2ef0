//! InitProducerId, and Produce with sequences.

use rillway_wire::ApiKey;
use rillway_wire::api::init_producer_id::Request;
use rillway_wire::batch::{BatchBuilder, Codec};

use super::fetch::all_of;
use super::produce::{edited, to};
use super::{Case, case, case_from};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case(ApiKey::InitProducerId, "idempotent producers", idempotent),
    case_from(ApiKey::InitProducerId, 3, "ids to go on with", go_on),
    case(ApiKey::InitProducerId, "transactional producers", transactional),
    case_from(ApiKey::Produce, 3, "sequences: duplicates and gaps", sequences),
    case_from(ApiKey::Produce, 3, "sequences: the five that are remembered", remembered),
    case_from(ApiKey::Produce, 3, "epochs of a producer", epochs),
    case_from(ApiKey::Produce, 3, "a producer that nobody knows", nobody),
    case_from(ApiKey::Produce, 3, "sequences that are none", none),
];

const PLAIN: Request<'static> = Request {
    transactional_id: None,
    transaction_timeout_ms: 60_000,
    producer_id: -1,
    producer_epoch: -1,
};

fn idempotent(peer: &mut Peer, version: i16) {
    peer.call("one", &PLAIN, version);
    peer.call("another", &PLAIN, version);
    peer.call("a timeout of nothing", &Request { transaction_timeout_ms: 0, ..PLAIN }, version);
    peer.call("a negative timeout", &Request { transaction_timeout_ms: -1, ..PLAIN }, version);
}

fn go_on(peer: &mut Peer, version: i16) {
    let id = peer.ask(&PLAIN, version).unwrap_or_default().producer_id;
    let request = |producer_id, producer_epoch| Request { producer_id, producer_epoch, ..PLAIN };
    peer.call("with its epoch", &request(id, 0), version);
    peer.call("with another epoch", &request(id, 5), version);
    peer.call("an id without an epoch", &request(id, -1), version);
    peer.call("an epoch without an id", &request(-1, 3), version);
    peer.call("a strange id", &request(-7, -1), version);
}

fn transactional(peer: &mut Peer, version: i16) {
    let id = peer.name("id");
    peer.call("an empty id", &Request { transactional_id: Some(""), ..PLAIN }, version);
    let request = Request { transactional_id: Some(id), ..PLAIN };
    peer.call("an id", &request, version);
}

fn batch(peer: &Peer, id: i64, epoch: i16, sequence: i32, records: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None).producer(id, epoch, sequence);
    for _ in 0..records {
        builder.push(peer.now_ms, None, Some(b"v"), &[]);
    }
    builder.build().expect("a batch")
}

fn send(
    peer: &mut Peer,
    step: &str,
    name: &str,
    id: i64,
    (epoch, sequence): (i16, i32),
    records: usize,
    version: i16,
) {
    let bytes = batch(peer, id, epoch, sequence, records);
    peer.call(step, &to(name, 0, &bytes, -1), version);
}

fn sequences(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    let id = peer.ask(&PLAIN, 4).unwrap_or_default().producer_id;
    for (step, sequence, records) in [
        ("the first", 0, 2),
        ("the next", 2, 3),
        ("the first again", 0, 2),
        ("the next again", 2, 3),
        ("a gap", 7, 1),
        ("a part of one that is there", 2, 1),
        ("it goes on", 5, 1),
        ("behind what is there", 3, 3),
    ] {
        send(peer, step, name, id, (0, sequence), records, version);
    }
    all_of(peer, "what is there", name, 0);
}

fn remembered(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    let id = peer.ask(&PLAIN, 4).unwrap_or_default().producer_id;
    for sequence in 0..7 {
        send(peer, &format!("{sequence}"), name, id, (0, sequence), 1, version);
    }
    for sequence in [6, 2, 1, 0] {
        send(peer, &format!("{sequence} again"), name, id, (0, sequence), 1, version);
    }
}

fn epochs(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    let id = peer.ask(&PLAIN, 4).unwrap_or_default().producer_id;
    for (step, epoch, sequence) in [
        ("the first", 1, 0),
        ("an old epoch", 0, 1),
        ("an old epoch from 0 on", 0, 0),
        ("a new epoch that goes on", 2, 1),
        ("a new epoch from 0 on", 2, 0),
        ("the epoch before it", 1, 1),
        ("an epoch that is skipped to", 9, 0),
    ] {
        send(peer, step, name, id, (epoch, sequence), 1, version);
    }
    all_of(peer, "what is there", name, 0);
}

fn nobody(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    send(peer, "from 5 on", name, 77_000_001, (0, 5), 2, version);
    send(peer, "it goes on", name, 77_000_001, (0, 7), 1, version);
    send(peer, "from 5 on, with an epoch", name, 77_000_002, (3, 5), 1, version);
    let last = i32::MAX - 1;
    send(peer, "up to the last number", name, 77_000_003, (0, last), 2, version);
    send(peer, "and from 0 on again", name, 77_000_003, (0, 0), 1, version);
    all_of(peer, "what is there", name, 0);
}

fn none(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    for (step, id, epoch, sequence) in [
        ("an id without a sequence", 77_000_004, 0, -1),
        ("an id without an epoch", 77_000_004, -1, 0),
        ("a sequence without an id", -1, -1, 3),
        ("an id below none", -2, -1, -1),
        ("a negative epoch", 77_000_004, -3, 0),
    ] {
        send(peer, step, name, id, (epoch, sequence), 1, version);
    }
    let transactional = edited(batch(peer, 77_000_005, 0, 0, 1), |b| b[22] |= 0x10);
    peer.call("part of no transaction", &to(name, 0, &transactional, -1), version);
    all_of(peer, "what is there", name, 0);
}
