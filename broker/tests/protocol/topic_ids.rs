//! Topics that are named by id (KIP-516).

use rillway_wire::api::{fetch, metadata};
use rillway_wire::{ErrorCode, Uuid};

use crate::client::{Client, batch, bytes, decode, scenario};
use crate::field::delete;

/// The versions of Fetch that name topics by id.
const BY_ID: std::ops::RangeInclusive<i16> = 13..=17;

fn fetch_of(topics: &[(Uuid, &[i32])]) -> fetch::Request<'static> {
    let partition = |partition: &i32| fetch::Partition {
        partition: *partition,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let topics = topics.iter().map(|(topic_id, partitions)| fetch::Topic {
        topic_id: *topic_id,
        partitions: partitions.iter().map(partition).collect(),
        ..Default::default()
    });
    fetch::Request { max_bytes: 1 << 20, topics: topics.collect(), ..Default::default() }
}

/// Topic, partition, code and bytes of every partition of an answer.
async fn answers(
    client: &mut Client,
    request: &fetch::Request<'_>,
    version: i16,
) -> Vec<(Uuid, i32, ErrorCode, usize)> {
    let body = client.call(request, version).await;
    let response: fetch::Response<'_> = decode(&body, version);
    assert_eq!(response.error_code, ErrorCode::None);
    assert!(response.node_endpoints.is_empty());
    let mut all = Vec::new();
    for topic in &response.responses {
        for p in &topic.partitions {
            let len = bytes(&p.records).len();
            all.push((topic.topic_id, p.partition_index, p.error_code, len));
        }
    }
    all
}

#[test]
fn a_fetch_by_id_reads_what_it_names_and_an_unknown_id_is_told_for_each_partition() {
    for cores in [1, 2] {
        scenario(cores, |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 2).await;
            client.produce("t", 0, &batch(&[b"a"])).await;
            client.produce("t", 1, &batch(&[b"b", b"c"])).await;
            let id = client.topic_id("t").await;
            let (zero, other) = (Uuid::default(), Uuid([9; 16]));
            for version in BY_ID {
                let request = fetch_of(&[(id, &[0, 1, 5]), (other, &[0, 1]), (zero, &[0])]);
                let found = answers(&mut client, &request, version).await;
                let codes: Vec<_> = found.iter().map(|f| (f.0, f.1, f.2)).collect();
                assert_eq!(
                    codes,
                    [
                        (id, 0, ErrorCode::None),
                        (id, 1, ErrorCode::None),
                        (id, 5, ErrorCode::UnknownTopicOrPartition),
                        (other, 0, ErrorCode::UnknownTopicId),
                        (other, 1, ErrorCode::UnknownTopicId),
                        (zero, 0, ErrorCode::UnknownTopicId),
                    ]
                );
                assert!(found[0].3 > 0 && found[1].3 > 0);
            }
        });
    }
}

#[test]
fn the_id_of_a_topic_that_was_deleted_is_unknown_also_when_its_name_is_there_again() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let old = client.topic_id("t").await;
        assert_eq!(delete(&mut client, "t").await, ErrorCode::None);
        for again in [false, true] {
            if again {
                client.create("t", 1).await;
                assert_ne!(client.topic_id("t").await, old);
            }
            let found = answers(&mut client, &fetch_of(&[(old, &[0])]), 17).await;
            assert_eq!(found, [(old, 0, ErrorCode::UnknownTopicId, 0)]);
            let asked = metadata::TopicRequest { topic_id: old, name: None };
            let request =
                metadata::Request { topics: Some(vec![asked].into()), ..Default::default() };
            for version in 12..=13 {
                let body = client.call(&request, version).await;
                let response: metadata::Response<'_> = decode(&body, version);
                let topic = response.topics.first().unwrap();
                assert_eq!((topic.error_code, topic.name), (ErrorCode::UnknownTopicId, None));
            }
        }
    });
}

#[test]
fn a_stale_epoch_is_answered_with_the_leader_and_its_address_from_version_16_on() {
    use crate::client::{End, Lives, options};
    let (lives, options) = (Lives::new(), options(2));
    lives.live(&options, End::Stop, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        client.produce("t", 0, &batch(&[b"a"])).await;
    });
    lives.live(&options, End::Stop, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let port = i32::from(client.leader_port("t", 0).await);
        let id = client.topic_id("t").await;
        for version in 13..=17 {
            let partition = fetch::Partition {
                current_leader_epoch: 0,
                partition_max_bytes: 100,
                ..Default::default()
            };
            let topic = fetch::Topic {
                topic_id: id,
                partitions: vec![partition].into(),
                ..Default::default()
            };
            let request =
                fetch::Request { max_bytes: 100, topics: vec![topic].into(), ..Default::default() };
            let body = client.call(&request, version).await;
            let response: fetch::Response<'_> = decode(&body, version);
            let p = response.responses.first().unwrap().partitions.first().unwrap();
            assert_eq!(p.error_code, ErrorCode::FencedLeaderEpoch);
            let nodes: Vec<_> =
                response.node_endpoints.iter().map(|n| (n.node_id, n.port)).collect();
            if version < 16 {
                assert_eq!((p.current_leader.leader_id, nodes), (-1, vec![]));
            } else {
                assert_eq!(p.current_leader.leader_epoch, 1);
                assert_eq!(nodes, [(p.current_leader.leader_id, port)]);
            }
        }
    });
}
