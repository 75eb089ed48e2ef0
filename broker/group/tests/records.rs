//! The bytes of `__consumer_offsets`, and of subscriptions: read back as written, and never a panic for others.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rillway_group::record::{
    GroupState, KeptMember, Key, decode_offset, encode_offset, group_key, offset_key,
};
use rillway_group::{Committed, TopicPartition, subscribed_topics};

fn committed() -> impl Strategy<Value = Committed> {
    let topic_id = prop_oneof![Just([0; 16]), any::<[u8; 16]>()];
    (any::<i64>(), any::<i32>(), ".{0,40}", any::<i64>(), topic_id).prop_map(
        |(offset, leader_epoch, metadata, commit_ms, topic_id)| Committed {
            offset,
            leader_epoch,
            metadata,
            commit_ms,
            expire_ms: None,
            topic_id,
        },
    )
}

fn member() -> impl Strategy<Value = KeptMember> {
    let texts = (".{0,9}", option::of(".{0,9}"), ".{0,9}", ".{0,9}");
    let bytes = (vec(any::<u8>(), 0..20), vec(any::<u8>(), 0..20));
    (texts, 0..i32::MAX, 0..i32::MAX, bytes).prop_map(
        |(texts, rebalance_timeout_ms, session_timeout_ms, (subscription, assignment))| {
            let (member, instance, client_id, client_host) = texts;
            KeptMember {
                member,
                instance,
                client_id,
                client_host,
                rebalance_timeout_ms,
                session_timeout_ms,
                subscription,
                assignment,
            }
        },
    )
}

proptest! {
    #[test]
    fn offsets_read_back_as_they_were_written(committed in committed()) {
        prop_assert_eq!(decode_offset(&encode_offset(&committed)), Ok(committed));
    }

    #[test]
    fn states_read_back_as_they_were_written(
        protocol_type in ".{0,9}",
        generation: i32,
        protocol in option::of(".{0,9}"),
        leader in option::of(".{0,9}"),
        since_ms: i64,
        members in vec(member(), 0..5),
    ) {
        let state = GroupState { protocol_type, generation, protocol, leader, since_ms, members };
        prop_assert_eq!(GroupState::decode(&state.encode()), Ok(state));
    }

    #[test]
    fn keys_read_back_as_they_were_written(group in ".{0,99}", topic in ".{0,99}", partition: i32) {
        let partition = TopicPartition { topic, partition };
        let key = Key::decode(&offset_key(&group, &partition));
        prop_assert_eq!(key, Ok(Key::Offset { group: group.clone(), partition }));
        prop_assert_eq!(Key::decode(&group_key(&group)), Ok(Key::Group { group }));
    }

    #[test]
    fn any_bytes_are_read_or_refused(version in 0i16..6, bytes in vec(any::<u8>(), 0..200)) {
        let mut versioned = version.to_be_bytes().to_vec();
        versioned.extend(&bytes);
        for bytes in [bytes, versioned] {
            let _ = Key::decode(&bytes);
            let _ = decode_offset(&bytes);
            let _ = GroupState::decode(&bytes);
            let _ = subscribed_topics(&bytes);
        }
    }
}

#[test]
fn older_values_of_offsets_are_read() {
    let tail = |bytes: &[u8]| [&[0, 0, 0, 0, 0, 0, 0, 7], bytes].concat();
    let expected = |leader_epoch, expire_ms| {
        Ok(Committed {
            offset: 7,
            leader_epoch,
            metadata: "m".to_owned(),
            commit_ms: 9,
            expire_ms,
            topic_id: [0; 16],
        })
    };
    let rest = [0, 1, b'm', 0, 0, 0, 0, 0, 0, 0, 9];
    let plain = tail(&rest);
    assert_eq!(decode_offset(&[&[0, 0][..], &plain].concat()), expected(-1, None));
    let expires = [&plain[..], &[0, 0, 0, 0, 0, 0, 0, 11]].concat();
    assert_eq!(decode_offset(&[&[0, 1][..], &expires].concat()), expected(-1, Some(11)));
    assert_eq!(decode_offset(&[&[0, 2][..], &plain].concat()), expected(-1, None));
    let epoch = tail(&[&[0, 0, 0, 3][..], &rest].concat());
    assert_eq!(decode_offset(&[&[0, 3][..], &epoch].concat()), expected(3, None));
    let unknown = decode_offset(&[&[0, 5][..], &plain].concat()).expect_err("no such version");
    assert_eq!(unknown.to_string(), "OffsetCommitValue.version: version 5 is not known");
}

#[test]
fn an_offset_that_says_when_it_expires_is_written_as_version_1() {
    let committed = Committed {
        offset: 7,
        leader_epoch: -1,
        metadata: "m".to_owned(),
        commit_ms: 9,
        expire_ms: Some(11),
        topic_id: [0; 16],
    };
    let bytes = encode_offset(&committed);
    assert_eq!(bytes[..2], [0, 1]);
    assert_eq!(decode_offset(&bytes), Ok(committed.clone()));
    // A text that version 1 cannot hold goes without.
    let long = Committed { metadata: "x".repeat(40_000), ..committed };
    let read = decode_offset(&encode_offset(&long)).expect("written just now");
    assert_eq!((read.expire_ms, read.metadata), (None, long.metadata));
}

#[test]
fn keys_of_other_group_types_are_unknown_and_broken_ones_are_errors() {
    for version in [3, 5, 16, -1] {
        let mut bytes = i16::to_be_bytes(version).to_vec();
        bytes.extend(*b"whatever");
        assert_eq!(Key::decode(&bytes), Ok(Key::Unknown { version }));
    }
    let good = offset_key("g", &TopicPartition { topic: "t".to_owned(), partition: 1 });
    for len in 0..good.len() {
        Key::decode(&good[..len]).expect_err("cut off");
    }
    Key::decode(&[&good[..], &[0]].concat()).expect_err("too long");
    let mut v0 = good;
    v0[1] = 0;
    assert!(matches!(Key::decode(&v0), Ok(Key::Offset { .. })));
}

#[test]
fn a_number_of_members_that_is_not_there_costs_no_memory() {
    let state = GroupState {
        protocol_type: "consumer".to_owned(),
        generation: 1,
        protocol: None,
        leader: None,
        since_ms: 0,
        members: Vec::new(),
    };
    let mut bytes = state.encode();
    let len = bytes.len();
    bytes[len - 4..].copy_from_slice(&i32::MAX.to_be_bytes());
    let error = GroupState::decode(&bytes).expect_err("no members follow");
    assert_eq!(error.to_string(), "MemberMetadata.memberId: 2 bytes needed, 0 left");
}

#[test]
fn subscriptions_of_all_versions_name_their_topics() {
    let topics = [&[0, 0, 0, 2, 0, 1, b'b', 0, 1, b'a'][..]].concat();
    let no_user_data = [0xff, 0xff, 0xff, 0xff];
    let owned = [0, 0, 0, 0];
    let generation = [0, 0, 0, 5];
    let rack = [0xff, 0xff];
    let bodies = [
        [&topics[..], &no_user_data].concat(),
        [&topics[..], &no_user_data, &owned].concat(),
        [&topics[..], &no_user_data, &owned, &generation].concat(),
        [&topics[..], &no_user_data, &owned, &generation, &rack].concat(),
        [&topics[..], b"something of the future"].concat(),
    ];
    for (version, body) in bodies.iter().enumerate() {
        let bytes = [&[0, version as u8][..], body].concat();
        let expected = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        assert_eq!(subscribed_topics(&bytes), Some(expected), "version {version}");
    }
    assert_eq!(subscribed_topics(&[0, 0, 0, 0, 0, 0]), Some(BTreeSet::new()));
    for odd in [&[][..], &[0], &[0xff, 0xff, 0, 0, 0, 0], &[0, 0, 0xff, 0xff, 0xff, 0xff]] {
        assert_eq!(subscribed_topics(odd), None);
    }
    assert_eq!(subscribed_topics(&[0, 0, 0x7f, 0xff, 0xff, 0xff]), None);
}

fn hex(text: &str) -> Vec<u8> {
    let digit = |byte: &u8| (*byte as char).to_digit(16).expect("a hex digit") as u8;
    text.as_bytes().chunks(2).map(|pair| digit(&pair[0]) << 4 | digit(&pair[1])).collect()
}

/// What the generated classes of kafka-group-coordinator 4.2.0 write for the values below.
mod kafka {
    pub(super) const OFFSET_KEY: &str = "0001000567726f75700005746f70696300000007";
    pub(super) const GROUP_KEY: &str = "0002000567726f7570";
    pub(super) const OFFSET_4_TOPIC_ID: &str = "0004000000000000002a00000003066dc3a97461000001a3185c5000\
        0100100102030405060708090a0b0c0d0e0f10";
    pub(super) const OFFSET_4: &str = "0004000000000000002affffffff01000001a3185c500000";
    pub(super) const OFFSET_1: &str = "0001000000000000002a00016d000001a3185c5000000001a3185c53e8";
    pub(super) const GROUP_3: &str = "00030008636f6e73756d657200000009000572616e67650003612d31\
        000001a3185c5000000000020003612d31000169000161000a2f3132372e302e302e310000ea600000271000\
        0000030102030000000204050003622d31ffff000162000a2f3132372e302e302e320000ea60000027100000\
        000000000000";
    pub(super) const GROUP_4: &str = "000409636f6e73756d6572000000090672616e676504612d31000001a3\
        185c50000304612d31026902610b2f3132372e302e302e310000ea6000002710040102030304050004622d31\
        0002620b2f3132372e302e302e320000ea600000271001010000";
    pub(super) const EMPTY_GROUP_3: &str =
        "00030008636f6e73756d657200000009ffffffff000001a3185c500000000000";
}

#[test]
fn offsets_have_the_bytes_that_kafka_writes() {
    let partition = TopicPartition { topic: "topic".to_owned(), partition: 7 };
    assert_eq!(offset_key("group", &partition), hex(kafka::OFFSET_KEY));
    let plain = Committed {
        offset: 42,
        leader_epoch: -1,
        metadata: String::new(),
        commit_ms: 1_800_000_000_000,
        expire_ms: None,
        topic_id: [0; 16],
    };
    assert_eq!(encode_offset(&plain), hex(kafka::OFFSET_4));
    let full = Committed {
        leader_epoch: 3,
        metadata: "m\u{e9}ta".to_owned(),
        topic_id: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
        ..plain.clone()
    };
    assert_eq!(encode_offset(&full), hex(kafka::OFFSET_4_TOPIC_ID));
    let expires =
        Committed { metadata: "m".to_owned(), expire_ms: Some(1_800_000_001_000), ..plain };
    assert_eq!(encode_offset(&expires), hex(kafka::OFFSET_1));
}

#[test]
fn groups_have_the_bytes_that_kafka_writes() {
    assert_eq!(group_key("group"), hex(kafka::GROUP_KEY));
    let a = KeptMember {
        member: "a-1".to_owned(),
        instance: Some("i".to_owned()),
        client_id: "a".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        rebalance_timeout_ms: 60_000,
        session_timeout_ms: 10_000,
        subscription: vec![1, 2, 3],
        assignment: vec![4, 5],
    };
    let b = KeptMember {
        member: "b-1".to_owned(),
        instance: None,
        client_id: "b".to_owned(),
        client_host: "/127.0.0.2".to_owned(),
        subscription: Vec::new(),
        assignment: Vec::new(),
        ..a.clone()
    };
    let stable = GroupState {
        protocol_type: "consumer".to_owned(),
        generation: 9,
        protocol: Some("range".to_owned()),
        leader: Some("a-1".to_owned()),
        since_ms: 1_800_000_000_000,
        members: vec![a, b],
    };
    assert_eq!(stable.encode(), hex(kafka::GROUP_3));
    assert_eq!(GroupState::decode(&hex(kafka::GROUP_4)), Ok(stable.clone()));
    let empty = GroupState { protocol: None, leader: None, members: Vec::new(), ..stable };
    assert_eq!(empty.encode(), hex(kafka::EMPTY_GROUP_3));
}
