//! The ground under the broker: cores, files, sockets and time, on Linux or in a simulated world.
//!
//! The only crate that names glommio, io_uring or libc, and the only one with `unsafe`. Everything here is
//! `!Send` and lives on its core, except mailboxes and replies. See the design, section 3.

mod chunk;
mod disk;
mod error;
pub mod kernel;
mod list;
mod mailbox;
mod net;
mod pool;
mod runtime;
mod sealed;
mod semaphore;
pub mod sim;
mod sync;
mod task;
mod time;
mod transfer;

pub use chunk::{AppendBuffer, BLOCK, Chunk};
pub use disk::{DirEntry, DirectFile, Disk, FileLock, FsStat, OpenOptions, SyncAnchor};
pub use error::{Error, Result};
pub use list::{FileRange, IoList};
pub use mailbox::{Closed, Inbox, Mailbox, Reply, ReplySender, TrySendError, mailbox, reply};
pub use net::{Acceptor, BindOptions, Conn};
pub use runtime::Runtime;
pub use sealed::SealedFile;
pub use semaphore::{Acquire, Permit, Semaphore};
pub use sync::{Gate, Notified, Notify, Oneshot, OneshotSender, Pass, join_all, oneshot};
pub use task::{Class, Task};
pub use time::Instant;
pub use transfer::{Located, Source, TRANSFER_BYTES_MIN, Transfer, TransferCounters, TransferMode};
