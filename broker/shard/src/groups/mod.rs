//! Consumer groups of this core: the host of the pure machine of `broker/group`.
//!
//! A group belongs to the core that leads its partition of `__consumer_offsets`; a request that arrives elsewhere is
//! passed on. What a group has committed is records of that partition; who is in it, its generation and its assignment
//! are a value of the metadata store, which a cluster keeps elsewhere. Reading order: `route` (whose group is it),
//! `load` (after a restart), `members` (join, sync, heartbeat, leave), `keep` (effects and timers), `commits`, `manage`
//! (describe, list, delete, expire), `report` (lag, and the black box).
//!
//! Absent on purpose: what a group decides (`broker/group`), Kafka's wire format.

mod commits;
mod keep;
mod load;
mod manage;
mod members;
mod report;
mod route;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use rillway_group::{Coordinator, Joined, Options, Synced, Ticket};
use rillway_io::{Notify, ReplySender};

pub use commits::{CommittedOffset, OffsetToCommit};
pub use report::{GroupReport, PartitionLag};
pub use route::OFFSETS_TOPIC;

use crate::error::CoordinatorError;

/// Settings of groups, under Kafka's names.
#[derive(Clone, Copy, Debug)]
pub struct GroupSettings {
    pub options: Options,
    /// offsets.topic.num.partitions, of a topic that is created now.
    pub offsets_partitions: u32,
    /// offsets.topic.segment.bytes
    pub offsets_segment_bytes: u64,
    /// offsets.retention.check.interval.ms
    pub retention_check_interval: Duration,
}

impl Default for GroupSettings {
    fn default() -> Self {
        GroupSettings {
            options: Options::default(),
            offsets_partitions: 50,
            offsets_segment_bytes: 100 << 20,
            retention_check_interval: Duration::from_secs(600),
        }
    }
}

/// The groups of one core.
pub(crate) struct Groups {
    coordinator: RefCell<Coordinator>,
    /// Members that wait for an answer.
    waiting: RefCell<BTreeMap<Ticket, Waiting>>,
    next_ticket: Cell<u64>,
    /// Groups whose state is being kept, and the state that came meanwhile.
    keeping: RefCell<BTreeMap<String, Option<Kept>>>,
    /// A group's state is kept.
    kept: Notify,
    /// What was committed before this life is known.
    loaded: Cell<bool>,
    became_loaded: Notify,
    /// The next timer may be another.
    timer: Notify,
}

type Answer<T> = ReplySender<Result<T, CoordinatorError>>;

enum Waiting {
    Join(Answer<Joined>),
    Sync(Answer<Synced>),
}

/// A state to keep, and its revision.
struct Kept {
    revision: u64,
    state: Option<Vec<u8>>,
}

impl Groups {
    pub(crate) fn new(settings: &GroupSettings) -> Groups {
        Groups {
            coordinator: RefCell::new(Coordinator::new(settings.options)),
            waiting: RefCell::default(),
            next_ticket: Cell::new(0),
            keeping: RefCell::default(),
            kept: Notify::new(),
            loaded: Cell::new(false),
            became_loaded: Notify::new(),
            timer: Notify::new(),
        }
    }

    fn wait(&self, waiting: Waiting) -> Ticket {
        let ticket = Ticket(self.next_ticket.get());
        self.next_ticket.set(ticket.0 + 1);
        self.waiting.borrow_mut().insert(ticket, waiting);
        ticket
    }

    /// Everybody who waits is told that the node is stopping.
    pub(crate) fn end_waits(&self) {
        self.waiting.borrow_mut().clear();
    }
}
