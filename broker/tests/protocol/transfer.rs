//! Answers from files: bytes, memory, and clients that do not take them.

use std::time::Duration;

use rillway::node::NodeOptions;
use rillway_io::{Runtime, TRANSFER_BYTES_MIN, TransferMode};
use rillway_wire::ErrorCode;
use rillway_wire::api::fetch;

use crate::client::{
    Client, Stop, batch, bytes, decode, fetch_request, options, scenario_with_stop,
};

const BATCH: usize = 100_000;
const BATCHES: usize = 100;
const ALL: i32 = 50 << 20;

/// Segments of 4 MiB, little of which stays in memory.
fn cold(cores: usize, mode: TransferMode) -> NodeOptions {
    let mut options = options(cores);
    options.store.cache_bytes = 1 << 20;
    options.store.undestaged_bytes = 4 << 20;
    options.store.transfer_bytes = TRANSFER_BYTES_MIN;
    options.store.transfer = mode;
    options.store.delete_delay = Duration::ZERO;
    options.shard.defaults.log.segment_bytes = 4 << 20;
    options
}

/// Ten megabytes in partition 0 of `t`, destaged, and sealed but for the last two.
async fn fill(rt: &Runtime, client: &mut Client) -> Vec<u8> {
    let mut all = Vec::new();
    for n in 0..BATCHES {
        let value: Vec<u8> = (0..BATCH).map(|i| (i * 7 + i / 251 + n * 13) as u8).collect();
        let one = batch(&[&value]);
        assert_eq!(client.produce("t", 0, &one).await, (ErrorCode::None, n as i64));
        all.extend_from_slice(&one[61..]);
    }
    rt.sleep(Duration::from_secs(5)).await;
    all
}

/// Records of the batches of an answer, without the headers, into which the broker writes; and how many.
fn records(answer: &[u8]) -> (Vec<u8>, i64) {
    let mut out = Vec::new();
    let mut count = 0;
    for found in rillway_wire::batch::batches(answer) {
        let found = found.expect("whole batches");
        assert!(found.check_crc());
        out.extend_from_slice(found.records());
        count += 1;
    }
    (out, count)
}

fn only_partition(content: &[u8]) -> Vec<u8> {
    let response: fetch::Response<'_> = decode(&content[4..], 11);
    let topic = response.responses.first().expect("a topic");
    let partition = topic.partitions.first().expect("a partition");
    assert_eq!(partition.error_code, ErrorCode::None);
    bytes(&partition.records)
}

async fn read_all(client: &mut Client, max_bytes: i32) -> Vec<u8> {
    let mut all = Vec::new();
    let mut offset = 0;
    while offset < BATCHES as i64 {
        client.send(&fetch_request(&[("t", 0, offset, max_bytes)], max_bytes, 0, 0), 11).await;
        let content = client.frame().await.expect("an answer");
        let (some, count) = records(&only_partition(&content));
        assert!(count > 0, "nothing at {offset}");
        all.extend_from_slice(&some);
        offset += count;
    }
    all
}

fn both(script: impl AsyncFn(Runtime, Stop, TransferMode) + Clone + 'static) {
    for mode in [TransferMode::Copy, TransferMode::Splice] {
        let script = script.clone();
        scenario_with_stop(cold(1, mode), move |rt, stop| async move {
            script(rt, stop, mode).await;
        });
    }
}

#[test]
fn cold_records_are_served_byte_by_byte_whatever_the_limit() {
    both(async |rt: Runtime, stop: Stop, mode| {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let all = fill(&rt, &mut client).await;
        for max_bytes in [1, 150_000, 1 << 20, 3_000_000, ALL] {
            assert!(read_all(&mut client, max_bytes).await == all, "at most {max_bytes}");
        }
        let counters = stop.transfers()[0].counters();
        assert_eq!(counters.spliced > 0, mode == TransferMode::Splice);
        assert!(counters.read > 0, "the active segment is read directly: {counters:?}");
        assert_eq!(stop.transfers()[0].in_use(), 0);
    });
}

#[test]
fn clients_that_ask_for_cold_records_and_read_nothing_hold_no_more_than_the_budget() {
    both(async |rt: Runtime, stop: Stop, mode| {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let all = fill(&rt, &mut client).await;
        let mut stalled = Vec::new();
        for n in 0..40 {
            let mut other = Client::connect(&rt).await;
            other.send(&fetch_request(&[("t", 0, n, ALL)], ALL, 0, 0), 11).await;
            stalled.push(other);
        }
        rt.sleep(Duration::from_secs(5)).await;
        let transfer = stop.transfers()[0].clone();
        assert!(transfer.in_use() <= TRANSFER_BYTES_MIN / 2, "{transfer:?}");
        // Forty that stall starve nobody, neither at the front nor at the tail.
        assert!(read_all(&mut client, 1 << 20).await == all);
        let last = batch(&[b"last"]);
        assert_eq!(client.produce("t", 0, &last).await, (ErrorCode::None, BATCHES as i64));
        assert_eq!(client.fetch("t", 0, BATCHES as i64).await.2.len(), last.len());
        assert!(transfer.in_use() <= TRANSFER_BYTES_MIN / 2, "{transfer:?}");
        assert_eq!(transfer.counters().evicted > 0, mode == TransferMode::Copy);
        // Whoever takes its answer at last gets all of it, and the others leave nothing behind.
        let content = stalled[7].frame().await.expect("its answer");
        let (some, count) = records(&only_partition(&content));
        let one = all.len() / BATCHES;
        assert!(some == all[7 * one..(7 + count as usize) * one]);
        drop(stalled);
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(transfer.in_use(), 0);
    });
}

#[test]
fn a_segment_that_retention_takes_is_served_to_the_end_to_whom_it_was_promised() {
    for mode in [TransferMode::Copy, TransferMode::Splice] {
        let mut options = cold(1, mode);
        options.shard.defaults.log.retention_bytes = 7_000_000;
        options.shard.retention_check_interval = Duration::from_secs(20);
        scenario_with_stop(options, |rt, _| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 1).await;
            let all = fill(&rt, &mut client).await;
            let mut slow = Client::connect(&rt).await;
            slow.send(&fetch_request(&[("t", 0, 0, ALL)], ALL, 0, 0), 11).await;
            rt.sleep(Duration::from_secs(60)).await;
            assert_eq!(client.fetch("t", 0, 0).await.0, ErrorCode::OffsetOutOfRange);
            let content = slow.frame().await.expect("its answer");
            let (some, count) = records(&only_partition(&content));
            assert!(count > 30 && some == all[..some.len()], "{count} batches");
        });
    }
}

#[test]
fn who_leaves_an_answer_from_another_core_untaken_is_closed_when_others_wait_for_its_memory() {
    scenario_with_stop(cold(2, TransferMode::Copy), |rt, stop| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let right = client.leader_port("t", 0).await;
        let wrong = if right == 10092 { 10192 } else { 10092 };
        let mut owner = Client::connect_to(&rt, right).await;
        let all = fill(&rt, &mut owner).await;
        let mut stalled = Vec::new();
        for _ in 0..6 {
            let mut other = Client::connect_to(&rt, wrong).await;
            other.send(&fetch_request(&[("t", 0, 0, 1 << 20)], 1 << 20, 0, 0), 11).await;
            stalled.push(other);
        }
        rt.sleep(Duration::from_secs(5)).await;
        let held = || stop.transfers().iter().map(|t| t.in_use()).max();
        assert_eq!(held(), Some(TRANSFER_BYTES_MIN / 2));
        // A megabyte each for four of them; the others, and one that reads, wait for at most the limit of progress.
        let mut reader = Client::connect_to(&rt, wrong).await;
        assert!(read_all(&mut reader, 1 << 20).await == all);
        let mut cut = 0;
        for client in &mut stalled {
            cut += usize::from(client.is_closed().await);
        }
        assert!((1..6).contains(&cut), "{cut} of 6");
        drop(stalled);
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(held(), Some(0));
    });
}
