//! One short scenario per crash point of the storage rules that one ring can reach: rings, checkpoints, destage, seals,
//! deletes, disks that are full. What needs bytes that only a broken disk makes is in `damage.rs`.

mod common;

use std::path::Path;
use std::time::Duration;

use common::{Drill, End, batch, config, produced, topic};
use rillway_io::sim::Faults;
use rillway_log::{AppendError, Error, LogConfig};

const KIB: usize = 1 << 10;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Fills a log in one life that is cut at `after`, and checks that what was acknowledged is there. True if it was cut
/// while it worked.
fn cut_while_filling(seed: u64, end: End, after: Duration, size: usize) {
    let drill = Drill::new(seed);
    let acknowledged = std::rc::Rc::new(std::cell::Cell::new(0i64));
    let count = std::rc::Rc::clone(&acknowledged);
    drill.cut_after(end, after, move |n| async move {
        let log = n.log(topic(1)).await;
        loop {
            let next = log.flushed_end();
            n.append(&log, &batch(next as u64, size)).await;
            count.set(next + 1);
        }
    });
    drill.life(End::PowerCut, move |n| async move {
        let log = n.log(topic(1)).await;
        let end = log.flushed_end();
        assert!(end >= acknowledged.get(), "{} acknowledged, {end} there", acknowledged.get());
        n.holds(&log, end, size).await;
        n.append(&log, &batch(end as u64, size)).await;
    });
    drill.life(End::Kill, move |n| async move {
        let log = n.log(topic(1)).await;
        n.holds(&log, log.flushed_end(), size).await;
    });
}

#[test]
fn a_power_cut_at_any_moment_of_a_ring_that_wraps_loses_nothing_acknowledged() {
    for seed in 0..24 {
        cut_while_filling(seed, End::PowerCut, ms(20 + seed * 17), 100 * KIB);
    }
}

#[test]
fn a_kill_at_any_moment_of_a_ring_that_wraps_loses_nothing_acknowledged() {
    for seed in 0..16 {
        cut_while_filling(seed, End::Kill, ms(30 + seed * 23), 100 * KIB);
    }
}

#[test]
fn a_crash_between_the_first_start_and_the_first_append_leaves_a_directory_that_starts() {
    for seed in 0..40 {
        let drill = Drill::new(seed);
        let end = if seed % 2 == 0 { End::PowerCut } else { End::Kill };
        drill.cut_after(end, Duration::from_micros(200 + seed * 250), |_| async {});
        drill.life(End::PowerCut, |n| async move {
            let log = n.log(topic(1)).await;
            n.fill(&log, 3, 100).await;
        });
        drill.life(End::Kill, |n| async move { n.holds(&n.log(topic(1)).await, 3, 100).await });
    }
}

#[test]
fn a_checkpoint_that_is_torn_leaves_the_one_before_it() {
    for slot in ["a", "b"] {
        let drill = Drill::new(3);
        drill.life(End::Kill, |n| async move {
            let log = n.log(topic(1)).await;
            n.fill(&log, 10, 9_000).await;
        });
        // The newer of the two, or the older: no frame behind the older one is gone yet.
        drill.world.disk(common::NODE).write(
            &drill.path(&format!("rings/1.{slot}")),
            0,
            &[0x5a; 600],
        );
        drill.life(
            End::PowerCut,
            |n| async move { n.holds(&n.log(topic(1)).await, 10, 9_000).await },
        );
    }
}

#[test]
fn two_torn_checkpoints_are_refused_by_name() {
    let drill = Drill::new(4);
    drill.life(End::Clean, |n| async move { n.fill(&n.log(topic(1)).await, 3, 100).await });
    for slot in ["a", "b"] {
        drill.world.disk(common::NODE).write(
            &drill.path(&format!("rings/1.{slot}")),
            0,
            &[0x5a; 600],
        );
    }
    let words = drill.refused();
    assert!(words.contains("both checkpoints") && words.contains("1.a"), "{words}");
}

#[test]
fn an_old_checkpoint_is_not_used_when_frames_behind_it_are_gone() {
    let drill = Drill::new(5);
    drill.life(End::Kill, |n| async move { n.fill(&n.log(topic(1)).await, 10, 900).await });
    let old = ["a", "b"].map(|slot| {
        let path = drill.path(&format!("rings/1.{slot}"));
        let bytes = drill.world.disk(common::NODE).read(&path).expect("a checkpoint");
        (path, bytes)
    });
    // Laps enough that both checkpoints are new and the frames behind the old ones overwritten.
    drill.life(End::Kill, |n| async move { n.fill(&n.log(topic(1)).await, 250, 100 * KIB).await });
    for (path, bytes) in old {
        drill.world.disk(common::NODE).write(&path, 0, &bytes);
    }
    let words = drill.refused();
    assert!(words.contains("1.ring") && words.contains("frame"), "{words}");
}

#[test]
fn commits_go_on_during_a_checkpoint_and_survive_a_cut_right_behind_it() {
    for seed in 0..20 {
        let drill = Drill::new(seed);
        let total = drill.life(End::PowerCut, move |n| async move {
            let logs = [n.log(topic(1)).await, n.log(topic(2)).await, n.log(topic(3)).await];
            let was = n.store().counters().checkpoints;
            let mut total = 0;
            while n.store().counters().checkpoints < was + 1 + seed % 3 {
                for log in &logs {
                    n.append(log, &batch(log.flushed_end() as u64, 50 * KIB)).await;
                }
                total += 1;
            }
            total
        });
        drill.life(End::Kill, move |n| async move {
            for t in 1..=3 {
                n.holds(&n.log(topic(t)).await, total, 50 * KIB).await;
            }
        });
    }
}

#[test]
fn nothing_is_lost_between_destage_syncfs_checkpoint_and_release() {
    for seed in 0..30 {
        let drill = Drill::new(seed);
        // The round takes long, so that cuts fall between all of its steps.
        drill.world.set_faults(Faults {
            syncfs_delay: ms(60),
            write_delay: ms(3),
            late_writes: ms(5),
            ..Default::default()
        });
        let acknowledged = std::rc::Rc::new(std::cell::Cell::new(0));
        let count = std::rc::Rc::clone(&acknowledged);
        drill.cut_after(End::PowerCut, ms(400 + seed * 31), move |n| async move {
            let log = n.log(topic(1)).await;
            loop {
                n.append(&log, &batch(log.flushed_end() as u64, 150 * KIB)).await;
                count.set(log.flushed_end());
            }
        });
        drill.world.set_faults(Faults::default());
        drill.life(End::Kill, move |n| async move {
            let log = n.log(topic(1)).await;
            assert!(log.flushed_end() >= acknowledged.get());
            n.holds(&log, log.flushed_end(), 150 * KIB).await;
        });
    }
}

#[test]
fn a_seal_that_is_cut_at_any_step_is_done_again() {
    for seed in 0..40 {
        let drill = Drill::new(seed);
        drill.world.set_faults(Faults {
            name_delay: ms(2),
            syncfs_delay: ms(8),
            ..Default::default()
        });
        drill.cut_after(
            if seed % 3 == 0 { End::Kill } else { End::PowerCut },
            ms(120 + seed * 5),
            |n| async move {
                let log = n.log(topic(1)).await;
                // Ten batches of 120 KiB make one segment and a bit.
                n.fill(&log, 200, 120 * KIB).await;
            },
        );
        drill.world.set_faults(Faults::default());
        drill.life(End::PowerCut, |n| async move {
            let log = n.log(topic(1)).await;
            n.holds(&log, log.flushed_end(), 120 * KIB).await;
            n.rt.sleep(Duration::from_secs(3)).await;
            let state = log.flushed_state();
            let unsealed = state
                .segments
                .iter()
                .filter(|s| s.status != rillway_log::SegmentStatus::Sealed)
                .count();
            assert_eq!(unsealed, 1, "{:?}", state.segments);
        });
        drill.life(End::Kill, |n| async move {
            let log = n.log(topic(1)).await;
            n.holds(&log, log.flushed_end(), 120 * KIB).await;
        });
    }
}

#[test]
fn a_delete_that_was_answered_stays_and_the_name_can_be_used_again() {
    for seed in 0..30 {
        let drill = Drill::new(seed);
        let end = if seed % 2 == 0 { End::Kill } else { End::PowerCut };
        drill.life(end, |n| async move {
            let log = n.log(topic(1)).await;
            n.fill(&log, 40, 120 * KIB).await;
            assert!(n.store().delete(topic(1)).await.expect("delete"));
            // Another id, the same name, as a topic that is made anew has it.
            let again = n.store().create(topic(2), "t1", config()).await.expect("create");
            n.fill(&again, 5, 3_000).await;
        });
        drill.life(End::PowerCut, |n| async move {
            assert!(n.store().log(topic(1)).is_none(), "deleted, and back");
            let log = n.store().log(topic(2)).expect("made");
            n.holds(&log, 5, 3_000).await;
            n.fill(&log, 60, 120 * KIB).await;
        });
        drill.life(End::Clean, |n| async move {
            assert_eq!(n.store().log(topic(2)).expect("made").flushed_end(), 65);
        });
        let files = drill.world.disk(common::NODE).files();
        let dead = files.iter().filter(|f| f.to_string_lossy().contains("-delete")).count();
        assert_eq!(dead, 0, "leftovers are unlinked by the next life: {files:?}");
    }
}

#[test]
fn a_delete_that_is_cut_at_any_step_is_whole_or_not_there() {
    for seed in 0..40 {
        let drill = Drill::new(seed);
        drill.world.set_faults(Faults { name_delay: ms(1), ..Default::default() });
        drill.life(
            End::Kill,
            |n| async move { n.fill(&n.log(topic(1)).await, 30, 120 * KIB).await },
        );
        drill.cut_after(
            if seed % 2 == 0 { End::Kill } else { End::PowerCut },
            ms(20 + seed),
            |n| async move {
                n.store().delete(topic(1)).await.expect("delete");
            },
        );
        drill.life(End::Kill, |n| async move {
            if let Some(log) = n.store().log(topic(1)) {
                log.configure(config());
                n.holds(&log, 30, 120 * KIB).await;
            }
        });
    }
}

#[test]
fn two_rings_become_one_and_two_again_and_every_partition_is_where_it_was() {
    for seed in 0..12 {
        let mut drill = Drill::new(seed);
        drill.storage.rings = 2;
        drill.life(End::Kill, |n| async move {
            for t in 1..=4 {
                let log = n.stores[usize::from(t % 2)]
                    .create(topic(t), &format!("t{t}"), config())
                    .await
                    .expect("create");
                n.fill(&log, 12, 100 * KIB).await;
            }
        });
        for rings in [1, 2, 3, 2] {
            drill.storage.rings = rings;
            // The change itself is cut once, and then done.
            drill.cut_after(
                if seed % 2 == 0 { End::PowerCut } else { End::Kill },
                ms(3 + seed * 4),
                |_| async {},
            );
            drill.life(End::PowerCut, move |n| async move {
                assert_eq!(n.stores.len(), rings);
                for t in 1..=4 {
                    let log = n.log(topic(t)).await;
                    n.holds(&log, log.flushed_end(), 100 * KIB).await;
                    n.append(&log, &batch(log.flushed_end() as u64, 100 * KIB)).await;
                }
            });
        }
        drill.life(End::Clean, |n| async move {
            for t in 1..=4 {
                n.holds(&n.log(topic(t)).await, 16, 100 * KIB).await;
            }
        });
    }
}

#[test]
fn a_kill_a_recovery_and_a_power_cut_soon_after_lose_nothing() {
    for seed in 0..30 {
        let drill = Drill::new(seed);
        drill.life(
            End::Kill,
            |n| async move { n.fill(&n.log(topic(1)).await, 30, 100 * KIB).await },
        );
        drill.cut_after(End::PowerCut, Duration::from_micros(seed * 900), |_| async {});
        drill.life(End::PowerCut, |n| async move {
            n.holds(&n.log(topic(1)).await, 30, 100 * KIB).await
        });
        drill.life(
            End::Kill,
            |n| async move { n.holds(&n.log(topic(1)).await, 30, 100 * KIB).await },
        );
    }
}

#[test]
fn a_retry_is_answered_when_its_original_is_flushed_and_not_before() {
    let drill = Drill::new(8);
    drill.life(End::Kill, |n| async move { drop(n.log(topic(1)).await) });
    drill.world.set_faults(Faults { flush_delay: ms(500), ..Default::default() });
    let answered = drill.start(|n| async move {
        let log = n.log(topic(1)).await;
        let bytes = produced(1, 900, Some((7, 0)));
        let first = log.append_as_leader(&bytes).await.expect("append");
        let again = log.append_as_leader(&bytes).await.expect("append");
        assert!(again.duplicate && again.base_offset == first.base_offset);
        assert_eq!(log.flushed_end(), 0, "the flush takes long");
        again.receipt.wait().await.expect("a receipt");
        assert_eq!(log.flushed_end(), 1, "answered before it was flushed");
    });
    drill
        .world
        .run_until(|| answered.borrow().is_some(), Duration::from_secs(60))
        .expect("answered");
    drill.end(End::PowerCut);
    drill.life(End::Kill, |n| async move {
        let log = n.log(topic(1)).await;
        assert_eq!(log.flushed_end(), 1);
        let again = log.append_as_leader(&produced(1, 900, Some((7, 0)))).await.expect("append");
        assert!(again.duplicate, "a producer is known after a crash");
        let gap = log.append_as_leader(&produced(2, 900, Some((7, 5)))).await;
        assert!(matches!(gap, Err(AppendError::OutOfOrderSequence { got: 5, expected: 1 })));
    });
}

#[test]
fn writes_of_the_life_before_that_land_late_change_nothing() {
    for seed in 0..30 {
        let drill = Drill::new(seed);
        drill.world.set_faults(Faults {
            late_writes: Duration::from_secs(3),
            write_delay: ms(5),
            ..Default::default()
        });
        drill.cut_after(End::Kill, ms(150 + seed * 13), |n| async move {
            n.fill(&n.log(topic(1)).await, 500, 100 * KIB).await;
        });
        drill.life(End::Kill, |n| async move {
            let log = n.log(topic(1)).await;
            let end = log.flushed_end();
            n.holds(&log, end, 100 * KIB).await;
            n.fill(&log, 20, 100 * KIB).await;
            n.rt.sleep(Duration::from_secs(4)).await;
            n.holds(&log, end + 20, 100 * KIB).await;
        });
        drill.life(End::PowerCut, |n| async move {
            let log = n.log(topic(1)).await;
            n.holds(&log, log.flushed_end(), 100 * KIB).await;
        });
    }
}

#[test]
fn idle_partitions_pin_nothing_while_the_ring_wraps_ten_times() {
    let drill = Drill::new(2);
    let many = 10_000u32;
    drill.life(End::PowerCut, move |n| async move {
        let store = n.store().clone();
        let all: Vec<_> = (0..many)
            .map(|index| {
                let (store, id) = (store.clone(), rillway_log::PartitionId { index, ..topic(1) });
                n.rt.spawn(rillway_io::Class::Data, async move {
                    store.create(id, "t1", config()).await.map(|_| ())
                })
            })
            .collect();
        for made in all {
            made.await.expect("it ran").expect("create");
        }
        let busy = store.log(topic(1)).expect("made");
        while n.store().counters().laps < 10 {
            n.append(&busy, &batch(busy.flushed_end() as u64, 900 * KIB)).await;
        }
    });
    drill.life(End::Kill, move |n| async move {
        assert_eq!(n.store().logs().len(), many as usize);
        let busy = n.store().log(topic(1)).expect("made");
        n.holds(&busy, busy.flushed_end(), 900 * KIB).await;
    });
}

#[test]
fn a_full_ring_is_backpressure_and_never_a_deadlock() {
    let mut drill = Drill::new(6);
    drill.store.undestaged_bytes = 64 << 20;
    drill.world.set_faults(Faults { syncfs_delay: ms(300), ..Default::default() });
    drill.life(End::PowerCut, |n| async move {
        let log = n.log(topic(1)).await;
        let mut receipts = Vec::new();
        for tag in 0..200 {
            receipts
                .push(log.append_as_leader(&batch(tag, 200 * KIB)).await.expect("append").receipt);
        }
        for receipt in receipts {
            receipt.wait().await.expect("a receipt");
        }
        assert!(n.store().counters().backpressure_waits > 0, "{:?}", n.store().counters());
    });
    drill.life(End::Kill, |n| async move { n.holds(&n.log(topic(1)).await, 200, 200 * KIB).await });
}

#[test]
fn an_append_larger_than_the_memory_that_is_left_waits_for_a_round_and_not_for_ever() {
    let mut drill = Drill::new(6);
    drill.store.undestaged_bytes = 600 << 10;
    drill.life(End::Kill, |n| async move {
        let log = n.log(topic(1)).await;
        n.fill(&log, 1, 100 * KIB).await;
        n.append(&log, &batch(1, 550 * KIB)).await;
        assert_eq!(log.flushed_end(), 2);
    });
}

#[test]
fn a_full_disk_refuses_appends_serves_reads_and_goes_on_when_it_is_freed() {
    let drill = Drill::new(9);
    let written = drill.life(End::PowerCut, |n| async move {
        let log = n.log(topic(1)).await;
        n.fill(&log, 8, 100 * KIB).await;
        log.flushed_end()
    });
    drill.world.disk(common::NODE).set_capacity(1 << 40);
    let used = (1u64 << 40) - drill.world.disk(common::NODE).available();
    drill.world.disk(common::NODE).set_capacity(used + (2 << 20));
    let slot = drill.start(move |n| async move {
        let log = n.log(topic(1)).await;
        let refused = loop {
            match log.append_as_leader(&batch(log.flushed_end() as u64, 100 * KIB)).await {
                Ok(appended) => appended.receipt.wait().await.expect("a receipt"),
                Err(e) => break e,
            }
        };
        assert!(matches!(refused, AppendError::Log(Error::NoSpace { .. })), "{refused}");
        n.holds(&log, log.flushed_end(), 100 * KIB).await;
        while n.store().is_full() {
            n.rt.sleep(ms(200)).await;
        }
        n.fill(&log, 20, 100 * KIB).await;
        log.flushed_end()
    });
    drill.world.run_for(Duration::from_secs(5));
    assert!(
        slot.borrow().is_none() && drill.world.is_running(common::NODE),
        "{:?}",
        drill.world.death(common::NODE)
    );
    drill.world.disk(common::NODE).set_capacity(1 << 40);
    drill.world.run_until(|| slot.borrow().is_some(), Duration::from_secs(60)).expect("it goes on");
    drill.end(End::PowerCut);
    let end = slot.borrow().expect("set above");
    assert!(end > written);
    drill.life(
        End::Kill,
        move |n| async move { n.holds(&n.log(topic(1)).await, end, 100 * KIB).await },
    );
}

#[test]
fn a_start_on_a_disk_without_a_free_byte_succeeds_and_reads_are_served() {
    for seed in 0..12 {
        let drill = Drill::new(seed);
        let end = if seed % 2 == 0 { End::Kill } else { End::PowerCut };
        drill.life(end, |n| async move { n.fill(&n.log(topic(1)).await, 25, 100 * KIB).await });
        drill.world.disk(common::NODE).set_capacity(1 << 40);
        let used = (1u64 << 40) - drill.world.disk(common::NODE).available();
        drill.world.disk(common::NODE).set_capacity(used);
        drill.life(End::PowerCut, |n| async move {
            n.holds(&n.log(topic(1)).await, 25, 100 * KIB).await;
            assert!(n.store().delete(topic(1)).await.expect("a delete needs no room"));
        });
    }
}

#[test]
fn retention_takes_whole_sealed_segments_and_their_files_are_gone() {
    let drill = Drill::new(1);
    let start = drill.life(End::PowerCut, |n| async move {
        let log = n.log(topic(1)).await;
        n.fill(&log, 60, 100 * KIB).await;
        n.rt.sleep(Duration::from_secs(3)).await;
        log.configure(LogConfig { retention_bytes: 2 << 20, ..config() });
        n.store().enforce_retention().await.expect("retention");
        assert!(log.log_start() > 0);
        log.log_start()
    });
    drill.life(End::Clean, move |n| async move {
        let log = n.log(topic(1)).await;
        assert_eq!((log.log_start(), log.flushed_end()), (start, 60));
        n.read(&log).await;
        let error = log.read(0, 1, true, 1 << 20).await.err();
        assert!(matches!(error, Some(Error::OffsetOutOfRange { offset: 0, .. })));
        n.rt.sleep(Duration::from_secs(2)).await;
    });
    let first = Path::new(common::DIR).join("t1-0/00000000000000000000.log");
    assert!(
        drill.world.disk(common::NODE).read(&first).is_none(),
        "the first segment's file is still there"
    );
}

#[test]
fn an_error_of_a_flush_ends_the_process_and_nothing_acknowledged_is_lost() {
    for (seed, faults) in [
        Faults { eio_on_write: Some(7), ..Default::default() },
        Faults { eio_on_flush: Some(9), ..Default::default() },
        Faults { eio_on_syncfs: Some(1), ..Default::default() },
        Faults { short_write: Some(11), ..Default::default() },
    ]
    .into_iter()
    .enumerate()
    {
        for cut in [false, true] {
            let drill = Drill::new(seed as u64);
            drill.life(
                End::Kill,
                |n| async move { n.fill(&n.log(topic(1)).await, 3, 100 * KIB).await },
            );
            let acknowledged = std::rc::Rc::new(std::cell::Cell::new(0));
            let count = std::rc::Rc::clone(&acknowledged);
            let _slot = drill.start(|n| async move {
                let log = n.log(topic(1)).await;
                loop {
                    n.append(&log, &batch(log.flushed_end() as u64, 100 * KIB)).await;
                    count.set(log.flushed_end());
                }
            });
            drill
                .world
                .run_until(|| acknowledged.get() > 5, Duration::from_secs(60))
                .expect("it works");
            drill.world.set_faults(faults.clone());
            drill
                .world
                .run_until(|| !drill.world.is_running(common::NODE), Duration::from_secs(60))
                .expect("it dies");
            let words = drill.world.death(common::NODE).expect("of an error");
            assert!(words.contains("failed") && words.contains("dmesg"), "{words}");
            drill.world.set_faults(Faults::default());
            if cut {
                drill.world.power_cut(common::NODE);
            }
            drill.life(End::PowerCut, move |n| async move {
                let log = n.log(topic(1)).await;
                assert!(log.flushed_end() >= acknowledged.get());
                n.holds(&log, log.flushed_end(), 100 * KIB).await;
            });
            drill.life(End::Kill, |n| async move {
                let log = n.log(topic(1)).await;
                n.holds(&log, log.flushed_end(), 100 * KIB).await;
            });
        }
    }
}

#[test]
fn a_reader_on_its_way_to_a_segment_that_retention_takes_does_not_refuse_the_partition() {
    let drill = Drill::new(11);
    drill.life(End::Kill, |n| async move {
        let log = n.log(topic(1)).await;
        n.fill(&log, 60, 100 * KIB).await;
        n.rt.sleep(Duration::from_secs(3)).await;
    });
    // A new life has no file open and no tail of what is sealed: the first read has to go to the file.
    drill.world.set_faults(Faults { name_delay: ms(5), ..Default::default() });
    drill.life(End::Kill, |n| async move {
        let log = n.log(topic(1)).await;
        log.configure(LogConfig { retention_bytes: 2 << 20, ..config() });
        for pause in 0..40 {
            let (reader, rt) = (std::rc::Rc::clone(&log), n.rt.clone());
            n.rt.spawn(rillway_io::Class::Data, async move {
                rt.sleep(Duration::from_micros(250 * pause)).await;
                let _ = reader.read(reader.log_start(), 1 << 20, true, 1 << 20).await;
            })
            .detach();
        }
        n.store().enforce_retention().await.expect("retention");
        n.rt.sleep(Duration::from_secs(2)).await;
        assert_eq!(log.refused(), None);
        assert!(log.log_start() > 0);
        n.read(&log).await;
    });
}
