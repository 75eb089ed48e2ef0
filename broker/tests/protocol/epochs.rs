//! OffsetForLeaderEpoch over several lives: every start is an epoch, and consumers that check epochs see no loss.

use rillway_wire::ErrorCode;
use rillway_wire::api::fetch;
use rillway_wire::api::offset_for_leader_epoch::{Partition, Request, Response, Topic};

use crate::client::{Client, End, Lives, batch, decode, fetch_request, options, scenario};

async fn end_of(
    client: &mut Client,
    index: i32,
    current: i32,
    epoch: i32,
) -> (ErrorCode, i32, i64) {
    for version in 2..=4 {
        let partition =
            Partition { partition: index, current_leader_epoch: current, leader_epoch: epoch };
        let topic = Topic { topic: "t", partitions: vec![partition].into() };
        let request = Request { replica_id: -1, topics: vec![topic].into() };
        let body = client.call(&request, version).await;
        let response: Response<'_> = decode(&body, version);
        let p = response.topics.first().unwrap().partitions.first().unwrap();
        if version == 4 {
            return (p.error_code, p.leader_epoch, p.end_offset);
        }
    }
    unreachable!("version 4 is the last")
}

#[test]
fn an_old_epoch_ends_where_the_next_begins_the_current_one_at_the_log_end() {
    let (lives, options) = (Lives::new(), options(2));
    for life in 0..6 {
        lives.live(
            &options,
            if life % 2 == 0 { End::Stop } else { End::PowerCut },
            move |rt| async move {
                let mut client = Client::connect(&rt).await;
                if life == 0 {
                    client.create("t", 2).await;
                }
                // The fourth life writes nothing: its epoch has no entry.
                if life != 3 {
                    client.produce("t", 0, &batch(&[b"a", b"b"])).await;
                }
            },
        );
    }
    // Life n has epoch n if every life before it wrote; the one that did not shares its number with the next.
    lives.live(&options, End::Stop, |rt| async move {
        let mut client = Client::connect(&rt).await;
        for epoch in 0..3 {
            let want = (ErrorCode::None, epoch, 2 * (i64::from(epoch) + 1));
            assert_eq!(end_of(&mut client, 0, -1, epoch).await, want);
        }
        let (code, current, end) = (ErrorCode::None, 5, 10);
        assert_eq!(end_of(&mut client, 0, -1, current).await, (code, current, end));
        assert_eq!(end_of(&mut client, 0, current, current).await, (code, current, end));
        assert_eq!(end_of(&mut client, 0, -1, current + 1).await, (code, -1, -1), "the future");
        assert_eq!(end_of(&mut client, 0, -1, -1).await, (code, -1, -1));
        assert_eq!(end_of(&mut client, 0, current - 1, 0).await.0, ErrorCode::FencedLeaderEpoch);
        assert_eq!(end_of(&mut client, 0, current + 1, 0).await.0, ErrorCode::UnknownLeaderEpoch);
        // After an append of this life the answer is the same.
        client.produce("t", 0, &batch(&[b"c"])).await;
        assert_eq!(end_of(&mut client, 0, -1, current).await, (code, current, end + 1));
        assert_eq!(end_of(&mut client, 0, -1, current - 1).await.2, end);
    });
}

#[test]
fn an_empty_partition_has_its_epoch_and_a_partition_that_is_not_there_is_unknown() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 2).await;
        for index in 0..2 {
            assert_eq!(end_of(&mut client, index, 0, 0).await, (ErrorCode::None, 0, 0));
        }
        assert_eq!(end_of(&mut client, 2, -1, 0).await.0, ErrorCode::UnknownTopicOrPartition);
    });
}

#[test]
fn a_fetch_with_a_stale_or_future_epoch_is_fenced() {
    let (lives, options) = (Lives::new(), options(1));
    lives.live(&options, End::Stop, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        client.produce("t", 0, &batch(&[b"a"])).await;
    });
    lives.live(&options, End::Stop, |rt| async move {
        let mut client = Client::connect(&rt).await;
        for (epoch, code) in [
            (0, ErrorCode::FencedLeaderEpoch),
            (1, ErrorCode::None),
            (2, ErrorCode::UnknownLeaderEpoch),
        ] {
            let mut request = fetch_request(&[("t", 0, 0, 1000)], 1000, 0, 0);
            let mut topic = request.topics.first().unwrap();
            let mut partition = topic.partitions.first().unwrap();
            partition.current_leader_epoch = epoch;
            topic.partitions = vec![partition].into();
            request.topics = vec![topic].into();
            let body = client.call(&request, 11).await;
            let response: fetch::Response<'_> = decode(&body, 11);
            let p = response.responses.first().unwrap().partitions.first().unwrap();
            assert_eq!(p.error_code, code, "epoch {epoch}");
        }
    });
}
