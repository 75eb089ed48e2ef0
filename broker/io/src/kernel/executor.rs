//! Executors, one per core, and `Core`, the backend of `Runtime` on one of them.
//!
//! Settings that were measured: no spinning; a heartbeat timer of 5 ms, because glommio's executor can go to sleep with
//! runnable tasks queued (kernel-notes, executor stalls; `watch` is the net below it); registered memory of a chosen size, since three times
//! as much is pinned and RLIMIT_MEMLOCK is 8 MiB for ordinary users.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock, SystemTime};

use glommio::timer::Timer;
use glommio::{GlommioError, Latency, LocalExecutorBuilder, Placement, Shares, TaskQueueHandle};

use super::blocking::Blocking;
use super::disk::Disk;
use super::net::{self, Acceptor, Conn};
use super::watch::{self, Pulse};
use crate::error::{Error, Result};
use crate::net::BindOptions;
use crate::runtime::{Backend, Runtime};
use crate::sync::oneshot;
use crate::task::{self, Class, Payload, Task};
use crate::time::{Instant, nanos};

/// Exit code after `Runtime::fatal`.
const EXIT_FATAL: i32 = 3;
/// Exit code after a panic, as of an ordinary Rust program.
const EXIT_PANIC: i32 = 101;
/// Threads for blocking calls, per node: a slow unlink may hold one, a slow rename another.
const BLOCKING_THREADS: usize = 4;
/// Threads that wait for pages of sealed files, per node: as many reads of the disk at once.
const READER_THREADS: usize = 4;
/// glommio's preempt timer, at its default. An executor that is descheduled for this long at the wrong moment goes to
/// sleep with work to do; at 1 ms, on a busy machine, that was in every run of some seconds. So slices are
/// measured by `Core::yield_now` instead, and this timer is left to be long.
const PREEMPT_TIMER: Duration = Duration::from_millis(100);
/// What a yield sleeps for: anything that is not over at once, so that the ring is polled meanwhile.
const YIELD: Duration = Duration::from_micros(1);
/// Heartbeats a core may miss before it is interrupted.
const MISSED_BEATS: u32 = 4;
/// How much slower the heart of a core beats that has nothing to do. A beat makes three system calls, for glommio enters
/// its rings one by one: at 5 ms an idle core took 1.5 % of a CPU.
const IDLE_FACTOR: u32 = 8;

/// How to start the executors of this process.
#[derive(Clone, Debug)]
pub struct KernelOptions {
    /// One executor per entry, pinned to that CPU. If an entry is listed twice, or is a CPU we may not run
    /// on, none is pinned: so tests run two cores anywhere.
    pub cpus: Vec<usize>,
    /// How long a task may run before `Runtime::yield_now` really yields. 1 ms.
    pub preempt: Duration,
    /// The same for tasks of `Class::Background`, 200 us. What becomes ready meanwhile waits for the rest of a slice, and
    /// a durable append becomes ready several times on its way: beside a cleaning its p50 was 2.3 ms with slices of 1 ms
    /// and 1.2 with these, for 4 % more CPU of the cleaning (0.45 ms without one).
    pub preempt_background: Duration,
    /// Bytes of memory registered with the kernel, per executor. Three times that is pinned.
    pub io_memory: usize,
    /// Period of the heartbeat timer, the longest that an executor with work can stall. 5 ms.
    pub heartbeat: Duration,
}

impl Default for KernelOptions {
    fn default() -> KernelOptions {
        KernelOptions {
            cpus: vec![0],
            preempt: Duration::from_millis(1),
            preempt_background: Duration::from_micros(200),
            // 6 MiB pinned: within the default RLIMIT_MEMLOCK of 8 MiB for one executor.
            io_memory: 2 << 20,
            heartbeat: Duration::from_millis(5),
        }
    }
}

/// Running executors.
pub struct Node<T: Send + 'static> {
    cores: Vec<JoinHandle<std::io::Result<T>>>,
}

impl<T: Send + 'static> Node<T> {
    /// Waits until every `main` has returned; their results, in the order of the cores.
    pub fn join(self) -> Vec<T> {
        self.cores
            .into_iter()
            .map(|core| {
                let result = core.join().expect("a panic would have ended the process");
                result.expect("it has started: that is the only thing that fails")
            })
            .collect()
    }
}

impl<T: Send + 'static> std::fmt::Debug for Node<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node({} cores)", self.cores.len())
    }
}

/// Starts one executor per entry of `cpus`, each running `main`. Fails if io_uring is not to be had. When a
/// core's `main` returns, its executor ends, with whatever tasks it still has.
pub fn start<T, F, Fut>(options: KernelOptions, main: F) -> Result<Node<T>>
where
    F: Fn(Runtime) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let cores = options.cpus.len();
    if cores == 0 {
        let invalid = std::io::ErrorKind::InvalidInput.into();
        return Err(Error::new("start", invalid).with_detail("no CPU is listed"));
    }
    let pinned = can_pin(&options.cpus);
    let blocking = Blocking::start("blocking", BLOCKING_THREADS)?;
    let readers = Blocking::start("reader", READER_THREADS)?;
    let pulses: Vec<Arc<Pulse>> = (0..cores).map(|_| Arc::default()).collect();
    watch::watch(&pulses, options.heartbeat, MISSED_BEATS)?;
    let began = Clock::now();
    let mut running = Vec::with_capacity(cores);
    for ((index, cpu), pulse) in options.cpus.iter().copied().enumerate().zip(pulses) {
        let error = |e| Error::new("start", e).with_detail(format!("core {index}"));
        let placement = if pinned { Placement::Fixed(cpu) } else { Placement::Unbound };
        let main = main.clone();
        let (blocking, readers) = (Arc::clone(&blocking), Arc::clone(&readers));
        let slices = [options.preempt, options.preempt_background];
        let heartbeat = options.heartbeat;
        let builder = LocalExecutorBuilder::new(placement)
            .io_memory(options.io_memory)
            .preempt_timer(PREEMPT_TIMER);
        let (ready, is_ready) = flume::bounded::<()>(1);
        let thread = std::thread::Builder::new().name(format!("core-{index}"));
        let handle = thread
            .spawn(move || {
                let executor = builder.make().map_err(io_error)?;
                // Not before: a signal must not interrupt the registration of memory.
                let _watched = pulse.begin();
                Ok(executor.run(async move {
                    // The starter is gone only if another core could not start.
                    let _ = ready.send(());
                    let core = Rc::new(Core::new(index, cores, began, slices, (blocking, readers)));
                    let runtime = Runtime { backend: Backend::Kernel(Rc::clone(&core)) };
                    let task = core.spawn(Class::Data, async move { main(runtime).await });
                    let result = beating(heartbeat, pulse, core, task).await;
                    result.expect("main is never cancelled, and its panic ends the process")
                }))
            })
            .map_err(error)?;
        if is_ready.recv().is_err() {
            return Err(match handle.join() {
                Ok(Err(e)) => error(e),
                Ok(Ok(_)) | Err(_) => error(std::io::ErrorKind::Interrupted.into()),
            });
        }
        running.push(handle);
    }
    Ok(Node { cores: running })
}

/// Polls `task` under a heartbeat, which keeps the executor from sleeping for longer than `period`, or, if no task has
/// run since the last beat, for twice as long as before, up to `IDLE_FACTOR` periods.
async fn beating<T>(
    period: Duration,
    pulse: Arc<Pulse>,
    core: Rc<Core>,
    mut task: Task<T>,
) -> Option<T> {
    let mut current = period;
    let mut ran = core.polled.get();
    let mut timer = Timer::new(current);
    poll_fn(|cx| {
        pulse.beat();
        while Pin::new(&mut timer).poll(cx).is_ready() {
            let last = core.polled.get();
            let idle = last == ran;
            current = if idle { (current * 2).min(period * IDLE_FACTOR) } else { period };
            ran = last;
            pulse.expect(current);
            timer = Timer::new(current);
        }
        Pin::new(&mut task).poll(cx)
    })
    .await
}

/// Whether each executor can have a CPU of its own: no CPU is listed twice, and we may run on all of them
/// (containers and `taskset` take some away).
fn can_pin(cpus: &[usize]) -> bool {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    // SAFETY: a set of CPUs is an array of integers, for which zeros are a valid value.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live, exclusively borrowed value of the size given.
    let got = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed) };
    sorted.len() == cpus.len()
        && got == 0
        && cpus.iter().all(|cpu| {
            // SAFETY: the number is within the set, which CPU_ISSET indexes without a check.
            *cpu < libc::CPU_SETSIZE as usize && unsafe { libc::CPU_ISSET(*cpu, &allowed) }
        })
}

/// One core of a node on this machine.
pub(crate) struct Core {
    index: usize,
    cores: usize,
    /// The same moment on all cores of the node, so that their clocks agree.
    began: Clock,
    queues: [TaskQueueHandle; 4],
    /// How long a task may run before it yields, and one of the background.
    slice: Duration,
    background_slice: Duration,
    /// When the task that runs was polled, and its slice.
    polled: Cell<Clock>,
    turn: Cell<Duration>,
    pub(super) blocking: Arc<Blocking>,
    pub(super) readers: Arc<Blocking>,
}

impl Core {
    fn new(
        index: usize,
        cores: usize,
        began: Clock,
        [slice, background_slice]: [Duration; 2],
        (blocking, readers): (Arc<Blocking>, Arc<Blocking>),
    ) -> Core {
        // No queue has a latency of its own: it would shorten the preempt timer (see there).
        let queues = Class::ALL.map(|class| {
            let (shares, name) = match class {
                Class::Control => (1_000, "control"),
                Class::Data => (1_000, "data"),
                Class::Connection => (1_000, "connection"),
                Class::Background => (100, "background"),
            };
            let executor = glommio::executor();
            executor.create_task_queue(Shares::Static(shares), Latency::NotImportant, name)
        });
        let polled = Cell::new(Clock::now());
        let turn = Cell::new(slice);
        Core {
            index,
            cores,
            began,
            queues,
            slice,
            background_slice,
            polled,
            turn,
            blocking,
            readers,
        }
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn cores(&self) -> usize {
        self.cores
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(nanos(self.began.elapsed()))
    }

    pub(crate) fn wall_ms(&self) -> i64 {
        let ms = |d: Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
        match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => ms(since),
            Err(before) => -ms(before.duration()),
        }
    }

    pub(crate) fn random(&self, bytes: &mut [u8]) {
        // SAFETY: the pointer and length are those of a live, exclusively borrowed slice.
        let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        // Up to 256 bytes getrandom neither fails nor comes up short once the system has booted.
        assert!(got == bytes.len() as isize, "getrandom gave {got} of {} bytes", bytes.len());
    }

    pub(crate) fn spawn<T: 'static>(
        self: &Rc<Self>,
        class: Class,
        future: impl Future<Output = T> + 'static,
    ) -> Task<T> {
        let (task, mut body) = task::split(class, future, die_of);
        let core = Rc::clone(self);
        let slice = match class {
            Class::Control | Class::Data | Class::Connection => self.slice,
            Class::Background => self.background_slice,
        };
        let timed = poll_fn(move |cx| {
            core.polled.set(Clock::now());
            core.turn.set(slice);
            body.as_mut().poll(cx)
        });
        let queue = match class {
            Class::Control => self.queues[0],
            Class::Data => self.queues[1],
            Class::Connection => self.queues[2],
            Class::Background => self.queues[3],
        };
        glommio::spawn_local_into(timed, queue)
            .expect("the queues live as long as the executor")
            .detach();
        task
    }

    /// Runs an operation to its end, in a task of its own that owns its buffers, whatever happens to the
    /// future that waits for it. The task belongs to the queue of the caller.
    pub(super) async fn owned<T: 'static>(
        &self,
        operation: impl Future<Output = T> + 'static,
    ) -> T {
        let (sender, done) = oneshot();
        glommio::spawn_local(async move {
            // Nobody waits any more if the future was dropped.
            let _ = sender.send(operation.await);
        })
        .detach();
        done.await.expect("the task answers, or ends the executor with a panic")
    }

    pub(crate) async fn sleep(&self, d: Duration) {
        Timer::new(d).await;
    }

    /// A sleep, not a place at the end of the queue: glommio polls the ring only when its queues are empty (or its
    /// preempt timer has fired), and what others wait for is in the ring.
    pub(crate) async fn yield_now(&self) {
        if self.polled.get().elapsed() >= self.turn.get() {
            Timer::new(YIELD).await;
        }
    }

    pub(crate) fn disk(self: &Rc<Self>) -> Disk {
        Disk::new(Rc::clone(self))
    }

    pub(crate) fn bind(
        self: &Rc<Self>,
        addr: SocketAddr,
        options: BindOptions,
    ) -> Result<Acceptor> {
        net::bind(self, addr, options)
    }

    pub(crate) async fn connect(self: &Rc<Self>, addr: SocketAddr) -> Result<Conn> {
        net::connect(self, addr).await
    }

    /// glommio says it in a log line only; the memory of a fresh buffer tells where it came from.
    pub(crate) fn buffers_registered(&self) -> bool {
        let buffer = glommio::allocate_dma_buffer(4096);
        let debug = format!("{buffer:?}");
        debug.contains("Uring") && debug.contains("Some(")
    }
}

/// The error of the system behind one of glommio.
pub(super) fn io_error(error: GlommioError<()>) -> std::io::Error {
    match error {
        // The conversion that glommio offers drops the number of the error.
        GlommioError::EnhancedIoError { source, .. } => source,
        other => other.into(),
    }
}

fn die_of(payload: Payload) {
    exit(EXIT_PANIC, &task::describe(&payload));
}

/// Stops the process at once. See `Runtime::fatal`.
pub(crate) fn fatal(why: &str) -> ! {
    exit(EXIT_FATAL, why)
}

fn exit(code: i32, why: &str) -> ! {
    if tracing::dispatcher::has_been_set() {
        tracing::error!("{why}");
    } else {
        eprintln!("ERROR {why}");
    }
    // SAFETY: takes no pointers and does not return. Not `exit`: its handlers would wait for other threads,
    // which go on acknowledging meanwhile.
    unsafe { libc::_exit(code) }
}
