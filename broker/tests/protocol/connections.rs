//! Connections that misbehave end; others do not notice. Pipelines are answered in order.

use std::time::Duration;

use rillway_wire::api::{api_versions, fetch, metadata};

use crate::client::{
    Client, batch, decode, fetch_request, options, produce_request, scenario, scenario_with,
    scenario_with_stop,
};

#[test]
fn garbage_closes_the_connection_at_once() {
    scenario(1, |rt| async move {
        let http = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec();
        let tls = vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0, 0, 0, 0];
        let negative = (-1i32).to_be_bytes().to_vec();
        let huge = i32::MAX.to_be_bytes().to_vec();
        let above_limit = ((100 << 20) + 1i32).to_be_bytes().to_vec();
        let empty = 0i32.to_be_bytes().to_vec();
        let too_short = [3i32.to_be_bytes().to_vec(), vec![0, 3, 0]].concat();
        for bytes in [http, tls, negative, huge, above_limit, empty, too_short] {
            let mut client = Client::connect(&rt).await;
            client.raw(&bytes).await;
            assert!(client.is_closed().await, "{bytes:?}");
        }
        Client::connect(&rt).await.call(&api_versions::Request::default(), 0).await;
    });
}

#[test]
fn an_array_that_claims_more_than_the_frame_closes_the_connection() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        // Metadata version 1: correlation id, null client id, an array of 2^31 - 1 topics.
        let mut content = vec![0, 3, 0, 1, 0, 0, 0, 9, 0xff, 0xff];
        content.extend_from_slice(&i32::MAX.to_be_bytes());
        client.raw(&[(content.len() as i32).to_be_bytes().to_vec(), content].concat()).await;
        assert!(client.is_closed().await);
    });
}

#[test]
fn half_a_request_ends_by_the_limit_of_progress_and_holds_nobody_up() {
    scenario(1, |rt| async move {
        let mut half = Client::connect(&rt).await;
        half.raw(&[0, 0, 0, 50, 0, 3, 0]).await;
        let mut other = Client::connect(&rt).await;
        other.call(&metadata::Request::default(), 1).await;
        assert!(half.is_closed().await);
    });
}

#[test]
fn a_thousand_pipelined_requests_are_answered_in_order() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let one = batch(&[b"x"]);
        let (mut sent, mut next) = (Vec::new(), 0);
        for round in 0..10 {
            for _ in 0..100 {
                sent.push(client.send(&produce_request("t", 0, &one, -1), 7).await);
            }
            // Reads lag behind by a round, so that the broker holds back and goes on.
            let until = if round == 9 { sent.len() } else { sent.len() - 100 };
            while next < until {
                let content = client.frame().await.expect("an answer");
                assert_eq!(content[..4], sent[next].to_be_bytes());
                next += 1;
            }
        }
        assert_eq!(client.fetch("t", 0, 0).await.1, 1_000);
    });
}

#[test]
fn idle_connections_are_closed_and_waiting_ones_are_not() {
    let mut settings = options(1);
    settings.limits.idle = Duration::from_secs(2);
    scenario_with(settings, |rt| async move {
        let mut waiting = Client::connect(&rt).await;
        waiting.create("t", 1).await;
        waiting.send(&fetch_request(&[("t", 0, 0, 100)], 100, 1, 10_000), 4).await;
        let mut idle = Client::connect(&rt).await;
        let before = rt.now();
        assert!(idle.is_closed().await);
        assert!(rt.now() - before >= Duration::from_secs(2));
        let content = waiting.frame().await.expect("the wait ends with an answer");
        let _: fetch::Response<'_> = decode(&content[4..], 4);
    });
}

#[test]
fn a_stop_answers_parked_fetches_and_what_was_accepted_and_does_not_wait_for_them() {
    scenario_with_stop(options(2), |rt, stop| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 2).await;
        let mut parked = Vec::new();
        for port in [9092, 10092, 10192] {
            let mut waiting = Client::connect_to(&rt, port).await;
            let request = fetch_request(&[("t", 0, 0, 100), ("t", 1, 0, 100)], 100, 1, i32::MAX);
            waiting.send(&request, 4).await;
            parked.push(waiting);
        }
        let one = batch(&[b"x"]);
        let mut half = Client::connect(&rt).await;
        half.raw(&[0, 0, 0, 50, 0]).await;
        rt.sleep(Duration::from_millis(100)).await;
        for _ in 0..20 {
            client.send(&produce_request("t", 0, &one, -1), 7).await;
        }
        rt.sleep(Duration::from_millis(100)).await;
        let before = rt.now();
        stop.now();
        while stop.ended.get() < 2 {
            rt.sleep(Duration::from_millis(1)).await;
        }
        assert!(rt.now() - before < Duration::from_secs(5), "{:?}", rt.now() - before);
        for waiting in &mut parked {
            waiting.frame().await.expect("a parked fetch is answered");
            assert!(waiting.is_closed().await);
        }
        for _ in 0..20 {
            client.frame().await.expect("an accepted batch is answered");
        }
        assert!(client.is_closed().await && half.is_closed().await);
    });
}

#[test]
fn a_client_that_does_not_read_is_cut_off_by_a_stop_and_does_not_hold_it_up() {
    scenario_with_stop(options(1), |rt, stop| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let big = batch(&[&vec![7; 900_000]]);
        client.produce("t", 0, &big).await;
        let mut deaf = Client::connect(&rt).await;
        for _ in 0..20 {
            deaf.send(&fetch_request(&[("t", 0, 0, 1 << 20)], 1 << 20, 1, 0), 4).await;
        }
        rt.sleep(Duration::from_secs(1)).await;
        let before = rt.now();
        stop.now();
        while stop.ended.get() < 1 {
            rt.sleep(Duration::from_millis(10)).await;
        }
        assert!(rt.now() - before < Duration::from_secs(8), "{:?}", rt.now() - before);
    });
}
