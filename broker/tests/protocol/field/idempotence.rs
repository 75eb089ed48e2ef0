//! Idempotent producers that rest, and that lose one of many.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use rillway_wire::ErrorCode;

use super::{create_with, ends, produced, producer_id, sequenced, set, trim};
use crate::client::{Client, ENDS, End, Lives, options, produce_request, scenario};

const T: (&str, i32) = ("t", 0);

/// Whether a producer's records are there while it rests.
#[derive(Clone, Copy)]
enum Removed {
    No,
    ByRetention,
    ByDeleteRecords,
}

/// idemp-1: after the expiry any first sequence is taken; within it the state outlives the records and restarts.
#[test]
fn a_producer_that_rested_longer_than_the_expiry_goes_on_and_before_that_duplicates_are_found() {
    for end in ENDS {
        for removed in [Removed::No, Removed::ByRetention, Removed::ByDeleteRecords] {
            let mut options = options(1);
            options.store.producer_expiration_ms = 60_000;
            options.shard.retention_check_interval = Duration::from_secs(2);
            let lives = Lives::new();
            let id = Rc::new(Cell::new(-1));
            let mine = Rc::clone(&id);
            lives.live(&options, end, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                let configs = [("retention.ms", "-1")];
                assert_eq!(create_with(&mut client, "t", 1, &configs).await, ErrorCode::None);
                mine.set(producer_id(&mut client).await);
                for n in 0..10 {
                    let want = (ErrorCode::None, i64::from(n));
                    assert_eq!(client.produce("t", 0, &sequenced(mine.get(), n, 1)).await, want);
                }
                match removed {
                    Removed::No => {}
                    Removed::ByRetention => {
                        // The records are of 1970.
                        set(&mut client, "t", "retention.ms", "1000").await;
                        while ends(&mut client, T).await.0 < 10 {
                            rt.sleep(Duration::from_millis(500)).await;
                        }
                        set(&mut client, "t", "retention.ms", "-1").await;
                    }
                    Removed::ByDeleteRecords => {
                        assert_eq!(trim(&mut client, T, -1).await, (ErrorCode::None, 10));
                        assert_eq!(ends(&mut client, T).await, (10, 10));
                    }
                }
                let last = sequenced(mine.get(), 9, 1);
                assert_eq!(client.produce("t", 0, &last).await, (ErrorCode::None, 9), "a retry");
            });
            let mine = Rc::clone(&id);
            lives.live(&options, end, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                // Within the expiry: known, with and without its records.
                let last = sequenced(mine.get(), 9, 1);
                assert_eq!(client.produce("t", 0, &last).await, (ErrorCode::None, 9), "a retry");
                let gap = client.produce("t", 0, &sequenced(mine.get(), 12, 1)).await.0;
                assert_eq!(gap, ErrorCode::OutOfOrderSequenceNumber);
                assert_eq!(ends(&mut client, T).await.1, 10);
                rt.sleep(Duration::from_secs(90)).await;
                let next = client.produce("t", 0, &sequenced(mine.get(), 10, 1)).await;
                assert_eq!(next, (ErrorCode::None, 10), "the next one, after the expiry");
            });
            lives.live(&options, End::Stop, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                let again = client.produce("t", 0, &sequenced(id.get(), 10, 1)).await;
                assert_eq!(again, (ErrorCode::None, 10), "found over the restart");
                // Forgotten while the broker was idle: a first sequence that nobody expected.
                rt.sleep(Duration::from_secs(90)).await;
                let any = client.produce("t", 0, &sequenced(id.get(), 77, 2)).await;
                assert_eq!(any, (ErrorCode::None, 11));
                let next = client.produce("t", 0, &sequenced(id.get(), 79, 1)).await;
                assert_eq!(next, (ErrorCode::None, 13));
            });
        }
    }
}

/// Sends all of them before it reads an answer.
async fn pipelined(
    client: &mut Client,
    of: (&str, i32),
    batches: &[Vec<u8>],
) -> Vec<(ErrorCode, i64)> {
    for one in batches {
        client.send(&produce_request(of.0, of.1, one, -1), 7).await;
    }
    let mut out = Vec::new();
    for _ in batches {
        let content = client.frame().await.expect("an answer");
        out.push(produced(&content[4..], 7)[0]);
    }
    out
}

/// idemp-2: behind a gap nothing is stored, until what is missing comes; the other partition does not notice.
#[test]
fn what_is_in_flight_behind_a_refused_or_lost_batch_is_refused_until_it_comes() {
    // How many are sent, of how many records, and which of them fails: because it is too large, or never arrives.
    for cores in [1, 2] {
        for (sent, count) in [(5, 1), (5, 3), (9, 1)] {
            for failed in [0, 1, sent - 1] {
                for lost in [false, true] {
                    scenario(cores, move |rt| async move {
                        let mut client = Client::connect(&rt).await;
                        let configs = [("max.message.bytes", "400")];
                        let created = create_with(&mut client, "t", 2, &configs).await;
                        assert_eq!(created, ErrorCode::None);
                        let id = producer_id(&mut client).await;
                        // One that the broker knows: a producer without state may begin anywhere.
                        let first = client.produce("t", 0, &sequenced(id, 0, 1)).await;
                        assert_eq!(first, (ErrorCode::None, 0));
                        let all: Vec<_> =
                            (0..sent).map(|n| sequenced(id, 1 + n * count, count)).collect();
                        let mut trouble = all.clone();
                        if lost {
                            trouble.remove(failed as usize);
                        } else {
                            trouble[failed as usize] = sequenced(id, 1 + failed * count, 100);
                        }
                        let got = pipelined(&mut client, T, &trouble).await;
                        for (n, (code, base)) in got.iter().enumerate() {
                            let n = n as i32;
                            let want = match n.cmp(&failed) {
                                std::cmp::Ordering::Less => {
                                    (ErrorCode::None, i64::from(1 + n * count))
                                }
                                std::cmp::Ordering::Equal if !lost => {
                                    (ErrorCode::MessageTooLarge, -1)
                                }
                                _ => (ErrorCode::OutOfOrderSequenceNumber, -1),
                            };
                            assert_eq!((*code, *base), want, "{n} of {sent}");
                        }
                        let end = i64::from(1 + failed * count);
                        assert_eq!(ends(&mut client, T).await.1, end);
                        // The other partition has sequences of its own.
                        let other = pipelined(&mut client, ("t", 1), &all).await;
                        assert!(other.iter().all(|(code, _)| *code == ErrorCode::None));
                        // All again, over another connection: each has the one offset that it must have.
                        let mut again = Client::connect(&rt).await;
                        for _ in 0..2 {
                            // Five batches are remembered, as in Kafka.
                            let from = all.len().saturating_sub(5).min(failed as usize);
                            let got = pipelined(&mut again, T, &all[from..]).await;
                            for (n, answer) in got.iter().enumerate() {
                                let base = i64::from(1 + (from + n) as i32 * count);
                                let forgotten = ErrorCode::OutOfOrderSequenceNumber;
                                let duplicate = ErrorCode::DuplicateSequenceNumber;
                                assert!(
                                    *answer == (ErrorCode::None, base)
                                        || (sent > 5 && [forgotten, duplicate].contains(&answer.0)),
                                    "{answer:?}, {n} of {sent}"
                                );
                            }
                        }
                        assert_eq!(ends(&mut client, T).await.1, i64::from(1 + sent * count));
                        let gap = sequenced(id, 3 + sent * count, 1);
                        assert_eq!(
                            again.produce("t", 0, &gap).await.0,
                            ErrorCode::OutOfOrderSequenceNumber
                        );
                        assert_eq!(ends(&mut client, T).await.1, i64::from(1 + sent * count));
                    });
                }
            }
        }
    }
}
