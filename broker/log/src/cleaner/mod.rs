//! Log compaction: of each key the newest record stays, at its own offset.
//!
//! One pass: `plan` says what is due; `offset_map` takes the keys of the dirty part, as many as its memory holds; then
//! the segments from the log's start up to where the map ends are rewritten, group by group (`rewrite`, `files`), and one
//! REPLACE entry each swaps them in the table. A crash leaves the old segments of a group or the new one, and a pass that
//! was cut short goes on where the last REPLACE left it. Runs on the partition's core in the background, one partition at
//! a time, and gives way after every batch and inside of large ones; appends and reads never wait for it. Memory: the map, 1 MiB of each side, and
//! one batch packed and unpacked. Absent on purpose: when to look again, which is the shard's affair.

mod files;
mod offset_map;
mod plan;
mod rewrite;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use rillway_wire::batch::{BatchView, Packer, STEP, Unpacker};

use crate::entry::{Entry, NewSegment};
use crate::error::{Error, Result};
use crate::journal::{Effect, Room};
use crate::limits::UNPACKED_BYTES_MAX;
use crate::log::Log;
use crate::mutant::Mutant;
use crate::state::{Change, SegmentKey, SegmentState, SegmentStatus};
use crate::store::{Inner, Store, StoreCounters};

use files::{Broken, Input, Output, discard};
use offset_map::OffsetMap;
use plan::{Look, Plan, groups, look};
use rewrite::{Draft, Kept, Rules, clean, map_keys};

/// What came of a partition.
enum Outcome {
    Done,
    /// It was deleted, or retention took what was being cleaned, or the store closes.
    Moved,
}

impl Store {
    /// Cleans the partition that needs it most. False: none does.
    pub async fn clean(&self) -> Result<bool> {
        let inner = &self.inner;
        let _turn = inner.cleaner.acquire(1).await;
        // Compaction needs room before it gives any.
        if inner.closing.get() || inner.full.get() {
            return Ok(false);
        }
        let mut best: Option<(f64, Rc<Log>, Look)> = None;
        for log in self.logs() {
            match inner.look(&log) {
                Look::Nothing => {}
                Look::Roll => {
                    if let Err(e) = log.roll().await {
                        tracing::warn!("{}-{}: not rolled: {e}", log.topic(), log.id().index);
                    }
                }
                found => {
                    let ratio = if let Look::Clean(plan) = &found { plan.ratio } else { 0.0 };
                    if best.as_ref().is_none_or(|(known, _, _)| *known < ratio) {
                        best = Some((ratio, log, found));
                    }
                }
            }
            inner.rt.yield_now().await;
        }
        let Some((_, log, found)) = best else { return Ok(false) };
        let (begun, before) = (inner.rt.now(), self.counters());
        let outcome = match found {
            Look::Clean(plan) => inner.clean_dirty(&log, &plan).await,
            Look::Expire(rows) => inner.expire_tombstones(&log, &rows).await,
            Look::Nothing | Look::Roll => unreachable!("these are handled above"),
        };
        match outcome {
            Ok(Outcome::Done) => {
                inner.count(|c| c.cleanings += 1);
                told(&log, inner.rt.now().since(begun), &before, &self.counters());
            }
            Ok(Outcome::Moved) => {}
            Err(Broken::Failed(Error::Replaced { .. } | Error::OffsetOutOfRange { .. })) => {}
            // The partition was deleted meanwhile; the others go on.
            Err(Broken::Failed(Error::Closed)) if log.is_deleted() => {}
            Err(Broken::Failed(Error::Closed)) => return Ok(false),
            Err(Broken::Failed(e)) => return Err(e),
            Err(Broken::Damaged(position, what)) => {
                log.cleaning.damaged.set(true);
                tracing::error!(
                    topic = log.topic(),
                    partition = log.id().index,
                    "not compacted until the next start: damaged at byte {position} of a segment: {what}"
                );
            }
        }
        inner.upkeep.notify_all();
        Ok(true)
    }
}

/// Says what a pass did, as Kafka's log-cleaner.log does: how large a log is, and how long it takes to keep it so, is what
/// min.cleanable.dirty.ratio is chosen by. Bytes of the segments that were rewritten; nothing of one that was clean.
fn told(log: &Log, took: Duration, before: &StoreCounters, after: &StoreCounters) {
    let mib = |now: u64, then: u64| format!("{:.1}", (now - then) as f64 / f64::from(1 << 20));
    tracing::info!(
        topic = log.topic(),
        partition = log.id().index,
        segments = after.segments_replaced - before.segments_replaced,
        mib_in = mib(after.cleaned_bytes_in, before.cleaned_bytes_in),
        mib_out = mib(after.cleaned_bytes_out, before.cleaned_bytes_out),
        ?took,
        "compacted"
    );
}

type Cleaning<T> = std::result::Result<T, Broken>;

impl Inner {
    fn look(&self, log: &Log) -> Look {
        let ready = log.cleaning.swept.get() && !log.cleaning.damaged.get();
        if !ready || log.is_deleted() || log.refused().is_some() {
            return Look::Nothing;
        }
        let state = log.state();
        look(&state.flushed, &state.config, self.rt.wall_ms())
    }

    async fn clean_dirty(self: &Rc<Self>, log: &Rc<Log>, plan: &Plan) -> Cleaning<Outcome> {
        // An active segment without a record ends where the plan does, and has no file yet: by its end alone it would be
        // taken along, found missing, and its partition refused.
        let sealed = |s: &&SegmentState| s.status == SegmentStatus::Sealed;
        let segments: Vec<SegmentState> =
            log.state().flushed.segments.iter().take_while(sealed).cloned().collect();
        let map = self.build_map(log, plan, &segments).await?;
        // The segment in which the map ends is rewritten too, up to there.
        let holds = segments.iter().find(|s| s.base < map.end() && map.end() <= s.end);
        let until = holds.map_or(plan.until, |s| s.end);
        let config = log.config();
        let mut all_read = true;
        for group in groups(&segments, until, config.segment_bytes) {
            let old = &segments[group];
            let end = old.last().map_or(plan.dirty, |s| s.end).min(map.end());
            let rules = Rules {
                map: &map,
                cleaned_before: plan.dirty,
                now_ms: self.rt.wall_ms(),
                delete_retention_ms: config.delete_retention_ms,
                all_read,
            };
            match self.clean_group(log, old, rules, end).await? {
                Some(read) => all_read = read,
                None => return Ok(Outcome::Moved),
            }
        }
        Ok(Outcome::Done)
    }

    /// Takes the keys of the dirty part.
    async fn build_map(
        self: &Rc<Self>,
        log: &Rc<Log>,
        plan: &Plan,
        segments: &[SegmentState],
    ) -> Cleaning<OffsetMap> {
        let records = u64::try_from(plan.until - plan.dirty).unwrap_or(0);
        let seeds = [self.rt.random_u64(), self.rt.random_u64()];
        let mut map = OffsetMap::new(self.options.dedupe_bytes, records, plan.dirty, seeds);
        for segment in segments.iter().filter(|s| s.end > plan.dirty && s.end <= plan.until) {
            let from = log.index_floor(segment, plan.dirty).await?;
            let mut input = Input::open(log, self, segment, from).await?;
            while let Some(bytes) = input.next().await? {
                self.closed()?;
                let batch = BatchView::parse(&bytes).expect("parsed when it was read");
                if batch.next_offset() > plan.dirty {
                    let payload = self.unpack(&batch).await;
                    if !map_keys(&batch, payload.as_deref(), plan.dirty, &mut map) {
                        return Ok(map);
                    }
                }
                self.rt.yield_now().await;
            }
            map.seen(segment.end);
        }
        Ok(map)
    }

    /// Rewrites segments of which nothing is due but their tombstones.
    async fn expire_tombstones(
        self: &Rc<Self>,
        log: &Rc<Log>,
        rows: &[usize],
    ) -> Cleaning<Outcome> {
        let (segments, clean_end) = {
            let state = log.state();
            let rows = rows.iter().map(|at| state.flushed.segments[*at].clone());
            (rows.collect::<Vec<_>>(), state.flushed.clean_end)
        };
        let map = OffsetMap::new(0, 0, clean_end, [0, 0]);
        for segment in &segments {
            let rules = Rules {
                map: &map,
                cleaned_before: clean_end,
                now_ms: self.rt.wall_ms(),
                delete_retention_ms: log.config().delete_retention_ms,
                // Every tombstone that may have a horizon has one.
                all_read: false,
            };
            let group = std::slice::from_ref(segment);
            if self.clean_group(log, group, rules, clean_end).await?.is_none() {
                return Ok(Outcome::Moved);
            }
        }
        Ok(Outcome::Done)
    }

    /// Makes one segment of some, and puts it in their place. Everything below `clean_end` is clean then. Gives whether
    /// every batch up to its end could be read; `None` if the old segments are gone.
    async fn clean_group(
        self: &Rc<Self>,
        log: &Rc<Log>,
        old: &[SegmentState],
        rules: Rules<'_>,
        clean_end: i64,
    ) -> Cleaning<Option<bool>> {
        // Those whose last sequence must stay known, should the state ever have to be read from the log again.
        let newest: BTreeSet<i64> = {
            let state = log.state();
            let last = |(_, p): (i64, &crate::state::ProducerState)| {
                p.batches.back().map(|b| b.last_offset)
            };
            state.flushed.producers.iter().filter_map(last).collect()
        };
        let [first, ..] = old else { return Ok(Some(rules.all_read)) };
        let compaction = old.iter().map(|s| s.compaction).max().unwrap_or(0);
        let key = SegmentKey { base: first.base, compaction: compaction.saturating_add(1) };
        if let [alone] = old
            && let Some(read) = self.is_clean(log, alone, &rules, &newest).await?
        {
            let change = (clean_end, &[][..], None);
            return Ok(self.replace(log, change).await?.then_some(read));
        }
        let written = async {
            let bytes = old.iter().map(|s| s.length).sum();
            let mut output = Output::create(self, log, key, bytes).await?;
            let read = self.rewrite(log, old, rules, &newest, &mut output).await?;
            complete(&mut output.segment, old);
            Ok::<_, Broken>((output.finish().await?, read))
        };
        let (segment, read) = match written.await {
            Ok(written) => written,
            Err(e) => {
                discard(self, log, key).await;
                return Err(e);
            }
        };
        if self.mutant.is(Mutant::OldFilesGoneBeforeReplace) {
            for s in old {
                discard(self, log, s.key()).await;
            }
        }
        if !self.mutant.is(Mutant::ReplaceBeforeSyncfs) {
            self.sync_segments().await;
        }
        let bytes = old.iter().map(|s| s.length).sum::<u64>();
        let (length, keys) =
            (segment.length, old.iter().map(SegmentState::key).collect::<Vec<_>>());
        if !self.replace(log, (clean_end, &keys, Some(&segment))).await? {
            discard(self, log, key).await;
            return Ok(None);
        }
        self.count(|c| {
            c.segments_replaced += keys.len() as u64;
            c.cleaned_bytes_in += bytes;
            c.cleaned_bytes_out += length;
        });
        Ok(Some(read))
    }

    /// Whether a segment would come out as it is; if so, whether every batch of it and below it could be read.
    async fn is_clean(
        self: &Rc<Self>,
        log: &Rc<Log>,
        segment: &SegmentState,
        rules: &Rules<'_>,
        newest: &BTreeSet<i64>,
    ) -> Cleaning<Option<bool>> {
        let mut rules = *rules;
        let mut horizon_ms = -1;
        let mut input = Input::open(log, self, segment, 0).await?;
        while let Some(bytes) = input.next().await? {
            self.closed()?;
            let batch = BatchView::parse(&bytes).expect("parsed when it was read");
            let keep = input.at_end() || newest.contains(&batch.last_offset());
            let payload = self.unpack(&batch).await;
            let cleaned = clean(&batch, payload.as_deref(), &rules, keep);
            if cleaned.kept != Kept::Same {
                return Ok(None);
            }
            horizon_ms = earlier(horizon_ms, cleaned.horizon_ms);
            rules.all_read &= cleaned.read;
            self.rt.yield_now().await;
        }
        Ok((horizon_ms == segment.horizon_ms).then_some(rules.all_read))
    }

    async fn rewrite(
        self: &Rc<Self>,
        log: &Rc<Log>,
        old: &[SegmentState],
        mut rules: Rules<'_>,
        newest: &BTreeSet<i64>,
        output: &mut Output,
    ) -> Cleaning<bool> {
        let last = old.len() - 1;
        for (at, segment) in old.iter().enumerate() {
            let mut input = Input::open(log, self, segment, 0).await?;
            while let Some(bytes) = input.next().await? {
                self.closed()?;
                let batch = BatchView::parse(&bytes).expect("parsed when it was read");
                // The last one says where the segment ends: a reader that came so far knows that it has all.
                let ends = at == last && input.at_end();
                let keep = ends || newest.contains(&batch.last_offset());
                let payload = self.unpack(&batch).await;
                let cleaned = clean(&batch, payload.as_deref(), &rules, keep);
                drop(payload);
                rules.all_read &= cleaned.read;
                let horizon = &mut output.segment.horizon_ms;
                *horizon = earlier(*horizon, cleaned.horizon_ms);
                match cleaned.kept {
                    Kept::Same => output.push(&bytes, cleaned.max_timestamp).await?,
                    Kept::Rewritten(draft) => match self.pack(draft).await {
                        Some(packed) => output.push(&packed, cleaned.max_timestamp).await?,
                        // Its codec fails: then nothing of it can be taken out.
                        None => {
                            rules.all_read = false;
                            output.push(&bytes, batch.max_timestamp()).await?;
                        }
                    },
                    Kept::Nothing => {}
                }
                self.rt.yield_now().await;
            }
        }
        Ok(rules.all_read)
    }

    /// The records of a batch, unpacked in steps; `None` if they are not what codec or header say, or too many.
    async fn unpack<'a>(&self, batch: &BatchView<'a>) -> Option<Cow<'a, [u8]>> {
        let codec = batch.codec().ok()?;
        let mut unpacker = Unpacker::new(codec, batch.records(), UNPACKED_BYTES_MAX);
        while unpacker.step().ok()? {
            self.rt.yield_now().await;
        }
        Some(unpacker.finish())
    }

    /// A batch, packed in steps.
    async fn pack(&self, draft: Draft) -> Option<Vec<u8>> {
        let mut packer = Packer::new(draft.codec, draft.payload.len()).ok()?;
        for step in draft.payload.chunks(STEP) {
            packer.step(step).ok()?;
            self.rt.yield_now().await;
        }
        let packed = packer.finish().ok()?;
        draft.seal(&packed)
    }

    /// Flushes the REPLACE. False if the table is not what it was when the cleaning began.
    async fn replace(
        self: &Rc<Self>,
        log: &Rc<Log>,
        (clean_end, old, new): (i64, &[SegmentKey], Option<&SegmentState>),
    ) -> Cleaning<bool> {
        let _table = log.table_turn.acquire(1).await;
        let new: Vec<NewSegment> = new.into_iter().map(NewSegment::from).collect();
        let clean_end = clean_end.max(log.state().flushed.clean_end);
        if old.is_empty() && clean_end == log.state().flushed.clean_end {
            return Ok(!log.is_deleted());
        }
        let entry = Entry::Replace {
            partition: log.reference(),
            clean_end,
            old: old.iter().map(|key| (key.base, key.compaction)).collect(),
            new: new.clone(),
        };
        self.reserve(Room::entry(entry.encoded_len())).await?;
        let there = |key: &SegmentKey| {
            let state = log.state();
            state.flushed.has(*key)
                && state
                    .flushed
                    .segment(key.base)
                    .is_some_and(|s| s.status == SegmentStatus::Sealed)
        };
        if log.is_deleted() || !old.iter().all(there) {
            return Ok(false);
        }
        let change = Change::Replace { clean_end, old: old.to_vec(), new };
        self.push(&entry, Effect::Partition(Rc::clone(log), change)).wait().await?;
        Ok(true)
    }
}

/// The earlier of two horizons; -1 is none.
fn earlier(a: i64, b: i64) -> i64 {
    match (a, b) {
        (-1, other) | (other, -1) => other,
        (a, b) => a.min(b),
    }
}

/// What a new segment has from those whose place it takes.
fn complete(new: &mut SegmentState, old: &[SegmentState]) {
    new.end = old.last().map_or(new.end, |s| s.end);
    let held = || old.iter().filter(|s| s.length > 0);
    new.first_append_ms = held().next().map_or(-1, |s| s.first_append_ms);
    new.first_timestamp = held().next().map_or(-1, |s| s.first_timestamp);
    new.last_append_ms = held().map(|s| s.last_append_ms).max().unwrap_or(-1);
}
