//! One partition's log: what is flushed, what is assigned but not yet flushed, and what is in memory of it.
//!
//! Owned by the core of its store. Flushed state is in `flushed` and changes only in [`Log::apply`]; what an append
//! assigned is in `assigned` and is ahead of it. Offsets, always: log start <= flushed end <= assigned end.

mod append;

pub use append::{AppendError, Appended};

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::rc::{Rc, Weak};

use rillway_io::{DirectFile, Notify, Permit, SealedFile, Semaphore};

use crate::checkpoint::Deletion;
use crate::entry::PartitionRef;
use crate::error::{Error, Result};
use crate::ids::{PartitionId, Sequence};
use crate::meta::SegmentMeta;
use crate::replay::RecoveredPartition;
use crate::state::{
    Change, PartitionState, ProducerTable, SegmentKey, SegmentState, SegmentStatus,
};
use crate::store::Inner;
use crate::tail::Tail;

/// What a topic sets for its logs. Times in ms, sizes in bytes; Kafka's names and defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// retention.ms; negative: for ever.
    pub retention_ms: i64,
    /// retention.bytes; negative: unlimited.
    pub retention_bytes: i64,
    /// segment.bytes.
    pub segment_bytes: u64,
    /// segment.ms.
    pub segment_ms: i64,
    /// max.message.bytes: the largest batch as stored, header included.
    pub max_message_bytes: usize,
    /// file.delete.delay.ms; `None`: the store's.
    pub file_delete_delay_ms: Option<i64>,
    /// cleanup.policy has `delete`: retention takes old segments.
    pub delete: bool,
    /// cleanup.policy has `compact`: of each key the newest record stays.
    pub compact: bool,
    /// delete.retention.ms: how long a tombstone stays once it is all that is left of its key.
    pub delete_retention_ms: i64,
    /// min.cleanable.dirty.ratio.
    pub min_cleanable_ratio: Ratio,
    /// min.compaction.lag.ms: what is younger is not compacted.
    pub min_compaction_lag_ms: i64,
    /// max.compaction.lag.ms: what is older is, whatever the ratio.
    pub max_compaction_lag_ms: i64,
}

impl LogConfig {
    /// How long a segment takes appends: one that is to be compacted within a time must be rolled within it.
    pub(crate) fn roll_ms(&self) -> i64 {
        if self.compact { self.segment_ms.min(self.compaction_lag_ms()) } else { self.segment_ms }
    }

    /// max.compaction.lag.ms, which is never below the least lag.
    pub(crate) fn compaction_lag_ms(&self) -> i64 {
        self.max_compaction_lag_ms.max(self.min_compaction_lag_ms)
    }
}

/// A share, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio(u64);

impl Ratio {
    pub const HALF: Ratio = Ratio(0.5f64.to_bits());

    /// `None` unless it is from 0 to 1.
    pub fn new(share: f64) -> Option<Ratio> {
        // -0.0 is 0.0, so that equal shares are equal.
        (0.0..=1.0).contains(&share).then(|| Ratio((share + 0.0).to_bits()))
    }

    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig {
            retention_ms: 604_800_000,
            retention_bytes: -1,
            segment_bytes: 1 << 30,
            segment_ms: 604_800_000,
            max_message_bytes: 1_048_588,
            file_delete_delay_ms: None,
            delete: true,
            compact: false,
            delete_retention_ms: 86_400_000,
            min_cleanable_ratio: Ratio::HALF,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
        }
    }
}

/// Ahead of the flushed state by what is in frames that are not committed.
struct Assigned {
    end: i64,
    segment: i64,
    length: u64,
    /// Up to where commits that are under way write the active segment: the end of its newest extent.
    extended: u64,
    /// When the active segment got its first batch; for segment.ms.
    first_append_ms: Option<i64>,
    /// Leader epoch of this life; its EPOCH entry goes with the first append.
    epoch: i32,
    /// The newest epoch that has an EPOCH entry.
    written_epoch: Option<i32>,
    producers: ProducerTable,
}

/// Where a sequential reader will come back: `offset` begins at `position`.
#[derive(Clone, Copy)]
pub(crate) struct Hint {
    pub offset: i64,
    pub segment: SegmentKey,
    pub position: u64,
}

const HINTS: usize = 8;

pub(crate) struct State {
    pub flushed: PartitionState,
    assigned: Assigned,
    /// By segment base, one for each unsealed segment.
    pub tails: BTreeMap<i64, Tail>,
    /// Up to where an unsealed segment's file is extended.
    pub extended: BTreeMap<i64, u64>,
    pub files: BTreeMap<SegmentKey, DirectFile>,
    /// Those that readers have open beside it, to send them from the page cache: the last few.
    pub sealed: VecDeque<(SegmentKey, SealedFile)>,
    pub metas: BTreeMap<SegmentKey, Rc<SegmentMeta>>,
    hints: [Hint; HINTS],
    next_hint: usize,
    pub config: LogConfig,
    /// Appended to since the last destage round looked.
    pub busy: bool,
}

/// One partition's log.
pub struct Log {
    store: Weak<Inner>,
    id: PartitionId,
    reference: PartitionRef,
    topic: String,
    pub(crate) dir: PathBuf,
    state: RefCell<State>,
    /// Appends in the order of arrival.
    turn: Semaphore,
    advanced: Rc<Notify>,
    watchers: RefCell<Vec<Weak<Notify>>>,
    deleted: Cell<bool>,
    /// Why it is refused, if recovery or a read found that its files are not what its state says.
    refused: RefCell<Option<String>>,
    pub(crate) directory_made: Cell<bool>,
    gone: RefCell<Vec<SegmentState>>,
    /// Maintenance writes files, or a delete renames the directory: one of them at a time.
    pub(crate) files_turn: Semaphore,
    /// Opening a segment's file.
    pub(crate) opening: Semaphore,
    /// What takes sealed segments out of the table: LOG_START and REPLACE. Each is checked against flushed state, so
    /// the one before it must be flushed.
    pub(crate) table_turn: Semaphore,
    pub(crate) cleaning: Cleaning,
}

/// What the cleaner knows of a log in this life.
#[derive(Default)]
pub(crate) struct Cleaning {
    /// Nothing is left in the directory of a cleaning that an earlier life did not finish.
    pub swept: Cell<bool>,
    /// It holds a batch that is not what its checksum says: it is left alone.
    pub damaged: Cell<bool>,
}

impl Log {
    pub(crate) fn recovered(store: &Rc<Inner>, partition: RecoveredPartition) -> Rc<Log> {
        let RecoveredPartition { state: flushed, mut tails } = partition;
        for s in flushed.segments.iter().filter(|s| s.status != SegmentStatus::Sealed) {
            tails.entry(s.base).or_insert_with(|| Tail::new(s.durable));
        }
        let active = flushed.active();
        let assigned = Assigned {
            end: flushed.end,
            segment: active.base,
            length: active.length,
            extended: 0,
            first_append_ms: (active.length > 0).then_some(active.first_append_ms),
            epoch: flushed.epochs.latest().map_or(0, |e| e.saturating_add(1)),
            written_epoch: flushed.epochs.latest(),
            producers: flushed.producers.clone(),
        };
        let none = Hint { offset: -1, segment: SegmentKey::written(-1), position: 0 };
        Rc::new(Log {
            store: Rc::downgrade(store),
            id: flushed.id,
            reference: flushed.reference(),
            topic: flushed.topic.clone(),
            dir: store.partition_dir(&flushed.topic, flushed.id.index),
            turn: Semaphore::new(1),
            advanced: Rc::new(Notify::new()),
            watchers: RefCell::new(Vec::new()),
            deleted: Cell::new(false),
            refused: RefCell::new(None),
            directory_made: Cell::new(false),
            gone: RefCell::new(Vec::new()),
            files_turn: Semaphore::new(1),
            opening: Semaphore::new(1),
            table_turn: Semaphore::new(1),
            cleaning: Cleaning::default(),
            state: RefCell::new(State {
                flushed,
                assigned,
                tails,
                extended: BTreeMap::new(),
                files: BTreeMap::new(),
                sealed: VecDeque::new(),
                metas: BTreeMap::new(),
                hints: [none; HINTS],
                next_hint: 0,
                config: LogConfig::default(),
                busy: true,
            }),
        })
    }

    pub fn id(&self) -> PartitionId {
        self.id
    }

    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The partition's directory. It exists once something was appended.
    pub fn directory(&self) -> &std::path::Path {
        &self.dir
    }

    pub(crate) fn reference(&self) -> PartitionRef {
        self.reference
    }

    pub fn configure(&self, config: LogConfig) {
        self.state.borrow_mut().config = config;
    }

    pub fn config(&self) -> LogConfig {
        self.state.borrow().config
    }

    /// First offset that can be read.
    pub fn log_start(&self) -> i64 {
        self.state.borrow().flushed.log_start
    }

    /// Offset after the last flushed record: the high watermark of a node that is alone.
    pub fn flushed_end(&self) -> i64 {
        self.state.borrow().flushed.end
    }

    /// Leader epoch of this life.
    pub fn leader_epoch(&self) -> i32 {
        self.state.borrow().assigned.epoch
    }

    /// Where a leader epoch ends, as OffsetForLeaderEpoch answers it: the largest epoch up to `asked` and the offset
    /// behind its last flushed record; below the oldest known one `asked` itself and the log start; (-1, -1) beyond
    /// this life's.
    pub fn epoch_end(&self, asked: i32) -> (i32, i64) {
        let state = self.state.borrow();
        let (flushed, current) = (&state.flushed, state.assigned.epoch);
        if asked == -1 || asked > current {
            return (-1, -1);
        }
        // This life's epoch has an entry with its first append only.
        if asked == current {
            return (asked, flushed.end);
        }
        let last = flushed.epochs.latest().unwrap_or(-1);
        flushed.epochs.end_of(asked.min(last), flushed.end).unwrap_or((asked, flushed.log_start))
    }

    /// Bytes of all segments, flushed.
    pub fn size(&self) -> u64 {
        self.state.borrow().flushed.segments.iter().map(|s| s.length).sum()
    }

    /// A copy of the flushed state, for inspection.
    pub fn flushed_state(&self) -> PartitionState {
        self.state.borrow().flushed.clone()
    }

    /// Why this partition is refused, if it is.
    pub fn refused(&self) -> Option<String> {
        self.refused.borrow().clone()
    }

    pub(crate) fn refuse(&self, why: String) -> Error {
        tracing::error!(topic = self.topic, partition = self.id.index, "refused: {why}");
        *self.refused.borrow_mut() = Some(why.clone());
        Error::Partition { partition: format!("{}-{}", self.topic, self.id.index), what: why }
    }

    pub(crate) fn check_refused(&self) -> Result<()> {
        match self.refused() {
            Some(what) => Err(Error::Partition {
                partition: format!("{}-{}", self.topic, self.id.index),
                what,
            }),
            None => Ok(()),
        }
    }

    /// `watcher` is notified when something new is flushed, or the log goes away, for as long as it lives.
    pub fn watch(&self, watcher: &Rc<Notify>) {
        let mut watchers = self.watchers.borrow_mut();
        watchers.retain(|w| w.strong_count() > 0);
        watchers.push(Rc::downgrade(watcher));
    }

    pub(crate) fn notify(&self) {
        self.advanced.notify_all();
        for watcher in self.watchers.borrow().iter().filter_map(Weak::upgrade) {
            watcher.notify_all();
        }
    }

    pub(crate) async fn flushed_to(&self, offset: i64) -> Result<()> {
        loop {
            let advanced = self.advanced.notified();
            if self.flushed_end() >= offset {
                return Ok(());
            }
            let store = self.store.upgrade().ok_or(Error::Closed)?;
            if self.deleted.get() || store.committer_done.get() {
                return Err(Error::Closed);
            }
            drop(store);
            advanced.await;
        }
    }

    pub(crate) fn store(&self) -> Result<Rc<Inner>> {
        self.store.upgrade().ok_or(Error::Closed)
    }

    pub(crate) fn state(&self) -> std::cell::Ref<'_, State> {
        self.state.borrow()
    }

    pub(crate) fn state_mut(&self) -> std::cell::RefMut<'_, State> {
        self.state.borrow_mut()
    }

    pub(crate) fn is_metadata(&self) -> bool {
        self.id.topic == crate::ids::TopicId::METADATA
    }

    /// A flushed change, from the committer.
    pub(crate) fn apply(&self, change: &Change, wall_ms: i64, sequence: Sequence) {
        let mut state = self.state.borrow_mut();
        let gone = match state.flushed.apply(change, wall_ms, sequence) {
            Ok(gone) => gone,
            Err(m) => panic!("{}: what was written does not fit what is known: {m:?}", self.id),
        };
        let state = &mut *state;
        assert!(
            state.flushed.end <= state.assigned.end,
            "{}: flushed beyond what is assigned",
            self.id
        );
        let mut freed = 0;
        for segment in &gone {
            freed += state.tails.remove(&segment.base).map_or(0, |tail| tail.memory());
            state.extended.remove(&segment.base);
            state.metas.remove(&segment.key());
            state.sealed.retain(|(key, _)| *key != segment.key());
        }
        self.gone.borrow_mut().extend(gone);
        if let Some(store) = self.store.upgrade() {
            store.cached_bytes.set(store.cached_bytes.get().saturating_sub(freed));
        }
    }

    /// Segments that left the table since this was asked last: their files can go.
    pub(crate) fn take_gone(&self) -> Vec<SegmentState> {
        std::mem::take(&mut self.gone.borrow_mut())
    }

    /// Forgets producers that were idle for too long.
    pub(crate) fn expire_producers(&self, before_ms: i64) {
        let mut state = self.state.borrow_mut();
        state.flushed.producers.expire(before_ms);
        state.assigned.producers.expire(before_ms);
    }

    pub(crate) fn created(&self, sequence: Sequence) {
        self.state.borrow_mut().flushed.applied = sequence;
    }

    /// No append is under way, and none will begin.
    pub(crate) async fn begin_delete(&self) -> Permit {
        let turn = self.turn.acquire(1).await;
        self.deleted.set(true);
        turn
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.get()
    }

    pub(crate) fn deletion(&self) -> Deletion {
        Deletion {
            partition: self.reference,
            directory: format!("{}-{}", self.topic, self.id.index),
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.state.borrow().tails.values().map(Tail::memory).sum()
    }

    pub(crate) fn hint(&self, offset: i64) -> Option<Hint> {
        self.state.borrow().hints.iter().find(|h| h.offset == offset).copied()
    }

    pub(crate) fn remember(&self, hint: Hint) {
        let mut state = self.state.borrow_mut();
        let at = state.next_hint;
        state.hints[at] = hint;
        state.next_hint = (at + 1) % HINTS;
    }

    /// Segments of which the flushed bytes are complete and that wait for their seal.
    pub(crate) fn rolled(&self) -> Vec<SegmentState> {
        let state = self.state.borrow();
        state
            .flushed
            .segments
            .iter()
            .filter(|s| s.status == SegmentStatus::Rolled)
            .cloned()
            .collect()
    }

    /// Takes the log apart, for a change of rings.
    pub(crate) fn dismantle(self: Rc<Self>) -> RecoveredPartition {
        let mut state = self.state.borrow_mut();
        let tails = std::mem::take(&mut state.tails);
        RecoveredPartition { state: state.flushed.clone(), tails }
    }
}
