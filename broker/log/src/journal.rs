//! The commit path: entries gather in one pending frame while the frame before it is in flight; one write makes a frame
//! durable; then, and only then, its effects are applied and whoever waits is woken.
//!
//! Room is reserved before offsets are assigned (`reserve`), so after that only a failing device can fail a commit.

use std::rc::Rc;
use std::time::Duration;

use rillway_io::{AppendBuffer, Chunk, DirectFile, join_all};

use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::ids::Sequence;
use crate::limits::{BLOCK, FRAME_HEADER};
use crate::log::Log;
use crate::mutant::Mutant;
use crate::state::Change;
use crate::store::Inner;

/// A ring without a commit for this long writes one mark frame (FORMAT.md 3.3).
const MARK_AFTER: Duration = Duration::from_secs(1);
const FIRST_CAPACITY: usize = 16 << 10;

/// What a flushed entry changes in memory.
pub(crate) enum Effect {
    Partition(Rc<Log>, Change),
    Create(Rc<Log>),
    Delete(Rc<Log>),
    ProducerIds(i64),
}

/// Room that an append or an entry needs before it is assigned anything.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    /// Bytes of its entries in the frame.
    pub payload: usize,
    /// Bytes of records that will wait in memory for their segment.
    pub undestaged: u64,
    /// Bytes that the commit itself writes to a segment.
    pub extent: usize,
}

impl Room {
    /// Of an entry that brings no records.
    pub(crate) fn entry(payload: usize) -> Room {
        Room { payload, undestaged: 0, extent: 0 }
    }

    fn brings_records(&self) -> bool {
        self.undestaged > 0 || self.extent > 0
    }
}

/// Whole blocks that a commit writes to a segment before its frame.
pub(crate) struct ExtentWrite {
    pub file: DirectFile,
    /// Nothing of the file is known to be durable, its name in the directory included.
    pub fresh: bool,
    pub pieces: Vec<(u64, Chunk)>,
}

/// The frame that gathers.
pub(crate) struct Pending {
    frame: AppendBuffer,
    entries: u32,
    effects: Vec<Effect>,
    extents: Vec<ExtentWrite>,
    extent_bytes: usize,
    mark: bool,
}

impl Pending {
    pub(crate) fn new() -> Pending {
        Pending::with_capacity(FIRST_CAPACITY)
    }

    fn with_capacity(capacity: usize) -> Pending {
        let mut frame = AppendBuffer::with_capacity(capacity);
        frame.extend(&[0; FRAME_HEADER]);
        Pending {
            frame,
            entries: 0,
            effects: Vec::new(),
            extents: Vec::new(),
            extent_bytes: 0,
            mark: false,
        }
    }

    fn payload(&self) -> usize {
        self.frame.len() - FRAME_HEADER
    }

    /// Room for `n` bytes more and the padding of the last block.
    fn grow(&mut self, n: usize) {
        if self.frame.remaining() < n + BLOCK {
            let capacity = (self.frame.len() + n + BLOCK).next_power_of_two();
            let mut larger = AppendBuffer::with_capacity(capacity);
            larger.extend(self.frame.as_slice());
            self.frame = larger;
        }
    }
}

/// Waits for the commit of a frame.
pub(crate) struct Committed {
    inner: Rc<Inner>,
    sequence: Sequence,
}

impl Committed {
    pub(crate) async fn wait(self) -> Result<()> {
        loop {
            let progress = self.inner.progress.notified();
            if self.inner.committed() > self.sequence {
                return Ok(());
            }
            if self.inner.committer_done.get() {
                return Err(Error::Closed);
            }
            progress.await;
        }
    }
}

/// Waits until everything below an offset is flushed. What an append is acknowledged by.
#[must_use = "an append is not durable before its receipt says so"]
pub struct Receipt {
    pub(crate) log: Rc<Log>,
    pub(crate) offset: i64,
    pub(crate) early: bool,
}

impl Receipt {
    /// Returns when the records are flushed; an error if the log closed or was deleted before.
    pub async fn wait(self) -> Result<()> {
        if self.early { Ok(()) } else { self.log.flushed_to(self.offset).await }
    }
}

impl Inner {
    /// Sequence of the first frame that is not committed.
    fn committed(&self) -> Sequence {
        self.committed.get()
    }

    /// Waits for room in the pending frame, in the ring and in memory. The caller pushes before it awaits anything else.
    pub(crate) async fn reserve(&self, room: Room) -> Result<()> {
        let _turn = self.turn.acquire(1).await;
        let mut waited = false;
        loop {
            self.closed()?;
            // What brings no records may go on: deletes are what frees a full disk.
            if self.full.get() && room.brings_records() {
                return Err(Error::NoSpace {
                    path: self.reference.dir.clone(),
                    what: "the disk is full".to_owned(),
                });
            }
            let progress = self.progress.notified();
            let (total, extents) = {
                let pending = self.pending.borrow();
                (pending.payload() + room.payload, pending.extent_bytes + room.extent)
            };
            // What a commit writes beside its frame has the frame's limit: it waits in memory for the same write.
            let largest = self.ring.borrow().frame_bytes_max();
            let frame =
                total + FRAME_HEADER + BLOCK <= largest && (room.extent == 0 || extents <= largest);
            let ring = self.ring.borrow().fits(total);
            // An empty store takes one append whatever its size, or a large batch could wait for ever.
            let fresh = self.fresh_bytes.get();
            let memory = fresh == 0 || fresh + room.undestaged <= self.options.undestaged_bytes;
            if frame && ring && memory {
                return Ok(());
            }
            if !waited {
                waited = true;
                self.count(|c| c.backpressure_waits += 1);
            }
            // A full frame goes with the next commit; only a round makes room in ring and memory.
            self.pressed.set(self.pressed.get() || frame);
            self.work.notify_all();
            self.upkeep.notify_all();
            progress.await;
        }
    }

    /// Whether an entry of `payload` bytes has room now. For maintenance, which must never wait for room: whoever waits in
    /// [`Inner::reserve`] waits for maintenance.
    pub(crate) fn has_room(&self, payload: usize) -> bool {
        let total = self.pending.borrow().payload() + payload;
        let ring = self.ring.borrow();
        total + FRAME_HEADER + BLOCK <= ring.frame_bytes_max() && ring.fits(total)
    }

    /// Puts an entry into the pending frame. Its room is reserved.
    pub(crate) fn push(self: &Rc<Self>, entry: &Entry<'_>, effect: Effect) -> Committed {
        let mut pending = self.pending.borrow_mut();
        pending.grow(entry.encoded_len());
        entry.encode(&mut pending.frame, entry.body_len());
        pending.entries += 1;
        pending.effects.push(effect);
        drop(pending);
        self.work.notify_all();
        Committed { inner: Rc::clone(self), sequence: self.pending_sequence() }
    }

    /// Puts one batch into the pending frame, assigned, and lets `tail` see the bytes as they were assigned.
    pub(crate) fn push_batch(
        &self,
        log: &Rc<Log>,
        append: &Entry<'_>,
        assigned: &[u8; 16],
        change: Change,
        tail: impl FnOnce(&[u8]),
    ) {
        let Entry::Append { batches, .. } = append else {
            unreachable!("only appends carry batches here");
        };
        let mut pending = self.pending.borrow_mut();
        pending.grow(append.encoded_len());
        let start = pending.frame.len() + crate::limits::APPEND_OVERHEAD;
        append.encode(&mut pending.frame, append.body_len());
        // Bytes 0..16 of a batch: base offset, length, leader epoch. Its CRC covers what follows.
        pending.frame.patch(start, assigned);
        tail(&pending.frame.as_slice()[start..start + batches.len()]);
        pending.entries += 1;
        pending.effects.push(Effect::Partition(Rc::clone(log), change));
        drop(pending);
        self.work.notify_all();
    }

    /// Puts one batch whose whole blocks the commit writes to the segment itself: `entry` says where, `write` what.
    pub(crate) fn push_extent(
        &self,
        log: &Rc<Log>,
        entry: &Entry<'_>,
        change: Change,
        write: ExtentWrite,
    ) {
        let mut pending = self.pending.borrow_mut();
        pending.grow(entry.encoded_len());
        entry.encode(&mut pending.frame, entry.body_len());
        pending.entries += 1;
        pending.effects.push(Effect::Partition(Rc::clone(log), change));
        pending.extent_bytes += write.pieces.iter().map(|(_, chunk)| chunk.len()).sum::<usize>();
        pending.extents.push(write);
        drop(pending);
        self.count(|c| c.extents += 1);
        self.work.notify_all();
    }

    /// Sequence that the pending frame will have.
    fn pending_sequence(&self) -> Sequence {
        self.ring.borrow().next_sequence()
    }

    /// Asks for one mark frame and waits for it.
    pub(crate) async fn commit_mark(self: &Rc<Self>) -> Result<()> {
        self.pending.borrow_mut().mark = true;
        let committed = Committed { inner: Rc::clone(self), sequence: self.pending_sequence() };
        self.work.notify_all();
        committed.wait().await
    }

    /// The committer: one frame in flight, the next one gathering.
    pub(crate) async fn commit_loop(self: Rc<Self>) {
        let mut last_was_mark = false;
        loop {
            let work = self.work.notified();
            let (empty, mark) = {
                let p = self.pending.borrow();
                (p.entries == 0, p.mark)
            };
            if empty && !mark {
                if self.closing.get() {
                    break;
                }
                if last_was_mark {
                    work.await;
                    continue;
                }
                if self.rt.timeout(MARK_AFTER, work).await.is_some() || !self.ring.borrow().fits(0)
                {
                    continue;
                }
            }
            self.commit_one().await;
            last_was_mark = empty;
        }
        self.committer_done.set(true);
        self.progress.notify_all();
    }

    async fn commit_one(self: &Rc<Self>) {
        let capacity = self.pending.borrow().frame.len().next_power_of_two().max(FIRST_CAPACITY);
        let mut taken = self.pending.replace(Pending::with_capacity(capacity));
        taken.grow(0);
        let (effects, extents) = (taken.effects, taken.extents);
        let entries = taken.entries;
        let wall_ms = self.rt.wall_ms();
        let (sequence, chunk, position, file) = {
            let mut ring = self.ring.borrow_mut();
            let before = ring.head();
            let sequence = ring.next_sequence();
            let (chunk, position) = ring.seal(taken.frame, entries, wall_ms);
            if position < before {
                self.count(|c| c.laps += 1);
            }
            (sequence, chunk, position, ring.file.clone())
        };
        // The frame is written last, after the flush of what it vouches for: it is the flush that proves this one
        // (FORMAT.md 7).
        if !extents.is_empty() {
            self.write_extents(extents).await;
        }
        if self.mutant.is(Mutant::AckBeforeFlush) {
            self.apply(effects, wall_ms, sequence);
            if let Err(e) = file.write_at(chunk, position).await {
                self.die("a write of the ring", &e);
            }
        } else {
            if let Err(e) = file.write_at(chunk, position).await {
                self.die("a write of the ring", &e);
            }
            self.apply(effects, wall_ms, sequence);
        }
        self.count(|c| if entries == 0 { c.marks += 1 } else { c.commits += 1 });
    }

    /// Writes what a commit puts into segments, and flushes it: one file by itself, more by one `syncfs`. So is a new
    /// one, of which a flush would keep the bytes and not the name.
    async fn write_extents(&self, extents: Vec<ExtentWrite>) {
        let first = extents[0].file.clone();
        let alone = extents.iter().all(|e| !e.fresh && e.file.path() == first.path());
        let writes = extents.into_iter().flat_map(|ExtentWrite { file, pieces, .. }| {
            pieces.into_iter().map(move |(position, chunk)| {
                let file = file.clone();
                async move { file.write_at(chunk, position).await }
            })
        });
        for result in join_all(writes).await {
            if let Err(e) = result {
                self.die("a write of a segment", &e);
            }
        }
        let flushed = if self.mutant.is(Mutant::RingFlushTrustedForSegments) {
            Ok(())
        } else if alone {
            first.fdatasync().await
        } else {
            self.anchor.syncfs().await
        };
        if let Err(e) = flushed {
            self.die("a flush of a segment", &e);
        }
    }

    /// What is flushed becomes visible.
    fn apply(self: &Rc<Self>, effects: Vec<Effect>, wall_ms: i64, sequence: Sequence) {
        let mut advanced: Vec<Rc<Log>> = Vec::new();
        for effect in effects {
            match effect {
                Effect::Partition(log, change) => {
                    log.apply(&change, wall_ms, sequence);
                    if !advanced.iter().rev().take(8).any(|l| Rc::ptr_eq(l, &log)) {
                        advanced.push(log);
                    }
                }
                Effect::Create(log) => {
                    log.created(sequence);
                    self.logs.borrow_mut().insert(log.id(), log);
                }
                Effect::Delete(log) => {
                    self.logs.borrow_mut().remove(&log.id());
                    self.deletions.borrow_mut().push(log.deletion());
                    advanced.push(log);
                }
                Effect::ProducerIds(next) => self.next_producer_id.set(next),
            }
        }
        self.committed.set(sequence.next());
        for log in advanced {
            log.notify();
        }
        self.progress.notify_all();
        let quarter = self.options.undestaged_bytes.min(self.reference.bytes) / 4;
        if self.fresh_bytes.get() >= quarter
            || self.cached_bytes.get() > self.options.cache_bytes
            || self.ring.borrow().used_bytes() >= self.reference.bytes / 4
        {
            self.upkeep.notify_all();
        }
    }
}
