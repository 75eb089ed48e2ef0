//! How generations follow each other.

use rillway_group::{GroupError, Join, Sync};

use super::table::{GROUP, Table, again, newcomer, protocol};

#[test]
fn a_rebalance_ends_when_everybody_has_rejoined() {
    let mut table = Table::default();
    table.stable(&["a", "b"]);
    let c = table.join(newcomer("c"));
    assert_eq!(table.phase(), "PreparingRebalance");
    assert_eq!(table.heartbeat("a-1", 1), Err(GroupError::RebalanceInProgress));
    table.join(again("a"));
    assert_eq!(table.join_answer(c), None);
    table.join(again("b"));
    assert_eq!(table.joined(c).generation, 2);
    assert_eq!(table.joined(c).leader, "a-1");
    table.sync_all(&["a", "b", "c"], 2);
}

#[test]
fn a_slow_member_is_given_up_after_the_longest_rebalance_timeout() {
    let mut table = Table::default();
    table.stable(&["a", "b"]);
    let c = table.join(Join { rebalance_timeout_ms: 90_000, ..newcomer("c") });
    let b = table.join(again("b"));
    table.pass_beating(89_999, &["a-1"], 1);
    assert_eq!(table.join_answer(c), None);
    table.pass_beating(1, &["a-1"], 1);
    let joined = table.joined(b);
    assert_eq!((joined.generation, joined.leader.as_str()), (2, "b-1"));
    assert_eq!(joined.members.len(), 2);
    assert_eq!(table.heartbeat("a-1", 1), Err(GroupError::UnknownMember("a-1".to_owned())));
    assert_eq!(
        table.last_change(),
        "PreparingRebalance -> CompletingRebalance: member a-1 (client a at /127.0.0.1) did not \
         rejoin within the rebalance timeout of 90000 ms: slow processing"
    );
}

#[test]
fn a_lost_answer_is_given_again_to_a_follower_of_a_stable_group() {
    let mut table = Table::default();
    table.stable(&["a", "b"]);
    let retry = table.join(again("b"));
    let joined = table.joined(retry);
    assert_eq!((joined.generation, joined.members.len()), (1, 0));
    let sync = table.sync("b-1", 1, &[]);
    assert_eq!(table.assignment(sync), "b gets");
    assert_eq!(table.phase(), "Stable");
}

#[test]
fn a_lost_answer_is_given_again_while_the_assignment_is_awaited() {
    let mut table = Table::default();
    let lost = table.join(newcomer("a"));
    table.join(newcomer("b"));
    table.pass(6_001);
    let before = table.joined(lost).clone();
    let retry = table.join(again("a"));
    assert_eq!(table.joined(retry), &before);
    let follower = table.join(again("b"));
    assert_eq!(table.joined(follower).generation, 1);
    table.sync_all(&["a", "b"], 1);
}

#[test]
fn a_leader_that_rejoins_a_stable_group_wants_to_assign_anew() {
    let mut table = Table::default();
    table.stable(&["a", "b"]);
    let reason = Some("cached metadata has changed".to_owned());
    let a = table.join(Join { reason, ..again("a") });
    assert_eq!(
        table.last_change(),
        "Stable -> PreparingRebalance: the leader rejoined to assign anew: \
         member a-1 (client a at /127.0.0.1): cached metadata has changed"
    );
    table.join(again("b"));
    assert_eq!(table.joined(a).generation, 2);
}

#[test]
fn changed_metadata_begins_a_rebalance_in_every_phase() {
    let mut table = Table::default();
    table.stable(&["a", "b"]);
    let changed = Join { protocols: vec![protocol("range", &["t", "u"])], ..again("b") };
    let b = table.join(changed.clone());
    assert_eq!(table.phase(), "PreparingRebalance");
    assert!(table.last_change().contains("member b-1 (client b at /127.0.0.1) changed what"));
    let a = table.join(again("a"));
    assert_eq!(table.joined(b).generation, 2);
    assert_eq!(table.joined(a).members[1].metadata, changed.protocols[0].metadata);

    assert_eq!(table.phase(), "CompletingRebalance");
    let b = table.join(again("b"));
    assert_eq!(table.phase(), "PreparingRebalance");
    table.join(again("a"));
    assert_eq!(table.joined(b).generation, 3);
}

#[test]
fn whoever_waits_for_an_assignment_is_told_when_a_rebalance_begins() {
    let mut table = Table::default();
    table.join(newcomer("a"));
    table.join(newcomer("b"));
    table.pass(6_001);
    let waits = table.sync("b-1", 1, &[]);
    assert_eq!(table.sync_answer(waits), None);
    table.join(newcomer("c"));
    assert_eq!(table.sync_error(waits), &GroupError::RebalanceInProgress);
    let late = table.sync("a-1", 1, &[]);
    assert_eq!(table.sync_error(late), &GroupError::RebalanceInProgress);
}

#[test]
fn an_older_join_that_still_waits_is_answered_when_its_member_joins_again() {
    let mut table = Table::default();
    table.stable(&["a", "b"]);
    let older = table.join(again("a"));
    let newer = table.join(again("a"));
    assert_eq!(table.join_error(older), &GroupError::RebalanceInProgress);
    table.join(again("b"));
    assert_eq!(table.joined(newer).generation, 2);
}

#[test]
fn an_older_sync_that_still_waits_is_answered_when_its_member_syncs_again() {
    let mut table = Table::default();
    table.join(newcomer("a"));
    table.join(newcomer("b"));
    table.pass(6_001);
    let older = table.sync("b-1", 1, &[]);
    let newer = table.sync("b-1", 1, &[]);
    assert_eq!(table.sync_error(older), &GroupError::RebalanceInProgress);
    table.sync("a-1", 1, &[("b-1", "x")]);
    assert_eq!(table.assignment(newer), "x");
}

#[test]
fn a_leader_that_syncs_twice_assigns_once() {
    let mut table = Table::default();
    table.keeps = false;
    table.join(newcomer("a"));
    table.pass(3_000);
    table.report(true);
    let older = table.sync("a-1", 1, &[("a-1", "x")]);
    let newer = table.sync("a-1", 1, &[("a-1", "y")]);
    assert_eq!(table.sync_error(older), &GroupError::RebalanceInProgress);
    assert_eq!(table.open.len(), 1);
    table.report(true);
    assert_eq!(table.assignment(newer), "x");
}

#[test]
fn members_that_the_leader_forgets_get_nothing_and_those_it_invents_are_dropped() {
    let mut table = Table::default();
    table.join(newcomer("a"));
    table.join(newcomer("b"));
    table.pass(6_001);
    table.sync("a-1", 1, &[("a-1", "x"), ("nobody", "y")]);
    let b = table.sync("b-1", 1, &[]);
    assert_eq!(table.assignment(b), "");
    assert_eq!(table.members(), 2);
}

#[test]
fn a_sync_of_a_stranger_another_generation_or_another_assignor_is_refused() {
    let mut table = Table::default();
    let ticket = table.sync("a-1", 1, &[]);
    assert_eq!(table.sync_error(ticket), &GroupError::UnknownMember("a-1".to_owned()));
    table.stable(&["a"]);
    let ticket = table.sync("b-1", 1, &[]);
    assert_eq!(table.sync_error(ticket), &GroupError::UnknownMember("b-1".to_owned()));
    let ticket = table.sync("a-1", 0, &[]);
    assert_eq!(table.sync_error(ticket), &GroupError::IllegalGeneration { got: 0, current: 1 });
    for (protocol_type, protocol_name) in [("connect", "range"), ("consumer", "roundrobin")] {
        let ticket = table.sync_as(Sync {
            group: GROUP.to_owned(),
            fence: table.fence("a-1", 1),
            protocol_type: Some(protocol_type.to_owned()),
            protocol_name: Some(protocol_name.to_owned()),
            assignments: Vec::new(),
        });
        assert_eq!(table.sync_error(ticket), &GroupError::InconsistentProtocol);
    }
}

#[test]
fn a_leader_whose_assignment_does_not_come_in_time_loses_its_place() {
    let mut table = Table::default();
    table.join(newcomer("a"));
    table.join(newcomer("b"));
    table.pass(6_001);
    let waits = table.sync("b-1", 1, &[]);
    table.pass_beating(60_000, &["a-1"], 1);
    assert_eq!(table.sync_error(waits), &GroupError::RebalanceInProgress);
    assert_eq!((table.phase(), table.members()), ("PreparingRebalance", 1));
    assert_eq!(
        table.last_change(),
        "CompletingRebalance -> PreparingRebalance: the leader's assignment of member a-1 \
         (client a at /127.0.0.1) did not come in time (60000 ms)"
    );
    let b = table.join(again("b"));
    assert_eq!((table.joined(b).generation, table.joined(b).leader.as_str()), (2, "b-1"));
}

#[test]
fn a_follower_that_never_asks_for_its_assignment_is_given_up() {
    let mut table = Table::default();
    table.join(newcomer("a"));
    table.join(newcomer("b"));
    table.pass(6_001);
    table.sync("a-1", 1, &[]);
    assert_eq!(table.phase(), "Stable");
    table.pass_beating(60_000, &["a-1", "b-1"], 1);
    assert_eq!((table.phase(), table.members()), ("PreparingRebalance", 1));
    assert!(table.last_change().contains("the sync of member b-1"), "{}", table.last_change());
}

#[test]
fn a_member_that_is_answered_again_has_to_sync_again() {
    let mut table = Table::default();
    table.stable(&["a", "b"]);
    table.join(again("b"));
    table.pass_beating(59_998, &["a-1", "b-1"], 1);
    assert_eq!(table.phase(), "Stable");
    table.pass_beating(2, &["a-1", "b-1"], 1);
    assert_eq!((table.phase(), table.members()), ("PreparingRebalance", 1));
}

#[test]
fn the_black_box_keeps_the_last_transitions_only() {
    let mut table = Table::default();
    table.stable(&["a"]);
    for generation in 2..100 {
        let a = table.join(again("a"));
        assert_eq!(table.joined(a).generation, generation);
        table.sync_all(&["a"], generation);
    }
    let history = table.coordinator.history(GROUP);
    assert_eq!(history.len(), 32);
    assert_eq!(history.last().expect("32 of them").generation, 99);
    let long = Join { reason: Some("é".repeat(10_000)), ..again("a") };
    table.join(long);
    assert!(table.causes().iter().all(|cause| cause.len() < 500));
}
