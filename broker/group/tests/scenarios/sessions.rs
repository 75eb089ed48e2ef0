//! Sessions, heartbeats, leaving, and clocks that jump.

use rillway_group::{GroupError, Join, Leave, Leaving};

use super::table::{GROUP, Table, again, newcomer};

#[test]
fn a_silent_member_ends_with_its_session_and_the_others_rebalance() {
    let mut table = Table::default();
    table.stable(&["a", "b"]);
    table.pass_beating(9_998, &["b-1"], 1);
    assert_eq!(table.phase(), "Stable");
    table.pass(2);
    assert_eq!((table.phase(), table.members()), ("PreparingRebalance", 1));
    let change = table.last_change();
    assert!(change.contains("member a-1 (client a at /127.0.0.1) was silent for"), "{change}");
    assert!(change.contains("its session timed out"), "{change}");
    let b = table.join(again("b"));
    assert_eq!((table.joined(b).generation, table.joined(b).leader.as_str()), (2, "b-1"));
}

#[test]
fn heartbeats_commits_and_syncs_keep_a_session_alive() {
    let mut table = Table::default();
    table.stable(&["a"]);
    for round in 0..30 {
        table.pass(9_000);
        match round % 3 {
            0 => table.heartbeat("a-1", 1).expect("stable"),
            1 => table.commit("a-1", 1).expect("stable"),
            _ => {
                let sync = table.sync("a-1", 1, &[]);
                assert_eq!(table.assignment(sync), "a gets");
            }
        }
    }
    assert_eq!(table.phase(), "Stable");
}

#[test]
fn the_last_member_that_goes_leaves_an_empty_group() {
    let mut table = Table::default();
    table.stable(&["a"]);
    table.pass(10_000);
    assert_eq!((table.phase(), table.generation()), ("Empty", 2));
    assert_eq!(table.last_change(), "PreparingRebalance -> Empty: the last member is gone");
    table.pass(1_000_000);
    let a = table.join(Join { new_member: "a-2".to_owned(), ..newcomer("a") });
    table.pass(3_000);
    assert_eq!(table.joined(a).generation, 3);
}

#[test]
fn members_that_wait_for_us_do_not_time_out() {
    let mut table = Table::default();
    table.stable(&["a", "b"]);
    let b = table.join(again("b"));
    assert!(table.join_answer(b).is_some(), "a lost answer is given again at once");
    let c = table.join(newcomer("c"));
    let b = table.join(again("b"));
    table.pass_beating(50_000, &["a-1"], 1);
    assert_eq!((table.join_answer(b), table.join_answer(c)), (None, None));
    table.join(again("a"));
    assert_eq!(table.joined(b).generation, 2);
    table.pass(9_999);
    assert_eq!(table.members(), 3, "the session begins with the answer");
}

#[test]
fn a_heartbeat_of_a_stranger_or_another_generation_is_refused() {
    let mut table = Table::default();
    let unknown = |id: &str| Err(GroupError::UnknownMember(id.to_owned()));
    assert_eq!(table.heartbeat("a-1", 1), unknown("a-1"));
    table.stable(&["a"]);
    assert_eq!(table.heartbeat("b-1", 1), unknown("b-1"));
    let stale = Err(GroupError::IllegalGeneration { got: 0, current: 1 });
    assert_eq!(table.heartbeat("a-1", 0), stale);
    table.leave("a-1", None).expect("a member");
    assert_eq!(table.heartbeat("a-1", 1), unknown("a-1"));
}

#[test]
fn a_member_that_leaves_says_why() {
    let mut table = Table::default();
    table.stable(&["a", "b"]);
    assert_eq!(table.leave("b-1", None), Ok(()));
    assert_eq!(
        table.last_change(),
        "Stable -> PreparingRebalance: member b-1 (client b at /127.0.0.1) left: \
         the consumer is being closed"
    );
    assert_eq!(table.leave("b-1", None), Err(GroupError::UnknownMember("b-1".to_owned())));
    let a = table.join(again("a"));
    assert_eq!(table.joined(a).generation, 2);
}

#[test]
fn members_that_leave_together_cause_one_rebalance_and_have_an_answer_each() {
    let mut table = Table::default();
    table.stable(&["a", "b", "c"]);
    let leaving = |id: &str| Leaving { member: id.to_owned(), instance: None, reason: None };
    let members = vec![leaving("b-1"), leaving("nobody"), leaving("c-1")];
    let leave = Leave { group: GROUP.to_owned(), members };
    let before = table.causes().len();
    let mut out = Vec::new();
    let answers = table.coordinator.leave(table.clock(), &leave, &mut out);
    let unknown = GroupError::UnknownMember("nobody".to_owned());
    assert_eq!(answers, Ok(vec![Ok(()), Err(unknown), Ok(())]));
    assert_eq!((table.causes().len(), table.members()), (before + 1, 1));
}

#[test]
fn whoever_leaves_while_it_waits_is_answered() {
    let mut table = Table::default();
    let a = table.join(Join { id_required: true, ..newcomer("a") });
    assert_eq!(table.leave("a-1", None), Ok(()), "an id that was only promised");
    assert!(matches!(table.join_error(a), GroupError::MemberIdRequired(_)));
    table.stable(&["a", "b"]);
    table.join(newcomer("c"));
    let joins = table.join(again("b"));
    table.leave("b-1", None).expect("a member");
    assert_eq!(table.join_error(joins), &GroupError::UnknownMember("b-1".to_owned()));
    table.join(again("a"));
    let syncs = table.sync("c-1", 2, &[]);
    table.leave("c-1", None).expect("a member");
    assert_eq!(table.sync_error(syncs), &GroupError::UnknownMember("c-1".to_owned()));
}

#[test]
fn leaving_a_group_that_is_not_there_is_refused_member_by_member() {
    let mut table = Table::default();
    let unknown = Err(GroupError::UnknownMember("a-1".to_owned()));
    assert_eq!(table.leave("a-1", None), unknown);
}

#[test]
fn jumps_of_the_wall_clock_end_no_session_and_hold_up_no_timer() {
    let mut table = Table::default();
    table.stable(&["a", "b"]);
    let b = table.join(again("b"));
    assert_eq!(table.joined(b).generation, 1);
    for jump_ms in [-3_600_000, 7_200_000, -86_400_000] {
        table.wall_ms += jump_ms;
        table.pass_beating(9_000, &["a-1", "b-1"], 1);
        assert_eq!(table.phase(), "Stable");
    }
    // Behind the newest record that is kept.
    table.restart();
    assert_eq!(table.phase(), "Stable");
    table.pass_beating(30_000, &["a-1", "b-1"], 1);
    assert_eq!(table.phase(), "Stable");
    table.wall_ms -= 3_600_000;
    table.pass(10_000);
    assert_eq!(table.phase(), "Empty", "and those that are silent end on time");
}

#[test]
fn a_group_where_nothing_happens_asks_for_few_ticks() {
    let mut table = Table::default();
    table.stable(&["a"]);
    let mut asked = 0;
    for _ in 0..100 {
        table.heartbeat("a-1", 1).expect("stable");
        let end = table.mono_ms + 3_000;
        asked += usize::from(table.coordinator.deadline().is_some_and(|at| at <= end));
        table.pass(3_000);
    }
    assert!(asked < 60, "{asked} ticks in 300 s with a session of 10 s");
}
