//! Files: direct reads, writes and flushes through glommio's ring, everything else on threads.
//!
//! glommio writes whole buffers only. A chunk that covers its whole buffer (a frame or append of exactly its
//! size, or anything that was read) goes as it is; a part of one is copied into a buffer of glommio's arena,
//! which is registered with the kernel, so that the copy pays for some of itself.

use std::ffi::OsString;
use std::fs::File;
use std::future::Future;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use glommio::io::{DmaFile, OpenOptions as DmaOptions};

use super::executor::{Core, io_error};
use super::mounts;
use super::sealed::{self, SealedFile};
use super::syncfs::SyncAnchor;
use crate::chunk::{AppendBuffer, BLOCK, Chunk};
use crate::disk::{DirEntry, FsStat, OpenOptions};
use crate::error::{Error, Result};
use crate::sync::Gate;

/// The disk, from one core.
#[derive(Clone)]
pub(crate) struct Disk {
    core: Rc<Core>,
}

impl Disk {
    pub(super) fn new(core: Rc<Core>) -> Disk {
        Disk { core }
    }

    /// Runs a blocking call on a path, in the order of calls on it.
    async fn call<T: Send + 'static>(
        &self,
        op: &'static str,
        path: &Path,
        call: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let owned = path.to_path_buf();
        let result = self.core.blocking.run(&[path], move || call(&owned)).await;
        result.map_err(|source| Error::at(op, path, source))
    }

    pub(crate) async fn open(&self, path: &Path, o: OpenOptions) -> Result<DirectFile> {
        let error = |source| Error::at("open", path, source);
        // glommio opens relative to a descriptor it does not have.
        let absolute = std::path::absolute(path).map_err(error)?;
        let turn = self.core.blocking.turn(&[path]).await;
        let opened = self
            .core
            .owned(async move {
                let mut options = DmaOptions::new();
                options
                    .read(o.read)
                    .write(o.write || o.create || o.create_new)
                    .create(o.create)
                    .create_new(o.create_new)
                    .truncate(o.truncate)
                    .mode(0o640);
                if o.dsync {
                    options.custom_flags(libc::O_DSYNC);
                }
                let opened = caught(options.dma_open(&absolute)).await;
                drop(turn);
                opened
            })
            .await;
        let file = match opened {
            Some(Ok(file)) => file,
            Some(Err(e)) => return Err(error(io_error(e))),
            // It unwraps a `statfs` of the path, which may be renamed or gone by then.
            None => {
                return Err(error(io::ErrorKind::NotFound.into())
                    .with_detail("gone while it was being opened"));
            }
        };
        Ok(DirectFile {
            core: Rc::clone(&self.core),
            file: Rc::new(file),
            path: path.to_path_buf(),
            flights: Gate::new(),
        })
    }

    pub(crate) async fn open_sealed(&self, path: &Path) -> Result<SealedFile> {
        let opened = self.call("open", path, sealed::open).await?;
        Ok(SealedFile::new(opened, path, &self.core.readers))
    }

    pub(crate) async fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.call("create_dir_all", path, |path| std::fs::create_dir_all(path)).await
    }

    pub(crate) async fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>> {
        self.call("read_dir", path, list).await
    }

    pub(crate) async fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (old, new) = (from.to_path_buf(), to.to_path_buf());
        let result = self.core.blocking.run(&[from, to], move || std::fs::rename(old, new)).await;
        result.map_err(|source| {
            Error::at("rename", from, source).with_detail(format!("to {}", to.display()))
        })
    }

    pub(crate) async fn rename_if(
        &self,
        from: &Path,
        to: &Path,
        witness: &Path,
        content: &[u8],
    ) -> Result<bool> {
        /// Held by a blocking thread between its look and its rename, a few microseconds.
        static ONE: Mutex<()> = Mutex::new(());
        let (old, new) = (from.to_path_buf(), to.to_path_buf());
        let (witness, content) = (witness.to_path_buf(), content.to_vec());
        let call = move || {
            let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
            match std::fs::read(witness) {
                Ok(found) if found == content => std::fs::rename(old, new).map(|()| true),
                Ok(_) => Ok(false),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(e) => Err(e),
            }
        };
        let result = self.core.blocking.run(&[from, to], call).await;
        result.map_err(|source| {
            Error::at("rename", from, source).with_detail(format!("to {}", to.display()))
        })
    }

    pub(crate) async fn remove_file(&self, path: &Path) -> Result<()> {
        self.call("unlink", path, |path| std::fs::remove_file(path)).await
    }

    pub(crate) async fn remove_dir_all(&self, path: &Path) -> Result<()> {
        self.call("remove_dir_all", path, |path| std::fs::remove_dir_all(path)).await
    }

    pub(crate) async fn sync_dir(&self, path: &Path) -> Result<()> {
        self.call("sync_dir", path, |path| File::open(path)?.sync_all()).await
    }

    pub(crate) async fn exists(&self, path: &Path) -> Result<bool> {
        self.call("stat", path, |path| path.try_exists()).await
    }

    pub(crate) async fn read_file(&self, path: &Path, max: usize) -> Result<Vec<u8>> {
        self.call("read_file", path, move |path| {
            let mut bytes = Vec::new();
            // One more than allowed, to see whether there is more.
            let limit = (max as u64).saturating_add(1);
            File::open(path)?.take(limit).read_to_end(&mut bytes)?;
            if bytes.len() > max {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Ok(bytes)
        })
        .await
        .map_err(|e| e.with_detail(format!("at most {max} bytes expected")))
    }

    pub(crate) async fn write_file(&self, path: &Path, bytes: &[u8], flush: bool) -> Result<()> {
        let bytes = bytes.to_vec();
        self.call("write_file", path, move |path| {
            let mut file = File::create(path)?;
            file.write_all(&bytes)?;
            if flush { file.sync_data() } else { Ok(()) }
        })
        .await
    }

    pub(crate) async fn stat_fs(&self, dir: &Path) -> Result<FsStat> {
        self.call("stat_fs", dir, mounts::stat_fs).await
    }

    pub(crate) async fn try_lock(&self, path: &Path) -> Result<Option<FileLock>> {
        self.call("lock", path, |path| {
            let file =
                File::options().read(true).write(true).create(true).truncate(false).open(path)?;
            Ok(lock(&file)?.then(|| FileLock { _file: file }))
        })
        .await
    }

    pub(crate) async fn anchor(&self, dir: &Path) -> Result<SyncAnchor> {
        self.call("anchor", dir, SyncAnchor::open).await
    }
}

fn list(path: &Path) -> io::Result<Vec<DirEntry>> {
    let utf8 = |name: OsString| {
        name.into_string().map_err(|name| {
            io::Error::new(io::ErrorKind::InvalidData, format!("not UTF-8: {}", name.display()))
        })
    };
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let meta = match entry.metadata() {
            Ok(meta) => meta,
            // Removed since it was listed.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        let len = if meta.is_dir() { 0 } else { meta.len() };
        entries.push(DirEntry { name: utf8(entry.file_name())?, is_dir: meta.is_dir(), len });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Tries to lock the open file description behind `file`.
fn lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(std::fs::TryLockError::WouldBlock) => Ok(false),
        Err(std::fs::TryLockError::Error(e)) => Err(e),
    }
}

/// The result of a future, or `None` if polling it panicked.
async fn caught<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Some),
        Err(_) => std::task::Poll::Ready(None),
    })
    .await
}

/// A lock file, unlocked when it is closed.
pub(crate) struct FileLock {
    _file: File,
}

/// See `crate::DirectFile`.
pub(crate) struct DirectFile {
    core: Rc<Core>,
    file: Rc<DmaFile>,
    path: PathBuf,
    /// Operations in flight.
    flights: Gate,
}

impl DirectFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) async fn quiesce(&self) {
        self.flights.empty().await;
    }

    fn error(&self, op: &'static str, source: io::Error) -> Error {
        Error::at(op, &self.path, source)
    }

    pub(crate) async fn write_at(&self, chunk: Chunk, pos: u64) -> Result<()> {
        let len = chunk.len();
        let (file, pass) = (Rc::clone(&self.file), self.flights.enter());
        let result = self
            .core
            .owned(async move {
                let result = match chunk.whole_buffer() {
                    Some(buffer) => file.write_rc_at(buffer, pos).await,
                    None => {
                        let mut buffer = file.alloc_dma_buffer(len);
                        buffer.as_bytes_mut().copy_from_slice(&chunk);
                        file.write_at(buffer, pos).await
                    }
                };
                drop((chunk, file, pass));
                result
            })
            .await;
        let at = || format!("{len} bytes at {pos}");
        match result {
            Ok(written) if written == len => Ok(()),
            Ok(written) => Err(self
                .error("write", io::ErrorKind::WriteZero.into())
                .with_detail(format!("wrote {written} of {}", at()))),
            Err(e) => Err(self.error("write", io_error(e)).with_detail(at())),
        }
    }

    pub(crate) async fn read_at(&self, pos: u64, len: usize) -> Result<Chunk> {
        let skip = (pos % BLOCK as u64) as usize;
        let span = skip.checked_add(len).and_then(|n| n.checked_next_multiple_of(BLOCK));
        let Some(span) = span else {
            let invalid = self.error("read", io::ErrorKind::InvalidInput.into());
            return Err(invalid.with_detail(format!("{len} bytes at {pos}")));
        };
        let start = pos - skip as u64;
        let first = self.read_blocks(start, span).await?;
        if first.len() == span || self.len().await? <= start + first.len() as u64 {
            let end = first.len().min(skip + len);
            return Ok(first.slice(skip.min(end)..end));
        }
        // Short of the end: the kernel may do that, rarely. The rest is read, in whole blocks, and put together.
        let mut whole = AppendBuffer::with_capacity(span);
        let mut piece = first;
        loop {
            let next = start + (whole.len() + piece.len()) as u64;
            let last = piece.len() == whole.remaining() || self.len().await? <= next;
            let usable = if last { piece.len() } else { piece.len() / BLOCK * BLOCK };
            whole.extend(&piece[..usable]);
            if last {
                break;
            }
            if usable == 0 {
                let short = self.error("read", io::ErrorKind::UnexpectedEof.into());
                return Err(short.with_detail(format!("{} bytes at {next}", piece.len())));
            }
            piece = self.read_blocks(start + whole.len() as u64, whole.remaining()).await?;
        }
        let end = whole.len().min(skip + len);
        Ok(whole.freeze().slice(skip.min(end)..end))
    }

    async fn read_blocks(&self, pos: u64, len: usize) -> Result<Chunk> {
        let (file, pass) = (Rc::clone(&self.file), self.flights.enter());
        let result = self
            .core
            .owned(async move {
                let result = file.read_at_aligned(pos, len).await;
                drop((file, pass));
                result
            })
            .await;
        match result {
            Ok(read) => {
                let all = 0..read.len();
                Ok(Chunk::from_read(read, all))
            }
            Err(e) => {
                Err(self.error("read", io_error(e)).with_detail(format!("{len} bytes at {pos}")))
            }
        }
    }

    pub(crate) async fn fdatasync(&self) -> Result<()> {
        let (file, pass) = (Rc::clone(&self.file), self.flights.enter());
        let result = self
            .core
            .owned(async move {
                let result = file.fdatasync().await;
                drop((file, pass));
                result
            })
            .await;
        result.map_err(|e| self.error("fdatasync", io_error(e)))
    }

    /// Runs a blocking call on the file through a second descriptor of the same open file, so that closing
    /// ours meanwhile does no harm.
    async fn call<T: Send + 'static>(
        &self,
        op: &'static str,
        call: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let _pass = self.flights.enter();
        let second = self.second().map_err(|e| self.error(op, e))?;
        let result = self.core.blocking.run(&[&self.path], move || call(&second)).await;
        result.map_err(|e| self.error(op, e))
    }

    fn second(&self) -> io::Result<File> {
        Ok(File::from(self.file.as_fd().try_clone_to_owned()?))
    }

    pub(crate) async fn allocate(&self, pos: u64, len: u64) -> Result<()> {
        let call = move |file: &File| {
            let offset = |n: u64| {
                libc::off64_t::try_from(n).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
            };
            let (pos, len) = (offset(pos)?, offset(len)?);
            // SAFETY: takes a descriptor, which `file` keeps open during the call, and numbers.
            match unsafe { libc::fallocate64(file.as_raw_fd(), 0, pos, len) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        let result = self.call("fallocate", call).await;
        result.map_err(|e| e.with_detail(format!("{len} bytes at {pos}")))
    }

    pub(crate) async fn truncate(&self, len: u64) -> Result<()> {
        let result = self.call("truncate", move |file| file.set_len(len)).await;
        result.map_err(|e| e.with_detail(format!("to {len} bytes")))
    }

    /// Not on a thread: fstat of an open file does not block.
    #[expect(clippy::unused_async, reason = "the other backend waits here")]
    pub(crate) async fn len(&self) -> Result<u64> {
        let meta = self.second().and_then(|file| file.metadata());
        meta.map(|meta| meta.len()).map_err(|e| self.error("stat", e))
    }

    /// The lock belongs to the open file, not to the descriptor: it stays when the second one is closed.
    pub(crate) fn try_lock(&self) -> Result<bool> {
        self.second().and_then(|file| lock(&file)).map_err(|e| self.error("flock", e))
    }

    /// Closes the descriptor if this is the last one who knows it. (Else the last one to drop it does.)
    pub(crate) async fn close(self) -> Result<()> {
        let DirectFile { core, file, path, .. } = self;
        match Rc::try_unwrap(file) {
            Ok(file) => {
                let closed = core.owned(file.close()).await;
                closed.map_err(|e| Error::at("close", &path, io_error(e)))
            }
            Err(_) => Ok(()),
        }
    }
}
