//! What operators see: how far behind a group is.

use std::time::Duration;

use rillway_wire::ErrorCode;
use rillway_wire::api::group_report;

use super::{delete, trim};
use crate::client::{Client, batch, decode, options, scenario_with};
use crate::group_client::{Member, commit};

/// (topic, partition, committed, lag in records, whether there is a lag in bytes and in time), in the report's order.
async fn lags(client: &mut Client, group: &str) -> Vec<(String, i32, i64, i64, bool, bool)> {
    let body = client.call(&group_report::Request { group_id: group }, 0).await;
    let report: group_report::Response<'_> = decode(&body, 0);
    assert_eq!(report.error_code, ErrorCode::None);
    let one = |p: group_report::Partition<'_>| {
        assert!(p.lag_records >= 0 && p.lag_bytes >= 0 && p.lag_ms >= 0, "{p:?}");
        (
            p.topic.to_owned(),
            p.partition_index,
            p.committed_offset,
            p.lag_records,
            p.lag_bytes > 0,
            p.lag_ms > 0,
        )
    };
    report.partitions.iter().map(one).collect()
}

/// observe-1: lag is what there is to read, and never a guess.
#[test]
fn lag_is_what_is_left_to_read_after_trims_odd_commits_deletes_and_idle_times() {
    for cores in [1, 2] {
        let mut options = options(cores);
        options.limits.idle = Duration::from_secs(86_400);
        scenario_with(options, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            for topic in ["t", "empty", "gone"] {
                client.create(topic, 2).await;
                for _ in 0..10 {
                    client.produce(topic, 0, &batch(&[b"v"])).await;
                }
            }
            Member::connect(&rt, "warm").await.settle().await;
            let by = ("g", "", -1);
            let offsets = [("t", 0, 2, None), ("empty", 0, 3, None), ("gone", 0, 4, None)];
            assert_eq!(commit(&mut client, by, &offsets, 8).await, [ErrorCode::None; 3]);
            // Partitions without a commit have no line.
            let line =
                |topic: &str, at, lag, behind| (topic.to_owned(), 0, at, lag, behind, behind);
            rt.sleep(Duration::from_secs(1)).await;
            let mut found = lags(&mut client, "g").await;
            found.sort();
            let want = [line("empty", 3, 7, true), line("gone", 4, 6, true), line("t", 2, 8, true)];
            assert_eq!(found, want);

            // Below the start: what is gone is not to be read.
            assert_eq!(trim(&mut client, ("t", 0), 6).await, (ErrorCode::None, 6));
            assert_eq!(trim(&mut client, ("empty", 0), -1).await, (ErrorCode::None, 10));
            assert_eq!(delete(&mut client, "gone").await, ErrorCode::None);
            let mut found = lags(&mut client, "g").await;
            found.sort();
            assert_eq!(found, [line("empty", 3, 0, false), line("t", 2, 4, true)]);

            // Above the end: not below nothing. Caught up: nothing, and twenty minutes later still.
            let offsets = [("t", 0, 10, None), ("empty", 0, 5_000, None)];
            assert_eq!(commit(&mut client, by, &offsets, 8).await, [ErrorCode::None; 2]);
            for _ in 0..2 {
                let mut found = lags(&mut client, "g").await;
                found.sort();
                assert_eq!(found, [line("empty", 5_000, 0, false), line("t", 10, 0, false)]);
                rt.sleep(Duration::from_secs(1_200)).await;
            }
            client.produce("t", 0, &batch(&[b"v"])).await;
            rt.sleep(Duration::from_millis(10)).await;
            let found = lags(&mut client, "g").await;
            assert!(found.contains(&line("t", 10, 1, true)), "{found:?}");
        });
    }
}
