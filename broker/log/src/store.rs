//! One core's store: a ring, the logs whose state it holds, and the tasks that keep both going.
//!
//! Owned by one core. Three tasks run for it: the committer (`journal.rs`), maintenance (`maintenance.rs`: destage,
//! checkpoint, release, seal), and the mark timer inside the committer. What fails below (a write, a flush) ends the
//! process: storage.md section 1.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use rillway_io::{
    Class, DirectFile, Gate, Notify, Runtime, Semaphore, SyncAnchor, Task, Transfer, TransferMode,
};

use crate::checkpoint::Deletion;
use crate::directory::partition_dir;
use crate::entry::{Entry, PartitionRef};
use crate::error::{Error, Result};
use crate::ids::{PartitionId, RingId, Sequence};
use crate::journal::{Effect, Pending, Room};
use crate::limits::{
    DEDUPE_BYTES_DEFAULT, EXTENT_BYTES_DEFAULT, RING_BYTES_MIN, TOPIC_NAME_MAX, batch_bytes_max,
};
use crate::log::{Log, LogConfig};
use crate::mutant::{Active, Mutant};
use crate::recovery::recover;
use crate::replay::{Recovered, RecoveredPartition};
use crate::ring::Ring;
use crate::state::{PartitionState, SegmentStatus};
use crate::storage::RingRef;

/// Budgets of one core's store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Bytes that may wait in memory for their segment. Appends wait beyond it.
    pub undestaged_bytes: u64,
    /// A batch of at least so many bytes goes straight to its segment, in the same commit (EXTENT), instead of through
    /// the ring. At least `EXTENT_BYTES_MIN`; `None`: everything is journaled.
    pub extent_bytes: Option<u64>,
    /// Memory for recent bytes that are durable already, for tail fetches.
    pub cache_bytes: usize,
    /// Memory for answers on their way from files and other cores to sockets.
    pub transfer_bytes: usize,
    /// Which way bytes of sealed segments take to sockets.
    pub transfer: TransferMode,
    /// Idle producers are forgotten after this (Kafka: producer.id.expiration.ms).
    pub producer_expiration_ms: i64,
    /// Kafka: file.delete.delay.ms.
    pub delete_delay: Duration,
    /// How long a killed process's lock on the ring is waited for.
    pub lock_wait: Duration,
    /// Memory of the cleaner's map of keys (Kafka: log.cleaner.dedupe.buffer.size, there for all cleaners of a node).
    pub dedupe_bytes: usize,
    pub mutant: Option<Mutant>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            undestaged_bytes: 256 << 20,
            extent_bytes: Some(EXTENT_BYTES_DEFAULT),
            cache_bytes: 256 << 20,
            transfer_bytes: 64 << 20,
            transfer: TransferMode::Auto,
            producer_expiration_ms: 86_400_000,
            delete_delay: Duration::from_secs(60),
            lock_wait: Duration::from_secs(10),
            dedupe_bytes: DEDUPE_BYTES_DEFAULT,
            mutant: None,
        }
    }
}

/// What the store has done, for metrics and for the simulator's coverage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounters {
    pub commits: u64,
    pub marks: u64,
    pub laps: u64,
    /// Batches that went straight to their segment.
    pub extents: u64,
    pub destages: u64,
    pub checkpoints: u64,
    pub seals: u64,
    pub rolls: u64,
    pub replayed_frames: u64,
    pub backpressure_waits: u64,
    pub no_space: u64,
    pub retention_deletes: u64,
    pub duplicates: u64,
    /// Frames that recovery found torn and dropped.
    pub torn_frames: u64,
    /// Segments that recovery found rolled and not sealed.
    pub interrupted_seals: u64,
    /// Passes of the cleaner over a partition.
    pub cleanings: u64,
    /// Segments that compaction took away, and their bytes; bytes that it put in their place.
    pub segments_replaced: u64,
    pub cleaned_bytes_in: u64,
    pub cleaned_bytes_out: u64,
    /// Files that the sweep of a start found of cleanings that were not finished.
    pub interrupted_cleanings: u64,
}

impl StoreCounters {
    /// Adds another store's.
    pub fn add(&mut self, other: &StoreCounters) {
        self.commits += other.commits;
        self.marks += other.marks;
        self.laps += other.laps;
        self.extents += other.extents;
        self.destages += other.destages;
        self.checkpoints += other.checkpoints;
        self.seals += other.seals;
        self.rolls += other.rolls;
        self.replayed_frames += other.replayed_frames;
        self.backpressure_waits += other.backpressure_waits;
        self.no_space += other.no_space;
        self.retention_deletes += other.retention_deletes;
        self.duplicates += other.duplicates;
        self.torn_frames += other.torn_frames;
        self.interrupted_seals += other.interrupted_seals;
        self.cleanings += other.cleanings;
        self.segments_replaced += other.segments_replaced;
        self.cleaned_bytes_in += other.cleaned_bytes_in;
        self.cleaned_bytes_out += other.cleaned_bytes_out;
        self.interrupted_cleanings += other.interrupted_cleanings;
    }
}

/// One core's store. Clone: a handle.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) rt: Runtime,
    pub(crate) options: StoreOptions,
    pub(crate) transfer: Transfer,
    pub(crate) mutant: Active,
    pub(crate) reference: RingRef,
    pub(crate) anchor: SyncAnchor,
    pub(crate) ring: RefCell<Ring>,
    pub(crate) logs: RefCell<BTreeMap<PartitionId, Rc<Log>>>,
    pub(crate) deletions: RefCell<Vec<Deletion>>,
    /// Renaming what was deleted.
    pub(crate) deleting: Semaphore,
    /// Flushed; `assigned_producer_id` is ahead of it by what is in frames that are not committed.
    pub(crate) next_producer_id: Cell<i64>,
    pub(crate) assigned_producer_id: Cell<i64>,
    pub(crate) pending: RefCell<Pending>,
    /// Sequence of the first frame whose effects are not applied.
    pub(crate) committed: Cell<Sequence>,
    /// Reserving room in the ring, in the order of arrival.
    pub(crate) turn: Semaphore,
    /// Cleaning a partition, one at a time.
    pub(crate) cleaner: Semaphore,
    /// Something waits in `pending`, or the store closes.
    pub(crate) work: Notify,
    /// A commit is applied, or ring or memory got room.
    pub(crate) progress: Notify,
    /// Maintenance has something to do.
    pub(crate) upkeep: Notify,
    /// Bytes appended that no finished destage round has looked at.
    pub(crate) fresh_bytes: Cell<u64>,
    pub(crate) cached_bytes: Cell<usize>,
    /// An append waits for room: a round is due, however little there is to do.
    pub(crate) pressed: Cell<bool>,
    /// The disk is full: appends are refused until a retry finds room.
    pub(crate) full: Cell<bool>,
    pub(crate) checkpoints: [DirectFile; 2],
    pub(crate) next_slot: Cell<usize>,
    pub(crate) closing: Cell<bool>,
    pub(crate) committer_done: Cell<bool>,
    pub(crate) appends: Gate,
    pub(crate) counters: Cell<StoreCounters>,
    pub(crate) tasks: RefCell<Vec<Task<()>>>,
}

impl Store {
    /// Recovers the ring, makes what was recovered durable again, and starts the tasks. Only then is anything served.
    pub async fn open(rt: &Runtime, ring: &RingRef, options: &StoreOptions) -> Result<Store> {
        let store = Store::recover(rt, ring, options).await?;
        let inner = &store.inner;
        let committer = rt.spawn(Class::Data, Rc::clone(inner).commit_loop());
        match inner.upkeep_round(false).await {
            // A full disk without room for a new checkpoint: the old one and the ring say the same, and the `syncfs` of
            // the round has made durable what was read of them. Nothing is released and appends are refused.
            Err(Error::NoSpace { .. }) => inner.went_full(),
            done => done?,
        }
        // One fresh frame overwrites whatever stood behind the last one. In a full ring nothing is written before there
        // is a checkpoint, and then the next frame does it.
        if inner.has_room(0) {
            inner.commit_mark().await?;
        }
        inner.finish_deletions(None).await;
        let upkeep = rt.spawn(Class::Background, Rc::clone(inner).upkeep_loop());
        inner.tasks.borrow_mut().extend([committer, upkeep]);
        store.sweep();
        Ok(store)
    }

    /// As [`Store::open`], for a change of rings: durable, and then taken apart.
    pub(crate) async fn recover_for_move(
        rt: &Runtime,
        ring: &RingRef,
        options: &StoreOptions,
    ) -> Result<Recovered> {
        let store = Store::open(rt, ring, options).await?;
        store.close().await?;
        let logs = std::mem::take(&mut *store.inner.logs.borrow_mut());
        let mut recovered = Recovered {
            deletions: store.inner.deletions.borrow().clone(),
            next_producer_id: store.inner.next_producer_id.get(),
            ..Default::default()
        };
        for (id, log) in logs {
            recovered.partitions.insert(id, (0, log.dismantle()));
        }
        Ok(recovered)
    }

    async fn recover(rt: &Runtime, ring: &RingRef, options: &StoreOptions) -> Result<Store> {
        assert!(ring.bytes >= RING_BYTES_MIN, "checked when the ring was made");
        let anchor = rt.disk().anchor(&ring.dir).await?;
        let found = recover(rt, ring, options.lock_wait).await?;
        let Recovered { partitions, deletions, next_producer_id } = found.recovered;
        let rolled = |p: &RecoveredPartition| {
            p.state.segments.iter().filter(|s| s.status == SegmentStatus::Rolled).count()
        };
        let counters = StoreCounters {
            replayed_frames: found.replayed,
            torn_frames: found.torn,
            interrupted_seals: partitions.values().map(|(_, p)| rolled(p) as u64).sum(),
            ..Default::default()
        };
        let inner = Rc::new(Inner {
            rt: rt.clone(),
            options: options.clone(),
            transfer: Transfer::new(options.transfer, options.transfer_bytes),
            mutant: Active(options.mutant),
            reference: ring.clone(),
            anchor,
            committed: Cell::new(found.ring.next_sequence()),
            ring: RefCell::new(found.ring),
            logs: RefCell::new(BTreeMap::new()),
            deletions: RefCell::new(deletions),
            deleting: Semaphore::new(1),
            next_producer_id: Cell::new(next_producer_id),
            assigned_producer_id: Cell::new(next_producer_id),
            pending: RefCell::new(Pending::new()),
            turn: Semaphore::new(1),
            cleaner: Semaphore::new(1),
            work: Notify::new(),
            progress: Notify::new(),
            upkeep: Notify::new(),
            fresh_bytes: Cell::new(0),
            cached_bytes: Cell::new(0),
            pressed: Cell::new(false),
            full: Cell::new(false),
            checkpoints: found.checkpoints,
            next_slot: Cell::new(found.next_slot),
            closing: Cell::new(false),
            committer_done: Cell::new(false),
            appends: Gate::new(),
            counters: Cell::new(counters),
            tasks: RefCell::new(Vec::new()),
        });
        tracing::info!(
            ring = ring.id.0,
            partitions = partitions.len(),
            frames = found.replayed,
            clean = found.clean,
            "recovered"
        );
        for (id, (_, partition)) in partitions {
            let log = Log::recovered(&inner, partition);
            inner.cached_bytes.set(inner.cached_bytes.get() + log.memory());
            inner.logs.borrow_mut().insert(id, log);
        }
        Ok(Store { inner })
    }

    pub fn ring(&self) -> RingId {
        self.inner.reference.id
    }

    /// Identity of the data directory.
    pub fn storage_id(&self) -> [u8; 16] {
        self.inner.reference.storage
    }

    /// The data directory.
    pub fn dir(&self) -> &std::path::Path {
        &self.inner.reference.dir
    }

    /// Whether a test build runs this mutant; never without the feature `mutants`.
    pub fn runs(&self, mutant: Mutant) -> bool {
        self.inner.mutant.is(mutant)
    }

    /// All partitions of this store, by identity.
    pub fn logs(&self) -> Vec<Rc<Log>> {
        self.inner.logs.borrow().values().cloned().collect()
    }

    pub fn log(&self, id: PartitionId) -> Option<Rc<Log>> {
        self.inner.logs.borrow().get(&id).cloned()
    }

    /// Largest batch that this ring takes, whatever a topic allows.
    pub fn batch_bytes_max(&self) -> usize {
        batch_bytes_max(self.inner.reference.bytes)
    }

    /// Memory that tails take, in bytes.
    pub fn cached_bytes(&self) -> usize {
        self.inner.cached_bytes.get()
    }

    pub fn counters(&self) -> StoreCounters {
        self.inner.counters.get()
    }

    /// This core's transfers to sockets, and their memory.
    pub fn transfer(&self) -> &Transfer {
        &self.inner.transfer
    }

    /// True while appends are refused because the disk is full.
    pub fn is_full(&self) -> bool {
        self.inner.full.get()
    }

    /// Creates a partition; durable when it returns. One that exists already is returned as it is.
    pub async fn create(&self, id: PartitionId, topic: &str, config: LogConfig) -> Result<Rc<Log>> {
        assert!(topic.len() <= TOPIC_NAME_MAX, "names are checked where they come in");
        if let Some(log) = self.log(id) {
            log.configure(config);
            return Ok(log);
        }
        let partition = PartitionRef { id, generation: self.inner.reference.generation };
        let entry = Entry::Create { partition, log_start: 0, topic };
        self.inner.reserve(Room::entry(entry.encoded_len())).await?;
        let state = PartitionState::new(partition, topic, 0, Sequence(0));
        let log = Log::recovered(&self.inner, RecoveredPartition { state, tails: BTreeMap::new() });
        log.configure(config);
        // No earlier life has left anything of it.
        log.cleaning.swept.set(true);
        let done = self.inner.push(&entry, Effect::Create(Rc::clone(&log)));
        done.wait().await?;
        Ok(log)
    }

    /// Deletes a partition: gone for good when it returns; its files follow. False if there is none.
    pub async fn delete(&self, id: PartitionId) -> Result<bool> {
        let Some(log) = self.log(id) else {
            return Ok(false);
        };
        let _turn = log.begin_delete().await;
        // Maintenance is not in its files from here on, or it would make the directory anew behind the rename.
        let _files = log.files_turn.acquire(1).await;
        let entry = Entry::Delete { partition: log.reference() };
        self.inner.reserve(Room::entry(entry.encoded_len())).await?;
        self.inner.push(&entry, Effect::Delete(Rc::clone(&log))).wait().await?;
        log.close_files().await;
        self.inner.finish_deletions(Some(self.inner.delete_delay(&log))).await;
        Ok(true)
    }

    /// Reserves `count` producer ids for good: the first of them.
    pub async fn reserve_producer_ids(&self, count: i64) -> Result<i64> {
        let inner = &self.inner;
        let entry = Entry::ProducerIds { next: 0 };
        inner.reserve(Room::entry(entry.encoded_len())).await?;
        let first = inner.assigned_producer_id.get();
        let next = first + count;
        inner.assigned_producer_id.set(next);
        inner.push(&Entry::ProducerIds { next }, Effect::ProducerIds(next)).wait().await?;
        Ok(first)
    }

    /// Stops taking appends, commits what waits, and leaves a checkpoint with the clean-stop flag.
    pub async fn close(&self) -> Result<()> {
        let inner = &self.inner;
        inner.appends.close().await;
        inner.closing.set(true);
        inner.work.notify_all();
        inner.upkeep.notify_all();
        inner.progress.notify_all();
        let tasks = std::mem::take(&mut *inner.tasks.borrow_mut());
        for task in tasks {
            task.await;
        }
        match inner.upkeep_round(true).await {
            // The next start recovers from the ring, as after a kill.
            Err(e @ Error::NoSpace { .. }) => {
                tracing::warn!("no clean checkpoint: {e}");
                Ok(())
            }
            done => done,
        }
    }
}

impl Inner {
    pub(crate) fn count(&self, change: impl FnOnce(&mut StoreCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// A write or flush failed: nothing more is acknowledged, and the process ends (storage.md section 1).
    pub(crate) fn die(&self, what: &str, e: &dyn std::fmt::Display) -> ! {
        self.rt.fatal(&format!(
            "ring {}: {what} failed: {e}. What was acknowledged is on disk; nothing more will be. \
             Check the device (dmesg), then start again.",
            self.reference.id
        ))
    }

    pub(crate) fn partition_dir(&self, topic: &str, index: u32) -> std::path::PathBuf {
        partition_dir(&self.reference.dir, topic, index)
    }

    pub(crate) fn expired_before_ms(&self) -> i64 {
        self.rt.wall_ms().saturating_sub(self.options.producer_expiration_ms)
    }

    pub(crate) fn closed(&self) -> Result<()> {
        if self.closing.get() { Err(Error::Closed) } else { Ok(()) }
    }
}
