//! The two ends of a cleaning: whole batches out of a sealed segment, and a new segment beside it.
//!
//! Memory: one piece of 1 MiB (or one batch, if that is larger) on each side. Direct IO in whole blocks, so nothing of it
//! goes through the page cache.

use std::path::PathBuf;
use std::rc::Rc;

use rillway_io::{AppendBuffer, Chunk, DirectFile, OpenOptions, Permit};
use rillway_wire::batch::{BATCH_HEADER, BatchView};

use crate::directory::{log_file, meta_file};
use crate::error::{Error, Result};
use crate::limits::{BLOCK, EXTEND_MAX, FRAME_BYTES_MAX, READ_BYTES_MAX, block_up};
use crate::log::Log;
use crate::meta;
use crate::state::{BatchInfo, SegmentKey, SegmentState};
use crate::store::Inner;

/// Walks the batches of one sealed segment, whole and checked.
pub(super) struct Input {
    file: DirectFile,
    length: u64,
    position: u64,
    window: Option<(u64, Chunk)>,
}

/// Why an [`Input`] ended early.
pub(super) enum Broken {
    /// The bytes are not what they were: position, and what is wrong.
    Damaged(u64, String),
    Failed(Error),
}

impl From<Error> for Broken {
    fn from(e: Error) -> Broken {
        Broken::Failed(e)
    }
}

impl From<rillway_io::Error> for Broken {
    fn from(e: rillway_io::Error) -> Broken {
        Broken::Failed(e.into())
    }
}

impl Input {
    /// From `position` on, where a batch begins.
    pub(super) async fn open(
        log: &Rc<Log>,
        store: &Inner,
        segment: &SegmentState,
        position: u64,
    ) -> Result<Input> {
        let file = log.file(store, segment.key(), false).await?;
        Ok(Input { file, length: segment.length, position, window: None })
    }

    /// The next batch; `None` at the end.
    pub(super) async fn next(&mut self) -> std::result::Result<Option<Chunk>, Broken> {
        let left = self.length - self.position;
        if left == 0 {
            return Ok(None);
        }
        let at = self.position;
        let damaged = |what: String| Broken::Damaged(at, what);
        let header = self.bytes((BATCH_HEADER as u64).min(left) as usize).await?;
        let len = match BatchView::parse_header(&header) {
            Ok(view) => view.total_len(),
            Err(e) => return Err(damaged(e.to_string())),
        };
        if len as u64 > left || len > FRAME_BYTES_MAX {
            return Err(damaged(format!("a batch of {len} bytes, {left} are left")));
        }
        let batch = self.bytes(len).await?;
        match BatchView::parse(&batch) {
            Ok(view) if view.check_crc() => {}
            Ok(view) => {
                let what = format!("the checksum of the batch {} does not fit", view.base_offset());
                return Err(damaged(what));
            }
            Err(e) => return Err(damaged(e.to_string())),
        }
        self.position += len as u64;
        Ok(Some(batch))
    }

    pub(super) fn at_end(&self) -> bool {
        self.position == self.length
    }

    /// `len` bytes from the position on.
    async fn bytes(&mut self, len: usize) -> std::result::Result<Chunk, Broken> {
        let held = |(start, chunk): &(u64, Chunk)| {
            self.position >= *start && self.position + len as u64 <= start + chunk.len() as u64
        };
        if !self.window.as_ref().is_some_and(held) {
            self.window = None;
            let want = (len.max(READ_BYTES_MAX) as u64).min(self.length - self.position) as usize;
            let chunk = self.file.read_at(self.position, want).await?;
            if chunk.len() < len {
                let end = self.position + chunk.len() as u64;
                return Err(Broken::Damaged(end, "the file ends".to_owned()));
            }
            self.window = Some((self.position, chunk));
        }
        let (start, chunk) = self.window.as_ref().expect("read a moment ago");
        let from = (self.position - start) as usize;
        Ok(chunk.slice(from..from + len))
    }
}

/// A segment that is being written. Until a REPLACE names it, nobody knows it.
pub(super) struct Output {
    store: Rc<Inner>,
    log: Rc<Log>,
    file: DirectFile,
    /// What the next write holds.
    buffer: AppendBuffer,
    /// Bytes that were written.
    written: u64,
    extended: u64,
    /// By how much it is extended at once.
    step: u64,
    pub segment: SegmentState,
}

impl Output {
    /// `bytes`: what it will take, about. [`Error::Closed`] if the partition is deleted.
    pub(super) async fn create(
        store: &Rc<Inner>,
        log: &Rc<Log>,
        key: SegmentKey,
        bytes: u64,
    ) -> Result<Output> {
        let disk = store.rt.disk();
        let path = log.dir.join(log_file(key.base, key.compaction));
        let _files = in_place(log).await?;
        // Whatever stands there is of a cleaning that was given up, and its last writes may still be on their way: into a
        // file without a name.
        match disk.remove_file(&path).await {
            Err(e) if !e.is_not_found() => return Err(e.into()),
            _ => {}
        }
        let options = OpenOptions { write: true, create: true, ..Default::default() };
        let file = disk.open(&path, options).await.map_err(|e| no_space(e, &path))?;
        // As every segment file that is written: a killed process's writes hold it.
        file.lock_exclusive(store.options.lock_wait).await?;
        let segment = SegmentState { compaction: key.compaction, ..SegmentState::new(key.base) };
        Ok(Output {
            store: Rc::clone(store),
            log: Rc::clone(log),
            file,
            buffer: AppendBuffer::with_capacity(READ_BYTES_MAX),
            written: 0,
            extended: 0,
            step: block_up(bytes).clamp(BLOCK as u64, EXTEND_MAX),
            segment,
        })
    }

    /// Appends a batch. `max_timestamp`: of the records that are in it.
    pub(super) async fn push(&mut self, batch: &[u8], max_timestamp: i64) -> Result<()> {
        let view = BatchView::parse(batch).expect("cleaned batches are batches");
        let info = BatchInfo { max_timestamp, ..BatchInfo::of(&view) };
        self.segment.push_sparse(&info, self.store.rt.wall_ms());
        let mut rest = batch;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(self.buffer.remaining()));
            self.buffer.extend(now);
            rest = later;
            if self.buffer.remaining() == 0 {
                self.write().await?;
            }
        }
        Ok(())
    }

    /// Writes the buffer, whole blocks.
    async fn write(&mut self) -> Result<()> {
        let len = self.buffer.len() as u64;
        while self.extended < self.written + len {
            let allocated = self.file.allocate(self.extended, self.step).await;
            allocated.map_err(|e| self.failed("extending a segment", e))?;
            self.extended += self.step;
        }
        let chunk = self.buffer.slice(0..self.buffer.len());
        let written = self.file.write_at(chunk, self.written).await;
        written.map_err(|e| self.failed("a write of a segment", e))?;
        self.written += len;
        self.buffer = AppendBuffer::with_capacity(READ_BYTES_MAX);
        Ok(())
    }

    /// An error of a write ends the process, as everywhere; one of room is an answer.
    fn failed(&self, what: &str, e: rillway_io::Error) -> Error {
        if e.is_no_space() || e.is_descriptor_limit() {
            return no_space(e, self.file.path());
        }
        self.store.die(what, &e)
    }

    /// Last block, exact length, `.meta`. Not durable before a `syncfs`.
    pub(super) async fn finish(mut self) -> Result<SegmentState> {
        let padding = self.buffer.len().next_multiple_of(BLOCK) - self.buffer.len();
        if !self.buffer.as_slice().is_empty() {
            self.buffer.extend(&[0; BLOCK][..padding]);
            self.write().await?;
        }
        let length = self.segment.length;
        self.file.truncate(length).await.map_err(|e| self.failed("cutting a segment", e))?;
        let bytes = {
            let state = self.log.state();
            let (producers, epochs) = (&state.flushed.producers, &state.flushed.epochs);
            let storage = &self.store.reference.storage;
            meta::encode(storage, self.log.reference(), &self.segment, producers, epochs)
        };
        let path = self.log.dir.join(meta_file(self.segment.base, self.segment.compaction));
        let files = in_place(&self.log).await?;
        let written = self.store.rt.disk().write_file_unflushed(&path, &bytes).await;
        written.map_err(|e| self.failed("a write of .meta", e))?;
        drop(files);
        self.segment.meta_crc = crc32c::crc32c(&bytes);
        self.file.close().await?;
        Ok(self.segment)
    }
}

/// While this is held, the partition's directory is its own. A delete renames it under the same turn, and a partition of
/// the same name may have made another in its place since.
async fn in_place(log: &Log) -> Result<Permit> {
    let files = log.files_turn.acquire(1).await;
    if log.is_deleted() { Err(Error::Closed) } else { Ok(files) }
}

/// Files of a cleaning that came to nothing. Those of a deleted partition went with it.
pub(super) async fn discard(store: &Inner, log: &Log, key: SegmentKey) {
    let Ok(_files) = in_place(log).await else { return };
    let names = [log_file(key.base, key.compaction), meta_file(key.base, key.compaction)];
    let paths: Vec<PathBuf> = names.iter().map(|name| log.dir.join(name)).collect();
    for path in paths {
        if let Err(e) = store.rt.disk().remove_file(&path).await
            && !e.is_not_found()
        {
            tracing::warn!("{}: could not be removed: {e}", path.display());
        }
    }
}

fn no_space(e: rillway_io::Error, path: &std::path::Path) -> Error {
    if e.is_no_space() {
        return Error::NoSpace { path: path.into(), what: "compaction".to_owned() };
    }
    e.into()
}
