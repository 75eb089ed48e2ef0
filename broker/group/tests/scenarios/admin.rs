//! What administrators see and do.

use rillway_group::{GroupError, Join, Protocol};

use super::commits::{at, committed};
use super::table::{GROUP, Table, newcomer, subscription};

fn delete(table: &mut Table) -> Result<Vec<rillway_group::TopicPartition>, GroupError> {
    let mut out = Vec::new();
    let deleted = table.coordinator.delete(GROUP, &mut out);
    table.run(out);
    deleted
}

#[test]
fn a_group_is_described_with_its_members_and_their_assignments() {
    let mut table = Table::default();
    table.stable(&["a", "b"]);
    let group = table.coordinator.describe(GROUP).expect("it is there");
    assert_eq!((group.protocol_type.as_str(), group.protocol.as_str()), ("consumer", "range"));
    let b = &group.members[1];
    assert_eq!((b.member.as_str(), b.client_id.as_str()), ("b-1", "b"));
    assert_eq!((b.client_host.as_str(), b.assignment.as_slice()), ("/127.0.0.1", &b"b gets"[..]));
    assert_eq!(b.metadata, subscription(&["t"]));
    table.join(newcomer("c"));
    let group = table.coordinator.describe(GROUP).expect("it is there");
    assert_eq!((group.phase.name(), group.protocol.as_str()), ("PreparingRebalance", ""));
    assert!(group.members.iter().all(|member| member.metadata.is_empty()));
    assert_eq!(table.coordinator.describe("other"), None);
}

#[test]
fn groups_with_members_and_groups_with_offsets_are_listed() {
    let mut table = Table::default();
    table.stable(&["a"]);
    for (group, position) in [(GROUP, 1), ("simple", 2), ("a", 3)] {
        let offsets = table.coordinator.offsets_mut();
        offsets.put(group, at("t", 0), position, Some(committed(1, 0)));
    }
    let list = table.coordinator.list();
    let list = list.iter().map(|group| {
        (group.group.as_str(), group.protocol_type.as_str(), group.phase.name(), group.group_type)
    });
    let expected = [
        ("a", "", "Empty", "classic"),
        (GROUP, "consumer", "Stable", "classic"),
        ("simple", "", "Empty", "classic"),
    ];
    assert_eq!(list.collect::<Vec<_>>(), expected);
}

#[test]
fn a_group_with_members_is_not_deleted() {
    let mut table = Table::default();
    assert_eq!(delete(&mut table), Err(GroupError::NotFound(GROUP.to_owned())));
    table.join(newcomer("a"));
    assert_eq!(delete(&mut table), Err(GroupError::NonEmpty));
}

#[test]
fn a_deleted_group_leaves_nothing_behind() {
    let mut table = Table::default();
    table.stable(&["a"]);
    let offsets = table.coordinator.offsets_mut();
    offsets.put(GROUP, at("t", 3), 1, Some(committed(1, 0)));
    table.leave("a-1", None).expect("a member");
    assert_eq!(delete(&mut table), Ok(vec![at("t", 3)]));
    table.coordinator.offsets_mut().put(GROUP, at("t", 3), 2, None);
    assert_eq!((table.phase(), table.kept.len()), ("none", 0));
    assert_eq!(table.coordinator.deadline(), None);
    assert_eq!(table.coordinator.history(GROUP), []);
}

#[test]
fn a_group_of_offsets_alone_is_deleted() {
    let mut table = Table::default();
    let offsets = table.coordinator.offsets_mut();
    offsets.put(GROUP, at("t", 0), 1, Some(committed(1, 0)));
    assert_eq!(delete(&mut table), Ok(vec![at("t", 0)]));
}

#[test]
fn offsets_of_topics_that_members_read_are_not_deleted() {
    let mut table = Table::default();
    let missing = Err(GroupError::NotFound(GROUP.to_owned()));
    assert_eq!(table.coordinator.check_offset_delete(GROUP, "t"), missing);
    table.stable(&["a"]);
    let read = Err(GroupError::SubscribedToTopic);
    assert_eq!(table.coordinator.check_offset_delete(GROUP, "t"), read);
    assert_eq!(table.coordinator.check_offset_delete(GROUP, "u"), Ok(()));
    table.restart();
    assert_eq!(table.coordinator.check_offset_delete(GROUP, "t"), read);
    table.leave("a-1", None).expect("a member");
    assert_eq!(table.coordinator.check_offset_delete(GROUP, "t"), Ok(()));
}

#[test]
fn consumers_that_cannot_be_understood_may_read_everything() {
    let mut table = Table::default();
    let odd = Protocol { name: "range".to_owned(), metadata: vec![0, 1, 0xff] };
    table.join(Join { protocols: vec![odd], ..newcomer("a") });
    table.pass(3_000);
    table.sync_all(&["a"], 1);
    let read = Err(GroupError::SubscribedToTopic);
    assert_eq!(table.coordinator.check_offset_delete(GROUP, "u"), read);
}

#[test]
fn groups_of_another_protocol_type_have_no_offsets_to_delete_while_they_have_members() {
    let mut table = Table::default();
    table.join(Join { protocol_type: "connect".to_owned(), ..newcomer("a") });
    table.pass(3_000);
    table.sync_all(&["a"], 1);
    let refused = Err(GroupError::NonEmpty);
    assert_eq!(table.coordinator.check_offset_delete(GROUP, "t"), refused);
    table.leave("a-1", None).expect("a member");
    assert_eq!(table.coordinator.check_offset_delete(GROUP, "t"), Ok(()));
}
