//! Large batches, which a commit writes to their segment itself: what is durable when they are acknowledged, what a
//! crash in the middle leaves, and how they mix with batches that are journaled.

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use common::{Drill, End, Node, batch, topic};
use rillway_log::Log;

const KIB: usize = 1 << 10;

fn drill(seed: u64) -> Drill {
    let mut drill = Drill::new(seed);
    drill.store.extent_bytes = Some(16 << 10);
    drill
}

/// Sizes of batches by their offset: most are extents, some are journaled between them.
fn size(offset: i64) -> usize {
    [100, 40 * KIB, 300 * KIB, 3_000, 90 * KIB, 20 * KIB, 16, 700 * KIB][offset as usize % 8]
}

async fn append_next(n: &Node, log: &Rc<Log>) {
    let offset = log.flushed_end();
    n.append(log, &batch(offset as u64, size(offset))).await;
}

async fn holds(n: &Node, log: &Rc<Log>, end: i64) {
    assert_eq!(log.flushed_end(), end, "log end");
    for (offset, records) in n.read(log).await {
        let want = batch(offset as u64, size(offset));
        assert!(records == want[61..], "the records at offset {offset} are others");
    }
}

#[test]
fn a_large_batch_takes_a_block_or_two_of_the_ring_and_survives_a_power_cut() {
    let drill = drill(1);
    drill.life(End::PowerCut, |n| async move {
        let log = n.log(topic(1)).await;
        n.fill(&log, 30, 500 * KIB).await;
        let counters = n.store().counters();
        // 15 MB of records through a ring of 8 MiB: journaled, they would have gone around it.
        assert_eq!((counters.extents, counters.laps, counters.destages), (30, 0, 1));
    });
    drill.life(End::PowerCut, |n| async move {
        n.holds(&n.log(topic(1)).await, 30, 500 * KIB).await;
    });
}

#[test]
fn extents_and_journaled_batches_mix_over_every_kind_of_stop() {
    let drill = drill(2);
    let mut end = 0;
    for stop in [End::PowerCut, End::Kill, End::Clean, End::PowerCut, End::Kill] {
        drill.life(stop, move |n| async move {
            let log = n.log(topic(1)).await;
            holds(&n, &log, end).await;
            for _ in 0..40 {
                append_next(&n, &log).await;
            }
            let extents = n.store().counters().extents;
            assert!((10..40).contains(&extents), "{extents} of 40 were extents");
        });
        end += 40;
    }
    drill.life(End::Kill, move |n| async move { holds(&n, &n.log(topic(1)).await, end).await });
}

#[test]
fn a_crash_at_any_moment_of_a_commit_with_extents_loses_nothing_acknowledged() {
    for seed in 0..40u64 {
        let drill = drill(seed);
        let acknowledged = Rc::new(Cell::new([0i64; 2]));
        let count = Rc::clone(&acknowledged);
        let stop = if seed % 2 == 0 { End::PowerCut } else { End::Kill };
        drill.cut_after(stop, Duration::from_micros(12_000 + seed * 1_700), move |n| async move {
            // Two partitions in one commit end with a syncfs, one with a flush of its file.
            let logs = [n.log(topic(1)).await, n.log(topic(2)).await];
            loop {
                let at = [logs[0].flushed_end(), logs[1].flushed_end()];
                let (a, b) = (batch(at[0] as u64, size(at[0])), batch(at[1] as u64, size(at[1])));
                let first = logs[0].append_as_leader(&a).await.expect("append");
                let second = logs[1].append_as_leader(&b).await.expect("append");
                first.receipt.wait().await.expect("a receipt");
                second.receipt.wait().await.expect("a receipt");
                count.set([at[0] + 1, at[1] + 1]);
            }
        });
        for stop in [End::PowerCut, End::Kill] {
            let acknowledged = Rc::clone(&acknowledged);
            drill.life(stop, move |n| async move {
                for (t, acknowledged) in [1, 2].into_iter().zip(acknowledged.get()) {
                    let log = n.log(topic(t)).await;
                    let end = log.flushed_end();
                    assert!(end >= acknowledged, "{acknowledged} acknowledged, {end} there");
                    holds(&n, &log, end).await;
                    append_next(&n, &log).await;
                }
            });
        }
    }
}

#[test]
fn an_extent_of_a_partition_that_is_deleted_in_the_same_frame_does_not_cost_the_frame() {
    let drill = drill(4);
    drill.life(End::Kill, |n| async move {
        let (kept, gone) = (n.log(topic(1)).await, n.log(topic(2)).await);
        append_next(&n, &kept).await;
        // The frame before is in flight while these gather in one.
        let first = kept.append_as_leader(&batch(1, 200 * KIB)).await.expect("append");
        let second = kept.append_as_leader(&batch(2, 200 * KIB)).await.expect("append");
        let lost = gone.append_as_leader(&batch(0, 200 * KIB)).await.expect("append");
        assert!(n.store().delete(topic(2)).await.expect("a delete"));
        first.receipt.wait().await.expect("a receipt");
        second.receipt.wait().await.expect("a receipt");
        drop(lost);
    });
    drill.life(End::PowerCut, |n| async move {
        assert_eq!(n.log(topic(1)).await.flushed_end(), 3);
        assert!(n.store().log(topic(2)).is_none(), "the delete was flushed");
    });
}

#[test]
fn a_segment_that_rolls_between_extents_is_sealed_with_all_its_bytes() {
    let drill = drill(5);
    let end = drill.life(End::PowerCut, |n| async move {
        let log = n.log(topic(1)).await;
        while n.store().counters().seals < 3 {
            append_next(&n, &log).await;
            n.rt.sleep(Duration::from_millis(5)).await;
        }
        log.flushed_end()
    });
    drill.life(End::Kill, move |n| async move { holds(&n, &n.log(topic(1)).await, end).await });
}

#[test]
fn memory_of_extents_stays_within_the_cache() {
    let drill = drill(6);
    drill.life(End::Kill, |n| async move {
        let log = n.log(topic(1)).await;
        for _ in 0..60 {
            n.append(&log, &batch(0, 400 * KIB)).await;
            n.rt.sleep(Duration::from_millis(1)).await;
        }
        let held = n.store().cached_bytes();
        // The budget of a drill, and what one commit may bring.
        assert!(held <= (1 << 20) + (1 << 20), "{held} bytes of tails in memory");
    });
}
