//! What is known of a partition from flushed entries alone.
//!
//! One function changes it, [`PartitionState::apply`], and it runs in two places: when a commit's flush has returned,
//! and when recovery replays the frame. A checkpoint writes it. So what a crash brings back is what the living broker
//! believed, by construction. What is assigned but not yet flushed is kept apart, in `log.rs`.

mod apply;
mod codec;
mod epochs;
mod partition;
mod producers;
mod segment;

pub(crate) use apply::{Change, Mismatch};
pub(crate) use codec::{PartitionRecord, put_index, take_index};
pub use epochs::EpochMap;
pub use partition::PartitionState;
pub(crate) use producers::Verdict;
pub use producers::{ProducerState, ProducerTable};
pub use segment::{BatchInfo, IndexEntry, SegmentState, SegmentStatus};
pub(crate) use segment::{NO_TIMESTAMP, SegmentKey};
