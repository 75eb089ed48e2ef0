//! Fetching: limits below one batch, long polls, ends.

use std::time::Duration;

use rillway_wire::ErrorCode;
use rillway_wire::api::{fetch, list_offsets};
use rillway_wire::batch::{BatchBuilder, Codec};

use super::{CODECS, FETCH, Got, create_with, ends, fetch_as, got, list, read};
use crate::client::{
    Client, ENDS, Lives, batch, decode, fetch_request, options, scenario, scenario_with,
};

fn of_size(codec: Codec, size: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    let value: Vec<u8> = (0..size).map(|i| (i * 31 + i / 255) as u8).collect();
    builder.push(1_000, None, Some(&value), &[]);
    builder.build().expect("a batch")
}

/// Reads two partitions of `t` to their ends with these limits; no answer may be empty, and none may hold a cut batch.
async fn drain(client: &mut Client, version: i16, (max, partition_max): (i32, i32), end: i64) {
    let mut at = [0, 0];
    for _ in 0..2 * end {
        let asked = [("t", 0, at[0], partition_max), ("t", 1, at[1], partition_max)];
        let answer = fetch_as(client, &fetch_request(&asked, max, 1, 500), version).await;
        let mut moved = 0;
        for (index, partition) in answer.iter().enumerate() {
            assert_eq!((partition.code, partition.end), (ErrorCode::None, end));
            for one in read(&partition.records) {
                assert_eq!(one.base, at[index]);
                at[index] = one.next;
                moved += 1;
            }
        }
        assert!(moved > 0, "v{version}, {max}/{partition_max}: an endless empty answer at {at:?}");
        if max <= 1 {
            assert_eq!(moved, 1, "one whole batch, never more");
        }
        if at == [end, end] {
            return;
        }
    }
    panic!("v{version}, {max}/{partition_max}: never reached the ends: {at:?}");
}

/// fetch-1: the first partition that has data gives its first batch whole whatever the limits say.
#[test]
fn limits_below_one_batch_give_one_whole_batch_after_the_other_up_to_both_ends() {
    for (cores, size) in [(1, 900_000), (2, 900_000), (1, 300), (2, 70_000)] {
        let mut settings = options(cores);
        // Some answers come from memory, some from files.
        settings.store.cache_bytes = 1 << 20;
        settings.store.undestaged_bytes = 4 << 20;
        scenario_with(settings, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 2).await;
            let end = CODECS.len() as i64;
            for codec in CODECS {
                for index in 0..2 {
                    assert_eq!(
                        client.produce("t", index, &of_size(codec, size)).await.0,
                        ErrorCode::None
                    );
                }
            }
            let near = i32::try_from(size - 1).unwrap();
            for version in FETCH {
                for limits in [(1, 1), (0, 0), (near, near), (1 << 25, 1), (1, 1 << 25)] {
                    drain(&mut client, version, limits, end).await;
                }
            }
        });
    }
}

/// fetch-2: an answer comes when there are min_bytes, or at max_wait with what there is, and never as an error.
#[test]
fn a_wait_ends_with_enough_bytes_or_at_its_time_with_those_that_there_are() {
    for cores in [1, 2] {
        scenario(cores, |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 2).await;
            let wait = Duration::from_millis(500);
            let slack = Duration::from_millis(200);
            let data = batch(&[b"0123456789"]);
            let len = data.len() as i32;
            for version in FETCH {
                // (partition, partition_max_bytes, min_bytes, records expected)
                for (index, limit, min, full) in [
                    (0, 1 << 20, 1, false),
                    (1, 1 << 20, 1 << 20, true),
                    (1, len - 1, len, true),
                    (1, 1, 1 << 20, true),
                ] {
                    if full && ends(&mut client, ("t", index)).await.1 == 0 {
                        client.produce("t", index, &data).await;
                    }
                    let before = rt.now();
                    let request = fetch_request(&[("t", index, 0, limit)], 1 << 20, min, 500);
                    let answer = fetch_as(&mut client, &request, version).await;
                    let waited = rt.now() - before;
                    assert_eq!(
                        (answer[0].code, answer[0].records.is_empty()),
                        (ErrorCode::None, !full)
                    );
                    assert!(
                        waited < wait + slack,
                        "v{version}: {waited:?} for {limit} and {min} bytes"
                    );
                    // A whole batch in spite of a smaller limit may count for what it is: enough, then at once.
                    if !full || min > len {
                        assert!(waited >= wait, "v{version}: {waited:?}, {limit} and {min} bytes");
                    }
                }
                for min in [0, 1, 1 << 20] {
                    let before = rt.now();
                    let request = fetch_request(&[("t", 0, 0, 1 << 20)], 1 << 20, min, 0);
                    assert_eq!(
                        fetch_as(&mut client, &request, version).await[0].code,
                        ErrorCode::None
                    );
                    assert!(rt.now() - before < Duration::from_millis(50), "max_wait 0");
                }
                // An error of one partition is told at once.
                let before = rt.now();
                let asked = [("t", 0, 0, 100), ("nowhere", 0, 0, 100)];
                let answer =
                    fetch_as(&mut client, &fetch_request(&asked, 100, 1, 500), version).await;
                assert!(answer.iter().any(|p| p.code == ErrorCode::UnknownTopicOrPartition));
                assert!(rt.now() - before < Duration::from_millis(50), "an error");
            }
        });
    }
}

/// fetch-2: two hundred that wait are woken by one record, each with it; those that wait elsewhere are not.
#[test]
fn two_hundred_waiting_fetches_are_woken_by_one_record_and_others_go_on_waiting() {
    for cores in [1, 2] {
        scenario(cores, |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 2).await;
            let mut waiting = Vec::new();
            for n in 0..200 {
                let mut one = Client::connect(&rt).await;
                let version = 4 + n % 9;
                one.send(&fetch_request(&[("t", 0, 0, 100)], 100, 1, 60_000), version).await;
                waiting.push((one, version));
            }
            let mut other = Client::connect(&rt).await;
            other.send(&fetch_request(&[("t", 1, 0, 100)], 100, 1, 20_000), 11).await;
            rt.sleep(Duration::from_millis(100)).await;
            let before = rt.now();
            client.produce("t", 0, &batch(&[b"x"])).await;
            for (one, version) in &mut waiting {
                let content = one.frame().await.expect("woken");
                let header = if *version >= 12 { 5 } else { 4 };
                let answer = got(&content[header..], *version);
                assert_eq!(read(&answer[0].records).len(), 1);
            }
            assert!(rt.now() - before < Duration::from_secs(2), "{:?}", rt.now() - before);
            let content = other.frame().await.expect("its own end");
            assert!(rt.now() - before > Duration::from_secs(15));
            assert_eq!(got(&content[4..], 11)[0].records, b"");
        });
    }
}

async fn stable_ends(client: &mut Client, end: i64) {
    for version in FETCH {
        for isolation_level in [0, 1] {
            for offset in [end, 0] {
                let mut request = fetch_request(&[("t", 0, offset, 1 << 20)], 1 << 20, 0, 0);
                request.isolation_level = isolation_level;
                let body = client.call(&request, version).await;
                let response: fetch::Response<'_> = decode(&body, version);
                let topic = response.responses.first().unwrap();
                let p = topic.partitions.first().unwrap();
                if p.error_code == ErrorCode::OffsetOutOfRange {
                    continue;
                }
                assert_eq!(
                    (p.error_code, p.high_watermark, p.last_stable_offset),
                    (ErrorCode::None, end, end)
                );
                assert!(p.aborted_transactions.is_none_or(|a| a.is_empty()));
                assert_eq!((p.preferred_read_replica, response.throttle_time_ms), (-1, 0));
            }
            let latest = list(client, ("t", 0), list_offsets::LATEST, isolation_level).await;
            assert_eq!(latest, (ErrorCode::None, end, -1));
        }
    }
}

/// fetch-3: without transactions the last stable offset is the high watermark, at both isolation levels.
#[test]
fn every_answer_has_the_last_stable_offset_also_when_empty_restarted_or_retained() {
    for end in ENDS {
        let mut options = options(1);
        options.shard.retention_check_interval = Duration::from_secs(1);
        let lives = Lives::new();
        lives.live(&options, end, |rt| async move {
            let mut client = Client::connect(&rt).await;
            let configs = [("retention.ms", "-1")];
            assert_eq!(create_with(&mut client, "t", 1, &configs).await, ErrorCode::None);
            stable_ends(&mut client, 0).await;
            for n in 0..10u8 {
                client.produce("t", 0, &batch(&[&[n]])).await;
            }
            stable_ends(&mut client, 10).await;
        });
        lives.live(&options, end, |rt| async move {
            let mut client = Client::connect(&rt).await;
            stable_ends(&mut client, 10).await;
            // Its records are of 1970.
            super::set(&mut client, "t", "retention.ms", "1000").await;
            while ends(&mut client, ("t", 0)).await.0 < 10 {
                rt.sleep(Duration::from_secs(1)).await;
            }
            stable_ends(&mut client, 10).await;
        });
        lives.live(&options, end, |rt| async move {
            let mut client = Client::connect(&rt).await;
            stable_ends(&mut client, 10).await;
            let request = fetch_request(&[("t", 0, 10, 100)], 100, 0, 0);
            let want =
                Got { code: ErrorCode::None, end: 10, stable: 10, start: 10, records: Vec::new() };
            assert_eq!(fetch_as(&mut client, &request, 11).await, [want]);
        });
    }
}
