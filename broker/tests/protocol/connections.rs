//! Pipelines are answered in order, and a stop ends what waits. (Connections that misbehave: `field::network`.)

use std::time::Duration;

use crate::client::{
    Client, batch, fetch_request, options, produce_request, scenario, scenario_with_stop,
};

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
