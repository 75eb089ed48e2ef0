//! The files of one partition's segments: its directory, one descriptor per segment, and room ahead of the write head.
//!
//! Opened when first needed, so that an idle partition costs nothing here. Errors of room are answers; any other error
//! of a write ends the process.

use std::rc::Rc;

use rillway_io::{DirectFile, SealedFile};

use crate::error::{Error, Result};
use crate::limits::{EXTEND_MAX, EXTEND_MIN, block_up};
use crate::log::Log;
use crate::state::{SegmentKey, SegmentState, SegmentStatus};
use crate::store::Inner;

/// Sealed segments of one partition that are kept open for the page cache: where its slow readers and its fast ones are.
const SEALED_OPEN: usize = 2;

impl Log {
    /// Extends a segment's file to at least `end` bytes; makes it, and the partition's directory, if need be.
    pub(crate) async fn extend(
        self: &Rc<Self>,
        store: &Rc<Inner>,
        segment: i64,
        end: u64,
    ) -> Result<()> {
        let (known, segment_bytes) = {
            let state = self.state();
            (state.extended.get(&segment).copied().unwrap_or(0), state.config.segment_bytes)
        };
        if end <= known {
            return Ok(());
        }
        let file = self.segment_file(store, segment, true).await?;
        // Twice what is there, so that the steps follow the partition's rate, and never far beyond the segment's end.
        let step = (known.max(end / 2)).clamp(EXTEND_MIN, EXTEND_MAX);
        let mut wanted = block_up((end + step).min(segment_bytes.max(end)));
        loop {
            match file.allocate(known, wanted - known).await {
                Ok(()) => break,
                // No more than is needed: it may have been allocated in the life before.
                Err(e) if e.is_no_space() && wanted > block_up(end) => wanted = block_up(end),
                Err(e)
                    if e.is_no_space() && self.is_metadata() && store.give_up_reserve().await => {}
                Err(e) if e.is_no_space() => {
                    store.went_full();
                    let what = format!("extending {}", file.path().display());
                    return Err(Error::NoSpace { path: store.reference.dir.clone(), what });
                }
                // This append is refused; partitions that are open go on.
                Err(e) if e.is_descriptor_limit() => return Err(e.into()),
                Err(e) => store.die("extending a segment", &e),
            }
        }
        self.state_mut().extended.insert(segment, wanted);
        Ok(())
    }

    /// The descriptor of a segment that takes appends or waits for its seal.
    pub(crate) async fn segment_file(
        &self,
        store: &Inner,
        segment: i64,
        create: bool,
    ) -> Result<DirectFile> {
        self.file(store, SegmentKey::written(segment), create).await
    }

    /// The descriptor of a segment, opened once; the file is made if `create` and nothing of it was ever durable.
    pub(crate) async fn file(
        &self,
        store: &Inner,
        key: SegmentKey,
        create: bool,
    ) -> Result<DirectFile> {
        if let Some(file) = self.state().files.get(&key) {
            return Ok(file.clone());
        }
        // One at a time: a second descriptor would wait for the first one's lock.
        let _turn = self.opening.acquire(1).await;
        if let Some(file) = self.state().files.get(&key) {
            return Ok(file.clone());
        }
        if create {
            self.make_directory(store).await?;
        }
        let known = self.state().flushed.segment(key.base).cloned();
        if known.as_ref().is_some_and(|s| s.key() != key) {
            return Err(Error::Replaced { base: key.base });
        }
        // A reader may be the first to open a segment that is written later.
        let write = known.as_ref().is_none_or(|s| s.status != SegmentStatus::Sealed);
        let for_appends = create;
        let create = create && known.as_ref().is_none_or(|s| s.durable == 0);
        let path = self.dir.join(crate::directory::log_file(key.base, key.compaction));
        let options = rillway_io::OpenOptions { write, create, ..Default::default() };
        let file = store.rt.disk().open(&path, options).await.map_err(|e| {
            if e.is_not_found() { self.missing(key, &path) } else { self.no_room(store, e, &path) }
        })?;
        // A killed process's writes may still land, and those of an extent need not be what stands there in the end. They
        // hold the lock of the descriptor that they were written through (storage.md 7).
        if write {
            file.lock_exclusive(store.options.lock_wait).await?;
        }
        // It may have left the table while it was being opened; then whoever has it is the last.
        if for_appends || self.state().flushed.has(key) {
            self.state_mut().files.insert(key, file.clone());
        }
        Ok(file)
    }

    /// A file of a segment is not there: because its segment was deleted or replaced, or the partition deleted, while the
    /// caller was on its way to it; otherwise the partition is refused.
    pub(crate) fn missing(&self, key: SegmentKey, path: &std::path::Path) -> Error {
        if self.is_deleted() {
            return Error::Closed;
        }
        let (start, end, active, known) = {
            let state = self.state();
            let p = &state.flushed;
            (p.log_start, p.end, p.active().base, p.has(key))
        };
        if !known && key.base < start {
            return Error::OffsetOutOfRange { offset: key.base, start, end };
        }
        // Compaction took it: into another form, or into the segment before it.
        if !known && key.base < active {
            return Error::Replaced { base: key.base };
        }
        self.refuse(format!("{} is missing", path.display()))
    }

    /// Whether there are segments whose files must be there (FORMAT.md 5).
    fn has_durable(&self) -> bool {
        let state = self.state();
        let p = &state.flushed;
        p.segments.iter().any(|s| s.durable > 0 && s.end > p.log_start)
    }

    /// The partition's directory, with its identity. One of the same name and another topic id is renamed away first:
    /// it belongs to a topic that is deleted.
    async fn make_directory(&self, store: &Inner) -> Result<()> {
        if self.directory_made.get() {
            return Ok(());
        }
        let disk = store.rt.disk();
        let identity = crate::directory::partition_metadata(self.id().topic);
        let path = self.dir.join("partition.metadata");
        let found = crate::directory::read_optional(&disk, &path).await?;
        // An identity that a crash tore is none: the directory holds nothing that was durable.
        let found = found.filter(|bytes| bytes.iter().any(|b| *b != 0));
        if found.as_deref() == Some(identity.as_bytes()) {
            self.directory_made.set(true);
            return Ok(());
        }
        // What is durable here is ours, and so was the identity beside it. One wrong bit in it would otherwise have the
        // whole directory renamed away as a stranger's, and removed at the next start.
        if found.is_some() && self.has_durable() {
            let told =
                format!("{} is not that of topic id {}", path.display(), self.id().topic.base64());
            return Err(self.refuse(told));
        }
        let made = async {
            if let Some(found) = found {
                let away =
                    self.dir.with_file_name(format!("stray-{:016x}-delete", store.rt.random_u64()));
                // Its own core may be renaming it at this moment, as the last step of its DELETE: only one of us does.
                if disk.rename_if(&self.dir, &away, &path, &found).await? {
                    tracing::warn!(
                        "{} belongs to another topic id; renamed to {}",
                        self.dir.display(),
                        away.display()
                    );
                }
            }
            disk.create_dir_all(&self.dir).await?;
            // By rename, so that a half-written one is not seen while the broker lives. Not flushed: the `syncfs` that
            // makes the first bytes of this directory durable comes later. A flush each made the first batches to 1,000
            // partitions take 8.8 s.
            let temporary = path.with_extension("tmp");
            disk.write_file_unflushed(&temporary, identity.as_bytes()).await?;
            disk.rename(&temporary, &path).await
        };
        if let Err(e) = made.await {
            if e.is_descriptor_limit() {
                return Err(e.into());
            }
            if !e.is_no_space() {
                store.die("making a partition's directory", &e);
            }
            return Err(self.no_room(store, e, &path));
        }
        self.directory_made.set(true);
        Ok(())
    }

    /// An error of a call that may find the disk full, which is a state that is served and not a failure.
    fn no_room(&self, store: &Inner, e: rillway_io::Error, path: &std::path::Path) -> Error {
        if !e.is_no_space() {
            return e.into();
        }
        store.went_full();
        Error::NoSpace {
            path: store.reference.dir.clone(),
            what: format!("making {}", path.display()),
        }
    }

    /// A sealed segment, to be sent from the page cache; `None` if it cannot be, and must be read directly.
    pub(crate) async fn sealed_file(
        &self,
        store: &Inner,
        segment: &SegmentState,
    ) -> Option<SealedFile> {
        // Not before: only then has the last direct write to it completed.
        assert_eq!(segment.status, SegmentStatus::Sealed, "segment {} is written", segment.base);
        let key = segment.key();
        let open = |sealed: &std::collections::VecDeque<(SegmentKey, SealedFile)>| {
            sealed.iter().find(|(k, _)| *k == key).map(|(_, file)| file.clone())
        };
        if let Some(file) = open(&self.state().sealed) {
            return Some(file);
        }
        let path = self.dir.join(crate::directory::log_file(segment.base, segment.compaction));
        let file = match store.rt.disk().open_sealed(&path).await {
            Ok(file) => file,
            // Opening it directly will say what is wrong, if anything is.
            Err(e) => {
                tracing::debug!("{}: read directly: {e}", path.display());
                return None;
            }
        };
        let mut state = self.state_mut();
        if let Some(file) = open(&state.sealed) {
            return Some(file);
        }
        // It may have left the table while it was being opened; then it is not kept.
        if state.flushed.has(key) {
            if state.sealed.len() == SEALED_OPEN {
                state.sealed.pop_front();
            }
            state.sealed.push_back((key, file.clone()));
        }
        Some(file)
    }

    pub(crate) async fn close_files(&self) {
        self.state_mut().sealed.clear();
        let files = std::mem::take(&mut self.state_mut().files);
        for (_, file) in files {
            let _ = file.close().await;
        }
    }
}
