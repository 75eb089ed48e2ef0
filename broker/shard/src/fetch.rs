//! Fetch: whole batches from several partitions, and the wait for enough of them (KIP-74, min_bytes, max_wait).
//!
//! A wait costs nothing: one notifier per request hangs on the logs of its partitions and is woken once per commit that
//! concerns one of them. Partitions of other cores are asked there, and wait there.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use rillway_io::{Chunk, Class, Notify};
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
}

/// One partition's answer, at the request's place.
#[derive(Debug)]
pub struct FetchedPartition {
    pub result: Result<(), PartitionError>,
    pub high_watermark: i64,
    pub log_start: i64,
    pub chunks: Vec<Chunk>,
    pub bytes: usize,
    /// Of these, bytes that were read from a file or another core into memory of their own.
    copied: usize,
}

/// Memory of its own that one answer may take (unless its first batch alone is larger): a slow reader then holds this
/// much, and what is cached anyway, whatever it asked for.
const COPIED_MAX: usize = 1 << 20;

/// What an answer may still take.
#[derive(Clone, Copy)]
struct Left {
    bytes: usize,
    copied: usize,
    /// Nothing was found yet, so one whole batch comes whatever the limits (KIP-74).
    first: bool,
}

impl FetchedPartition {
    fn failed(e: PartitionError) -> FetchedPartition {
        FetchedPartition {
            result: Err(e),
            high_watermark: -1,
            log_start: -1,
            chunks: Vec::new(),
            bytes: 0,
            copied: 0,
        }
    }

    fn empty(log: &Log) -> FetchedPartition {
        FetchedPartition {
            result: Ok(()),
            high_watermark: log.flushed_end(),
            log_start: log.log_start(),
            chunks: Vec::new(),
            bytes: 0,
            copied: 0,
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
    pub async fn fetch(&self, spec: FetchSpec) -> Vec<FetchedPartition> {
        let deadline = self.inner.rt.now() + spec.max_wait;
        let wake = Rc::new(Notify::new());
        let waiting_elsewhere = Rc::new(Cell::new(0));
        let mut watching = false;
        loop {
            let woken = wake.notified();
            let stop = self.inner.stop_waits.notified();
            let answers = self.read_all(&spec).await;
            let total: usize = answers.iter().map(|a| a.bytes).sum();
            let failed = answers.iter().any(|a| a.result.is_err());
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
            drop(answers);
            if waiting_elsewhere.get() == 0 {
                self.watch_elsewhere(&spec, &wake, &waiting_elsewhere, deadline - now);
            }
            self.inner.rt.timeout(deadline - now, either(woken, stop)).await;
        }
    }

    /// One pass over all partitions, in the request's order.
    async fn read_all(&self, spec: &FetchSpec) -> Vec<FetchedPartition> {
        let mut answers = Vec::with_capacity(spec.partitions.len());
        let mut left = Left { bytes: spec.max_bytes, copied: COPIED_MAX, first: true };
        for p in &spec.partitions {
            let answer = match self.owner_of(p.id) {
                Err(e) => FetchedPartition::failed(e),
                Ok(core) if core == self.core() => self.read_own(p, left).await,
                Ok(core) => self.read_there(core, p, left).await,
            };
            left.first &= answer.bytes == 0;
            left.bytes = left.bytes.saturating_sub(answer.bytes);
            left.copied = left.copied.saturating_sub(answer.copied);
            answers.push(answer);
        }
        answers
    }

    /// Reads a partition of this core.
    async fn read_own(&self, p: &FetchPartition, left: Left) -> FetchedPartition {
        let log = match self.own(p.id) {
            Ok(log) => log,
            Err(e) => return FetchedPartition::failed(e),
        };
        if let Err(e) = check_epoch(&log, p.leader_epoch) {
            return FetchedPartition::failed(e);
        }
        let max = p.max_bytes.min(left.bytes);
        if max == 0 && !left.first {
            return FetchedPartition::empty(&log);
        }
        match log.read(p.offset, max, left.first, left.copied).await {
            Ok(found) => FetchedPartition {
                result: Ok(()),
                high_watermark: found.end,
                log_start: found.log_start,
                chunks: found.chunks,
                bytes: found.bytes,
                copied: found.from_file,
            },
            Err(e) => FetchedPartition {
                high_watermark: log.flushed_end(),
                log_start: log.log_start(),
                ..FetchedPartition::failed(e.into())
            },
        }
    }

    async fn read_there(&self, core: usize, p: &FetchPartition, left: Left) -> FetchedPartition {
        // What comes from another core is copied, so it counts as such.
        let p = FetchPartition { max_bytes: p.max_bytes.min(left.copied), ..*p };
        let carried = self.inner.mesh.call(core, move |shard: Shard| async move {
            let answer = shard.read_own(&p, left).await;
            Carried {
                result: answer.result,
                high_watermark: answer.high_watermark,
                log_start: answer.log_start,
                bytes: answer.chunks.iter().flat_map(|c| c.iter().copied()).collect(),
            }
        });
        match carried.await {
            None => FetchedPartition::failed(PartitionError::Stopping),
            Some(c) => FetchedPartition {
                result: c.result,
                high_watermark: c.high_watermark,
                log_start: c.log_start,
                bytes: c.bytes.len(),
                copied: c.bytes.len(),
                chunks: if c.bytes.is_empty() {
                    Vec::new()
                } else {
                    vec![Chunk::copy_from(&c.bytes)]
                },
            },
        }
    }

    /// Waits on the owner until something at or beyond `offset` is flushed, or `wait` is over.
    async fn wait_for_more(&self, id: PartitionId, offset: i64, wait: Duration) {
        let Ok(log) = self.own(id) else { return };
        let deadline = self.inner.rt.now() + wait;
        let wake = Rc::new(Notify::new());
        log.watch(&wake);
        loop {
            let woken = wake.notified();
            let stop = self.inner.stop_waits.notified();
            let now = self.inner.rt.now();
            let over = now >= deadline || self.inner.stopping.get();
            if log.flushed_end() > offset || over || self.own(id).is_err() {
                return;
            }
            self.inner.rt.timeout(deadline - now, either(woken, stop)).await;
        }
    }

    /// Has the owners of partitions that are not here wake this request. `waiting` counts those that still wait.
    fn watch_elsewhere(
        &self,
        spec: &FetchSpec,
        wake: &Rc<Notify>,
        waiting: &Rc<Cell<usize>>,
        wait: Duration,
    ) {
        for p in &spec.partitions {
            let Ok(core) = self.owner_of(p.id) else { continue };
            if core == self.core() {
                continue;
            }
            waiting.set(waiting.get() + 1);
            let (id, offset, shard) = (p.id, p.offset, self.clone());
            let (wake, waiting) = (Rc::downgrade(wake), Rc::clone(waiting));
            let task = self.inner.rt.spawn(Class::Data, async move {
                let there =
                    move |there: Shard| async move { there.wait_for_more(id, offset, wait).await };
                shard.inner.mesh.call(core, there).await;
                waiting.set(waiting.get() - 1);
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
