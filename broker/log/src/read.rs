//! Reading: from an offset to whole batches, as bytes (`read`) or as a range that is found when it is sent (`fetch`).
//!
//! From the tail where they are in memory and from the segment file otherwise. Nothing beyond the flushed end is ever
//! seen. Where an answer begins and ends is known from hints and the coarse index in most cases, so that a fetch reads
//! nothing; what has to be walked is read within the core's budget for transfers. Absent on purpose: checking the bytes
//! of a batch. Its CRC is the reader's, and `rillctl log verify`'s.

use std::ops::Range;
use std::rc::Rc;

use rillway_io::{Chunk, DirectFile, FileRange, Located, Permit, SealedFile, Source};
use rillway_wire::batch::{BATCH_HEADER, BatchView};

use crate::directory::meta_file;
use crate::error::{Error, Result};
use crate::limits::{INDEX_INTERVAL, READ_BYTES_MAX};
use crate::log::{Hint, Log};
use crate::meta::{self, SegmentMeta};
use crate::state::{IndexEntry, SegmentKey, SegmentState, SegmentStatus};
use crate::store::Inner;

/// What a `.meta` file may take; an index entry per 256 KiB of a segment of 2 GiB, and 10,000 producers.
const META_BYTES_MAX: usize = 16 << 20;

/// Least that is read to see a header: its neighbours are likely to be wanted too.
const HEADER_WINDOW: usize = 16 << 10;

/// Whole batches, in order.
#[derive(Default)]
pub struct Fetched {
    pub chunks: Vec<Chunk>,
    pub bytes: usize,
    /// Flushed end when it was read.
    pub end: i64,
    pub log_start: i64,
}

/// Whole batches, in order, to be found when they are sent.
#[derive(Debug, Default)]
pub struct FetchedRange {
    pub records: Option<FileRange>,
    pub bytes: usize,
    /// Flushed end when it was looked for.
    pub end: i64,
    pub log_start: i64,
}

/// Where an answer begins and ends in its segment.
struct Span {
    walker: Walker,
    start: u64,
    stop: u64,
}

/// Flushed bytes of one segment, which move from the tail to the file while they wait to be sent.
struct SegmentBytes {
    log: Rc<Log>,
    segment: SegmentKey,
    /// Pinned: retention may take the segment meanwhile.
    file: Option<DirectFile>,
    sealed: Option<SealedFile>,
}

impl Source for SegmentBytes {
    fn locate(&self, pos: u64, max: usize) -> Option<Located> {
        let state = self.log.state();
        let mut max = max;
        // What compaction made was never in memory.
        let tail = state.tails.get(&self.segment.base).filter(|_| self.segment.compaction == 0);
        if let Some(tail) = tail {
            let end = (pos + max as u64).min(tail.end());
            if pos >= tail.start() && pos < end {
                let chunks = tail.slices(pos..end).into_iter().map(|(_, chunk)| chunk);
                return Some(Located::Memory(chunks.collect()));
            }
            if pos < tail.start() {
                max = usize::try_from(tail.start() - pos).map_or(max, |below| below.min(max));
            }
        }
        if let Some(file) = &self.sealed {
            return Some(Located::Sealed(file.clone(), max));
        }
        // What was in memory when it was asked for has been destaged by now, through this descriptor.
        let file = self.file.as_ref().or_else(|| state.files.get(&self.segment))?;
        Some(Located::File(file.clone(), max))
    }
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
    /// Pinned when it is first read from: compaction may replace the segment meanwhile.
    file: Option<DirectFile>,
    window: Option<(u64, Chunk)>,
    window_bytes: usize,
    /// For the memory of the window.
    memory: Option<Permit>,
}

impl Walker {
    /// Bytes of `range`; from memory where they are, else from the file.
    async fn bytes(&mut self, range: Range<u64>) -> Result<Vec<Chunk>> {
        let mut out = Vec::new();
        let mut position = range.start;
        while position < range.end {
            // Asked anew after every wait: the tail may have let go of what is durable.
            let file_end = {
                let state = self.log.state();
                let written = self.segment.compaction == 0;
                let tail = state.tails.get(&self.segment.base).filter(|_| written);
                match tail {
                    Some(tail) if position >= tail.start() && range.end <= tail.end() => {
                        let slices = tail.slices(position..range.end);
                        out.extend(slices.into_iter().map(|(_, chunk)| chunk));
                        return Ok(out);
                    }
                    Some(tail) => tail.start().min(range.end),
                    None => range.end,
                }
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
        let file = match &self.file {
            Some(file) => file.clone(),
            None => self.log.file(&self.store, self.segment.key(), false).await?,
        };
        self.file = Some(file.clone());
        let want = len.max(self.window_bytes).min((self.segment.length - position) as usize);
        self.window = None;
        if self.memory.as_ref().is_none_or(|memory| memory.units() < want) {
            // Given back first: who has some must not wait for more.
            self.memory = None;
            self.memory = Some(self.store.transfer.memory(want).await);
        }
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
    pub(crate) async fn find(&mut self, offset: i64, mut position: u64) -> Result<Option<Placed>> {
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
    /// is in memory already costs nothing more, what is not is a copy.
    pub async fn read(
        self: &Rc<Self>,
        offset: i64,
        max_bytes: usize,
        at_least_one: bool,
        file_bytes: usize,
    ) -> Result<Fetched> {
        let file_bytes = file_bytes.min(READ_BYTES_MAX);
        loop {
            match self.read_span(offset, max_bytes, file_bytes, at_least_one).await {
                Err(Error::Replaced { .. }) => {}
                done => return done,
            }
        }
    }

    async fn read_span(
        self: &Rc<Self>,
        offset: i64,
        max_bytes: usize,
        file_bytes: usize,
        at_least_one: bool,
    ) -> Result<Fetched> {
        let mut fetched = Fetched::default();
        if let Some(found) = self.extent(offset, max_bytes, file_bytes, at_least_one).await? {
            let Span { mut walker, start, stop } = found;
            walker.window_bytes = walker.window_bytes.max((stop - start) as usize);
            fetched.bytes = (stop - start) as usize;
            fetched.chunks = walker.bytes(start..stop).await?;
        }
        (fetched.end, fetched.log_start) = self.ends();
        Ok(fetched)
    }

    /// As [`Log::read`], without the bytes: they are found when they are sent. `cached`: those of a sealed segment are
    /// sent from the page cache.
    pub async fn fetch(
        self: &Rc<Self>,
        offset: i64,
        max_bytes: usize,
        at_least_one: bool,
        cached: bool,
    ) -> Result<FetchedRange> {
        loop {
            match self.fetch_span(offset, max_bytes, at_least_one, cached).await {
                Err(Error::Replaced { .. }) => {}
                done => return done,
            }
        }
    }

    async fn fetch_span(
        self: &Rc<Self>,
        offset: i64,
        max_bytes: usize,
        at_least_one: bool,
        cached: bool,
    ) -> Result<FetchedRange> {
        let mut fetched = FetchedRange::default();
        if let Some(found) = self.extent(offset, max_bytes, max_bytes, at_least_one).await?
            && found.stop > found.start
        {
            let Span { walker, start, stop } = found;
            let source = self.source(&walker, start, cached).await?;
            let bytes = stop - start;
            fetched.bytes = bytes as usize;
            fetched.records =
                Some(FileRange::new(Rc::new(source), start, bytes, &walker.store.transfer));
        }
        (fetched.end, fetched.log_start) = self.ends();
        Ok(fetched)
    }

    async fn source(
        self: &Rc<Self>,
        walker: &Walker,
        start: u64,
        cached: bool,
    ) -> Result<SegmentBytes> {
        let key = walker.segment.key();
        let mut source =
            SegmentBytes { log: Rc::clone(self), segment: key, file: None, sealed: None };
        if self.holds(key, start) {
            // Pinned if it is open; if it is not, none of these bytes is in it yet.
            source.file = self.state().files.get(&key).cloned();
            return Ok(source);
        }
        // Found while the segment was there: it is read on, whatever takes its place.
        if let Some(file) = &walker.file {
            source.file = Some(file.clone());
        }
        if cached && walker.segment.status == SegmentStatus::Sealed {
            source.sealed = self.sealed_file(&walker.store, &walker.segment).await;
        }
        if source.sealed.is_none() && source.file.is_none() {
            source.file = Some(self.file(&walker.store, key, false).await?);
        }
        Ok(source)
    }

    /// Whether everything from a position of a segment on is in memory.
    fn holds(&self, segment: SegmentKey, position: u64) -> bool {
        let state = self.state();
        let tail = state.tails.get(&segment.base).filter(|_| segment.compaction == 0);
        tail.is_some_and(|tail| tail.start() <= position)
    }

    fn ends(&self) -> (i64, i64) {
        let state = self.state();
        (state.flushed.end, state.flushed.log_start)
    }

    /// Where the batch stands that holds `offset`, or the first one behind it; `None` at the end of the log.
    async fn begin(self: &Rc<Self>, offset: i64) -> Result<Option<(Walker, u64, i64)>> {
        let mut from = offset;
        loop {
            let segment = {
                let state = self.state();
                let (start, end) = (state.flushed.log_start, state.flushed.end);
                if offset < start || offset > end {
                    return Err(Error::OffsetOutOfRange { offset, start, end });
                }
                if from >= end {
                    return Ok(None);
                }
                state.flushed.segment_of(from).cloned()
            };
            let Some(segment) = segment else {
                return Err(self.refuse(format!("no segment holds offset {from}")));
            };
            // An offset at the end of a rolled segment is the first of the next one; `segment_of` found that one.
            let mut walker = self.walker(segment, HEADER_WINDOW)?;
            let key = walker.segment.key();
            if let Some(hint) = self.hint(from).filter(|h| h.segment == key) {
                return Ok(Some((walker, hint.position, from)));
            }
            let floor = self.index_floor(&walker.segment, from).await?;
            walker.window_bytes = INDEX_INTERVAL as usize;
            if let Some(first) = walker.find(from, floor).await? {
                return Ok(Some((walker, first.position, first.base_offset)));
            }
            // Compaction took all from here to the segment's end. Without it there is no such hole.
            if walker.segment.compaction == 0 {
                return Err(self.refuse(format!("offset {from} is not in segment {}", key.base)));
            }
            from = walker.segment.end;
        }
    }

    /// The batches that answer a read at `offset`, of at most `max_bytes` if they are in memory, else `file_bytes`;
    /// `None` at the end of the log.
    async fn extent(
        self: &Rc<Self>,
        offset: i64,
        max_bytes: usize,
        file_bytes: usize,
        at_least_one: bool,
    ) -> Result<Option<Span>> {
        self.check_refused()?;
        let Some((mut walker, start, start_offset)) = self.begin(offset).await? else {
            return Ok(None);
        };
        let key = walker.segment.key();
        let in_memory = self.holds(key, start);
        let max = if in_memory { max_bytes } else { max_bytes.min(file_bytes) } as u64;
        let mut from = (start, start_offset);
        if !in_memory && walker.segment.length - start > max {
            // Where a batch begins near the limit is in the index; reading every header would be reading everything.
            let index = self.index(&walker.segment).await?;
            let at = index.partition_point(|e| e.position <= start + max);
            if let Some(entry) = at.checked_sub(1).map(|at| index[at])
                && entry.position > start
            {
                from = (entry.position, entry.base_offset);
            }
        }
        let near = from.0 - start >= max / 2 && from.0 > start;
        let (stop, next_offset) = if near {
            from
        } else {
            walker.window_bytes = (max as usize).clamp(HEADER_WINDOW, READ_BYTES_MAX);
            stop(&mut walker, start, from, max, at_least_one).await?
        };
        if stop > start {
            self.remember(Hint { offset: next_offset, segment: key, position: stop });
        }
        Ok(Some(Span { walker, start, stop }))
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
            file: None,
            window: None,
            window_bytes: window_bytes.max(4096),
            memory: None,
        })
    }

    /// Position of the index entry at or before `offset`.
    pub(crate) async fn index_floor(&self, segment: &SegmentState, offset: i64) -> Result<u64> {
        let entry = SegmentState::floor(&self.index(segment).await?, offset);
        Ok(entry.map_or(0, |e| e.position))
    }

    /// The coarse index of a segment, from where it is kept.
    pub(crate) async fn index(&self, segment: &SegmentState) -> Result<Index> {
        Ok(if segment.status == SegmentStatus::Sealed {
            Index::Sealed(self.meta(segment).await?)
        } else {
            Index::Live(Rc::clone(&segment.index))
        })
    }

    /// A sealed segment's `.meta`, read once.
    pub(crate) async fn meta(&self, segment: &SegmentState) -> Result<Rc<SegmentMeta>> {
        if let Some(meta) = self.state().metas.get(&segment.key()) {
            return Ok(Rc::clone(meta));
        }
        let store = self.store()?;
        let path = self.dir.join(meta_file(segment.base, segment.compaction));
        let bytes = store.rt.disk().read_file(&path, META_BYTES_MAX).await.map_err(|e| {
            if e.is_not_found() { self.missing(segment.key(), &path) } else { Error::from(e) }
        })?;
        let crc = crc32c::crc32c(&bytes);
        if crc != segment.meta_crc {
            let what =
                format!("{}: CRC {crc:08x}, sealed with {:08x}", path.display(), segment.meta_crc);
            return Err(self.refuse(what));
        }
        let meta = Rc::new(meta::decode(&path, &store.reference.storage, &bytes)?);
        if self.state().flushed.has(segment.key()) {
            self.state_mut().metas.insert(segment.key(), Rc::clone(&meta));
        }
        Ok(meta)
    }
}

/// A segment's coarse index, wherever it is kept.
pub(crate) enum Index {
    Sealed(Rc<SegmentMeta>),
    Live(Rc<Vec<IndexEntry>>),
}

impl std::ops::Deref for Index {
    type Target = [IndexEntry];

    fn deref(&self) -> &[IndexEntry] {
        match self {
            Index::Sealed(meta) => &meta.index,
            Index::Live(index) => index,
        }
    }
}

/// Where to stop an answer that begins at `start`: the position behind the last batch that fits `max`, and the offset
/// behind it. `from` is a batch's position and offset, at `start` or behind it within `max`.
async fn stop(
    walker: &mut Walker,
    start: u64,
    from: (u64, i64),
    max: u64,
    at_least_one: bool,
) -> Result<(u64, i64)> {
    if walker.segment.length - start <= max {
        return Ok((walker.segment.length, walker.segment.end));
    }
    let (mut stop, mut next) = from;
    while let Some(b) = walker.at(stop).await? {
        let total = b.position + b.len - start;
        if total > max && !(at_least_one && stop == start) {
            break;
        }
        stop = b.position + b.len;
        next = b.next_offset;
        if total >= max {
            break;
        }
    }
    Ok((stop, next))
}
