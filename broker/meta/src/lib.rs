//! What the cluster consists of: topics, their ids, partitions and settings.
//!
//! The rest of the broker sees an [`Image`], immutable and swapped whole. It is kept in a store of small versioned
//! values; [`Embedded`] is the one for a node that is alone: an internal partition of the log and a snapshot.
//!
//! Absent on purpose: where a partition's core is (the shard knows), and any state of a partition's log.

mod embedded;
mod error;
mod image;
mod snapshot;

pub use embedded::{Embedded, METADATA_TOPIC};
pub use error::{Error, Result};
pub use image::{Image, Topic, TopicState};
