//! Compaction on the simulated disk: what is left, for readers at every offset, and after a crash at any moment.

mod common;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use common::{Drill, End, Node, topic};
use rillway_io::sim::Faults;
use rillway_log::{Log, LogConfig, PartitionState, Ratio};
use rillway_wire::batch::{BatchBuilder, BatchView, Codec, batches, decompress, records};

const KIB: usize = 1 << 10;
const ENDS: [End; 3] = [End::Clean, End::Kill, End::PowerCut];

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn config() -> LogConfig {
    LogConfig {
        compact: true,
        delete: false,
        segment_bytes: 64 << 10,
        min_cleanable_ratio: Ratio::new(0.0).unwrap(),
        ..LogConfig::default()
    }
}

/// What was written, by key and offset: whether it was a tombstone.
#[derive(Clone, Default)]
struct Written(Rc<RefCell<BTreeMap<u8, BTreeMap<i64, bool>>>>);

/// A batch of (key, value length; none: a tombstone).
fn batch(codec: Codec, content: &[(u8, Option<usize>)]) -> Vec<u8> {
    let mut b = BatchBuilder::new(codec);
    for (n, (key, len)) in content.iter().enumerate() {
        // Bytes that no codec makes smaller.
        let mut state = u64::from(*key) << 8 | n as u64 | 1 << 40;
        let value = len.map(|len| {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as u8
            };
            (0..len).map(|_| next()).collect::<Vec<u8>>()
        });
        let headers: &[(&str, Option<&[u8]>)] = &[("h", Some(b"1")), ("h", None), ("", Some(b""))];
        b.push(1_700_000_000_000 + n as i64, Some(&[*key]), value.as_deref(), headers);
    }
    b.build().unwrap()
}

impl Written {
    async fn append(&self, n: &Node, log: &Rc<Log>, codec: Codec, content: &[(u8, Option<usize>)]) {
        let base = n.append(log, &batch(codec, content)).await;
        for (at, (key, len)) in content.iter().enumerate() {
            let mut all = self.0.borrow_mut();
            all.entry(*key).or_default().insert(base + at as i64, len.is_none());
        }
    }

    /// A little of everything: `rounds` batches over `keys` keys.
    async fn fill(&self, n: &Node, log: &Rc<Log>, rounds: u64, keys: u64) {
        let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
        let mut state = log.flushed_end() as u64 + 7;
        for _ in 0..rounds {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state >> 33
            };
            let records = 1 + next() % 4;
            let content: Vec<(u8, Option<usize>)> = (0..records)
                .map(|_| {
                    let len = (next() % 6 != 0).then(|| 1_000 + (next() % 4_000) as usize);
                    ((next() % keys) as u8, len)
                })
                .collect();
            self.append(n, log, codecs[(next() % 5) as usize], &content).await;
        }
    }

    /// What is there of a key is a suffix of what was written of it; nothing at all only after a tombstone.
    fn check(&self, found: &BTreeMap<u8, BTreeSet<i64>>) {
        let none = BTreeSet::new();
        for (key, written) in self.0.borrow().iter() {
            let there = found.get(key).unwrap_or(&none);
            let last: Vec<i64> = written.keys().rev().take(there.len()).rev().copied().collect();
            assert!(there.iter().copied().eq(last), "key {key}: {there:?} of {written:?}");
            let removed = written.values().next_back() == Some(&true);
            assert!(!there.is_empty() || removed, "key {key} is gone: {written:?}");
        }
        for (key, there) in found {
            let written = self.0.borrow();
            let known = written.get(key).is_some_and(|w| there.iter().all(|o| w.contains_key(o)));
            assert!(known, "key {key}: {there:?} was never written");
        }
    }

    /// How many records are left if everything is clean and no tombstone is due.
    fn keys(&self) -> usize {
        self.0.borrow().len()
    }
}

/// All batches from an offset on, following the answers; the last one's end.
async fn read_from(log: &Rc<Log>, from: i64) -> (BTreeMap<u8, BTreeSet<i64>>, i64) {
    let (mut next, mut found) = (from, BTreeMap::<u8, BTreeSet<i64>>::new());
    while next < log.flushed_end() {
        let fetched = log.read(next, 40 * KIB, true, 40 * KIB).await.expect("read");
        assert!(fetched.bytes > 0, "nothing at {next}, the log ends at {}", log.flushed_end());
        let bytes: Vec<u8> = fetched.chunks.iter().flat_map(|c| c.iter().copied()).collect();
        for b in batches(&bytes) {
            let b = b.expect("whole batches");
            assert!(b.check_crc() && b.next_offset() > next, "{b:?} at {next}");
            let payload = decompress(b.codec().unwrap(), b.records(), 1 << 20).unwrap();
            for r in records(&payload) {
                let r = r.unwrap();
                let offset = b.base_offset() + i64::from(r.offset_delta);
                let headers: Vec<_> = r.headers.map(|h| (h.key, h.value)).collect();
                assert_eq!(headers[..2], [(&b"h"[..], Some(&b"1"[..])), (&b"h"[..], None)]);
                if offset >= from {
                    found.entry(r.key.unwrap()[0]).or_default().insert(offset);
                }
            }
            next = b.next_offset();
        }
    }
    (found, next)
}

async fn log_of(n: &Node) -> Rc<Log> {
    let log = match n.stores.iter().find_map(|s| s.log(topic(1))) {
        Some(log) => log,
        None => n.store().create(topic(1), "t1", config()).await.expect("create"),
    };
    log.configure(config());
    log
}

/// Lets seals and sweeps come to their end, and cleans until nothing is due. How many passes that took.
async fn clean(n: &Node) -> usize {
    let mut passes = 0;
    n.rt.sleep(Duration::from_secs(3)).await;
    for store in &n.stores {
        while store.clean().await.expect("clean") {
            passes += 1;
            assert!(passes < 500, "it never ends");
        }
    }
    passes
}

/// State without what a start or a checkpoint changes.
fn comparable(mut p: PartitionState) -> PartitionState {
    p.applied = rillway_log::Sequence(0);
    p.generation = rillway_log::Generation(0);
    for s in &mut p.segments {
        if s.status != rillway_log::SegmentStatus::Sealed {
            s.durable = 0;
        }
    }
    p
}

fn files(drill: &Drill) -> Vec<String> {
    let disk = drill.world.disk(common::NODE);
    let mut names: Vec<String> = disk
        .files()
        .into_iter()
        .filter(|p| p.starts_with("/data/t1-0"))
        .map(|p| p.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn of_each_key_the_newest_record_is_left_and_every_offset_leads_to_the_end() {
    for end in ENDS {
        let drill = Drill::new(1);
        let written = Written::default();
        let w = written.clone();
        let before = drill.life(end, move |n| async move {
            let log = log_of(&n).await;
            w.fill(&n, &log, 300, 20).await;
            assert!(clean(&n).await > 0);
            let (found, end) = read_from(&log, 0).await;
            w.check(&found);
            let state = log.flushed_state();
            let left: usize = found.values().map(BTreeSet::len).sum();
            let dirty = log.flushed_end() - state.clean_end;
            assert!(left <= w.keys() + dirty as usize, "{left} records of {} keys", w.keys());
            assert_eq!(end, log.flushed_end());
            // From anywhere a reader gets exactly what is there from that offset on.
            for from in 0..log.flushed_end() {
                let (some, end) = read_from(&log, from).await;
                assert_eq!(end, log.flushed_end());
                let want = found.iter().map(|(k, o)| (*k, o.range(from..).copied().collect()));
                let want: BTreeMap<u8, BTreeSet<i64>> =
                    want.filter(|(_, o): &(u8, BTreeSet<i64>)| !o.is_empty()).collect();
                assert_eq!(some, want, "from {from}");
            }
            let c = n.store().counters();
            assert!(c.segments_replaced > 0 && c.cleaned_bytes_out < c.cleaned_bytes_in, "{c:?}");
            (comparable(log.flushed_state()), found)
        });
        let w = written.clone();
        let old = before.clone();
        drill.life(end, move |n| async move {
            let log = log_of(&n).await;
            let state = comparable(log.flushed_state());
            assert_eq!(state.segments, old.0.segments);
            assert_eq!((state.clean_end, state.end), (old.0.clean_end, old.0.end));
            assert_eq!(read_from(&log, 0).await.0, old.1);
            w.fill(&n, &log, 100, 20).await;
            clean(&n).await;
            w.check(&read_from(&log, 0).await.0);
            n.rt.sleep(Duration::from_secs(3)).await;
        });
        drill.life(End::Kill, move |n| async move {
            let log = log_of(&n).await;
            written.check(&read_from(&log, 0).await.0);
            n.rt.sleep(Duration::from_secs(3)).await;
            let table: BTreeSet<(i64, u32)> =
                log.flushed_state().segments.iter().map(|s| (s.base, s.compaction)).collect();
            assert!(table.len() < 20, "small segments are put together: {table:?}");
        });
        // No file is left of what was replaced.
        let names = files(&drill);
        let bases: BTreeSet<&str> =
            names.iter().filter_map(|n| n.split_once('.')).map(|(b, _)| b).collect();
        let logs = names.iter().filter(|n| n.ends_with(".log")).count();
        assert_eq!(logs, bases.iter().filter(|b| b.len() == 20).count(), "{names:?}");
    }
}

#[test]
fn a_crash_at_any_moment_of_a_cleaning_leaves_old_or_new_and_never_a_mix() {
    let mut cleaned = 0;
    let mut interrupted = 0;
    for seed in 0..60 {
        let drill = Drill::new(seed);
        let written = Written::default();
        let w = written.clone();
        let faults = Faults { syncfs_delay: ms(3 + seed % 5 * 4), ..Default::default() };
        drill.world.set_faults(faults);
        drill.life(End::Kill, move |n| async move {
            let log = log_of(&n).await;
            log.configure(LogConfig { delete_retention_ms: 20, ..config() });
            w.fill(&n, &log, 120, 12).await;
            n.rt.sleep(Duration::from_secs(3)).await;
        });
        let end = if seed % 3 == 0 { End::Kill } else { End::PowerCut };
        for life in 0..3u64 {
            let w = written.clone();
            let counters = Rc::new(RefCell::new(Default::default()));
            let seen = Rc::clone(&counters);
            drill.cut_after(end, ms(4 + seed * 3 % 91 + life * 17), move |n| async move {
                let log = log_of(&n).await;
                log.configure(LogConfig { delete_retention_ms: 20, ..config() });
                w.check(&read_from(&log, 0).await.0);
                loop {
                    let worked = n.store().clean().await.expect("clean");
                    *seen.borrow_mut() = n.store().counters();
                    if !worked {
                        n.rt.sleep(ms(1)).await;
                    }
                }
            });
            let c: rillway_log::StoreCounters = *counters.borrow();
            cleaned += c.segments_replaced;
            interrupted += c.interrupted_cleanings;
        }
        let w = written.clone();
        let found = drill.life(End::PowerCut, move |n| async move {
            let log = log_of(&n).await;
            w.check(&read_from(&log, 0).await.0);
            log.configure(LogConfig { delete_retention_ms: 20, ..config() });
            n.rt.sleep(ms(50)).await;
            clean(&n).await;
            n.rt.sleep(ms(50)).await;
            clean(&n).await;
            let (found, _) = read_from(&log, 0).await;
            w.check(&found);
            found
        });
        drill.life(End::Kill, move |n| async move {
            let log = log_of(&n).await;
            assert_eq!(read_from(&log, 0).await.0, found);
        });
    }
    assert!(cleaned > 0 && interrupted > 0, "{cleaned} replaced, {interrupted} interrupted");
}

#[test]
fn a_map_that_holds_few_keys_takes_more_passes_to_the_same_end() {
    let mut left = Vec::new();
    for bytes in [24 * 5, 24 * 20, 1 << 20] {
        let mut drill = Drill::new(5);
        drill.store.dedupe_bytes = bytes;
        left.push(drill.life(End::Kill, |n| async move {
            let log = log_of(&n).await;
            let written = Written::default();
            written.fill(&n, &log, 200, 30).await;
            let passes = clean(&n).await;
            let (found, _) = read_from(&log, 0).await;
            written.check(&found);
            (found, passes)
        }));
    }
    assert!(
        left[0].1 > left[1].1 && left[1].1 > left[2].1,
        "{:?}",
        left.iter().map(|l| l.1).collect::<Vec<_>>()
    );
    assert!(left[0].0 == left[2].0 && left[1].0 == left[2].0);
}

#[test]
fn a_tombstone_stays_for_its_time_goes_after_it_and_what_it_deleted_never_comes_back() {
    for end in ENDS {
        let drill = Drill::new(2);
        drill.life(end, |n| async move {
            let log = log_of(&n).await;
            log.configure(LogConfig { delete_retention_ms: 10_000, ..config() });
            let written = Written::default();
            written
                .append(&n, &log, Codec::Zstd, &[(1, Some(50)), (2, Some(50)), (3, Some(0))])
                .await;
            written.append(&n, &log, Codec::None, &[(1, None)]).await;
            // Rolled, so that what is above can be cleaned.
            written.append(&n, &log, Codec::None, &[(9, Some(60 * KIB))]).await;
            written.append(&n, &log, Codec::None, &[(9, Some(60 * KIB))]).await;
            clean(&n).await;
            let found = read_from(&log, 0).await.0;
            assert_eq!(found[&1], BTreeSet::from([3]), "the tombstone, and nothing older");
        });
        drill.life(end, |n| async move {
            let log = log_of(&n).await;
            n.rt.sleep(Duration::from_secs(2)).await;
            assert!(!n.store().clean().await.expect("clean"), "its time is not over");
            assert_eq!(read_from(&log, 0).await.0[&1], BTreeSet::from([3]));
            n.rt.sleep(Duration::from_secs(12)).await;
            assert!(clean(&n).await > 0, "nothing else is dirty");
            let found = read_from(&log, 0).await.0;
            assert!(!found.contains_key(&1));
            assert_eq!(
                (found[&2].len(), found[&3].len()),
                (1, 1),
                "an empty value is no tombstone"
            );
            assert_eq!(clean(&n).await, 0);
        });
        drill.life(End::Kill, |n| async move {
            let found = read_from(&log_of(&n).await, 0).await.0;
            assert!(!found.contains_key(&1) && found.contains_key(&3));
        });
    }
}

#[test]
fn a_log_that_is_cleaned_up_to_its_empty_active_segment_goes_on() {
    // By age all of it is rolled and cleaned; by time all of it is removed and nothing is left to clean.
    let by_age = LogConfig { max_compaction_lag_ms: 1_000, ..config() };
    let by_both = LogConfig { delete: true, retention_ms: 1_000, ..by_age };
    for config in [by_age, by_both] {
        for end in ENDS {
            let drill = Drill::new(2);
            drill.life(end, move |n| async move {
                let log = log_of(&n).await;
                log.configure(config);
                let written = Written::default();
                for _ in 0..3 {
                    written.append(&n, &log, Codec::None, &[(1, Some(50)), (2, Some(50))]).await;
                    n.rt.sleep(Duration::from_secs(4)).await;
                    // The first look rolls, the second cleans what was rolled.
                    clean(&n).await;
                    clean(&n).await;
                }
                assert!(log.refused().is_none(), "{:?}", log.refused());
                written.append(&n, &log, Codec::None, &[(3, Some(50))]).await;
            });
            drill.life(End::Kill, move |n| async move {
                let log = log_of(&n).await;
                log.configure(config);
                n.rt.sleep(Duration::from_secs(4)).await;
                clean(&n).await;
                assert!(log.refused().is_none(), "{:?}", log.refused());
                Written::default().append(&n, &log, Codec::None, &[(4, Some(50))]).await;
            });
        }
    }
}

#[test]
fn readers_and_searches_go_on_while_segments_are_replaced_under_them() {
    for seed in 0..8 {
        let mut drill = Drill::new(seed);
        drill.store.cache_bytes = 64 << 10;
        drill.world.set_faults(Faults { name_delay: ms(2), ..Default::default() });
        drill.life(End::Kill, move |n| async move {
            let log = log_of(&n).await;
            let written = Written::default();
            written.fill(&n, &log, 150, 15).await;
            n.rt.sleep(Duration::from_secs(2)).await;
            let readers: Vec<_> = (0..4u64)
                .map(|r| {
                    let (log, rt) = (Rc::clone(&log), n.rt.clone());
                    n.rt.spawn(rillway_io::Class::Data, async move {
                        for i in 0..40 {
                            rt.sleep(Duration::from_micros(300 * (r + 1))).await;
                            let from = (i * 31 + r as i64 * 7) % log.flushed_end();
                            read_from(&log, from).await;
                            let found = log.offset_for_timestamp(1_700_000_000_001).await;
                            found.expect("a search").expect("some record is so new");
                            log.offset_of_max_timestamp().await.expect("a search");
                        }
                    })
                })
                .collect();
            for _ in 0..5 {
                clean(&n).await;
                written.fill(&n, &log, 20, 15).await;
            }
            for reader in readers {
                reader.await;
            }
            assert_eq!(log.refused(), None);
            written.check(&read_from(&log, 0).await.0);
        });
    }
}

#[test]
fn retention_and_compaction_of_one_log_do_not_get_in_each_others_way() {
    let drill = Drill::new(3);
    let start = drill.life(End::PowerCut, |n| async move {
        let log = log_of(&n).await;
        let written = Written::default();
        for _ in 0..6 {
            written.fill(&n, &log, 60, 60).await;
            n.rt.sleep(Duration::from_secs(2)).await;
            log.configure(LogConfig {
                delete: true,
                retention_ms: -1,
                retention_bytes: 100 << 10,
                ..config()
            });
            let (store, retention) = (n.store().clone(), n.store().clone());
            let cleaning = n.rt.spawn(rillway_io::Class::Background, async move {
                while store.clean().await.expect("clean") {}
            });
            for _ in 0..10 {
                retention.enforce_retention().await.expect("retention");
                n.rt.sleep(ms(3)).await;
            }
            cleaning.await;
        }
        assert!(log.log_start() > 0 && n.store().counters().segments_replaced > 0);
        read_from(&log, log.log_start()).await;
        log.log_start()
    });
    drill.life(End::Kill, move |n| async move {
        let log = log_of(&n).await;
        assert_eq!((log.log_start(), log.refused()), (start, None));
        read_from(&log, start).await;
    });
}

#[test]
fn rotten_bytes_are_not_given_a_new_checksum() {
    let drill = Drill::new(4);
    let written = Written::default();
    let w = written.clone();
    drill.life(End::Clean, move |n| async move {
        let log = log_of(&n).await;
        w.fill(&n, &log, 80, 8).await;
        n.rt.sleep(Duration::from_secs(3)).await;
    });
    let first = Path::new("/data/t1-0/00000000000000000000.log");
    drill.world.disk(common::NODE).flip(first, 200, 3);
    drill.life(End::Clean, |n| async move {
        let log = log_of(&n).await;
        clean(&n).await;
        let state = log.flushed_state();
        assert!(state.segments.iter().all(|s| s.compaction == 0), "it is left alone");
        assert_eq!(n.store().counters().segments_replaced, 0);
        let fetched = log.read(0, 1, true, 1 << 20).await.expect("read");
        let bytes: Vec<u8> = fetched.chunks.iter().flat_map(|c| c.iter().copied()).collect();
        assert!(!BatchView::parse(&bytes).unwrap().check_crc(), "its reader finds it");
    });
}

#[test]
fn without_room_on_the_disk_nothing_is_replaced_and_nothing_left_behind() {
    let drill = Drill::new(6);
    let written = Written::default();
    let w = written.clone();
    drill.life(End::PowerCut, move |n| async move {
        let log = log_of(&n).await;
        w.fill(&n, &log, 150, 10).await;
        n.rt.sleep(Duration::from_secs(3)).await;
    });
    drill.world.disk(common::NODE).set_capacity(1 << 40);
    let used = (1u64 << 40) - drill.world.disk(common::NODE).available();
    drill.world.disk(common::NODE).set_capacity(used + (16 << 10));
    let w = written.clone();
    drill.life(End::Kill, move |n| async move {
        let log = log_of(&n).await;
        n.rt.sleep(Duration::from_secs(3)).await;
        let _ = n.store().clean().await;
        w.check(&read_from(&log, 0).await.0);
        assert!(log.flushed_state().segments.iter().all(|s| s.compaction == 0));
    });
    let names = files(&drill);
    assert!(names.iter().all(|n| !n.contains(".1.")), "{names:?}");
    drill.world.disk(common::NODE).set_capacity(1 << 40);
    drill.life(End::Kill, move |n| async move {
        let log = log_of(&n).await;
        clean(&n).await;
        assert!(n.store().counters().segments_replaced > 0);
        written.check(&read_from(&log, 0).await.0);
    });
}

#[test]
fn compacted_segments_go_with_their_partition_to_other_rings_and_producers_stay_known() {
    let mut drill = Drill::new(7);
    let written = Written::default();
    for rings in [1, 2, 1] {
        drill.storage.rings = rings;
        let w = written.clone();
        drill.life(End::PowerCut, move |n| async move {
            let log = log_of(&n).await;
            w.check(&read_from(&log, 0).await.0);
            w.fill(&n, &log, 60, 8).await;
            // An idempotent producer whose only batch is superseded at once.
            let mut own = BatchBuilder::new(Codec::None).producer(77, 0, 0);
            own.push(5, Some(b"\x63"), Some(b"own"), &[("h", Some(b"1")), ("h", None)]);
            let own = own.build().unwrap();
            let appended = log.append_as_leader(&own).await.expect("append");
            let first = rings == 1 && w.0.borrow().get(&0x63).is_none();
            assert_eq!(appended.duplicate, !first, "{rings} rings");
            appended.receipt.wait().await.expect("flushed");
            w.0.borrow_mut().entry(0x63).or_default().insert(appended.base_offset, false);
            w.append(&n, &log, Codec::None, &[(0x63, Some(60 * KIB))]).await;
            w.append(&n, &log, Codec::None, &[(0x63, Some(60 * KIB))]).await;
            clean(&n).await;
            w.check(&read_from(&log, 0).await.0);
        });
    }
}

#[test]
fn a_partition_that_is_deleted_while_it_is_cleaned_leaves_its_successor_of_the_same_name_alone() {
    for moment in 0..120u64 {
        let drill = Drill::new(moment);
        drill.world.set_faults(Faults { name_delay: ms(2), ..Default::default() });
        drill.life(End::Kill, move |n| async move {
            let log = log_of(&n).await;
            Written::default().fill(&n, &log, 150, 15).await;
            n.rt.sleep(Duration::from_secs(2)).await;
            let store = n.store().clone();
            let cleaning = n.rt.spawn(rillway_io::Class::Background, async move {
                store.clean().await.expect("a cleaning whose partition is deleted is no failure");
            });
            n.rt.sleep(Duration::from_micros(500 * moment)).await;
            assert!(n.store().delete(topic(1)).await.expect("delete"));
            let heir = n.store().create(topic(2), "t1", config()).await.expect("create");
            let written = Written::default();
            written.fill(&n, &heir, 60, 15).await;
            cleaning.await;
            clean(&n).await;
            written.check(&read_from(&heir, 0).await.0);
            assert_eq!(heir.refused(), None, "moment {moment}");
        });
        drill.world.set_faults(Faults::default());
        drill.life(End::Clean, move |n| async move {
            let heir = n.store().log(topic(2)).expect("it is there");
            heir.configure(config());
            clean(&n).await;
            let (_, end) = read_from(&heir, 0).await;
            assert_eq!((end, heir.refused()), (heir.flushed_end(), None), "moment {moment}");
        });
    }
}
