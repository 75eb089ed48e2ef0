//! DeleteRecords: where a partition begins afterwards, for whom, and after which end.

use std::time::Duration;

use rillway_wire::ErrorCode;
use rillway_wire::api::delete_records::{Partition, Request, Response, Topic};
use rillway_wire::batch::batches;

use crate::client::{
    Client, ENDS, End, Lives, batch, decode, fetch_request, options, produce_request, scenario,
};
use crate::field::{create_with, ends, got, set, trim};

const T: (&str, i32) = ("t", 0);

/// Two batches: of offsets 0-2 and 3-4.
async fn filled(client: &mut Client) {
    client.create("t", 1).await;
    client.produce("t", 0, &batch(&[b"a", b"b", b"c"])).await;
    client.produce("t", 0, &batch(&[b"d", b"e"])).await;
}

#[test]
fn the_log_begins_at_the_offset_exactly_and_lower_ones_change_nothing() {
    for cores in [1, 2] {
        scenario(cores, |rt| async move {
            let mut client = Client::connect(&rt).await;
            filled(&mut client).await;
            for (offset, start) in [(0, 0), (1, 1), (4, 4), (2, 4), (0, 4), (4, 4)] {
                assert_eq!(trim(&mut client, T, offset).await, (ErrorCode::None, start));
                assert_eq!(ends(&mut client, T).await, (start, 5));
            }
            assert_eq!(client.fetch("t", 0, 3).await.0, ErrorCode::OffsetOutOfRange);
            let (code, _, records) = client.fetch("t", 0, 4).await;
            assert_eq!(code, ErrorCode::None);
            let first = batches(&records).next().expect("a batch").expect("whole");
            assert_eq!(first.base_offset(), 3, "the batch that holds it comes whole");
            assert_eq!(trim(&mut client, T, -1).await, (ErrorCode::None, 5));
            assert_eq!(client.produce("t", 0, &batch(&[b"f"])).await, (ErrorCode::None, 5));
            assert_eq!(client.fetch("t", 0, 5).await.1, 6);
        });
    }
}

#[test]
fn offsets_beyond_the_high_watermark_and_partitions_that_there_are_not_have_their_codes() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        filled(&mut client).await;
        for offset in [6, i64::MAX, -2, i64::MIN] {
            let out = (ErrorCode::OffsetOutOfRange, -1);
            assert_eq!(trim(&mut client, T, offset).await, out, "{offset}");
        }
        let unknown = (ErrorCode::UnknownTopicOrPartition, -1);
        for of in [("t", 1), ("t", -1), ("nowhere", 0), ("", 0)] {
            assert_eq!(trim(&mut client, of, 0).await, unknown, "{of:?}");
        }
        assert_eq!(ends(&mut client, T).await, (0, 5));
        // In every version, and each partition by itself.
        for version in 0..=2 {
            let partitions = [(0, 1), (7, 0)]
                .map(|(partition_index, offset)| Partition { partition_index, offset });
            let topic = Topic { name: "t", partitions: partitions.to_vec().into() };
            let request = Request { topics: vec![topic].into(), timeout_ms: 0 };
            let body = client.call(&request, version).await;
            let response: Response<'_> = decode(&body, version);
            let found: Vec<_> = response.topics.first().unwrap().partitions.iter().collect();
            let found: Vec<_> = found.iter().map(|p| (p.error_code, p.low_watermark)).collect();
            assert_eq!(found, [(ErrorCode::None, 1), unknown]);
        }
    });
}

#[test]
fn a_topic_that_is_only_compacted_keeps_its_records() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let created = create_with(&mut client, "t", 1, &[("cleanup.policy", "compact")]).await;
        assert_eq!(created, ErrorCode::None);
        for offset in [0, -1, 7] {
            assert_eq!(trim(&mut client, T, offset).await, (ErrorCode::PolicyViolation, -1));
        }
        set(&mut client, "t", "cleanup.policy", "compact,delete").await;
        assert_eq!(trim(&mut client, T, -1).await, (ErrorCode::None, 0));
    });
}

#[test]
fn what_was_answered_is_so_after_every_kind_of_end() {
    for end in ENDS {
        for start in [1, 3, 5] {
            let (lives, options) = (Lives::new(), options(1));
            lives.live(&options, end, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                filled(&mut client).await;
                assert_eq!(trim(&mut client, T, start).await, (ErrorCode::None, start));
            });
            lives.live(&options, End::Stop, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                assert_eq!(ends(&mut client, T).await, (start, 5), "after {end:?}");
                assert_eq!(client.fetch("t", 0, start - 1).await.0, ErrorCode::OffsetOutOfRange);
                assert_eq!(client.produce("t", 0, &batch(&[b"f"])).await.1, 5);
            });
        }
    }
}

#[test]
fn a_fetch_that_waits_below_the_new_start_hears_of_it() {
    for cores in [1, 2] {
        scenario(cores, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            filled(&mut client).await;
            for port in [9092, 10092, 10192] {
                if cores == 1 && port > 9092 {
                    continue;
                }
                client.produce("t", 0, &batch(&[b"x"])).await;
                let (start, end) = ends(&mut client, T).await;
                let mut waiting = Client::connect_to(&rt, port).await;
                // More than there is, from an offset that is going to be gone.
                let asked = fetch_request(&[("t", 0, start, 1 << 20)], 1 << 20, 1 << 19, 60_000);
                waiting.send(&asked, 11).await;
                rt.sleep(Duration::from_millis(100)).await;
                let before = rt.now();
                assert_eq!(trim(&mut client, T, end).await, (ErrorCode::None, end));
                let content = waiting.frame().await.expect("an answer");
                assert_eq!(got(&content[4..], 11)[0].code, ErrorCode::OffsetOutOfRange);
                assert!(rt.now() - before < Duration::from_secs(1), "port {port}");
            }
        });
    }
}

#[test]
fn two_clients_that_delete_at_once_and_a_producer_get_answers_that_fit() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let (mut one, mut two) =
            (Client::connect_to(&rt, 10092).await, Client::connect_to(&rt, 10192).await);
        for round in 0..20 {
            client.produce("t", 0, &batch(&[b"a", b"b", b"c"])).await;
            let request = |offset| {
                let partition = Partition { partition_index: 0, offset };
                let topic = Topic { name: "t", partitions: vec![partition].into() };
                Request { topics: vec![topic].into(), timeout_ms: 0 }
            };
            one.send(&request(3 * round + 2), 2).await;
            two.send(&request(3 * round + 1), 2).await;
            client.send(&produce_request("t", 0, &batch(&[]), -1), 7).await;
            client.frame().await.expect("a refusal: a batch of nothing");
            for other in [&mut one, &mut two] {
                let content = other.frame().await.expect("an answer");
                // Behind the correlation id and the tags of the header.
                let response: Response<'_> = decode(&content[5..], 2);
                let p = response.topics.first().unwrap().partitions.first().unwrap();
                assert_eq!(p.error_code, ErrorCode::None);
                assert!((3 * round + 1..=3 * round + 2).contains(&p.low_watermark));
            }
            assert_eq!(ends(&mut client, T).await, (3 * round + 2, 3 * round + 3));
        }
    });
}
