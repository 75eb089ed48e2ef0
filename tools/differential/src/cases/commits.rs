//! OffsetCommit, OffsetFetch and OffsetDelete: how far groups have read.

use rillway_wire::api::{offset_commit, offset_delete, offset_fetch};
use rillway_wire::{ApiKey, Uuid};

use super::members::{Place, settle};
use super::{Case, case, case_from};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case(ApiKey::OffsetCommit, "offsets and what goes with them", fields),
    case(ApiKey::OffsetCommit, "topics and partitions that there are not", unknown),
    case(ApiKey::OffsetCommit, "who may", who),
    case(ApiKey::OffsetFetch, "some, all, and none", fetches),
    case_from(ApiKey::OffsetFetch, 8, "several groups", several),
    case(ApiKey::OffsetDelete, "offsets that are read and that are not", deletes),
];

/// The version in which others look at what a commit did, and in which they commit.
const LOOK: i16 = 7;
const WRITE: i16 = 7;

type Offset = (i32, i64, Option<&'static str>);

/// A commit into a topic, by its name and by its id.
fn of(by: Place, topics: &[(&'static str, Uuid, Vec<Offset>)]) -> offset_commit::Request<'static> {
    let one = |(index, offset, metadata): &Offset| offset_commit::Partition {
        partition_index: *index,
        committed_offset: *offset,
        committed_metadata: *metadata,
        ..Default::default()
    };
    let topic =
        |(name, topic_id, offsets): &(&'static str, Uuid, Vec<Offset>)| offset_commit::Topic {
            name,
            topic_id: *topic_id,
            partitions: offsets.iter().map(one).collect(),
        };
    offset_commit::Request {
        group_id: by.group,
        generation_id_or_member_epoch: by.generation,
        member_id: by.member,
        topics: topics.iter().map(topic).collect(),
        ..Default::default()
    }
}

/// Nobody of a group's members.
fn nobody(group: &'static str) -> Place {
    Place { group, member: "", generation: -1 }
}

fn look(peer: &mut Peer, step: &str, group: &'static str) {
    let request = offset_fetch::Request { group_id: group, ..Default::default() };
    peer.call(step, &request, LOOK);
}

fn fields(peer: &mut Peer, version: i16) {
    let (name, group) = (peer.create("t", 2, &[]), peer.name("g"));
    let id = peer.topic_id(name);
    let fits: &'static str = "m".repeat(4_096).leak();
    let long: &'static str = "m".repeat(4_097).leak();
    for (step, offsets) in [
        ("one", vec![(0, 5, Some("why"))]),
        ("without words", vec![(0, 6, None)]),
        ("empty words", vec![(0, 7, Some(""))]),
        ("many words", vec![(0, 8, Some(fits))]),
        ("too many words", vec![(0, 9, Some(long)), (1, 9, Some("fine"))]),
        ("negative", vec![(0, -1, None), (1, -2, None)]),
        ("the largest", vec![(0, i64::MAX, None)]),
        ("a partition twice", vec![(1, 3, None), (1, 4, None)]),
        ("no partitions", vec![]),
    ] {
        peer.call(step, &of(nobody(group), &[(name, id, offsets)]), version);
        peer.call_showing(
            &format!("after {step}"),
            &offset_fetch::Request { group_id: group, ..Default::default() },
            LOOK,
            |answer| {
                let partition = |p: offset_fetch::PartitionResponse<'_>| {
                    (p.partition_index, p.committed_offset, p.metadata.map(str::len))
                };
                let mut all: Vec<_> = answer
                    .topics
                    .iter()
                    .flat_map(|t| t.partitions.iter().collect::<Vec<_>>())
                    .map(partition)
                    .collect();
                all.sort_unstable();
                format!("{all:?}")
            },
        );
    }
    peer.call("no topics", &of(nobody(group), &[]), version);
}

fn unknown(peer: &mut Peer, version: i16) {
    let (name, group) = (peer.create("t", 1, &[]), peer.name("g"));
    let (id, missing) = (peer.topic_id(name), peer.name("missing"));
    let gone = peer.create("gone", 1, &[]);
    let gone_id = peer.topic_id(gone);
    peer.call("both there", &of(nobody(group), &[(gone, gone_id, vec![(0, 1, None)])]), version);
    peer.delete(gone);
    let nowhere = Uuid([9; 16]);
    for (step, topics) in [
        ("no such topic", vec![(missing, nowhere, vec![(0, 1, None)])]),
        ("no such partition", vec![(name, id, vec![(1, 1, None), (0, 1, None)])]),
        ("a negative partition", vec![(name, id, vec![(-1, 1, None)])]),
        ("a topic that is gone", vec![(gone, gone_id, vec![(0, 2, None)])]),
        (
            "one of two",
            vec![(name, id, vec![(0, 2, None)]), (missing, nowhere, vec![(0, 1, None)])],
        ),
        ("neither name nor id", vec![("", Uuid::ZERO, vec![(0, 1, None)])]),
    ] {
        peer.call(step, &of(nobody(group), &topics), version);
    }
    // Kafka forgets what was committed for the topic that went a while after it has answered.
    let request = offset_fetch::Request { group_id: group, ..Default::default() };
    peer.call_until("what is left", &request, LOOK, |a| a.topics.iter().all(|t| t.name != gone));
}

fn who(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    let id = peer.topic_id(name);
    let one = |by| of(by, &[(name, id, vec![(0, 1, None)])]);
    peer.call("a group without a name", &one(nobody("")), version);
    let empty = peer.name("empty");
    peer.call("nobody of a group that is not", &one(nobody(empty)), version);
    let member = Place { member: "stranger", generation: 3, group: empty };
    peer.call("a stranger to a group without members", &one(member), version);
    let fresh = Place { group: peer.name("fresh"), ..member };
    peer.call("a stranger to a group that is not", &one(fresh), version);
    let place = settle(peer, peer.name("g"), None);
    peer.call("a member", &one(place), version);
    for generation in [place.generation - 1, place.generation + 1, -1] {
        peer.call(
            &format!("in generation {generation}"),
            &one(Place { generation, ..place }),
            version,
        );
    }
    peer.call("a stranger", &one(Place { member: "stranger", ..place }), version);
    peer.call("nobody", &one(nobody(place.group)), version);
}

fn fetches(peer: &mut Peer, version: i16) {
    let (name, group) = (peer.create("t", 3, &[]), peer.name("g"));
    let (id, missing) = (peer.topic_id(name), peer.name("missing"));
    let offsets = vec![(0, 5, Some("why")), (2, 7, None)];
    let _ = peer.ask(&of(nobody(group), &[(name, id, offsets)]), WRITE);
    let nowhere = Uuid([9; 16]);
    type Wanted = Option<Vec<(&'static str, Uuid, Vec<i32>)>>;
    let mut all: Vec<(&str, &'static str, Wanted)> = vec![
        ("some", group, Some(vec![(name, id, vec![0, 1, 2])])),
        ("no such partition", group, Some(vec![(name, id, vec![3, -1])])),
        ("no such topic", group, Some(vec![(missing, nowhere, vec![0])])),
        ("no partitions", group, Some(vec![(name, id, vec![])])),
        ("no topics", group, Some(vec![])),
        ("a partition twice", group, Some(vec![(name, id, vec![0, 0])])),
        ("no such group", peer.name("none"), Some(vec![(name, id, vec![0])])),
        ("a group without a name", "", Some(vec![(name, id, vec![0])])),
    ];
    if version >= 2 {
        all.push(("all", group, None));
        all.push(("all of no such group", peer.name("none"), None));
    }
    for (step, group_id, topics) in all {
        let request = if version < 8 {
            let topics = topics.map(|topics| {
                topics
                    .into_iter()
                    .map(|(name, _, p)| offset_fetch::Topic { name, partition_indexes: p.into() })
                    .collect()
            });
            offset_fetch::Request { group_id, topics, ..Default::default() }
        } else {
            let topics = topics.map(|topics| {
                topics
                    .into_iter()
                    .map(|(name, topic_id, p)| offset_fetch::GroupTopic {
                        name,
                        topic_id,
                        partition_indexes: p.into(),
                    })
                    .collect()
            });
            let one = offset_fetch::Group { group_id, topics, ..Default::default() };
            offset_fetch::Request { groups: vec![one].into(), ..Default::default() }
        };
        peer.call(step, &request, version);
        if version >= 7 {
            let stable = offset_fetch::Request { require_stable: true, ..request };
            peer.call(&format!("{step}, stable"), &stable, version);
        }
    }
}

fn several(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    let id = peer.topic_id(name);
    let groups = [peer.name("a"), peer.name("b"), peer.name("none")];
    for group in &groups[..2] {
        let _ = peer.ask(&of(nobody(group), &[(name, id, vec![(0, 5, None)])]), WRITE);
    }
    let wanted = |topics: bool| {
        let one = |group: &&'static str| offset_fetch::Group {
            group_id: group,
            topics: topics.then(|| {
                let topic = offset_fetch::GroupTopic {
                    name,
                    topic_id: id,
                    partition_indexes: vec![0].into(),
                };
                vec![topic].into()
            }),
            ..Default::default()
        };
        offset_fetch::Request { groups: groups.iter().map(one).collect(), ..Default::default() }
    };
    peer.call("some of each", &wanted(true), version);
    peer.call("all of each", &wanted(false), version);
    peer.call("no groups", &offset_fetch::Request::default(), version);
    let by_member = |member_id, member_epoch| {
        let group =
            offset_fetch::Group { group_id: groups[0], member_id, member_epoch, topics: None };
        offset_fetch::Request { groups: vec![group].into(), ..Default::default() }
    };
    peer.call("for a member that is not", &by_member(Some("stranger"), 3), version);
    peer.call("for nobody by epoch", &by_member(None, 3), version);
}

fn deletes(peer: &mut Peer, version: i16) {
    let (name, group) = (peer.create("t", 3, &[]), peer.name("g"));
    let (id, missing) = (peer.topic_id(name), peer.name("missing"));
    let offsets = vec![(0, 5, None), (1, 6, None), (2, 7, None)];
    let _ = peer.ask(&of(nobody(group), &[(name, id, offsets)]), WRITE);
    let request = |group_id, topics: &[(&'static str, &[i32])]| {
        let topic = |(name, partitions): &(&'static str, &[i32])| offset_delete::Topic {
            name,
            partitions: partitions
                .iter()
                .map(|partition_index| offset_delete::Partition {
                    partition_index: *partition_index,
                })
                .collect(),
        };
        offset_delete::Request { group_id, topics: topics.iter().map(topic).collect() }
    };
    for (step, group, topics) in [
        ("one", group, &[(name, &[0][..])][..]),
        ("one again", group, &[(name, &[0])]),
        ("no such partition", group, &[(name, &[9, 1])]),
        ("no such topic", group, &[(missing, &[0])]),
        ("no partitions", group, &[(name, &[])]),
        ("no topics", group, &[]),
        ("no such group", peer.name("none"), &[(name, &[0])]),
        ("a group without a name", "", &[(name, &[0])]),
    ] {
        peer.call(step, &request(group, topics), version);
    }
    look(peer, "what is left", group);
    let place = settle(peer, peer.name("live"), None);
    let _ = peer.ask(&of(place, &[(name, id, vec![(0, 5, None)])]), WRITE);
    peer.call(
        "of a group with members that read nothing",
        &request(place.group, &[(name, &[0])]),
        version,
    );
}
