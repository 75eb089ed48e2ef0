//! Who is let in, and who only looks as if.

use rillway_group::{GroupError, Heartbeat, Join, Leave, Options, Sync};

use super::table::{Table, again, newcomer, protocol};

#[test]
fn the_first_member_waits_for_the_initial_delay_and_leads() {
    let mut table = Table::default();
    let a = table.join(newcomer("a"));
    table.pass(2_999);
    assert_eq!(table.join_answer(a), None);
    table.pass(1);
    let joined = table.joined(a);
    assert_eq!((joined.generation, joined.leader.as_str(), joined.members.len()), (1, "a-1", 1));
    assert_eq!(
        (joined.protocol_type.as_str(), joined.protocol_name.as_str()),
        ("consumer", "range")
    );
}

#[test]
fn members_that_come_during_the_initial_delay_extend_it() {
    let mut table = Table::default();
    let a = table.join(newcomer("a"));
    table.pass(2_000);
    let b = table.join(newcomer("b"));
    table.pass(2_000);
    assert_eq!((table.join_answer(a), table.join_answer(b)), (None, None));
    table.pass(2_000);
    assert_eq!(table.joined(a).members.len(), 2);
    assert!(table.joined(b).members.is_empty(), "only the leader is told the members");
}

#[test]
fn the_initial_delay_is_not_extended_beyond_the_rebalance_timeout() {
    let mut table = Table::default();
    let first = table.join(Join { rebalance_timeout_ms: 10_000, ..newcomer("m0") });
    for n in 1..=12 {
        table.pass(1_000);
        table.join(Join { rebalance_timeout_ms: 10_000, ..newcomer(&format!("m{n}")) });
    }
    assert!(table.joined(first).members.len() >= 9, "{:?}", table.causes());
    assert!(table.joined(first).members.len() <= 12);
}

#[test]
fn a_member_without_an_id_is_told_one_and_counts_from_its_second_join() {
    let mut table = Table::default();
    let first = table.join(Join { id_required: true, ..newcomer("a") });
    assert_eq!(table.join_error(first), &GroupError::MemberIdRequired("a-1".to_owned()));
    assert_eq!((table.phase(), table.members()), ("Empty", 0));
    let second = table.join(Join { id_required: true, ..again("a") });
    table.pass(3_000);
    assert_eq!(table.joined(second).member, "a-1");
}

#[test]
fn an_empty_group_id_is_refused() {
    let mut table = Table::default();
    let join = table.join(Join { group: String::new(), ..newcomer("a") });
    assert_eq!(table.join_error(join), &GroupError::InvalidGroupId);
    let fence = table.fence("a-1", 1);
    let sync = table.sync_as(Sync {
        group: String::new(),
        fence: fence.clone(),
        protocol_type: None,
        protocol_name: None,
        assignments: Vec::new(),
    });
    assert_eq!(table.sync_error(sync), &GroupError::InvalidGroupId);
    let clock = table.clock();
    let beat = Heartbeat { group: String::new(), fence };
    assert_eq!(table.coordinator.heartbeat(clock, &beat), Err(GroupError::InvalidGroupId));
    let leave = Leave { group: String::new(), members: Vec::new() };
    let left = table.coordinator.leave(clock, &leave, &mut Vec::new());
    assert_eq!(left, Err(GroupError::InvalidGroupId));
}

#[test]
fn odd_joiners_are_refused_and_the_members_that_work_never_notice() {
    let mut table = Table::default();
    table.stable(&["a", "b"]);
    let history = table.causes();
    let other_assignor = Join { protocols: vec![protocol("roundrobin", &["t"])], ..newcomer("c") };
    let other_type = Join { protocol_type: "connect".to_owned(), ..newcomer("c") };
    let nothing = Join { protocols: Vec::new(), ..newcomer("c") };
    for join in [other_assignor, other_type, nothing] {
        let ticket = table.join(join);
        assert_eq!(table.join_error(ticket), &GroupError::InconsistentProtocol);
    }
    for session_timeout_ms in [1, 5_999, 1_800_001, 7_200_000] {
        let ticket = table.join(Join { session_timeout_ms, ..newcomer("c") });
        let error = table.join_error(ticket);
        assert!(matches!(error, GroupError::InvalidSessionTimeout { .. }), "{error}");
    }
    assert_eq!((table.phase(), table.causes()), ("Stable", history));
    assert_eq!(table.heartbeat("a-1", 1), Ok(()));

    let both = vec![protocol("roundrobin", &["t"]), protocol("range", &["t"])];
    let c = table.join(Join { protocols: both, ..newcomer("c") });
    table.join(again("a"));
    table.join(again("b"));
    assert_eq!(table.joined(c).protocol_name, "range");
}

#[test]
fn a_first_member_without_assignors_is_refused_and_the_name_is_forgotten() {
    let mut table = Table::default();
    let ticket = table.join(Join { protocols: Vec::new(), ..newcomer("a") });
    assert_eq!(table.join_error(ticket), &GroupError::InconsistentProtocol);
    let ticket = table.join(Join { protocol_type: String::new(), ..newcomer("a") });
    assert_eq!(table.join_error(ticket), &GroupError::InconsistentProtocol);
    assert_eq!((table.phase(), table.coordinator.deadline()), ("none", None));
}

#[test]
fn a_member_that_nobody_knows_has_to_begin_again() {
    let mut table = Table::default();
    let ticket = table.join(again("ghost"));
    assert_eq!(table.join_error(ticket), &GroupError::UnknownMember("ghost-1".to_owned()));
    assert_eq!(table.phase(), "none");
    table.stable(&["a"]);
    let ticket = table.join(again("ghost"));
    assert_eq!(table.join_error(ticket), &GroupError::UnknownMember("ghost-1".to_owned()));
    assert_eq!(table.phase(), "Stable");
}

#[test]
fn a_thousand_ids_that_nobody_comes_back_with_hold_nobody_up() {
    let mut table = Table::default();
    for n in 0..3_000 {
        table.join(Join { id_required: true, ..newcomer(&format!("ghost{n}")) });
    }
    assert_eq!(table.members(), 0);
    table.stable(&["a"]);
    // A second rebalance, with new ghosts in the middle of it.
    let b = table.join(newcomer("b"));
    table.join(Join { id_required: true, ..newcomer("ghost") });
    table.join(again("a"));
    assert_eq!(table.joined(b).generation, 2);
    // The oldest were pushed out, the newest may still come.
    let old = table.join(again("ghost0"));
    assert_eq!(table.join_error(old), &GroupError::UnknownMember("ghost0-1".to_owned()));
    table.join(again("ghost2999"));
    assert_eq!(table.members(), 3);
}

#[test]
fn an_id_that_was_given_out_ends_with_the_session_timeout() {
    let mut table = Table::default();
    table.join(Join { id_required: true, ..newcomer("ghost") });
    table.pass(9_999);
    assert_eq!(table.phase(), "Empty");
    table.pass(1);
    assert_eq!((table.phase(), table.coordinator.deadline()), ("none", None));
    let late = table.join(again("ghost"));
    assert_eq!(table.join_error(late), &GroupError::UnknownMember("ghost-1".to_owned()));
}

#[test]
fn joins_of_old_clients_that_gave_up_do_not_outlive_the_rebalance() {
    let mut table = Table::default();
    table.stable(&["a"]);
    for n in 0..100 {
        // JoinGroup 3: no id is required first, and a retry looks like somebody new.
        let ticket = table.join(newcomer(&format!("ghost{n}")));
        table.abandon(ticket);
        table.heartbeat("a-1", 1).expect_err("a rebalance is under way");
    }
    let real = table.join(newcomer("b"));
    table.join(again("a"));
    assert_eq!(table.joined(real).generation, 2);
    assert_eq!(table.members(), 2);
}

#[test]
fn ghosts_whose_connections_stay_open_end_with_their_sessions() {
    let mut table = Table::default();
    table.stable(&["a"]);
    for n in 0..100 {
        table.join(newcomer(&format!("ghost{n}")));
    }
    let real = table.join(newcomer("b"));
    table.join(again("a"));
    assert_eq!((table.joined(real).generation, table.members()), (2, 102));
    table.sync("a-1", 2, &[]);
    table.sync("b-1", 2, &[]);
    table.pass_beating(15_000, &["a-1", "b-1"], 2);
    assert_eq!((table.phase(), table.members()), ("PreparingRebalance", 2));
    table.join(again("a"));
    table.join(again("b"));
    assert_eq!((table.generation(), table.members()), (3, 2));
}

#[test]
fn a_joining_member_that_knows_its_id_survives_its_connection() {
    let mut table = Table::default();
    table.join(Join { id_required: true, ..newcomer("a") });
    let lost = table.join(again("a"));
    table.abandon(lost);
    assert_eq!(table.members(), 1);
    let retry = table.join(again("a"));
    assert_eq!(table.join_error(lost), &GroupError::RebalanceInProgress);
    table.pass(6_001);
    assert_eq!(table.joined(retry).generation, 1);
}

#[test]
fn a_member_whose_first_join_is_never_answered_is_given_up_after_five_minutes() {
    let mut table = Table::default();
    table.stable(&["a"]);
    let long = Join { rebalance_timeout_ms: 3_600_000, ..newcomer("b") };
    let b = table.join(long);
    table.pass_beating(299_999, &["a-1"], 1);
    assert_eq!(table.join_answer(b), None);
    table.pass_beating(1, &["a-1"], 1);
    assert_eq!(table.join_error(b), &GroupError::UnknownMember("b-1".to_owned()));
}

#[test]
fn a_full_group_takes_nobody_and_keeps_whom_it_has() {
    let mut table = Table::new(Options { size_max: 2, ..Options::default() });
    table.stable(&["a", "b"]);
    for join in [newcomer("c"), Join { id_required: true, ..newcomer("c") }] {
        let ticket = table.join(join);
        assert_eq!(table.join_error(ticket), &GroupError::MaxSizeReached { max: 2 });
    }
    let leader = table.join(again("a"));
    let follower = table.join(again("b"));
    assert_eq!((table.joined(leader).generation, table.joined(follower).generation), (2, 2));
}

#[test]
fn a_group_that_was_kept_too_large_lets_the_first_to_rejoin_stay() {
    let mut table = Table::default();
    table.stable(&["a", "b", "c"]);
    table.options.size_max = 2;
    table.restart();
    assert_eq!(
        table.last_change(),
        "Stable -> PreparingRebalance: the group has more than 2 members"
    );
    let tickets = [table.join(again("b")), table.join(again("c")), table.join(again("a"))];
    assert_eq!(table.join_error(tickets[2]), &GroupError::MaxSizeReached { max: 2 });
    assert_eq!(table.joined(tickets[0]).generation, 2);
    assert_eq!(table.members(), 2);
}

#[test]
fn texts_that_the_kept_form_cannot_hold_are_refused() {
    let mut table = Table::default();
    let long = "x".repeat(32_768);
    let refused = [
        Join { group: long.clone(), ..newcomer("a") },
        Join { client_id: long.clone(), ..newcomer("a") },
        Join { new_member: long.clone(), ..newcomer("a") },
        Join { instance: Some(long.clone()), ..newcomer("a") },
        Join { protocol_type: long.clone(), ..newcomer("a") },
        Join { protocols: vec![protocol(&long, &["t"])], ..newcomer("a") },
    ];
    for join in refused {
        let ticket = table.join(join);
        table.join_error(ticket);
    }
    assert_eq!(table.phase(), "none");
}

#[test]
fn the_assignor_with_most_votes_among_those_that_everybody_can_do_wins() {
    let mut table = Table::default();
    let list = |names: &[&str]| names.iter().map(|name| protocol(name, &["t"])).collect();
    let a = table.join(Join { protocols: list(&["sticky", "range", "rr"]), ..newcomer("a") });
    table.join(Join { protocols: list(&["rr", "range"]), ..newcomer("b") });
    table.join(Join { protocols: list(&["rr", "range"]), ..newcomer("c") });
    table.pass(6_001);
    assert_eq!(table.joined(a).protocol_name, "rr");
}

#[test]
fn between_equal_votes_the_leader_decides() {
    for (leads, follows) in [("range", "rr"), ("rr", "range")] {
        let mut table = Table::default();
        let list = |first, second| vec![protocol(first, &["t"]), protocol(second, &["t"])];
        let a = table.join(Join { protocols: list(leads, follows), ..newcomer("a") });
        table.join(Join { protocols: list(follows, leads), ..newcomer("b") });
        table.pass(6_001);
        assert_eq!(table.joined(a).protocol_name, leads);
    }
}
