//! Retention so short that nothing is left.

use std::time::Duration;

use rillway_wire::ErrorCode;
use rillway_wire::batch::{BatchBuilder, Codec};

use super::{FETCH, create_with, ends, fetch_as};
use crate::client::{Client, ENDS, Lives, batch, fetch_request, options};
use crate::group_client::{commit, committed};

/// retain-1: start and end are N before and after a restart, and the next record gets N.
#[test]
fn after_everything_expired_the_ends_stay_where_they_are_over_every_kind_of_restart() {
    // 1500 records in batches of so many.
    for (end, cores, of) in [
        (ENDS[0], 1, 1),
        (ENDS[1], 1, 1),
        (ENDS[2], 1, 1),
        (ENDS[1], 2, 50),
        (ENDS[2], 2, 7),
        (ENDS[0], 2, 1_500),
    ] {
        let mut options = options(cores);
        options.shard.retention_check_interval = Duration::from_secs(1);
        let lives = Lives::new();
        let mut n = 0;
        for life in 0..3 {
            let written = if life == 1 { 0 } else { 1_500 };
            let before = n;
            n += written;
            let last = n;
            lives.live(&options, end, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                if life == 0 {
                    let configs = [("retention.ms", "1000"), ("segment.ms", "1000")];
                    let created = create_with(&mut client, "t", 2, &configs).await;
                    assert_eq!(created, ErrorCode::None);
                }
                let of_group = [("t", 0, last, None), ("t", 1, last, Some("all read"))];
                for index in 0..2 {
                    assert_eq!(ends(&mut client, ("t", index)).await, (before, before), "{end:?}");
                    if life > 0 {
                        let found = committed(&mut client, "g", "t", index).await;
                        assert_eq!(found.0, before, "{end:?}: what was committed is still good");
                    }
                    let mut next = before;
                    while next < last {
                        let mut builder = BatchBuilder::new(Codec::None);
                        for _ in next..last.min(next + of) {
                            builder.push(rt.wall_ms(), None, Some(b"v"), &[]);
                        }
                        let (code, base) =
                            client.produce("t", index, &builder.build().unwrap()).await;
                        assert_eq!((code, base), (ErrorCode::None, next));
                        next += builder.len() as i64;
                        // In bursts.
                        if next % 500 < of {
                            rt.sleep(Duration::from_millis(700)).await;
                        }
                    }
                    let mut high = 0;
                    while ends(&mut client, ("t", index)).await.0 < last {
                        let (start, end) = ends(&mut client, ("t", index)).await;
                        assert!(end >= high && start <= end, "{start} {end}, was {high}");
                        high = end;
                        rt.sleep(Duration::from_millis(500)).await;
                    }
                    assert_eq!(ends(&mut client, ("t", index)).await, (last, last));
                    for version in FETCH {
                        for isolation_level in [0, 1] {
                            let mut request =
                                fetch_request(&[("t", index, last, 1_000)], 1_000, 0, 0);
                            request.isolation_level = isolation_level;
                            let got = fetch_as(&mut client, &request, version).await;
                            assert_eq!(
                                (got[0].code, got[0].end, got[0].records.len()),
                                (ErrorCode::None, last, 0)
                            );
                        }
                    }
                }
                // The group's coordinator may just be loading what it is to write to.
                let mut codes = vec![ErrorCode::NotCoordinator; 2];
                while codes != [ErrorCode::None; 2] {
                    codes = commit(&mut client, ("g", "", -1), &of_group, 8).await;
                    rt.sleep(Duration::from_millis(10)).await;
                }
            });
        }
        let last = n;
        lives.live(&options, end, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            for index in 0..2 {
                let mut builder = BatchBuilder::new(Codec::None);
                builder.push(rt.wall_ms(), None, Some(b"next"), &[]);
                let one = builder.build().unwrap();
                assert_eq!(client.produce("t", index, &one).await, (ErrorCode::None, last));
                let (code, high, records) = client.fetch("t", index, last).await;
                assert_eq!((code, high, records.len()), (ErrorCode::None, last + 1, one.len()));
                let gone = client.fetch("t", index, last - 1).await.0;
                assert_eq!(gone, ErrorCode::OffsetOutOfRange);
            }
            // A record of 1970 is old before it is written: it gets the next offset all the same.
            assert_eq!(client.produce("t", 0, &batch(&[b"old"])).await.1, last + 1);
        });
    }
}
