//! Fetch: sizes by KIP-74, long polls, ends.

use std::time::Duration;

use rillway_wire::ErrorCode;
use rillway_wire::api::fetch;
use rillway_wire::batch::batches;

use crate::client::{Client, batch, bytes, decode, fetch_request, produce_request, scenario};

/// Offsets of the batches in an answer's partition: (base, next), and that the last one is whole.
fn extents(records: &[u8]) -> Vec<(i64, i64)> {
    batches(records)
        .map(|b| b.expect("whole batches"))
        .map(|b| (b.base_offset(), b.next_offset()))
        .collect()
}

async fn answers(
    client: &mut Client,
    request: &fetch::Request<'_>,
) -> Vec<(ErrorCode, i64, Vec<u8>)> {
    let body = client.call(request, 11).await;
    let response: fetch::Response<'_> = decode(&body, 11);
    assert_eq!(response.session_id, 0);
    let partitions =
        response.responses.iter().flat_map(|t| t.partitions.iter().collect::<Vec<_>>());
    partitions
        .map(|p| {
            if p.error_code == ErrorCode::None {
                assert_eq!(
                    p.last_stable_offset, p.high_watermark,
                    "without transactions they are the same"
                );
            }
            assert_eq!(p.preferred_read_replica, -1);
            (p.error_code, p.high_watermark, bytes(&p.records))
        })
        .collect()
}

#[test]
fn a_fetch_inside_a_batch_returns_the_whole_batch() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        client.produce("t", 0, &batch(&[b"a", b"b", b"c"])).await;
        client.produce("t", 0, &batch(&[b"d", b"e"])).await;
        for offset in 0..5 {
            let (code, _, records) = client.fetch("t", 0, offset).await;
            assert_eq!(code, ErrorCode::None);
            let (base, next) = extents(&records)[0];
            assert!((base..next).contains(&offset), "offset {offset} is in {base}..{next}");
        }
    });
}

#[test]
fn a_long_poll_on_the_wrong_core_is_woken_too() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let right = client.leader_port("t", 0).await;
        let wrong = if right == 10092 { 10192 } else { 10092 };
        let mut elsewhere = Client::connect_to(&rt, wrong).await;
        elsewhere.send(&fetch_request(&[("t", 0, 0, 1 << 20)], 1 << 20, 1, 60_000), 4).await;
        rt.sleep(Duration::from_millis(50)).await;
        let before = rt.now();
        client.produce("t", 0, &batch(&[b"x"])).await;
        elsewhere.frame().await.expect("woken");
        assert!(rt.now() - before < Duration::from_secs(1));
    });
}

#[test]
fn a_wait_for_several_partitions_elsewhere_hears_of_one_that_grows_twice() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 4).await;
        let mut there = Vec::new();
        for index in 0..4 {
            if client.leader_port("t", index).await == 10192 {
                there.push(index);
            }
        }
        let [one, other] = there[..] else {
            panic!("two of four are on the second core: {there:?}")
        };
        let mut elsewhere = Client::connect_to(&rt, 10092).await;
        let asked = [("t", one, 0, 1 << 20), ("t", other, 0, 1 << 20)];
        elsewhere.send(&fetch_request(&asked, 1 << 20, 500, 60_000), 4).await;
        rt.sleep(Duration::from_millis(50)).await;
        let before = rt.now();
        // Not enough, and then enough; the other partition stays as it is.
        client.produce("t", one, &batch(&[b"x"])).await;
        rt.sleep(Duration::from_millis(50)).await;
        client.produce("t", one, &batch(&[&[7; 1000]])).await;
        elsewhere.frame().await.expect("woken");
        assert!(rt.now() - before < Duration::from_secs(1));
    });
}

#[test]
fn offsets_beyond_the_ends_are_out_of_range_and_the_end_itself_is_empty() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        client.produce("t", 0, &batch(&[b"a"])).await;
        assert_eq!(client.fetch("t", 0, 1).await, (ErrorCode::None, 1, Vec::new()));
        assert_eq!(client.fetch("t", 0, 2).await.0, ErrorCode::OffsetOutOfRange);
        assert_eq!(client.fetch("t", 0, -1).await.0, ErrorCode::OffsetOutOfRange);
        assert_eq!(client.fetch("t", 9, 0).await.0, ErrorCode::UnknownTopicOrPartition);
        assert_eq!(client.fetch("nowhere", 0, 0).await.0, ErrorCode::UnknownTopicOrPartition);
    });
}

#[test]
fn every_served_version_is_answered_in_its_own_form() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        client.produce("t", 0, &batch(&[b"a"])).await;
        for version in 4..=12 {
            for (topic, offset) in [("t", 0), ("t", 9), ("nowhere", 0)] {
                let body = client
                    .call(&fetch_request(&[(topic, 0, offset, 100)], 100, 0, 0), version)
                    .await;
                let response: fetch::Response<'_> = decode(&body, version);
                assert_eq!(response.responses.len(), 1);
            }
        }
    });
}

#[test]
fn stale_and_future_leader_epochs_are_told_apart() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        client.send(&produce_request("t", 0, &batch(&[b"a"]), -1), 7).await;
        client.frame().await.expect("an answer");
        let with_epoch = |epoch| {
            let partition = fetch::Partition {
                current_leader_epoch: epoch,
                partition_max_bytes: 100,
                ..Default::default()
            };
            let topic = fetch::Topic {
                topic: "t",
                partitions: vec![partition].into(),
                ..Default::default()
            };
            fetch::Request {
                replica_id: -1,
                max_bytes: 100,
                topics: vec![topic].into(),
                ..Default::default()
            }
        };
        assert_eq!(answers(&mut client, &with_epoch(0)).await[0].0, ErrorCode::None);
        assert_eq!(answers(&mut client, &with_epoch(-1)).await[0].0, ErrorCode::None);
        assert_eq!(answers(&mut client, &with_epoch(5)).await[0].0, ErrorCode::UnknownLeaderEpoch);
    });
}
