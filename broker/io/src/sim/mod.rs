//! The simulated backend: a whole world of nodes, clients, disks and a network on one thread, in virtual time.
//!
//! Everything that happens follows from the seed; `World::trace_hash` proves it. A node is a set of cores that
//! share a disk and a fate; its disk stays when it dies. A simulated core is not a thread: code above this crate
//! must have no thread locals, mutable statics or clocks of its own.

mod conn;
mod core;
pub(crate) mod disk;
mod executor;
mod faults;
pub(crate) mod net;
mod probe;
mod rng;
mod world;

pub(crate) use self::core::{Core, fatal};
pub use faults::Faults;
pub use probe::DiskProbe;
pub use world::{NodeHandle, Stuck, World};
