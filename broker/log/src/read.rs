//! Reading: from an offset to bytes, whole batches only, from the tail where they are in memory and from the segment
//! file otherwise. Nothing beyond the flushed end is ever seen.

use std::ops::Range;
use std::rc::Rc;

use rillway_io::Chunk;
use rillway_wire::batch::{BATCH_HEADER, BatchView};

use crate::directory::meta_file;
use crate::error::{Error, Result};
use crate::limits::READ_BYTES_MAX;
use crate::log::{Hint, Log};
use crate::meta::{self, SegmentMeta};
use crate::state::{SegmentState, SegmentStatus};
use crate::store::Inner;

/// What a `.meta` file may take; an index entry per 256 KiB of a segment of 2 GiB, and 10,000 producers.
const META_BYTES_MAX: usize = 16 << 20;

/// Whole batches, in order.
#[derive(Default)]
pub struct Fetched {
    pub chunks: Vec<Chunk>,
    pub bytes: usize,
    /// How many of them had to be read from a file, into memory of their own.
    pub from_file: usize,
    /// Flushed end when it was read.
    pub end: i64,
    pub log_start: i64,
}

/// A batch header's place and extent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub position: u64,
    pub len: u64,
    pub base_offset: i64,
    pub next_offset: i64,
    pub max_timestamp: i64,
}

/// Walks the batches of one segment. Holds the last piece that it read from the file.
pub(crate) struct Walker {
    log: Rc<Log>,
    store: Rc<Inner>,
    pub segment: SegmentState,
    window: Option<(u64, Chunk)>,
    window_bytes: usize,
}

impl Walker {
    /// Bytes of `range`; from memory where they are, else from the file.
    async fn bytes(&mut self, range: Range<u64>) -> Result<Vec<Chunk>> {
        let mut out = Vec::new();
        let mut position = range.start;
        while position < range.end {
            // Asked anew after every wait: the tail may have let go of what is durable.
            let in_memory =
                self.log.state().tails.get(&self.segment.base).map(|t| (t.start(), t.end()));
            let file_end = match in_memory {
                Some((start, end)) if position >= start && range.end <= end => {
                    let state = self.log.state();
                    let tail = state.tails.get(&self.segment.base).expect("looked up a moment ago");
                    out.extend(
                        tail.slices(position..range.end).into_iter().map(|(_, chunk)| chunk),
                    );
                    return Ok(out);
                }
                Some((start, _)) => start.min(range.end),
                None => range.end,
            };
            let piece = self.file_bytes(position, (file_end - position) as usize).await?;
            position += piece.len() as u64;
            out.push(piece);
        }
        Ok(out)
    }

    /// At least one byte and at most `len` at `position` of the file, through the window.
    async fn file_bytes(&mut self, position: u64, len: usize) -> Result<Chunk> {
        if let Some((start, chunk)) = &self.window
            && position >= *start
            && position < start + chunk.len() as u64
        {
            let from = (position - start) as usize;
            return Ok(chunk.slice(from..chunk.len().min(from + len)));
        }
        let file = self.log.segment_file(&self.store, self.segment.base, false).await?;
        let want = len.max(self.window_bytes).min((self.segment.length - position) as usize);
        let chunk = file.read_at(position, want).await?;
        if chunk.is_empty() {
            let what = format!("{} ends before byte {position}", file.path().display());
            return Err(self.log.refuse(what));
        }
        let piece = chunk.slice(0..chunk.len().min(len));
        self.window = Some((position, chunk));
        Ok(piece)
    }

    /// The batch at `position`; `None` at the end of what is flushed.
    pub(crate) async fn at(&mut self, position: u64) -> Result<Option<Placed>> {
        if position >= self.segment.length {
            return Ok(None);
        }
        let end = (position + BATCH_HEADER as u64).min(self.segment.length);
        let parts = self.bytes(position..end).await?;
        let header = parts.iter().flat_map(|c| c.iter().copied()).collect::<Vec<u8>>();
        let view = BatchView::parse_header(&header).map_err(|e| self.rotten(position, &e))?;
        let placed = Placed {
            position,
            len: view.total_len() as u64,
            base_offset: view.base_offset(),
            next_offset: view.next_offset(),
            max_timestamp: view.max_timestamp(),
        };
        let (base, end) = (self.segment.base, self.segment.end);
        if placed.base_offset < base
            || placed.next_offset > end
            || position + placed.len > self.segment.length
        {
            let found = format!(
                "a batch {}..{}, the segment is {base}..{end}",
                placed.base_offset, placed.next_offset
            );
            return Err(self.rotten(position, &found));
        }
        Ok(Some(placed))
    }

    fn rotten(&self, position: u64, what: &dyn std::fmt::Display) -> Error {
        self.log
            .refuse(format!("segment {} is damaged at byte {position}: {what}", self.segment.base))
    }

    /// The batch's bytes, in one piece.
    pub(crate) async fn whole(&mut self, batch: &Placed) -> Result<Vec<u8>> {
        let parts = self.bytes(batch.position..batch.position + batch.len).await?;
        Ok(parts.iter().flat_map(|c| c.iter().copied()).collect())
    }

    /// The batch that holds `offset`, or the first one behind it, from `position` on.
    async fn find(&mut self, offset: i64, mut position: u64) -> Result<Option<Placed>> {
        while let Some(batch) = self.at(position).await? {
            if batch.next_offset > offset {
                return Ok(Some(batch));
            }
            position += batch.len;
        }
        Ok(None)
    }
}

impl Log {
    /// Whole batches from the one that holds `offset` on: as many as fit `max_bytes`, and the first one whatever its
    /// size if `at_least_one` (KIP-74). Up to the end of one segment. At most `file_bytes` are read from a file: what
    /// is in memory already costs nothing more, what is not is a copy that lives until it is sent.
    pub async fn read(
        self: &Rc<Self>,
        offset: i64,
        max_bytes: usize,
        at_least_one: bool,
        file_bytes: usize,
    ) -> Result<Fetched> {
        self.check_refused()?;
        let segment = {
            let state = self.state();
            let (start, end) = (state.flushed.log_start, state.flushed.end);
            if offset < start || offset > end {
                return Err(Error::OffsetOutOfRange { offset, start, end });
            }
            let empty = Fetched { end, log_start: start, ..Default::default() };
            if offset == end {
                return Ok(empty);
            }
            state.flushed.segment_of(offset).cloned()
        };
        let Some(segment) = segment else {
            return Err(self.refuse(format!("no segment holds offset {offset}")));
        };
        // An offset at the end of a rolled segment is the first of the next one; `segment_of` found that one.
        let mut walker = self.walker(segment, max_bytes.min(READ_BYTES_MAX))?;
        let from = match self.hint(offset).filter(|h| h.segment == walker.segment.base) {
            Some(hint) => hint.position,
            None => self.index_floor(&walker.segment, offset).await?,
        };
        let Some(first) = walker.find(offset, from).await? else {
            return Err(
                self.refuse(format!("offset {offset} is not in segment {}", walker.segment.base))
            );
        };
        let held = self.state().tails.get(&walker.segment.base).map(|t| t.start());
        let in_memory = held.is_some_and(|start| start <= first.position);
        let max = if in_memory { max_bytes } else { max_bytes.min(file_bytes).min(READ_BYTES_MAX) };
        let (stop, next_offset) = stop(&mut walker, &first, max as u64, at_least_one).await?;
        let chunks = walker.bytes(first.position..stop).await?;
        if stop > first.position {
            self.remember(Hint {
                offset: next_offset,
                segment: walker.segment.base,
                position: stop,
            });
        }
        let state = self.state();
        Ok(Fetched {
            bytes: (stop - first.position) as usize,
            from_file: if in_memory { 0 } else { (stop - first.position) as usize },
            chunks,
            end: state.flushed.end,
            log_start: state.flushed.log_start,
        })
    }

    pub(crate) fn walker(
        self: &Rc<Self>,
        segment: SegmentState,
        window_bytes: usize,
    ) -> Result<Walker> {
        Ok(Walker {
            log: Rc::clone(self),
            store: self.store()?,
            segment,
            window: None,
            window_bytes: window_bytes.max(4096),
        })
    }

    /// Position of the index entry at or before `offset`.
    async fn index_floor(&self, segment: &SegmentState, offset: i64) -> Result<u64> {
        let entry = if segment.status == SegmentStatus::Sealed {
            SegmentState::floor(&self.meta(segment).await?.index, offset)
        } else {
            SegmentState::floor(&segment.index, offset)
        };
        Ok(entry.map_or(0, |e| e.position))
    }

    /// A sealed segment's `.meta`, read once.
    pub(crate) async fn meta(&self, segment: &SegmentState) -> Result<Rc<SegmentMeta>> {
        if let Some(meta) = self.state().metas.get(&segment.base) {
            return Ok(Rc::clone(meta));
        }
        let store = self.store()?;
        let path = self.dir.join(meta_file(segment.base, segment.compaction));
        let bytes = store.rt.disk().read_file(&path, META_BYTES_MAX).await.map_err(|e| {
            if e.is_not_found() { self.missing(segment.base, &path) } else { Error::from(e) }
        })?;
        let crc = crc32c::crc32c(&bytes);
        if crc != segment.meta_crc {
            let what =
                format!("{}: CRC {crc:08x}, sealed with {:08x}", path.display(), segment.meta_crc);
            return Err(self.refuse(what));
        }
        let meta = Rc::new(meta::decode(&path, &store.reference.storage, &bytes)?);
        self.state_mut().metas.insert(segment.base, Rc::clone(&meta));
        Ok(meta)
    }
}

/// Where to stop: the position behind the last batch that fits `max`, and the offset behind it.
async fn stop(
    walker: &mut Walker,
    first: &Placed,
    max: u64,
    at_least_one: bool,
) -> Result<(u64, i64)> {
    if walker.segment.length - first.position <= max {
        return Ok((walker.segment.length, walker.segment.end));
    }
    let (mut stop, mut next) = (first.position, first.base_offset);
    let mut batch = Some(*first);
    while let Some(b) = batch {
        let total = b.position + b.len - first.position;
        if total > max && !(at_least_one && stop == first.position) {
            break;
        }
        stop = b.position + b.len;
        next = b.next_offset;
        batch = if total < max { walker.at(stop).await? } else { None };
    }
    Ok((stop, next))
}
