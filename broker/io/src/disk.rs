//! Files and directories of one node, from one of its cores.
//!
//! `DirectFile` is for bytes that matter: direct input and output in whole blocks, durable only by the rule of
//! storage.md section 1. The small-file calls of `Disk` are for identities and listings. An operation, once
//! polled, runs to completion whatever happens to its future, and owns its buffers. Absent on purpose:
//! appending (the position is the caller's), retries, and buffered files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use crate::chunk::{BLOCK, Chunk};
use crate::error::{Error, Result};
use crate::runtime::{Backend, Runtime};
use crate::sealed::{SealedBackend, SealedFile};
use crate::{kernel, sim};

/// How long a refused lock waits before it asks again.
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// How to open a file. The default reads an existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Allow reads.
    pub read: bool,
    /// Allow writes.
    pub write: bool,
    /// Create it if missing.
    pub create: bool,
    /// Create it; fail if it exists.
    pub create_new: bool,
    /// Cut it to nothing.
    pub truncate: bool,
    /// O_DSYNC: a completed write is durable, it alone (storage.md section 1).
    pub dsync: bool,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            read: true,
            write: false,
            create: false,
            create_new: false,
            truncate: false,
            dsync: false,
        }
    }
}

impl OpenOptions {
    /// Reads an existing file.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// Sets [`OpenOptions::write`].
    #[must_use]
    pub fn write(mut self, on: bool) -> OpenOptions {
        self.write = on;
        self
    }

    /// Sets [`OpenOptions::create`], and `write` with it.
    #[must_use]
    pub fn create(mut self, on: bool) -> OpenOptions {
        self.create = on;
        self.write |= on;
        self
    }

    /// Sets [`OpenOptions::create_new`], and `write` with it.
    #[must_use]
    pub fn create_new(mut self, on: bool) -> OpenOptions {
        self.create_new = on;
        self.write |= on;
        self
    }

    /// Sets [`OpenOptions::truncate`].
    #[must_use]
    pub fn truncate(mut self, on: bool) -> OpenOptions {
        self.truncate = on;
        self
    }

    /// Sets [`OpenOptions::dsync`].
    #[must_use]
    pub fn dsync(mut self, on: bool) -> OpenOptions {
        self.dsync = on;
        self
    }
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name, without the directory.
    pub name: String,
    /// True for a directory.
    pub is_dir: bool,
    /// Length in bytes; 0 for a directory.
    pub len: u64,
}

/// What a file system says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsStat {
    /// Bytes in all.
    pub total: u64,
    /// Bytes an ordinary user may still take.
    pub available: u64,
    /// Mounted (or remounted after an error) read-only.
    pub read_only: bool,
    /// `ext4`, `xfs`, `tmpfs`, ...
    pub kind: String,
    /// Mount options, comma-separated.
    pub options: String,
}

#[derive(Clone)]
pub(crate) enum DiskBackend {
    Kernel(kernel::disk::Disk),
    Sim(sim::disk::Disk),
}

/// The disk of a node.
#[derive(Clone)]
pub struct Disk {
    runtime: Runtime,
    backend: DiskBackend,
}

impl Disk {
    pub(crate) fn new(runtime: Runtime) -> Disk {
        let backend = match &runtime.backend {
            Backend::Kernel(core) => DiskBackend::Kernel(core.disk()),
            Backend::Sim(core) => DiskBackend::Sim(core.disk()),
        };
        Disk { runtime, backend }
    }

    /// Opens a file for direct input and output.
    pub async fn open(&self, path: &Path, options: OpenOptions) -> Result<DirectFile> {
        let backend = match &self.backend {
            DiskBackend::Kernel(d) => FileBackend::Kernel(d.open(path, options).await?),
            DiskBackend::Sim(d) => FileBackend::Sim(d.open(path, options).await?),
        };
        let inner = FileInner { backend, runtime: self.runtime.clone() };
        Ok(DirectFile { inner: Rc::new(inner) })
    }

    /// Opens a file that nobody writes any more, to be sent from the page cache. Fails with `Unsupported` where the
    /// file system cannot tell whether a page is in memory.
    pub async fn open_sealed(&self, path: &Path) -> Result<SealedFile> {
        Ok(SealedFile::new(match &self.backend {
            DiskBackend::Kernel(d) => SealedBackend::Kernel(d.open_sealed(path).await?),
            DiskBackend::Sim(d) => SealedBackend::Sim(d.open_sealed(path).await?),
        }))
    }

    /// Creates a directory and those above it that are missing. Does not sync any of them.
    pub async fn create_dir_all(&self, path: &Path) -> Result<()> {
        match &self.backend {
            DiskBackend::Kernel(d) => d.create_dir_all(path).await,
            DiskBackend::Sim(d) => d.create_dir_all(path).await,
        }
    }

    /// What is in a directory, sorted by name. Names that are not UTF-8 are an error: we write none.
    pub async fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>> {
        match &self.backend {
            DiskBackend::Kernel(d) => d.read_dir(path).await,
            DiskBackend::Sim(d) => d.read_dir(path).await,
        }
    }

    /// Renames a file or directory, replacing a file of the new name.
    pub async fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        match &self.backend {
            DiskBackend::Kernel(d) => d.rename(from, to).await,
            DiskBackend::Sim(d) => d.rename(from, to).await,
        }
    }

    /// Renames `from` if the small file `witness` holds exactly `content`; false if it does not, or is not there. No
    /// other `rename_if` of the process comes between the look and the rename, whatever core it is on.
    pub async fn rename_if(
        &self,
        from: &Path,
        to: &Path,
        witness: &Path,
        content: &[u8],
    ) -> Result<bool> {
        match &self.backend {
            DiskBackend::Kernel(d) => d.rename_if(from, to, witness, content).await,
            DiskBackend::Sim(d) => d.rename_if(from, to, witness, content).await,
        }
    }

    /// Removes a file. Open descriptors keep its bytes.
    pub async fn remove_file(&self, path: &Path) -> Result<()> {
        match &self.backend {
            DiskBackend::Kernel(d) => d.remove_file(path).await,
            DiskBackend::Sim(d) => d.remove_file(path).await,
        }
    }

    /// Removes a directory and all that is in it.
    pub async fn remove_dir_all(&self, path: &Path) -> Result<()> {
        match &self.backend {
            DiskBackend::Kernel(d) => d.remove_dir_all(path).await,
            DiskBackend::Sim(d) => d.remove_dir_all(path).await,
        }
    }

    /// Makes the entries of a directory durable: what was created, renamed and removed in it.
    pub async fn sync_dir(&self, path: &Path) -> Result<()> {
        match &self.backend {
            DiskBackend::Kernel(d) => d.sync_dir(path).await,
            DiskBackend::Sim(d) => d.sync_dir(path).await,
        }
    }

    /// Whether there is a file or directory of that name.
    pub async fn exists(&self, path: &Path) -> Result<bool> {
        match &self.backend {
            DiskBackend::Kernel(d) => d.exists(path).await,
            DiskBackend::Sim(d) => d.exists(path).await,
        }
    }

    /// The whole of a small file; an error of kind `FileTooLarge` if it is longer than `max` bytes.
    pub async fn read_file(&self, path: &Path, max: usize) -> Result<Vec<u8>> {
        match &self.backend {
            DiskBackend::Kernel(d) => d.read_file(path, max).await,
            DiskBackend::Sim(d) => d.read_file(path, max).await,
        }
    }

    /// Creates or cuts a file, writes `bytes`, flushes the file. The directory is not synced.
    pub async fn write_file(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        self.put_file(path, bytes, true).await
    }

    /// As [`Disk::write_file`], and nothing is flushed: durable with the next `syncfs`.
    pub async fn write_file_unflushed(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        self.put_file(path, bytes, false).await
    }

    async fn put_file(&self, path: &Path, bytes: &[u8], flush: bool) -> Result<()> {
        match &self.backend {
            DiskBackend::Kernel(d) => d.write_file(path, bytes, flush).await,
            DiskBackend::Sim(d) => d.write_file(path, bytes, flush).await,
        }
    }

    /// A descriptor for `syncfs` of the file system of `dir`. Open it before the first write: only errors
    /// after that are reported through it.
    pub async fn anchor(&self, dir: &Path) -> Result<SyncAnchor> {
        let backend = match &self.backend {
            DiskBackend::Kernel(d) => AnchorBackend::Kernel(d.anchor(dir).await?),
            DiskBackend::Sim(d) => AnchorBackend::Sim(d.anchor(dir).await?),
        };
        Ok(SyncAnchor { backend })
    }

    /// Creates the file if needed and locks it (flock, exclusive), asking again until `wait` has passed; then
    /// an error of kind `WouldBlock`. Held until the `FileLock` is dropped or the process is gone.
    pub async fn lock(&self, path: &Path, wait: Duration) -> Result<FileLock> {
        let until = self.runtime.now() + wait;
        loop {
            let lock = match &self.backend {
                DiskBackend::Kernel(d) => d.try_lock(path).await?.map(LockBackend::Kernel),
                DiskBackend::Sim(d) => d.try_lock(path).await?.map(LockBackend::Sim),
            };
            if let Some(lock) = lock {
                return Ok(FileLock { path: path.to_path_buf(), _lock: lock });
            }
            retry_lock(&self.runtime, path, until, wait).await?;
        }
    }

    /// What kind of file system `dir` is on, and how full it is.
    pub async fn stat_fs(&self, dir: &Path) -> Result<FsStat> {
        match &self.backend {
            DiskBackend::Kernel(d) => d.stat_fs(dir).await,
            DiskBackend::Sim(d) => d.stat_fs(dir).await,
        }
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Disk")
    }
}

async fn retry_lock(
    runtime: &Runtime,
    path: &Path,
    until: crate::Instant,
    wait: Duration,
) -> Result<()> {
    let left = until.since(runtime.now());
    if left.is_zero() {
        return Err(Error::at("lock", path, std::io::ErrorKind::WouldBlock.into())
            .with_detail(format!("held by another process for {wait:?}")));
    }
    runtime.sleep(left.min(LOCK_RETRY)).await;
    Ok(())
}

enum LockBackend {
    Kernel(#[expect(dead_code, reason = "held for its drop")] kernel::disk::FileLock),
    Sim(#[expect(dead_code, reason = "held for its drop")] sim::disk::FileLock),
}

/// An exclusive lock, given back when dropped.
#[must_use = "a lock that is dropped is given back"]
pub struct FileLock {
    path: PathBuf,
    _lock: LockBackend,
}

impl FileLock {
    /// The locked file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Debug for FileLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileLock({})", self.path.display())
    }
}

enum AnchorBackend {
    Kernel(kernel::syncfs::SyncAnchor),
    Sim(sim::disk::SyncAnchor),
}

/// A descriptor of a file system, for `syncfs`.
pub struct SyncAnchor {
    backend: AnchorBackend,
}

impl SyncAnchor {
    /// Makes every write that completed before this call durable, on all files of the file system, with new
    /// files and preallocation. Fails if the file system has become read-only, where the kernel would not.
    /// It can still lie (storage.md section 1): believe it after a later flush of a ring has succeeded.
    pub async fn syncfs(&self) -> Result<()> {
        match &self.backend {
            AnchorBackend::Kernel(a) => a.syncfs().await,
            AnchorBackend::Sim(a) => a.syncfs().await,
        }
    }
}

impl fmt::Debug for SyncAnchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SyncAnchor")
    }
}

enum FileBackend {
    Kernel(kernel::disk::DirectFile),
    Sim(sim::disk::DirectFile),
}

struct FileInner {
    backend: FileBackend,
    runtime: Runtime,
}

/// An open file, read and written directly in whole blocks. Counted: closed when the last clone and the last
/// operation in flight are gone.
#[derive(Clone)]
pub struct DirectFile {
    inner: Rc<FileInner>,
}

impl DirectFile {
    /// Writes the whole chunk at `pos`, or fails. A short write is an error of kind `WriteZero`, and is never
    /// retried. Done means: completed, not durable (unless opened with `dsync`).
    ///
    /// # Panics
    /// If `pos` or the length is not a multiple of `BLOCK`.
    pub async fn write_at(&self, chunk: Chunk, pos: u64) -> Result<()> {
        assert!(
            pos.is_multiple_of(BLOCK as u64) && chunk.len().is_multiple_of(BLOCK),
            "direct write of {} bytes at {pos} of {}: not whole blocks",
            chunk.len(),
            self.path().display()
        );
        if chunk.is_empty() {
            return Ok(());
        }
        match &self.inner.backend {
            FileBackend::Kernel(f) => f.write_at(chunk, pos).await,
            FileBackend::Sim(f) => f.write_at(chunk, pos).await,
        }
    }

    /// Reads `len` bytes at `pos`, any of both; less at the end of the file.
    pub async fn read_at(&self, pos: u64, len: usize) -> Result<Chunk> {
        if len == 0 {
            return Ok(Chunk::copy_from(&[]));
        }
        match &self.inner.backend {
            FileBackend::Kernel(f) => f.read_at(pos, len).await,
            FileBackend::Sim(f) => f.read_at(pos, len).await,
        }
    }

    /// Makes the writes of this file that completed before this call durable, and its size. Nothing else.
    pub async fn fdatasync(&self) -> Result<()> {
        match &self.inner.backend {
            FileBackend::Kernel(f) => f.fdatasync().await,
            FileBackend::Sim(f) => f.fdatasync().await,
        }
    }

    /// Allocates `pos..pos + len`; the file is at least that long afterwards. What is new reads as zeros.
    pub async fn allocate(&self, pos: u64, len: u64) -> Result<()> {
        match &self.inner.backend {
            FileBackend::Kernel(f) => f.allocate(pos, len).await,
            FileBackend::Sim(f) => f.allocate(pos, len).await,
        }
    }

    /// Sets the length.
    pub async fn truncate(&self, len: u64) -> Result<()> {
        match &self.inner.backend {
            FileBackend::Kernel(f) => f.truncate(len).await,
            FileBackend::Sim(f) => f.truncate(len).await,
        }
    }

    /// The length in bytes.
    pub async fn len(&self) -> Result<u64> {
        match &self.inner.backend {
            FileBackend::Kernel(f) => f.len().await,
            FileBackend::Sim(f) => f.len().await,
        }
    }

    /// True if the length is zero.
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Locks the file through this very descriptor (flock, exclusive), as `Disk::lock` does. Requests of a
    /// killed process that are still in flight hold its descriptor, and so its lock.
    pub async fn lock_exclusive(&self, wait: Duration) -> Result<()> {
        let until = self.inner.runtime.now() + wait;
        loop {
            let locked = match &self.inner.backend {
                FileBackend::Kernel(f) => f.try_lock()?,
                FileBackend::Sim(f) => f.try_lock()?,
            };
            if locked {
                return Ok(());
            }
            retry_lock(&self.inner.runtime, self.path(), until, wait).await?;
        }
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        match &self.inner.backend {
            FileBackend::Kernel(f) => f.path(),
            FileBackend::Sim(f) => f.path(),
        }
    }

    /// Waits for operations in flight, then lets go of the file; it is closed if this was the last clone.
    pub async fn close(self) -> Result<()> {
        match &self.inner.backend {
            FileBackend::Kernel(f) => f.quiesce().await,
            FileBackend::Sim(f) => f.quiesce().await,
        }
        match Rc::try_unwrap(self.inner) {
            Ok(FileInner { backend: FileBackend::Kernel(f), .. }) => f.close().await,
            Ok(FileInner { backend: FileBackend::Sim(_), .. }) | Err(_) => Ok(()),
        }
    }
}

impl fmt::Debug for DirectFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DirectFile({})", self.path().display())
    }
}
