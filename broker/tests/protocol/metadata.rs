//! Metadata: the nodes, and which topics a request means in which version.

use rillway_wire::api::{describe_cluster, metadata};
use rillway_wire::{ErrorCode, Uuid};

use crate::client::{Client, decode, options, scenario, scenario_with};

fn named(name: &str) -> metadata::TopicRequest<'_> {
    metadata::TopicRequest { name: Some(name), ..Default::default() }
}

async fn topics(
    client: &mut Client,
    request: &metadata::Request<'_>,
    version: i16,
) -> Vec<(ErrorCode, Option<String>)> {
    let body = client.call(request, version).await;
    let response: metadata::Response<'_> = decode(&body, version);
    response.topics.iter().map(|t| (t.error_code, t.name.map(str::to_owned))).collect()
}

#[test]
fn each_core_is_a_node_with_a_port_of_its_own_at_the_address_that_the_client_used() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let body = client.call(&metadata::Request::default(), 5).await;
        let response: metadata::Response<'_> = decode(&body, 5);
        let nodes: Vec<_> =
            response.brokers.iter().map(|b| (b.node_id, b.host.to_owned(), b.port)).collect();
        assert_eq!(
            nodes,
            [(1000, "10.200.0.1".to_owned(), 10092), (1001, "10.200.0.1".to_owned(), 10192)]
        );
        assert_eq!(response.controller_id, 1000);
        assert!(response.cluster_id.is_some_and(|id| id.len() == 22));
        let body = client.call(&describe_cluster::Request::default(), 1).await;
        let cluster: describe_cluster::Response<'_> = decode(&body, 1);
        assert_eq!(cluster.brokers.iter().map(|b| b.broker_id).collect::<Vec<_>>(), [1000, 1001]);
        assert_eq!(Some(cluster.cluster_id), response.cluster_id);
    });
}

#[test]
fn one_core_needs_only_the_listen_port() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let body = client.call(&metadata::Request::default(), 1).await;
        let response: metadata::Response<'_> = decode(&body, 1);
        assert_eq!(
            response.brokers.iter().map(|b| (b.node_id, b.port)).collect::<Vec<_>>(),
            [(1000, 9092)]
        );
    });
}

#[test]
fn empty_and_null_lists_mean_what_they_mean_in_each_version() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let none = || metadata::Request { topics: Some(Vec::new().into()), ..Default::default() };
        let all = || metadata::Request { topics: None, ..Default::default() };
        assert_eq!(topics(&mut client, &none(), 0).await.len(), 1, "version 0: empty means all");
        for version in 1..=12 {
            assert_eq!(
                topics(&mut client, &none(), version).await.len(),
                0,
                "version {version}: empty means none"
            );
            assert_eq!(
                topics(&mut client, &all(), version).await.len(),
                1,
                "version {version}: null means all"
            );
        }
    });
}

#[test]
fn a_missing_topic_is_created_when_client_and_broker_allow_it() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let ask = |create| metadata::Request {
            topics: Some(vec![named("auto")].into()),
            allow_auto_topic_creation: create,
            ..Default::default()
        };
        assert_eq!(
            topics(&mut client, &ask(false), 5).await[0].0,
            ErrorCode::UnknownTopicOrPartition
        );
        let body = client.call(&ask(true), 5).await;
        let response: metadata::Response<'_> = decode(&body, 5);
        let topic = response.topics.first().unwrap();
        assert_eq!(
            (topic.error_code, topic.partitions.len()),
            (ErrorCode::None, 2),
            "num.partitions of the test is 2"
        );
        let leader = topic.partitions.first().unwrap();
        assert_eq!((leader.leader_id, leader.error_code), (1000, ErrorCode::None));
    });
    let mut settings = options(1);
    settings.shard.auto_create_topics = false;
    scenario_with(settings, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let ask =
            metadata::Request { topics: Some(vec![named("auto")].into()), ..Default::default() };
        assert_eq!(topics(&mut client, &ask, 5).await[0].0, ErrorCode::UnknownTopicOrPartition);
    });
}

#[test]
fn bad_names_are_not_created() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let long = "x".repeat(250);
        for name in ["", ".", "..", "a/b", "a b", "ä", &long] {
            let ask =
                metadata::Request { topics: Some(vec![named(name)].into()), ..Default::default() };
            assert_eq!(
                topics(&mut client, &ask, 5).await[0].0,
                ErrorCode::InvalidTopicException,
                "{name:?}"
            );
        }
    });
}

#[test]
fn topic_ids_are_keys_from_version_12_on_and_null_names_are_refused_before() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let body = client.call(&metadata::Request { topics: None, ..Default::default() }, 12).await;
        let response: metadata::Response<'_> = decode(&body, 12);
        let id = response.topics.first().unwrap().topic_id;
        assert!(!id.is_zero());
        let by_id = |topic_id| metadata::Request {
            topics: Some(vec![metadata::TopicRequest { topic_id, name: None }].into()),
            ..Default::default()
        };
        assert_eq!(
            topics(&mut client, &by_id(id), 12).await,
            [(ErrorCode::None, Some("t".to_owned()))]
        );
        assert_eq!(
            topics(&mut client, &by_id(Uuid([9; 16])), 12).await,
            [(ErrorCode::UnknownTopicId, None)]
        );
        for version in 10..=11 {
            assert_eq!(
                topics(&mut client, &by_id(id), version).await[0].0,
                ErrorCode::InvalidRequest
            );
        }
    });
}
