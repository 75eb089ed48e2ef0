//! A simulated file that is sent from the page cache: its bytes are copied at the moment they are sent.

use std::io;
use std::path::Path;

use super::{DirectFile, Disk, ops};
use crate::disk::OpenOptions;
use crate::error::{Error, Result};

/// See `crate::SealedFile`.
pub(crate) struct SealedFile {
    file: DirectFile,
}

impl Disk {
    pub(crate) async fn open_sealed(&self, path: &Path) -> Result<SealedFile> {
        Ok(SealedFile { file: self.open(path, OpenOptions::new()).await? })
    }
}

impl SealedFile {
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Takes the time of a read.
    pub(crate) async fn bring(&self, pos: u64) -> Result<()> {
        self.file.read_at(pos, 1).await.map(drop)
    }

    /// `len` bytes as they are now.
    pub(crate) fn copy(&self, pos: u64, len: usize) -> Result<Vec<u8>> {
        let mut fs = self.file.descriptor.disk.device.fs.borrow_mut();
        let path = self.path();
        let found = fs.file(self.file.descriptor.ino).map(|file| file.now.read(pos, len));
        let mut bytes = found.map_err(|e| Error::at("sendfile", path, e))?;
        if bytes.len() < len {
            let eof = io::ErrorKind::UnexpectedEof.into();
            return Err(Error::at("sendfile", path, eof)
                .with_detail(format!("{len} bytes at {pos}, got {}", bytes.len())));
        }
        ops::maybe_flip(&mut fs, &path.to_string_lossy(), &mut bytes);
        Ok(bytes)
    }
}
