//! Storage faults, as clients see them. The simulator (`tools/sim`) has the same in any order of events, by seed, with an
//! oracle; these are the cases by name.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use rillway_io::sim::Faults;
use rillway_wire::ErrorCode;
use rillway_wire::api::list_offsets::LATEST;
use rillway_wire::api::offset_for_leader_epoch as epochs;
use rillway_wire::api::{metadata, offset_commit};

use super::{create_with, ends, list, produced, read, set, trim};
use crate::client::{Client, End, Lives, batch, decode, fetch_request, options, produce_request};
use crate::group_client::{commit, committed};

/// The broker's offsets of records that were acknowledged to a producer of `t`, one record each.
type Acknowledged = Rc<RefCell<Vec<i64>>>;

/// Produces records that say their number until the connection ends.
async fn produce_on(client: &mut Client, index: i32, acknowledged: &Acknowledged) {
    for n in 0..400i64 {
        let one = batch(&[&n.to_be_bytes(), &[7; 3_000]]);
        let Some(content) = client.try_call(&produce_request("t", index, &one, -1), 7).await else {
            return;
        };
        let (code, base) = produced(&content[4..], 7)[0];
        if code == ErrorCode::None {
            acknowledged.borrow_mut().push(base);
        }
    }
}

/// store-1: a flush or a write that fails once, and then succeeds again: nothing that depended on it is acknowledged,
/// the broker stops loudly, and a restart has all that was acknowledged.
#[test]
fn after_a_failed_flush_or_write_nothing_is_acknowledged_that_a_restart_does_not_have() {
    type Fault = fn(u64) -> Faults;
    let kinds: [(&str, Fault); 4] = [
        ("flush", |n| Faults { eio_on_flush: Some(n), ..Default::default() }),
        ("write", |n| Faults { eio_on_write: Some(n), ..Default::default() }),
        ("short write", |n| Faults { short_write: Some(n), ..Default::default() }),
        ("syncfs", |n| Faults { eio_on_syncfs: Some(n.div_ceil(40)), ..Default::default() }),
    ];
    for (kind, fault) in kinds {
        let mut deaths = 0;
        for n in [1, 2, 3, 7, 20, 55, 120] {
            let mut options = options(1);
            options.store.undestaged_bytes = 4 << 20;
            let lives = Lives::new();
            lives.live(&options, End::Stop, |rt| async move {
                let mut client = Client::connect(&rt).await;
                client.create("t", 1).await;
            });
            let acknowledged = Acknowledged::default();
            let mine = Rc::clone(&acknowledged);
            let ready = Rc::new(Cell::new(false));
            let go = Rc::clone(&ready);
            let death = lives.broken(&options, fault(n), move |rt| async move {
                let mut client = Client::connect(&rt).await;
                go.set(true);
                produce_on(&mut client, 0, &mine).await;
                rt.sleep(Duration::from_secs(20)).await;
            });
            assert!(ready.get());
            if let Some(death) = death {
                deaths += 1;
                assert!(death.starts_with("fatal"), "an exit with a reason: {death}");
            }
            let mine = Rc::clone(&acknowledged);
            lives.live(&options, End::Stop, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                let (start, end) = ends(&mut client, ("t", 0)).await;
                assert_eq!(start, 0);
                let last = mine.borrow().last().copied();
                assert!(last.is_none_or(|l| l + 2 <= end), "{kind} {n}: {last:?} and {end}");
                let mut at = 0;
                while at < end {
                    for one in read(&client.fetch("t", 0, at).await.2) {
                        at = one.next;
                    }
                }
                assert_eq!(client.produce("t", 0, &batch(&[b"on"])).await, (ErrorCode::None, end));
            });
        }
        assert!(deaths > 0, "{kind}: the fault was met");
    }
}

/// store-1: a disk that is full refuses with a code that clients try again, serves readers meanwhile, and takes records
/// again when there is room, without a restart.
#[test]
fn a_full_disk_refuses_retriably_serves_readers_and_goes_on_when_there_is_room() {
    for cores in [1, 2] {
        let mut options = options(cores);
        options.store.undestaged_bytes = 4 << 20;
        options.shard.defaults.log.segment_bytes = 4 << 20;
        let lives = Rc::new(Lives::new());
        let disk = Rc::new(lives.world().disk("broker"));
        lives.live(&options, End::Stop, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 2).await;
            let large = batch(&[&vec![7; 500_000]]);
            assert_eq!(client.produce("t", 0, &large).await, (ErrorCode::None, 0));
            for round in 0..3 {
                disk.set_capacity(0);
                let (_, before) = ends(&mut client, ("t", 0)).await;
                let mut end = before;
                let mut refused = 0;
                for _ in 0..200 {
                    let (code, base) = client.produce("t", 0, &large).await;
                    if code == ErrorCode::None {
                        assert_eq!(base, end);
                        end += 1;
                    } else {
                        assert_eq!(code, ErrorCode::KafkaStorageError);
                        assert!(code.is_retriable());
                        refused += 1;
                        if refused > 5 {
                            break;
                        }
                    }
                }
                assert!(refused > 5, "round {round}: a disk without room takes no 100 MB");
                // Readers go on, from the first record and at the end.
                assert_eq!(client.fetch("t", 0, 0).await.0, ErrorCode::None);
                assert_eq!(client.fetch("t", 0, end).await.1, end);
                let new = create_with(&mut client, &format!("new{round}"), 8, &[]).await;
                assert!(new == ErrorCode::None || new == ErrorCode::KafkaStorageError, "{new:?}");
                disk.set_capacity(u64::MAX >> 1);
                let mut code = ErrorCode::KafkaStorageError;
                for _ in 0..100 {
                    (code, _) = client.produce("t", 0, &large).await;
                    if code == ErrorCode::None {
                        break;
                    }
                    assert_eq!(code, ErrorCode::KafkaStorageError);
                    rt.sleep(Duration::from_millis(500)).await;
                }
                assert_eq!(code, ErrorCode::None, "round {round}: it goes on by itself");
                assert_eq!(ends(&mut client, ("t", 0)).await, (0, end + 1));
            }
        });
    }
}

/// store-2: whatever a consumer was shown is there after any crash, and an offset beyond the end is told.
#[test]
fn what_a_consumer_was_shown_is_there_after_any_crash_and_more_is_out_of_range() {
    for point in 0..120u64 {
        let end = if point % 2 == 0 { End::PowerCut } else { End::Kill };
        let cores = 1 + (point % 2) as usize;
        let (lives, options) = (Lives::new(), options(cores));
        let shown = Rc::new(Cell::new(0i64));
        let acknowledged = Acknowledged::default();
        let (saw, mine) = (Rc::clone(&shown), Rc::clone(&acknowledged));
        lives.live(&options, end, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 1).await;
            // acks=1 and acks=all in turn; the consumer is right behind.
            let mut producer = Client::connect(&rt).await;
            rt.spawn(rillway_io::Class::Control, async move {
                for n in 0..10_000i64 {
                    let one = batch(&[&n.to_be_bytes(), &[1; 300]]);
                    let acks = if n % 2 == 0 { 1 } else { -1 };
                    let Some(content) =
                        producer.try_call(&produce_request("t", 0, &one, acks), 7).await
                    else {
                        return;
                    };
                    let (code, base) = produced(&content[4..], 7)[0];
                    assert_eq!(code, ErrorCode::None);
                    mine.borrow_mut().push(base);
                }
            })
            .detach();
            let mut consumer = Client::connect(&rt).await;
            rt.spawn(rillway_io::Class::Control, async move {
                loop {
                    let at = saw.get();
                    let request = fetch_request(&[("t", 0, at, 1 << 20)], 1 << 20, 1, 100);
                    let Some(content) = consumer.try_call(&request, 11).await else { return };
                    let got = &super::got(&content[4..], 11)[0];
                    for one in read(&got.records) {
                        saw.set(one.next);
                    }
                }
            })
            .detach();
            rt.sleep(Duration::from_micros(3_000 + 531 * point)).await;
        });
        let (shown, acknowledged) = (shown.get(), acknowledged.borrow().clone());
        lives.live(&options, End::Stop, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            let (_, end) = ends(&mut client, ("t", 0)).await;
            assert!(shown <= end, "point {point}: shown {shown}, the end is {end}");
            assert!(acknowledged.last().is_none_or(|base| base + 2 <= end), "point {point}");
            assert_eq!(client.fetch("t", 0, shown).await.0, ErrorCode::None);
            assert_eq!(client.fetch("t", 0, end).await.0, ErrorCode::None);
            assert_eq!(client.fetch("t", 0, end + 1).await.0, ErrorCode::OffsetOutOfRange);
            assert_eq!(list(&mut client, ("t", 0), LATEST, 1).await, (ErrorCode::None, end, -1));
        });
    }
}

/// store-2: what a consumer commits right behind its producers is never beyond what a crash leaves.
#[test]
fn a_committed_offset_is_never_beyond_the_end_after_a_crash() {
    for point in 0..60u64 {
        let end = if point % 3 == 0 { End::Kill } else { End::PowerCut };
        let (lives, options) = (Lives::new(), options(1 + (point % 2) as usize));
        let acknowledged = Rc::new(Cell::new(-1i64));
        let mine = Rc::clone(&acknowledged);
        lives.live(&options, end, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 1).await;
            // Its group and the topic of offsets are there before the race begins.
            let codes = commit(&mut client, ("g", "", -1), &[("t", 0, 0, None)], 8).await;
            if codes == [ErrorCode::None] {
                mine.set(0);
            }
            let mut producer = Client::connect(&rt).await;
            rt.spawn(rillway_io::Class::Control, async move {
                for n in 0..10_000i64 {
                    let one = batch(&[&n.to_be_bytes(), &[1; 300]]);
                    let acks = if n % 2 == 0 { 1 } else { -1 };
                    let request = produce_request("t", 0, &one, acks);
                    if producer.try_call(&request, 7).await.is_none() {
                        return;
                    }
                }
            })
            .detach();
            let mut consumer = Client::connect(&rt).await;
            rt.spawn(rillway_io::Class::Control, async move {
                let mut at = 0;
                loop {
                    let request = fetch_request(&[("t", 0, at, 1 << 20)], 1 << 20, 1, 100);
                    let Some(content) = consumer.try_call(&request, 11).await else { return };
                    for one in read(&super::got(&content[4..], 11)[0].records) {
                        at = one.next;
                    }
                    let partition =
                        offset_commit::Partition { committed_offset: at, ..Default::default() };
                    let topic = offset_commit::Topic {
                        name: "t",
                        partitions: vec![partition].into(),
                        ..Default::default()
                    };
                    let request = offset_commit::Request {
                        group_id: "g",
                        topics: vec![topic].into(),
                        ..Default::default()
                    };
                    let Some(content) = consumer.try_call(&request, 7).await else { return };
                    let answer: offset_commit::Response<'_> = decode(&content[4..], 7);
                    let partition = answer.topics.first().unwrap().partitions.first().unwrap();
                    if partition.error_code == ErrorCode::None {
                        mine.set(at);
                    }
                }
            })
            .detach();
            rt.sleep(Duration::from_micros(3_000 + 531 * point)).await;
        });
        let acknowledged = acknowledged.get();
        lives.live(&options, End::Stop, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            let (_, end) = ends(&mut client, ("t", 0)).await;
            let found = committed(&mut client, "g", "t", 0).await.0;
            assert!(found <= end, "point {point}: committed {found}, the end is {end}");
            assert!(found >= acknowledged, "point {point}: {found}, acknowledged {acknowledged}");
            assert_eq!(client.fetch("t", 0, found.max(0)).await.0, ErrorCode::None);
        });
    }
}

async fn epoch_end(client: &mut Client, epoch: i32) -> (i32, i64) {
    let partition =
        epochs::Partition { partition: 0, current_leader_epoch: -1, leader_epoch: epoch };
    let topic = epochs::Topic { topic: "t", partitions: vec![partition].into() };
    let request = epochs::Request { replica_id: -1, topics: vec![topic].into() };
    let body = client.call(&request, 4).await;
    let response: epochs::Response<'_> = decode(&body, 4);
    let p = response.topics.first().unwrap().partitions.first().unwrap();
    assert_eq!(p.error_code, ErrorCode::None);
    (p.leader_epoch, p.end_offset)
}

/// store-3: epochs whose records DeleteRecords took end at the log's start, also when it begins within their batch.
#[test]
fn epochs_before_a_head_trimmed_by_delete_records_end_at_the_log_start() {
    for end in crate::client::ENDS {
        let (lives, options) = (Lives::new(), options(1));
        for life in 0..4i64 {
            lives.live(&options, end, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                if life == 0 {
                    client.create("t", 1).await;
                }
                assert_eq!(client.produce("t", 0, &batch(&[b"a", b"b"])).await.1, 2 * life);
            });
        }
        lives.live(&options, end, |rt| async move {
            let mut client = Client::connect(&rt).await;
            // Within the batch of epoch 2.
            assert_eq!(trim(&mut client, ("t", 0), 5).await, (ErrorCode::None, 5));
        });
        lives.live(&options, End::Stop, |rt| async move {
            let mut client = Client::connect(&rt).await;
            assert_eq!(ends(&mut client, ("t", 0)).await, (5, 8));
            for gone in 0..2 {
                let (known, at) = epoch_end(&mut client, gone).await;
                assert!(known <= gone && at == 5, "epoch {gone}: {known}, {at}");
            }
            assert_eq!(epoch_end(&mut client, 2).await, (2, 6));
            assert_eq!(epoch_end(&mut client, 3).await, (3, 8));
            // Nothing was written in the epoch after it, so this life has the same number.
            assert_eq!(epoch_end(&mut client, 4).await, (4, 8));
            assert_eq!(epoch_end(&mut client, 5).await, (-1, -1));
        });
    }
}

/// store-3: over ten restarts of every kind, no epoch's end lies below what was written in it, the leader is known at
/// once, and epochs that retention took end at the log's start.
#[test]
fn over_ten_restarts_epochs_fit_together_and_those_that_are_gone_end_at_the_log_start() {
    for how in [[End::Stop; 3], [End::Kill; 3], [End::PowerCut; 3], crate::client::ENDS] {
        let mut options = options(1);
        options.shard.retention_check_interval = Duration::from_secs(1);
        let lives = Lives::new();
        for life in 0..10i32 {
            lives.live(&options, how[life as usize % 3], move |rt| async move {
                let mut client = Client::connect(&rt).await;
                if life == 0 {
                    let configs = [("retention.ms", "-1"), ("segment.ms", "1000")];
                    assert_eq!(create_with(&mut client, "t", 1, &configs).await, ErrorCode::None);
                }
                let asked = metadata::TopicRequest { name: Some("t"), ..Default::default() };
                let request =
                    metadata::Request { topics: Some(vec![asked].into()), ..Default::default() };
                let body = client.call(&request, 9).await;
                let response: metadata::Response<'_> = decode(&body, 9);
                let p = response.topics.first().unwrap().partitions.first().unwrap();
                assert_eq!((p.error_code, p.leader_epoch), (ErrorCode::None, life));
                assert!(p.leader_id >= 0);
                assert_eq!(
                    client.produce("t", 0, &batch(&[b"a", b"b"])).await.1,
                    2 * i64::from(life)
                );
                for epoch in 0..=life {
                    assert_eq!(
                        epoch_end(&mut client, epoch).await,
                        (epoch, 2 * i64::from(epoch) + 2)
                    );
                }
                assert_eq!(epoch_end(&mut client, life + 1).await, (-1, -1));
            });
        }
        lives.live(&options, End::Stop, |rt| async move {
            let mut client = Client::connect(&rt).await;
            // All of it is of 1970.
            set(&mut client, "t", "retention.ms", "1000").await;
            while ends(&mut client, ("t", 0)).await.0 < 20 {
                rt.sleep(Duration::from_secs(1)).await;
            }
            set(&mut client, "t", "retention.ms", "-1").await;
            assert_eq!(client.produce("t", 0, &batch(&[b"c"])).await, (ErrorCode::None, 20));
            for epoch in 0..10 {
                let (known, end) = epoch_end(&mut client, epoch).await;
                assert!(known <= epoch && end == 20, "epoch {epoch}: {known}, {end}");
            }
            assert_eq!(epoch_end(&mut client, 10).await, (10, 21));
            assert_eq!(epoch_end(&mut client, 11).await, (-1, -1));
        });
    }
}
