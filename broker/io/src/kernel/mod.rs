//! The kernel backend.
pub(crate) mod disk;
pub(crate) mod net;
pub(crate) mod syncfs;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use crate::error::Result;
use crate::net::BindOptions;
use crate::runtime::Runtime;
use crate::task::{Class, Task};
use crate::time::Instant;

const NO: &str = "this backend follows in the next commit";
pub(crate) struct Core;
#[allow(clippy::unused_async, unused_variables)]
impl Core {
    pub(crate) fn index(&self) -> usize {
        panic!("{NO}")
    }
    pub(crate) fn cores(&self) -> usize {
        panic!("{NO}")
    }
    pub(crate) fn now(&self) -> Instant {
        panic!("{NO}")
    }
    pub(crate) fn wall_ms(&self) -> i64 {
        panic!("{NO}")
    }
    pub(crate) fn random(&self, bytes: &mut [u8]) {
        panic!("{NO}")
    }
    pub(crate) fn spawn<T: 'static>(
        &self,
        class: Class,
        f: impl Future<Output = T> + 'static,
    ) -> Task<T> {
        crate::task::split(class, f, |p| drop(crate::task::describe(&p))).0
    }
    pub(crate) async fn sleep(&self, d: Duration) {
        panic!("{NO}")
    }
    pub(crate) async fn yield_now(&self) {
        panic!("{NO}")
    }
    pub(crate) fn disk(&self) -> disk::Disk {
        panic!("{NO}")
    }
    pub(crate) fn bind(&self, addr: SocketAddr, o: BindOptions) -> Result<net::Acceptor> {
        panic!("{NO}")
    }
    pub(crate) async fn connect(&self, addr: SocketAddr) -> Result<net::Conn> {
        panic!("{NO}")
    }
    pub(crate) fn buffers_registered(&self) -> bool {
        panic!("{NO}")
    }
}
#[allow(unused_variables)]
pub(crate) fn fatal(why: &str) -> ! {
    panic!("{NO}")
}

/// How to start the executors of this process.
#[derive(Clone, Debug)]
pub struct KernelOptions {
    /// One executor per entry, pinned to that CPU.
    pub cpus: Vec<usize>,
    /// How long a task queue may run before others get a turn.
    pub preempt: Duration,
    /// Bytes of registered memory per executor; three times that is pinned.
    pub io_memory: usize,
    /// Period of the heartbeat timer.
    pub heartbeat: Duration,
}
impl Default for KernelOptions {
    fn default() -> KernelOptions {
        KernelOptions {
            cpus: vec![0],
            preempt: Duration::from_millis(1),
            io_memory: 2 << 20,
            heartbeat: Duration::from_millis(5),
        }
    }
}
/// Running executors.
pub struct Node<T> {
    results: Vec<T>,
}
impl<T> Node<T> {
    /// Waits for all of them.
    pub fn join(self) -> Vec<T> {
        self.results
    }
}
/// Starts one executor per CPU, each running `main`.
#[allow(unused_variables)]
pub fn start<T, F, Fut>(options: KernelOptions, main: F) -> Result<Node<T>>
where
    F: Fn(Runtime) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    panic!("{NO}")
}
