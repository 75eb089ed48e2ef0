//! The kernel backend: one glommio executor per core, direct files through io_uring, sockets by readiness.
//!
//! What glommio does well is used as it is (executor, timers, direct reads and writes); what it does badly is
//! done here: sockets of our own, blocking calls on threads of our own that keep the order per path, `syncfs`.

mod blocking;
pub(crate) mod disk;
mod executor;
mod mounts;
pub(crate) mod net;
pub(crate) mod sealed;
pub(crate) mod syncfs;
mod watch;

pub(crate) use executor::{Core, fatal};
pub use executor::{KernelOptions, Node, start};
