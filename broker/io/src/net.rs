//! Byte streams: `Acceptor`, `Conn`, and `IoList`, the ordered parts of one message.
//!
//! A connection stays on the core that accepted or opened it. `IoList` is a pull source: of its file parts at
//! most 1 MiB is in memory at a time, read when the socket has taken what came before, so a slow reader pins
//! files and not memory. Absent on purpose: TLS (above this crate), and moving a connection to another core.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;

use crate::chunk::Chunk;
use crate::disk::DirectFile;
use crate::error::{Error, Result};
use crate::semaphore::Semaphore;
use crate::{kernel, sim};

/// Bytes of file parts in memory per connection.
const PIECE: usize = 1 << 20;

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
        let mut ready: VecDeque<Part> = VecDeque::new();
        let mut materialised = 0;
        for part in list.parts {
            match part {
                ListPart::Memory(part) => ready.push_back(part),
                ListPart::File(range) => {
                    let end = range.pos.checked_add(range.len).ok_or_else(|| {
                        Error::at(
                            "send",
                            range.file.path(),
                            std::io::ErrorKind::InvalidInput.into(),
                        )
                        .with_detail(format!("{} bytes at {}", range.len, range.pos))
                    })?;
                    let mut pos = range.pos;
                    while pos < end {
                        if materialised >= PIECE {
                            self.send_parts(&mut ready).await?;
                            materialised = 0;
                        }
                        let room = PIECE - materialised;
                        let want = usize::try_from(end - pos).map_or(room, |left| left.min(room));
                        let piece = range.file.read_at(pos, want).await?;
                        if piece.is_empty() {
                            let eof = std::io::ErrorKind::UnexpectedEof.into();
                            return Err(Error::at("send", range.file.path(), eof)
                                .with_detail(format!("ends at {pos}, expected {end}")));
                        }
                        pos += piece.len() as u64;
                        materialised += piece.len();
                        ready.push_back(Part::Chunk(piece));
                    }
                }
            }
        }
        self.send_parts(&mut ready).await?;
        guard.done = true;
        Ok(())
    }

    async fn send_parts(&self, parts: &mut VecDeque<Part>) -> Result<()> {
        parts.retain(|part| !part.bytes().is_empty());
        match &self.inner.backend {
            ConnBackend::Kernel(c) => c.send(parts).await,
            ConnBackend::Sim(c) => c.send(parts).await,
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

/// Bytes in memory, ready to be sent.
pub(crate) enum Part {
    Bytes(Vec<u8>),
    Chunk(Chunk),
}

impl Part {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Part::Bytes(bytes) => bytes,
            Part::Chunk(chunk) => chunk,
        }
    }
}

enum ListPart {
    Memory(Part),
    File(FileRange),
}

/// Part of a file, to be read when it is sent. What it names must stay as it is until then.
#[derive(Clone, Debug)]
pub struct FileRange {
    /// The file.
    pub file: DirectFile,
    /// Position in bytes.
    pub pos: u64,
    /// Length in bytes.
    pub len: u64,
}

/// What to send: header bytes, chunks and file ranges, in order.
#[derive(Default)]
pub struct IoList {
    parts: Vec<ListPart>,
    len: u64,
}

impl IoList {
    /// Nothing yet.
    pub fn new() -> IoList {
        IoList::default()
    }

    /// Adds bytes.
    pub fn push_bytes(&mut self, bytes: Vec<u8>) {
        self.len += bytes.len() as u64;
        self.parts.push(ListPart::Memory(Part::Bytes(bytes)));
    }

    /// Adds a chunk, without copying it.
    pub fn push_chunk(&mut self, chunk: Chunk) {
        self.len += chunk.len() as u64;
        self.parts.push(ListPart::Memory(Part::Chunk(chunk)));
    }

    /// Adds part of a file.
    pub fn push_file(&mut self, range: FileRange) {
        self.len = self.len.saturating_add(range.len);
        self.parts.push(ListPart::File(range));
    }

    /// Bytes in all.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for IoList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoList({} parts, {} bytes)", self.parts.len(), self.len)
    }
}
