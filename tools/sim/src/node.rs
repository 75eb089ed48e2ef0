//! The broker in the world: one life at a time, and a view of its inside for the driver.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use rillway::node::{ListenOptions, NodeOptions, Shared, start_core};
use rillway_api::Limits;
use rillway_group::Options as GroupOptions;
use rillway_io::sim::{NodeHandle, World};
use rillway_io::{Notify, TRANSFER_BYTES_MIN, TransferMode};
use rillway_log::{
    Mutant, PartitionState, RING_BYTES_MIN, StorageOptions, StoreCounters, StoreOptions,
};
use rillway_shard::{GroupSettings, Shard, ShardOptions};

use crate::hub::PORT;
use crate::rng::Rng;

pub(crate) const NODE: &str = "broker";

/// What is seen of one life from outside.
pub(crate) struct Life {
    shards: RefCell<Vec<Option<Shard>>>,
    stop: Notify,
    stopping: Cell<bool>,
    pub handle: NodeHandle<Result<(), String>>,
}

/// Settings that a seed keeps for all its lives.
#[derive(Clone)]
pub(crate) struct Settings {
    pub store: StoreOptions,
    pub retention_check: Duration,
    pub cleaner_backoff: Option<Duration>,
    pub ring_bytes: u64,
    pub groups: GroupSettings,
}

impl Settings {
    pub(crate) fn draw(rng: &mut Rng, mutant: Option<Mutant>) -> Settings {
        Settings {
            store: StoreOptions {
                extent_bytes: *rng.pick(&[None, Some(16 << 10), Some(16 << 10), Some(64 << 10)]),
                undestaged_bytes: *rng.pick(&[4 << 20, 4 << 20, 8 << 20, 32 << 20]),
                cache_bytes: *rng.pick(&[1 << 20, 1 << 20, 64 << 20]),
                transfer_bytes: TRANSFER_BYTES_MIN,
                transfer: *rng.pick(&[TransferMode::Copy, TransferMode::Splice]),
                delete_delay: Duration::from_millis(*rng.pick(&[0, 20, 500])),
                // Room for a few keys only, or for all.
                dedupe_bytes: *rng.pick(&[24 * 8, 24 * 20, 1 << 20, 1 << 20]),
                mutant,
                ..Default::default()
            },
            retention_check: Duration::from_millis(rng.range(20, 300)),
            cleaner_backoff: Some(Duration::from_millis(rng.range(50, 200))),
            ring_bytes: RING_BYTES_MIN,
            groups: groups(rng),
        }
    }

    /// How long offsets that nobody reads are kept, if a run can see their end.
    pub(crate) fn offsets_retention_ms(&self) -> Option<i64> {
        let ms = self.groups.options.offsets_retention_ms;
        (ms < GroupOptions::default().offsets_retention_ms).then_some(ms)
    }

    fn options(&self, cores: usize) -> NodeOptions {
        NodeOptions {
            listeners: vec![ListenOptions::at(SocketAddr::from(([0, 0, 0, 0], PORT)))],
            nodes: None,
            configs: Default::default(),
            broker_id: 1,
            storage: StorageOptions {
                dir: PathBuf::from("/data"),
                rings: cores,
                ring_bytes: self.ring_bytes,
                reserve_bytes: 1 << 20,
                lock_wait: Duration::from_secs(10),
            },
            store: self.store.clone(),
            shard: ShardOptions {
                auto_create_topics: false,
                retention_check_interval: self.retention_check,
                cleaner_backoff: self.cleaner_backoff,
                groups: self.groups,
                ..Default::default()
            },
            limits: Limits::default(),
        }
    }
}

/// Settings of groups: few partitions, short times, and offsets that expire in some seeds.
fn groups(rng: &mut Rng) -> GroupSettings {
    let mut options = GroupOptions {
        session_timeout_min_ms: 10,
        initial_rebalance_delay_ms: rng.range(0, 40) as i32,
        ..Default::default()
    };
    let mut retention_check_interval = GroupSettings::default().retention_check_interval;
    if rng.percent(25) {
        options.offsets_retention_ms = rng.range(100, 2_000) as i64;
        retention_check_interval = Duration::from_millis(rng.range(20, 300));
    }
    GroupSettings {
        options,
        offsets_partitions: *rng.pick(&[1, 3, 8]),
        offsets_segment_bytes: 1 << 20,
        retention_check_interval,
    }
}

/// Starts a life.
pub(crate) fn start(world: &World, settings: &Settings, cores: usize) -> Rc<Life> {
    let options = settings.options(cores);
    let parts = Shared::new(cores);
    let life: Rc<RefCell<Option<Rc<Life>>>> = Rc::default();
    let within = Rc::clone(&life);
    let handle = world.start_node(NODE, cores, move |rt| {
        let parts = parts.take(rt.core());
        let options = options.clone();
        let within = Rc::clone(&within);
        async move {
            let core = match start_core(&rt, parts, &options).await {
                Ok(core) => core,
                Err(e) => rt.fatal(&format!("start: {e}")),
            };
            let life = within.borrow().clone().expect("set before the world moves on");
            life.shards.borrow_mut()[rt.core()] = Some(core.shard.clone());
            loop {
                let stop = life.stop.notified();
                if life.stopping.get() {
                    break;
                }
                stop.await;
            }
            drop(life);
            core.stop().await
        }
    });
    let made = Rc::new(Life {
        shards: RefCell::new(vec![None; cores]),
        stop: Notify::new(),
        stopping: Cell::new(false),
        handle,
    });
    *life.borrow_mut() = Some(Rc::clone(&made));
    made
}

impl Life {
    /// True when every core serves.
    pub(crate) fn ready(&self) -> bool {
        self.shards.borrow().iter().all(Option::is_some)
    }

    /// Asks for a clean stop.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        self.stop.notify_all();
    }

    /// Sums over the cores that serve.
    pub(crate) fn counters(&self) -> StoreCounters {
        let mut sum = StoreCounters::default();
        for shard in self.shards.borrow().iter().flatten() {
            sum.add(&shard.counters());
        }
        sum
    }

    /// Flushed state of every partition, without what a start changes.
    pub(crate) fn flushed(&self) -> Vec<String> {
        let shards = self.shards.borrow();
        let logs = shards.iter().flatten().flat_map(|s| s.store().logs());
        let mut all: Vec<String> = logs.map(|log| describe(&log.flushed_state())).collect();
        all.sort();
        all
    }

    /// Partitions that are refused, and why.
    pub(crate) fn refused(&self) -> Vec<String> {
        let shards = self.shards.borrow();
        let logs = shards.iter().flatten().flat_map(|s| s.store().logs());
        logs.filter_map(|log| {
            Some(format!("{}-{}: {}", log.topic(), log.id().index, log.refused()?))
        })
        .collect()
    }

    /// Lets go of the node's inside, when it has ended.
    pub(crate) fn forget(&self) {
        self.shards.borrow_mut().iter_mut().for_each(|s| *s = None);
    }
}

fn describe(p: &PartitionState) -> String {
    let segments: Vec<_> =
        p.segments.iter().map(|s| (s.base, s.end, s.length, s.max_timestamp)).collect();
    let producers: Vec<_> = p.producers.iter().collect();
    format!(
        "{} {} {}..{} {:?} {segments:?} {producers:?}",
        p.topic,
        p.id,
        p.log_start,
        p.end,
        p.epochs.entries()
    )
}
