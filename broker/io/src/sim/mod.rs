//! The simulated backend.
pub(crate) mod disk;
pub(crate) mod net;
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
}
#[allow(unused_variables)]
pub(crate) fn fatal(why: &str) -> ! {
    panic!("{NO}")
}

/// A simulated world.
pub struct World;
/// What may go wrong.
#[derive(Clone, Debug, Default)]
pub struct Faults {}
/// A started node.
pub struct NodeHandle<T> {
    _results: Vec<T>,
}
/// Nothing can happen any more, or the limit was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck(pub String);
/// A disk seen from outside.
pub struct DiskProbe;
#[allow(unused_variables)]
impl DiskProbe {
    /// Paths of all files, sorted.
    pub fn files(&self) -> Vec<std::path::PathBuf> {
        panic!("{NO}")
    }
    /// What a read would return.
    pub fn read(&self, path: &std::path::Path) -> Option<Vec<u8>> {
        panic!("{NO}")
    }
    /// Flips one bit, on the disk itself.
    pub fn flip(&self, path: &std::path::Path, byte: u64, bit: u8) {
        panic!("{NO}")
    }
    /// Sets the length.
    pub fn truncate(&self, path: &std::path::Path, len: u64) {
        panic!("{NO}")
    }
    /// Removes a file.
    pub fn remove(&self, path: &std::path::Path) {
        panic!("{NO}")
    }
    /// Sets the capacity in bytes.
    pub fn set_capacity(&self, bytes: u64) {
        panic!("{NO}")
    }
}
#[allow(unused_variables)]
impl World {
    /// A world that follows from `seed`.
    pub fn new(seed: u64) -> World {
        panic!("{NO}")
    }
    /// Sets what may go wrong.
    pub fn set_faults(&self, faults: Faults) {
        panic!("{NO}")
    }
    /// Starts a node.
    pub fn start_node<T, F, Fut>(&self, name: &str, cores: usize, main: F) -> NodeHandle<T>
    where
        F: Fn(Runtime) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        panic!("{NO}")
    }
    /// A runtime outside any node.
    pub fn client(&self, name: &str) -> Runtime {
        panic!("{NO}")
    }
    /// Runs until `done`.
    pub fn run_until(
        &self,
        done: impl Fn() -> bool,
        limit: Duration,
    ) -> std::result::Result<(), Stuck> {
        panic!("{NO}")
    }
    /// Runs a future to its end.
    pub fn block_on<T: 'static>(&self, f: impl Future<Output = T> + 'static) -> T {
        panic!("{NO}")
    }
    /// kill -9.
    pub fn kill(&self, node: &str) {
        panic!("{NO}")
    }
    /// The same, and the power is cut.
    pub fn power_cut(&self, node: &str) {
        panic!("{NO}")
    }
    /// Why a node died by itself.
    pub fn death(&self, node: &str) -> Option<String> {
        panic!("{NO}")
    }
    /// The disk of a node.
    pub fn disk(&self, node: &str) -> DiskProbe {
        panic!("{NO}")
    }
    /// Hash of everything that was decided.
    pub fn trace_hash(&self) -> u64 {
        panic!("{NO}")
    }
}
