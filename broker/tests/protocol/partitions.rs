//! CreatePartitions, and where partitions lie when the number of cores changes.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use rillway_wire::ErrorCode;
use rillway_wire::api::create_partitions::{Assignment, Request, Response, Topic};
use rillway_wire::api::metadata;

use crate::client::{Client, End, Lives, batch, decode, options, scenario};

async fn grow(
    client: &mut Client,
    topics: Vec<Topic<'_>>,
    validate_only: bool,
) -> Vec<(String, ErrorCode)> {
    let request = Request { topics: topics.into(), timeout_ms: 1_000, validate_only };
    let body = client.call(&request, 3).await;
    let response: Response<'_> = decode(&body, 3);
    for r in &response.results {
        let explained = r.error_message.is_some_and(|m| !m.is_empty());
        assert_eq!(explained, r.error_code != ErrorCode::None, "{:?}", r.error_message);
    }
    response.results.iter().map(|r| (r.name.to_owned(), r.error_code)).collect()
}

async fn grow_to(client: &mut Client, count: i32) -> ErrorCode {
    grow(client, vec![Topic { name: "t", count, assignments: None }], false).await[0].1
}

/// The leader of each partition.
async fn leaders(client: &mut Client, topic: &str) -> Vec<i32> {
    let asked = metadata::TopicRequest { name: Some(topic), ..Default::default() };
    let request = metadata::Request { topics: Some(vec![asked].into()), ..Default::default() };
    let body = client.call(&request, 9).await;
    let response: metadata::Response<'_> = decode(&body, 9);
    response.topics.first().unwrap().partitions.iter().map(|p| p.leader_id).collect()
}

#[test]
fn new_partitions_are_usable_at_once_and_the_old_ones_keep_their_records() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        client.produce("t", 0, &batch(&[b"a"])).await;
        assert_eq!(grow_to(&mut client, 5).await, ErrorCode::None);
        let mut other = Client::connect(&rt).await;
        for index in 1..5 {
            assert_eq!(other.produce("t", index, &batch(&[b"b"])).await, (ErrorCode::None, 0));
        }
        assert_eq!(client.fetch("t", 0, 0).await.1, 1);
        let leaders = leaders(&mut other, "t").await;
        assert_eq!(leaders.len(), 5);
        let here = leaders.iter().filter(|l| **l == 1000).count();
        assert!((2..=3).contains(&here), "spread over both cores: {leaders:?}");
    });
}

#[test]
fn what_cannot_grow_says_why_and_the_others_grow() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 3).await;
        for count in [3, 2, 0, -1, 1_000_000] {
            assert_eq!(grow_to(&mut client, count).await, ErrorCode::InvalidPartitions, "{count}");
        }
        let assigned = |brokers: &[&[i32]]| {
            let all: Vec<_> =
                brokers.iter().map(|b| Assignment { broker_ids: b.to_vec().into() }).collect();
            Topic { name: "t", count: 5, assignments: Some(all.into()) }
        };
        for (bad, why) in [
            (&[[1000].as_slice()][..], "too few"),
            (&[&[1000], &[1001], &[1000]], "too many"),
            (&[&[1000], &[7]], "no such broker"),
            (&[&[1000], &[]], "no replica"),
            (&[&[1000], &[1000, 1001]], "cores are not replicas"),
        ] {
            let got = grow(&mut client, vec![assigned(bad)], false).await[0].1;
            assert_eq!(got, ErrorCode::InvalidReplicaAssignment, "{why}");
        }
        let good = grow(&mut client, vec![assigned(&[&[1000], &[1001]])], true).await[0].1;
        assert_eq!(good, ErrorCode::None);
        assert_eq!(leaders(&mut client, "t").await.len(), 3, "validate_only made nothing");
        client.create("u", 1).await;
        let plain = |name| Topic { name, count: 4, assignments: None };
        let asked = vec![plain("t"), plain("none"), plain("u"), plain("t")];
        let mut got = grow(&mut client, asked, false).await;
        got.sort_unstable();
        let want = [
            ("none", ErrorCode::UnknownTopicOrPartition),
            ("t", ErrorCode::InvalidRequest),
            ("u", ErrorCode::None),
        ];
        assert_eq!(got, want.map(|(name, code)| (name.to_owned(), code)));
        assert_eq!(leaders(&mut client, "u").await.len(), 4);
    });
}

#[test]
fn a_power_cut_leaves_all_new_partitions_or_none_and_a_topic_that_can_grow_again() {
    let seen = Rc::new(RefCell::new(BTreeSet::new()));
    for at_us in (0..40).map(|i| i * 250) {
        let outcomes = Rc::clone(&seen);
        let (lives, options) = (Lives::new(), options(2));
        lives.live(&options, End::PowerCut, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 2).await;
            client.produce("t", 1, &batch(&[b"a"])).await;
            let topic = Topic { name: "t", count: 6, assignments: None };
            let request =
                Request { topics: vec![topic].into(), timeout_ms: 1_000, ..Default::default() };
            client.send(&request, 3).await;
            rt.sleep(std::time::Duration::from_micros(at_us)).await;
        });
        lives.live(&options, End::Stop, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            let found = leaders(&mut client, "t").await;
            assert!([2, 6].contains(&found.len()) && !found.contains(&-1), "{at_us}: {found:?}");
            outcomes.borrow_mut().insert(found.len());
            assert_eq!(client.fetch("t", 1, 0).await.1, 1);
            assert_eq!(grow_to(&mut client, 8).await, ErrorCode::None, "{at_us}");
            for index in 2..8 {
                assert_eq!(client.produce("t", index, &batch(&[b"b"])).await, (ErrorCode::None, 0));
            }
        });
    }
    assert_eq!(seen.borrow().len(), 2, "cuts before and after it was decided: {seen:?}");
}

#[test]
fn a_change_of_cores_spreads_every_topic_and_keeps_every_record() {
    let lives = Lives::new();
    lives.live(&options(1), End::Stop, |rt| async move {
        let mut client = Client::connect(&rt).await;
        for topic in ["t", "u"] {
            client.create(topic, 6).await;
            for index in 0..6 {
                client.produce(topic, index, &batch(&[topic.as_bytes()])).await;
            }
        }
    });
    for (round, cores) in [3usize, 2, 4, 1].into_iter().enumerate() {
        lives.live(&options(cores), End::PowerCut, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            for topic in ["t", "u"] {
                let leaders = leaders(&mut client, topic).await;
                for core in 0..cores {
                    let held = leaders.iter().filter(|l| **l == 1000 + core as i32).count();
                    assert!(held <= 6usize.div_ceil(cores), "{cores} cores: {leaders:?}");
                }
                for index in 0..6 {
                    assert_eq!(client.fetch(topic, index, 0).await.1, round as i64 + 1);
                    let (code, offset) = client.produce(topic, index, &batch(&[b"x"])).await;
                    assert_eq!((code, offset), (ErrorCode::None, round as i64 + 1));
                }
            }
        });
    }
}
