//! Memory and files for direct IO, pinning, and a thread's own CPU time: what the floors are made of.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, Mode, OFlags};

use crate::error::{Error, Result};

/// What devices ask for at most, and page size: addresses, positions and lengths are multiples of it.
pub(super) const BLOCK: usize = 4096;

/// Memory whose start is a multiple of [`BLOCK`].
#[derive(Debug)]
pub(super) struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// `len` zeros; a multiple of [`BLOCK`].
    pub(super) fn new(len: usize) -> Self {
        assert_eq!(len % BLOCK, 0, "whole blocks");
        // Written, not only reserved, so that no page is faulted in when it counts.
        let memory = vec![0xA5; len + BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK);
        Self { memory, start, len }
    }

    pub(super) fn get(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    pub(super) fn get_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// Opens a file for direct IO. `dsync`: each write returns when it is durable.
pub(super) fn open_direct(path: &Path, write: bool, dsync: bool) -> Result<File> {
    let mut flags = OFlags::DIRECT | OFlags::CLOEXEC;
    flags |= if write { OFlags::RDWR | OFlags::CREATE } else { OFlags::RDONLY };
    if dsync {
        flags |= OFlags::DSYNC;
    }
    let opened = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644));
    opened.map(File::from).map_err(|e| file_error(path, e.into()))
}

/// A file of `len` bytes that were all written once and flushed, as a journal is before its first use.
pub(super) fn written_file(path: &Path, len: u64, dsync: bool) -> Result<File> {
    let file = open_direct(path, true, false)?;
    let error = |e: std::io::Error| file_error(path, e);
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len).map_err(|e| error(e.into()))?;
    let piece = Aligned::new(1 << 20);
    let mut at = 0;
    while at < len {
        let n = usize::try_from(len - at).unwrap_or(usize::MAX).min(piece.get().len());
        file.write_all_at(&piece.get()[..n], at).map_err(error)?;
        at += n as u64;
    }
    file.sync_all().map_err(error)?;
    if dsync { open_direct(path, true, true) } else { Ok(file) }
}

pub(super) fn file_error(path: &Path, source: std::io::Error) -> Error {
    Error::File { path: path.to_path_buf(), source }
}

/// Keeps this thread on a CPU.
pub(super) fn pin(cpu: Option<usize>) -> Result<()> {
    let Some(cpu) = cpu else { return Ok(()) };
    let doing = || format!("pinning to CPU {cpu}");
    if cpu >= rustix::thread::CpuSet::MAX_CPU {
        return Err(Error::Arguments(format!("there is no CPU {cpu}")));
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|e| Error::Os { doing: doing(), source: e.into() })
}

/// CPU seconds of this thread, user and kernel.
pub(super) fn thread_cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_starts_at_a_block_and_has_its_length() {
        for len in [BLOCK, 16 * BLOCK] {
            let mut memory = Aligned::new(len);
            assert_eq!(memory.get().as_ptr().align_offset(BLOCK), 0);
            assert_eq!(memory.get_mut().len(), len);
        }
    }
}
