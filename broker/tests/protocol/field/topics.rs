//! Topics: between delete and create, names at the edge, bad settings.

use std::time::Duration;

use rillway_wire::api::{create_topics, delete_topics, metadata};
use rillway_wire::{ErrorCode, Uuid};

use super::{create_with, delete, ends, produce_as, set};
use crate::client::{Client, ENDS, End, Lives, batch, decode, options, scenario};

async fn described(client: &mut Client, name: &str, auto: bool) -> (ErrorCode, usize) {
    let asked = metadata::TopicRequest { name: Some(name), ..Default::default() };
    let request = metadata::Request {
        topics: Some(vec![asked].into()),
        allow_auto_topic_creation: auto,
        ..Default::default()
    };
    let body = client.call(&request, 9).await;
    let response: metadata::Response<'_> = decode(&body, 9);
    let topic = response.topics.first().unwrap();
    assert!(topic.partitions.iter().all(|p| p.leader_id >= 0));
    (topic.error_code, topic.partitions.len())
}

/// topic-1: after a delete that succeeded, metadata and create agree, for two clients, with few and many partitions.
#[test]
fn after_a_delete_metadata_and_create_agree_at_once_for_every_client() {
    for (cores, partitions, rounds) in [(1, 1, 10), (2, 7, 10), (2, 1_000, 2)] {
        scenario(cores, move |rt| async move {
            let mut one = Client::connect(&rt).await;
            let mut two = Client::connect_to(&rt, if cores > 1 { 10_192 } else { 9_092 }).await;
            for round in 0..rounds {
                let created = create_with(&mut one, "t", partitions, &[]).await;
                assert_eq!(created, ErrorCode::None, "round {round}");
                let all = (ErrorCode::None, partitions as usize);
                assert_eq!(described(&mut two, "t", false).await, all);
                for index in std::collections::BTreeSet::from([0, partitions - 1]) {
                    let got = produce_as(&mut two, ("t", index), &batch(&[b"a", b"b"]), 7).await;
                    assert_eq!(got, (ErrorCode::None, 0), "round {round}");
                }
                assert_eq!(delete(&mut two, "t").await, ErrorCode::None);
                for client in [&mut one, &mut two] {
                    let gone = (ErrorCode::UnknownTopicOrPartition, 0);
                    assert_eq!(described(client, "t", false).await, gone);
                    let code = client.produce("t", 0, &batch(&[b"a"])).await.0;
                    assert_eq!(code, ErrorCode::UnknownTopicOrPartition);
                }
            }
        });
    }
}

/// topic-1: two clients that create and delete one name in a race: each answer is one of the codes that fit, and after
/// each success the state is what was answered.
#[test]
fn two_clients_that_create_and_delete_one_name_get_codes_that_fit() {
    scenario(2, |rt| async move {
        let mut clients =
            [Client::connect_to(&rt, 10_092).await, Client::connect_to(&rt, 10_192).await];
        for round in 0..30 {
            let deleting = delete_topics::Topic { name: Some("t"), topic_id: Uuid::default() };
            let deleting =
                delete_topics::Request { topics: vec![deleting].into(), ..Default::default() };
            let creating = create_topics::Topic {
                name: "t",
                num_partitions: 3,
                replication_factor: 1,
                ..Default::default()
            };
            let creating =
                create_topics::Request { topics: vec![creating].into(), ..Default::default() };
            clients[round % 2].send(&deleting, 6).await;
            clients[1 - round % 2].send(&creating, 5).await;
            for client in &mut clients {
                client.frame().await.expect("an answer");
            }
            let (code, partitions) = described(&mut clients[0], "t", false).await;
            let again = described(&mut clients[1], "t", false).await;
            assert_eq!((code, partitions), again, "both see the same");
            let wanted = match code {
                ErrorCode::None => ErrorCode::TopicAlreadyExists,
                _ => ErrorCode::None,
            };
            assert_eq!(create_with(&mut clients[0], "t", 3, &[]).await, wanted);
        }
    });
}

/// topic-1: a crash anywhere between the delete and the create leaves the topic deleted or new, without old records.
#[test]
fn a_crash_between_delete_and_create_leaves_the_topic_gone_or_new_and_empty() {
    let mut seen = std::collections::BTreeSet::new();
    for end in [End::Kill, End::PowerCut] {
        for step in 0..24u64 {
            let (lives, options) = (Lives::new(), options(2));
            lives.live(&options, end, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                assert_eq!(create_with(&mut client, "t", 4, &[]).await, ErrorCode::None);
                for index in 0..4 {
                    client.produce("t", index, &batch(&[b"old"])).await;
                }
                let old = delete_topics::Topic { name: Some("t"), topic_id: Uuid::default() };
                let old = delete_topics::Request { topics: vec![old].into(), ..Default::default() };
                let new = create_topics::Topic {
                    name: "t",
                    num_partitions: 2,
                    replication_factor: 1,
                    ..Default::default()
                };
                let new = create_topics::Request { topics: vec![new].into(), ..Default::default() };
                client.send(&old, 6).await;
                client.send(&new, 5).await;
                rt.sleep(Duration::from_micros(step * step * 400)).await;
            });
            let found = std::rc::Rc::new(std::cell::Cell::new(0));
            let told = std::rc::Rc::clone(&found);
            lives.live(&options, End::Stop, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                let (code, partitions) = described(&mut client, "t", false).await;
                told.set(partitions);
                match partitions {
                    // Not deleted yet: nothing was acknowledged.
                    4 => assert_eq!(delete(&mut client, "t").await, ErrorCode::None),
                    2 => {
                        for index in 0..2 {
                            assert_eq!(ends(&mut client, ("t", index)).await, (0, 0));
                        }
                        assert_eq!(delete(&mut client, "t").await, ErrorCode::None);
                    }
                    n => assert_eq!((code, n), (ErrorCode::UnknownTopicOrPartition, 0)),
                }
                assert_eq!(create_with(&mut client, "t", 4, &[]).await, ErrorCode::None);
                for index in 0..4 {
                    assert_eq!(ends(&mut client, ("t", index)).await, (0, 0), "no stray records");
                }
            });
            seen.insert(found.get());
        }
    }
    assert!(seen.contains(&4) && seen.contains(&2), "moments before and after: {seen:?}");
}

/// topic-2: lengths, letters, dots, by CreateTopics and by auto-creation, through writes, a restart and a delete.
#[test]
fn names_at_the_edge_work_through_a_restart_or_are_refused_by_every_way_in() {
    let longest = "x".repeat(249);
    let good = [longest.as_str(), "a.b", "A.b", "a-b", "-", "_x", "...", "0"];
    let bad: Vec<String> =
        ["", ".", "..", "a/b", "a b", "\u{e4}", "a\0b", "../x", "a,b", "a:b", "a\\b"]
            .map(str::to_owned)
            .into_iter()
            .chain([250, 255, 4_000].map(|n| "x".repeat(n)))
            .collect();
    for end in ENDS {
        for auto in [false, true] {
            let (lives, options) = (Lives::new(), options(1));
            let names: Vec<String> = good.iter().map(|n| (*n).to_owned()).collect();
            let (refused, kept) = (bad.clone(), names.clone());
            lives.live(&options, end, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                for name in &refused {
                    let code = if auto {
                        described(&mut client, name, true).await.0
                    } else {
                        create_with(&mut client, name, 1, &[]).await
                    };
                    assert_eq!(code, ErrorCode::InvalidTopicException, "{name:?}");
                    // The other ways in do not know it, and live on.
                    let code = client.produce(name, 0, &batch(&[b"x"])).await.0;
                    assert!(
                        [ErrorCode::UnknownTopicOrPartition, ErrorCode::InvalidTopicException]
                            .contains(&code)
                    );
                    assert_ne!(client.fetch(name, 0, 0).await.0, ErrorCode::None);
                    assert_ne!(delete(&mut client, name).await, ErrorCode::None);
                    assert_ne!(set(&mut client, name, "retention.ms", "1").await, ErrorCode::None);
                }
                for name in &names {
                    if auto {
                        described(&mut client, name, true).await;
                        for _ in 0..100 {
                            if described(&mut client, name, true).await.0 == ErrorCode::None {
                                break;
                            }
                            rt.sleep(Duration::from_millis(10)).await;
                        }
                    } else {
                        assert_eq!(create_with(&mut client, name, 1, &[]).await, ErrorCode::None);
                    }
                    let written = client.produce(name, 0, &batch(&[name.as_bytes()])).await;
                    assert_eq!(written, (ErrorCode::None, 0), "{name:?}");
                }
                // "a_b" would share the metric's name with "a.b".
                let collides = create_with(&mut client, "a_b", 1, &[]).await;
                assert_eq!(collides, ErrorCode::InvalidTopicException);
                assert_ne!(described(&mut client, "a_b", true).await.0, ErrorCode::None);
            });
            lives.live(&options, end, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                for name in &kept {
                    let (code, end, records) = client.fetch(name, 0, 0).await;
                    assert_eq!((code, end), (ErrorCode::None, 1), "{name:?}");
                    assert!(records.windows(name.len()).any(|w| w == name.as_bytes()));
                    assert_eq!(delete(&mut client, name).await, ErrorCode::None);
                }
                // Freed by the delete.
                assert_eq!(create_with(&mut client, "a_b", 1, &[]).await, ErrorCode::None);
                assert_eq!(ends(&mut client, ("a_b", 0)).await, (0, 0));
            });
        }
    }
}

/// topic-3: the codes of bad numbers and settings in every version that is served, nothing created, connection alive.
#[test]
fn bad_numbers_and_settings_have_their_codes_in_every_version_and_create_nothing() {
    type Change = fn(&mut create_topics::Topic<'static>);
    let cases: [(&str, ErrorCode, Change); 8] = [
        ("replication 3", ErrorCode::InvalidReplicationFactor, |t| t.replication_factor = 3),
        ("replication 0", ErrorCode::InvalidReplicationFactor, |t| t.replication_factor = 0),
        ("no partitions", ErrorCode::InvalidPartitions, |t| t.num_partitions = 0),
        ("minus two", ErrorCode::InvalidPartitions, |t| t.num_partitions = -2),
        ("too many", ErrorCode::InvalidPartitions, |t| t.num_partitions = 1_000_000),
        ("policy", ErrorCode::InvalidConfig, |t| t.configs = config("cleanup.policy", "compactt")),
        ("boolean", ErrorCode::InvalidConfig, |t| t.configs = config("preallocate", "maybe")),
        ("key", ErrorCode::InvalidConfig, |t| t.configs = config("no.such.key", "1")),
    ];
    fn config(
        name: &'static str,
        value: &'static str,
    ) -> rillway_wire::Array<'static, create_topics::Config<'static>> {
        vec![create_topics::Config { name, value: Some(value) }].into()
    }
    scenario(2, move |rt| async move {
        let mut client = Client::connect(&rt).await;
        for version in 2..=7 {
            for (what, code, change) in &cases {
                for validate_only in [true, false] {
                    let mut topic = create_topics::Topic {
                        name: "t",
                        num_partitions: 1,
                        replication_factor: 1,
                        ..Default::default()
                    };
                    change(&mut topic);
                    let request = create_topics::Request {
                        topics: vec![topic].into(),
                        validate_only,
                        ..Default::default()
                    };
                    let body = client.call(&request, version).await;
                    let response: create_topics::Response<'_> = decode(&body, version);
                    let got = response.topics.first().unwrap();
                    assert_eq!(got.error_code, *code, "{what}, version {version}");
                    assert!(got.error_message.is_some_and(|m| !m.is_empty()), "{what}");
                }
            }
            let gone = (ErrorCode::UnknownTopicOrPartition, 0);
            assert_eq!(described(&mut client, "t", false).await, gone);
        }
    });
}
