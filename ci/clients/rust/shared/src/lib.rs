//! What the Rust client programs share.

mod adapter;

pub use adapter::{Cannot, Client, Error, PATIENCE, Record, serve};
