//! One core's logs: the journal that makes a commit durable, the segments that keep it, and the way back after a crash.
//!
//! Reading order: `FORMAT.md`, then the modules below from the top. The two paths are
//! `log` -> `journal` (append) and `log` -> `read` (fetch).
//!
//! Absent on purpose: replicas, groups, topics' policies, the number of cores. A *ring* is a journal file; which core
//! adopts which ring is not known here.

pub mod examples;
pub mod inspect;

mod limits;
mod mutant;

mod bytes;
mod entry;
mod error;
mod frame;
mod ids;

mod checkpoint;
mod meta;
mod state;

mod directory;
mod rings;

mod recovery;
mod replay;
mod ring;
mod storage;

mod tail;

mod distance;
mod journal;
mod log;
mod read;
mod search;
mod segment_files;

mod cleaner;
mod maintenance;
mod retention;
mod store;
mod sweep;

pub use entry::{Entry, ExtentEntry, NewSegment, PartitionRef};
pub use error::{Error, Result};
pub use frame::{Expected, FrameHeader, FrameRead, read_frame};
pub use ids::{Generation, PartitionId, RingId, Sequence, TopicId};
pub use journal::Receipt;
pub use limits::*;
pub use log::{AppendError, Appended, Log, LogConfig, Ratio};
pub use meta::SegmentMeta;
pub use mutant::Mutant;
pub use read::{Fetched, FetchedRange};
pub use search::Found;
pub use state::{
    BatchInfo, EpochMap, IndexEntry, PartitionState, ProducerState, ProducerTable, SegmentState,
    SegmentStatus,
};
pub use storage::{RingRef, Storage, StorageOptions};
pub use store::{Store, StoreCounters, StoreOptions};
