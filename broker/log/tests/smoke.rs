//! The shortest lives: write, end in each way, read again.

mod common;

use common::{Drill, End, batch, topic};

fn written_and_read_again(end: End) {
    for seed in 0..20 {
        let drill = Drill::new(seed);
        drill.life(end, |n| async move {
            let log = n.log(topic(1)).await;
            n.fill(&log, 20, 3_000).await;
            n.holds(&log, 20, 3_000).await;
        });
        for _ in 0..2 {
            drill.life(end, |n| async move {
                let log = n.log(topic(1)).await;
                n.holds(&log, log.flushed_end(), 3_000).await;
                assert!(log.flushed_end() >= 20);
                let next = log.flushed_end();
                assert_eq!(n.append(&log, &batch(next as u64, 3_000)).await, next);
            });
        }
    }
}

#[test]
fn what_was_written_is_there_after_a_clean_stop() {
    written_and_read_again(End::Clean);
}

#[test]
fn what_was_written_is_there_after_a_kill() {
    written_and_read_again(End::Kill);
}

#[test]
fn what_was_written_is_there_after_a_power_cut() {
    written_and_read_again(End::PowerCut);
}

#[test]
fn many_laps_of_the_ring_lose_nothing() {
    let drill = Drill::new(7);
    for life in 1..=3 {
        drill.life(if life == 2 { End::Kill } else { End::PowerCut }, move |n| async move {
            let log = n.log(topic(1)).await;
            n.holds(&log, (life - 1) * 150, 100_000).await;
            n.fill(&log, 150, 100_000).await;
            n.holds(&log, life * 150, 100_000).await;
            assert!(n.store().counters().laps > 0, "{:?}", n.store().counters());
        });
    }
}
