//! What both backends promise: each scenario runs on this machine's kernel and, over several seeds, in simulation.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rillway_io::kernel::{self, KernelOptions};
use rillway_io::sim::World;
use rillway_io::{
    AppendBuffer, BLOCK, BindOptions, Chunk, Class, Conn, FileRange, Gate, Inbox, IoList, Mailbox,
    Notify, OpenOptions, Runtime, Semaphore, Source, TRANSFER_BYTES_MIN, Transfer, TransferMode,
    TrySendError, mailbox, reply,
};

const SEEDS: u64 = 12;
const B: u64 = BLOCK as u64;

/// Runs a scenario on `cores` executors of this machine, in a directory of its own.
fn on_kernel<F, Fut>(name: &str, cores: usize, scenario: F)
where
    F: Fn(Runtime, PathBuf) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("conformance-{name}"));
    // Left by a run that failed, or not there.
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a directory for the test");
    let options = KernelOptions { cpus: vec![0; cores], ..KernelOptions::default() };
    let at = dir.clone();
    kernel::start(options, move |rt| scenario(rt, at.clone())).expect("io_uring works here").join();
    std::fs::remove_dir_all(&dir).expect("it is ours");
}

/// The same in simulated worlds.
fn in_simulation<F, Fut>(cores: usize, scenario: F)
where
    F: Fn(Runtime, PathBuf) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    for seed in 0..SEEDS {
        let world = World::new(seed);
        let run = scenario.clone();
        let node = world.start_node("node", cores, move |rt| {
            let run = run.clone();
            async move {
                let dir = PathBuf::from("/test");
                rt.disk().create_dir_all(&dir).await.expect("create_dir_all");
                run(rt, dir).await;
            }
        });
        let result = world.run_until(|| node.is_finished(), Duration::from_secs(600));
        result.unwrap_or_else(|stuck| panic!("{stuck}"));
    }
}

/// One scenario, two tests.
macro_rules! conforms {
    ($($(#[$doc:meta])* $name:ident on $cores:literal: $scenario:expr;)*) => {$(
        $(#[$doc])*
        mod $name {
            use super::*;

            #[test]
            fn on_the_kernel() {
                on_kernel(stringify!($name), $cores, $scenario);
            }

            #[test]
            fn in_the_simulator() {
                in_simulation($cores, $scenario);
            }
        }
    )*};
}

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 31 + i / 253 + salt * 7) % 251) as u8).collect()
}

fn create() -> OpenOptions {
    OpenOptions::new().create(true)
}

fn list(bytes: Vec<u8>) -> IoList {
    let mut list = IoList::new();
    list.push_bytes(bytes);
    list
}

fn transfer() -> Transfer {
    Transfer::new(TransferMode::Splice, TRANSFER_BYTES_MIN)
}

fn range(source: Rc<dyn Source>, pos: u64, len: u64) -> FileRange {
    FileRange::new(source, pos, len, &transfer())
}

/// A connection to oneself: the client's end and the server's.
async fn pair(rt: &Runtime) -> (Conn, Conn) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let acceptor = rt.bind(any, BindOptions::default()).await.expect("bind");
    let addr = acceptor.local_addr();
    let own = rt.clone();
    let client = rt.spawn(Class::Connection, async move { own.connect(addr).await });
    let server = acceptor.accept().await.expect("accept");
    let client = client.await.expect("no panic").expect("connect");
    assert_eq!(client.peer_addr(), addr);
    assert_eq!(server.local_addr(), addr);
    assert_eq!(server.peer_addr(), client.local_addr());
    (client, server)
}

/// A file as a segment becomes one: direct writes of whole blocks, then cut to its length.
async fn write_and_cut(rt: &Runtime, path: &Path, bytes: &[u8], len: usize) {
    let file = rt.disk().open(path, create()).await.expect("open");
    for (i, part) in bytes.chunks(1 << 20).enumerate() {
        file.write_at(Chunk::copy_from(part), (i << 20) as u64).await.expect("write");
    }
    file.truncate(len as u64).await.expect("truncate");
    file.close().await.expect("close");
}

async fn recv_exactly(conn: &Conn, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let left = len - bytes.len();
        let got = conn.recv(&mut bytes, left).await.expect("recv");
        assert!(got > 0, "ended after {} of {len} bytes", bytes.len());
        assert!(bytes.len() <= len);
    }
    bytes
}

conforms! {
    what_was_written_is_read_at_any_position on 1: |rt, dir| async move {
        let file = rt.disk().open(&dir.join("f"), create()).await.expect("open");
        let bytes = pattern(8 * BLOCK, 1);
        // A whole buffer, then part of one.
        file.write_at(Chunk::copy_from(&bytes[..4 * BLOCK]), 0).await.expect("write");
        let rest = Chunk::copy_from(&bytes);
        file.write_at(rest.slice(4 * BLOCK..8 * BLOCK), 4 * B).await.expect("write");
        file.fdatasync().await.expect("fdatasync");
        assert_eq!(file.len().await.expect("len"), 8 * B);
        for (pos, len) in [(0, 8 * BLOCK), (1, 1), (4095, 2), (5000, 9000), (B as usize, BLOCK)] {
            let read = file.read_at(pos as u64, len).await.expect("read");
            assert!(*read == bytes[pos..pos + len], "{len} bytes at {pos}");
        }
        // What was read can be written again, in parts.
        let read = file.read_at(B, 2 * BLOCK).await.expect("read");
        file.write_at(read.slice(BLOCK..2 * BLOCK), 0).await.expect("write");
        let again = file.read_at(0, BLOCK).await.expect("read");
        assert!(*again == bytes[2 * BLOCK..3 * BLOCK]);
    };

    a_read_ends_at_the_end_of_the_file on 1: |rt, dir| async move {
        rt.disk().write_file(&dir.join("f"), &pattern(5_000, 2)).await.expect("write_file");
        let file = rt.disk().open(&dir.join("f"), OpenOptions::new()).await.expect("open");
        let all = file.read_at(0, 100_000).await.expect("read");
        assert_eq!(*all, *pattern(5_000, 2));
        let tail = file.read_at(4_990, 100).await.expect("read");
        assert_eq!(*tail, pattern(5_000, 2)[4_990..]);
        assert!(file.read_at(5_000, 10).await.expect("read").is_empty());
        assert!(file.read_at(1 << 30, 10).await.expect("read").is_empty());
        assert!(file.read_at(0, 0).await.expect("read").is_empty());
    };

    padding_of_a_frame_is_zero_on_disk on 1: |rt, dir| async move {
        let file = rt.disk().open(&dir.join("f"), create().dsync(true)).await.expect("open");
        let mut frame = AppendBuffer::with_capacity(64 * BLOCK);
        frame.extend(&pattern(5_000, 3));
        frame.patch(0, b"header");
        file.write_at(frame.freeze_padded(), 0).await.expect("write");
        let read = file.read_at(0, 64 * BLOCK).await.expect("read");
        assert_eq!(read.len(), 2 * BLOCK);
        assert_eq!(&read[..6], b"header");
        assert_eq!(read[6..5_000], pattern(5_000, 3)[6..]);
        assert!(read[5_000..].iter().all(|b| *b == 0));
    };

    allocation_extends_with_zeros_and_truncation_cuts on 1: |rt, dir| async move {
        let file = rt.disk().open(&dir.join("f"), create()).await.expect("open");
        file.allocate(0, 16 * B).await.expect("allocate");
        assert_eq!(file.len().await.expect("len"), 16 * B);
        file.write_at(Chunk::copy_from(&pattern(BLOCK, 1)), 0).await.expect("write");
        assert!(file.read_at(B, 15 * BLOCK).await.expect("read").iter().all(|b| *b == 0));
        // Inside the file it changes nothing.
        file.allocate(B, B).await.expect("allocate");
        assert_eq!(file.len().await.expect("len"), 16 * B);
        file.truncate(100).await.expect("truncate");
        file.truncate(2 * B).await.expect("truncate");
        let read = file.read_at(0, 2 * BLOCK).await.expect("read");
        assert_eq!(read[..100], pattern(BLOCK, 1)[..100]);
        assert!(read[100..].iter().all(|b| *b == 0));
    };

    an_operation_ends_whatever_happens_to_its_future on 1: |rt, dir| async move {
        let file = rt.disk().open(&dir.join("f"), create()).await.expect("open");
        for n in 0..50u8 {
            let chunk = Chunk::copy_from(&vec![n; 16 * BLOCK]);
            let write = file.write_at(chunk, u64::from(n) * 16 * B);
            // Polled once, then dropped.
            let _ = rt.timeout(Duration::ZERO, write).await;
        }
        file.close().await.expect("close");
        let bytes = rt.disk().read_file(&dir.join("f"), 50 * 16 * BLOCK).await.expect("read_file");
        for n in 0..50u8 {
            let at = usize::from(n) * 16 * BLOCK;
            assert!(bytes[at..at + 16 * BLOCK].iter().all(|b| *b == n), "write {n}");
        }
    };

    opening_says_why_it_failed on 1: |rt, dir| async move {
        let (disk, path) = (rt.disk(), dir.join("f"));
        let missing = disk.open(&path, OpenOptions::new()).await.expect_err("missing");
        assert!(missing.is_not_found() && missing.path.as_deref() == Some(&*path), "{missing}");
        disk.open(&path, OpenOptions::new().create_new(true)).await.expect("new");
        let exists = disk.open(&path, OpenOptions::new().create_new(true)).await;
        assert_eq!(exists.expect_err("not new").kind(), ErrorKind::AlreadyExists);
        disk.write_file(&path, b"abc").await.expect("write_file");
        let cut = disk.open(&path, create().truncate(true)).await.expect("open");
        assert_eq!(cut.len().await.expect("len"), 0);
        let reader = disk.open(&path, OpenOptions::new()).await.expect("open");
        let refused = reader.write_at(Chunk::copy_from(&[1; BLOCK]), 0).await;
        assert_eq!(refused.expect_err("not for writing").source.raw_os_error(), Some(9), "EBADF");
        let below = disk.open(&path.join("g"), create()).await.expect_err("not a directory");
        assert_eq!(below.kind(), ErrorKind::NotADirectory, "{below}");
    };

a_directory_is_renamed_by_one_of_two_cores_and_only_while_it_is_the_one_that_was_meant on 2: |rt, dir| async move {
        let disk = rt.disk();
        let (from, ready) = (dir.join("topic-0"), dir.join("ready"));
        let witness = from.join("identity");
        if rt.core() == 0 {
            disk.create_dir_all(&from).await.expect("create_dir_all");
            disk.write_file_unflushed(&witness, b"old").await.expect("write_file");
            disk.write_file(&ready, b"").await.expect("write_file");
        }
        while !disk.exists(&ready).await.expect("exists") {
            rt.sleep(Duration::from_millis(1)).await;
        }
        // Each that succeeds puts another in its place, as the next owner of the name does.
        let to = dir.join(format!("away-{}", rt.core()));
        if disk.rename_if(&from, &to, &witness, b"old").await.expect("rename_if") {
            disk.create_dir_all(&from).await.expect("create_dir_all");
            disk.write_file(&witness, b"new").await.expect("write_file");
        }
        let done = dir.join(format!("done-{}", rt.core()));
        disk.write_file(&done, b"").await.expect("write_file");
        while !disk.exists(&dir.join(format!("done-{}", 1 - rt.core()))).await.expect("exists") {
            rt.sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(disk.read_file(&witness, 10).await.expect("the new one stands"), b"new");
        let gone = disk.rename_if(&from, &to, &dir.join("nothing"), b"new").await;
        assert!(!gone.expect("no witness, no rename"));
    };

    names_are_created_listed_renamed_and_removed on 1: |rt, dir| async move {
        let disk = rt.disk();
        disk.create_dir_all(&dir.join("a/b")).await.expect("create_dir_all");
        disk.create_dir_all(&dir.join("a/b")).await.expect("again");
        for name in ["2", "10", "1"] {
            disk.write_file(&dir.join("a").join(name), name.as_bytes()).await.expect("write_file");
        }
        let entries = disk.read_dir(&dir.join("a")).await.expect("read_dir");
        let found: Vec<(&str, bool, u64)> =
            entries.iter().map(|e| (e.name.as_str(), e.is_dir, e.len)).collect();
        assert_eq!(found, [("1", false, 1), ("10", false, 2), ("2", false, 1), ("b", true, 0)]);
        let open = disk.open(&dir.join("a/1"), OpenOptions::new()).await.expect("open");
        disk.rename(&dir.join("a/10"), &dir.join("a/1")).await.expect("rename");
        assert!(!disk.exists(&dir.join("a/10")).await.expect("exists"));
        assert_eq!(disk.read_file(&dir.join("a/1"), 10).await.expect("read_file"), b"10");
        assert_eq!(*open.read_at(0, 10).await.expect("read"), *b"1", "the old file, still open");
        disk.rename(&dir.join("a"), &dir.join("c")).await.expect("rename of a directory");
        disk.sync_dir(&dir).await.expect("sync_dir");
        disk.remove_file(&dir.join("c/2")).await.expect("remove_file");
        let gone = disk.remove_file(&dir.join("c/2")).await.expect_err("gone");
        assert!(gone.is_not_found());
        disk.remove_dir_all(&dir.join("c")).await.expect("remove_dir_all");
        assert!(disk.read_dir(&dir).await.expect("read_dir").is_empty());
        assert!(disk.read_dir(&dir.join("c")).await.expect_err("gone").is_not_found());
    };

    a_small_file_has_a_largest_size on 1: |rt, dir| async move {
        let (disk, path) = (rt.disk(), dir.join("f"));
        disk.write_file(&path, &[1; 100]).await.expect("write_file");
        disk.write_file(&path, &[2; 50]).await.expect("a shorter one replaces it");
        assert_eq!(disk.read_file(&path, 50).await.expect("read_file"), [2; 50]);
        let large = disk.read_file(&path, 49).await.expect_err("too large");
        assert_eq!(large.kind(), ErrorKind::FileTooLarge, "{large}");
    };

    locks_exclude_each_other on 1: |rt, dir| async move {
        let (disk, path) = (rt.disk(), dir.join("LOCK"));
        let lock = disk.lock(&path, Duration::ZERO).await.expect("free");
        let held = disk.lock(&path, Duration::from_millis(60)).await.expect_err("held");
        assert_eq!(held.kind(), ErrorKind::WouldBlock);
        let waiting = {
            let (disk, path) = (disk.clone(), path.clone());
            rt.spawn(Class::Control, async move { disk.lock(&path, Duration::from_secs(60)).await })
        };
        rt.sleep(Duration::from_millis(30)).await;
        drop(lock);
        let lock = waiting.await.expect("no panic").expect("free in the end");
        let ring = disk.open(&path, OpenOptions::new().write(true)).await.expect("open");
        let held = ring.lock_exclusive(Duration::ZERO).await.expect_err("held");
        assert_eq!(held.kind(), ErrorKind::WouldBlock);
        drop(lock);
        ring.lock_exclusive(Duration::from_secs(60)).await.expect("free");
        ring.lock_exclusive(Duration::ZERO).await.expect("it is our own");
        ring.close().await.expect("close");
        disk.lock(&path, Duration::from_secs(60)).await.map(drop).expect("closed is unlocked");
    };

    everything_can_be_synced on 1: |rt, dir| async move {
        let disk = rt.disk();
        let anchor = disk.anchor(&dir).await.expect("anchor");
        let file = disk.open(&dir.join("f"), create()).await.expect("open");
        file.write_at(Chunk::copy_from(&[1; BLOCK]), 0).await.expect("write");
        let (first, second) = (anchor.syncfs(), anchor.syncfs());
        first.await.expect("syncfs");
        second.await.expect("syncfs");
        let stat = disk.stat_fs(&dir).await.expect("stat_fs");
        assert!(!stat.read_only && stat.available <= stat.total && !stat.kind.is_empty());
        assert!(stat.options.split(',').any(|o| o == "rw"), "{}", stat.options);
        assert!(disk.anchor(&dir.join("none")).await.expect_err("missing").is_not_found());
    };
}

conforms! {
    bytes_chunks_and_files_arrive_in_order on 1: |rt, dir| async move {
        let bytes = pattern(3 * 1024 * 1024, 5);
        let file = rt.disk().open(&dir.join("f"), create()).await.expect("open");
        file.write_at(Chunk::copy_from(&bytes), 0).await.expect("write");
        let (client, server) = pair(&rt).await;
        let mut list = IoList::new();
        list.push_bytes(b"head".to_vec());
        list.push_bytes(Vec::new());
        list.push_chunk(Chunk::copy_from(&bytes).slice(10..20));
        list.push_file(range(Rc::new(file.clone()), 1_001, 2_500_000));
        list.push_bytes(b"tail".to_vec());
        let len = 4 + 10 + 2_500_000 + 4;
        assert_eq!(list.len(), len as u64);
        let sending = rt.spawn(Class::Connection, async move { server.send(list).await });
        let got = recv_exactly(&client, len).await;
        assert!(got[..4] == *b"head" && got[4..14] == bytes[10..20]);
        assert!(got[14..len - 4] == bytes[1_001..2_501_001] && got[len - 4..] == *b"tail");
        sending.await.expect("no panic").expect("send");
        assert_eq!(client.recv(&mut Vec::new(), 10).await.expect("the sender is gone"), 0);
    };

    sealed_files_and_bytes_arrive_in_order on 1: |rt, dir| async move {
        let bytes = pattern(3 * 1024 * 1024, 6);
        let path = dir.join("f");
        write_and_cut(&rt, &path, &bytes, bytes.len() - 100).await;
        let file = rt.disk().open_sealed(&path).await.expect("open_sealed");
        // A reader that pins it reads on when its name is gone.
        rt.disk().remove_file(&path).await.expect("unlink");
        let transfer = transfer();
        let (client, server) = pair(&rt).await;
        let mut list = IoList::new();
        let mut all = Vec::new();
        let last = (bytes.len() - 100) as u64;
        for (pos, len) in [(1_001, 2_500_000), (0, 1), (4_095, 2), (last - 5_000, 5_000), (0, last)] {
            list.push_bytes(pos.to_string().into_bytes());
            list.push_file(FileRange::new(Rc::new(file.clone()), pos, len, &transfer));
            all.extend_from_slice(pos.to_string().as_bytes());
            all.extend_from_slice(&bytes[pos as usize..(pos + len) as usize]);
        }
        drop(file);
        let sending = rt.spawn(Class::Connection, async move { server.send(list).await });
        assert!(recv_exactly(&client, all.len()).await == all);
        sending.await.expect("no panic").expect("send");
        assert_eq!(transfer.counters().read, 0);
        assert_eq!(transfer.in_use(), 0);
    };

    bytes_beyond_a_sealed_file_end_the_connection on 1: |rt, dir| async move {
        let path = dir.join("f");
        write_and_cut(&rt, &path, &pattern(BLOCK, 6), 1_000).await;
        let file = rt.disk().open_sealed(&path).await.expect("open_sealed");
        let (client, server) = pair(&rt).await;
        let mut list = IoList::new();
        list.push_file(range(Rc::new(file), 500, 501));
        let error = server.send(list).await.expect_err("one byte too many");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        // What was sent before may still arrive; then it ends.
        while client.recv(&mut Vec::new(), 4_096).await.is_ok_and(|n| n > 0) {}
    };

    readers_that_stall_keep_no_memory_that_another_waits_for on 1: |rt, dir| async move {
        const LEN: usize = 24 << 20;
        let path = dir.join("f");
        let bytes = pattern(LEN, 9);
        write_and_cut(&rt, &path, &bytes, LEN).await;
        let file = rt.disk().open(&path, OpenOptions::new()).await.expect("open");
        let transfer = transfer();
        let mut clients = Vec::new();
        let mut senders = Vec::new();
        for _ in 0..8 {
            let (client, server) = pair(&rt).await;
            let mut list = IoList::new();
            list.push_file(FileRange::new(Rc::new(file.clone()), 0, LEN as u64, &transfer));
            senders.push(rt.spawn(Class::Connection, async move { server.send(list).await }));
            clients.push(client);
        }
        // Eight that read nothing would hold 8 MiB; there are 4. One that reads gets all, between them.
        let last = clients.pop().expect("eight");
        assert!(recv_exactly(&last, LEN).await == bytes);
        senders.pop().expect("eight").await.expect("no panic").expect("send");
        assert!(transfer.counters().evicted > 0);
        assert!(transfer.in_use() <= TRANSFER_BYTES_MIN / 2);
        // One that stalled goes on where it was; one that gives up leaves no memory behind.
        let first = clients.remove(0);
        assert!(recv_exactly(&first, LEN).await == bytes);
        drop(clients);
        for (i, sender) in senders.into_iter().enumerate() {
            assert_eq!(sender.await.expect("no panic").is_ok(), i == 0);
        }
        assert_eq!(transfer.in_use(), 0);
    };

    many_small_parts_arrive_in_order on 1: |rt, _dir| async move {
        let (client, server) = pair(&rt).await;
        let mut list = IoList::new();
        let mut all = Vec::new();
        for n in 0..1_000 {
            let part = pattern(n % 97, n);
            all.extend_from_slice(&part);
            list.push_bytes(part);
        }
        let sending = rt.spawn(Class::Connection, async move { client.send(list).await });
        assert_eq!(recv_exactly(&server, all.len()).await, all);
        sending.await.expect("no panic").expect("send");
    };

    a_receive_appends_at_most_what_was_asked_for on 1: |rt, _dir| async move {
        let (client, server) = pair(&rt).await;
        client.send(list(b"hello world".to_vec())).await.expect("send");
        let mut bytes = b">".to_vec();
        while bytes.len() < 6 {
            let left = 6 - bytes.len();
            assert!(server.recv(&mut bytes, left).await.expect("recv") <= left);
        }
        assert_eq!(bytes, b">hello");
        assert_eq!(recv_exactly(&server, 6).await, b" world");
        drop(client);
        assert_eq!(server.recv(&mut bytes, 10).await.expect("recv"), 0);
        assert_eq!(bytes, b">hello");
    };

    shutdown_wakes_a_pending_receive on 1: |rt, _dir| async move {
        let (client, server) = pair(&rt).await;
        let reader = server.clone();
        let reading = rt.spawn(Class::Connection, async move {
            reader.recv(&mut Vec::new(), 10).await
        });
        rt.sleep(Duration::from_millis(2)).await;
        assert!(!reading.is_finished());
        server.shutdown();
        let got = rt.timeout(Duration::from_secs(60), reading).await.expect("it wakes");
        assert!(matches!(got.expect("no panic"), Ok(0) | Err(_)));
        assert!(matches!(client.recv(&mut Vec::new(), 10).await, Ok(0) | Err(_)));
        server.send(list(vec![1])).await.expect_err("it is shut down");
    };

    shutdown_wakes_a_pending_send on 1: |rt, _dir| async move {
        let (client, server) = pair(&rt).await;
        let writer = server.clone();
        let writing = rt.spawn(Class::Connection, async move {
            // Nobody reads: no kernel buffers that much.
            writer.send(list(vec![1; 64 << 20])).await
        });
        rt.sleep(Duration::from_millis(20)).await;
        assert!(!writing.is_finished());
        server.shutdown();
        let sent = rt.timeout(Duration::from_secs(60), writing).await.expect("it wakes");
        sent.expect("no panic").expect_err("not all of it was sent");
        drop(client);
    };

    a_sender_learns_that_its_peer_has_gone on 1: |rt, _dir| async move {
        let (client, server) = pair(&rt).await;
        drop(client);
        let mut sent = 0;
        while server.send(list(vec![1; 10_000])).await.is_ok() {
            sent += 1;
            assert!(sent < 10_000, "100 MB were sent to nobody");
            rt.sleep(Duration::from_millis(1)).await;
        }
    };

    messages_of_two_senders_are_not_mixed on 1: |rt, _dir| async move {
        let (client, server) = pair(&rt).await;
        for n in 1..=4u8 {
            let client = client.clone();
            rt.spawn(Class::Connection, async move {
                client.send(list(vec![n; 300_000])).await.expect("send");
            })
            .detach();
        }
        let got = recv_exactly(&server, 4 * 300_000).await;
        for message in got.chunks(300_000) {
            assert!(message.iter().all(|b| *b == message[0]));
        }
    };

    a_send_that_is_given_up_halfway_shuts_the_connection_down on 1: |rt, _dir| async move {
        let (client, server) = pair(&rt).await;
        let send = server.send(list(vec![1; 64 << 20]));
        assert!(rt.timeout(Duration::from_millis(20), send).await.is_none());
        server.send(list(vec![2])).await.expect_err("the stream is broken");
        let mut bytes = Vec::new();
        while client.recv(&mut bytes, 1 << 20).await.is_ok_and(|n| n > 0) {}
        assert!(bytes.len() < 64 << 20 && bytes.iter().all(|b| *b == 1));
    };

    ports_are_exclusive_unless_shared on 1: |rt, _dir| async move {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let alone = rt.bind(any, BindOptions::default()).await.expect("bind");
        for shared in [false, true] {
            let again = rt.bind(alone.local_addr(), BindOptions { shared }).await;
            assert_eq!(again.expect_err("taken").kind(), ErrorKind::AddrInUse);
        }
        let first = rt.bind(any, BindOptions { shared: true }).await.expect("bind");
        rt.bind(first.local_addr(), BindOptions { shared: true }).await.map(drop).expect("shared");
        let addr = alone.local_addr();
        drop(alone);
        rt.sleep(Duration::from_millis(5)).await;
        let refused = rt.connect(addr).await.expect_err("nobody listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{refused}");
    };

    an_accept_that_is_given_up_loses_no_connection on 1: |rt, _dir| async move {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let acceptor = rt.bind(any, BindOptions::default()).await.expect("bind");
        for _ in 0..20 {
            assert!(rt.timeout(Duration::ZERO, acceptor.accept()).await.is_none());
        }
        let client = rt.connect(acceptor.local_addr()).await.expect("connect");
        client.send(list(b"x".to_vec())).await.expect("send");
        let server = acceptor.accept().await.expect("accept");
        assert_eq!(recv_exactly(&server, 1).await, b"x");
    };
}

type Ends = (Mailbox<u32>, Cell<Option<Inbox<u32>>>);

/// A mailbox whose inbox is taken by the core that reads it.
fn shared_mailbox(capacity: usize) -> Arc<Mutex<Ends>> {
    let (sender, inbox) = mailbox(capacity);
    Arc::new(Mutex::new((sender, Cell::new(Some(inbox)))))
}

/// Per run of a scenario: both cores must see the same mailbox, each run another.
fn for_each_run(capacity: usize) -> impl Fn(&Runtime) -> Arc<Mutex<Ends>> + Send + Clone {
    let current: Arc<Mutex<(u8, Arc<Mutex<Ends>>)>> =
        Arc::new(Mutex::new((0, shared_mailbox(capacity))));
    move |_rt| {
        let mut current = current.lock().expect("no panic under it");
        if current.0 == 2 {
            *current = (0, shared_mailbox(capacity));
        }
        current.0 += 1;
        Arc::clone(&current.1)
    }
}

fn taken(ends: &Arc<Mutex<Ends>>) -> (Mailbox<u32>, Option<Inbox<u32>>) {
    let ends = ends.lock().expect("no panic under it");
    (ends.0.clone(), ends.1.take())
}

conforms! {
    messages_between_cores_keep_their_order on 2: {
        let ends = for_each_run(8);
        move |rt: Runtime, _dir| {
            let ends = ends(&rt);
            async move {
                if rt.core() == 0 {
                    let sender = ends.lock().expect("no panic under it").0.clone();
                    for n in 0..2_000 {
                        sender.send(n).await.expect("core 1 reads");
                    }
                    return;
                }
                let mut inbox = taken(&ends).1.expect("one reader");
                let mut got = Vec::new();
                while got.len() < 2_000 {
                    let before = got.len();
                    assert!(inbox.recv_batch(&mut got, 100).await);
                    assert!(got.len() > before && got.len() <= before + 100);
                }
                assert!(got.into_iter().eq(0..2_000));
            }
        }
    };

    a_full_mailbox_refuses_and_a_closed_one_says_so on 1: |rt, _dir| async move {
        let (sender, mut inbox) = mailbox(2);
        sender.try_send(1).expect("room");
        sender.try_send(2).expect("room");
        assert_eq!(sender.try_send(3), Err(TrySendError::Full(3)));
        let other = sender.clone();
        let waiting = rt.spawn(Class::Data, async move { other.send(3).await });
        assert_eq!(inbox.recv().await, Some(1));
        waiting.await.expect("no panic").expect("there was room");
        let mut rest = Vec::new();
        assert!(inbox.recv_batch(&mut rest, 10).await);
        assert_eq!(rest, [2, 3]);
        drop(sender);
        assert!(!inbox.recv_batch(&mut rest, 10).await);
        assert_eq!(inbox.recv().await, None);
        let (sender, inbox) = mailbox(1);
        drop(inbox);
        assert_eq!(sender.try_send(4), Err(TrySendError::Closed(4)));
        sender.send(4).await.expect_err("closed");
    };

    a_receive_that_is_given_up_loses_no_message on 1: |rt, _dir| async move {
        let (sender, mut inbox) = mailbox(1);
        let own = rt.clone();
        rt.spawn(Class::Data, async move {
            for n in 0..200u32 {
                sender.send(n).await.expect("it is read");
                if n % 3 == 0 {
                    own.yield_now().await;
                }
            }
        })
        .detach();
        let mut next = 0;
        while next < 200 {
            let patience = Duration::from_micros(20);
            if let Some(got) = rt.timeout(patience, inbox.recv()).await {
                assert_eq!(got, Some(next));
                next += 1;
            }
        }
    };

    a_reply_arrives_once_or_is_known_to_be_lost on 1: |rt, _dir| async move {
        let (answer, waiting) = reply::<u32>();
        rt.spawn(Class::Data, async move { assert!(answer.send(7)); }).detach();
        assert_eq!(waiting.await, Some(7));
        let (answer, waiting) = reply::<u32>();
        drop(answer);
        assert_eq!(waiting.await, None);
        let (answer, waiting) = reply::<u32>();
        drop(waiting);
        assert!(!answer.send(7));
    };

    timers_end_in_the_order_of_their_times on 1: |rt, _dir| async move {
        let order: Rc<RefCell<Vec<u64>>> = Rc::default();
        let tasks: Vec<_> = [60u64, 20, 40]
            .into_iter()
            .map(|ms| {
                let (own, order) = (rt.clone(), Rc::clone(&order));
                rt.spawn(Class::Data, async move {
                    let start = own.now();
                    own.sleep(Duration::from_millis(ms)).await;
                    assert!(own.now() - start >= Duration::from_millis(ms));
                    order.borrow_mut().push(ms);
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        assert_eq!(*order.borrow(), [20, 40, 60]);
        let past = rt.now();
        rt.sleep_until(past).await;
        rt.sleep_until(past + Duration::from_millis(3)).await;
        assert!(rt.now() >= past + Duration::from_millis(3));
    };

    a_busy_task_that_yields_lets_timers_and_io_through on 1: |rt, dir| async move {
        let through = Rc::new(Cell::new(0));
        for _ in 0..2 {
            let (own, through, path) = (rt.clone(), Rc::clone(&through), dir.join("f"));
            rt.spawn(Class::Background, async move {
                own.sleep(Duration::from_millis(2)).await;
                own.disk().write_file(&path, b"x").await.expect("write_file");
                through.set(through.get() + 1);
            })
            .detach();
        }
        // Never pending but for the yields: without them this would not end.
        while through.get() < 2 {
            rt.yield_now().await;
        }
    };

    a_timeout_gives_what_is_there_in_time on 1: |rt, _dir| async move {
        assert_eq!(rt.timeout(Duration::ZERO, async { 7 }).await, Some(7));
        let own = rt.clone();
        let late = rt.timeout(Duration::from_millis(5), own.sleep(Duration::from_secs(3_600)));
        assert_eq!(late.await, None);
    };

    a_dropped_task_runs_on_and_a_cancelled_one_does_not on 1: |rt, _dir| async move {
        let (ran, gone) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        struct OnDrop(Rc<Cell<u32>>);
        impl Drop for OnDrop {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let counting = |wait: Duration| {
            let (own, ran, guard) = (rt.clone(), Rc::clone(&ran), OnDrop(Rc::clone(&gone)));
            rt.spawn(Class::Background, async move {
                own.sleep(wait).await;
                ran.set(ran.get() + 1);
                drop(guard);
            })
        };
        let cancelled = counting(Duration::from_secs(3_600));
        rt.sleep(Duration::from_millis(1)).await;
        assert_eq!(gone.get(), 0);
        cancelled.cancel();
        assert_eq!(gone.get(), 1, "its future is dropped at once");
        assert_eq!(cancelled.await, None);
        counting(Duration::from_millis(1)).detach();
        let finished = counting(Duration::from_millis(1));
        while ran.get() < 2 {
            rt.sleep(Duration::from_millis(1)).await;
        }
        finished.cancel();
        assert_eq!(finished.await, Some(()));
        assert_eq!((ran.get(), gone.get()), (2, 3));
    };

    a_panic_of_a_connection_ends_only_its_task on 1: |rt, _dir| async move {
        let task = rt.spawn(Class::Connection, async { panic!("of a connection (on purpose)") });
        assert_eq!(task.await, None);
        assert_eq!(rt.spawn(Class::Connection, async { 3 }).await, Some(3));
    };

    tasks_of_one_core_coordinate on 1: |rt, _dir| async move {
        let (budget, gate, done) = (Semaphore::new(3), Gate::new(), Notify::new());
        let (inside, most) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        for _ in 0..10 {
            let pass = gate.enter().expect("open");
            let (own, budget) = (rt.clone(), budget.clone());
            let (inside, most) = (Rc::clone(&inside), Rc::clone(&most));
            rt.spawn(Class::Data, async move {
                let _permit = budget.acquire(1).await;
                inside.set(inside.get() + 1);
                most.set(most.get().max(inside.get()));
                own.sleep(Duration::from_millis(1)).await;
                inside.set(inside.get() - 1);
                drop(pass);
            })
            .detach();
        }
        let told = done.notified();
        let notify = done.clone();
        let closing = gate.clone();
        rt.spawn(Class::Control, async move {
            closing.close().await;
            notify.notify_all();
        })
        .detach();
        told.await;
        assert_eq!((most.get(), inside.get(), budget.available()), (3, 0, 3));
        assert!(gate.enter().is_none());
    };

    randomness_differs_from_call_to_call on 1: |rt, _dir| async move {
        let (a, b) = (rt.random_u64(), rt.random_u64());
        assert_ne!(a, b);
        assert_ne!(rt.random_bytes::<16>(), rt.random_bytes::<16>());
        assert!(rt.wall_ms() > 1_600_000_000_000);
    };
}

#[test]
fn a_foreign_thread_talks_to_a_core() {
    let (sender, inbox) = mailbox::<u32>(4);
    let (back, mut answers) = mailbox::<u32>(4);
    let foreign = std::thread::spawn(move || {
        (0..500).all(|n| sender.send_blocking(n).is_ok() && answers.recv_blocking() == Some(n + 1))
    });
    let inbox = Arc::new(Mutex::new(Some(inbox)));
    let node = kernel::start(KernelOptions::default(), move |_rt| {
        let inbox = inbox.lock().expect("no panic under it").take();
        let back = back.clone();
        async move {
            let mut inbox = inbox.expect("one core");
            while let Some(n) = inbox.recv().await {
                if back.send(n + 1).await.is_err() {
                    break;
                }
            }
        }
    });
    node.expect("io_uring works here").join();
    assert!(foreign.join().expect("no panic"));
}
