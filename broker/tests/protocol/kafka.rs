//! What the comparison with Apache Kafka (ci/differential) found and has been put right, one scenario each.

use rillway_wire::api::{
    create_topics, delete_topics, describe_cluster, describe_configs, fetch, find_coordinator,
    incremental_alter_configs, init_producer_id, metadata,
};
use rillway_wire::batch::{
    BatchBuilder, BatchView, Codec, TimestampType, set_max_timestamp_and_type,
};
use rillway_wire::{ErrorCode, Uuid};

use crate::client::{Client, batch, decode, fetch_request, scenario};

async fn metadata_of<'a>(
    client: &mut Client,
    topics: Vec<metadata::TopicRequest<'_>>,
    version: i16,
) -> metadata::Response<'a> {
    let request = metadata::Request {
        topics: Some(topics.into()),
        allow_auto_topic_creation: false,
        include_cluster_authorized_operations: true,
        include_topic_authorized_operations: true,
    };
    let body = client.call(&request, version).await;
    decode(body.leak(), version)
}

fn named(name: &str) -> metadata::TopicRequest<'_> {
    metadata::TopicRequest { name: Some(name), ..Default::default() }
}

#[test]
fn who_asks_what_it_may_do_is_told_that_it_may_do_everything() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let answer = metadata_of(&mut client, vec![named("t")], 9).await;
        assert_eq!(answer.cluster_authorized_operations, 8_096);
        assert_eq!(answer.topics.first().unwrap().topic_authorized_operations, 3_576);
        for (include_cluster_authorized_operations, expected) in [(true, 8_096), (false, i32::MIN)]
        {
            let request = describe_cluster::Request {
                include_cluster_authorized_operations,
                ..Default::default()
            };
            let body = client.call(&request, 1).await;
            let answer: describe_cluster::Response<'_> = decode(&body, 1);
            assert_eq!(answer.cluster_authorized_operations, expected);
        }
    });
}

#[test]
fn a_topic_that_is_asked_for_twice_is_told_once() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        for version in [0, 5, 12] {
            let answer = metadata_of(&mut client, vec![named("t"), named("t")], version).await;
            assert_eq!(answer.topics.len(), 1, "version {version}");
        }
    });
}

#[test]
fn an_id_in_a_version_without_keys_refuses_the_whole_request() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        for version in 10..=11 {
            let keyed = metadata::TopicRequest { topic_id: Uuid([9; 16]), name: Some("t") };
            let answer = metadata_of(&mut client, vec![named("t"), keyed], version).await;
            assert!(answer.brokers.is_empty() && answer.topics.len() == 2);
            assert!(answer.topics.iter().all(|t| t.error_code == ErrorCode::InvalidRequest));
        }
    });
}

#[test]
fn a_topic_that_is_deleted_twice_in_one_request_stays() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        client.create("other", 1).await;
        let names = vec!["t", "other", "t"];
        let request = delete_topics::Request { topic_names: names.into(), ..Default::default() };
        let body = client.call(&request, 5).await;
        let answer: delete_topics::Response<'_> = decode(&body, 5);
        let found: Vec<_> = answer.responses.iter().map(|r| (r.name, r.error_code)).collect();
        assert_eq!(
            found,
            [(Some("t"), ErrorCode::InvalidRequest), (Some("other"), ErrorCode::None)]
        );
        let shown = metadata_of(&mut client, vec![named("t")], 12).await.topics.first().unwrap();
        assert_eq!(shown.error_code, ErrorCode::None, "it is still there");
        let by_name = delete_topics::Topic { name: Some("t"), ..Default::default() };
        let by_id = delete_topics::Topic { name: None, topic_id: shown.topic_id };
        let request =
            delete_topics::Request { topics: vec![by_id, by_name].into(), ..Default::default() };
        let body = client.call(&request, 6).await;
        let answer: delete_topics::Response<'_> = decode(&body, 6);
        let found: Vec<_> =
            answer.responses.iter().map(|r| (r.name, r.topic_id, r.error_code)).collect();
        assert_eq!(found, [(Some("t"), shown.topic_id, ErrorCode::InvalidRequest)]);
    });
}

#[test]
fn an_assignment_beside_numbers_is_an_invalid_request() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let assignment =
            create_topics::Assignment { partition_index: 0, broker_ids: vec![1000].into() };
        let topic = create_topics::Topic {
            name: "t",
            num_partitions: 1,
            replication_factor: -1,
            assignments: vec![assignment].into(),
            ..Default::default()
        };
        let request = create_topics::Request { topics: vec![topic].into(), ..Default::default() };
        let body = client.call(&request, 7).await;
        let answer: create_topics::Response<'_> = decode(&body, 7);
        assert_eq!(answer.topics.first().unwrap().error_code, ErrorCode::InvalidRequest);
    });
}

/// The codes of an alteration of these topics, one after the other.
async fn alter(
    client: &mut Client,
    topics: &[&str],
    (name, config_operation, value): (&str, i8, Option<&str>),
) -> Vec<ErrorCode> {
    let change = incremental_alter_configs::Config { name, config_operation, value };
    let resource = |resource_name: &&'static str| incremental_alter_configs::Resource {
        resource_type: describe_configs::TOPIC,
        resource_name,
        configs: vec![change.clone()].into(),
    };
    let topics: Vec<&'static str> = topics.iter().map(|t| &*(*t).to_owned().leak()).collect();
    let request = incremental_alter_configs::Request {
        resources: topics.iter().map(resource).collect(),
        validate_only: false,
    };
    let body = client.call(&request, 1).await;
    let answer: incremental_alter_configs::Response<'_> = decode(&body, 1);
    answer.responses.iter().map(|r| r.error_code).collect()
}

#[test]
fn names_of_resources_are_checked_before_they_are_looked_for() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let set = ("segment.ms", incremental_alter_configs::SET, Some("5"));
        assert_eq!(alter(&mut client, &["a/b"], set).await, [ErrorCode::InvalidTopicException]);
        assert_eq!(alter(&mut client, &[""], set).await, [ErrorCode::InvalidRequest]);
        let twice = alter(&mut client, &["t", "t"], set).await;
        assert_eq!(twice, [ErrorCode::InvalidRequest; 2], "each is answered");
    });
}

#[test]
fn deleting_a_setting_that_nobody_knows_is_no_mistake() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        for name in ["no.such.key", "delete.retention.ms"] {
            let delete = (name, incremental_alter_configs::DELETE, None);
            assert_eq!(alter(&mut client, &["t"], delete).await, [ErrorCode::None], "{name}");
        }
    });
}

#[test]
fn a_boolean_is_shown_as_it_was_understood() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let set = ("preallocate", incremental_alter_configs::SET, Some("TRUE"));
        assert_eq!(alter(&mut client, &["t"], set).await, [ErrorCode::None]);
        let resource = describe_configs::Resource {
            resource_type: describe_configs::TOPIC,
            resource_name: "t",
            configuration_keys: Some(vec!["preallocate"].into()),
        };
        let request =
            describe_configs::Request { resources: vec![resource].into(), ..Default::default() };
        let body = client.call(&request, 4).await;
        let answer: describe_configs::Response<'_> = decode(&body, 4);
        let result = answer.results.first().unwrap();
        assert_eq!(result.error_message, Some(""), "empty and not null");
        assert_eq!(result.configs.first().unwrap().value, Some("true"));
    });
}

#[test]
fn half_a_producer_id_is_an_invalid_request() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        for (transactional_id, producer_id, producer_epoch) in
            [(Some(""), -1, -1), (None, 5, -1), (None, -1, 5), (None, -7, -1), (None, -7, -7)]
        {
            let request = init_producer_id::Request {
                transactional_id,
                producer_id,
                producer_epoch,
                ..Default::default()
            };
            let body = client.call(&request, 4).await;
            let answer: init_producer_id::Response = decode(&body, 4);
            assert_eq!(answer.error_code, ErrorCode::InvalidRequest, "{request:?}");
            assert_eq!((answer.producer_id, answer.producer_epoch), (-1, -1));
        }
    });
}

#[test]
fn a_coordinator_of_what_there_is_not_is_an_invalid_request() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let request = find_coordinator::Request { key: "k", key_type: 9, ..Default::default() };
        let body = client.call(&request, 3).await;
        let answer: find_coordinator::Response<'_> = decode(&body, 3);
        assert_eq!(answer.error_code, ErrorCode::InvalidRequest);
    });
}

#[test]
fn a_producers_claim_of_the_brokers_time_is_put_right_where_the_producers_time_counts() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let mut claimed = BatchBuilder::new(Codec::None);
        claimed.push(1_000, None, Some(b"a"), &[]);
        claimed.push(3_000, None, Some(b"b"), &[]);
        let mut claimed = claimed.build().unwrap();
        set_max_timestamp_and_type(&mut claimed, 3_000, TimestampType::LogAppendTime);
        assert_eq!(client.produce("t", 0, &claimed).await, (ErrorCode::None, 0));
        let stored = client.fetch("t", 0, 0).await.2;
        let stored = BatchView::parse(&stored).unwrap();
        assert!(stored.check_crc());
        assert_eq!(
            (stored.timestamp_type(), stored.max_timestamp()),
            (TimestampType::CreateTime, 3_000)
        );
    });
}

#[test]
fn a_transactional_batch_is_refused_as_its_producer_is() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let mut part = BatchBuilder::new(Codec::None).producer(7, 0, 0).transactional();
        part.push(1_000, None, Some(b"a"), &[]);
        let code = client.produce("t", 0, &part.build().unwrap()).await.0;
        assert_eq!(code, ErrorCode::TransactionalIdAuthorizationFailed);
    });
}

async fn fetch_of<'a>(client: &mut Client, request: &fetch::Request<'_>) -> fetch::Response<'a> {
    let body = client.call(request, 11).await;
    decode(body.leak(), 11)
}

#[test]
fn a_fetch_that_fails_tells_no_offsets() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        client.produce("t", 0, &batch(&[b"a"])).await;
        let request = fetch_request(&[("t", 0, 9, 100)], 100, 0, 0);
        let answer = fetch_of(&mut client, &request).await;
        let p = answer.responses.first().unwrap().partitions.first().unwrap();
        assert_eq!(p.error_code, ErrorCode::OffsetOutOfRange);
        assert_eq!((p.high_watermark, p.last_stable_offset, p.log_start_offset), (-1, -1, -1));
    });
}

#[test]
fn a_reader_of_committed_records_gets_a_list_of_aborted_transactions_and_others_none() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        for (isolation_level, expected) in [(0, None), (1, Some(0))] {
            let request =
                fetch::Request { isolation_level, ..fetch_request(&[("t", 0, 0, 100)], 100, 0, 0) };
            let answer = fetch_of(&mut client, &request).await;
            let p = answer.responses.first().unwrap().partitions.first().unwrap();
            assert_eq!(p.aborted_transactions.map(|a| a.len()), expected);
        }
    });
}
