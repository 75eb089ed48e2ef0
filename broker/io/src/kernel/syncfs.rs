//! `syncfs`, on a thread of its own: io_uring has no operation for it.
//!
//! The descriptor is opened before the first write, because the kernel reports write-back errors only to
//! descriptors that were open when they happened (and drops them altogether before 5.17). Requests that arrive
//! while one runs share the next one: they were all issued before it starts.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::mounts;
use crate::error::{Error, Result};
use crate::mailbox::{ReplySender, reply};

/// Requests that wait for the thread. One per core is in use; more wait for room.
const QUEUE: usize = 64;

type Answer = std::result::Result<(), (io::ErrorKind, Option<i32>, String)>;

/// See `crate::SyncAnchor`.
pub(crate) struct SyncAnchor {
    path: PathBuf,
    requests: flume::Sender<ReplySender<Answer>>,
}

impl SyncAnchor {
    /// Blocks: call it on a thread for that.
    pub(super) fn open(path: &Path) -> io::Result<SyncAnchor> {
        let dir = File::open(path)?;
        let (requests, inbox) = flume::bounded::<ReplySender<Answer>>(QUEUE);
        let at = path.to_path_buf();
        std::thread::Builder::new().name("syncfs".to_string()).spawn(move || {
            while let Ok(first) = inbox.recv() {
                let mut waiting = vec![first];
                waiting.extend(inbox.try_iter());
                let answer =
                    sync(&dir, &at).map_err(|e| (e.kind(), e.raw_os_error(), e.to_string()));
                for sender in waiting {
                    sender.send(answer.clone());
                }
            }
        })?;
        Ok(SyncAnchor { path: path.to_path_buf(), requests })
    }

    pub(crate) async fn syncfs(&self) -> Result<()> {
        let (sender, answer) = reply();
        let gone = || Error::at("syncfs", &self.path, io::ErrorKind::BrokenPipe.into());
        self.requests.send_async(sender).await.map_err(|_| gone())?;
        match answer.await {
            Some(Ok(())) => Ok(()),
            Some(Err((_, Some(code), _))) => {
                Err(Error::at("syncfs", &self.path, io::Error::from_raw_os_error(code)))
            }
            Some(Err((kind, None, text))) => {
                Err(Error::at("syncfs", &self.path, io::Error::new(kind, text)))
            }
            None => Err(gone()),
        }
    }
}

fn sync(dir: &File, path: &Path) -> io::Result<()> {
    // SAFETY: takes a descriptor, which `dir` keeps open during the call.
    if unsafe { libc::syncfs(dir.as_raw_fd()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // The kernel answers 0 on a file system that an error has turned read-only.
    if mounts::space(dir)?.read_only {
        return Err(io::Error::new(
            io::ErrorKind::ReadOnlyFilesystem,
            format!("the file system of {} is read-only", path.display()),
        ));
    }
    Ok(())
}
