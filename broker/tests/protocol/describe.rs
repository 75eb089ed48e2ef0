//! DescribeTopicPartitions, DescribeLogDirs, ListConfigResources: what there is, in pages and by node.

use std::collections::BTreeMap;

use rillway_wire::ErrorCode;
use rillway_wire::api::describe_topic_partitions::{self as pages, Cursor};
use rillway_wire::api::{describe_log_dirs as dirs, list_config_resources as resources};

use crate::client::{Client, batch, decode, options, scenario, scenario_with};

/// A page: topic, code and partitions; and where the next one begins.
type Page = (Vec<(String, ErrorCode, Vec<i32>)>, Option<(String, i32)>);

async fn page(
    client: &mut Client,
    topics: &[&str],
    limit: i32,
    cursor: Option<(&str, i32)>,
) -> Page {
    let request = pages::Request {
        topics: topics.iter().map(|name| pages::Topic { name }).collect(),
        response_partition_limit: limit,
        cursor: cursor.map(|(topic_name, partition_index)| Cursor { topic_name, partition_index }),
    };
    let body = client.call(&request, 0).await;
    let response: pages::Response<'_> = decode(&body, 0);
    let mut found = Vec::new();
    for topic in &response.topics {
        for p in &topic.partitions {
            assert_eq!(p.error_code, ErrorCode::None);
            assert!(p.leader_id >= 1000 && p.leader_epoch == 0);
            assert_eq!(p.replica_nodes, vec![p.leader_id].into());
            assert_eq!(p.isr_nodes, vec![p.leader_id].into());
            assert!(p.eligible_leader_replicas.is_some_and(|e| e.is_empty()));
        }
        assert_eq!(topic.topic_id.is_zero(), topic.error_code != ErrorCode::None);
        let partitions = topic.partitions.iter().map(|p| p.partition_index).collect();
        found.push((topic.name.unwrap_or("").to_owned(), topic.error_code, partitions));
    }
    (found, response.next_cursor.map(|c| (c.topic_name.to_owned(), c.partition_index)))
}

fn topic(name: &str, partitions: std::ops::Range<i32>) -> (String, ErrorCode, Vec<i32>) {
    (name.to_owned(), ErrorCode::None, partitions.collect())
}

#[test]
fn topics_come_by_name_in_pages_that_cursors_join() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("b", 3).await;
        client.create("a", 2).await;
        client.create("c", 4).await;
        let whole = vec![topic("a", 0..2), topic("b", 0..3), topic("c", 0..4)];
        assert_eq!(page(&mut client, &[], 2000, None).await, (whole.clone(), None));
        assert_eq!(page(&mut client, &[], i32::MAX, None).await, (whole.clone(), None));
        for limit in 1..=10 {
            for asked in [&[][..], &["c", "a", "b"], &["b", "a", "c", "a"]] {
                let mut joined: BTreeMap<String, Vec<i32>> = BTreeMap::new();
                let mut cursor: Option<(String, i32)> = None;
                loop {
                    let at = cursor.as_ref().map(|(name, index)| (name.as_str(), *index));
                    let (found, next) = page(&mut client, asked, limit, at).await;
                    let count: usize = found.iter().map(|t| t.2.len()).sum();
                    assert!((1..=limit as usize).contains(&count));
                    for (name, _, partitions) in found {
                        joined.entry(name).or_default().extend(partitions);
                    }
                    cursor = next;
                    if cursor.is_none() {
                        break;
                    }
                }
                let joined: Vec<_> =
                    joined.into_iter().map(|(name, p)| (name, ErrorCode::None, p)).collect();
                assert_eq!(joined, whole, "limit {limit}");
            }
        }
    });
}

#[test]
fn topics_that_there_are_not_and_cursors_that_do_not_fit_have_their_codes() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("b", 3).await;
        let none = |name: &str, code| (name.to_owned(), code, vec![]);
        let unknown = ErrorCode::UnknownTopicOrPartition;
        let (found, next) = page(&mut client, &["b", "x", "bad name"], 2000, None).await;
        assert_eq!(
            found,
            [
                topic("b", 0..3),
                none("bad name", ErrorCode::InvalidTopicException),
                none("x", unknown)
            ]
        );
        assert_eq!(next, None);
        // A cursor that a deleted topic left: the next ones follow; but it has to be among those that are named.
        assert_eq!(page(&mut client, &[], 2, Some(("a", 5))).await.0, [topic("b", 0..2)]);
        let (found, _) = page(&mut client, &["b"], 2, Some(("a", 0))).await;
        assert_eq!(found, [none("b", ErrorCode::InvalidRequest)]);
        let (found, _) = page(&mut client, &["b"], 2, Some(("b", -1))).await;
        assert_eq!(found, [none("b", ErrorCode::InvalidRequest)]);
        assert_eq!(page(&mut client, &[], 0, None).await.0, [topic("b", 0..1)], "at least one");
        assert_eq!(page(&mut client, &[], 9, Some(("b", 3))).await.0, [topic("b", 0..0)]);
    });
}

async fn log_dir(
    client: &mut Client,
    topics: Option<&[(&str, &[i32])]>,
    version: i16,
) -> (Vec<(String, i32, i64)>, (i64, i64)) {
    let topics = topics.map(|topics| {
        topics
            .iter()
            .map(|(topic, partitions)| dirs::Topic {
                topic,
                partitions: partitions.to_vec().into(),
            })
            .collect()
    });
    let body = client.call(&dirs::Request { topics }, version).await;
    let response: dirs::Response<'_> = decode(&body, version);
    assert_eq!((response.error_code, response.results.len()), (ErrorCode::None, 1));
    let dir = response.results.first().unwrap();
    assert_eq!((dir.error_code, dir.log_dir), (ErrorCode::None, "/data"));
    let mut found = Vec::new();
    for topic in &dir.topics {
        for p in &topic.partitions {
            assert_eq!((p.offset_lag, p.is_future_key), (0, false));
            found.push((topic.name.to_owned(), p.partition_index, p.partition_size));
        }
    }
    (found, (dir.total_bytes, dir.usable_bytes))
}

#[test]
fn each_node_tells_what_the_partitions_of_its_core_take() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 4).await;
        client.create("u", 1).await;
        let one = batch(&[b"a", b"b"]);
        client.produce("t", 2, &one).await;
        client.produce("t", 2, &one).await;
        let mut all = Vec::new();
        for port in [10092, 10192] {
            let mut node = Client::connect_to(&rt, port).await;
            for version in 1..=4 {
                let (found, (total, usable)) = log_dir(&mut node, None, version).await;
                assert_eq!(total > 0 && usable > 0 && usable <= total, version >= 4);
                for (name, index, _) in &found {
                    assert_eq!(client.leader_port(name, *index).await, port);
                }
                if version == 4 {
                    all.extend(found);
                }
            }
            let (some, _) = log_dir(&mut node, Some(&[("t", &[2, 9]), ("nowhere", &[0])]), 4).await;
            assert_eq!(some.len(), usize::from(client.leader_port("t", 2).await == port));
            assert_eq!(log_dir(&mut node, Some(&[]), 4).await.0, []);
        }
        all.sort();
        let size = 2 * one.len() as i64;
        let t = |index, size| ("t".to_owned(), index, size);
        assert_eq!(all, [t(0, 0), t(1, 0), t(2, size), t(3, 0), ("u".to_owned(), 0, 0)]);
    });
}

#[test]
fn a_node_that_stands_for_several_cores_tells_of_all_of_them() {
    let mut options = options(2);
    options.nodes = Some(1);
    scenario_with(options, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 4).await;
        let (found, _) = log_dir(&mut client, None, 4).await;
        assert_eq!(found.iter().map(|f| f.1).collect::<Vec<_>>(), [0, 1, 2, 3]);
    });
}

#[test]
fn topics_and_nodes_have_settings_and_nothing_else_does() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("b", 1).await;
        client.create("a", 1).await;
        let mut list = async |types: &[i8], version| {
            let request = resources::Request { resource_types: types.to_vec().into() };
            let body = client.call(&request, version).await;
            let response: resources::Response<'_> = decode(&body, version);
            let found: Vec<_> = response
                .config_resources
                .iter()
                .map(|r| (r.resource_type, r.resource_name.to_owned()))
                .collect();
            (response.error_code, found)
        };
        let named = |t: i8, name: &str| (t, name.to_owned());
        let (topics, nodes) =
            ([named(2, "a"), named(2, "b")], [named(4, "1000"), named(4, "1001")]);
        let none = (ErrorCode::None, vec![]);
        assert_eq!(list(&[], 0).await, none);
        assert_eq!(list(&[], 1).await, (ErrorCode::None, [topics.clone(), nodes.clone()].concat()));
        assert_eq!(list(&[2], 1).await, (ErrorCode::None, topics.to_vec()));
        assert_eq!(list(&[4, 16], 1).await, (ErrorCode::None, nodes.to_vec()));
        assert_eq!(list(&[8, 16, 32], 1).await, none);
        for unknown in [0, 1, 3, 64, -1] {
            assert_eq!(list(&[2, unknown], 1).await, (ErrorCode::UnsupportedVersion, vec![]));
        }
    });
}
