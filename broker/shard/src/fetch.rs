//! Fetch: whole batches from several partitions, and the wait for enough of them (KIP-74, min_bytes, max_wait).
//!
//! A wait costs nothing: one notifier per request hangs on the logs of its partitions and is woken once per commit that
//! concerns one of them. Partitions of other cores are asked there, and wait there.
//!
//! What is on this core is named in the answer and found when it is sent, so it takes no memory here. What comes from
//! another core is a copy, which holds memory until it is sent.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use rillway_io::{Chunk, Class, FileRange, Notify, Permit};
use rillway_log::{Log, PartitionId};

use crate::error::PartitionError;
use crate::partition::check_epoch;
use crate::shard::Shard;

/// One partition of a request.
#[derive(Clone, Copy, Debug)]
pub struct FetchPartition {
    pub id: PartitionId,
    pub offset: i64,
    pub max_bytes: usize,
    /// Negative: not given.
    pub leader_epoch: i32,
}

/// One request.
#[derive(Clone, Debug)]
pub struct FetchSpec {
    pub partitions: Vec<FetchPartition>,
    pub max_bytes: usize,
    pub min_bytes: usize,
    pub max_wait: Duration,
    /// Whether sealed segments are sent from the page cache.
    pub cached: bool,
}

/// One partition's answer, at the request's place.
#[derive(Debug)]
pub struct FetchedPartition {
    pub result: Result<(), PartitionError>,
    pub high_watermark: i64,
    pub log_start: i64,
    pub records: FetchedRecords,
    pub bytes: usize,
}

/// Where a partition's records are.
#[derive(Debug)]
pub enum FetchedRecords {
    None,
    /// On this core: found when they are sent.
    Here(FileRange),
    /// Copied from the core that owns the partition.
    Copied(Chunk),
}

/// An answer to a request, in its order.
#[derive(Debug)]
pub struct Fetched {
    pub partitions: Vec<FetchedPartition>,
    /// For what is copied, until it is sent.
    pub memory: Option<Permit>,
}

/// Bytes from other cores that one answer may take, unless its first batch alone is larger.
const COPIED_MAX: usize = 1 << 20;

/// What an answer may still take.
#[derive(Clone, Copy)]
struct Left {
    bytes: usize,
    copied: usize,
    cached: bool,
    /// Nothing was found yet, so one whole batch comes whatever the limits (KIP-74).
    first: bool,
}

impl FetchedPartition {
    fn failed(e: PartitionError) -> FetchedPartition {
        FetchedPartition {
            result: Err(e),
            high_watermark: -1,
            log_start: -1,
            records: FetchedRecords::None,
            bytes: 0,
        }
    }

    fn empty(log: &Log) -> FetchedPartition {
        FetchedPartition {
            result: Ok(()),
            high_watermark: log.flushed_end(),
            log_start: log.log_start(),
            records: FetchedRecords::None,
            bytes: 0,
        }
    }
}

/// The same, as it crosses cores: bytes copied.
struct Carried {
    result: Result<(), PartitionError>,
    high_watermark: i64,
    log_start: i64,
    bytes: Vec<u8>,
}

impl Shard {
    /// Reads once, and again as something new is flushed, until there are `min_bytes`, an error, or `max_wait` is over.
    pub async fn fetch(&self, spec: FetchSpec) -> Fetched {
        let deadline = self.inner.rt.now() + spec.max_wait;
        let wake = Rc::new(Notify::new());
        let elsewhere: Rc<[Cell<bool>]> =
            spec.partitions.iter().map(|_| Cell::new(false)).collect();
        let mut watching = false;
        loop {
            let woken = wake.notified();
            let stop = self.inner.stop_waits.notified();
            let answers = self.read_all(&spec).await;
            let total: usize = answers.partitions.iter().map(|a| a.bytes).sum();
            let failed = answers.partitions.iter().any(|a| a.result.is_err());
            let now = self.inner.rt.now();
            if total >= spec.min_bytes || failed || now >= deadline || self.inner.stopping.get() {
                return answers;
            }
            if !watching {
                watching = true;
                for p in &spec.partitions {
                    if let Ok(log) = self.own(p.id) {
                        log.watch(&wake);
                    }
                }
                // What was flushed between the read and the watch would be missed: look again.
                continue;
            }
            // More than was seen now: to wait for more than the fetch's offset would end at once where there are some
            // bytes and not enough, and burn the core until the deadline.
            let seen: Vec<i64> = answers.partitions.iter().map(|a| a.high_watermark).collect();
            drop(answers);
            self.watch_elsewhere(&spec, &seen, &wake, &elsewhere, deadline - now);
            self.inner.rt.timeout(deadline - now, either(woken, stop)).await;
        }
    }

    /// One pass over all partitions, in the request's order.
    async fn read_all(&self, spec: &FetchSpec) -> Fetched {
        let elsewhere = |p: &FetchPartition| self.owner_of(p.id).is_ok_and(|c| c != self.core());
        // Taken once, before anything is read: whoever has some must not wait for more.
        let mut room = COPIED_MAX;
        loop {
            let copies = spec.partitions.iter().any(elsewhere);
            let transfer = self.inner.store.transfer();
            let memory = if copies { Some(transfer.held(room).await) } else { None };
            let (partitions, copied) = self.read_each(spec, room).await;
            // One batch that is larger than all of it: again, with as much as it takes or can be had.
            let all = memory.as_ref().is_none_or(|memory| memory.units() < room);
            if copied <= room || all {
                let memory = memory.filter(|_| copied > 0);
                return Fetched { partitions, memory };
            }
            drop((partitions, memory));
            room = copied;
        }
    }

    /// As `read_all`, with at most `room` bytes of copies, but for one batch; says how many there are.
    async fn read_each(&self, spec: &FetchSpec, room: usize) -> (Vec<FetchedPartition>, usize) {
        let mut answers = Vec::with_capacity(spec.partitions.len());
        let mut copied = 0;
        let mut left =
            Left { bytes: spec.max_bytes, copied: room, cached: spec.cached, first: true };
        for p in &spec.partitions {
            let answer = match self.owner_of(p.id) {
                Err(e) => FetchedPartition::failed(e),
                Ok(core) if core == self.core() => self.read_own(p, left).await,
                Ok(core) => self.read_there(core, p, left).await,
            };
            left.first &= answer.bytes == 0;
            left.bytes = left.bytes.saturating_sub(answer.bytes);
            if let FetchedRecords::Copied(chunk) = &answer.records {
                copied += chunk.len();
                left.copied = left.copied.saturating_sub(chunk.len());
            }
            answers.push(answer);
        }
        (answers, copied)
    }

    /// The log of a partition of this core, and how many bytes may be read of it; or the answer.
    fn to_read(
        &self,
        p: &FetchPartition,
        left: Left,
    ) -> Result<(Rc<Log>, usize), Box<FetchedPartition>> {
        let failed = |e| Box::new(FetchedPartition::failed(e));
        let log = self.own(p.id).map_err(failed)?;
        check_epoch(&log, Some(p.leader_epoch).filter(|e| *e >= 0)).map_err(failed)?;
        let max = p.max_bytes.min(left.bytes);
        if max == 0 && !left.first {
            return Err(Box::new(FetchedPartition::empty(&log)));
        }
        Ok((log, max))
    }

    /// Finds records of a partition of this core.
    async fn read_own(&self, p: &FetchPartition, left: Left) -> FetchedPartition {
        let (log, max) = match self.to_read(p, left) {
            Ok(found) => found,
            Err(answer) => return *answer,
        };
        match log.fetch(p.offset, max, left.first, left.cached).await {
            Ok(found) => FetchedPartition {
                result: Ok(()),
                high_watermark: found.end,
                log_start: found.log_start,
                records: found.records.map_or(FetchedRecords::None, FetchedRecords::Here),
                bytes: found.bytes,
            },
            Err(e) => FetchedPartition {
                high_watermark: log.flushed_end(),
                log_start: log.log_start(),
                ..FetchedPartition::failed(e.into())
            },
        }
    }

    /// Reads records of a partition of this core, for another one.
    async fn read_for_another(&self, p: &FetchPartition, left: Left) -> Carried {
        let carried = |answer: FetchedPartition, bytes| Carried {
            result: answer.result,
            high_watermark: answer.high_watermark,
            log_start: answer.log_start,
            bytes,
        };
        let (log, max) = match self.to_read(p, left) {
            Ok(found) => found,
            Err(answer) => return carried(*answer, Vec::new()),
        };
        match log.read(p.offset, max, left.first, left.copied).await {
            Ok(found) => Carried {
                result: Ok(()),
                high_watermark: found.end,
                log_start: found.log_start,
                bytes: found.chunks.iter().flat_map(|c| c.iter().copied()).collect(),
            },
            Err(e) => Carried {
                result: Err(e.into()),
                high_watermark: log.flushed_end(),
                log_start: log.log_start(),
                bytes: Vec::new(),
            },
        }
    }

    async fn read_there(&self, core: usize, p: &FetchPartition, left: Left) -> FetchedPartition {
        let p = FetchPartition { max_bytes: p.max_bytes.min(left.copied), ..*p };
        let carried = self
            .inner
            .mesh
            .call(core, move |shard: Shard| async move { shard.read_for_another(&p, left).await });
        match carried.await {
            None => FetchedPartition::failed(PartitionError::Stopping),
            Some(c) => FetchedPartition {
                result: c.result,
                high_watermark: c.high_watermark,
                log_start: c.log_start,
                bytes: c.bytes.len(),
                records: match c.bytes.len() {
                    0 => FetchedRecords::None,
                    _ => FetchedRecords::Copied(Chunk::copy_from(&c.bytes)),
                },
            },
        }
    }

    /// Waits on the owner until something beyond `seen` is flushed, the log starts behind `offset`, or `wait` is over.
    async fn wait_for_more(&self, id: PartitionId, offset: i64, seen: i64, wait: Duration) {
        let Ok(log) = self.own(id) else { return };
        let deadline = self.inner.rt.now() + wait;
        let wake = Rc::new(Notify::new());
        log.watch(&wake);
        loop {
            let woken = wake.notified();
            let stop = self.inner.stop_waits.notified();
            let now = self.inner.rt.now();
            let over = now >= deadline || self.inner.stopping.get();
            let moved = log.flushed_end() > seen || log.log_start() > offset;
            if moved || over || self.own(id).is_err() {
                return;
            }
            self.inner.rt.timeout(deadline - now, either(woken, stop)).await;
        }
    }

    /// Has the owners of partitions that are not here wake this request. `waiting` says of which one does already: each
    /// is asked again as soon as it has answered, whatever the others do.
    fn watch_elsewhere(
        &self,
        spec: &FetchSpec,
        seen: &[i64],
        wake: &Rc<Notify>,
        waiting: &Rc<[Cell<bool>]>,
        wait: Duration,
    ) {
        for (n, (p, seen)) in spec.partitions.iter().zip(seen).enumerate() {
            let Ok(core) = self.owner_of(p.id) else { continue };
            if core == self.core() || waiting[n].replace(true) {
                continue;
            }
            let (id, offset, shard) = (p.id, p.offset, self.clone());
            let seen = offset.max(*seen);
            let (wake, waiting) = (Rc::downgrade(wake), Rc::clone(waiting));
            let task = self.inner.rt.spawn(Class::Data, async move {
                let there = move |there: Shard| async move {
                    there.wait_for_more(id, offset, seen, wait).await;
                };
                shard.inner.mesh.call(core, there).await;
                waiting[n].set(false);
                if let Some(wake) = wake.upgrade() {
                    wake.notify_all();
                }
            });
            drop(task);
        }
    }
}

/// Waits for whichever is first.
async fn either(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    std::future::poll_fn(|cx| {
        if a.as_mut().poll(cx).is_ready() { Poll::Ready(()) } else { b.as_mut().poll(cx) }
    })
    .await;
}
