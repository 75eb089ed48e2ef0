//! Byte streams: `Acceptor` and `Conn`, and how a list of parts goes into a socket.
//!
//! A connection stays on the core that accepted or opened it. `IoList` is a pull source: of its file ranges one piece
//! at a time is found, when the socket has taken what came before, within the core's budget (`transfer`); so a slow
//! reader pins files and not memory. Absent on purpose: TLS (above this crate), and moving a connection to another core.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use crate::chunk::{BLOCK, Chunk};
use crate::disk::DirectFile;
use crate::error::{Error, Result};
use crate::list::{FileRange, IoList, ListPart, Outgoing, Part};
use crate::sealed::{SealedBackend, SealedFile};
use crate::semaphore::Semaphore;
use crate::sync::first;
use crate::transfer::{Located, PIECE, Transfer};
use crate::{kernel, sim};

/// Least that is read at once for a socket whose memory was needed elsewhere.
const SHORT: usize = 64 << 10;

/// How to listen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BindOptions {
    /// Share the port with other sockets that ask for it too (SO_REUSEPORT). Exclusive otherwise.
    pub shared: bool,
}

enum AcceptorBackend {
    Kernel(kernel::net::Acceptor),
    Sim(sim::net::Acceptor),
}

/// A listening socket.
pub struct Acceptor {
    backend: AcceptorBackend,
}

impl Acceptor {
    pub(crate) fn kernel(acceptor: kernel::net::Acceptor) -> Acceptor {
        Acceptor { backend: AcceptorBackend::Kernel(acceptor) }
    }

    pub(crate) fn sim(acceptor: sim::net::Acceptor) -> Acceptor {
        Acceptor { backend: AcceptorBackend::Sim(acceptor) }
    }

    /// The next connection. Dropping the future loses none.
    pub async fn accept(&self) -> Result<Conn> {
        match &self.backend {
            AcceptorBackend::Kernel(a) => a.accept().await.map(Conn::kernel),
            AcceptorBackend::Sim(a) => a.accept().await.map(Conn::sim),
        }
    }

    /// The address it listens on, with the port that was picked.
    pub fn local_addr(&self) -> SocketAddr {
        match &self.backend {
            AcceptorBackend::Kernel(a) => a.local_addr(),
            AcceptorBackend::Sim(a) => a.local_addr(),
        }
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Acceptor({})", self.local_addr())
    }
}

enum ConnBackend {
    Kernel(kernel::net::Conn),
    Sim(sim::net::Conn),
}

struct ConnInner {
    backend: ConnBackend,
    /// One sender at a time, so that messages are not mixed.
    sending: Semaphore,
}

/// A connection. A reader task and a writer task may hold clones; it is closed when the last one is dropped.
#[derive(Clone)]
pub struct Conn {
    inner: Rc<ConnInner>,
}

impl Conn {
    fn new(backend: ConnBackend) -> Conn {
        Conn { inner: Rc::new(ConnInner { backend, sending: Semaphore::new(1) }) }
    }

    pub(crate) fn kernel(conn: kernel::net::Conn) -> Conn {
        Conn::new(ConnBackend::Kernel(conn))
    }

    pub(crate) fn sim(conn: sim::net::Conn) -> Conn {
        Conn::new(ConnBackend::Sim(conn))
    }

    /// Waits for bytes and appends at most `max` of them to `into`. 0: the peer has closed, or `shutdown` was
    /// called. Dropping the future loses no bytes.
    pub async fn recv(&self, into: &mut Vec<u8>, max: usize) -> Result<usize> {
        if max == 0 {
            return Ok(0);
        }
        match &self.inner.backend {
            ConnBackend::Kernel(c) => c.recv(into, max).await,
            ConnBackend::Sim(c) => c.recv(into, max).await,
        }
    }

    /// Sends all of the list, in order. Several senders wait for each other. If it fails, or its future is
    /// dropped after its turn has come, the connection is shut down: the peer could make no sense of the rest.
    pub async fn send(&self, list: IoList) -> Result<()> {
        let _turn = self.inner.sending.acquire(1).await;
        let mut guard = SendGuard { conn: self, done: false };
        self.begin();
        let IoList { parts, held, .. } = list;
        let mut out = Outgoing::default();
        for part in parts {
            match part {
                ListPart::Memory(part) => out.push(part),
                ListPart::File(range) => self.send_range(&mut out, &range).await?,
            }
        }
        self.flush(&mut out, false).await?;
        drop(held);
        guard.done = true;
        Ok(())
    }

    /// Sends what is in `out` and, behind it, a range, each piece of it found when the socket may have room. Something
    /// may be left in `out`.
    async fn send_range(&self, out: &mut Outgoing, range: &FileRange) -> Result<()> {
        let end = range.pos.checked_add(range.len).ok_or_else(|| {
            Error::new("send", io::ErrorKind::InvalidInput.into())
                .with_detail(format!("{} bytes at {}", range.len, range.pos))
        })?;
        let mut pos = range.pos;
        // After an eviction no more is read than the socket took before.
        let mut most = PIECE;
        while pos < end {
            let want = usize::try_from(end - pos).map_or(most, |left| left.min(most));
            match range.source.locate(pos, want) {
                Some(Located::Memory(chunks)) => {
                    let pushed: usize = chunks.iter().map(Chunk::len).sum();
                    assert!(pushed > 0 && pushed <= want, "{pushed} of {want} bytes located");
                    chunks.into_iter().for_each(|chunk| out.push(Part::Chunk(chunk)));
                    let all = self.push(out, false).await?;
                    // A stalled reader must not hold memory that its owner lets go of.
                    pos += (pushed - out.forget(pushed)) as u64;
                    if !all {
                        self.writable().await?;
                    }
                }
                Some(Located::File(file, len)) => {
                    assert!(len > 0 && len <= want, "{len} of {want} bytes located");
                    let sent = self.send_piece(out, range, &file, pos, len).await?;
                    pos += sent as u64;
                    most = if sent == len { PIECE.min(most * 2) } else { sent.clamp(SHORT, PIECE) };
                }
                Some(Located::Sealed(file, len)) => {
                    assert!(len > 0 && len <= want, "{len} of {want} bytes located");
                    self.flush(out, true).await?;
                    self.send_sealed(&file, pos, len, &range.transfer).await?;
                    range.transfer.count(|c| c.spliced += len as u64);
                    pos += len as u64;
                }
                None => {
                    return Err(Error::new("send", io::ErrorKind::NotFound.into())
                        .with_detail(format!("bytes at {pos} are gone, expected up to {end}")));
                }
            }
        }
        Ok(())
    }

    /// Reads a piece of a file and sends it; returns how much of it was sent before another needed the memory.
    async fn send_piece(
        &self,
        out: &mut Outgoing,
        range: &FileRange,
        file: &DirectFile,
        pos: u64,
        len: usize,
    ) -> Result<usize> {
        let transfer = &range.transfer;
        // Direct reads are of whole blocks.
        let memory = transfer.memory(len + 2 * BLOCK).await;
        let piece = file.read_at(pos, len).await?;
        if piece.len() < len {
            let eof = io::ErrorKind::UnexpectedEof.into();
            return Err(Error::at("send", file.path(), eof).with_detail(format!(
                "ends at {}, expected {} at least",
                pos + piece.len() as u64,
                pos + len as u64
            )));
        }
        transfer.count(|c| c.read += len as u64);
        out.push(Part::Chunk(piece));
        while !self.push(out, false).await? {
            let pressed = transfer.pressed();
            if transfer.is_pressed() || first(self.writable(), pressed).await.transpose()?.is_none()
            {
                transfer.count(|c| c.evicted += 1);
                let sent = len - out.forget(len);
                drop(memory);
                self.writable().await?;
                return Ok(sent);
            }
        }
        Ok(len)
    }

    /// Sends all that is in `out`. `more`: what follows comes another way, so a short packet may wait for it.
    async fn flush(&self, out: &mut Outgoing, more: bool) -> Result<()> {
        while !self.push(out, more).await? {
            self.writable().await?;
        }
        Ok(())
    }

    /// Sends what the socket takes now; false if it is full before that is all.
    async fn push(&self, out: &mut Outgoing, more: bool) -> Result<bool> {
        while !out.is_empty() {
            let took = match &self.inner.backend {
                ConnBackend::Kernel(c) => c.try_send(out, more)?,
                ConnBackend::Sim(c) => c.try_send(out)?,
            };
            if !took {
                return Ok(false);
            }
            if let ConnBackend::Kernel(c) = &self.inner.backend {
                c.pause().await;
            }
        }
        Ok(true)
    }

    fn begin(&self) {
        match &self.inner.backend {
            ConnBackend::Kernel(_) => {}
            ConnBackend::Sim(c) => c.maybe_reset(),
        }
    }

    /// Waits for room in the socket, or its end.
    async fn writable(&self) -> Result<()> {
        match &self.inner.backend {
            ConnBackend::Kernel(c) => c.writable().await,
            ConnBackend::Sim(c) => c.writable().await,
        }
    }

    async fn send_sealed(
        &self,
        file: &SealedFile,
        pos: u64,
        len: usize,
        transfer: &Transfer,
    ) -> Result<()> {
        match (&self.inner.backend, file.backend()) {
            (ConnBackend::Kernel(c), SealedBackend::Kernel(f)) => {
                c.send_sealed(f, pos, len, transfer).await
            }
            (ConnBackend::Sim(c), SealedBackend::Sim(f)) => {
                c.send_sealed(f, pos, len, transfer).await
            }
            _ => panic!("a file and a connection of two worlds"),
        }
    }

    /// The address of the other end.
    pub fn peer_addr(&self) -> SocketAddr {
        match &self.inner.backend {
            ConnBackend::Kernel(c) => c.peer_addr(),
            ConnBackend::Sim(c) => c.peer_addr(),
        }
    }

    /// The address of this end: what the client connected to, on an accepted one.
    pub fn local_addr(&self) -> SocketAddr {
        match &self.inner.backend {
            ConnBackend::Kernel(c) => c.local_addr(),
            ConnBackend::Sim(c) => c.local_addr(),
        }
    }

    /// Ends both directions. A pending `recv` or `send` wakes up with 0 or an error.
    pub fn shutdown(&self) {
        match &self.inner.backend {
            ConnBackend::Kernel(c) => c.shutdown(),
            ConnBackend::Sim(c) => c.shutdown(),
        }
    }
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Conn({} - {})", self.local_addr(), self.peer_addr())
    }
}

/// Shuts the connection down if a send ended before its end.
struct SendGuard<'a> {
    conn: &'a Conn,
    done: bool,
}

impl Drop for SendGuard<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.conn.shutdown();
        }
    }
}
