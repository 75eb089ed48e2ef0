//! Makes data directories: a node of the simulated world that does a little of everything a log does.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rillway_io::Runtime;
use rillway_io::sim::World;
use rillway_log::{
    Log, LogConfig, PartitionId, RING_BYTES_MIN, Ratio, Storage, StorageOptions, Store,
    StoreOptions, TopicId,
};
use rillway_wire::batch::{BatchBuilder, Codec};

use super::Memory;

pub(super) const NODE: &str = "node";
pub(super) const DIR: &str = "/data";

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Clean,
    Kill,
    PowerCut,
}

/// What is under way in a node that writes.
pub(super) struct Node {
    rt: Runtime,
    stores: Vec<Store>,
    _storage: Storage,
    tag: u64,
}

fn partition(topic: u8, index: u32) -> PartitionId {
    PartitionId { topic: TopicId([topic; 16]), index }
}

fn config() -> LogConfig {
    LogConfig { segment_bytes: 64 << 10, retention_ms: -1, ..LogConfig::default() }
}

fn compacted() -> LogConfig {
    let min_cleanable_ratio = Ratio::new(0.0).expect("a share");
    LogConfig { compact: true, delete: false, min_cleanable_ratio, ..config() }
}

impl Node {
    async fn open(rt: Runtime, delete_delay: Duration) -> Node {
        let storage = StorageOptions {
            dir: PathBuf::from(DIR),
            rings: 2,
            ring_bytes: RING_BYTES_MIN,
            reserve_bytes: 1 << 16,
            lock_wait: Duration::from_secs(10),
        };
        let store = StoreOptions {
            // Destage and checkpoints come often.
            undestaged_bytes: 1 << 20,
            extent_bytes: Some(32 << 10),
            cache_bytes: 1 << 20,
            delete_delay,
            ..StoreOptions::default()
        };
        let opened = Storage::open(&rt, &storage, &store).await.expect("the directory");
        let mut stores = Vec::new();
        for ring in opened.rings() {
            stores.push(Store::open(&rt, ring, &store).await.expect("a ring"));
        }
        // A name has one topic at a time, which the metadata sees to in a broker.
        for store in &stores {
            for log in store.logs().into_iter().filter(|log| log.topic() == "gone") {
                store.delete(log.id()).await.expect("a delete");
            }
        }
        Node { rt, stores, _storage: opened, tag: 1 }
    }

    async fn log(
        &self,
        ring: usize,
        name: &str,
        topic: u8,
        index: u32,
        config: LogConfig,
    ) -> Rc<Log> {
        let id = partition(topic, index);
        let found = self.stores.iter().find_map(|s| s.log(id));
        match found {
            Some(log) => {
                log.configure(config);
                log
            }
            None => self.stores[ring].create(id, name, config).await.expect("create"),
        }
    }

    /// `n` batches of one record of `size` bytes, with one of `keys` keys each.
    async fn fill(&mut self, log: &Rc<Log>, n: usize, size: usize, keys: u64) {
        for _ in 0..n {
            self.tag += 1;
            let mut state = self.tag.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut value = vec![0; size];
            for byte in &mut value {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *byte = state as u8;
            }
            let mut b = BatchBuilder::new(Codec::None);
            let key = (self.tag % keys).to_be_bytes();
            b.push(1_700_000_000_000, Some(&key), Some(&value), &[]);
            let bytes = b.build().expect("plain batches are built in memory");
            // A disk that is busy, or a log that is being deleted, refuses: the next round goes on.
            if let Ok(appended) = log.append_as_leader(&bytes).await {
                let _ = appended.receipt.wait().await;
            }
        }
    }

    async fn clean(&self) {
        for store in &self.stores {
            while store.clean().await.expect("cleaning") {}
        }
    }

    /// Everything that makes a kind of file.
    async fn round(&mut self, number: u8) {
        let orders = self.log(0, "orders", 1, 0, config()).await;
        let more = self.log(1, "orders", 1, 1, config()).await;
        let table = self.log(0, "table", 2, 0, compacted()).await;
        let offsets = self.log(1, "__consumer_offsets", 3, 7, compacted()).await;
        let big = self.log(1, "big", 4, 0, config()).await;
        let idle = self.log(0, "idle", 5, 0, config()).await;
        self.fill(&orders, 40, 5_000, 1 << 40).await;
        self.fill(&more, 10, 9_000, 1 << 40).await;
        self.fill(&table, 60, 4_000, 5).await;
        self.fill(&offsets, 200, 700, 9).await;
        // Extents, with a tail in the middle of a block.
        self.fill(&big, 3, 45_001, 1 << 40).await;
        self.fill(&idle, 1, 90, 1 << 40).await;
        // A topic of the same name as one that was just deleted, with an id that no other has.
        let mut id = [number; 16];
        id[..8].copy_from_slice(&self.rt.random_u64().to_be_bytes());
        let id = PartitionId { topic: TopicId(id), index: 0 };
        let gone = self.stores[0].create(id, "gone", config()).await.expect("create");
        self.fill(&gone, 20, 5_000, 1 << 40).await;
        self.rt.sleep(Duration::from_millis(50)).await;
        self.clean().await;
        orders.trim(orders.flushed_end() - 30).await.expect("a log start");
        for store in &self.stores {
            store.delete(gone.id()).await.expect("a delete");
            store.enforce_retention().await.expect("retention");
        }
    }
}

/// A node that has done `rounds` rounds, and ended so.
pub(super) fn made(seed: u64, rounds: u8, end: End) -> Memory {
    let world = World::new(seed);
    let done = Rc::new(std::cell::Cell::new(false));
    let told = Rc::clone(&done);
    world.start_node(NODE, 1, move |rt| {
        let told = Rc::clone(&told);
        async move {
            // What is deleted stays to be looked at.
            let mut node = Node::open(rt, Duration::from_secs(3600)).await;
            for round in 0..rounds {
                node.round(round).await;
            }
            if end == End::Kill {
                // A mark is the last frame of each ring then, and what is torn loses nothing.
                node.rt.sleep(Duration::from_secs(2)).await;
            }
            if end == End::Clean {
                for store in &node.stores {
                    store.close().await.expect("a clean stop");
                }
            }
            told.set(true);
            std::future::pending::<()>().await;
        }
    });
    let ran = world.run_until(|| done.get() || !world.is_running(NODE), Duration::from_secs(600));
    assert!(ran.is_ok() && done.get(), "{ran:?}, {:?}", world.death(NODE));
    ended(&world, end)
}

/// Ends what runs in a world, and gives what is on its disk.
pub(super) fn ended(world: &World, end: End) -> Memory {
    match end {
        End::Clean | End::Kill => world.kill(NODE),
        End::PowerCut => world.power_cut(NODE),
    }
    let mut memory = on_disk(world);
    // The metadata store's, which lies beside the segments of its log.
    let text = "rillway-metadata 1\nversion 0\n";
    let snapshot = format!("{text}crc {:08x}\n", crc32c::crc32c(text.as_bytes()));
    if end == End::Clean {
        memory.files.insert(PathBuf::from(DIR).join("idle-0/snapshot"), snapshot.into_bytes());
    }
    memory
}

fn on_disk(world: &World) -> Memory {
    let disk = world.disk(NODE);
    let files = disk.files().into_iter().filter(|path| path.starts_with(Path::new(DIR)));
    let files = files.filter_map(|path| Some((path.clone(), disk.read(&path)?))).collect();
    Memory { files }
}

/// Starts a node that goes through its rounds for ever.
pub(super) fn busy(world: &World) {
    world.start_node(NODE, 1, move |rt| async move {
        let mut node = Node::open(rt, Duration::from_millis(30)).await;
        for round in 0.. {
            node.round(round % 100).await;
        }
    });
}
