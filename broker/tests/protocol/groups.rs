//! Consumer groups over the wire: members, commits, restarts, and what administrators see.

use std::time::Duration;

use rillway_wire::ErrorCode;
use rillway_wire::api::{
    create_partitions, delete_groups, delete_topics, describe_groups, find_coordinator,
    group_report, list_groups, offset_delete, offset_fetch, sync_group,
};
use rillway_wire::batch::{batches, records};

use crate::client::{
    Client, End, Lives, batch, decode, options, scenario, scenario_with, scenario_with_stop,
};
use crate::field::set;
use crate::group_client::{Member, commit, committed};

/// A topic and its coordinator, so that a group can begin.
async fn ready(rt: &rillway_io::Runtime, topic: &str, partitions: i32) -> Client {
    let mut client = Client::connect(rt).await;
    client.create(topic, partitions).await;
    coordinator_port(&mut client, "g").await;
    client
}

async fn coordinator_port(client: &mut Client, group: &str) -> u16 {
    for version in 0..=3 {
        let request = find_coordinator::Request { key: group, ..Default::default() };
        let body = client.call(&request, version).await;
        let answer: find_coordinator::Response<'_> = decode(&body, version);
        assert_eq!(answer.error_code, ErrorCode::None, "version {version}");
    }
    for version in 4..=6 {
        let request = find_coordinator::Request {
            coordinator_keys: vec![group, "another"].into(),
            ..Default::default()
        };
        let body = client.call(&request, version).await;
        let answer: find_coordinator::Response<'_> = decode(&body, version);
        assert_eq!(answer.coordinators.len(), 2);
        let found = answer.coordinators.first().unwrap();
        assert_eq!((found.error_code, found.key), (ErrorCode::None, group));
        if version == 6 {
            return u16::try_from(found.port).unwrap();
        }
    }
    unreachable!("version 6 is the last")
}

#[test]
fn a_group_of_two_rebalances_when_one_joins_and_when_one_leaves() {
    scenario(2, |rt| async move {
        ready(&rt, "t", 2).await;
        let mut first = Member::connect(&rt, "g").await;
        first.settle().await;
        assert_eq!(first.heartbeat().await, ErrorCode::None);

        let mut second = Member::connect(&rt, "g").await;
        assert_eq!(second.join_once(7).await.code, ErrorCode::MemberIdRequired);
        second.send_join(7).await;
        while first.heartbeat().await != ErrorCode::RebalanceInProgress {
            rt.sleep(Duration::from_millis(50)).await;
        }
        let led = first.join(7).await;
        let followed = second.joined(7).await;
        assert_eq!((led.code, followed.code), (ErrorCode::None, ErrorCode::None));
        assert_eq!((led.generation, &led.leader), (followed.generation, &followed.leader));
        assert_eq!(led.leader, first.id);
        assert_eq!(led.members.len(), 2);
        assert!(followed.members.is_empty(), "only the leader is told who is there");

        second.send_sync(&[], 5).await;
        let (code, own) = first.sync(&led.members, 5).await;
        assert_eq!((code, own), (ErrorCode::None, first.id.clone().into_bytes()));
        assert_eq!(second.synced(5).await, (ErrorCode::None, second.id.clone().into_bytes()));

        assert_eq!(first.leave().await, ErrorCode::None);
        assert_eq!(second.heartbeat().await, ErrorCode::RebalanceInProgress);
        second.settle().await;
        assert_eq!(first.heartbeat().await, ErrorCode::UnknownMemberId);
    });
}

#[test]
fn every_version_of_the_group_apis_is_served() {
    scenario(1, |rt| async move {
        ready(&rt, "t", 1).await;
        for version in 0..=9 {
            let mut member = Member::connect(&rt, &format!("g{version}")).await;
            let joined = member.join(version).await;
            assert_eq!(joined.code, ErrorCode::None, "JoinGroup {version}");
            let (code, _) = member.sync(&joined.members, version.min(5)).await;
            assert_eq!(code, ErrorCode::None, "SyncGroup {}", version.min(5));
            for v in 2..=9 {
                let by = (member.group.clone(), member.id.clone(), member.generation);
                let by = (by.0.as_str(), by.1.as_str(), by.2);
                let offsets = [("t", 0, i64::from(v), Some("x"))];
                let codes = commit(&mut member.client, by, &offsets, v).await;
                assert_eq!(codes, [ErrorCode::None], "OffsetCommit {v}");
            }
            let group = member.group.clone();
            assert_eq!(committed(&mut member.client, &group, "t", 0).await.0, 9);
            assert_eq!(member.leave().await, ErrorCode::None);
        }
    });
}

#[test]
fn a_request_on_the_wrong_core_is_passed_on() {
    scenario(2, |rt| async move {
        let mut client = ready(&rt, "t", 1).await;
        let mut first = None;
        for group in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            let port = coordinator_port(&mut client, group).await;
            if first.is_some_and(|first| first != port) {
                // This group and the first one are on different cores: each is served on both ports.
                for port in [port, first.unwrap()] {
                    let name = format!("{group}-{port}");
                    let client = Client::connect_to(&rt, port).await;
                    let mut member = Member::of(client, &name);
                    member.settle().await;
                    assert_eq!(member.commit("t", 0, 7).await, ErrorCode::None);
                    assert_eq!(committed(&mut member.client, &name, "t", 0).await.0, 7);
                }
                return;
            }
            first = Some(port);
        }
        panic!("eight groups, and all on one core");
    });
}

#[test]
fn after_any_end_of_the_broker_members_and_offsets_are_as_they_were() {
    for end in [End::Stop, End::Kill, End::PowerCut] {
        let (lives, options) = (Lives::new(), options(2));
        let (tell, told) = rillway_io::mailbox(1);
        lives.live(&options, end, |rt| async move {
            ready(&rt, "t", 1).await;
            let mut member = Member::connect(&rt, "g").await;
            member.settle().await;
            assert_eq!(member.commit("t", 0, 42).await, ErrorCode::None);
            tell.try_send((member.id, member.generation)).unwrap();
        });
        let mut told = told;
        let (id, generation) = told.try_recv().expect("said by the first life");
        lives.live(&options, End::Stop, |rt| async move {
            let mut member = Member::connect(&rt, "g").await;
            (member.id, member.generation) = (id, generation);
            // No rebalance: the member goes on as if nothing had been.
            assert_eq!(member.heartbeat().await, ErrorCode::None, "{end:?}");
            assert_eq!(committed(&mut member.client, "g", "t", 0).await, (42, "m".to_owned()));
            assert_eq!(member.commit("t", 0, 43).await, ErrorCode::None);
        });
    }
}

#[test]
fn what_a_refused_commit_has_left_is_the_same_before_and_after_a_restart() {
    let (lives, mut options) = (Lives::new(), options(1));
    options.shard.groups.options.offset_metadata_max = 30_000;
    let (tell, mut told) = rillway_io::mailbox(1);
    lives.live(&options, End::Kill, |rt| async move {
        let mut client = ready(&rt, "t", 200).await;
        let altered = set(&mut client, "__consumer_offsets", "max.message.bytes", "10000").await;
        assert_eq!(altered, ErrorCode::None);
        // Small ones that fit into a batch, and behind them some of which each is larger than a batch may be.
        let large = "x".repeat(20_000);
        let text = |index| Some(if index < 100 { "" } else { &*large });
        let offsets: Vec<_> = (0..200).map(|index| ("t", index, 10, text(index))).collect();
        let codes = commit(&mut client, ("g", "", -1), &offsets, 8).await;
        assert!(codes.iter().all(|code| *code != ErrorCode::None), "{codes:?}");
        let mut found = Vec::new();
        for index in 0..200 {
            found.push(committed(&mut client, "g", "t", index).await.0);
        }
        assert!(found.contains(&10) && found.contains(&-1), "a part of it was refused: {found:?}");
        tell.try_send(found).unwrap();
    });
    let before = told.try_recv().expect("said by the first life");
    lives.live(&options, End::Stop, |rt| async move {
        let mut client = ready(&rt, "u", 1).await;
        for (index, before) in (0..).zip(before) {
            assert_eq!(committed(&mut client, "g", "t", index).await.0, before, "t-{index}");
        }
    });
}

#[test]
fn a_commit_is_as_many_batches_as_it_needs_whatever_its_metadata() {
    let mut options = options(1);
    options.shard.groups.options.offset_metadata_max = 30_000;
    scenario_with(options, |rt| async move {
        let mut client = ready(&rt, "t", 100).await;
        // 2 MB in UTF-8: more than max.message.bytes, as 100 of 4,096 Chinese characters are by default.
        let text = "\u{4e2d}".repeat(7_000);
        let offsets: Vec<_> = (0..100).map(|index| ("t", index, 10, Some(&*text))).collect();
        let codes = commit(&mut client, ("g", "", -1), &offsets, 8).await;
        assert!(codes.iter().all(|code| *code == ErrorCode::None), "{codes:?}");
        assert_eq!(committed(&mut client, "g", "t", 99).await, (10, text));
    });
}

#[test]
fn a_commit_of_an_old_generation_or_of_a_stranger_is_refused() {
    scenario(1, |rt| async move {
        ready(&rt, "t", 1).await;
        let mut member = Member::connect(&rt, "g").await;
        member.settle().await;
        let mut client = Client::connect(&rt).await;
        let id = member.id.clone();
        for (who, generation, want) in [
            (id.as_str(), member.generation - 1, ErrorCode::IllegalGeneration),
            (id.as_str(), member.generation + 1, ErrorCode::IllegalGeneration),
            ("stranger", member.generation, ErrorCode::UnknownMemberId),
            // Not of the group, while the group has members.
            ("", -1, ErrorCode::UnknownMemberId),
        ] {
            let codes = commit(&mut client, ("g", who, generation), &[("t", 0, 1, None)], 8).await;
            assert_eq!(codes, [want], "{who} {generation}");
        }
        assert_eq!(committed(&mut client, "g", "t", 0).await.0, -1);
    });
}

#[test]
fn committed_offsets_are_records_that_tools_can_read() {
    scenario(1, |rt| async move {
        let mut client = ready(&rt, "t", 1).await;
        let codes = commit(&mut client, ("g", "", -1), &[("t", 0, 5, Some("why"))], 8).await;
        assert_eq!(codes, [ErrorCode::None]);
        // "g" is 103 to Java, and there are 50 partitions.
        let (code, _, bytes) = client.fetch("__consumer_offsets", 103 % 50, 0).await;
        assert_eq!(code, ErrorCode::None);
        let batch = batches(&bytes).next().unwrap().unwrap();
        let record = records(batch.records()).next().unwrap().unwrap();
        assert_eq!(record.key.unwrap(), b"\0\x01\0\x01g\0\x01t\0\0\0\0");
        assert!(record.value.is_some());
    });
}

#[test]
fn the_topic_of_offsets_is_internal_and_nobody_else_writes_to_it() {
    scenario(1, |rt| async move {
        let mut client = ready(&rt, "t", 1).await;
        let topic = "__consumer_offsets";
        let (code, _) = client.produce(topic, 0, &batch(&[b"x"])).await;
        assert_eq!(code, ErrorCode::InvalidTopicException);

        let request =
            delete_topics::Request { topic_names: vec![topic].into(), ..Default::default() };
        let body = client.call(&request, 5).await;
        let answer: delete_topics::Response<'_> = decode(&body, 5);
        assert_eq!(answer.responses.first().unwrap().error_code, ErrorCode::InvalidRequest);

        let more = create_partitions::Topic { name: topic, count: 51, assignments: None };
        let request = create_partitions::Request {
            topics: vec![more].into(),
            timeout_ms: 1_000,
            validate_only: false,
        };
        let body = client.call(&request, 3).await;
        let answer: create_partitions::Response<'_> = decode(&body, 3);
        assert_eq!(answer.results.first().unwrap().error_code, ErrorCode::InvalidPartitions);
        let trimmed = crate::field::trim(&mut client, ("__consumer_offsets", 0), -1).await;
        assert_eq!(trimmed, (ErrorCode::InvalidTopicException, -1));
    });
}

#[test]
fn administrators_list_describe_and_delete_groups() {
    scenario(1, |rt| async move {
        let mut client = ready(&rt, "t", 1).await;
        let mut member = Member::connect(&rt, "g").await;
        member.settle().await;
        assert_eq!(member.commit("t", 0, 1).await, ErrorCode::None);
        for version in 0..=5 {
            let body = client.call(&list_groups::Request::default(), version).await;
            let answer: list_groups::Response<'_> = decode(&body, version);
            let names: Vec<_> = answer.groups.iter().map(|g| g.group_id).collect();
            assert_eq!(names, ["g"], "version {version}");
        }
        for version in 0..=6 {
            let request = describe_groups::Request {
                groups: vec!["g", "none"].into(),
                include_authorized_operations: false,
            };
            let body = client.call(&request, version).await;
            let answer: describe_groups::Response<'_> = decode(&body, version);
            let states: Vec<_> = answer.groups.iter().map(|g| g.group_state).collect();
            assert_eq!(states, ["Stable", "Dead"], "version {version}");
            assert_eq!(answer.groups.first().unwrap().members.len(), 1);
        }
        assert_eq!(delete(&mut client, "g").await, ErrorCode::NonEmptyGroup);
        assert_eq!(member.leave().await, ErrorCode::None);
        assert_eq!(delete(&mut client, "g").await, ErrorCode::None);
        assert_eq!(delete(&mut client, "g").await, ErrorCode::GroupIdNotFound);
        assert_eq!(committed(&mut client, "g", "t", 0).await.0, -1);
    });
}

async fn delete(client: &mut Client, group: &str) -> ErrorCode {
    let request = delete_groups::Request { groups_names: vec![group].into() };
    let body = client.call(&request, 2).await;
    let answer: delete_groups::Response<'_> = decode(&body, 2);
    answer.results.first().unwrap().error_code
}

#[test]
fn offsets_of_partitions_that_nobody_reads_can_be_forgotten() {
    scenario(1, |rt| async move {
        let mut client = ready(&rt, "t", 2).await;
        let offsets = [("t", 0, 5, None), ("t", 1, 6, None)];
        commit(&mut client, ("g", "", -1), &offsets, 8).await;
        let partitions = [0, 7].map(|partition_index| offset_delete::Partition { partition_index });
        let topic = offset_delete::Topic { name: "t", partitions: partitions.to_vec().into() };
        let request = offset_delete::Request { group_id: "g", topics: vec![topic].into() };
        let body = client.call(&request, 0).await;
        let answer: offset_delete::Response<'_> = decode(&body, 0);
        assert_eq!(answer.error_code, ErrorCode::None);
        let codes: Vec<_> =
            answer.topics.first().unwrap().partitions.iter().map(|p| p.error_code).collect();
        assert_eq!(codes, [ErrorCode::None, ErrorCode::UnknownTopicOrPartition]);
        assert_eq!(committed(&mut client, "g", "t", 0).await.0, -1);
        assert_eq!(committed(&mut client, "g", "t", 1).await.0, 6);
    });
}

#[test]
fn all_offsets_of_a_group_are_told_in_every_version_that_can_ask_for_them() {
    scenario(1, |rt| async move {
        let mut client = ready(&rt, "t", 3).await;
        let offsets = [("t", 0, 5, None), ("t", 2, 6, None)];
        commit(&mut client, ("g", "", -1), &offsets, 8).await;
        for version in 2..=7 {
            let request = offset_fetch::Request { group_id: "g", ..Default::default() };
            let body = client.call(&request, version).await;
            let answer: offset_fetch::Response<'_> = decode(&body, version);
            let found = answer.topics.first().unwrap();
            let found: Vec<_> =
                found.partitions.iter().map(|p| (p.partition_index, p.committed_offset)).collect();
            assert_eq!(found, [(0, 5), (2, 6)], "version {version}");
        }
        for version in 8..=10 {
            let all = offset_fetch::Group { group_id: "g", ..Default::default() };
            let none = offset_fetch::Group { group_id: "none", ..Default::default() };
            let request =
                offset_fetch::Request { groups: vec![all, none].into(), ..Default::default() };
            let body = client.call(&request, version).await;
            let answer: offset_fetch::Response<'_> = decode(&body, version);
            let counts: Vec<_> = answer
                .groups
                .iter()
                .map(|g| (g.error_code, g.topics.iter().map(|t| t.partitions.len()).sum::<usize>()))
                .collect();
            assert_eq!(counts, [(ErrorCode::None, 2), (ErrorCode::None, 0)], "version {version}");
        }
    });
}

#[test]
fn a_broker_that_stops_does_not_wait_for_members_that_wait() {
    scenario_with_stop(options(2), |rt, stop| async move {
        ready(&rt, "t", 1).await;
        let mut first = Member::connect(&rt, "g").await;
        first.settle().await;
        let mut second = Member::connect(&rt, "g").await;
        assert_eq!(second.join_once(7).await.code, ErrorCode::MemberIdRequired);
        second.send_join(7).await;
        rt.sleep(Duration::from_millis(100)).await;
        stop.now();
        let started = rt.now();
        while stop.ended.get() < 2 {
            rt.sleep(Duration::from_millis(10)).await;
            assert!(rt.now() - started < Duration::from_secs(3), "the join holds the stop up");
        }
    });
}

#[test]
fn the_broker_tells_how_far_behind_a_group_is_and_why_it_rebalanced() {
    scenario(2, |rt| async move {
        let mut client = ready(&rt, "t", 2).await;
        for n in 0..10 {
            client.produce("t", 0, &batch(&[format!("{n}").as_bytes()])).await;
        }
        let mut member = Member::connect(&rt, "g").await;
        member.settle().await;
        assert_eq!(member.commit("t", 0, 4).await, ErrorCode::None);
        assert_eq!(member.commit("t", 1, 0).await, ErrorCode::None);
        let body = client.call(&group_report::Request { group_id: "g" }, 0).await;
        let report: group_report::Response<'_> = decode(&body, 0);
        assert_eq!((report.error_code, report.group_state), (ErrorCode::None, "Stable"));
        let lags: Vec<_> = report
            .partitions
            .iter()
            .map(|p| {
                (p.partition_index, p.lag_records, p.end_offset, p.lag_bytes > 0, p.lag_ms > 0)
            })
            .collect();
        assert_eq!(lags, [(0, 6, 10, true, true), (1, 0, 0, false, false)]);
        assert!(!report.transitions.is_empty());
        let body = client.call(&group_report::Request { group_id: "none" }, 0).await;
        let report: group_report::Response<'_> = decode(&body, 0);
        assert_eq!(report.error_code, ErrorCode::GroupIdNotFound);
    });
}

#[test]
fn a_sync_that_names_no_protocol_is_refused_from_version_5_on() {
    scenario(1, |rt| async move {
        ready(&rt, "t", 1).await;
        let mut member = Member::connect(&rt, "g").await;
        member.settle().await;
        for (version, code) in
            [(0, ErrorCode::None), (4, ErrorCode::None), (5, ErrorCode::InconsistentGroupProtocol)]
        {
            let request = sync_group::Request {
                group_id: "g",
                generation_id: member.generation,
                member_id: &member.id,
                ..Default::default()
            };
            let body = member.client.call(&request, version).await;
            let answer: sync_group::Response<'_> = decode(&body, version);
            assert_eq!(answer.error_code, code, "version {version}");
        }
        assert_eq!(member.heartbeat().await, ErrorCode::None);
    });
}

#[test]
fn offsets_of_a_group_without_a_name_are_not_deleted_through_the_protocol() {
    scenario(1, |rt| async move {
        let mut client = ready(&rt, "t", 1).await;
        commit(&mut client, ("", "", -1), &[("t", 0, 5, None)], 8).await;
        let partition = offset_delete::Partition { partition_index: 0 };
        let topic = offset_delete::Topic { name: "t", partitions: vec![partition].into() };
        let request = offset_delete::Request { group_id: "", topics: vec![topic].into() };
        let body = client.call(&request, 0).await;
        let answer: offset_delete::Response<'_> = decode(&body, 0);
        assert_eq!(answer.error_code, ErrorCode::InvalidGroupId);
        assert_eq!(committed(&mut client, "", "t", 0).await.0, 5);
    });
}
