//! Probe of kernel-notes/03-executor-stalls.md: how often does an executor go to sleep with work to do?
//!
//! `probe_stall RUNS`: per setting, that many runs of two cores that answer each other 30,000 times, and that many
//! rounds of starting and ending executors on one busy CPU. Each run is a process of its own with twenty seconds to
//! live; the ones that had to be killed are counted. Without a heartbeat there is no watch either: its period is
//! a multiple of the heartbeat's.

use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rillway_io::kernel::{self, KernelOptions};
use rillway_io::{Class, mailbox};

const ROUND_TRIPS: u32 = 30_000;
const STARTS: usize = 100;
const PATIENCE: Duration = Duration::from_secs(20);
const NEVER: Duration = Duration::from_secs(86_400);

fn options(cpus: Vec<usize>, heartbeat: bool) -> KernelOptions {
    let period = if heartbeat { KernelOptions::default().heartbeat } else { NEVER };
    KernelOptions { cpus, heartbeat: period, ..KernelOptions::default() }
}

fn ping_pong(class: Class, heartbeat: bool) {
    let (to_one, at_one) = mailbox::<u32>(16);
    let (to_zero, at_zero) = mailbox::<u32>(16);
    let ends = [(to_one, at_zero), (to_zero, at_one)];
    let ends = Arc::new(Mutex::new(ends.map(Some)));
    let last = std::thread::available_parallelism().map_or(0, |n| n.get() - 1);
    let node = kernel::start(options(vec![0, last], heartbeat), move |rt| {
        let taken = ends.lock().expect("no panic under it")[rt.core()].take();
        let (mailbox, mut inbox) = taken.expect("once per core");
        async move {
            let first = rt.core() == 0;
            let task = rt.spawn(class, async move {
                if first {
                    for n in 0..ROUND_TRIPS {
                        mailbox.send(n).await.expect("the other core lives");
                        assert_eq!(inbox.recv().await, Some(n));
                    }
                } else {
                    while let Some(n) = inbox.recv().await {
                        if mailbox.send(n).await.is_err() {
                            break;
                        }
                    }
                }
            });
            task.await.expect("no panic");
        }
    });
    node.expect("io_uring").join();
}

fn starts(heartbeat: bool) {
    let threads: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || {
                for _ in 0..STARTS {
                    let node = kernel::start(options(vec![0], heartbeat), |_| async {});
                    node.expect("io_uring").join();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
}

/// True if the child ended by itself in time.
fn ends_in_time(mut child: Child) -> bool {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().expect("wait") {
            assert!(status.success(), "{status}");
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("kill");
    child.wait().expect("wait");
    false
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["run", "latency", heartbeat] => ping_pong(Class::Control, heartbeat == "on"),
        ["run", "plain", heartbeat] => ping_pong(Class::Data, heartbeat == "on"),
        ["run", "starts", heartbeat] => starts(heartbeat == "on"),
        [runs] => {
            let runs: usize = runs.parse().expect("a number of runs");
            for what in ["latency", "plain", "starts"] {
                for heartbeat in ["off", "on"] {
                    let hung = (0..runs)
                        .filter(|_| {
                            let probe = std::env::current_exe().expect("this program");
                            let child = Command::new(probe).args(["run", what, heartbeat]).spawn();
                            !ends_in_time(child.expect("it starts"))
                        })
                        .count();
                    println!("{what:<8} heartbeat and watch {heartbeat:<3}: {hung} of {runs} hung");
                }
            }
        }
        _ => panic!("usage: probe_stall RUNS"),
    }
}
