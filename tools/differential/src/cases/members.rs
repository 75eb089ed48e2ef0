//! JoinGroup, SyncGroup, Heartbeat and LeaveGroup: members of groups, one at a time, since a script has one connection.

use rillway_wire::api::{heartbeat, join_group, leave_group, sync_group};
use rillway_wire::{ApiKey, ErrorCode};

use super::{Case, case, case_from};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case(ApiKey::JoinGroup, "a group of one begins, and goes on", begins),
    case(ApiKey::JoinGroup, "who is refused", refused),
    case(ApiKey::JoinGroup, "who does not fit to those that are there", misfits),
    case_from(ApiKey::JoinGroup, 5, "members that keep their place", keeps_its_place),
    case_from(ApiKey::JoinGroup, 5, "any text names a place", any_text_names_a_place),
    case(ApiKey::SyncGroup, "assignments, good and bad", assignments),
    case_from(ApiKey::SyncGroup, 3, "of members that keep their place", static_sync),
    case(ApiKey::Heartbeat, "of members and of others", beats),
    case(ApiKey::LeaveGroup, "members, and others, leave", leaves),
];

/// Who is in which generation of a group.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub group: &'static str,
    pub member: &'static str,
    pub generation: i32,
}

const FITS: &[(&str, &[u8])] = &[("range", b"\0\0\0\0\0\0\xff\xff\xff\xff")];

pub(super) fn join(group: &'static str, member: &'static str) -> join_group::Request<'static> {
    let protocol =
        |(name, metadata): &(&'static str, &'static [u8])| join_group::Protocol { name, metadata };
    join_group::Request {
        group_id: group,
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 60_000,
        member_id: member,
        protocol_type: "consumer",
        protocols: FITS.iter().map(protocol).collect(),
        ..Default::default()
    }
}

/// One member that has taken everything; nothing is noted.
pub(super) fn settle(
    peer: &mut Peer,
    group: &'static str,
    instance: Option<&'static str>,
) -> Place {
    let mut request = join_group::Request { group_instance_id: instance, ..join(group, "") };
    let mut joined = peer.ask(&request, 5).unwrap_or_default();
    if joined.error_code == ErrorCode::MemberIdRequired {
        request.member_id = joined.member_id;
        joined = peer.ask(&request, 5).unwrap_or_default();
    }
    let place = Place { group, member: joined.member_id, generation: joined.generation_id };
    let _ = peer.ask(&sync(place, b"all of it"), 3);
    place
}

pub(super) fn leave(peer: &mut Peer, place: Place) {
    let member = leave_group::Member { member_id: place.member, ..Default::default() };
    let request = leave_group::Request {
        group_id: place.group,
        members: vec![member].into(),
        ..Default::default()
    };
    let _ = peer.ask(&request, 4);
}

fn sync(place: Place, assignment: &'static [u8]) -> sync_group::Request<'static> {
    let assignment = sync_group::Assignment { member_id: place.member, assignment };
    sync_group::Request {
        group_id: place.group,
        generation_id: place.generation,
        member_id: place.member,
        protocol_type: Some("consumer"),
        protocol_name: Some("range"),
        assignments: vec![assignment].into(),
        ..Default::default()
    }
}

fn begins(peer: &mut Peer, version: i16) {
    let group = peer.name("g");
    let mut answer = peer.call("the first", &join(group, ""), version);
    if answer.error_code == ErrorCode::MemberIdRequired {
        answer = peer.call("with its id", &join(group, answer.member_id), version);
    }
    let place = Place { group, member: answer.member_id, generation: answer.generation_id };
    peer.call("before its assignment", &join(group, place.member), version);
    let place = Place { generation: place.generation + 1, ..place };
    peer.call("its assignment", &sync(place, b"a"), 3);
    peer.call("the leader joins again", &join(group, place.member), version);
    leave(peer, place);
    peer.call("after it left", &join(group, place.member), version);
}

fn refused(peer: &mut Peer, version: i16) {
    let group = peer.name("g");
    peer.call("a group without a name", &join("", ""), version);
    peer.call("an id that was never given out", &join(group, "stranger"), version);
    for session_timeout_ms in [1, 5_999, 1_800_001, -1, i32::MAX] {
        let request = join_group::Request { session_timeout_ms, ..join(group, "") };
        peer.call(&format!("a session of {session_timeout_ms} ms"), &request, version);
    }
    let request = join_group::Request { protocols: Vec::new().into(), ..join(group, "") };
    peer.call("no protocols", &request, version);
    let request = join_group::Request { protocol_type: "", ..join(group, "") };
    peer.call("no type", &request, version);
}

fn misfits(peer: &mut Peer, version: i16) {
    let place = settle(peer, peer.name("g"), None);
    let other = join_group::Protocol { name: "roundrobin", metadata: b"m" };
    let request = join_group::Request { protocols: vec![other].into(), ..join(place.group, "") };
    peer.call("another assignor", &request, version);
    let request = join_group::Request { protocols: Vec::new().into(), ..join(place.group, "") };
    peer.call("no assignor", &request, version);
    let request = join_group::Request { protocol_type: "connect", ..join(place.group, "") };
    peer.call("another type", &request, version);
    peer.call("a stranger's id", &join(place.group, "stranger"), version);
    beat(peer, "nobody was disturbed", place, None, 3);
}

fn any_text_names_a_place(peer: &mut Peer, version: i16) {
    for (group, instance) in ["g1", "g2", "g3"].into_iter().zip(["", "..", "i/\u{e9} :1"]) {
        let group = peer.name(group);
        let request = join_group::Request { group_instance_id: Some(instance), ..join(group, "") };
        peer.call(&format!("{instance:?}"), &request, version);
    }
}

fn keeps_its_place(peer: &mut Peer, version: i16) {
    let group = peer.name("g");
    let request = join_group::Request { group_instance_id: Some("one"), ..join(group, "") };
    let first = peer.call("the first", &request, version);
    let place = Place { group, member: first.member_id, generation: first.generation_id };
    peer.call("its assignment", &sync(place, b"a"), 3);
    let again = peer.call("it comes back", &request, version);
    let fenced = join_group::Request { member_id: place.member, ..request.clone() };
    peer.call("the one before it", &fenced, version);
    let unknown = join_group::Request { group_instance_id: Some("two"), ..fenced };
    peer.call("an instance that is not there", &unknown, version);
    let now = Place { member: again.member_id, generation: again.generation_id, ..place };
    beat(peer, "who is there", now, Some("one"), 3);
    beat(peer, "who was", place, Some("one"), 3);
    beat(peer, "an instance that is not there beats", now, Some("two"), 3);
}

fn assignments(peer: &mut Peer, version: i16) {
    let place = settle(peer, peer.name("g"), None);
    peer.call("the leader again", &sync(place, b"another"), version);
    let unknown = Place { member: "stranger", ..place };
    peer.call("a stranger", &sync(unknown, b"a"), version);
    for generation in [place.generation - 1, place.generation + 1, -1] {
        peer.call(
            &format!("generation {generation}"),
            &sync(Place { generation, ..place }, b"a"),
            version,
        );
    }
    peer.call("no such group", &sync(Place { group: peer.name("none"), ..place }, b"a"), version);
    peer.call("a group without a name", &sync(Place { group: "", ..place }, b"a"), version);
    for (step, kind, name) in [
        ("another type", Some("connect"), Some("range")),
        ("another assignor", Some("consumer"), Some("roundrobin")),
        ("neither named", None, None),
    ] {
        let request =
            sync_group::Request { protocol_type: kind, protocol_name: name, ..sync(place, b"a") };
        peer.call(step, &request, version);
    }
    leave(peer, place);
    peer.call("after it left", &sync(place, b"a"), version);
}

fn static_sync(peer: &mut Peer, version: i16) {
    let place = settle(peer, peer.name("g"), Some("one"));
    for instance in [Some("one"), Some("two"), None] {
        for member in [place.member, "stranger"] {
            let request = sync_group::Request {
                group_instance_id: instance,
                ..sync(Place { member, ..place }, b"a")
            };
            let who = if member == "stranger" { "a stranger" } else { "the member" };
            peer.call(&format!("{who} as {instance:?}"), &request, version);
        }
    }
}

fn beat(peer: &mut Peer, step: &str, place: Place, instance: Option<&'static str>, version: i16) {
    let request = heartbeat::Request {
        group_id: place.group,
        generation_id: place.generation,
        member_id: place.member,
        group_instance_id: instance,
    };
    peer.call(step, &request, version);
}

fn beats(peer: &mut Peer, version: i16) {
    let place = settle(peer, peer.name("g"), None);
    beat(peer, "the member", place, None, version);
    for generation in [place.generation - 1, place.generation + 1, -1] {
        beat(
            peer,
            &format!("generation {generation}"),
            Place { generation, ..place },
            None,
            version,
        );
    }
    beat(peer, "a stranger", Place { member: "stranger", ..place }, None, version);
    beat(peer, "nobody", Place { member: "", ..place }, None, version);
    beat(peer, "no such group", Place { group: peer.name("none"), ..place }, None, version);
    beat(peer, "a group without a name", Place { group: "", ..place }, None, version);
    leave(peer, place);
    beat(peer, "after it left", place, None, version);
}

fn leaves(peer: &mut Peer, version: i16) {
    let go = |peer: &mut Peer, step: &str, place: Place, instance: Option<&'static str>| {
        let request = if version < 3 {
            leave_group::Request {
                group_id: place.group,
                member_id: place.member,
                ..Default::default()
            }
        } else {
            let member = leave_group::Member {
                member_id: place.member,
                group_instance_id: instance,
                reason: None,
            };
            leave_group::Request {
                group_id: place.group,
                members: vec![member].into(),
                ..Default::default()
            }
        };
        peer.call(step, &request, version);
    };
    let place = settle(peer, peer.name("g"), None);
    go(peer, "a stranger", Place { member: "stranger", ..place }, None);
    go(peer, "no such group", Place { group: peer.name("none"), ..place }, None);
    go(peer, "a group without a name", Place { group: "", ..place }, None);
    go(peer, "the member", place, None);
    go(peer, "the member again", place, None);
    if version >= 3 {
        let place = settle(peer, peer.name("static"), Some("one"));
        go(peer, "an instance that is not there", Place { member: "", ..place }, Some("two"));
        go(peer, "its instance, another id", Place { member: "stranger", ..place }, Some("one"));
        go(peer, "by its instance", Place { member: "", ..place }, Some("one"));
        go(peer, "by its instance again", Place { member: "", ..place }, Some("one"));
        let request = leave_group::Request { group_id: place.group, ..Default::default() };
        peer.call("no members", &request, version);
    }
}
