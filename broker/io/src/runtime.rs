//! `Runtime`, the handle of one core: spawn, clocks, timers, randomness, and the doors to disk and network.
//!
//! Cheap to clone, `!Send`, never leaves its core. Two backends behind it: glommio on a real core, or one
//! simulated core of a `World`. Absent on purpose: a global "current runtime". What needs one is given one.

use std::fmt;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use crate::disk::Disk;
use crate::error::Result;
use crate::net::{Acceptor, BindOptions, Conn};
use crate::task::{Class, Task};
use crate::time::Instant;
use crate::{kernel, sim};

#[derive(Clone)]
pub(crate) enum Backend {
    Kernel(Rc<kernel::Core>),
    Sim(Rc<sim::Core>),
}

/// The handle of one core of a node, or of a simulated client.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) backend: Backend,
}

impl Runtime {
    /// Index of this core within its node, from 0. Not the number of a CPU.
    pub fn core(&self) -> usize {
        match &self.backend {
            Backend::Kernel(core) => core.index(),
            Backend::Sim(core) => core.index(),
        }
    }

    /// Cores of this node.
    pub fn cores(&self) -> usize {
        match &self.backend {
            Backend::Kernel(core) => core.cores(),
            Backend::Sim(core) => core.cores(),
        }
    }

    /// The monotonic clock.
    pub fn now(&self) -> Instant {
        match &self.backend {
            Backend::Kernel(core) => core.now(),
            Backend::Sim(core) => core.now(),
        }
    }

    /// The wall clock, in milliseconds since 1970. May jump, also backwards.
    pub fn wall_ms(&self) -> i64 {
        match &self.backend {
            Backend::Kernel(core) => core.wall_ms(),
            Backend::Sim(core) => core.wall_ms(),
        }
    }

    /// For ids and salts: from the operating system, or from the seed.
    pub fn random_u64(&self) -> u64 {
        u64::from_le_bytes(self.random_bytes())
    }

    /// The same, for longer ones.
    pub fn random_bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        match &self.backend {
            Backend::Kernel(core) => core.random(&mut bytes),
            Backend::Sim(core) => core.random(&mut bytes),
        }
        bytes
    }

    /// Starts a task on this core. Dropping the returned `Task` detaches it.
    ///
    /// A panic ends the task if it is of `Class::Connection`, else the process (in simulation: the node).
    pub fn spawn<T: 'static>(
        &self,
        class: Class,
        future: impl Future<Output = T> + 'static,
    ) -> Task<T> {
        match &self.backend {
            Backend::Kernel(core) => core.spawn(class, future),
            Backend::Sim(core) => core.spawn(class, future),
        }
    }

    /// Waits for `d`.
    pub async fn sleep(&self, d: Duration) {
        match &self.backend {
            Backend::Kernel(core) => core.sleep(d).await,
            Backend::Sim(core) => core.sleep(d).await,
        }
    }

    /// Waits until `at`; not at all if that has passed.
    pub async fn sleep_until(&self, at: Instant) {
        let d = at.since(self.now());
        if !d.is_zero() {
            self.sleep(d).await;
        }
    }

    /// Lets others run if this task has used up its slice. Call it every 100 us or so of work.
    pub async fn yield_now(&self) {
        match &self.backend {
            Backend::Kernel(core) => core.yield_now().await,
            Backend::Sim(core) => core.yield_now().await,
        }
    }

    /// The result of `f`, or `None` (and `f` dropped) if it takes longer than `d`. Safe around any operation
    /// of this crate: operations belong to io and end on their own; of an `accept` or `connect` that is
    /// given up, the socket is closed.
    pub async fn timeout<T>(&self, d: Duration, f: impl Future<Output = T>) -> Option<T> {
        let mut f = pin!(f);
        let mut timer = pin!(self.sleep(d));
        poll_fn(|cx| {
            // The future first: what is there at the deadline is given.
            if let Poll::Ready(value) = f.as_mut().poll(cx) {
                return Poll::Ready(Some(value));
            }
            timer.as_mut().poll(cx).map(|()| None)
        })
        .await
    }

    /// Stops everything, now: nothing more may be acknowledged. The process logs `why` at ERROR and exits
    /// with code 3; a simulated node dies.
    pub fn fatal(&self, why: &str) -> ! {
        match &self.backend {
            Backend::Kernel(_) => kernel::fatal(why),
            Backend::Sim(_) => sim::fatal(why),
        }
    }

    /// The disk of this node.
    ///
    /// # Panics
    /// For a simulated client, which has none.
    pub fn disk(&self) -> Disk {
        Disk::new(self.clone())
    }

    /// Listens on `addr`. Port 0 picks one.
    pub async fn bind(&self, addr: SocketAddr, options: BindOptions) -> Result<Acceptor> {
        match &self.backend {
            Backend::Kernel(core) => core.bind(addr, options).map(Acceptor::kernel),
            Backend::Sim(core) => core.bind(addr, options).map(Acceptor::sim),
        }
    }

    /// Connects to `addr`.
    pub async fn connect(&self, addr: SocketAddr) -> Result<Conn> {
        match &self.backend {
            Backend::Kernel(core) => core.connect(addr).await.map(Conn::kernel),
            Backend::Sim(core) => core.connect(addr).await.map(Conn::sim),
        }
    }

    /// Whether reads and copied writes use memory registered with the kernel (a start-up line for operators;
    /// false when RLIMIT_MEMLOCK was too low, which costs CPU and nothing else).
    pub fn buffers_registered(&self) -> bool {
        match &self.backend {
            Backend::Kernel(core) => core.buffers_registered(),
            Backend::Sim(_) => false,
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runtime(core {} of {})", self.core(), self.cores())
    }
}
