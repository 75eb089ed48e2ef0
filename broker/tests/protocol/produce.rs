//! Produce: sizes, codes, acks, duplicates.

use rillway_wire::ErrorCode;
use rillway_wire::api::{find_coordinator, init_producer_id, metadata, produce};

use crate::client::{Client, batch, bytes, decode, produce_request, scenario};

async fn producer_id(client: &mut Client) -> i64 {
    let body = client.call(&init_producer_id::Request::default(), 4).await;
    let response: init_producer_id::Response = decode(&body, 4);
    assert_eq!((response.error_code, response.producer_epoch), (ErrorCode::None, 0));
    response.producer_id
}

#[test]
fn acks_0_gets_no_answer_and_the_next_request_does() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        client.send(&produce_request("t", 0, &batch(&[b"a"]), 0), 7).await;
        let sent = client.send(&metadata::Request::default(), 1).await;
        let content = client.frame().await.expect("an answer");
        assert_eq!(
            content[..4],
            sent.to_be_bytes(),
            "the first answer is that of the metadata request"
        );
        assert_eq!(client.fetch("t", 0, 0).await.1, 1);
    });
}

#[test]
fn acks_0_to_a_partition_that_does_not_exist_closes_the_connection() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.send(&produce_request("nowhere", 0, &batch(&[b"a"]), 0), 7).await;
        assert!(client.is_closed().await);
    });
}

#[test]
fn other_acks_are_refused_by_name() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let body = client.call(&produce_request("t", 0, &batch(&[b"a"]), 2), 7).await;
        let response: produce::Response<'_> = decode(&body, 7);
        let answer = response.responses.first().unwrap().partition_responses.first().unwrap();
        assert_eq!(answer.error_code, ErrorCode::InvalidRequiredAcks);
    });
}

#[test]
fn versions_0_to_2_are_advertised_and_answered_with_unsupported_version() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        for version in 0..=2 {
            let body = client.call(&produce_request("t", 0, &batch(&[b"a"]), 1), version).await;
            let response: produce::Response<'_> = decode(&body, version);
            let answer = response.responses.first().unwrap().partition_responses.first().unwrap();
            assert_eq!(answer.error_code, ErrorCode::UnsupportedVersion);
        }
        assert_eq!(client.fetch("t", 0, 0).await.1, 0);
    });
}

#[test]
fn every_served_version_is_answered_in_its_own_form() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        for version in 3..=9 {
            for topic in ["t", "nowhere"] {
                let body =
                    client.call(&produce_request(topic, 0, &batch(&[b"a"]), -1), version).await;
                let response: produce::Response<'_> = decode(&body, version);
                let answer =
                    response.responses.first().unwrap().partition_responses.first().unwrap();
                let want =
                    if topic == "t" { ErrorCode::None } else { ErrorCode::UnknownTopicOrPartition };
                assert_eq!(answer.error_code, want, "version {version}");
            }
        }
    });
}

#[test]
fn damaged_batches_are_refused_and_stored_nowhere() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let good = batch(&[b"hello"]);
        let changed = |at: usize, to: u8| {
            let mut bad = good.clone();
            bad[at] = to;
            bad
        };
        let cases = [
            (changed(good.len() - 2, 0xee), ErrorCode::CorruptMessage),
            (changed(16, 1), ErrorCode::InvalidRecord),
            (changed(16, 3), ErrorCode::CorruptMessage),
            (good[..good.len() - 1].to_vec(), ErrorCode::InvalidRecord),
            ([good.clone(), good.clone()].concat(), ErrorCode::InvalidRecord),
            (Vec::new(), ErrorCode::InvalidRecord),
        ];
        for (bad, code) in cases {
            assert_eq!(client.produce("t", 0, &bad).await.0, code);
        }
        assert_eq!(client.fetch("t", 0, 0).await.1, 0);
    });
}

#[test]
fn producer_ids_are_unique_over_the_cores() {
    scenario(2, |rt| async move {
        let mut seen = std::collections::BTreeSet::new();
        for port in [9092, 10092, 10192] {
            let mut client = Client::connect_to(&rt, port).await;
            for _ in 0..3 {
                assert!(seen.insert(producer_id(&mut client).await));
            }
        }
    });
}

#[test]
fn a_transactional_id_gets_a_fatal_error_at_once() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let request =
            init_producer_id::Request { transactional_id: Some("tx"), ..Default::default() };
        let body = client.call(&request, 4).await;
        let response: init_producer_id::Response = decode(&body, 4);
        assert_eq!(response.error_code, ErrorCode::TransactionalIdAuthorizationFailed);
        assert!(!response.error_code.is_retriable());
        let request = find_coordinator::Request {
            key: "tx",
            key_type: find_coordinator::TRANSACTION,
            ..Default::default()
        };
        let body = client.call(&request, 2).await;
        let response: find_coordinator::Response<'_> = decode(&body, 2);
        assert_eq!(response.error_code, ErrorCode::TransactionalIdAuthorizationFailed);
    });
}

#[test]
fn a_request_on_the_wrong_core_is_forwarded_and_stays_in_order() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 2).await;
        for index in 0..2 {
            let right = client.leader_port("t", index).await;
            let wrong = if right == 10092 { 10192 } else { 10092 };
            let mut elsewhere = Client::connect_to(&rt, wrong).await;
            let batches: Vec<_> = (0..20u8).map(|i| batch(&[&[i]])).collect();
            for one in &batches {
                elsewhere.send(&produce_request("t", index, one, -1), 7).await;
            }
            for base in 0..20 {
                let content = elsewhere.frame().await.expect("an answer");
                let response: produce::Response<'_> = decode(&content[4..], 7);
                let answer =
                    response.responses.first().unwrap().partition_responses.first().unwrap();
                assert_eq!((answer.error_code, answer.base_offset), (ErrorCode::None, base));
            }
            let mut owner = Client::connect_to(&rt, right).await;
            let (_, end, here) = owner.fetch("t", index, 0).await;
            let (_, _, there) = elsewhere.fetch("t", index, 0).await;
            assert_eq!(end, 20);
            assert_eq!(here, there);
            assert!(!bytes(&rillway_wire::Records::Bytes(&here)).is_empty());
        }
    });
}
