//! Probe of kernel-notes/04-transfer.md: what does it cost to send bytes of a file, and what does it do to the core?
//!
//! `probe_transfer DIR MIB ROUNDS`: makes a file of so many MiB in DIR and prints, medians of interleaved rounds:
//! - sending it over loopback by direct reads (copy) and from the page cache (splice), with the cache dropped before and
//!   with the file in it; sender on CPU 0, on the last CPU a reader that copies the bytes out, or one that has the
//!   kernel throw them away (MSG_TRUNC), which is the nearer model of a network card that fetches them by itself;
//! - how long a durable write of one block takes on the sender's core, alone and beside two such readers;
//! - how to tell whether pages are in memory: mincore and preadv2 with RWF_NOWAIT, and whether asking starts a read.

use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rillway_io::kernel::{self, KernelOptions};
use rillway_io::{
    BLOCK, BindOptions, Chunk, Class, FileRange, IoList, OpenOptions, Runtime, Source, Transfer,
    TransferMode,
};

/// An answer: what a consumer asks for by default.
const ANSWER: u64 = 1 << 20;
const BUDGET: usize = 64 << 20;

/// CPU time of the calling thread, or of the whole process.
fn cpu(who: libc::c_int) -> Duration {
    // SAFETY: a structure of integers, for which zeros are a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live structure of the right type.
    unsafe { libc::getrusage(who, &raw mut usage) };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1_000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn pin_to_last() {
    let last = std::thread::available_parallelism().map_or(0, |n| n.get() - 1);
    // SAFETY: a set of CPUs is an array of integers; the calls index it by a CPU that exists.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(last, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

fn advise(path: &Path, advice: libc::c_int) {
    let file = File::open(path).expect("the probe's file");
    // SAFETY: takes a descriptor that is open, and numbers.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) };
}

/// Drops the file from the page cache, or reads all of it.
fn prepare(path: &Path, warm: bool) {
    advise(path, libc::POSIX_FADV_DONTNEED);
    if warm {
        let mut file = File::open(path).expect("the probe's file");
        std::io::copy(&mut file, &mut std::io::sink()).expect("read");
    }
}

/// Takes bytes off a socket; 0 at the end.
fn take(conn: &mut TcpStream, buffer: &mut [u8], discard: bool) -> usize {
    if !discard {
        return conn.read(buffer).expect("read");
    }
    // SAFETY: the pointer and length are those of a live, exclusively borrowed slice; the socket is open.
    let got = unsafe {
        libc::recv(conn.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_TRUNC)
    };
    usize::try_from(got).expect("recv")
}

/// A reader on a thread of its own: reads to the end and gives its own CPU time.
fn reader(addr: SocketAddr, discard: bool) -> std::thread::JoinHandle<(u64, Duration)> {
    std::thread::spawn(move || {
        pin_to_last();
        let mut conn = TcpStream::connect(addr).expect("connect");
        let mut buffer = vec![0; 256 << 10];
        let mut total = 0;
        loop {
            match take(&mut conn, &mut buffer, discard) {
                0 => return (total, cpu(libc::RUSAGE_THREAD)),
                n => total += n as u64,
            }
        }
    })
}

/// Sends the file to one connection in answers of 1 MiB, until `stop`.
async fn send(
    rt: &Runtime,
    acceptor: &rillway_io::Acceptor,
    path: &Path,
    mode: TransferMode,
    stop: Rc<Cell<bool>>,
    rounds: usize,
) -> u64 {
    let conn = acceptor.accept().await.expect("accept");
    let transfer = Transfer::new(mode, BUDGET);
    let direct = rt.disk().open(path, OpenOptions::new()).await.expect("open");
    let source: Rc<dyn Source> = match mode {
        TransferMode::Splice => Rc::new(rt.disk().open_sealed(path).await.expect("open_sealed")),
        TransferMode::Copy | TransferMode::Auto => Rc::new(direct.clone()),
    };
    let len = direct.len().await.expect("len");
    for _ in 0..rounds {
        let mut pos = 0;
        while pos < len && !stop.get() {
            let mut list = IoList::new();
            list.push_bytes(vec![0; 60]);
            list.push_file(FileRange::new(Rc::clone(&source), pos, ANSWER, &transfer));
            conn.send(list).await.expect("send");
            pos += ANSWER;
        }
    }
    conn.shutdown();
    transfer.counters().brought
}

async fn listen(rt: &Runtime) -> rillway_io::Acceptor {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    rt.bind(any, BindOptions::default()).await.expect("bind")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn pump(rt: &Runtime, path: &Path, mib: u64, rounds: usize) {
    println!(
        "one reader, {mib} MiB                 MiB/s   CPU ms/GiB: core   threads   reader   brought"
    );
    let modes = [TransferMode::Copy, TransferMode::Splice];
    let ways: Vec<_> = modes
        .into_iter()
        .flat_map(|m| [(m, false, false), (m, true, false), (m, false, true), (m, true, true)])
        .collect();
    let mut rows = vec![Vec::new(); ways.len()];
    for _ in 0..rounds {
        for (row, (mode, warm, discard)) in ways.iter().copied().enumerate() {
            prepare(path, warm);
            let acceptor = listen(rt).await;
            let reading = reader(acceptor.local_addr(), discard);
            let (before, all, began) =
                (cpu(libc::RUSAGE_THREAD), cpu(libc::RUSAGE_SELF), Instant::now());
            let brought = send(rt, &acceptor, path, mode, Rc::default(), 1).await;
            let core = cpu(libc::RUSAGE_THREAD) - before;
            let (got, reader) = reading.join().expect("the reader");
            let (took, all) = (began.elapsed(), cpu(libc::RUSAGE_SELF) - all);
            assert_eq!(got, (mib << 20) + 60 * mib);
            let per_gib = |d: Duration| d.as_secs_f64() * 1e3 * 1024.0 / mib as f64;
            rows[row].push([
                mib as f64 / took.as_secs_f64(),
                per_gib(core),
                per_gib(all.saturating_sub(core + reader)),
                per_gib(reader),
                brought as f64,
            ]);
        }
    }
    for (row, (mode, warm, discard)) in ways.iter().enumerate() {
        let name = format!(
            "{}, {}{}",
            if *mode == TransferMode::Copy { "copy" } else { "splice" },
            if *warm { "cached" } else { "cold" },
            if *discard { ", discarded" } else { "" }
        );
        let m = |i: usize| median(rows[row].iter().map(|r| r[i]).collect());
        println!(
            "{name:<30} {:>7.0} {:>19.0} {:>9.0} {:>8.0} {:>9.0}",
            m(0),
            m(1),
            m(2),
            m(3),
            m(4)
        );
    }
}

/// Durable writes of one block, one after the other, as a commit is one.
async fn commits(rt: &Runtime, dir: &Path, count: usize) -> Vec<f64> {
    let path = dir.join("ring");
    let options = OpenOptions::new().create(true).dsync(true);
    let file = rt.disk().open(&path, options).await.expect("open");
    let block = Chunk::copy_from(&[7; BLOCK]);
    for n in 0..256 {
        file.write_at(block.clone(), n * BLOCK as u64).await.expect("write");
    }
    let mut took = Vec::with_capacity(count);
    for n in 0..count as u64 {
        let began = Instant::now();
        file.write_at(block.clone(), n % 256 * BLOCK as u64).await.expect("write");
        took.push(began.elapsed().as_secs_f64() * 1e6);
    }
    took.sort_by(f64::total_cmp);
    took
}

async fn latency(rt: &Runtime, dir: &Path, path: &Path, rounds: usize) {
    println!("durable write of a block, us             p50      p99    p99.9");
    let rows = [None, Some(TransferMode::Copy), Some(TransferMode::Splice)];
    let mut figures = vec![Vec::new(); rows.len()];
    for _ in 0..rounds {
        for (row, mode) in rows.into_iter().enumerate() {
            prepare(path, false);
            let stop = Rc::new(Cell::new(false));
            let mut tasks = Vec::new();
            let mut readers = Vec::new();
            if let Some(mode) = mode {
                for _ in 0..2 {
                    let acceptor = listen(rt).await;
                    readers.push(reader(acceptor.local_addr(), false));
                    let (own, path, stop) = (rt.clone(), path.to_path_buf(), Rc::clone(&stop));
                    tasks.push(rt.spawn(Class::Connection, async move {
                        loop_cold(&own, &acceptor, &path, mode, stop).await;
                    }));
                }
            }
            let took = commits(rt, dir, 2_000).await;
            stop.set(true);
            for task in tasks {
                task.await.expect("no panic");
            }
            for reader in readers {
                reader.join().expect("the reader");
            }
            let at = |q: f64| took[((took.len() - 1) as f64 * q) as usize];
            figures[row].push([at(0.5), at(0.99), at(0.999)]);
        }
    }
    for (row, name) in
        ["alone", "beside two readers, copy", "beside two readers, splice"].iter().enumerate()
    {
        let m = |i: usize| median(figures[row].iter().map(|r| r[i]).collect());
        println!("{name:<36} {:>8.0} {:>8.0} {:>8.0}", m(0), m(1), m(2));
    }
}

/// Sends the file until `stop`; what it may leave in the cache is small against the file.
async fn loop_cold(
    rt: &Runtime,
    acceptor: &rillway_io::Acceptor,
    path: &Path,
    mode: TransferMode,
    stop: Rc<Cell<bool>>,
) {
    send(rt, acceptor, path, mode, stop, 1_000).await;
}

fn asking(path: &Path) {
    let file = File::open(path).expect("the probe's file");
    let fd = file.as_raw_fd();
    let pages = (8 << 20) / BLOCK;
    // SAFETY: a mapping of what the file has at least, without any right of access; unmapped at the end of the process.
    let map = unsafe {
        libc::mmap(std::ptr::null_mut(), 8 << 20, libc::PROT_NONE, libc::MAP_SHARED, fd, 0)
    };
    assert!(map != libc::MAP_FAILED, "mmap");
    let mut vector = vec![0u8; pages];
    let mut mincore = || {
        // SAFETY: the mapping is as long, and the vector has a byte for each of its pages.
        unsafe { libc::mincore(map, 8 << 20, vector.as_mut_ptr()) };
        vector.iter().filter(|p| *p & 1 == 1).count()
    };
    let nowait = |page: usize| {
        let mut byte = 0u8;
        let into = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        // SAFETY: one vector of one byte, alive during the call; the descriptor is open.
        unsafe {
            libc::preadv2(fd, &raw const into, 1, (page * BLOCK) as libc::off_t, libc::RWF_NOWAIT)
        }
    };
    prepare(path, true);
    let began = Instant::now();
    assert_eq!(mincore(), pages);
    let by_mincore = began.elapsed();
    let began = Instant::now();
    assert!((0..pages).all(|page| nowait(page) == 1));
    let by_nowait = began.elapsed();
    println!(
        "asking for 8 MiB of resident pages, us per MiB: mincore {:.1}, preadv2 per page {:.1}",
        by_mincore.as_secs_f64() * 1e6 / 8.0,
        by_nowait.as_secs_f64() * 1e6 / 8.0
    );
    for (name, advice) in
        [("as it is", libc::POSIX_FADV_NORMAL), ("FADV_RANDOM", libc::POSIX_FADV_RANDOM)]
    {
        prepare(path, false);
        // SAFETY: takes a descriptor that is open, and numbers.
        unsafe { libc::posix_fadvise(fd, 0, 0, advice) };
        let none = mincore();
        std::thread::sleep(Duration::from_millis(100));
        let still = mincore();
        let got = nowait(16);
        std::thread::sleep(Duration::from_millis(100));
        println!(
            "{name}: resident pages {none}, after mincore {still}, after one preadv2 NOWAIT (which gave {got}) {}",
            mincore()
        );
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let usage = "usage: probe_transfer DIR MIB ROUNDS";
    let dir = PathBuf::from(args.next().expect(usage));
    let mib: u64 = args.next().expect(usage).parse().expect(usage);
    let rounds: usize = args.next().expect(usage).parse().expect(usage);
    std::fs::create_dir_all(&dir).expect("DIR");
    let path = dir.join("segment");
    let node = kernel::start(KernelOptions::default(), move |rt| {
        let (dir, path) = (dir.clone(), path.clone());
        async move {
            let file = rt.disk().open(&path, OpenOptions::new().create(true)).await.expect("open");
            file.allocate(0, mib << 20).await.expect("allocate");
            for n in 0..mib {
                let chunk = Chunk::copy_from(&vec![n as u8 | 1; 1 << 20]);
                file.write_at(chunk, n << 20).await.expect("write");
            }
            file.fdatasync().await.expect("fdatasync");
            file.close().await.expect("close");
            pump(&rt, &path, mib, rounds).await;
            latency(&rt, &dir, &path, rounds).await;
            asking(&path);
            std::fs::remove_dir_all(&dir).expect("the probe's own");
        }
    });
    node.expect("io_uring").join();
}
