//! Frames from a socket: memory follows the bytes that arrived, never the bytes that were claimed.

use std::cell::Cell;
use std::rc::Rc;

use rillway_io::{Conn, Permit, Semaphore};
use rillway_wire::frame_len;

use crate::context::Context;

/// Requests up to this size need no reservation: a connection's own buffer holds them.
const SMALL: usize = 64 << 10;
const READ: usize = 64 << 10;
const READ_LARGE: usize = 1 << 20;

/// Why there is no next frame.
pub(crate) enum End {
    /// The peer closed, between frames or within one.
    Closed,
    /// It sent something that is no frame, or stalled within one.
    Bad(String),
}

/// The reading end of a connection.
pub(crate) struct Frames {
    conn: Conn,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that are done with.
    start: usize,
    /// The buffer is one of the core's large ones.
    large: bool,
    /// A part of a frame is here.
    receiving: Rc<Cell<bool>>,
}

/// One frame's content, without its length, and what its memory costs.
pub(crate) struct Content {
    pub range: std::ops::Range<usize>,
    pub permit: Option<Permit>,
}

impl Frames {
    pub(crate) fn new(conn: Conn, receiving: Rc<Cell<bool>>) -> Frames {
        Frames { conn, buffer: Vec::new(), start: 0, large: false, receiving }
    }

    pub(crate) fn bytes(&self, content: &Content) -> &[u8] {
        &self.buffer[content.range.clone()]
    }

    /// The next frame. The one before it is done with.
    pub(crate) async fn next(&mut self, context: &Context) -> Result<Content, End> {
        // At most what one small read brought beyond a large frame is left in its buffer.
        if std::mem::take(&mut self.large) {
            let done = self.move_to(Vec::with_capacity(READ));
            context.inner.buffers.give(done);
        }
        self.fill(4, context, true).await?;
        let mut prefix = [0; 4];
        prefix.copy_from_slice(&self.buffer[self.start..self.start + 4]);
        let len = frame_len(prefix, context.limits().request_bytes_max)
            .map_err(|e| End::Bad(e.to_string()))?;
        let mut permit = None;
        if len > SMALL {
            // The first part must be here before memory is set aside for the whole: a claim alone costs nothing.
            self.fill(4 + SMALL, context, false).await?;
            permit = Some(reserve(&context.inner.request_memory, len).await);
            self.move_to(context.inner.buffers.take(4 + len));
            self.large = true;
        }
        self.fill(4 + len, context, false).await?;
        let range = self.start + 4..self.start + 4 + len;
        self.start = range.end;
        self.receiving.set(false);
        Ok(Content { range, permit })
    }

    /// Goes on in another buffer, with what is not done with; returns the one before.
    fn move_to(&mut self, mut buffer: Vec<u8>) -> Vec<u8> {
        buffer.extend_from_slice(&self.buffer[self.start..]);
        self.start = 0;
        std::mem::replace(&mut self.buffer, buffer)
    }

    /// Makes sure that `n` bytes from `start` on are in the buffer. Between frames a peer may take its time.
    async fn fill(&mut self, n: usize, context: &Context, between: bool) -> Result<(), End> {
        if self.buffer.len() - self.start >= n {
            return Ok(());
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        while self.buffer.len() < n {
            let missing = n - self.buffer.len();
            let max = if missing > READ { READ_LARGE.min(missing) } else { READ };
            let begun = !between || !self.buffer.is_empty();
            self.receiving.set(begun);
            let received = self.conn.recv(&mut self.buffer, max);
            let received = if begun {
                let limit = context.limits().frame_progress;
                match context.shard().runtime().timeout(limit, received).await {
                    Some(received) => received,
                    None => return Err(End::Bad(format!("a request stopped short for {limit:?}"))),
                }
            } else {
                received.await
            };
            match received {
                Ok(0) | Err(_) => return Err(End::Closed),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

async fn reserve(memory: &Semaphore, len: usize) -> Permit {
    memory.acquire(len).await
}
