//! The files of a partition are made when they are first needed, by whoever comes first.

mod common;

use std::time::Duration;

use common::{Drill, End, batch, config, topic};
use rillway_log::LogConfig;

#[test]
fn a_seal_and_an_append_that_both_need_the_directory_first_make_it_once() {
    for seed in 0..40 {
        let drill = Drill::new(seed);
        // A segment that is rolled and not sealed, in a directory that the power cut takes.
        drill.life(End::PowerCut, |n| async move {
            let log = n.log(topic(1)).await;
            n.append(&log, &batch(0, 100)).await;
            log.configure(LogConfig { segment_ms: 0, ..config() });
            n.append(&log, &batch(1, 100)).await;
        });
        drill.life(End::Kill, move |n| async move {
            let log = n.log(topic(1)).await;
            n.rt.sleep(Duration::from_micros(seed * 10)).await;
            n.append(&log, &batch(2, 100)).await;
            n.holds(&log, 3, 100).await;
            while n.store().counters().seals == 0 {
                n.rt.sleep(Duration::from_millis(1)).await;
            }
        });
    }
}
