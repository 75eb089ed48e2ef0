//! Messages between cores, and from foreign threads to a core. The same code on both backends.
//!
//! `flume` underneath: measured on glommio with foreign wakers, no lost wake-up in 4,800 round trips, and it
//! needs no executor at the far end, which glommio's own channels do. Always bounded. A parked core costs
//! 25-40 us to wake, so send work in batches and receive it with `recv_batch`. Absent on purpose: unbounded
//! mailboxes, and a select over several of them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The other end is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mailbox is closed")]
pub struct Closed;

/// Why a message was not taken at once; it is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrySendError<T> {
    /// No room now.
    #[error("the mailbox is full")]
    Full(T),
    /// The inbox is gone.
    #[error("the mailbox is closed")]
    Closed(T),
}

/// A mailbox for `capacity` messages.
///
/// # Panics
/// If `capacity` is zero.
pub fn mailbox<T: Send + 'static>(capacity: usize) -> (Mailbox<T>, Inbox<T>) {
    assert!(capacity > 0, "a mailbox needs room for at least one message");
    let (sender, receiver) = flume::bounded(capacity);
    (Mailbox { sender }, Inbox { receiver })
}

/// The sending end; any thread, any number of clones.
pub struct Mailbox<T> {
    sender: flume::Sender<T>,
}

impl<T: Send + 'static> Mailbox<T> {
    /// Waits for room and sends. The message is dropped if the future is dropped while it waits.
    pub async fn send(&self, message: T) -> Result<(), Closed> {
        self.sender.send_async(message).await.map_err(|_| Closed)
    }

    /// Sends if there is room.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.sender.try_send(message).map_err(|e| match e {
            flume::TrySendError::Full(message) => TrySendError::Full(message),
            flume::TrySendError::Disconnected(message) => TrySendError::Closed(message),
        })
    }

    /// Blocks the calling thread for room. For foreign threads only: on a core it would stop the core.
    pub fn send_blocking(&self, message: T) -> Result<(), Closed> {
        self.sender.send(message).map_err(|_| Closed)
    }

    /// Messages waiting.
    pub fn len(&self) -> usize {
        self.sender.len()
    }

    /// True if none waits.
    pub fn is_empty(&self) -> bool {
        self.sender.is_empty()
    }

    /// True if the inbox is gone.
    pub fn is_closed(&self) -> bool {
        self.sender.is_disconnected()
    }
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Mailbox<T> {
        Mailbox { sender: self.sender.clone() }
    }
}

impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mailbox({} waiting)", self.sender.len())
    }
}

/// The receiving end: one reader. May be moved to its core before it is first used.
pub struct Inbox<T> {
    receiver: flume::Receiver<T>,
}

impl<T: Send + 'static> Inbox<T> {
    /// The next message; `None` when all senders are gone and nothing is left. Dropping the future loses
    /// no message.
    pub async fn recv(&mut self) -> Option<T> {
        self.receiver.recv_async().await.ok()
    }

    /// The next message if there is one.
    pub fn try_recv(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }

    /// Waits for a message, then takes what else is there, `max` at most. False when all senders are gone
    /// and nothing is left.
    pub async fn recv_batch(&mut self, into: &mut Vec<T>, max: usize) -> bool {
        let Ok(first) = self.receiver.recv_async().await else {
            return false;
        };
        into.push(first);
        into.extend(self.receiver.try_iter().take(max.saturating_sub(1)));
        true
    }

    /// Blocks the calling thread for a message. For foreign threads only.
    pub fn recv_blocking(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inbox({} waiting)", self.receiver.len())
    }
}

/// One answer, from any thread to any thread.
pub fn reply<T: Send + 'static>() -> (ReplySender<T>, Reply<T>) {
    let (sender, receiver) = flume::bounded(1);
    (ReplySender { sender }, Reply { receiver: receiver.into_recv_async() })
}

/// The answering end of [`reply`].
pub struct ReplySender<T> {
    sender: flume::Sender<T>,
}

impl<T: Send + 'static> ReplySender<T> {
    /// Answers. An answer nobody waits for is dropped; false then.
    pub fn send(self, answer: T) -> bool {
        self.sender.try_send(answer).is_ok()
    }
}

impl<T> fmt::Debug for ReplySender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplySender")
    }
}

/// The waiting end of [`reply`]: the answer, or `None` if the sender was dropped without one.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Reply<T: 'static> {
    receiver: flume::r#async::RecvFut<'static, T>,
}

impl<T: Send + 'static> Future for Reply<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.receiver).poll(cx).map(Result::ok)
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}
