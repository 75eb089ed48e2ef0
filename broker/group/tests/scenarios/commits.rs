//! Who may commit, what is remembered of it, and for how long.

use rillway_group::{Commit, Committed, Fence, GroupError, Join, TopicPartition};

use super::table::{GROUP, Table, again, newcomer};

const DAY: i64 = 86_400_000;

pub(crate) fn at(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition { topic: topic.to_owned(), partition }
}

pub(crate) fn committed(offset: i64, commit_ms: i64) -> Committed {
    Committed {
        offset,
        leader_epoch: -1,
        metadata: String::new(),
        commit_ms,
        expire_ms: None,
        topic_id: [0; 16],
    }
}

impl Table {
    /// Commits offset 5 of partition 0 at this moment.
    fn commit_offset(&mut self, group: &str, topic: &str, position: i64) {
        let committed = committed(5, self.wall_ms);
        self.coordinator.offsets_mut().put(group, at(topic, 0), position, Some(committed));
    }

    fn expired(&mut self) -> Vec<(String, TopicPartition)> {
        let mut out = Vec::new();
        let expired = self.coordinator.expired(self.clock(), &mut out);
        self.run(out);
        expired
    }

    fn pass_days(&mut self, days: u64) {
        self.pass(days * DAY as u64);
    }
}

#[test]
fn members_commit_while_they_are_stable_and_while_joins_are_collected() {
    let mut table = Table::default();
    table.stable(&["a", "b"]);
    assert_eq!(table.commit("a-1", 1), Ok(()));
    let c = table.join(newcomer("c"));
    assert_eq!(table.commit("a-1", 1), Ok(()), "before it gives up its partitions");
    table.join(again("a"));
    table.join(again("b"));
    assert_eq!(table.joined(c).generation, 2);
    assert_eq!(table.commit("a-1", 2), Err(GroupError::RebalanceInProgress));
    let stale = GroupError::IllegalGeneration { got: 1, current: 2 };
    assert_eq!(table.commit("a-1", 1), Err(stale));
}

#[test]
fn strangers_and_those_that_have_no_generation_do_not_commit_into_a_group_with_members() {
    let mut table = Table::default();
    table.stable(&["a"]);
    let unknown = |id: &str| Err(GroupError::UnknownMember(id.to_owned()));
    assert_eq!(table.commit("stranger", 1), unknown("stranger"));
    assert_eq!(table.commit("", -1), unknown(""));
    assert_eq!(table.commit("", 1), unknown(""));
    // Somebody who only joins, and guesses the generation.
    table.join(Join { id_required: true, ..newcomer("b") });
    assert_eq!(table.commit("b-1", 1), unknown("b-1"));
    table.join(again("b"));
    let guessed = GroupError::IllegalGeneration { got: 1, current: 1 };
    assert_eq!(table.commit("b-1", 1), Err(guessed));
}

#[test]
fn a_static_member_commits_as_its_instance() {
    let mut table = Table::default();
    table.join(Join { instance: Some("i".to_owned()), ..newcomer("a") });
    table.pass(3_000);
    table.sync_all(&["a"], 1);
    let commit = |member: &str, instance: &str| {
        let (member, instance) = (member.to_owned(), Some(instance.to_owned()));
        Commit { group: GROUP.to_owned(), fence: Fence { member, instance, generation: 1 } }
    };
    let clock = table.clock();
    assert_eq!(table.coordinator.check_commit(clock, &commit("a-1", "i")), Ok(()));
    let fenced = Err(GroupError::FencedInstance("i".to_owned()));
    assert_eq!(table.coordinator.check_commit(clock, &commit("old", "i")), fenced);
    let unknown = Err(GroupError::UnknownMember("a-1".to_owned()));
    assert_eq!(table.coordinator.check_commit(clock, &commit("a-1", "j")), unknown);
}

#[test]
fn offsets_can_be_committed_without_membership_even_under_an_empty_name() {
    let mut table = Table::default();
    for group in ["", "simple"] {
        let fence = Fence { member: String::new(), instance: None, generation: -1 };
        let commit = Commit { group: group.to_owned(), fence };
        let clock = table.clock();
        assert_eq!(table.coordinator.check_commit(clock, &commit), Ok(()));
        assert_eq!(table.coordinator.check_fetch(group, None, -1), Ok(()));
        assert_eq!(table.coordinator.describe(group), None, "a question creates no group");
        table.commit_offset(group, "t", 1);
        let described = table.coordinator.describe(group).expect("it has offsets");
        assert_eq!((described.phase.name(), described.protocol_type.as_str()), ("Empty", ""));
        let fence = Fence { member: "a".to_owned(), instance: None, generation: 1 };
        let commit = Commit { group: group.to_owned(), fence };
        let unknown = Err(GroupError::UnknownMember("a".to_owned()));
        assert_eq!(table.coordinator.check_commit(clock, &commit), unknown);
    }
}

#[test]
fn a_member_of_a_group_that_is_not_there_does_not_commit() {
    let mut table = Table::default();
    assert_eq!(table.commit("a-1", 1), Err(GroupError::NotFound(GROUP.to_owned())));
    let fence = table.fence("", -1);
    let commit = Commit { group: "x".repeat(32_768), fence };
    let clock = table.clock();
    assert_eq!(table.coordinator.check_commit(clock, &commit), Err(GroupError::InvalidGroupId));
}

#[test]
fn offsets_of_an_empty_group_are_set_from_outside() {
    let mut table = Table::default();
    table.stable(&["a"]);
    assert_eq!(table.commit("", -1), Err(GroupError::UnknownMember(String::new())));
    table.leave("a-1", None).expect("a member");
    assert_eq!(table.commit("", -1), Ok(()));
}

#[test]
fn metadata_of_4096_bytes_is_kept_and_one_more_is_refused() {
    let table = Table::default();
    assert_eq!(table.coordinator.check_metadata(""), Ok(()));
    assert_eq!(table.coordinator.check_metadata(&"x".repeat(4_096)), Ok(()));
    let refused = table.coordinator.check_metadata(&"x".repeat(4_097));
    assert_eq!(refused, Err(GroupError::OffsetMetadataTooLarge { max: 4_096 }));
}

#[test]
fn the_later_record_wins_whatever_the_order_of_the_calls() {
    let mut table = Table::default();
    let offsets = table.coordinator.offsets_mut();
    let get = |offsets: &rillway_group::Offsets| {
        offsets.get(GROUP, &at("t", 0)).map(|committed| committed.offset)
    };
    offsets.put(GROUP, at("t", 0), 10, Some(committed(100, 0)));
    offsets.put(GROUP, at("t", 0), 9, Some(committed(90, 0)));
    assert_eq!(get(offsets), Some(100));
    offsets.put(GROUP, at("t", 0), 12, None);
    offsets.put(GROUP, at("t", 0), 11, Some(committed(110, 0)));
    assert_eq!(get(offsets), None);
    assert_eq!((offsets.len(), offsets.groups().count()), (0, 0));
    offsets.put(GROUP, at("t", 0), 13, Some(committed(130, 0)));
    assert_eq!(get(offsets), Some(130));
    assert_eq!((offsets.len(), offsets.groups().collect::<Vec<_>>()), (1, vec![GROUP]));
    // The same record again, as when a log is read from its start.
    offsets.put(GROUP, at("t", 0), 13, Some(committed(130, 0)));
    assert_eq!(offsets.len(), 1);
}

#[test]
fn offsets_of_a_deleted_topic_are_found_in_all_groups() {
    let mut table = Table::default();
    for (position, (group, topic, partition)) in
        [("g", "a", 0), ("g", "b", 0), ("g", "b", 7), ("h", "b", 1), ("h", "ba", 1)]
            .into_iter()
            .enumerate()
    {
        let offsets = table.coordinator.offsets_mut();
        offsets.put(group, at(topic, partition), position as i64, Some(committed(1, 0)));
    }
    let found = table.coordinator.offsets().of_topic("b");
    let expected = [("g", 0), ("g", 7), ("h", 1)];
    let expected = expected.map(|(group, partition)| (group.to_owned(), at("b", partition)));
    assert_eq!(found, expected);
    for (position, (group, partition)) in found.into_iter().enumerate() {
        table.coordinator.offsets_mut().put(&group, partition, 100 + position as i64, None);
    }
    assert_eq!(table.coordinator.offsets().of_topic("b"), []);
    assert_eq!(table.coordinator.offsets().len(), 2);
}

#[test]
fn tombstones_do_not_pile_up() {
    let mut table = Table::default();
    for position in 0..1_000 {
        let offsets = table.coordinator.offsets_mut();
        offsets.put(&format!("g{position}"), at("t", 0), position, None);
    }
    table.expired();
    table.coordinator.offsets_mut().put("g7", at("t", 0), 5, Some(committed(1, 0)));
    assert_eq!(table.coordinator.offsets().len(), 0, "an older record that was overtaken");
    table.expired();
    table.coordinator.offsets_mut().put("g7", at("t", 0), 5, Some(committed(1, 0)));
    assert_eq!(table.coordinator.offsets().len(), 1, "nothing is left of the tombstone");
}

#[test]
fn offsets_of_an_empty_group_expire_seven_days_after_the_last_member_left() {
    let mut table = Table::default();
    table.stable(&["a"]);
    table.commit_offset(GROUP, "t", 1);
    for _ in 0..30 {
        table.pass_beating(20_000, &["a-1"], 1);
        table.wall_ms += DAY;
        assert_eq!(table.expired(), [], "members read it");
    }
    table.leave("a-1", None).expect("a member");
    table.pass_days(6);
    assert_eq!(table.expired(), []);
    table.pass_days(1);
    assert_eq!(table.expired(), [(GROUP.to_owned(), at("t", 0))]);
    // The group ended with its offsets, and what was kept of it.
    table.coordinator.offsets_mut().put(GROUP, at("t", 0), 2, None);
    assert_eq!((table.phase(), table.kept.len()), ("none", 0));
}

#[test]
fn an_offset_that_stays_keeps_its_empty_group() {
    let mut table = Table::default();
    table.stable(&["a"]);
    table.leave("a-1", None).expect("a member");
    let mut stays = committed(1, table.wall_ms);
    stays.expire_ms = Some(table.wall_ms + 100 * DAY);
    table.coordinator.offsets_mut().put(GROUP, at("t", 1), 1, Some(stays));
    table.commit_offset(GROUP, "t", 2);
    table.pass_days(8);
    assert_eq!(table.expired(), [(GROUP.to_owned(), at("t", 0))]);
    assert_eq!(table.phase(), "Empty");
    table.pass_days(92);
    assert_eq!(table.expired().len(), 2);
    assert_eq!(table.kept.len(), 0);
}

#[test]
fn an_empty_group_without_offsets_ends_at_the_next_look() {
    let mut table = Table::default();
    table.stable(&["a"]);
    assert_eq!(table.expired(), []);
    assert_eq!(table.phase(), "Stable");
    table.leave("a-1", None).expect("a member");
    table.join(Join { id_required: true, ..newcomer("b") });
    table.expired();
    assert_eq!(table.phase(), "Empty", "somebody was promised an id");
    table.pass(10_000);
    table.expired();
    assert_eq!((table.phase(), table.kept.len()), ("none", 0));
}

#[test]
fn offsets_without_membership_expire_seven_days_after_the_commit() {
    let mut table = Table::default();
    table.commit_offset("simple", "t", 1);
    table.pass_days(3);
    table.commit_offset("simple", "u", 2);
    table.pass_days(4);
    assert_eq!(table.expired(), [("simple".to_owned(), at("t", 0))]);
}

#[test]
fn topics_that_a_stable_group_no_longer_reads_expire_and_the_others_do_not() {
    let mut table = Table::default();
    table.stable(&["a"]);
    table.commit_offset(GROUP, "t", 1);
    table.commit_offset(GROUP, "left", 2);
    table.wall_ms += 7 * DAY;
    assert_eq!(table.expired(), [(GROUP.to_owned(), at("left", 0))]);
    // Nothing expires while it is open what will be read.
    table.join(newcomer("b"));
    assert_eq!(table.expired(), []);
}

#[test]
fn a_wall_clock_behind_the_newest_commit_expires_nothing() {
    let mut table = Table::default();
    table.commit_offset("simple", "t", 1);
    table.wall_ms -= 400 * DAY;
    assert_eq!(table.expired(), []);
    table.wall_ms = i64::MIN;
    assert_eq!(table.expired(), []);
}
