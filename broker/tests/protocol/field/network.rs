//! Garbage, silence, idleness, and clients that die.

use std::time::Duration;

use rillway_wire::api::{api_versions, create_topics, list_offsets, metadata, produce};
use rillway_wire::{ErrorCode, RequestMessage};

use super::ends;
use crate::client::{
    Client, End, Lives, batch, fetch_request, options, produce_request, scenario, scenario_with,
    scenario_with_stop,
};
use crate::group_client::Member;

fn framed(content: &[u8]) -> Vec<u8> {
    [&(content.len() as i32).to_be_bytes(), content].concat()
}

/// net-1: what is no Kafka request ends its connection at once, and a good client beside it gets every answer.
#[test]
fn what_is_no_request_closes_its_connection_and_a_good_client_gets_every_answer() {
    scenario(1, |rt| async move {
        let mut good = Client::connect(&rt).await;
        good.create("t", 1).await;
        let size = |n: i32| n.to_be_bytes().to_vec();
        let mut bad = vec![
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
            b"POST /topics HTTP/1.0\r\n\r\n".to_vec(),
            vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0, 0, 0, 0],
            b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
            size(0),
            size(1),
            size(-1),
            size(i32::MIN),
            size(i32::MAX),
            size((100 << 20) + 1),
        ];
        // A size of seven and less cannot hold a header, whatever it is.
        bad.extend((1..8).map(|n| framed(&vec![0; n])));
        for n in 0..200u64 {
            let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63;
            let random = (0..64).map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                x as u8
            });
            // The first bit is set: a negative size, whatever follows.
            bad.push([0x80].into_iter().chain(random).collect());
        }
        for (next, bytes) in (0i64..).zip(&bad) {
            let mut client = Client::connect(&rt).await;
            let before = rt.now();
            client.raw(bytes).await;
            if bytes.len() == 4 && bytes[..] == size(1) {
                // One byte is awaited, and nothing is taken for it.
                client.raw(&[0]).await;
            }
            assert!(client.is_closed().await, "{bytes:?}");
            assert!(rt.now() - before < Duration::from_secs(1), "at once: {bytes:?}");
            assert_eq!(good.produce("t", 0, &batch(&[b"x"])).await, (ErrorCode::None, next));
        }
    });
}

/// Requests of several shapes, with their sizes in front.
fn samples() -> Vec<Vec<u8>> {
    fn frame<'a>(request: &impl RequestMessage<'a>, version: i16) -> Vec<u8> {
        request.request_frame(version, 9, Some("test")).into_bytes().expect("no holes")
    }
    let one = batch(&[b"value"]);
    let topic = create_topics::Topic {
        name: "new",
        num_partitions: 1,
        replication_factor: 1,
        configs: vec![create_topics::Config { name: "retention.ms", value: Some("5") }].into(),
        ..Default::default()
    };
    let create = create_topics::Request { topics: vec![topic].into(), ..Default::default() };
    let at = list_offsets::Partition { timestamp: -1, ..Default::default() };
    let at = list_offsets::Topic { name: "t", partitions: vec![at].into() };
    let list =
        list_offsets::Request { replica_id: -1, topics: vec![at].into(), ..Default::default() };
    let named = metadata::TopicRequest { name: Some("t"), ..Default::default() };
    let named = metadata::Request { topics: Some(vec![named].into()), ..Default::default() };
    let versions =
        api_versions::Request { client_software_name: "a", client_software_version: "1" };
    let produce: produce::Request<'_> = produce_request("t", 0, &one, -1);
    vec![
        frame(&produce, 7),
        frame(&produce, 9),
        frame(&fetch_request(&[("t", 0, 0, 100)], 100, 0, 0), 4),
        frame(&fetch_request(&[("t", 0, 0, 100)], 100, 0, 0), 12),
        frame(&list, 1),
        frame(&list, 7),
        frame(&named, 1),
        frame(&named, 12),
        frame(&create, 2),
        frame(&create, 7),
        frame(&versions, 3),
    ]
}

/// net-1: lengths and counts inside a request that claim more than there is, and requests that end too early: an answer
/// or a closed connection, never a wait, never harm to others.
#[test]
fn every_byte_of_a_request_may_be_wrong_or_the_last_without_harm_to_others() {
    scenario(1, |rt| async move {
        let mut good = Client::connect(&rt).await;
        good.create("t", 1).await;
        let mut closed = 0;
        let mut all = Vec::new();
        for frame in samples() {
            let content = &frame[4..];
            // Cut off behind each byte, with a size that fits.
            all.extend((1..content.len()).map(|n| content[..n].to_vec()));
            // Each byte behind the version and the correlation id as large and as negative as it can be.
            for at in 8..content.len() {
                for value in [0xff, 0x7f, 0x80] {
                    let mut changed = content.to_vec();
                    changed[at] = value;
                    all.push(changed);
                }
                if at + 4 <= content.len() {
                    let mut changed = content.to_vec();
                    changed[at..at + 4].copy_from_slice(&i32::MAX.to_be_bytes());
                    all.push(changed);
                }
            }
            // And more bytes than the request has.
            all.push([content, &[0; 3]].concat());
        }
        let count = all.len();
        for content in all {
            let mut client = Client::connect(&rt).await;
            client.raw(&framed(&content)).await;
            // A good request behind it: an answer to the first, or the end of the connection. (A produce whose acks
            // became 0 has no answer of its own, a fetch that waits for a day has none in time.)
            let request =
                metadata::Request { topics: Some(Vec::new().into()), ..Default::default() };
            if rt.timeout(Duration::from_millis(300), client.send(&request, 1)).await.is_none() {
                continue;
            }
            if let Some(None) = rt.timeout(Duration::from_millis(300), client.frame()).await {
                closed += 1;
            }
        }
        assert!(closed > count / 3, "{closed} of {count}");
        let (start, end) = ends(&mut good, ("t", 0)).await;
        assert_eq!(good.produce("t", 0, &batch(&[b"x"])).await, (ErrorCode::None, end));
        assert_eq!(start, 0);
    });
}

/// net-1: half requests and claims of 100 MB end by the limit of progress, however many there are, and take none of the
/// memory that large requests share.
#[test]
fn a_thousand_half_requests_claim_no_memory_and_end_by_the_limit_of_progress() {
    let mut settings = options(1);
    // Room for one request of a megabyte: a claim that reserved any of it would keep the good ones out.
    settings.limits.request_memory = 1 << 20;
    settings.limits.request_bytes_max = 100 << 20;
    scenario_with(settings, |rt| async move {
        let mut good = Client::connect(&rt).await;
        good.create("t", 1).await;
        let mut half = Vec::new();
        for n in 0..1_000 {
            let client = Client::connect(&rt).await;
            let claim: i32 = if n % 2 == 0 { 100 << 20 } else { 50 };
            let begun = [&claim.to_be_bytes()[..], &[0, 3, 0]].concat();
            client.raw(&begun[..4 + n % 4]).await;
            half.push(client);
        }
        for n in 0..5 {
            let large = batch(&[&vec![7; 900_000]]);
            assert_eq!(good.produce("t", 0, &large).await, (ErrorCode::None, n));
        }
        for client in &mut half {
            assert!(client.is_closed().await);
        }
        assert_eq!(good.fetch("t", 0, 5).await.0, ErrorCode::None);
    });
}

/// net-2: only who has nothing pending is closed, not before the limit, with a FIN; and the next write is not lost.
#[test]
fn only_connections_with_nothing_pending_are_closed_and_not_before_the_limit() {
    let idle = Duration::from_secs(2);
    let mut settings = options(1);
    settings.limits.idle = idle;
    scenario_with(settings, move |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let large = batch(&[&vec![7; 900_000]]);
        for n in 0..20 {
            assert_eq!(client.produce("t", 0, &large).await, (ErrorCode::None, n));
        }
        let mut waiting = Client::connect(&rt).await;
        waiting.send(&fetch_request(&[("t", 0, 20, 100)], 100, 1, 10_000), 11).await;
        // Twenty megabytes on their way to one that takes a piece now and then.
        let mut slow = Client::connect(&rt).await;
        slow.send(&fetch_request(&[("t", 0, 0, 1 << 25)], 1 << 25, 1, 0), 11).await;
        let mut punctual = Client::connect(&rt).await;
        for _ in 0..10 {
            rt.sleep(idle - Duration::from_millis(10)).await;
            punctual.call(&api_versions::Request::default(), 0).await;
        }
        let content = slow.frame().await.expect("all of it after twenty seconds");
        assert!(content.len() > 15_000_000);
        waiting.frame().await.expect("the wait was answered");
        for mut quiet in [Client::connect(&rt).await, client, punctual] {
            // The first has never asked for anything, the others were idle meanwhile.
            let before = rt.now();
            assert!(quiet.is_closed().await);
            assert!(rt.now() - before < idle * 2);
        }
        let mut quiet = Client::connect(&rt).await;
        quiet.call(&api_versions::Request::default(), 0).await;
        let before = rt.now();
        assert!(quiet.is_closed().await);
        let lasted = rt.now() - before;
        assert!(lasted >= idle && lasted < idle + idle / 4, "{lasted:?}");
        // What a producer sends after a close goes over a new connection, with its first offset.
        let mut again = Client::connect(&rt).await;
        assert_eq!(again.produce("t", 0, &batch(&[b"next"])).await, (ErrorCode::None, 20));
    });
}

/// net-2: a member that waits in JoinGroup for longer than the limit waits on, and is answered.
#[test]
fn a_member_that_waits_for_its_group_longer_than_the_limit_is_not_closed() {
    let mut settings = options(2);
    settings.limits.idle = Duration::from_secs(2);
    scenario_with(settings, |rt| async move {
        Client::connect(&rt).await.create("t", 1).await;
        let mut first = Member::connect(&rt, "g").await;
        first.settle().await;
        let mut second = Member::connect(&rt, "g").await;
        assert_eq!(second.join_once(7).await.code, ErrorCode::MemberIdRequired);
        second.send_join(7).await;
        // The first is told to join, and takes fifteen of its twenty seconds for it.
        while first.heartbeat().await != ErrorCode::RebalanceInProgress {
            rt.sleep(Duration::from_millis(50)).await;
        }
        for _ in 0..15 {
            rt.sleep(Duration::from_secs(1)).await;
            assert_eq!(first.heartbeat().await, ErrorCode::RebalanceInProgress);
        }
        let led = first.join(7).await;
        assert_eq!((led.code, led.members.len()), (ErrorCode::None, 2));
        assert_eq!(second.joined(7).await.generation, led.generation);
        // And in SyncGroup, until the leader has decided.
        second.send_sync(&[], 5).await;
        for _ in 0..5 {
            rt.sleep(Duration::from_secs(1)).await;
            assert_eq!(first.heartbeat().await, ErrorCode::None);
        }
        assert_eq!(first.sync(&led.members, 5).await.0, ErrorCode::None);
        assert_eq!(second.synced(5).await, (ErrorCode::None, second.id.clone().into_bytes()));
    });
}

/// net-3: members that die in the middle of a join free their places, and the group goes on.
#[test]
fn members_that_die_in_a_join_free_their_places() {
    let mut settings = options(2);
    settings.limits.connections_max = 300;
    scenario_with(settings, |rt| async move {
        Client::connect(&rt).await.create("t", 1).await;
        Member::connect(&rt, "warm").await.settle().await;
        for round in 0..5 {
            let mut dying = Vec::new();
            for n in 0..250 {
                let mut member = Member::connect(&rt, &format!("g{}", n % 10)).await;
                assert_eq!(member.join_once(7).await.code, ErrorCode::MemberIdRequired);
                member.send_join(7).await;
                dying.push(member);
            }
            rt.sleep(Duration::from_millis(100)).await;
            drop(dying);
            rt.sleep(Duration::from_secs(1)).await;
            let mut alive = Member::connect(&rt, &format!("alive{round}")).await;
            alive.settle().await;
        }
        // Their sessions and the rebalances they waited for are over: who comes now is alone.
        rt.sleep(Duration::from_secs(60)).await;
        for n in 0..10 {
            let mut member = Member::connect(&rt, &format!("g{n}")).await;
            member.settle().await;
        }
    });
}

/// net-3: clients that die with parked fetches and unread answers leave nothing behind: their places are free again.
#[test]
fn clients_that_die_with_parked_fetches_and_unread_answers_free_their_places() {
    let mut settings = options(2);
    settings.limits.connections_max = 300;
    scenario_with_stop(settings, |rt, stop| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 2).await;
        client.produce("t", 0, &batch(&[&vec![7; 900_000]])).await;
        for _ in 0..10 {
            let mut dying = Vec::new();
            // Of 299 places; the accepting core may still be closing those of the round before.
            for n in 0..280 {
                let mut one = Client::connect(&rt).await;
                match n % 3 {
                    0 => one.send(&fetch_request(&[("t", 1, 0, 99)], 99, 1, 600_000), 11).await,
                    1 => one.send(&fetch_request(&[("t", 0, 0, 1 << 20)], 1 << 20, 1, 0), 11).await,
                    _ => {
                        one.raw(&[0, 0, 0]).await;
                        0
                    }
                };
                dying.push(one);
            }
            rt.sleep(Duration::from_millis(100)).await;
            drop(dying);
            rt.sleep(Duration::from_secs(1)).await;
        }
        assert!(stop.transfers().iter().all(|t| t.in_use() == 0));
        let mut again = Vec::new();
        for _ in 0..298 {
            let mut one = Client::connect(&rt).await;
            one.call(&api_versions::Request::default(), 0).await;
            again.push(one);
        }
        client.call(&api_versions::Request::default(), 0).await;
    });
}

/// net-3: a stop with five hundred parked fetches, a slow reader and a full pipeline answers what was accepted, ends
/// within seconds, and everything acknowledged is there after it.
#[test]
fn a_stop_under_load_ends_within_seconds_and_keeps_all_that_was_acknowledged() {
    let lives = Lives::new();
    let mut settings = options(2);
    settings.limits.in_flight_max = 64;
    let acknowledged = std::rc::Rc::new(std::cell::Cell::new(0));
    let told = std::rc::Rc::clone(&acknowledged);
    lives.live(&settings, End::Stop, move |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 2).await;
        client.produce("t", 1, &batch(&[&vec![7; 900_000]])).await;
        let mut parked = Vec::new();
        for n in 0..500 {
            let mut one = Client::connect_to(&rt, [9_092, 10_092, 10_192][n % 3]).await;
            one.send(&fetch_request(&[("t", 1, 1, 99)], 99, 1, i32::MAX), 11).await;
            parked.push(one);
        }
        let mut deaf = Client::connect(&rt).await;
        for _ in 0..60 {
            deaf.send(&fetch_request(&[("t", 1, 0, 1 << 20)], 1 << 20, 1, 0), 11).await;
        }
        let one = batch(&[b"x"]);
        for _ in 0..64 {
            client.send(&produce_request("t", 0, &one, -1), 7).await;
        }
        // Their answers are on the way when the stop comes; all that are read count.
        rt.spawn(rillway_io::Class::Control, async move {
            let (_parked, _deaf) = (parked, deaf);
            while client.frame().await.is_some() {
                told.set(told.get() + 1);
            }
        })
        .detach();
        rt.sleep(Duration::from_millis(200)).await;
    });
    assert!(acknowledged.get() > 0);
    lives.live(&settings, End::Stop, move |rt| async move {
        let mut client = Client::connect(&rt).await;
        let (_, end) = ends(&mut client, ("t", 0)).await;
        assert!(end >= acknowledged.get(), "{end} of {}", acknowledged.get());
    });
}
