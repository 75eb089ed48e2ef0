//! Looking offsets up by time, and what a client's header says of it.

use std::time::Duration;

use rillway_wire::ErrorCode;
use rillway_wire::api::list_offsets::{
    EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, MAX_TIMESTAMP, Partition, Request, Response,
    Topic,
};
use rillway_wire::batch::Codec;

use super::{CODECS, claiming, create_with, ends, list, read, set, timed, trim};
use crate::client::{Client, ENDS, End, Lives, decode, options, scenario, scenario_with};

const T: (&str, i32) = ("t", 0);

/// offsets-1: a largest timestamp that is unset, or below the first, is the records' own, and the checksum fits.
#[test]
fn a_largest_timestamp_that_is_unset_or_too_low_is_taken_from_the_records() {
    for end in ENDS {
        let (lives, options) = (Lives::new(), options(1));
        let claims = [-1, 0, 4_999, i64::MIN];
        lives.live(&options, end, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 1).await;
            for codec in CODECS {
                for claim in claims {
                    let bytes = claiming(timed(codec, &[5_000, 9_000, 7_000]), claim);
                    assert_eq!(client.produce("t", 0, &bytes).await.0, ErrorCode::None);
                }
            }
            client.produce("t", 0, &timed(Codec::None, &[20_000])).await;
        });
        let batches = 3 * (CODECS.len() * claims.len()) as i64;
        lives.live(&options, End::Stop, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            let (_, _, records) = client.fetch("t", 0, 0).await;
            for one in read(&records).iter().take(CODECS.len() * claims.len()) {
                assert_eq!(one.max_timestamp, 9_000);
            }
            assert_eq!(list(&mut client, T, 5_000, 0).await, (ErrorCode::None, 0, 5_000));
            assert_eq!(list(&mut client, T, 8_000, 0).await, (ErrorCode::None, 1, 9_000));
            assert_eq!(list(&mut client, T, 9_001, 0).await, (ErrorCode::None, batches, 20_000));
            let largest = list(&mut client, T, MAX_TIMESTAMP, 0).await;
            assert_eq!(largest, (ErrorCode::None, batches, 20_000));
        });
    }
}

/// offsets-1: retention goes by what the records say when the header says nothing.
#[test]
fn retention_follows_the_records_of_a_batch_whose_header_has_no_time() {
    for codec in CODECS {
        let mut settings = options(1);
        settings.shard.retention_check_interval = Duration::from_secs(10);
        scenario_with(settings, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            let configs = [("retention.ms", "600000"), ("segment.ms", "1000")];
            assert_eq!(create_with(&mut client, "t", 1, &configs).await, ErrorCode::None);
            let now = rt.wall_ms();
            for claim in [-1, 0, 5] {
                client.produce("t", 0, &claiming(timed(codec, &[now, now + 1]), claim)).await;
                rt.sleep(Duration::from_secs(2)).await;
            }
            rt.sleep(Duration::from_secs(540)).await;
            assert_eq!(ends(&mut client, T).await, (0, 6), "young, whatever its header said");
            rt.sleep(Duration::from_secs(180)).await;
            assert_eq!(ends(&mut client, T).await, (6, 6));
        });
    }
}

/// offsets-1: a difference from Kafka, which reads every record: a largest timestamp that is wrong but not below the
/// first is believed. Then a search finds what the header lets it find, and never a wrong record.
#[test]
fn a_largest_timestamp_that_is_wrong_but_not_below_the_first_is_believed() {
    for codec in CODECS {
        scenario(1, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 1).await;
            client.produce("t", 0, &timed(codec, &[100])).await;
            // Too high: no record is there to be found; too low: the record at 9000 is not looked for.
            for (claim, base) in [(50_000, 1), (6_000, 4)] {
                let bytes = claiming(timed(codec, &[5_000, 9_000, 7_000]), claim);
                assert_eq!(client.produce("t", 0, &bytes).await, (ErrorCode::None, base));
                let (_, _, records) = client.fetch("t", 0, base).await;
                assert_eq!(read(&records).last().unwrap().max_timestamp, claim);
            }
            assert_eq!(list(&mut client, T, 5_000, 0).await, (ErrorCode::None, 1, 5_000));
            assert_eq!(list(&mut client, T, 9_000, 0).await, (ErrorCode::None, 2, 9_000));
            assert_eq!(list(&mut client, T, 10_000, 0).await, (ErrorCode::None, -1, -1));
            assert_eq!(list(&mut client, T, MAX_TIMESTAMP, 0).await, (ErrorCode::None, -1, -1));
            client.produce("t", 0, &timed(codec, &[60_000])).await;
            let largest = list(&mut client, T, MAX_TIMESTAMP, 0).await;
            assert_eq!(largest, (ErrorCode::None, 7, 60_000), "the next larger one mends it");
        });
    }
}

/// The times of each batch.
type Times = &'static [&'static [i64]];

/// offsets-2: the record with the largest time, the first among equals, wherever it stands.
#[test]
fn the_largest_timestamp_is_a_record_and_the_first_among_equals() {
    let cases: [(Times, (i64, i64)); 6] = [
        (&[], (-1, -1)),
        (&[&[5], &[9], &[3]], (1, 9)),
        (&[&[5, 9, 3]], (1, 9)),
        (&[&[1, 1], &[9, 9], &[9]], (2, 9)),
        (&[&[-1, -1]], (0, -1)),
        (&[&[-1], &[0], &[0]], (1, 0)),
    ];
    for codec in CODECS {
        for (batches, (offset, time)) in cases {
            for end in ENDS {
                let (lives, options) = (Lives::new(), options(1));
                let written: Vec<_> = batches.iter().map(|times| timed(codec, times)).collect();
                lives.live(&options, end, move |rt| async move {
                    let mut client = Client::connect(&rt).await;
                    client.create("t", 1).await;
                    for one in &written {
                        client.produce("t", 0, one).await;
                    }
                    let largest = list(&mut client, T, MAX_TIMESTAMP, 0).await;
                    assert_eq!(largest, (ErrorCode::None, offset, time), "{codec:?}");
                });
                lives.live(&options, End::Stop, move |rt| async move {
                    let mut client = Client::connect(&rt).await;
                    let largest = list(&mut client, T, MAX_TIMESTAMP, 1).await;
                    assert_eq!(largest, (ErrorCode::None, offset, time), "after {end:?}");
                });
            }
        }
    }
}

/// offsets-2: the broker's own times count on a topic with LogAppendTime, and what retention took is not found.
#[test]
fn the_largest_timestamp_of_the_brokers_clock_and_after_retention() {
    let mut settings = options(1);
    settings.shard.retention_check_interval = Duration::from_secs(10);
    scenario_with(settings, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let configs = [("message.timestamp.type", "LogAppendTime")];
        assert_eq!(create_with(&mut client, "t", 1, &configs).await, ErrorCode::None);
        client.produce("t", 0, &timed(Codec::Gzip, &[900, 100])).await;
        rt.sleep(Duration::from_secs(1)).await;
        let before = rt.wall_ms();
        client.produce("t", 0, &timed(Codec::None, &[5, 6, 7])).await;
        let (code, offset, time) = list(&mut client, T, MAX_TIMESTAMP, 0).await;
        assert_eq!((code, offset), (ErrorCode::None, 2));
        assert!((before..=rt.wall_ms()).contains(&time), "{time}");

        // The largest time goes first: its segment is the oldest and the only one that is over.
        client.create("u", 1).await;
        set(&mut client, "u", "retention.ms", "-1").await;
        set(&mut client, "u", "segment.ms", "1000").await;
        for times in [&[700, 800][..], &[300, 600, 600], &[200]] {
            client.produce("u", 0, &timed(Codec::None, times)).await;
            rt.sleep(Duration::from_secs(2)).await;
        }
        let u = ("u", 0);
        assert_eq!(list(&mut client, u, MAX_TIMESTAMP, 0).await, (ErrorCode::None, 1, 800));
        set(&mut client, "u", "retention.bytes", "120").await;
        for _ in 0..60 {
            if ends(&mut client, u).await.0 > 0 {
                break;
            }
            rt.sleep(Duration::from_secs(5)).await;
        }
        let start = ends(&mut client, u).await.0;
        assert_eq!(start, 2, "the first segment is gone");
        assert_eq!(list(&mut client, u, MAX_TIMESTAMP, 0).await, (ErrorCode::None, 3, 600));
    });
}

/// offsets-2: when DeleteRecords takes the record with the largest time, the largest of those that are left is found, also
/// where the log begins within a batch.
#[test]
fn the_largest_timestamp_behind_a_head_trimmed_by_delete_records() {
    let batches: Times = &[&[1, 900, 5], &[800, 30, 20], &[700], &[40, 600, 600]];
    // Where the log begins, and the record with the largest time then.
    let cases = [(1, (1, 900)), (2, (3, 800)), (3, (3, 800)), (4, (6, 700)), (7, (8, 600))];
    for codec in CODECS {
        for (start, (offset, time)) in cases {
            for end in ENDS {
                let (lives, options) = (Lives::new(), options(1));
                let written: Vec<_> = batches.iter().map(|times| timed(codec, times)).collect();
                lives.live(&options, end, move |rt| async move {
                    let mut client = Client::connect(&rt).await;
                    client.create("t", 1).await;
                    for one in &written {
                        client.produce("t", 0, one).await;
                    }
                    assert_eq!(trim(&mut client, T, start).await, (ErrorCode::None, start));
                    let largest = list(&mut client, T, MAX_TIMESTAMP, 0).await;
                    assert_eq!(largest, (ErrorCode::None, offset, time), "{codec:?} {start}");
                });
                lives.live(&options, End::Stop, move |rt| async move {
                    let mut client = Client::connect(&rt).await;
                    let largest = list(&mut client, T, MAX_TIMESTAMP, 0).await;
                    assert_eq!(largest, (ErrorCode::None, offset, time), "after {end:?}");
                    assert_eq!(trim(&mut client, T, -1).await, (ErrorCode::None, 10));
                    let largest = list(&mut client, T, MAX_TIMESTAMP, 0).await;
                    assert_eq!(largest, (ErrorCode::None, -1, -1), "nothing is left");
                });
            }
        }
    }
}

/// offsets-2: below version 7, and for questions of later versions, the special values are not times.
#[test]
fn special_values_are_not_served_as_if_they_were_times() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        client.produce("t", 0, &timed(Codec::None, &[5, 6])).await;
        for version in 1..=10 {
            let special = [MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, -6, i64::MIN];
            for timestamp in [EARLIEST, LATEST, 0].into_iter().chain(special) {
                let partition = Partition { timestamp, ..Default::default() };
                let topic = Topic { name: "t", partitions: vec![partition].into() };
                let request =
                    Request { replica_id: -1, topics: vec![topic].into(), ..Default::default() };
                let body = client.call(&request, version).await;
                let response: Response<'_> = decode(&body, version);
                let p = response.topics.first().unwrap().partitions.first().unwrap();
                let from = match timestamp {
                    MAX_TIMESTAMP => 7,
                    EARLIEST_LOCAL => 8,
                    LATEST_TIERED => 9,
                    EARLIEST | LATEST | 0.. => 1,
                    _ => i16::MAX,
                };
                let served = version >= from;
                let code = if served { ErrorCode::None } else { ErrorCode::UnsupportedVersion };
                assert_eq!(p.error_code, code, "{timestamp} in version {version}");
                // Nothing is tiered.
                let none = !served || timestamp == LATEST_TIERED;
                assert_eq!(p.offset == -1, none, "{timestamp} in version {version}");
            }
        }
    });
}
