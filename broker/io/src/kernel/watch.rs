//! One thread per node that sees to it that no executor sleeps with work to do.
//!
//! glommio's executor can go to sleep with runnable tasks queued (kernel-notes, executor stalls). A heartbeat timer
//! bounds that, unless the stall hits the round in which the heartbeat itself was to run, or the very first one,
//! before there is a heartbeat: both were seen on a busy CPU. So this thread looks at every core's count of
//! heartbeats and interrupts a core whose count stands still with a signal. A core that has nothing to do beats slower
//! and slower and says so; the thread looks less often then. The sleep ends with EINTR, which
//! glommio takes for a wake-up, and the next round runs. A core that is merely busy is interrupted as well, which
//! harms nothing: no system call that a core makes gives up on EINTR.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Once, Weak};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// The life sign of one core.
#[derive(Default)]
pub(super) struct Pulse {
    /// The thread to interrupt; 0 while there is none.
    thread: AtomicI32,
    beats: AtomicU64,
    /// Nanoseconds until the next one is due; 0 before the first.
    period: AtomicU64,
}

impl Pulse {
    /// From now on the calling thread is watched, until the returned guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Watched {
        // SAFETY: takes nothing and cannot fail.
        let thread = unsafe { libc::gettid() };
        self.thread.store(thread, Ordering::Release);
        Watched { pulse: Arc::clone(self) }
    }

    pub(super) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// The next beat comes within `period`.
    pub(super) fn expect(&self, period: Duration) {
        let nanos = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        self.period.store(nanos, Ordering::Relaxed);
    }
}

/// A core as the watch has last seen it.
struct Seen {
    pulse: Weak<Pulse>,
    beats: u64,
    since: Instant,
}

impl Seen {
    /// Interrupts the core if its heart stands still. How long it may, or `None` if it is gone.
    fn look(&mut self, shortest: Duration, missed: u32) -> Option<Duration> {
        let pulse = self.pulse.upgrade()?;
        let period = Duration::from_nanos(pulse.period.load(Ordering::Relaxed)).max(shortest);
        let patience = period.saturating_mul(missed);
        let beats = pulse.beats.load(Ordering::Relaxed);
        let thread = pulse.thread.load(Ordering::Acquire);
        if beats != self.beats {
            (self.beats, self.since) = (beats, Instant::now());
        } else if thread != 0 && self.since.elapsed() >= patience {
            tracing::debug!(thread, "no heartbeat for {patience:?}: interrupted");
            interrupt(thread);
            self.since = Instant::now();
        }
        Some(patience)
    }
}

/// Ends the watch when dropped.
pub(super) struct Watched {
    pulse: Arc<Pulse>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.pulse.thread.store(0, Ordering::Release);
    }
}

/// Starts the thread. It looks once in `missed` heartbeats of the core that beats fastest, whose period is never below
/// `shortest`, and ends when all pulses are gone.
pub(super) fn watch(pulses: &[Arc<Pulse>], shortest: Duration, missed: u32) -> Result<()> {
    handle_signal();
    let began = Instant::now();
    let seen = |pulse| Seen { pulse: Arc::downgrade(pulse), beats: 0, since: began };
    let mut seen: Vec<Seen> = pulses.iter().map(seen).collect();
    let look = move || {
        let mut wait = shortest * missed;
        while !seen.is_empty() {
            std::thread::sleep(wait);
            wait = Duration::MAX;
            seen.retain_mut(|core| match core.look(shortest, missed) {
                Some(patience) => {
                    wait = wait.min(patience);
                    true
                }
                None => false,
            });
        }
    };
    let thread = std::thread::Builder::new().name("watch".to_string());
    thread
        .spawn(look)
        .map(drop)
        .map_err(|e| Error::new("start", e).with_detail("the thread that watches the cores"))
}

/// Makes SIGURG, which nobody uses here and which is ignored by default, interrupt system calls.
fn handle_signal() {
    static HANDLER: Once = Once::new();
    extern "C" fn nothing(_signal: libc::c_int) {}
    HANDLER.call_once(|| {
        // SAFETY: zeros are a valid value of this struct of integers and an address: no flags, nothing blocked.
        let (mut ours, mut theirs): (libc::sigaction, libc::sigaction) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        ours.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: both pointers are to live values, and the handler does nothing, which is allowed at any
        // moment. A handler that somebody else has set is put back: it interrupts just as well.
        unsafe {
            libc::sigaction(libc::SIGURG, &raw const ours, &raw mut theirs);
            if theirs.sa_sigaction != libc::SIG_DFL && theirs.sa_sigaction != libc::SIG_IGN {
                libc::sigaction(libc::SIGURG, &raw const theirs, std::ptr::null_mut());
            }
        }
    });
}

/// Interrupts whatever system call a thread of this process is in.
fn interrupt(thread: i32) {
    // SAFETY: takes numbers only. If the thread has just ended, the call fails, or (its number given to another
    // thread of ours) interrupts that one, which harms as little.
    unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGURG);
    }
}
