//! CreateTopics and DeleteTopics: names, numbers, settings, and the moment between the two.

use rillway_wire::api::create_topics::{Assignment, Config, Request, Response, Topic};
use rillway_wire::api::delete_topics;
use rillway_wire::{ErrorCode, Uuid};

use crate::client::{Client, batch, decode, scenario};

fn topic(name: &str, partitions: i32) -> Topic<'_> {
    Topic { name, num_partitions: partitions, replication_factor: 1, ..Default::default() }
}

async fn create(
    client: &mut Client,
    topics: Vec<Topic<'_>>,
    validate_only: bool,
) -> Vec<(String, ErrorCode)> {
    let body = client
        .call(&Request { topics: topics.into(), validate_only, ..Default::default() }, 7)
        .await;
    let response: Response<'_> = decode(&body, 7);
    response.topics.iter().map(|t| (t.name.to_owned(), t.error_code)).collect()
}

async fn create_one(client: &mut Client, topic: Topic<'_>) -> ErrorCode {
    create(client, vec![topic], false).await[0].1
}

async fn delete(client: &mut Client, name: &str) -> ErrorCode {
    let topic = delete_topics::Topic { name: Some(name), topic_id: Uuid::default() };
    let body = client
        .call(&delete_topics::Request { topics: vec![topic].into(), ..Default::default() }, 6)
        .await;
    let response: delete_topics::Response<'_> = decode(&body, 6);
    response.responses.first().unwrap().error_code
}

#[test]
fn numbers_and_assignments() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let three = Topic { replication_factor: 3, ..topic("t", 1) };
        assert_eq!(create_one(&mut client, three).await, ErrorCode::InvalidReplicationFactor);
        assert_eq!(create_one(&mut client, topic("t", 0)).await, ErrorCode::InvalidPartitions);
        let assigned = |brokers: Vec<i32>| Topic {
            num_partitions: -1,
            replication_factor: -1,
            assignments: vec![Assignment { partition_index: 0, broker_ids: brokers.into() }].into(),
            ..topic("t", 1)
        };
        assert_eq!(
            create_one(&mut client, assigned(vec![1000, 1001])).await,
            ErrorCode::InvalidReplicaAssignment
        );
        assert_eq!(
            create_one(&mut client, assigned(vec![7])).await,
            ErrorCode::InvalidReplicaAssignment
        );
        assert_eq!(create_one(&mut client, assigned(vec![1001])).await, ErrorCode::None);
    });
}

#[test]
fn defaults_are_taken_and_reported() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let asked = Topic {
            num_partitions: -1,
            replication_factor: -1,
            configs: vec![Config { name: "retention.ms", value: Some("5000") }].into(),
            ..topic("t", -1)
        };
        let body =
            client.call(&Request { topics: vec![asked].into(), ..Default::default() }, 7).await;
        let response: Response<'_> = decode(&body, 7);
        let created = response.topics.first().unwrap();
        assert_eq!(
            (created.error_code, created.num_partitions, created.replication_factor),
            (ErrorCode::None, 2, 1)
        );
        assert!(!created.topic_id.is_zero());
        let configs = created.configs.expect("effective settings");
        let value = |name| {
            configs
                .iter()
                .find(|c| c.name == name)
                .map(|c| (c.value.unwrap_or("").to_owned(), c.config_source))
        };
        assert_eq!(value("retention.ms"), Some(("5000".to_owned(), 1)));
        assert_eq!(value("segment.bytes"), Some(((1 << 30).to_string(), 5)));
    });
}

#[test]
fn bad_settings_are_refused_by_name_and_nothing_is_created() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        for (name, value) in [
            ("cleanup.policy", Some("compactt")),
            ("cleanup.policy", Some("")),
            ("min.cleanable.dirty.ratio", Some("1.5")),
            ("max.compaction.lag.ms", Some("0")),
            ("preallocate", Some("maybe")),
            ("no.such.key", Some("1")),
            ("retention.ms", Some("soon")),
            ("segment.bytes", Some("1")),
            ("retention.ms", None),
        ] {
            let asked = Topic { configs: vec![Config { name, value }].into(), ..topic("t", 1) };
            assert_eq!(
                create_one(&mut client, asked).await,
                ErrorCode::InvalidConfig,
                "{name}={value:?}"
            );
        }
        assert_eq!(create_one(&mut client, topic("t", 1)).await, ErrorCode::None);
    });
}

#[test]
fn existing_names_and_names_that_come_twice_are_refused_and_the_others_created() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        assert_eq!(create(&mut client, vec![topic("t", 1)], true).await[0].1, ErrorCode::None);
        assert_eq!(
            create_one(&mut client, topic("t", 1)).await,
            ErrorCode::None,
            "validate_only created nothing"
        );
        assert_eq!(
            create(&mut client, vec![topic("t", 1)], true).await[0].1,
            ErrorCode::TopicAlreadyExists
        );
        let mut got =
            create(&mut client, vec![topic("u", 1), topic("v", 1), topic("u", 1)], false).await;
        got.sort_unstable();
        assert_eq!(
            got,
            [("u".to_owned(), ErrorCode::InvalidRequest), ("v".to_owned(), ErrorCode::None)]
        );
    });
}

#[test]
fn after_a_delete_the_name_is_free_at_once_and_the_new_topic_is_empty() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        for round in 0..5 {
            client.create("t", 3).await;
            for index in 0..3 {
                let want = (ErrorCode::None, 0);
                assert_eq!(
                    client.produce("t", index, &batch(&[b"a", b"b"])).await,
                    want,
                    "round {round}"
                );
            }
            assert_eq!(delete(&mut client, "t").await, ErrorCode::None);
            assert_eq!(client.fetch("t", 0, 0).await.0, ErrorCode::UnknownTopicOrPartition);
        }
        assert_eq!(delete(&mut client, "t").await, ErrorCode::UnknownTopicOrPartition);
    });
}
