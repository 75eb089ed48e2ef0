//! Consumer groups as pure state machines: event and time in, effects out (KIP-62, KIP-345, KIP-394, KIP-429).
//!
//! Owned by the core that leads the group's partition of `__consumer_offsets`; it feeds the events and carries the
//! effects out. Reading order: `event` (what members ask), `effect` (what is to be done for it), `coordinator` (all
//! groups of a core), `group` (one group), `offsets` and `record` (what groups have committed, and its form in the log).
//!
//! Absent on purpose: sockets, clocks, randomness, files, the number of cores, the assignment itself (members do it).

mod clock;
mod coordinator;
mod effect;
mod error;
mod event;
mod group;
mod history;
mod offsets;
mod options;
pub mod record;
mod subscription;

pub use clock::Clock;
pub use coordinator::Coordinator;
pub use effect::{Effect, Joined, JoinedMember, Synced, Ticket};
pub use error::GroupError;
pub use event::{Commit, Fence, Heartbeat, Join, Leave, Leaving, Protocol, Sync};
pub use group::{Described, DescribedMember, Listed, Phase};
pub use history::{Cause, Transition, Who};
pub use offsets::{Committed, Offsets, TopicPartition};
pub use options::Options;
pub use subscription::subscribed_topics;
