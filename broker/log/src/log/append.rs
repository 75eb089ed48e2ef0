//! The two doors by which batches come into a log: check, room, offsets, and the entry that makes them durable. Nothing
//! here waits for the disk once offsets are assigned; whoever is answered waits with the receipt.

use std::rc::Rc;

use rillway_io::Permit;
use rillway_wire::batch::{BATCH_HEADER, BatchView};

use super::Log;
use crate::entry::{Entry, ExtentEntry};
use crate::error::{Error, Result};
use crate::journal::{Effect, ExtentWrite, Receipt, Room};
use crate::limits::{
    APPEND_OVERHEAD, EXTENT_BYTES_MIN, EXTENT_ENTRY_MAX, batch_bytes_max, block_down, block_up,
};
use crate::mutant::Mutant;
use crate::state::{BatchInfo, Change, SegmentKey, Verdict};
use crate::store::Inner;
use crate::tail::Tail;

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

impl Log {
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
        store.reserve(Room::entry(64)).await?;
        self.push_roll(&store);
        Ok(())
    }

    fn must_roll(&self, store: &Inner, len: u64) -> bool {
        let state = self.state.borrow();
        let (a, config) = (&state.assigned, &state.config);
        let old = a
            .first_append_ms
            .is_some_and(|at| store.rt.wall_ms().saturating_sub(at) >= config.roll_ms());
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
        // To a whole block: that is what is written.
        self.extend(store, segment, block_up(end)).await?;
        let epoch = Entry::Epoch { partition: self.reference, epoch: 0, start: 0 }.encoded_len();
        let rolled =
            Entry::Roll { partition: self.reference, ended: 0, length: 0, next: 0 }.encoded_len();
        let entries = epoch + rolled;
        let room = if let Some(from) = self.extent_from(store, batch, roll) {
            let extent = (block_down(end) - from) as usize;
            Room { payload: entries + EXTENT_ENTRY_MAX, undestaged: 0, extent }
        } else {
            // Metadata must go on when the disk is full, or no topic could be deleted to free it.
            let undestaged = if self.is_metadata() { 0 } else { len };
            let append = (APPEND_OVERHEAD + batch.len()).next_multiple_of(8);
            Room { payload: entries + append, undestaged, extent: 0 }
        };
        store.reserve(room).await
    }

    /// Where the extent of a batch would begin, if it is to be one: at the write head, with everything that was journaled
    /// above it. A batch that is smaller than that is journaled too, or it would pay for the flush of others' bytes.
    fn extent_from(&self, store: &Inner, batch: &[u8], roll: bool) -> Option<u64> {
        let threshold = store.options.extent_bytes?;
        let len = batch.len() as u64;
        if len < threshold.max(EXTENT_BYTES_MIN) {
            return None;
        }
        let state = self.state.borrow();
        let a = &state.assigned;
        let (length, head) = if roll {
            (0, 0)
        } else {
            let durable = state.flushed.segment(a.segment).map_or(0, |s| s.durable);
            (a.length, durable.max(a.extended))
        };
        (length - head <= len).then_some(head)
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
            a.extended = 0;
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
        let extent = self.extent_from(store, batch, false);
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let a = &mut state.assigned;
        let (segment, position) = (a.segment, a.length);
        let fresh = state.flushed.segment(segment).is_none_or(|s| s.durable == 0);
        let mut assigned = [0; 16];
        assigned[..8].copy_from_slice(&info.base_offset.to_be_bytes());
        assigned[8..12].copy_from_slice(&batch[8..12]);
        assigned[12..].copy_from_slice(&info.leader_epoch.to_be_bytes());
        let tail = state.tails.get_mut(&segment).expect("an unsealed segment has a tail");
        assert_eq!(tail.end(), position, "the tail ends where the segment does");
        let (undestaged, added, freed) = match extent {
            Some(from) => {
                let file = state
                    .files
                    .get(&SegmentKey::written(segment))
                    .expect("its room was made through it");
                let (added, freed) = tail.extend_extent([&assigned, &batch[16..]]);
                let to = block_down(tail.end());
                let mut header = [0; BATCH_HEADER];
                header.copy_from_slice(&batch[..BATCH_HEADER]);
                header[..16].copy_from_slice(&assigned);
                let crc =
                    tail.pieces(from..to).iter().fold(0, |crc, p| crc32c::crc32c_append(crc, p));
                let rest = tail.pieces(to..tail.end()).concat();
                let entry = Entry::Extent(ExtentEntry {
                    partition: self.reference,
                    segment,
                    position: from,
                    length: to - from,
                    base_offset: info.base_offset,
                    crc,
                    headers: vec![&header],
                    tail: &rest,
                });
                let change = Change::Extent {
                    segment,
                    position: from,
                    length: to - from,
                    batches: vec![info],
                };
                let write =
                    ExtentWrite { file: file.clone(), fresh, pieces: tail.slices(from..to) };
                store.push_extent(self, &entry, change, write);
                a.extended = to;
                (rest.len(), added, freed)
            }
            None => {
                let entry = Entry::Append {
                    partition: self.reference,
                    segment,
                    position,
                    base_offset: info.base_offset,
                    batches: batch,
                };
                let change = Change::Append { segment, position, batches: vec![info] };
                let mut added = 0;
                store.push_batch(self, &entry, &assigned, change, |b| added = tail.extend(b));
                (batch.len(), added, 0)
            }
        };
        let wall_ms = store.rt.wall_ms();
        a.end = info.next_offset;
        a.length += batch.len() as u64;
        a.first_append_ms.get_or_insert(wall_ms);
        a.producers.push(&info, wall_ms);
        state.busy = true;
        store.fresh_bytes.set(store.fresh_bytes.get() + undestaged as u64);
        store.cached_bytes.set((store.cached_bytes.get() + added).saturating_sub(freed));
    }
}
