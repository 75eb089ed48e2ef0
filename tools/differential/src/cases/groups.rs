//! DescribeGroups, ListGroups and DeleteGroups: what administrators see of groups, and do to them.

use rillway_wire::ApiKey;
use rillway_wire::api::{delete_groups, describe_groups, list_groups};

use super::members::{leave, settle};
use super::{Case, case, case_from};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case(ApiKey::DescribeGroups, "with members, without, and none", describes),
    case(ApiKey::ListGroups, "those of this case", lists),
    case_from(ApiKey::ListGroups, 4, "by state and type", filters),
    case(ApiKey::DeleteGroups, "with members, without, and none", deletes),
];

fn describe(groups: Vec<&'static str>) -> describe_groups::Request<'static> {
    describe_groups::Request { groups: groups.into(), include_authorized_operations: false }
}

fn describes(peer: &mut Peer, version: i16) {
    let place = settle(peer, peer.name("g"), None);
    let kept = settle(peer, peer.name("static"), Some("one"));
    let none = peer.name("none");
    peer.call("one with a member", &describe(vec![place.group]), version);
    peer.call("one with a member that keeps its place", &describe(vec![kept.group]), version);
    peer.call("none", &describe(vec![none]), version);
    peer.call("without a name", &describe(vec![""]), version);
    peer.call("several", &describe(vec![place.group, none, place.group]), version);
    peer.call("nothing", &describe(vec![]), version);
    let request = describe_groups::Request {
        include_authorized_operations: true,
        ..describe(vec![place.group, none])
    };
    peer.call("with operations", &request, version);
    leave(peer, place);
    peer.call("without members", &describe(vec![place.group]), version);
}

/// Notes the groups of this case among those that are listed.
fn list(
    peer: &mut Peer,
    step: &str,
    states: &[&'static str],
    types: &[&'static str],
    version: i16,
) {
    let mine = peer.name("");
    let request = list_groups::Request {
        states_filter: states.to_vec().into(),
        types_filter: types.to_vec().into(),
    };
    peer.call_showing(step, &request, version, |answer| {
        let mut all: Vec<_> = answer
            .groups
            .iter()
            .filter_map(|g| {
                let name = g.group_id.strip_prefix(mine)?;
                Some((name, g.protocol_type, g.group_state, g.group_type))
            })
            .collect();
        all.sort_unstable();
        format!("{:?} {all:?}", answer.error_code)
    });
}

fn lists(peer: &mut Peer, version: i16) {
    list(peer, "none yet", &[], &[], version);
    let place = settle(peer, peer.name("a"), None);
    settle(peer, peer.name("b"), Some("one"));
    list(peer, "two with members", &[], &[], version);
    leave(peer, place);
    list(peer, "one of them without", &[], &[], version);
}

fn filters(peer: &mut Peer, version: i16) {
    let place = settle(peer, peer.name("empty"), None);
    leave(peer, place);
    settle(peer, peer.name("stable"), None);
    for states in
        [&["Stable"][..], &["Empty"], &["stable", "EMPTY"], &["Dead"], &["nonsense"], &[""]]
    {
        list(peer, &format!("in {states:?}"), states, &[], version);
    }
    if version >= 5 {
        for types in [&["classic"][..], &["Classic"], &["consumer"], &["nonsense"], &[""]] {
            list(peer, &format!("of {types:?}"), &[], types, version);
        }
        list(peer, "both", &["Empty"], &["classic"], version);
    }
}

fn deletes(peer: &mut Peer, version: i16) {
    let place = settle(peer, peer.name("g"), None);
    let none = peer.name("none");
    let request = |names: Vec<&'static str>| delete_groups::Request { groups_names: names.into() };
    peer.call("with a member", &request(vec![place.group]), version);
    peer.call("none", &request(vec![none]), version);
    peer.call("without a name", &request(vec![""]), version);
    leave(peer, place);
    peer.call(
        "one of two, and both twice",
        &request(vec![none, place.group, none, place.group]),
        version,
    );
    peer.call("again", &request(vec![place.group]), version);
    peer.call("nothing", &request(vec![]), version);
    peer.call("what is left", &describe(vec![place.group]), 5);
}
