//! The broker as a library: what the binary runs on the kernel, and what the simulator runs on its own.
//!
//! `node` puts the crates together; `config` is the one declaration of every setting.

pub mod config;
pub mod node;
pub mod placement;
