//! Probe of kernel-notes/01-direct-append.md: which direct writes are punted to io-wq?
//!
//! Writes 4 KiB blocks one after the other to new files that differ in what lies ahead of the write head, and counts
//! the kernel's event `io_uring:io_uring_queue_async_work` by opcode. Needs root (tracefs) and a directory on the
//! file system in question: `probe_append DIR`.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rillway_io::kernel::{self, KernelOptions};
use rillway_io::{BLOCK, Chunk, DirectFile, OpenOptions, Runtime};

const WRITES: u64 = 1_000;
const B: u64 = BLOCK as u64;
const TRACING: &str = "/sys/kernel/tracing/instances/rillway-probe";
const EVENT: &str = "events/io_uring/io_uring_queue_async_work/enable";

#[derive(Clone, Copy, Debug)]
enum Ahead {
    /// Nothing: every write extends the file.
    Nothing,
    /// Blocks are allocated, i_size is not moved (FALLOC_FL_KEEP_SIZE).
    Blocks,
    /// Blocks are allocated and i_size is moved, in steps of 256 writes.
    BlocksAndSize,
    /// i_size is moved, without blocks (ftruncate).
    Size,
    /// Everything was written once before.
    Written,
}

/// Counts punts while it lives.
struct Counter {
    /// As the trace names the thread that queued the work: "core-0-4711".
    thread: String,
}

impl Counter {
    fn start() -> Counter {
        fs::create_dir_all(TRACING).expect("tracefs at /sys/kernel/tracing, and root");
        let set = |file: &str, value: &str| {
            fs::write(Path::new(TRACING).join(file), value).expect(file);
        };
        set("buffer_size_kb", "4096");
        set("trace", "");
        set(EVENT, "1");
        // SAFETY: takes nothing and cannot fail.
        let thread = unsafe { libc::gettid() };
        Counter { thread: format!("core-0-{thread}") }
    }

    fn by_opcode(&self) -> BTreeMap<String, u64> {
        let trace = fs::read_to_string(Path::new(TRACING).join("trace")).expect("trace");
        let mut counts = BTreeMap::new();
        for line in trace.lines().filter(|line| line.trim_start().starts_with(&self.thread)) {
            let opcode = line.split("opcode ").nth(1).and_then(|rest| rest.split(',').next());
            *counts.entry(opcode.unwrap_or("?").to_string()).or_default() += 1;
        }
        counts
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // Nothing to be done about a tracefs that fails now.
        let _ = fs::write(Path::new(TRACING).join(EVENT), "0");
        let _ = fs::remove_dir(TRACING);
    }
}

fn keep_size(path: &Path, len: u64) {
    let file = fs::File::options().write(true).open(path).expect("open");
    let len = i64::try_from(len).expect("small");
    // SAFETY: takes a descriptor, which `file` keeps open during the call, and numbers.
    let done = unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, len) };
    assert_eq!(done, 0, "fallocate");
}

async fn append(file: &DirectFile, ahead: Ahead) {
    let block = Chunk::copy_from(&[7; BLOCK]);
    for n in 0..WRITES {
        if matches!(ahead, Ahead::BlocksAndSize) && n % 256 == 0 {
            file.allocate(n * B, 256 * B).await.expect("allocate");
        }
        file.write_at(block.clone(), n * B).await.expect("write");
    }
}

async fn probe(rt: Runtime, dir: PathBuf) {
    println!("{:<16} {:>8}  punts by opcode", "ahead", "us/write");
    let cases = [Ahead::Nothing, Ahead::Blocks, Ahead::Size, Ahead::BlocksAndSize, Ahead::Written];
    for ahead in cases {
        let path = dir.join("probe-append");
        let options = OpenOptions::new().create(true).truncate(true);
        let file = rt.disk().open(&path, options).await.expect("open");
        match ahead {
            Ahead::Nothing | Ahead::BlocksAndSize => {}
            Ahead::Blocks => keep_size(&path, WRITES * B),
            Ahead::Size => file.truncate(WRITES * B).await.expect("truncate"),
            Ahead::Written => append(&file, Ahead::Nothing).await,
        }
        file.fdatasync().await.expect("fdatasync");
        let counter = Counter::start();
        let began = rt.now();
        append(&file, ahead).await;
        let per_write = (rt.now() - began).as_micros() as f64 / WRITES as f64;
        println!("{:<16} {per_write:>8.1}  {:?}", format!("{ahead:?}"), counter.by_opcode());
        drop(counter);
        file.close().await.expect("close");
        rt.disk().remove_file(&path).await.expect("remove_file");
        rt.sleep(Duration::from_millis(50)).await;
    }
}

fn main() {
    let dir = PathBuf::from(std::env::args().nth(1).expect("usage: probe_append DIR"));
    let node = kernel::start(KernelOptions::default(), move |rt| probe(rt, dir.clone()));
    node.expect("io_uring").join();
}
