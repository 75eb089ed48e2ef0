//! A drill: one simulated node, its data directory, and lives that end in a chosen way.
//!
//! A life opens the directory and all rings on one core, runs a body, and then ends: cleanly, by `kill -9`, or with the
//! power. What a body returns is what the next life is compared with.
#![allow(dead_code, unreachable_pub)]

use std::cell::RefCell;
use std::future::Future;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use rillway_io::Runtime;
use rillway_io::sim::World;
use rillway_log::{
    Appended, Error, Log, LogConfig, PartitionId, RING_BYTES_MIN, Storage, StorageOptions, Store,
    StoreOptions, TopicId,
};
use rillway_wire::batch::{BatchBuilder, Codec, batches};

pub const NODE: &str = "node";
pub const DIR: &str = "/data";
const LIMIT: Duration = Duration::from_secs(600);

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Clean,
    Kill,
    PowerCut,
}

/// See the module.
pub struct Drill {
    pub world: World,
    pub storage: StorageOptions,
    pub store: StoreOptions,
}

/// What a body is given.
#[derive(Clone)]
pub struct Node {
    pub rt: Runtime,
    pub stores: Vec<Store>,
    _storage: Rc<Storage>,
}

impl Drill {
    pub fn new(seed: u64) -> Drill {
        Drill {
            world: World::new(seed),
            storage: StorageOptions {
                dir: PathBuf::from(DIR),
                rings: 1,
                ring_bytes: RING_BYTES_MIN,
                reserve_bytes: 1 << 20,
                lock_wait: Duration::from_secs(10),
            },
            store: StoreOptions {
                undestaged_bytes: 4 << 20,
                // Rings are to fill and wrap; `extents.rs` says otherwise.
                extent_bytes: None,
                cache_bytes: 1 << 20,
                delete_delay: Duration::from_millis(100),
                ..Default::default()
            },
        }
    }

    /// Starts a life and runs `body` in it; the life goes on until somebody ends it.
    pub fn start<T, F, Fut>(&self, body: F) -> Rc<RefCell<Option<T>>>
    where
        T: 'static,
        F: FnOnce(Node) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
    {
        let slot: Rc<RefCell<Option<T>>> = Rc::default();
        let (result, body) = (Rc::clone(&slot), Rc::new(RefCell::new(Some(body))));
        let (storage, store) = (self.storage.clone(), self.store.clone());
        self.world.start_node(NODE, 1, move |rt| {
            let (result, body) = (Rc::clone(&result), Rc::clone(&body));
            let (storage, store) = (storage.clone(), store.clone());
            async move {
                let node = match open(&rt, &storage, &store).await {
                    Ok(node) => node,
                    Err(e) => rt.fatal(&format!("start: {e}")),
                };
                let body = body.borrow_mut().take().expect("one core runs it once");
                let value = body(node).await;
                *result.borrow_mut() = Some(value);
                std::future::pending::<()>().await;
            }
        });
        slot
    }

    /// A whole life: `body` runs to its end, and then the life ends as told.
    pub fn life<T, F, Fut>(&self, end: End, body: F) -> T
    where
        T: 'static,
        F: FnOnce(Node) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
    {
        let slot = self.start(move |node: Node| async move {
            let value = body(node.clone()).await;
            if end == End::Clean {
                for store in &node.stores {
                    store.close().await.expect("a clean stop");
                }
            }
            value
        });
        let done =
            self.world.run_until(|| slot.borrow().is_some() || !self.world.is_running(NODE), LIMIT);
        if let Err(stuck) = done {
            panic!("{stuck}");
        }
        let value = slot.borrow_mut().take();
        let value = value.unwrap_or_else(|| panic!("the node died: {:?}", self.world.death(NODE)));
        self.end(end);
        value
    }

    /// Ends the life that runs.
    pub fn end(&self, end: End) {
        match end {
            End::Clean | End::Kill => self.world.kill(NODE),
            End::PowerCut => self.world.power_cut(NODE),
        }
    }

    /// Runs a life and ends it `after` its start, wherever it is.
    pub fn cut_after<F, Fut>(&self, end: End, after: Duration, body: F)
    where
        F: FnOnce(Node) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let _slot = self.start(body);
        self.world.run_for(after);
        self.end(end);
    }

    /// Starts a node that must not come up, and gives its last words.
    pub fn refused(&self) -> String {
        let slot = self.start(|_| async {});
        let done =
            self.world.run_until(|| slot.borrow().is_some() || !self.world.is_running(NODE), LIMIT);
        assert!(done.is_ok(), "{done:?}");
        assert!(slot.borrow().is_none(), "the node came up");
        self.world.death(NODE).expect("a refusal has words")
    }

    /// Path of a file below the data directory.
    pub fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(DIR).join(name)
    }
}

async fn open(rt: &Runtime, storage: &StorageOptions, store: &StoreOptions) -> Result<Node, Error> {
    let opened = Storage::open(rt, storage, store).await?;
    let mut stores = Vec::new();
    for ring in opened.rings() {
        stores.push(Store::open(rt, ring, store).await?);
    }
    Ok(Node { rt: rt.clone(), stores, _storage: Rc::new(opened) })
}

/// The id of the nth topic of a test.
pub fn topic(n: u8) -> PartitionId {
    PartitionId { topic: TopicId([n; 16]), index: 0 }
}

/// Small segments, nothing retained away.
pub fn config() -> LogConfig {
    LogConfig { segment_bytes: 1 << 20, retention_ms: -1, ..Default::default() }
}

/// A batch of one record of `size` bytes that follow from `tag`.
pub fn batch(tag: u64, size: usize) -> Vec<u8> {
    produced(tag, size, None)
}

/// The same, of an idempotent producer, as its `sequence`th.
pub fn produced(tag: u64, size: usize, producer: Option<(i64, i32)>) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None);
    if let Some((id, sequence)) = producer {
        builder = builder.producer(id, 0, sequence);
    }
    let mut state = tag.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let value: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .flatten()
    .take(size)
    .collect();
    builder.push(1_700_000_000_000, None, Some(&value), &[]);
    builder.build().expect("plain batches are built in memory")
}

impl Node {
    pub fn store(&self) -> &Store {
        &self.stores[0]
    }

    /// The log of a topic, on whichever ring it is; made on the first if there is none.
    pub async fn log(&self, id: PartitionId) -> Rc<Log> {
        if let Some(log) = self.stores.iter().find_map(|s| s.log(id)) {
            log.configure(config());
            return log;
        }
        let name = format!("t{}", id.topic.0[0]);
        self.store().create(id, &name, config()).await.expect("create")
    }

    /// Appends and waits for the flush: the offset.
    pub async fn append(&self, log: &Rc<Log>, batch: &[u8]) -> i64 {
        let appended: Appended = log.append_as_leader(batch).await.expect("append");
        appended.receipt.wait().await.expect("a receipt");
        appended.base_offset
    }

    /// Appends `n` batches of `size` bytes, tagged by their offsets.
    pub async fn fill(&self, log: &Rc<Log>, n: usize, size: usize) {
        for _ in 0..n {
            let tag = log.flushed_end() as u64;
            self.append(log, &batch(tag, size)).await;
        }
    }

    /// All values from the log start on, with their offsets.
    pub async fn read(&self, log: &Rc<Log>) -> Vec<(i64, Vec<u8>)> {
        let mut out = Vec::new();
        let mut offset = log.log_start();
        while offset < log.flushed_end() {
            let fetched = log.read(offset, 1 << 20, true, 1 << 20).await.expect("read");
            assert!(
                fetched.bytes > 0,
                "nothing at offset {offset}, the log ends at {}",
                log.flushed_end()
            );
            let bytes: Vec<u8> = fetched.chunks.iter().flat_map(|c| c.iter().copied()).collect();
            for found in batches(&bytes) {
                let found = found.expect("whole batches");
                assert!(found.check_crc(), "CRC of the batch at {}", found.base_offset());
                assert_eq!(found.base_offset(), offset, "dense");
                out.push((offset, found.records().to_vec()));
                offset = found.next_offset();
            }
        }
        out
    }

    /// Asserts that a log holds exactly what [`Node::fill`] wrote: `n` batches of `size` bytes.
    pub async fn holds(&self, log: &Rc<Log>, n: i64, size: usize) {
        assert_eq!(log.flushed_end(), n, "log end");
        for (offset, records) in self.read(log).await {
            let want = batch(offset as u64, size);
            assert!(records == want[61..], "the records at offset {offset} are others");
        }
    }
}
