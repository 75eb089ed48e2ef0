//! What the cluster consists of: topics, their ids, partitions and settings.
//!
//! The rest of the broker sees an [`Image`], immutable and swapped whole. It is kept in a store of small versioned
//! values; the same store keeps values that are nobody's business here, such as the state of consumer groups. [`Embedded`] is the one for a node that is alone: an internal partition of the log and a snapshot.
//!
//! Absent on purpose: where a partition's core is (the shard knows), and any state of a partition's log.

mod embedded;
mod error;
mod image;
mod snapshot;

pub use embedded::{Embedded, METADATA_TOPIC, VALUE_PREFIX};
pub use error::{Error, Result};
pub use image::{Image, Topic, TopicState};
