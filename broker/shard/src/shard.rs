//! The shard: one core's handle to everything that requests need. Clone; never leaves its core.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rillway_io::{Class, Notify, Runtime, Semaphore, Task};
use rillway_log::{Store, StoreCounters};
use rillway_meta::Embedded;

use crate::config::Defaults;
use crate::groups::{GroupSettings, Groups};
use crate::mesh::Mesh;
use crate::view::View;

/// Settings of the node that a shard needs.
#[derive(Clone, Copy, Debug)]
pub struct ShardOptions {
    pub defaults: Defaults,
    /// Kafka: num.partitions.
    pub num_partitions: u32,
    /// Kafka: auto.create.topics.enable.
    pub auto_create_topics: bool,
    /// Partitions that one topic may have.
    pub partitions_per_topic_max: u32,
    /// Kafka: log.retention.check.interval.ms.
    pub retention_check_interval: Duration,
    pub groups: GroupSettings,
    /// Kafka: log.cleaner.backoff.ms; `None`: the cleaner is off (log.cleaner.enable).
    pub cleaner_backoff: Option<Duration>,
}

impl Default for ShardOptions {
    fn default() -> Self {
        ShardOptions {
            defaults: Defaults::default(),
            num_partitions: 1,
            auto_create_topics: true,
            partitions_per_topic_max: 10_000,
            retention_check_interval: Duration::from_secs(300),
            groups: GroupSettings::default(),
            cleaner_backoff: Some(Duration::from_secs(15)),
        }
    }
}

/// One core.
#[derive(Clone)]
pub struct Shard {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) rt: Runtime,
    pub(crate) core: usize,
    pub(crate) mesh: Mesh,
    pub(crate) options: ShardOptions,
    pub(crate) store: Store,
    pub(crate) view: RefCell<Arc<View>>,
    /// Core 0 has read the metadata and shown it here.
    pub(crate) ready: Cell<bool>,
    pub(crate) became_ready: Notify,
    /// Cores that take no more requests.
    pub(crate) quiet: Cell<usize>,
    pub(crate) became_quiet: Notify,
    /// Only on core 0.
    pub(crate) controller: RefCell<Option<Rc<Embedded>>>,
    /// Changes of topics, one at a time. Only on core 0.
    pub(crate) topics: Semaphore,
    /// Producer ids of this core that are reserved and not given out: next, end.
    pub(crate) producer_ids: Cell<(i64, i64)>,
    pub(crate) producer_ids_turn: Semaphore,
    /// The groups that this core coordinates.
    pub(crate) groups: Groups,
    /// Waits for new records end: the node is stopping.
    pub(crate) stopping: Cell<bool>,
    pub(crate) stop_waits: Notify,
    /// Retention and compaction are due now: settings have changed.
    pub(crate) retention_due: Notify,
    pub(crate) tasks: RefCell<Vec<Task<()>>>,
}

/// A backoff of 0 must not become a loop that does nothing else.
const BACKOFF_MIN: Duration = Duration::from_millis(10);

/// The core that changes topics and reserves producer ids.
pub(crate) const CONTROLLER: usize = 0;

impl Shard {
    pub fn runtime(&self) -> &Runtime {
        &self.inner.rt
    }

    pub fn core(&self) -> usize {
        self.inner.core
    }

    pub fn cores(&self) -> usize {
        self.inner.mesh.cores()
    }

    pub fn options(&self) -> &ShardOptions {
        &self.inner.options
    }

    /// What exists and who owns it, as of now.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.inner.view.borrow())
    }

    pub fn counters(&self) -> StoreCounters {
        self.inner.store.counters()
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(crate) fn set_view(&self, view: Arc<View>) {
        *self.inner.view.borrow_mut() = view;
    }

    pub(crate) fn set_ready(&self) {
        self.inner.ready.set(true);
        self.inner.became_ready.notify_all();
    }

    /// Waits until core 0 has shown what exists: before that an answer could only be a lie.
    pub(crate) async fn until_ready(&self) {
        loop {
            let ready = self.inner.became_ready.notified();
            if self.inner.ready.get() {
                return;
            }
            ready.await;
        }
    }

    /// Looks at retention from time to time.
    pub(crate) fn spawn_retention(&self) {
        let shard = self.clone();
        let task = self.inner.rt.spawn(Class::Background, async move {
            loop {
                let due = shard.inner.retention_due.notified();
                let interval = shard.inner.options.retention_check_interval;
                let _ = shard.inner.rt.timeout(interval, due).await;
                if let Err(e) = shard.inner.store.enforce_retention().await {
                    tracing::warn!("retention: {e}");
                }
            }
        });
        self.inner.tasks.borrow_mut().push(task);
    }

    /// Compacts what is due, one partition after the other, and rests when nothing is.
    pub(crate) fn spawn_cleaner(&self) {
        let Some(backoff) = self.inner.options.cleaner_backoff else { return };
        let shard = self.clone();
        let task = self.inner.rt.spawn(Class::Background, async move {
            let mut worked = false;
            loop {
                let due = shard.inner.retention_due.notified();
                if !worked {
                    let _ = shard.inner.rt.timeout(backoff.max(BACKOFF_MIN), due).await;
                }
                worked = shard.inner.store.clean().await.unwrap_or_else(|e| {
                    tracing::warn!("compaction: {e}");
                    false
                });
            }
        });
        self.inner.tasks.borrow_mut().push(task);
    }

    /// One round of retention now.
    pub async fn enforce_retention(&self) -> Result<(), rillway_log::Error> {
        self.inner.store.enforce_retention().await
    }

    /// Says that this core takes no more requests, and waits until no core does: what was accepted there may still need
    /// this core for its answer, and work in the mailbox of a core that is gone is never answered.
    pub async fn quiet(&self) {
        for core in 0..self.cores() {
            let said = self.on(core, |shard: Shard| async move {
                shard.inner.quiet.set(shard.inner.quiet.get() + 1);
                shard.inner.became_quiet.notify_all();
            });
            let _ = said.await;
        }
        loop {
            let quiet = self.inner.became_quiet.notified();
            if self.inner.quiet.get() >= self.cores() {
                return;
            }
            quiet.await;
        }
    }

    /// Answers every fetch that waits with what there is, and every member that waits for its group: the node is
    /// stopping.
    pub fn end_waits(&self) {
        self.inner.stopping.set(true);
        self.inner.groups.end_waits();
        self.inner.stop_waits.notify_all();
    }

    /// Stops background work, commits what waits, writes a clean checkpoint. Connections are closed before.
    pub async fn stop(&self) -> Result<(), rillway_log::Error> {
        for task in self.inner.tasks.borrow_mut().drain(..) {
            task.cancel();
        }
        self.inner.store.close().await
    }
}
