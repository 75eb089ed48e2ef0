//! One partition's log: the two doors by which batches come in, and what is assigned but not yet flushed.
//!
//! Owned by the core of its store. Flushed state is in `flushed` and changes only in [`Log::apply`]; what an append
//! assigned is in `assigned` and is ahead of it. Offsets, always: log start <= flushed end <= assigned end.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::rc::{Rc, Weak};

use rillway_io::{DirectFile, Notify, Permit, SealedFile, Semaphore};
use rillway_wire::batch::BatchView;

use crate::checkpoint::Deletion;
use crate::entry::{Entry, PartitionRef};
use crate::error::{Error, Result};
use crate::ids::{PartitionId, Sequence};
use crate::journal::{Effect, Receipt};
use crate::limits::batch_bytes_max;
use crate::meta::SegmentMeta;
use crate::mutant::Mutant;
use crate::recovery::RecoveredPartition;
use crate::state::{
    BatchInfo, Change, PartitionState, ProducerTable, SegmentState, SegmentStatus, Verdict,
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
}

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig {
            retention_ms: 604_800_000,
            retention_bytes: -1,
            segment_bytes: 1 << 30,
            segment_ms: 604_800_000,
            max_message_bytes: 1_048_588,
        }
    }
}

/// Why a batch was not taken.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    #[error("a batch of {got} bytes, the limit is {limit}")]
    TooLarge { got: usize, limit: usize },
    #[error("sequence {got} of a producer, expected {expected}")]
    OutOfOrderSequence { got: i32, expected: i32 },
    #[error("producer epoch {got}, current is {current}")]
    ProducerFenced { got: i16, current: i16 },
    /// From a leader: the batch does not continue this log.
    #[error("a batch at offset {got}, the log ends at {expected}")]
    NotTheNext { got: i64, expected: i64 },
    #[error("the partition is deleted")]
    Deleted,
    #[error(transparent)]
    Log(#[from] Error),
}

/// A batch that has offsets. Not acknowledged before its receipt says so.
pub struct Appended {
    pub base_offset: i64,
    pub last_offset: i64,
    /// It was written before; these are its first offsets.
    pub duplicate: bool,
    pub receipt: Receipt,
}

/// Ahead of the flushed state by what is in frames that are not committed.
struct Assigned {
    end: i64,
    segment: i64,
    length: u64,
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
    pub segment: i64,
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
    pub files: BTreeMap<i64, DirectFile>,
    /// Those that readers have open beside it, to send them from the page cache: the last few.
    pub sealed: VecDeque<(i64, SealedFile)>,
    pub metas: BTreeMap<i64, Rc<SegmentMeta>>,
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
            first_append_ms: (active.length > 0).then_some(active.first_append_ms),
            epoch: flushed.epochs.latest().map_or(0, |e| e.saturating_add(1)),
            written_epoch: flushed.epochs.latest(),
            producers: flushed.producers.clone(),
        };
        let none = Hint { offset: -1, segment: -1, position: 0 };
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

    /// The turn of an append, in the order of arrival, of a log that takes appends.
    async fn begin_append(&self) -> std::result::Result<Permit, AppendError> {
        let turn = self.turn.acquire(1).await;
        if self.deleted.get() {
            return Err(AppendError::Deleted);
        }
        self.check_refused()?;
        Ok(turn)
    }

    /// Appends one batch that a producer sent: checks its producer's sequence, assigns offsets and the leader epoch.
    /// `batch` has passed `BatchView::validate_produce`.
    pub async fn append_as_leader(
        self: &Rc<Self>,
        batch: &[u8],
    ) -> std::result::Result<Appended, AppendError> {
        let store = self.store()?;
        let _open = store.appends.enter().ok_or(Error::Closed)?;
        let turn = self.begin_append().await?;
        let view = BatchView::parse(batch).expect("validated before it came here");
        let mut info = BatchInfo::of(&view);
        let verdict =
            self.state.borrow().assigned.producers.check(&info, store.expired_before_ms());
        match verdict {
            Verdict::Next => {}
            Verdict::Duplicate { base_offset, last_offset } => {
                store.count(|c| c.duplicates += 1);
                let early = store.mutant.is(Mutant::DuplicateAcknowledgedEarly);
                let receipt = Receipt { log: Rc::clone(self), offset: last_offset + 1, early };
                return Ok(Appended { base_offset, last_offset, duplicate: true, receipt });
            }
            Verdict::OutOfOrder { got, expected } => {
                return Err(AppendError::OutOfOrderSequence { got, expected });
            }
            Verdict::Fenced { got, current } => {
                return Err(AppendError::ProducerFenced { got, current });
            }
        }
        let limit = self
            .state
            .borrow()
            .config
            .max_message_bytes
            .min(batch_bytes_max(store.reference.bytes));
        if batch.len() > limit {
            return Err(AppendError::TooLarge { got: batch.len(), limit });
        }
        let (roll, count) =
            (self.must_roll(&store, batch.len() as u64), info.next_offset - info.base_offset);
        self.make_room(&store, batch, roll).await?;

        let (base_offset, epoch) = {
            let state = self.state.borrow();
            (state.assigned.end, state.assigned.epoch)
        };
        info.base_offset = base_offset;
        info.next_offset = base_offset + count;
        info.leader_epoch = epoch;
        self.push_epoch(&store, epoch);
        if roll {
            self.push_roll(&store);
        }
        self.push_batch(&store, batch, info);
        drop(turn);
        let receipt = Receipt {
            log: Rc::clone(self),
            offset: info.next_offset,
            early: store.mutant.is(Mutant::AckBeforeFlush),
        };
        Ok(Appended { base_offset, last_offset: info.next_offset - 1, duplicate: false, receipt })
    }

    /// Appends one batch as another leader assigned it: offset and leader epoch are kept, and must continue this log.
    pub async fn append_as_follower(
        self: &Rc<Self>,
        batch: &[u8],
    ) -> std::result::Result<Appended, AppendError> {
        let store = self.store()?;
        let _open = store.appends.enter().ok_or(Error::Closed)?;
        let turn = self.begin_append().await?;
        let view = BatchView::parse(batch).expect("validated before it came here");
        let info = BatchInfo::of(&view);
        let (end, epoch) = {
            let state = self.state.borrow();
            (state.assigned.end, state.assigned.written_epoch.unwrap_or(-1))
        };
        if info.base_offset != end || info.leader_epoch < epoch {
            return Err(AppendError::NotTheNext { got: info.base_offset, expected: end });
        }
        let limit = batch_bytes_max(store.reference.bytes);
        if batch.len() > limit {
            return Err(AppendError::TooLarge { got: batch.len(), limit });
        }
        let roll = self.must_roll(&store, batch.len() as u64);
        self.make_room(&store, batch, roll).await?;
        self.state.borrow_mut().assigned.epoch = info.leader_epoch;
        self.push_epoch(&store, info.leader_epoch);
        if roll {
            self.push_roll(&store);
        }
        self.push_batch(&store, batch, info);
        drop(turn);
        let receipt = Receipt { log: Rc::clone(self), offset: info.next_offset, early: false };
        Ok(Appended {
            base_offset: end,
            last_offset: info.next_offset - 1,
            duplicate: false,
            receipt,
        })
    }

    /// Ends the active segment, if it holds anything, so that retention can take it.
    pub(crate) async fn roll(self: &Rc<Self>) -> Result<()> {
        let store = self.store()?;
        let _turn = self.turn.acquire(1).await;
        if self.state.borrow().assigned.length == 0 || self.deleted.get() {
            return Ok(());
        }
        store.reserve(64, 0).await?;
        self.push_roll(&store);
        Ok(())
    }

    fn must_roll(&self, store: &Inner, len: u64) -> bool {
        let state = self.state.borrow();
        let (a, config) = (&state.assigned, &state.config);
        let old = a
            .first_append_ms
            .is_some_and(|at| store.rt.wall_ms().saturating_sub(at) >= config.segment_ms);
        // A segment's relative offsets must fit 32 bits for the tools that read Kafka's logs.
        let wide = a.end - a.segment > i64::from(i32::MAX) - i64::from(i32::MAX / 4);
        a.length > 0 && (old || wide || a.length + len > config.segment_bytes)
    }

    /// Room in the segment's file, the ring and memory for `batch`, before it gets an offset.
    async fn make_room(self: &Rc<Self>, store: &Rc<Inner>, batch: &[u8], roll: bool) -> Result<()> {
        let len = batch.len() as u64;
        let (segment, end) = {
            let a = &self.state.borrow().assigned;
            if roll { (a.end, len) } else { (a.segment, a.length + len) }
        };
        // Metadata must go on when the disk is full, or no topic could be deleted to free it.
        let charge = if self.is_metadata() { 0 } else { len };
        self.extend(store, segment, end).await?;
        let epoch = Entry::Epoch { partition: self.reference, epoch: 0, start: 0 }.encoded_len();
        let rolled =
            Entry::Roll { partition: self.reference, ended: 0, length: 0, next: 0 }.encoded_len();
        let append = (crate::limits::APPEND_OVERHEAD + batch.len()).next_multiple_of(8);
        store.reserve(epoch + rolled + append, charge).await
    }

    pub(crate) fn is_metadata(&self) -> bool {
        self.id.topic == crate::ids::TopicId::METADATA
    }

    fn push_epoch(self: &Rc<Self>, store: &Rc<Inner>, epoch: i32) {
        let start = {
            let mut state = self.state.borrow_mut();
            if state.assigned.written_epoch.is_some_and(|written| written >= epoch) {
                return;
            }
            state.assigned.written_epoch = Some(epoch);
            state.assigned.end
        };
        let entry = Entry::Epoch { partition: self.reference, epoch, start };
        store.push(&entry, Effect::Partition(Rc::clone(self), Change::Epoch { epoch, start }));
    }

    fn push_roll(self: &Rc<Self>, store: &Rc<Inner>) {
        let (ended, length, next) = {
            let mut state = self.state.borrow_mut();
            let a = &mut state.assigned;
            let rolled = (a.segment, a.length, a.end);
            a.segment = a.end;
            a.length = 0;
            a.first_append_ms = None;
            state.tails.insert(rolled.2, Tail::new(0));
            rolled
        };
        let entry = Entry::Roll { partition: self.reference, ended, length, next };
        store
            .push(&entry, Effect::Partition(Rc::clone(self), Change::Roll { ended, length, next }));
        store.count(|c| c.rolls += 1);
        store.upkeep.notify_all();
    }

    fn push_batch(self: &Rc<Self>, store: &Rc<Inner>, batch: &[u8], info: BatchInfo) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let a = &mut state.assigned;
        let (segment, position) = (a.segment, a.length);
        let mut assigned = [0; 16];
        assigned[..8].copy_from_slice(&info.base_offset.to_be_bytes());
        assigned[8..12].copy_from_slice(&batch[8..12]);
        assigned[12..].copy_from_slice(&info.leader_epoch.to_be_bytes());
        let entry = Entry::Append {
            partition: self.reference,
            segment,
            position,
            base_offset: info.base_offset,
            batches: batch,
        };
        let change = Change::Append { segment, position, batches: vec![info] };
        let tail = state.tails.get_mut(&segment).expect("an unsealed segment has a tail");
        assert_eq!(tail.end(), position, "the tail ends where the segment does");
        let mut added = 0;
        store.push_batch(self, &entry, &assigned, change, |bytes| added = tail.extend(bytes));
        let wall_ms = store.rt.wall_ms();
        a.end = info.next_offset;
        a.length += batch.len() as u64;
        a.first_append_ms.get_or_insert(wall_ms);
        a.producers.push(&info, wall_ms);
        state.busy = true;
        store.fresh_bytes.set(store.fresh_bytes.get() + batch.len() as u64);
        store.cached_bytes.set(store.cached_bytes.get() + added);
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
        for segment in &gone {
            state.tails.remove(&segment.base);
            state.extended.remove(&segment.base);
            state.metas.remove(&segment.base);
            state.sealed.retain(|(base, _)| *base != segment.base);
        }
        self.gone.borrow_mut().extend(gone);
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
