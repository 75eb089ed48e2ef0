//! What the Rust client programs share.

mod adapter;
mod member;

pub use adapter::{Cannot, Client, Error, PATIENCE, Record, serve};
pub use member::{HEARTBEAT_MS, METADATA_MS, Wish, leave, say, wish};
