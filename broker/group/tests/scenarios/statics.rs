//! Static members (KIP-345) and the assignment that need not be made (KIP-814).

use rillway_group::{Fence, GroupError, Heartbeat, Join, Options};

use super::table::{GROUP, Table, again, newcomer, protocol};

fn fixed(client: &str) -> Join {
    Join { instance: Some(format!("i-{client}")), ..newcomer(client) }
}

/// The same instance, started anew.
fn restarted(client: &str, incarnation: u32) -> Join {
    Join { new_member: format!("{client}-{incarnation}"), ..fixed(client) }
}

fn fixed_again(client: &str) -> Join {
    Join { member: format!("{client}-1"), ..fixed(client) }
}

/// A stable group of static members, the first of them its leader.
fn stable(table: &mut Table, clients: &[&str]) {
    let joins: Vec<_> = clients.iter().map(|client| table.join(fixed(client))).collect();
    table.pass(6_001);
    assert_eq!(table.joined(joins[0]).generation, 1);
    table.sync_all(clients, 1);
}

#[test]
fn a_static_follower_that_restarts_gets_its_place_back_without_a_rebalance() {
    let mut table = Table::default();
    stable(&mut table, &["a", "b"]);
    let b = table.join(restarted("b", 2));
    let joined = table.joined(b).clone();
    assert_eq!((joined.generation, joined.member.as_str()), (1, "b-2"));
    assert_eq!((joined.leader.as_str(), joined.members.len()), ("a-1", 0));
    assert!(!joined.skip_assignment);
    let sync = table.sync("b-2", 1, &[]);
    assert_eq!(table.assignment(sync), "b gets");
    assert_eq!(table.phase(), "Stable");
    assert_eq!(
        table.last_change(),
        "Stable -> Stable: member b-2 (client b at /127.0.0.1) has taken the group instance id \
         i-b from b-1"
    );
}

#[test]
fn a_static_leader_that_restarts_need_not_assign_anew() {
    let mut table = Table::default();
    stable(&mut table, &["a", "b"]);
    let a = table.join(restarted("a", 2));
    let joined = table.joined(a);
    assert!(joined.skip_assignment);
    assert_eq!((joined.leader.as_str(), joined.members.len()), ("a-2", 2));
    assert_eq!(table.phase(), "Stable");
}

#[test]
fn an_old_client_that_leads_and_restarts_is_told_that_somebody_else_leads() {
    let mut table = Table::default();
    stable(&mut table, &["a", "b"]);
    let a = table.join(Join { skip_assignment: false, ..restarted("a", 2) });
    let joined = table.joined(a);
    assert_eq!((joined.leader.as_str(), joined.members.len()), ("a-1", 0));
    assert!(!joined.skip_assignment);
    // And leads all the same.
    table.join(Join { member: "a-2".to_owned(), ..restarted("a", 2) });
    assert!(table.last_change().contains("the leader rejoined"), "{}", table.last_change());
}

#[test]
fn the_one_that_was_replaced_is_fenced() {
    let mut table = Table::default();
    stable(&mut table, &["a", "b"]);
    table.join(restarted("b", 2));
    let fenced = GroupError::FencedInstance("i-b".to_owned());
    let fence = Fence { member: "b-1".to_owned(), instance: Some("i-b".to_owned()), generation: 1 };
    let beat = Heartbeat { group: GROUP.to_owned(), fence };
    let clock = table.clock();
    assert_eq!(table.coordinator.heartbeat(clock, &beat), Err(fenced.clone()));
    let zombie = table.join(fixed_again("b"));
    assert_eq!(table.join_error(zombie), &fenced);
    assert_eq!(table.leave("b-1", Some("i-b")), Err(fenced));
    let without_instance = table.heartbeat("b-1", 1);
    assert_eq!(without_instance, Err(GroupError::UnknownMember("b-1".to_owned())));
}

#[test]
fn answers_that_the_replaced_one_waits_for_are_fenced_too() {
    let mut table = Table::default();
    stable(&mut table, &["a", "b"]);
    table.join(newcomer("c"));
    let waits = table.join(fixed_again("b"));
    let b = table.join(restarted("b", 2));
    assert_eq!(table.join_error(waits), &GroupError::FencedInstance("i-b".to_owned()));
    table.join(fixed_again("a"));
    assert_eq!(table.joined(b).generation, 2);

    let waits = table.sync("b-2", 2, &[]);
    let b = table.join(restarted("b", 3));
    assert_eq!(table.sync_error(waits), &GroupError::FencedInstance("i-b".to_owned()));
    assert_eq!(table.phase(), "PreparingRebalance", "the leader may have been told the old id");
    table.join(fixed_again("a"));
    table.join(again("c"));
    assert_eq!(table.joined(b).generation, 3);
}

#[test]
fn a_static_member_that_comes_back_with_other_topics_or_assignors_causes_a_rebalance() {
    let others = [
        vec![protocol("range", &["t", "u"])],
        vec![protocol("rr", &["t"]), protocol("range", &["t"])],
    ];
    for protocols in others {
        let both = vec![protocol("range", &["t"]), protocol("rr", &["t"])];
        let mut table = Table::default();
        table.join(Join { protocols: both, ..fixed("a") });
        table.pass(3_001);
        table.sync_all(&["a"], 1);
        let a = table.join(Join { protocols, ..restarted("a", 2) });
        assert_eq!(table.joined(a).generation, 2);
    }
}

#[test]
fn what_a_static_member_owned_before_its_restart_does_not_matter() {
    let mut table = Table::default();
    let mut owning = protocol("range", &["t"]);
    let owned = owning.metadata.len() - 4;
    owning.metadata.truncate(owned);
    owning.metadata.extend([0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 7]);
    table.join(Join { protocols: vec![owning], ..fixed("a") });
    table.pass(3_001);
    table.sync_all(&["a"], 1);
    let a = table.join(restarted("a", 2));
    assert_eq!((table.joined(a).generation, table.phase()), (1, "Stable"));
}

#[test]
fn a_replacement_is_answered_when_it_is_kept_and_refused_when_it_is_not() {
    let mut table = Table::default();
    stable(&mut table, &["a", "b"]);
    table.keeps = false;
    let b = table.join(restarted("b", 2));
    assert_eq!(table.join_answer(b), None);
    table.report(false);
    assert_eq!(table.join_error(b), &GroupError::NotAvailable);
    assert_eq!(table.phase(), "Stable");
    let b = table.join(restarted("b", 3));
    let a = table.join(restarted("a", 2));
    table.report(true);
    assert_eq!((table.joined(a).generation, table.joined(b).generation), (1, 1));
}

#[test]
fn a_replacement_that_is_not_kept_yet_takes_part_in_the_next_rebalance() {
    let mut table = Table::default();
    stable(&mut table, &["a", "b"]);
    table.keeps = false;
    let b = table.join(restarted("b", 2));
    let a = table.join(fixed_again("a"));
    assert_eq!(table.phase(), "PreparingRebalance");
    table.report(true);
    table.report(true);
    assert_eq!((table.joined(a).generation, table.joined(b).generation), (2, 2));
}

#[test]
fn static_members_that_are_away_stay_until_their_sessions_end() {
    let mut table = Table::default();
    let mut long = fixed("b");
    long.session_timeout_ms = 120_000;
    table.join(fixed("a"));
    table.join(long);
    table.pass(6_001);
    table.sync_all(&["a", "b"], 1);
    let a = table.join(fixed_again("a"));
    table.pass(60_000);
    assert_eq!((table.joined(a).generation, table.joined(a).members.len()), (2, 2));
    table.sync("a-1", 2, &[("b-1", "b gets"), ("a-1", "a gets")]);
    let b = table.join(restarted("b", 2));
    assert_eq!((table.joined(b).generation, table.phase()), (2, "Stable"));
    let sync = table.sync("b-2", 2, &[]);
    assert_eq!(table.assignment(sync), "b gets");
}

#[test]
fn a_group_whose_static_members_are_all_away_waits_for_them() {
    let mut table = Table::default();
    let long = |client| Join { session_timeout_ms: 600_000, ..fixed(client) };
    table.join(long("a"));
    table.join(long("b"));
    table.pass(6_001);
    table.sync_all(&["a", "b"], 1);
    let c = table.join(Join { session_timeout_ms: 6_000, ..newcomer("c") });
    table.abandon(c);
    assert_eq!((table.phase(), table.members()), ("PreparingRebalance", 2));
    table.pass(200_000);
    assert_eq!((table.phase(), table.members()), ("PreparingRebalance", 2));
    let b = table.join(restarted("b", 2));
    table.pass(60_000);
    assert_eq!((table.joined(b).generation, table.joined(b).leader.as_str()), (2, "b-2"));
}

#[test]
fn a_static_member_comes_back_to_a_full_group() {
    let mut table = Table::new(Options { size_max: 2, ..Options::default() });
    stable(&mut table, &["a", "b"]);
    let b = table.join(restarted("b", 2));
    assert_eq!(table.joined(b).generation, 1);
    let c = table.join(fixed("c"));
    assert_eq!(table.join_error(c), &GroupError::MaxSizeReached { max: 2 });
}

#[test]
fn a_static_member_that_comes_back_and_never_syncs_is_given_up() {
    let mut table = Table::default();
    stable(&mut table, &["a", "b"]);
    table.join(restarted("b", 2));
    table.pass_beating(59_998, &["a-1", "b-2"], 1);
    assert_eq!(table.phase(), "Stable");
    table.pass_beating(2, &["a-1", "b-2"], 1);
    assert_eq!((table.phase(), table.members()), ("PreparingRebalance", 1));
}

#[test]
fn an_administrator_removes_a_static_member_by_its_instance() {
    let mut table = Table::default();
    stable(&mut table, &["a", "b"]);
    assert_eq!(table.leave("", Some("i-b")), Ok(()));
    assert_eq!((table.phase(), table.members()), ("PreparingRebalance", 1));
    let unknown = Err(GroupError::UnknownMember(String::new()));
    assert_eq!(table.leave("", Some("i-b")), unknown);
    assert_eq!(table.leave("", None), unknown);
}

#[test]
fn an_id_that_was_promised_is_not_for_a_static_member() {
    let mut table = Table::default();
    table.join(Join { id_required: true, ..newcomer("a") });
    let ticket = table.join(Join { id_required: true, ..fixed_again("a") });
    assert_eq!(table.join_error(ticket), &GroupError::UnknownMember("a-1".to_owned()));
}

#[test]
fn an_instance_that_nobody_holds_is_unknown() {
    let mut table = Table::default();
    table.stable(&["a"]);
    let ticket = table.join(fixed_again("a"));
    assert_eq!(table.join_error(ticket), &GroupError::UnknownMember("a-1".to_owned()));
    assert_eq!(table.phase(), "Stable");
}
