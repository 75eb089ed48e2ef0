//! Files that are sent from the page cache by sendfile(2), without ever blocking the core.
//!
//! sendfile waits for pages that are not in memory, and there is no flag against it. So first mincore shows that every
//! page is there; if one is not, a thread brings a window of pages in, and mincore is asked again. Not preadv2 with
//! RWF_NOWAIT, which on a page that is missing starts a read, on the core. What is left is a page that is reclaimed
//! between proof and send, a microsecond later: then the core waits for one read of the disk. The ring's splice is no
//! way: the kernel hands each one to a worker thread (kernel-notes/04-transfer.md).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::blocking::Blocking;
use crate::chunk::BLOCK;
use crate::error::{Error, Result};

/// Pages are brought in by so many bytes, also beyond what was asked for: readers are sequential.
const WINDOW: u64 = 2 << 20;
/// Distance of the bytes by which a thread waits for a range.
const STEP: u64 = 64 << 10;
/// Bytes of a file per sendfile: the core is kept for 100 us by one.
pub(super) const PIECE: usize = 256 << 10;

/// See `crate::SealedFile`.
pub(crate) struct SealedFile {
    opened: Opened,
    path: PathBuf,
    /// Threads that wait for the disk. Not those for names: a slow disk must not delay a rename.
    readers: Arc<Blocking>,
}

/// What is opened on a thread.
pub(super) struct Opened {
    file: Arc<File>,
    len: u64,
    mapping: Mapping,
}

/// Opens a file. Fails with `Unsupported` if it is not ours to write: mincore then calls everything resident.
pub(super) fn open(path: &Path) -> io::Result<Opened> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let name = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: takes a string that ends with zero and lives during the call.
    if unsafe { libc::access(name.as_ptr(), libc::W_OK) } != 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // The kernel's own readahead would be started, and waited for, on the core.
    advise(&file, 0, 0, libc::POSIX_FADV_RANDOM)?;
    let mapping = Mapping::new(&file, len)?;
    Ok(Opened { file: Arc::new(file), len, mapping })
}

fn advise(file: &File, pos: u64, len: u64, advice: libc::c_int) -> io::Result<()> {
    let offset = |n: u64| libc::off64_t::try_from(n).map_err(|_| io::ErrorKind::InvalidInput);
    let (pos, len) = (offset(pos)?, offset(len)?);
    // SAFETY: takes a descriptor, which `file` keeps open during the call, and numbers.
    match unsafe { libc::posix_fadvise64(file.as_raw_fd(), pos, len, advice) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// A file's place in the address space, of which nothing is ever read: mincore wants one.
struct Mapping {
    start: *mut libc::c_void,
    len: usize,
    page: u64,
}

// SAFETY: an address and a length, which are given to mincore and munmap only; both may be called on any thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(file: &File, len: u64) -> io::Result<Mapping> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: takes a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = u64::try_from(page).map_err(|_| io::Error::last_os_error())?;
        let (prot, flags) = (libc::PROT_NONE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        // SAFETY: a new mapping, at an address that the kernel picks, without any right of access.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start, len, page })
    }

    /// Whether all pages of a range of at most `PIECE` bytes, within the file, are in memory.
    fn all_resident(&self, pos: u64, len: usize) -> io::Result<bool> {
        let mut pages = [0u8; PIECE / BLOCK + 1];
        let from = pos - pos % self.page;
        let span = usize::try_from(pos - from).expect("less than a page") + len;
        let count = span.div_ceil(usize::try_from(self.page).expect("a page fits memory"));
        let from = usize::try_from(from).map_err(|_| io::ErrorKind::InvalidInput)?;
        assert!(from + span <= self.len && count <= pages.len(), "{len} bytes at {pos}");
        // SAFETY: the range lies within the mapping, and the vector has a byte for each of its pages.
        let got = unsafe { libc::mincore(self.start.byte_add(from), span, pages.as_mut_ptr()) };
        if got != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(pages[..count].iter().all(|page| page & 1 == 1))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: ours, and nothing was ever borrowed from it.
        unsafe { libc::munmap(self.start, self.len) };
    }
}

/// Waits for a range that is being read: for a byte here and there, since pages are read by larger pieces. One that is
/// late is waited for when it is asked for again; a byte of each page would cost 100 ms of a thread per GiB.
fn wait_for(file: &File, pos: u64, end: u64) -> io::Result<()> {
    let mut at = pos;
    while at < end {
        file.read_exact_at(&mut [0], at)?;
        at += STEP;
    }
    file.read_exact_at(&mut [0], end - 1)
}

impl SealedFile {
    pub(super) fn new(opened: Opened, path: &Path, readers: &Arc<Blocking>) -> SealedFile {
        SealedFile { opened, path: path.to_path_buf(), readers: Arc::clone(readers) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn fd(&self) -> RawFd {
        self.opened.file.as_raw_fd()
    }

    pub(super) fn error(&self, op: &'static str, source: io::Error) -> Error {
        Error::at(op, &self.path, source)
    }

    /// Checks that a range lies within the file.
    pub(super) fn check(&self, pos: u64, len: usize) -> Result<()> {
        if pos.checked_add(len as u64).is_some_and(|end| end <= self.opened.len) {
            return Ok(());
        }
        let eof = self.error("send", io::ErrorKind::UnexpectedEof.into());
        Err(eof.with_detail(format!("{len} bytes at {pos}, the file has {}", self.opened.len)))
    }

    /// Whether all pages of a range of at most `PIECE` bytes within the file are in memory. Starts no reads.
    pub(super) fn all_resident(&self, pos: u64, len: usize) -> Result<bool> {
        let resident = self.opened.mapping.all_resident(pos, len);
        resident.map_err(|e| self.error("mincore", e))
    }

    /// Has a thread bring a range in, and start reading a window behind it.
    pub(super) async fn bring(&self, pos: u64, len: usize) -> Result<()> {
        let (file, end) = (Arc::clone(&self.opened.file), pos + len as u64);
        let ahead = WINDOW.min(self.opened.len - pos);
        let done = self.readers.run(&[], move || {
            advise(&file, pos, ahead, libc::POSIX_FADV_WILLNEED)?;
            wait_for(&file, pos, end)
        });
        done.await.map_err(|e| self.error("readahead", e))
    }
}
