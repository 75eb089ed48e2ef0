//! What is kept, when answers may go out, and what a restart brings back.

use rillway_group::record::GroupState;
use rillway_group::{GroupError, Join};

use super::table::{GROUP, Table, again, newcomer, protocol};

fn kept(table: &Table) -> GroupState {
    GroupState::decode(&table.kept[GROUP]).expect("we have written it")
}

#[test]
fn a_generation_is_told_to_nobody_before_it_is_kept() {
    let mut table = Table::default();
    table.keeps = false;
    let a = table.join(newcomer("a"));
    table.pass(3_000);
    assert_eq!((table.join_answer(a), table.phase()), (None, "PreparingRebalance"));
    table.report(true);
    assert_eq!(table.joined(a).generation, 1);
    let state = kept(&table);
    assert_eq!((state.generation, state.members.len()), (1, 0));
}

#[test]
fn an_assignment_is_told_to_nobody_before_it_is_kept() {
    let mut table = Table::default();
    table.join(newcomer("a"));
    table.pass(3_000);
    table.keeps = false;
    let a = table.sync("a-1", 1, &[("a-1", "x")]);
    assert_eq!((table.sync_answer(a), table.phase()), (None, "CompletingRebalance"));
    table.report(true);
    assert_eq!(table.assignment(a), "x");
    let state = kept(&table);
    assert_eq!((state.generation, state.leader.as_deref()), (1, Some("a-1")));
    assert_eq!(state.members[0].assignment, b"x");
    assert_eq!(state.members[0].subscription, newcomer("a").protocols[0].metadata);
}

#[test]
fn a_generation_that_cannot_be_kept_is_refused_and_tried_again() {
    let mut table = Table::default();
    table.keeps = false;
    let direct = table.join(newcomer("a"));
    table.join(Join { id_required: true, ..newcomer("b") });
    let knows = table.join(again("b"));
    table.pass(6_001);
    table.report(false);
    assert_eq!(table.join_error(direct), &GroupError::NotAvailable);
    assert_eq!(table.join_error(knows), &GroupError::NotAvailable);
    assert_eq!(table.members(), 1, "a does not know its id and cannot come back under it");
    assert!(table.causes().contains(&"the state of the group could not be kept".to_owned()));
    table.keeps = true;
    let b = table.join(again("b"));
    assert_eq!(table.joined(b).generation, 1);
}

#[test]
fn an_assignment_that_cannot_be_kept_is_refused_and_the_group_rebalances() {
    let mut table = Table::default();
    table.join(newcomer("a"));
    table.join(newcomer("b"));
    table.pass(6_001);
    table.keeps = false;
    let b = table.sync("b-1", 1, &[]);
    let a = table.sync("a-1", 1, &[]);
    table.report(false);
    assert_eq!(table.sync_error(a), &GroupError::NotAvailable);
    assert_eq!(table.sync_error(b), &GroupError::NotAvailable);
    assert_eq!(
        table.last_change(),
        "CompletingRebalance -> PreparingRebalance: the state of the group could not be kept"
    );
    table.keeps = true;
    table.join(again("b"));
    let a = table.join(again("a"));
    assert_eq!(table.joined(a).generation, 2);
}

#[test]
fn an_assignment_that_is_kept_too_late_is_forgotten() {
    let mut table = Table::default();
    table.join(newcomer("a"));
    table.pass(3_000);
    table.keeps = false;
    let a = table.sync("a-1", 1, &[("a-1", "x")]);
    table.join(newcomer("b"));
    assert_eq!(table.sync_error(a), &GroupError::RebalanceInProgress);
    table.report(true);
    assert_eq!(table.phase(), "PreparingRebalance");
    let a = table.join(again("a"));
    table.report(true);
    assert_eq!(table.joined(a).generation, 2);
}

#[test]
fn a_report_for_a_newer_revision_covers_the_older_ones() {
    let mut table = Table::default();
    table.keeps = false;
    let a = table.join(newcomer("a"));
    table.pass(3_000);
    let (group, revision, _) = table.open.pop().expect("the generation");
    let mut out = Vec::new();
    table.coordinator.persisted(table.clock(), &group, revision + 7, true, &mut out);
    table.run(out);
    assert_eq!(table.joined(a).generation, 1);
    // And one for an older revision, or of a group that is gone, changes nothing.
    let mut out = Vec::new();
    table.coordinator.persisted(table.clock(), &group, revision, false, &mut out);
    table.coordinator.persisted(table.clock(), "gone", 1, true, &mut out);
    assert_eq!((out.len(), table.phase()), (0, "CompletingRebalance"));
}

#[test]
fn stable_members_go_on_after_a_restart_without_a_rebalance() {
    let mut table = Table::default();
    table.stable(&["a", "b"]);
    let described = table.coordinator.describe(GROUP);
    table.restart();
    assert_eq!(table.coordinator.describe(GROUP), described);
    assert_eq!(table.causes(), ["the coordinator restarted with the state that was kept"]);
    table.pass(9_000);
    assert_eq!(table.heartbeat("a-1", 1), Ok(()));
    assert_eq!(table.commit("b-1", 1), Ok(()));
    let sync = table.sync("b-1", 1, &[]);
    assert_eq!(table.assignment(sync), "b gets");
    table.pass(9_000);
    assert_eq!(table.phase(), "Stable");
}

#[test]
fn sessions_begin_anew_with_a_restart() {
    let mut table = Table::default();
    table.stable(&["a"]);
    table.pass(9_999);
    table.restart();
    table.pass(9_999);
    assert_eq!(table.phase(), "Stable");
    table.pass(1);
    assert_eq!(table.phase(), "Empty");
}

#[test]
fn a_follower_that_joins_again_after_a_restart_is_let_in_with_all_its_assignors() {
    let mut table = Table::default();
    let both = vec![protocol("range", &["t"]), protocol("rr", &["t"])];
    table.join(Join { protocols: both.clone(), ..newcomer("a") });
    table.join(Join { protocols: both.clone(), ..newcomer("b") });
    table.pass(6_001);
    table.sync_all(&["a", "b"], 1);
    table.restart();
    let b = table.join(Join { protocols: both.clone(), ..again("b") });
    assert_eq!((table.joined(b).generation, table.phase()), (1, "Stable"));
    // From now on a change is noticed again.
    table.join(Join { protocols: both[..1].to_vec(), ..again("b") });
    assert_eq!(table.phase(), "PreparingRebalance");
}

#[test]
fn a_generation_that_was_told_is_never_given_out_again() {
    let mut table = Table::default();
    table.stable(&["a"]);
    let b = table.join(newcomer("b"));
    table.join(again("a"));
    assert_eq!(table.joined(b).generation, 2);
    // The assignment never came.
    table.restart();
    assert_eq!((table.phase(), table.generation()), ("Empty", 2));
    assert_eq!(table.heartbeat("a-1", 2), Err(GroupError::UnknownMember("a-1".to_owned())));
    let a = table.join(Join { new_member: "a-2".to_owned(), ..newcomer("a") });
    table.pass(3_000);
    assert_eq!(table.joined(a).generation, 3);
}

#[test]
fn members_that_rebalance_when_the_coordinator_restarts_are_stable_as_before() {
    let mut table = Table::default();
    table.stable(&["a", "b"]);
    table.join(newcomer("c"));
    table.restart();
    assert_eq!((table.phase(), table.members(), table.generation()), ("Stable", 2, 1));
    assert_eq!(table.heartbeat("a-1", 1), Ok(()));
    let c = table.join(again("c"));
    assert_eq!(table.join_error(c), &GroupError::UnknownMember("c-1".to_owned()));
}

#[test]
fn the_leader_is_the_leader_after_a_restart() {
    let mut table = Table::default();
    table.stable(&["b", "a"]);
    table.restart();
    let described = table.coordinator.describe(GROUP).expect("it was kept");
    assert_eq!(described.leader.as_deref(), Some("b-1"));
    table.join(again("b"));
    assert!(table.last_change().contains("the leader rejoined"));
}

#[test]
fn bytes_that_are_no_state_are_an_error_and_no_group() {
    let mut table = Table::default();
    table.stable(&["a"]);
    let good = table.kept[GROUP].clone();
    let mut table = Table::default();
    for len in 0..good.len() {
        let clock = table.clock();
        let restored = table.coordinator.restore(clock, GROUP, &good[..len]);
        assert!(restored.is_err(), "{len} bytes of {}", good.len());
    }
    let twice = |state: &GroupState| GroupState {
        members: vec![state.members[0].clone(), state.members[0].clone()],
        ..state.clone()
    };
    let state = GroupState::decode(&good).expect("we have written it");
    let odd = [
        twice(&state),
        GroupState { generation: -1, ..state.clone() },
        GroupState { protocol: None, ..state.clone() },
        GroupState { protocol_type: String::new(), ..state.clone() },
    ];
    for state in odd {
        let clock = table.clock();
        table.coordinator.restore(clock, GROUP, &state.encode()).expect_err("refused");
    }
    assert_eq!(table.phase(), "none");
    let stranger = GroupState { leader: Some("nobody".to_owned()), ..state };
    let clock = table.clock();
    table.coordinator.restore(clock, GROUP, &stranger.encode()).expect("somebody else leads");
    assert_eq!(table.phase(), "Stable");
}

#[test]
fn static_members_keep_their_instances_over_a_restart() {
    let mut table = Table::default();
    table.join(Join { instance: Some("i".to_owned()), ..newcomer("a") });
    table.pass(3_000);
    table.sync_all(&["a"], 1);
    table.restart();
    let a = table.join(Join {
        instance: Some("i".to_owned()),
        new_member: "a-2".to_owned(),
        ..newcomer("a")
    });
    assert_eq!((table.joined(a).generation, table.phase()), (1, "Stable"));
    let zombie = table.join(Join { instance: Some("i".to_owned()), ..again("a") });
    assert_eq!(table.join_error(zombie), &GroupError::FencedInstance("i".to_owned()));
}
