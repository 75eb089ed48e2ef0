//! What a store does beside commits: destage, checkpoint, release; seal; and the files of what was deleted.
//!
//! One task per store runs it, so rounds never overlap. Nothing here needs room in the ring, except SEAL, which is put
//! off when there is none, and never waits for it: a full ring always drains.

use std::rc::Rc;
use std::time::Duration;

use rillway_io::{Chunk, Class};

use crate::bytes::salted_crc;
use crate::checkpoint::{CheckpointHeader, begin_record, end_record, put_deletion};
use crate::directory::{deleted_dir, log_file, meta_file, partition_metadata};
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::ids::Sequence;
use crate::journal::Effect;
use crate::limits::{BLOCK, block_down};
use crate::log::Log;
use crate::meta;
use crate::mutant::Mutant;
use crate::rings::{CheckpointBody, grow_checkpoint, write_checkpoint};
use crate::state::{Change, SegmentState, SegmentStatus};
use crate::store::Inner;
use crate::tail::recorded;

/// How often a full disk is looked at, and how much room makes it usable again.
const FULL_RETRY: Duration = Duration::from_secs(1);
const FULL_UNTIL: u64 = 16 << 20;
/// Memory that an idle partition may keep.
const IDLE_MEMORY: usize = 16 << 10;

/// Flushed whole blocks of a segment, on their way to its file.
struct Undestaged {
    segment: i64,
    from: u64,
    to: u64,
}

/// Up to where a destage round wrote a segment.
struct Written {
    log: Rc<Log>,
    segment: i64,
    to: u64,
}

impl Inner {
    /// The disk is full: a served state (design section 4). Appends get a retriable error, everything else goes on.
    pub(crate) fn went_full(&self) {
        if !self.full.replace(true) {
            tracing::error!(
                "{}: no room left on the disk. Produce is refused until there is; consume goes on. \
                 Free room, delete topics, or lower retention",
                self.reference.dir.display()
            );
            self.count(|c| c.no_space += 1);
            self.progress.notify_all();
            self.upkeep.notify_all();
        }
    }

    pub(crate) async fn upkeep_loop(self: Rc<Self>) {
        loop {
            let wanted = self.upkeep.notified();
            if self.closing.get() {
                return;
            }
            self.look_for_room().await;
            let mut worked = false;
            if self.logs.borrow().values().any(|log| !log.rolled().is_empty()) {
                worked |= self.seal_round().await.unwrap_or_else(|e| self.upkeep_failed(&e));
            }
            if self.round_due() {
                worked |= self
                    .upkeep_round(false)
                    .await
                    .map(|()| true)
                    .unwrap_or_else(|e| self.upkeep_failed(&e));
            }
            // Extents fill the cache without ever making a round due.
            if self.cached_bytes.get() > self.options.cache_bytes {
                self.trim_cache(false);
            }
            self.remove_gone().await;
            if !worked || self.full.get() {
                self.rt.timeout(FULL_RETRY, wanted).await;
            }
        }
    }

    fn upkeep_failed(&self, e: &Error) -> bool {
        match e {
            Error::NoSpace { .. } => self.went_full(),
            Error::Partition { .. } | Error::Closed => {}
            // Connections hold them all: appends wait for room in the ring until some are free again.
            Error::Io(e) if e.is_descriptor_limit() => {
                tracing::error!("{e}; raise the limit of open files")
            }
            other => self.die("upkeep", other),
        }
        false
    }

    /// Removes `DIR/reserve`, so that metadata has room on a full disk; false if it is gone already. It is made again at
    /// the next start.
    pub(crate) async fn give_up_reserve(&self) -> bool {
        match self.rt.disk().remove_file(&self.reference.dir.join("reserve")).await {
            Ok(()) => {
                tracing::warn!(
                    "{}: the reserve is used up for metadata",
                    self.reference.dir.display()
                );
                true
            }
            Err(e) if e.is_not_found() => false,
            Err(e) => self.die("giving up the reserve", &e),
        }
    }

    async fn look_for_room(&self) {
        if !self.full.get() {
            return;
        }
        match self.rt.disk().stat_fs(&self.reference.dir).await {
            Ok(stat) if stat.available >= FULL_UNTIL => {
                tracing::info!("{}: there is room again", self.reference.dir.display());
                self.full.set(false);
                self.progress.notify_all();
            }
            Ok(_) => {}
            Err(e) => self.die("looking for room", &e),
        }
    }

    fn round_due(&self) -> bool {
        let budget = self.options.undestaged_bytes.min(self.reference.bytes);
        self.pressed.get()
            || self.fresh_bytes.get() >= budget / 4
            || self.ring.borrow().used_bytes() >= self.reference.bytes / 4
    }

    /// Destage, `syncfs`, checkpoint, release.
    ///
    /// The checkpoint is of the moment at which destage looked at each partition, not of the one at which it is written:
    /// what came later is in the ring, which keeps it. As of its end it would hold, and the ring would get back, all that
    /// came in during the round: the checkpoint files of a busy core grew to 250 MB each, and wrote every byte once more.
    pub(crate) async fn upkeep_round(self: &Rc<Self>, clean: bool) -> Result<()> {
        self.pressed.set(false);
        let fresh = self.fresh_bytes.get();
        let point = self.ring.borrow().replay_point(self.committed.get());
        let (written, body) = self.destage().await?;
        if self.mutant.is(Mutant::RegionReleasedBeforeSyncfs) {
            self.count_durable(&written);
            self.checkpoint(point, body, clean).await?;
            self.sync_segments().await;
        } else {
            self.sync_segments().await;
            self.count_durable(&written);
            self.checkpoint(point, body, clean).await?;
        }
        self.fresh_bytes.set(self.fresh_bytes.get().saturating_sub(fresh));
        self.count(|c| c.destages += 1);
        self.trim_cache(true);
        self.progress.notify_all();
        Ok(())
    }

    /// Moves whole blocks of flushed bytes to their segments, each block once. Gives what was written, and the records
    /// of the checkpoint that may count it once it is durable.
    async fn destage(self: &Rc<Self>) -> Result<(Vec<Written>, CheckpointBody)> {
        let logs: Vec<_> = self.logs.borrow().values().cloned().collect();
        let mut written = Vec::new();
        let mut body = CheckpointBody::default();
        for log in logs {
            // Deleted meanwhile: it is in the deletion records, and its entries from here on are followed by its DELETE.
            if !self.logs.borrow().contains_key(&log.id()) {
                continue;
            }
            let ranges = log.undestaged();
            let start = begin_record(&mut body.bytes);
            log.put_record(&ranges, &mut body.bytes);
            end_record(&mut body.bytes, start);
            body.partitions += 1;
            match self.destage_log(&log, &ranges).await {
                Ok(()) => written.extend(ranges.into_iter().map(|range| {
                    let log = Rc::clone(&log);
                    Written { log, segment: range.segment, to: range.to }
                })),
                // A partition that is refused, or being deleted, keeps its bytes in the checkpoint; so does one whose
                // segment has no room: a start on a full disk, whose ranges a power cut took.
                Err(e @ (Error::Partition { .. } | Error::Closed | Error::NoSpace { .. })) => {
                    if matches!(e, Error::NoSpace { .. }) {
                        self.went_full();
                    }
                    body.bytes.truncate(start);
                    log.put_record(&[], &mut body.bytes);
                    end_record(&mut body.bytes, start);
                }
                Err(e) => return Err(e),
            }
            self.rt.yield_now().await;
        }
        for d in self.deletions.borrow().iter() {
            put_deletion(d, &mut body.bytes);
            body.deletions += 1;
        }
        Ok((written, body))
    }

    async fn destage_log(self: &Rc<Self>, log: &Rc<Log>, ranges: &[Undestaged]) -> Result<()> {
        for range in ranges {
            self.destage_segment(log, range.segment, range.from, range.to).await?;
        }
        Ok(())
    }

    async fn destage_segment(
        self: &Rc<Self>,
        log: &Rc<Log>,
        segment: i64,
        from: u64,
        to: u64,
    ) -> Result<()> {
        let _files = log.files_turn.acquire(1).await;
        self.write_segment(log, segment, from, to).await
    }

    /// The caller holds the turn of the log's files.
    async fn write_segment(
        self: &Rc<Self>,
        log: &Rc<Log>,
        segment: i64,
        from: u64,
        to: u64,
    ) -> Result<()> {
        if log.is_deleted() {
            return Err(Error::Closed);
        }
        log.extend(self, segment, to).await?;
        let file = log.segment_file(self, segment, true).await?;
        let slices = match log.state().tails.get(&segment) {
            Some(tail) => tail.slices(from..to),
            None => return Ok(()),
        };
        for (position, chunk) in slices {
            if let Err(e) = file.write_at(chunk, position).await {
                self.die("a write of a segment", &e);
            }
        }
        Ok(())
    }

    /// Makes every completed segment write durable (storage.md section 1).
    pub(crate) async fn sync_segments(&self) {
        let recovering = self.tasks.borrow().is_empty();
        let result = if self.mutant.is(Mutant::RecoveryWithoutSyncfs) && recovering {
            Ok(())
        } else if self.mutant.is(Mutant::RingFlushTrustedForSegments) {
            let file = self.ring.borrow().file.clone();
            file.fdatasync().await
        } else {
            self.anchor.syncfs().await
        };
        if let Err(e) = result {
            self.die("syncfs", &e);
        }
    }

    fn count_durable(&self, written: &[Written]) {
        for w in written {
            let mut state = w.log.state_mut();
            if let Some(s) = state.flushed.segment_mut(w.segment)
                && s.status != SegmentStatus::Sealed
            {
                assert!(w.to <= s.length, "only flushed bytes are destaged");
                s.durable = s.durable.max(w.to);
            }
        }
    }

    /// Writes `body` to the older checkpoint file and releases the ring up to `point`, from which on it holds all that
    /// is not in the body.
    async fn checkpoint(
        self: &Rc<Self>,
        point: (u64, Sequence, u32),
        body: CheckpointBody,
        clean: bool,
    ) -> Result<()> {
        let (replay_position, replay_sequence, previous_crc) = point;
        let (slot, number) = (self.next_slot.get(), self.ring.borrow().checkpoint + 1);
        let header = CheckpointHeader {
            clean,
            storage: self.reference.storage,
            ring: self.reference.id,
            number,
            replay_position,
            replay_sequence,
            previous_crc,
            body_crc: salted_crc(self.reference.salt, &body.bytes),
            body_len: body.bytes.len() as u64,
            wall_ms: self.rt.wall_ms(),
            next_producer_id: self.next_producer_id.get(),
            partitions: body.partitions,
            deletions: body.deletions,
        };
        let file = &self.checkpoints[slot];
        loop {
            let known = file.len().await?;
            match grow_checkpoint(file, known, body.bytes.len()).await {
                Ok(_) => break,
                Err(Error::NoSpace { .. }) if self.give_up_reserve().await => {}
                Err(e @ Error::NoSpace { .. }) => return Err(e),
                Err(e) => self.die("growing a checkpoint", &e),
            }
        }
        if let Err(e) = write_checkpoint(file, &header, self.reference.salt, &body.bytes).await {
            self.die("a write of a checkpoint", &e);
        }
        let mut ring = self.ring.borrow_mut();
        ring.checkpoint = number;
        ring.release_below(replay_sequence);
        drop(ring);
        self.next_slot.set(1 - slot);
        self.count(|c| c.checkpoints += 1);
        self.progress.notify_all();
        Ok(())
    }

    /// Brings every rolled segment to its final form: last block, exact length, `.meta`, one `syncfs`, SEAL.
    async fn seal_round(self: &Rc<Self>) -> Result<bool> {
        let logs: Vec<_> = self.logs.borrow().values().cloned().collect();
        let mut ready = Vec::new();
        for log in logs {
            if log.is_deleted() {
                continue;
            }
            for segment in log.rolled() {
                match self.prepare_seal(&log, &segment).await {
                    Ok(meta_crc) => ready.push((Rc::clone(&log), segment, meta_crc)),
                    Err(Error::Partition { .. } | Error::Closed) => {}
                    Err(e) => return Err(e),
                }
            }
        }
        if ready.is_empty() {
            return Ok(false);
        }
        self.sync_segments().await;
        for (log, segment, meta_crc) in ready {
            let (base, length) = (segment.base, segment.length);
            let entry = Entry::Seal { partition: log.reference(), segment: base, length, meta_crc };
            // Without room it stays rolled, and is sealed after the round that makes room.
            if !self.has_room(entry.encoded_len()) {
                self.pressed.set(true);
                return Ok(true);
            }
            self.closed()?;
            // Deleted while we waited: its DELETE must stay its last entry.
            if log.is_deleted() {
                continue;
            }
            let change = Change::Seal { segment: base, length, meta_crc };
            self.push(&entry, Effect::Partition(log, change)).wait().await?;
            self.count(|c| c.seals += 1);
        }
        Ok(true)
    }

    async fn prepare_seal(self: &Rc<Self>, log: &Rc<Log>, segment: &SegmentState) -> Result<u32> {
        let whole = block_down(segment.length);
        let _files = log.files_turn.acquire(1).await;
        if log.is_deleted() {
            return Err(Error::Closed);
        }
        if segment.durable < whole {
            self.write_segment(log, segment.base, segment.durable, whole).await?;
        }
        let file = log.segment_file(self, segment.base, true).await?;
        let rest = match log.state().tails.get(&segment.base) {
            Some(tail) => tail.pieces(whole..segment.length).concat(),
            None => return Err(log.refuse(format!("the tail of segment {} is gone", segment.base))),
        };
        if !rest.is_empty() {
            let mut block = rest;
            block.resize(BLOCK, 0);
            log.extend(self, segment.base, whole + BLOCK as u64).await?;
            if let Err(e) = file.write_at(Chunk::copy_from(&block), whole).await {
                self.die("a write of a segment", &e);
            }
        }
        match file.truncate(segment.length).await {
            Ok(()) => {}
            Err(e) if e.is_descriptor_limit() => return Err(e.into()),
            Err(e) => self.die("cutting a segment to its length", &e),
        }
        let bytes = {
            let state = log.state();
            let (producers, epochs) = (&state.flushed.producers, &state.flushed.epochs);
            meta::encode(&self.reference.storage, log.reference(), segment, producers, epochs)
        };
        let path = log.dir.join(meta_file(segment.base, segment.compaction));
        // The round's `syncfs` is behind it.
        match self.rt.disk().write_file_unflushed(&path, &bytes).await {
            Ok(()) => Ok(crc32c::crc32c(&bytes)),
            Err(e) if e.is_no_space() => {
                Err(Error::NoSpace { path, what: "a segment's .meta".to_owned() })
            }
            Err(e) if e.is_descriptor_limit() => Err(e.into()),
            Err(e) => self.die("a write of .meta", &e),
        }
    }

    /// Keeps the memory of tails within its budget; after a round, which is when idleness is measured, idle partitions
    /// small too.
    fn trim_cache(&self, after_round: bool) {
        let logs: Vec<_> = self.logs.borrow().values().cloned().collect();
        let (held, budget) = (self.cached_bytes.get(), self.options.cache_bytes);
        let excess = held.saturating_sub(budget - budget / 8) as f64 / held.max(1) as f64;
        let mut freed = 0;
        for log in logs {
            let mut state = log.state_mut();
            let state = &mut *state;
            let idle = after_round && !std::mem::replace(&mut state.busy, false);
            // One that is not in the table yet is the newest of all: its ROLL is not flushed.
            let sealed = |base: &i64| {
                state.flushed.segment(*base).is_some_and(|s| s.status == SegmentStatus::Sealed)
            };
            let gone: Vec<i64> = if excess > 0.0 || idle {
                state.tails.keys().copied().filter(sealed).collect()
            } else {
                Vec::new()
            };
            for base in gone {
                freed += state.tails.remove(&base).map_or(0, |t| t.memory());
            }
            for (base, tail) in &mut state.tails {
                let Some(s) = state.flushed.segment(*base) else { continue };
                if s.status == SegmentStatus::Sealed {
                    continue;
                }
                if idle && tail.memory() > IDLE_MEMORY {
                    freed += tail.shrink(s.durable);
                } else if held > budget {
                    let share = ((tail.end() - tail.start()) as f64 * excess) as u64;
                    freed += tail.drop_front((tail.start() + share).min(s.durable));
                }
            }
        }
        self.cached_bytes.set(held.saturating_sub(freed));
    }

    /// Files of segments that left their table: renamed now, unlinked later.
    pub(crate) async fn remove_gone(self: &Rc<Self>) {
        let logs: Vec<_> = self.logs.borrow().values().cloned().collect();
        for log in logs {
            let delay = self.delete_delay(&log);
            for segment in log.take_gone() {
                let file = log.state_mut().files.remove(&segment.key());
                if let Some(file) = file {
                    let _ = file.close().await;
                }
                for name in [
                    log_file(segment.base, segment.compaction),
                    meta_file(segment.base, segment.compaction),
                ] {
                    let from = log.dir.join(&name);
                    let to = log.dir.join(format!("{name}.deleted"));
                    match self.rt.disk().rename(&from, &to).await {
                        Ok(()) => self.remove_later(to, false, delay),
                        Err(e) if e.is_not_found() => {}
                        Err(e) => tracing::warn!("{}: could not be renamed: {e}", from.display()),
                    }
                }
                if segment.end <= log.log_start() {
                    self.count(|c| c.retention_deletes += 1);
                }
            }
        }
    }

    /// How long files of this log stay once they are deleted.
    pub(crate) fn delete_delay(&self, log: &Log) -> Duration {
        let own =
            log.config().file_delete_delay_ms.map(|ms| Duration::from_millis(ms.unsigned_abs()));
        own.unwrap_or(self.options.delete_delay)
    }

    /// Unlinks what was renamed, after the delay. A leftover costs room and nothing else.
    fn remove_later(self: &Rc<Self>, path: std::path::PathBuf, directory: bool, delay: Duration) {
        let inner = Rc::clone(self);
        let task = self.rt.spawn(Class::Background, async move {
            inner.rt.sleep(delay).await;
            let disk = inner.rt.disk();
            let removed = if directory {
                disk.remove_dir_all(&path).await
            } else {
                disk.remove_file(&path).await
            };
            if let Err(e) = removed
                && !e.is_not_found()
            {
                tracing::warn!("{}: could not be removed: {e}", path.display());
            }
        });
        task.detach();
    }

    /// Renames the directories of deleted partitions. Until a rename is durable its record stays in the checkpoints.
    /// `delay` is that of the topic that is deleted now; what an earlier life left has the store's.
    pub(crate) async fn finish_deletions(self: &Rc<Self>, delay: Option<Duration>) {
        // One at a time, each with what is left: two deletes of one topic both saw its first partition's directory, and
        // the second rename took the one that the topic's successor had made meanwhile.
        let _turn = self.deleting.acquire(1).await;
        let pending = self.deletions.borrow().clone();
        if pending.is_empty() {
            return;
        }
        let dir = &self.reference.dir;
        let mut done = Vec::new();
        for d in pending {
            let from = dir.join(&d.directory);
            let topic = d.directory.rsplit_once('-').map_or("", |(topic, _)| topic);
            let to = deleted_dir(dir, topic, d.partition.id);
            // A directory of that name with another identity belongs to a topic that was created since, perhaps on
            // another core, this moment; one without may be about to, and nothing in it is durable.
            let witness = from.join("partition.metadata");
            let identity = partition_metadata(d.partition.id.topic);
            match self.rt.disk().rename_if(&from, &to, &witness, identity.as_bytes()).await {
                Ok(true) => {
                    self.remove_later(to, true, delay.unwrap_or(self.options.delete_delay));
                    done.push(d);
                }
                Ok(false) => done.push(d),
                Err(e) => tracing::warn!("{}: could not be renamed: {e}", from.display()),
            }
        }
        if let Err(e) = self.rt.disk().sync_dir(dir).await {
            self.die("a flush of the data directory", &e);
        }
        self.deletions.borrow_mut().retain(|d| !done.contains(d));
    }
}

impl Log {
    /// Flushed whole blocks that are not durable in their segments yet.
    fn undestaged(&self) -> Vec<Undestaged> {
        if self.is_deleted() || self.refused().is_some() {
            return Vec::new();
        }
        let state = self.state();
        state
            .flushed
            .segments
            .iter()
            .filter(|s| s.status != SegmentStatus::Sealed && block_down(s.length) > s.durable)
            .map(|s| Undestaged { segment: s.base, from: s.durable, to: block_down(s.length) })
            .collect()
    }

    /// The partition's record, with `destaged` counted as durable.
    fn put_record(&self, destaged: &[Undestaged], body: &mut Vec<u8>) {
        let state = self.state();
        if destaged.is_empty() {
            state.flushed.put(|s| recorded(&state.tails, s), body);
            return;
        }
        let mut flushed = state.flushed.clone();
        for range in destaged {
            let segment = flushed.segment_mut(range.segment).expect("it was found in this state");
            segment.durable = range.to;
        }
        flushed.put(|s| recorded(&state.tails, s), body);
    }
}
