//! The simulated disk, clause by clause of storage.md section 11: what it keeps, and what it must be able to lose.
//!
//! "May be lost" is a claim about seeds: each such test runs many and asks for both outcomes.

use std::cell::Cell;
use std::future::{Future, pending};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use rillway_io::sim::{Faults, World};
use rillway_io::{BLOCK, Chunk, Class, OpenOptions, Runtime};

const NODE: &str = "node";
const LIMIT: Duration = Duration::from_secs(60);
const SEEDS: u64 = 60;
const B: u64 = BLOCK as u64;

fn path(name: &str) -> &Path {
    Path::new(name)
}

fn filled(byte: u8, blocks: usize) -> Chunk {
    Chunk::copy_from(&vec![byte; blocks * BLOCK])
}

fn create() -> OpenOptions {
    OpenOptions::new().create(true)
}

/// Runs `main` on a node to its end; the process is gone afterwards, the machine is not.
fn live<T, F, Fut>(world: &World, main: F) -> T
where
    T: 'static,
    F: Fn(Runtime) -> Fut + 'static,
    Fut: Future<Output = T> + 'static,
{
    let node = world.start_node(NODE, 1, main);
    world.run_until(|| node.is_finished(), LIMIT).expect("the node ends");
    world.run_until(|| !world.is_running(NODE), LIMIT).expect("the process ends");
    node.take().expect("finished").remove(0)
}

/// Runs `main` until it has set the flag, and leaves it running.
fn live_until<F, Fut>(world: &World, main: F)
where
    F: Fn(Runtime, Rc<Cell<bool>>) -> Fut + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let reached = Rc::new(Cell::new(false));
    let flag = Rc::clone(&reached);
    let _node = world.start_node(NODE, 1, move |rt| main(rt, Rc::clone(&flag)));
    world.run_until(|| reached.get(), LIMIT).expect("the point is reached");
}

fn read_all(world: &World, name: &str) -> Option<Vec<u8>> {
    world.disk(NODE).read(path(name))
}

/// Whether every one of the bytes at these blocks is `byte`.
fn holds(bytes: &[u8], blocks: std::ops::Range<usize>, byte: u8) -> bool {
    bytes
        .get(blocks.start * BLOCK..blocks.end * BLOCK)
        .is_some_and(|part| part.iter().all(|b| *b == byte))
}

/// Runs a scenario over many seeds and counts how often it says true.
fn count(scenario: impl Fn(&World) -> bool) -> u64 {
    (0..SEEDS).filter(|seed| scenario(&World::new(*seed))).count() as u64
}

fn assert_both(kept: u64) {
    assert!(kept > 0 && kept < SEEDS, "kept in {kept} of {SEEDS} worlds: both must happen");
}

/// A file of 16 durable blocks of zeros, with a durable name, the file still open.
async fn prepared(rt: &Runtime, name: &str) -> rillway_io::DirectFile {
    let disk = rt.disk();
    let file = disk.open(path(name), create()).await.expect("open");
    file.allocate(0, 16 * B).await.expect("allocate");
    file.fdatasync().await.expect("fdatasync");
    disk.sync_dir(path("/")).await.expect("sync_dir");
    file
}

#[test]
fn a_flush_makes_the_completed_writes_of_its_file_durable() {
    let kept = count(|world| {
        live(world, |rt| async move {
            let file = prepared(&rt, "/f").await;
            file.write_at(filled(7, 4), 0).await.expect("write");
            file.fdatasync().await.expect("fdatasync");
        });
        world.power_cut(NODE);
        holds(&read_all(world, "/f").expect("there"), 0..4, 7)
    });
    assert_eq!(kept, SEEDS);
}

#[test]
fn a_flush_of_another_file_does_not_make_this_files_bytes_durable() {
    let kept = count(|world| {
        live(world, |rt| async move {
            let (file, other) = (prepared(&rt, "/f").await, prepared(&rt, "/g").await);
            file.write_at(filled(7, 4), 0).await.expect("write");
            other.write_at(filled(8, 1), 0).await.expect("write");
            other.fdatasync().await.expect("fdatasync");
        });
        world.power_cut(NODE);
        assert!(holds(&read_all(world, "/g").expect("there"), 0..1, 8));
        holds(&read_all(world, "/f").expect("there"), 0..4, 7)
    });
    assert_both(kept);
}

#[test]
fn lost_bytes_of_an_allocated_range_read_as_zeros() {
    let torn = count(|world| {
        live(world, |rt| async move {
            let file = prepared(&rt, "/f").await;
            file.write_at(filled(7, 8), 0).await.expect("write");
        });
        world.power_cut(NODE);
        let bytes = read_all(world, "/f").expect("there");
        assert_eq!(bytes.len(), 16 * BLOCK);
        for sector in bytes.chunks(512) {
            assert!(sector.iter().all(|b| *b == sector[0]), "a sector is whole");
            assert!(sector[0] == 0 || sector[0] == 7, "old or new, nothing else");
        }
        // Some of it kept and some lost: the subset is a proper one.
        bytes[..8 * BLOCK].contains(&0) && bytes.contains(&7)
    });
    assert_both(torn);
}

#[test]
fn a_lost_overwrite_leaves_the_old_bytes() {
    let kept = count(|world| {
        live(world, |rt| async move {
            let file = prepared(&rt, "/f").await;
            file.write_at(filled(1, 1), 0).await.expect("write");
            file.fdatasync().await.expect("fdatasync");
            file.write_at(filled(2, 1), 0).await.expect("write");
        });
        world.power_cut(NODE);
        let bytes = read_all(world, "/f").expect("there");
        assert!(bytes[..BLOCK].iter().all(|b| *b == 1 || *b == 2));
        holds(&bytes, 0..1, 2)
    });
    assert_both(kept);
}

#[test]
fn syncfs_makes_every_completed_write_durable() {
    let kept = count(|world| {
        live(world, |rt| async move {
            let disk = rt.disk();
            let anchor = disk.anchor(path("/")).await.expect("anchor");
            disk.create_dir_all(path("/d/e")).await.expect("create_dir_all");
            for name in ["/f", "/d/e/g"] {
                let file = disk.open(path(name), create()).await.expect("open");
                file.allocate(0, 16 * B).await.expect("allocate");
                file.write_at(filled(7, 4), 0).await.expect("write");
            }
            disk.rename(path("/f"), path("/d/h")).await.expect("rename");
            anchor.syncfs().await.expect("syncfs");
        });
        world.power_cut(NODE);
        ["/d/h", "/d/e/g"].iter().all(|name| {
            read_all(world, name).is_some_and(|b| b.len() == 16 * BLOCK && holds(&b, 0..4, 7))
        }) && read_all(world, "/f").is_none()
    });
    assert_eq!(kept, SEEDS);
}

#[test]
fn a_write_that_completed_after_a_flush_was_issued_is_not_covered_by_it() {
    let kept = count(|world| {
        let slow = Faults {
            flush_delay: Duration::from_millis(80),
            write_delay: Duration::from_micros(80),
            ..Faults::default()
        };
        world.set_faults(slow);
        live(world, |rt| async move {
            let file = prepared(&rt, "/f").await;
            let flushed = file.clone();
            let flush = rt.spawn(Class::Data, async move { flushed.fdatasync().await });
            // The flush is issued by now, and takes at least 10 ms.
            rt.sleep(Duration::from_millis(1)).await;
            file.write_at(filled(7, 4), 0).await.expect("write");
            flush.await.expect("not cancelled").expect("fdatasync");
        });
        world.power_cut(NODE);
        holds(&read_all(world, "/f").expect("there"), 0..4, 7)
    });
    assert_both(kept);
}

#[test]
fn a_write_that_completed_after_syncfs_was_issued_is_not_covered_by_it() {
    let kept = count(|world| {
        world.set_faults(Faults { syncfs_delay: Duration::from_millis(80), ..Faults::default() });
        live(world, |rt| async move {
            let file = prepared(&rt, "/f").await;
            let anchor = rt.disk().anchor(path("/")).await.expect("anchor");
            let sync = rt.spawn(Class::Data, async move { anchor.syncfs().await });
            rt.sleep(Duration::from_millis(1)).await;
            file.write_at(filled(7, 4), 0).await.expect("write");
            sync.await.expect("not cancelled").expect("syncfs");
        });
        world.power_cut(NODE);
        holds(&read_all(world, "/f").expect("there"), 0..4, 7)
    });
    assert_both(kept);
}

#[test]
fn an_o_dsync_write_keeps_only_its_own_bytes() {
    let others = count(|world| {
        live(world, |rt| async move {
            let file = prepared(&rt, "/f").await;
            file.write_at(filled(7, 4), 0).await.expect("write");
            let options = OpenOptions::new().write(true).dsync(true);
            let dsync = rt.disk().open(path("/f"), options).await.expect("open");
            dsync.write_at(filled(8, 1), 8 * B).await.expect("write");
        });
        world.power_cut(NODE);
        let bytes = read_all(world, "/f").expect("there");
        assert!(holds(&bytes, 8..9, 8), "its own bytes are durable");
        holds(&bytes, 0..4, 7)
    });
    assert_both(others);
}

#[test]
fn an_o_dsync_write_keeps_the_size_it_gave_the_file() {
    let kept = count(|world| {
        live(world, |rt| async move {
            let disk = rt.disk();
            let file = disk.open(path("/f"), create().dsync(true)).await.expect("open");
            disk.sync_dir(path("/")).await.expect("sync_dir");
            file.write_at(filled(8, 1), 3 * B).await.expect("write");
        });
        world.power_cut(NODE);
        read_all(world, "/f").is_some_and(|b| b.len() == 4 * BLOCK && holds(&b, 3..4, 8))
    });
    assert_eq!(kept, SEEDS);
}

#[test]
fn an_unsynced_rename_may_be_lost() {
    let kept = count(|world| {
        live(world, |rt| async move {
            let disk = rt.disk();
            disk.write_file(path("/old"), b"1").await.expect("write_file");
            disk.write_file(path("/new"), b"2").await.expect("write_file");
            disk.sync_dir(path("/")).await.expect("sync_dir");
            disk.rename(path("/new"), path("/old")).await.expect("rename");
        });
        world.power_cut(NODE);
        let (old, new) = (read_all(world, "/old"), read_all(world, "/new"));
        match (old.as_deref(), new.as_deref()) {
            (Some(b"2"), None) => true,
            (Some(b"1"), Some(b"2")) => false,
            other => panic!("a rename happens or does not, but: {other:?}"),
        }
    });
    assert_both(kept);
}

#[test]
fn a_rename_before_a_directory_sync_is_kept() {
    let kept = count(|world| {
        live(world, |rt| async move {
            let disk = rt.disk();
            disk.write_file(path("/new"), b"2").await.expect("write_file");
            disk.rename(path("/new"), path("/current")).await.expect("rename");
            disk.sync_dir(path("/")).await.expect("sync_dir");
        });
        world.power_cut(NODE);
        read_all(world, "/current").as_deref() == Some(b"2") && read_all(world, "/new").is_none()
    });
    assert_eq!(kept, SEEDS);
}

#[test]
fn an_unsynced_unlink_may_come_back() {
    let back = count(|world| {
        live(world, |rt| async move {
            let disk = rt.disk();
            disk.write_file(path("/f"), b"1").await.expect("write_file");
            disk.sync_dir(path("/")).await.expect("sync_dir");
            disk.remove_file(path("/f")).await.expect("remove_file");
        });
        assert!(read_all(world, "/f").is_none());
        world.power_cut(NODE);
        read_all(world, "/f").is_some_and(|b| b == b"1")
    });
    assert_both(back);
}

#[test]
fn a_new_file_whose_directory_was_not_synced_may_be_missing() {
    let kept = count(|world| {
        live(world, |rt| async move {
            rt.disk().write_file(path("/f"), b"1").await.expect("write_file");
        });
        world.power_cut(NODE);
        read_all(world, "/f").is_some()
    });
    assert_both(kept);
}

#[test]
fn an_unsynced_truncate_may_be_lost() {
    let kept = count(|world| {
        live(world, |rt| async move {
            let file = prepared(&rt, "/f").await;
            file.truncate(B).await.expect("truncate");
        });
        world.power_cut(NODE);
        match read_all(world, "/f").expect("there").len() {
            BLOCK => true,
            n if n == 16 * BLOCK => false,
            n => panic!("neither the old nor the new length: {n}"),
        }
    });
    assert_both(kept);
}

#[test]
fn an_unsynced_allocation_may_be_lost_and_a_flushed_one_is_not() {
    let kept = count(|world| {
        live(world, |rt| async move {
            let file = prepared(&rt, "/f").await;
            file.allocate(16 * B, 4 * B).await.expect("allocate");
        });
        world.power_cut(NODE);
        let len = read_all(world, "/f").expect("there").len();
        assert!(len == 16 * BLOCK || len == 20 * BLOCK);
        len == 20 * BLOCK
    });
    assert_both(kept);
}

#[test]
fn a_kill_keeps_completed_writes() {
    let kept = count(|world| {
        live_until(world, |rt, reached| async move {
            let file = prepared(&rt, "/f").await;
            file.write_at(filled(7, 4), 0).await.expect("write");
            reached.set(true);
            pending::<()>().await;
        });
        world.kill(NODE);
        holds(&read_all(world, "/f").expect("there"), 0..4, 7)
    });
    assert_eq!(kept, SEEDS);
}

/// Kills a node with a write of sevens in flight on `/f`, locked through its own descriptor or not.
fn kill_in_flight(world: &World, locked: bool) {
    world.set_faults(Faults { write_delay: Duration::from_millis(10), ..Faults::default() });
    live_until(world, move |rt, reached| async move {
        let file = prepared(&rt, "/f").await;
        if locked {
            file.lock_exclusive(Duration::ZERO).await.expect("lock");
        }
        let (writer, own) = (file.clone(), rt.clone());
        let write = rt.spawn(Class::Data, async move { writer.write_at(filled(7, 4), 0).await });
        own.sleep(Duration::from_micros(200)).await;
        assert!(!write.is_finished());
        reached.set(true);
        pending::<()>().await;
    });
    world.kill(NODE);
}

#[test]
fn a_write_in_flight_at_a_kill_may_land_after_the_next_life_opened_an_unlocked_file() {
    let landed_later = count(|world| {
        kill_in_flight(world, false);
        live(world, |rt| async move {
            let file = rt.disk().open(path("/f"), OpenOptions::new()).await.expect("open");
            let before = file.read_at(0, 4 * BLOCK).await.expect("read");
            rt.sleep(Duration::from_secs(5)).await;
            let after = file.read_at(0, 4 * BLOCK).await.expect("read");
            *before != *after
        })
    });
    assert_both(landed_later);
}

#[test]
fn a_write_in_flight_at_a_kill_lands_in_a_locked_file_only_before_the_next_lock() {
    let changed = count(|world| {
        kill_in_flight(world, true);
        live(world, |rt| async move {
            let options = OpenOptions::new().write(true);
            let file = rt.disk().open(path("/f"), options).await.expect("open");
            file.lock_exclusive(Duration::from_secs(10)).await.expect("lock");
            let before = file.read_at(0, 4 * BLOCK).await.expect("read");
            rt.sleep(Duration::from_secs(5)).await;
            let after = file.read_at(0, 4 * BLOCK).await.expect("read");
            *before != *after
        })
    });
    assert_eq!(changed, 0);
}

#[test]
fn the_lock_of_a_dead_life_is_held_by_its_late_writes() {
    let waited = count(|world| {
        kill_in_flight(world, true);
        live(world, |rt| async move {
            let options = OpenOptions::new().write(true);
            let file = rt.disk().open(path("/f"), options).await.expect("open");
            let asked = rt.now();
            file.lock_exclusive(Duration::from_secs(10)).await.expect("lock");
            rt.now() - asked > Duration::from_millis(100)
        })
    });
    assert_both(waited);
}

#[test]
fn a_lock_is_exclusive_within_a_life_and_free_after_it() {
    let world = World::new(1);
    live(&world, |rt| async move {
        let disk = rt.disk();
        let lock = disk.lock(path("/LOCK"), Duration::ZERO).await.expect("free");
        let second = disk.lock(path("/LOCK"), Duration::from_millis(50)).await;
        assert_eq!(second.expect_err("held").kind(), std::io::ErrorKind::WouldBlock);
        drop(lock);
        let _again = disk.lock(path("/LOCK"), Duration::ZERO).await.expect("free again");
    });
    live(&world, |rt| async move {
        let _lock = rt.disk().lock(path("/LOCK"), Duration::ZERO).await.expect("free");
    });
}

#[test]
fn a_write_in_flight_at_a_power_cut_is_kept_in_part() {
    let torn = count(|world| {
        world.set_faults(Faults { write_delay: Duration::from_millis(10), ..Faults::default() });
        live_until(world, |rt, reached| async move {
            let file = prepared(&rt, "/f").await;
            let write = rt.spawn(Class::Data, async move { file.write_at(filled(7, 4), 0).await });
            rt.sleep(Duration::from_micros(200)).await;
            assert!(!write.is_finished());
            reached.set(true);
            pending::<()>().await;
        });
        world.power_cut(NODE);
        let bytes = read_all(world, "/f").expect("there");
        bytes[..4 * BLOCK].contains(&7) && bytes[..4 * BLOCK].contains(&0)
    });
    assert_both(torn);
}

#[test]
fn a_write_whose_future_was_dropped_still_completes() {
    let world = World::new(3);
    live(&world, |rt| async move {
        let file = prepared(&rt, "/f").await;
        let write = file.write_at(filled(7, 1), 0);
        assert!(rt.timeout(Duration::ZERO, write).await.is_none());
        file.close().await.expect("close");
        let file = rt.disk().open(path("/f"), OpenOptions::new()).await.expect("open");
        assert!(file.read_at(0, BLOCK).await.expect("read").iter().all(|b| *b == 7));
    });
}

#[test]
fn what_a_failed_flush_should_have_covered_no_later_flush_covers() {
    let kept = count(|world| {
        world.set_faults(Faults { eio_on_flush: Some(2), ..Faults::default() });
        live(world, |rt| async move {
            let file = prepared(&rt, "/f").await;
            file.write_at(filled(7, 4), 0).await.expect("write");
            file.fdatasync().await.expect_err("the second flush fails");
            file.fdatasync().await.expect("the third does not");
        });
        world.power_cut(NODE);
        holds(&read_all(world, "/f").expect("there"), 0..4, 7)
    });
    assert_both(kept);
}

#[test]
fn the_nth_flush_fails_and_so_does_the_nth_write() {
    let world = World::new(4);
    world.set_faults(Faults {
        only_paths: Some("ring".to_string()),
        eio_on_flush: Some(2),
        eio_on_write: Some(3),
        ..Faults::default()
    });
    live(&world, |rt| async move {
        let disk = rt.disk();
        let other = disk.open(path("/other"), create()).await.expect("open");
        other.fdatasync().await.expect("not a ring");
        let file = disk.open(path("/a.ring"), create()).await.expect("open");
        file.write_at(filled(1, 1), 0).await.expect("first write");
        file.fdatasync().await.expect("first flush");
        file.write_at(filled(1, 1), 0).await.expect("second write");
        let flush = file.fdatasync().await.expect_err("second flush");
        assert_eq!(flush.source.raw_os_error(), Some(5), "EIO: {flush}");
        file.write_at(filled(1, 1), 0).await.expect_err("third write");
        file.write_at(filled(1, 1), 0).await.expect("fourth write");
        file.fdatasync().await.expect("third flush");
    });
}

#[test]
fn a_syncfs_that_lies_is_found_out_by_the_next_flush() {
    let kept = count(|world| {
        world.set_faults(Faults { syncfs_lies: Some(1), ..Faults::default() });
        live(world, |rt| async move {
            let (file, ring) = (prepared(&rt, "/f").await, prepared(&rt, "/r").await);
            let anchor = rt.disk().anchor(path("/")).await.expect("anchor");
            file.write_at(filled(7, 4), 0).await.expect("write");
            anchor.syncfs().await.expect("it lies");
            ring.fdatasync().await.expect_err("a flush does not");
            ring.write_at(filled(1, 1), 0).await.expect_err("nor does a write");
        });
        world.power_cut(NODE);
        holds(&read_all(world, "/f").expect("there"), 0..4, 7)
    });
    assert_both(kept);
}

#[test]
fn a_full_disk_refuses_writes_and_allocations_until_something_is_removed() {
    let world = World::new(5);
    world.set_faults(Faults { capacity: Some(20 * B), ..Faults::default() });
    live(&world, |rt| async move {
        let file = prepared(&rt, "/f").await;
        let full = file.allocate(16 * B, 8 * B).await.expect_err("4 blocks are free");
        assert!(full.is_no_space(), "{full}");
        let other = rt.disk().open(path("/g"), create()).await.expect("open");
        other.write_at(filled(1, 4), 0).await.expect("fits");
        assert!(other.write_at(filled(1, 1), 4 * B).await.expect_err("full").is_no_space());
        file.write_at(filled(1, 16), 0).await.expect("what is allocated can be written");
        drop(other);
        rt.disk().remove_file(path("/g")).await.expect("remove_file");
        file.allocate(16 * B, 4 * B).await.expect("free again");
        let stat = rt.disk().stat_fs(path("/")).await.expect("stat_fs");
        assert_eq!((stat.total, stat.available), (20 * B, 0));
    });
}

#[test]
fn a_short_write_is_an_error() {
    let world = World::new(6);
    world.set_faults(Faults { short_write: Some(1), ..Faults::default() });
    live(&world, |rt| async move {
        let file = prepared(&rt, "/f").await;
        let error = file.write_at(filled(7, 4), 0).await.expect_err("short");
        assert_eq!(error.kind(), std::io::ErrorKind::WriteZero);
    });
}

#[test]
fn a_read_may_return_one_flipped_bit() {
    let world = World::new(7);
    world.set_faults(Faults { bit_flip_on_read: Some(1), ..Faults::default() });
    live(&world, |rt| async move {
        let file = prepared(&rt, "/f").await;
        let flipped = file.read_at(0, BLOCK).await.expect("read");
        assert_eq!(flipped.iter().map(|b| b.count_ones()).sum::<u32>(), 1);
        let good = file.read_at(0, BLOCK).await.expect("read");
        assert!(good.iter().all(|b| *b == 0), "the medium is not changed");
    });
}

#[test]
fn the_disk_outlives_the_node_and_can_be_damaged_from_outside() {
    let world = World::new(8);
    live(&world, |rt| async move {
        rt.disk().write_file(path("/f"), b"abc").await.expect("write_file");
    });
    let disk = world.disk(NODE);
    assert_eq!(disk.files(), [path("/f")]);
    disk.flip(path("/f"), 1, 0);
    assert_eq!(disk.read(path("/f")).expect("there"), b"acc");
    disk.truncate(path("/f"), 1);
    live(&world, |rt| async move {
        assert_eq!(rt.disk().read_file(path("/f"), 10).await.expect("read_file"), b"a");
    });
    disk.remove(path("/f"));
    assert!(disk.files().is_empty());
}
