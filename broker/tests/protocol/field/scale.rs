//! Many partitions, and clients that ask for more than they take. Ten thousand of each on the real kernel: `ci/load`.

use std::time::Duration;

use rillway_wire::ErrorCode;
use rillway_wire::api::{list_offsets, metadata, offset_commit, offset_fetch};

use super::{create_with, delete, ends, got};
use crate::client::{
    Client, End, Lives, batch, decode, fetch_request, options, produce_request, scenario_with,
    scenario_with_stop,
};

/// scale-1: a topic of a thousand partitions, made and deleted again and again; all of them asked at once; then as many
/// files as before.
#[test]
fn a_thousand_partitions_come_and_go_and_leave_no_file_behind() {
    let mut options = options(2);
    options.store.delete_delay = Duration::ZERO;
    options.shard.partitions_per_topic_max = 1_000;
    let lives = Lives::new();
    let mut files = Vec::new();
    for life in 0..4 {
        lives.live(
            &options,
            if life % 2 == 0 { End::Stop } else { End::PowerCut },
            |rt| async move {
                let mut client = Client::connect(&rt).await;
                assert_eq!(
                    create_with(&mut client, "many", 1_001, &[]).await,
                    ErrorCode::InvalidPartitions,
                    "one too many"
                );
                for _ in 0..2 {
                    assert_eq!(create_with(&mut client, "many", 1_000, &[]).await, ErrorCode::None);
                    for index in [0, 499, 999] {
                        let base = client.produce("many", index, &batch(&[b"x"])).await;
                        assert_eq!(base, (ErrorCode::None, 0));
                    }
                    let body = client.call(&metadata::Request::default(), 9).await;
                    let response: metadata::Response<'_> = decode(&body, 9);
                    let found = response.topics.iter().find(|t| t.name == Some("many")).unwrap();
                    assert_eq!(found.partitions.len(), 1_000);
                    let at = |partition_index| list_offsets::Partition {
                        partition_index,
                        timestamp: list_offsets::LATEST,
                        ..Default::default()
                    };
                    let topic = list_offsets::Topic {
                        name: "many",
                        partitions: (0..1_000).map(at).collect(),
                    };
                    let request = list_offsets::Request {
                        replica_id: -1,
                        topics: vec![topic].into(),
                        ..Default::default()
                    };
                    let body = client.call(&request, 7).await;
                    let response: list_offsets::Response<'_> = decode(&body, 7);
                    let answers = response.topics.first().unwrap();
                    let ends: i64 = answers.partitions.iter().map(|p| p.offset).sum();
                    assert_eq!((answers.partitions.len(), ends), (1_000, 3));
                    let asked: Vec<_> = (0..1_000).map(|n| ("many", n, 0, 1 << 20)).collect();
                    let body = client.call(&fetch_request(&asked, 1 << 20, 1, 500), 11).await;
                    let partitions = got(&body, 11);
                    assert!(partitions.iter().all(|p| p.code == ErrorCode::None));
                    assert_eq!(partitions.iter().filter(|p| !p.records.is_empty()).count(), 3);
                    assert_eq!(delete(&mut client, "many").await, ErrorCode::None);
                }
                rt.sleep(Duration::from_secs(30)).await;
            },
        );
        lives.live(&options, End::Stop, |rt| async move {
            rt.sleep(Duration::from_secs(30)).await;
        });
        files.push(lives.world().disk("broker").files().len());
    }
    assert!(files[1..].iter().all(|n| *n == files[0]), "{files:?}");
}

/// scale-2: who asks for a lot and reads nothing is held to what a connection may have in flight; the answers to others,
/// and what is acknowledged, do not suffer, and nothing stays when it leaves.
#[test]
fn who_pipelines_ten_thousand_fetches_and_reads_nothing_is_held_back_and_harms_nobody() {
    let mut settings = options(2);
    settings.store.cache_bytes = 1 << 20;
    settings.store.undestaged_bytes = 4 << 20;
    settings.store.transfer_bytes = rillway_io::TRANSFER_BYTES_MIN;
    scenario_with_stop(settings, |rt, stop| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let large = batch(&[&vec![7; 900_000]]);
        for n in 0..20 {
            assert_eq!(client.produce("t", 0, &large).await, (ErrorCode::None, n));
        }
        let mut greedy = Vec::new();
        for port in [9_092, 10_092, 10_192] {
            let mut one = Client::connect_to(&rt, port).await;
            greedy.push(rt.spawn(rillway_io::Class::Control, async move {
                for n in 0..10_000 {
                    // What the broker does not take waits with the sender.
                    one.send(&fetch_request(&[("t", 0, n % 19, 1 << 20)], 1 << 20, 1, 0), 11).await;
                }
                one
            }));
        }
        rt.sleep(Duration::from_secs(10)).await;
        assert!(greedy.iter().all(|g| !g.is_finished()), "they were held back");
        for n in 20..40 {
            assert_eq!(client.produce("t", 0, &large).await, (ErrorCode::None, n));
            let (code, end, records) = client.fetch("t", 0, n).await;
            assert_eq!((code, end, records.len()), (ErrorCode::None, n + 1, large.len()));
            let budget = rillway_io::TRANSFER_BYTES_MIN;
            assert!(stop.transfers().iter().all(|t| t.in_use() <= budget));
        }
        for one in greedy {
            one.cancel();
        }
        rt.sleep(Duration::from_secs(60)).await;
        assert!(stop.transfers().iter().all(|t| t.in_use() == 0));
    });
}

/// scale-2: a producer with a timeout of 2^31 - 1 leaves nothing waiting: thousands of them, and a small budget for
/// requests.
#[test]
fn the_largest_timeouts_of_producers_and_fetches_hold_nothing_after_the_answer() {
    let mut settings = options(1);
    settings.limits.request_memory = 1 << 20;
    settings.limits.request_bytes_max = 1 << 20;
    scenario_with(settings, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let large = batch(&[&vec![7; 200_000]]);
        for n in 0..300 {
            for (one, acks) in [(&large, -1), (&large, 1)] {
                let mut request = produce_request("t", 0, one, acks);
                request.timeout_ms = i32::MAX;
                client.call(&request, 7).await;
            }
            let request = fetch_request(&[("t", 0, n, 100)], 100, 1, i32::MAX);
            let body = client.call(&request, 11).await;
            assert_eq!(got(&body, 11)[0].code, ErrorCode::None);
        }
        assert_eq!(ends(&mut client, ("t", 0)).await, (0, 600));
    });
}

/// scale-1: a group of a thousand partitions commits, is asked for all of them, and has them after a restart.
#[test]
fn a_group_that_commits_for_a_thousand_partitions_is_told_all_of_them_in_every_version() {
    let (lives, options) = (Lives::new(), options(2));
    for life in 0..2 {
        lives.live(&options, End::PowerCut, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            if life == 0 {
                client.create("t", 1_000).await;
                let partitions = (0..1_000).map(|partition_index| offset_commit::Partition {
                    partition_index,
                    committed_offset: i64::from(partition_index) * 3,
                    ..Default::default()
                });
                let topic = offset_commit::Topic {
                    name: "t",
                    partitions: partitions.collect(),
                    ..Default::default()
                };
                let request = offset_commit::Request {
                    group_id: "g",
                    topics: vec![topic].into(),
                    ..Default::default()
                };
                let body = client.call(&request, 8).await;
                let answer: offset_commit::Response<'_> = decode(&body, 8);
                let topic = answer.topics.first().unwrap();
                assert!(topic.partitions.iter().all(|p| p.error_code == ErrorCode::None));
            }
            let right = |found: Vec<(i32, i64)>| {
                found.len() == 1_000 && found.iter().all(|(n, at)| *at == i64::from(*n) * 3)
            };
            for version in 2..=7 {
                let request = offset_fetch::Request { group_id: "g", ..Default::default() };
                let body = client.call(&request, version).await;
                let answer: offset_fetch::Response<'_> = decode(&body, version);
                let topic = answer.topics.first().unwrap();
                let one = |p: offset_fetch::PartitionResponse<'_>| {
                    (p.partition_index, p.committed_offset)
                };
                assert!(right(topic.partitions.iter().map(one).collect()), "version {version}");
            }
            for version in 8..=10 {
                let group = offset_fetch::Group { group_id: "g", ..Default::default() };
                let request =
                    offset_fetch::Request { groups: vec![group].into(), ..Default::default() };
                let body = client.call(&request, version).await;
                let answer: offset_fetch::Response<'_> = decode(&body, version);
                let topic = answer.groups.first().unwrap().topics.first().unwrap();
                let one = |p: offset_fetch::PartitionResponse<'_>| {
                    (p.partition_index, p.committed_offset)
                };
                assert!(right(topic.partitions.iter().map(one).collect()), "version {version}");
            }
        });
    }
}
