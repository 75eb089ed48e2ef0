//! The simulated world: determinism, time, deaths of nodes, and the network.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use rillway_io::sim::{Faults, World};
use rillway_io::{
    AppendBuffer, BLOCK, BindOptions, Class, Conn, FileRange, IoList, OpenOptions, Runtime,
    TRANSFER_BYTES_MIN, Transfer, TransferMode, mailbox,
};

const LIMIT: Duration = Duration::from_secs(60);

fn addr(port: u16) -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], port))
}

fn to(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

fn list(bytes: &[u8]) -> IoList {
    let mut list = IoList::new();
    list.push_bytes(bytes.to_vec());
    list
}

async fn echo(conn: Conn) {
    let mut bytes = Vec::new();
    while conn.recv(&mut bytes, 1 << 16).await.is_ok_and(|n| n > 0) {
        let answer = list(&std::mem::take(&mut bytes));
        if conn.send(answer).await.is_err() {
            return;
        }
    }
}

async fn serve_echo(rt: Runtime, port: u16) {
    let acceptor = rt.bind(addr(port), BindOptions::default()).await.expect("bind");
    loop {
        let conn = acceptor.accept().await.expect("accept");
        rt.spawn(Class::Connection, echo(conn)).detach();
    }
}

async fn ask(conn: &Conn, question: &[u8]) -> rillway_io::Result<Vec<u8>> {
    conn.send(list(question)).await?;
    let mut answer = Vec::new();
    while answer.len() < question.len() {
        let left = question.len() - answer.len();
        if conn.recv(&mut answer, left).await? == 0 {
            break;
        }
    }
    Ok(answer)
}

/// Two cores, a mailbox, files, clients, a kill and a second life: everything that draws from a stream.
fn busy_world(seed: u64) -> (u64, u64, Vec<u8>) {
    let world = World::new(seed);
    let log: Rc<RefCell<Vec<u8>>> = Rc::default();
    for life in 0..2u8 {
        let (sender, inbox) = mailbox::<u8>(4);
        let inbox = Rc::new(Cell::new(Some(inbox)));
        let seen = Rc::clone(&log);
        let _node = world.start_node("a", 2, move |rt| {
            let (sender, inbox, seen) = (sender.clone(), Rc::clone(&inbox), Rc::clone(&seen));
            async move {
                if rt.core() == 1 {
                    let mut inbox = inbox.take().expect("one reader");
                    while let Some(n) = inbox.recv().await {
                        seen.borrow_mut().push(n);
                    }
                    return;
                }
                rt.spawn(Class::Control, serve_echo(rt.clone(), 9092)).detach();
                let create = OpenOptions::new().create(true);
                let file = rt.disk().open(Path::new("/f"), create).await.expect("open");
                for n in 0..20u8 {
                    let mut buffer = AppendBuffer::with_capacity(BLOCK);
                    buffer.extend(&[n; 100]);
                    let pos = u64::from(n) * BLOCK as u64;
                    file.write_at(buffer.freeze_padded(), pos).await.expect("write");
                    sender.send(n ^ rt.random_u64() as u8).await.expect("core 1 lives");
                }
                pending::<()>().await;
            }
        });
        let client = world.client("c");
        let own = client.clone();
        let answer = world.block_on(async move {
            own.sleep(Duration::from_millis(1)).await;
            let conn = own.connect(to(9092)).await.expect("connect");
            ask(&conn, &[life; 3_000]).await.expect("answer")
        });
        assert_eq!(answer, vec![life; 3_000]);
        world.run_for(Duration::from_millis(3));
        if life == 0 {
            world.kill("a");
        } else {
            world.power_cut("a");
        }
    }
    let disk = world.disk("a").read(Path::new("/f")).unwrap_or_default();
    let mut all = log.borrow().clone();
    all.extend(disk);
    (world.trace_hash(), world.now().as_nanos(), all)
}

#[test]
fn the_same_seed_replays_exactly() {
    for seed in 0..20 {
        assert_eq!(busy_world(seed), busy_world(seed), "seed {seed}");
    }
}

#[test]
fn different_seeds_differ() {
    let mut hashes: Vec<u64> = (0..20).map(|seed| busy_world(seed).0).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 20);
}

#[test]
fn two_ready_tasks_run_in_either_order() {
    let firsts: Vec<u8> = (0..40)
        .map(|seed| {
            let world = World::new(seed);
            let order: Rc<RefCell<Vec<u8>>> = Rc::default();
            let client = world.client("c");
            for n in 0..2 {
                let order = Rc::clone(&order);
                client.spawn(Class::Data, async move { order.borrow_mut().push(n) }).detach();
            }
            world.run_until(|| order.borrow().len() == 2, LIMIT).expect("both run");
            order.take()[0]
        })
        .collect();
    assert!(firsts.contains(&0) && firsts.contains(&1));
}

#[test]
fn time_jumps_to_the_next_timer() {
    let world = World::new(1);
    let client = world.client("c");
    let own = client.clone();
    world.block_on(async move {
        let (start, wall) = (own.now(), own.wall_ms());
        own.sleep(Duration::from_secs(3_000)).await;
        let slept = own.now() - start;
        assert!(slept >= Duration::from_secs(3_000) && slept < Duration::from_secs(3_001));
        assert_eq!((own.wall_ms() - wall) / 1_000, 3_000);
    });
}

#[test]
fn a_world_in_which_nothing_can_happen_says_so() {
    let world = World::new(99);
    let _node = world.start_node("a", 1, |_| pending::<()>());
    let stuck = world.run_until(|| false, LIMIT).expect_err("nothing happens");
    assert!(stuck.0.contains("nothing can happen any more") && stuck.0.contains("seed 99"));
}

#[test]
fn fatal_ends_the_node_and_nothing_after_it_runs() {
    let world = World::new(2);
    let after = Rc::new(Cell::new(false));
    let flag = Rc::clone(&after);
    let node = world.start_node("a", 2, move |rt| {
        let flag = Rc::clone(&flag);
        async move {
            if rt.core() == 1 {
                rt.sleep(Duration::from_secs(1)).await;
                flag.set(true);
                return;
            }
            rt.sleep(Duration::from_millis(1)).await;
            rt.fatal("flush of /r failed");
        }
    });
    world.run_until(|| world.death("a").is_some(), LIMIT).expect("it dies");
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.death("a").as_deref(), Some("fatal: flush of /r failed"));
    assert!(!world.is_running("a") && !node.is_finished() && !after.get());
}

#[test]
fn a_panic_ends_the_node_unless_it_is_a_connections() {
    let world = World::new(3);
    let _node = world.start_node("a", 1, |rt| async move {
        let lost = rt.spawn(Class::Connection, async { panic!("of a connection") });
        assert_eq!(lost.await, None);
        rt.sleep(Duration::from_millis(1)).await;
        rt.spawn(Class::Background, async { panic!("of destage") }).detach();
        pending::<()>().await;
    });
    world.run_until(|| !world.is_running("a"), LIMIT).expect("it dies");
    assert_eq!(world.death("a").as_deref(), Some("panic: of destage"));
}

#[test]
#[should_panic(expected = "a client's assertion")]
fn a_panic_of_a_client_task_reaches_the_test() {
    let world = World::new(4);
    world.client("c").spawn(Class::Data, async { panic!("a client's assertion") }).detach();
    world.run_for(Duration::from_secs(1));
}

#[test]
fn a_killed_nodes_connections_end_and_its_port_is_free() {
    let mut ends = [0, 0];
    for seed in 0..40 {
        let world = World::new(seed);
        let _node = world.start_node("a", 1, |rt| serve_echo(rt, 9092));
        let client = world.client("c");
        let own = client.clone();
        let conn = world.block_on(async move {
            own.sleep(Duration::from_millis(1)).await;
            let conn = own.connect(to(9092)).await.expect("connect");
            assert_eq!(ask(&conn, b"hello").await.expect("answer"), b"hello");
            conn
        });
        world.kill("a");
        let end = world.block_on(async move { conn.recv(&mut Vec::new(), 10).await });
        match end {
            Ok(0) => ends[0] += 1,
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => ends[1] += 1,
            other => panic!("neither an end nor a reset: {other:?}"),
        }
        let own = client.clone();
        let refused = world.block_on(async move { own.connect(to(9092)).await });
        let refused = refused.expect_err("nobody listens");
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        let _second = world.start_node("a", 1, |rt| serve_echo(rt, 9092));
        world.block_on(async move {
            client.sleep(Duration::from_millis(1)).await;
            client.connect(to(9092)).await.expect("the next life listens");
        });
    }
    assert!(ends[0] > 0 && ends[1] > 0, "closed {}, reset {}", ends[0], ends[1]);
}

#[test]
fn a_slow_reader_blocks_its_sender() {
    let world = World::new(5);
    let sent = Rc::new(Cell::new(0usize));
    let counter = Rc::clone(&sent);
    let _node = world.start_node("a", 1, move |rt| {
        let sent = Rc::clone(&counter);
        async move {
            let acceptor = rt.bind(addr(9092), BindOptions::default()).await.expect("bind");
            let conn = acceptor.accept().await.expect("accept");
            loop {
                conn.send(list(&[1; 10_000])).await.expect("send");
                sent.set(sent.get() + 10_000);
            }
        }
    });
    let client = world.client("c");
    let own = client.clone();
    let conn = world.block_on(async move {
        own.sleep(Duration::from_millis(1)).await;
        own.connect(to(9092)).await.expect("connect")
    });
    world.run_for(Duration::from_secs(10));
    let full = sent.get();
    assert!(full > 0 && full <= 1 << 18, "{full} bytes are in a bounded pipe");
    world.block_on(async move {
        let mut bytes = Vec::new();
        while bytes.len() < full + 50_000 {
            assert!(conn.recv(&mut bytes, 1 << 20).await.expect("recv") > 0);
        }
    });
    assert!(sent.get() > full, "it goes on when there is room");
}

#[test]
fn a_cut_link_holds_everything_back_until_it_is_healed() {
    let world = World::new(6);
    let _node = world.start_node("a", 1, |rt| serve_echo(rt, 9092));
    let client = world.client("c");
    let own = client.clone();
    let conn = world.block_on(async move {
        own.sleep(Duration::from_millis(1)).await;
        own.connect(to(9092)).await.expect("connect")
    });
    world.cut_link("a", "c");
    let answer: Rc<RefCell<Option<Vec<u8>>>> = Rc::default();
    let slot = Rc::clone(&answer);
    let asking = async move {
        let got = ask(&conn, b"hello").await.expect("answer");
        *slot.borrow_mut() = Some(got);
    };
    client.spawn(Class::Data, asking).detach();
    world.run_for(Duration::from_secs(30));
    assert_eq!(*answer.borrow(), None);
    world.heal_link("a", "c");
    world.run_until(|| answer.borrow().is_some(), LIMIT).expect("the answer comes");
    assert_eq!(answer.borrow().as_deref(), Some(&b"hello"[..]));
}

#[test]
fn a_file_region_reused_before_it_was_sent_shows_in_what_was_sent() {
    // The transfer reads when the socket has room, as splice would: releasing a region early is a bug that
    // a test can see.
    let world = World::new(7);
    world.set_faults(Faults { read_delay: Duration::from_millis(5), ..Faults::default() });
    let _node = world.start_node("a", 1, |rt| async move {
        let create = OpenOptions::new().create(true);
        let file = rt.disk().open(Path::new("/f"), create).await.expect("open");
        let block = |byte| rillway_io::Chunk::copy_from(&[byte; BLOCK]);
        for n in 0..512 {
            file.write_at(block(1), n * BLOCK as u64).await.expect("write");
        }
        let acceptor = rt.bind(addr(9092), BindOptions::default()).await.expect("bind");
        let conn = acceptor.accept().await.expect("accept");
        let mut list = IoList::new();
        let transfer = Transfer::new(TransferMode::Copy, TRANSFER_BYTES_MIN);
        let len = 512 * BLOCK as u64;
        list.push_file(FileRange::new(Rc::new(file.clone()), 0, len, &transfer));
        let sending = rt.spawn(Class::Connection, async move { conn.send(list).await });
        rt.sleep(Duration::from_millis(1)).await;
        file.write_at(block(2), 511 * BLOCK as u64).await.expect("write");
        sending.await.expect("no panic").expect("send");
        pending::<()>().await;
    });
    let client = world.client("c");
    let got = world.block_on(async move {
        client.sleep(Duration::from_secs(1)).await;
        let conn = client.connect(to(9092)).await.expect("connect");
        let mut bytes = Vec::new();
        while bytes.len() < 512 * BLOCK {
            assert!(conn.recv(&mut bytes, 1 << 16).await.expect("recv") > 0);
        }
        bytes
    });
    assert_eq!((got[0], got[512 * BLOCK - 1]), (1, 2));
}
