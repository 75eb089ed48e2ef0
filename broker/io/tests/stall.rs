//! An executor must not go to sleep with runnable tasks (kernel-notes/03-executor-stalls.md).
//!
//! With a preempt timer of 1 ms and no heartbeat, every run here hangs on a busy machine; with a heartbeat alone, two
//! in three. The settings are those of the broker. The limit of the watchdog is no measurement: a run takes
//! seconds, a stall lasts for ever.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rillway_io::kernel::{self, KernelOptions};
use rillway_io::{Class, Inbox, Mailbox, Runtime, mailbox};

const ROUND_TRIPS: usize = 30_000;
const RUNS: usize = 3;
const STARTERS: usize = 16;
const STARTS: usize = 60;
const LIMIT: Duration = Duration::from_secs(120);

type Ends = Arc<Mutex<Option<(Mailbox<usize>, Inbox<usize>)>>>;

async fn ask(there: Mailbox<usize>, mut back: Inbox<usize>, done: Arc<AtomicUsize>) {
    for n in 0..ROUND_TRIPS {
        there.send(n).await.expect("the other core answers");
        assert_eq!(back.recv().await, Some(n));
        done.store(n + 1, Ordering::Relaxed);
    }
}

async fn answer(back: Mailbox<usize>, mut there: Inbox<usize>) {
    while let Some(n) = there.recv().await {
        if back.send(n).await.is_err() {
            break;
        }
    }
}

/// One run.
fn round_trips(done: &Arc<AtomicUsize>) {
    let (to_one, at_one) = mailbox(16);
    let (to_zero, at_zero) = mailbox(16);
    let asking: Ends = Arc::new(Mutex::new(Some((to_one, at_zero))));
    let answering: Ends = Arc::new(Mutex::new(Some((to_zero, at_one))));
    let cpus = vec![0, std::thread::available_parallelism().map_or(0, |n| n.get() - 1)];
    let options = KernelOptions { cpus, ..KernelOptions::default() };
    let done = Arc::clone(done);
    let node = kernel::start(options, move |rt: Runtime| {
        let ends = if rt.core() == 0 { &asking } else { &answering };
        let (mailbox, inbox) = ends.lock().expect("no panic under it").take().expect("one run");
        let done = Arc::clone(&done);
        async move {
            let task = match rt.core() {
                0 => rt.spawn(Class::Control, ask(mailbox, inbox, done)),
                _ => rt.spawn(Class::Control, answer(mailbox, inbox)),
            };
            task.await.expect("no panic");
        }
    });
    node.expect("io_uring works here").join();
}

#[test]
fn two_cores_answer_each_other_without_a_stall() {
    for run in 0..RUNS {
        let done = Arc::new(AtomicUsize::new(0));
        let (finished, wait) = std::sync::mpsc::channel();
        let counter = Arc::clone(&done);
        std::thread::spawn(move || {
            round_trips(&counter);
            // The watchdog may have given up.
            let _ = finished.send(());
        });
        let result = wait.recv_timeout(LIMIT);
        let reached = done.load(Ordering::Relaxed);
        assert!(result.is_ok(), "run {run} hangs after {reached} of {ROUND_TRIPS} round trips");
        assert_eq!(reached, ROUND_TRIPS, "run {run}");
    }
}

#[test]
fn executors_start_on_a_cpu_they_fight_for() {
    // Without a heartbeat yet, an executor that is descheduled in its first round sleeps for ever. Sixteen
    // threads that start executors on one CPU bring that about every few hundred starts.
    let started = Arc::new(AtomicUsize::new(0));
    let (finished, wait) = std::sync::mpsc::channel();
    for _ in 0..STARTERS {
        let (started, finished) = (Arc::clone(&started), finished.clone());
        std::thread::spawn(move || {
            for _ in 0..STARTS {
                let node = kernel::start(KernelOptions::default(), |rt| async move { rt.core() });
                assert_eq!(node.expect("io_uring works here").join(), [0]);
                started.fetch_add(1, Ordering::Relaxed);
            }
            // The watchdog may have given up.
            let _ = finished.send(());
        });
    }
    for _ in 0..STARTERS {
        let result = wait.recv_timeout(LIMIT);
        assert!(result.is_ok(), "a start hangs after {}", started.load(Ordering::Relaxed));
    }
    assert_eq!(started.load(Ordering::Relaxed), STARTERS * STARTS);
}
