//! Sockets of our own, nonblocking, with readiness from the ring.
//!
//! Try first, wait second: most receives of a busy connection and nearly all sends succeed at once, and cost one
//! system call. glommio's streams would add an executor-wide receive buffer, no vectored writes, SO_REUSEPORT
//! everywhere and no CLOEXEC on accepted sockets. No thread and no buffer per connection.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsRawFd;
use std::rc::Rc;

use glommio::io::PollableFd;
use socket2::{Domain, Protocol, Socket, Type};

use super::executor::{Core, io_error};
use super::sealed::{PIECE, SealedFile};
use crate::error::{Error, Result};
use crate::list::Outgoing;
use crate::net::BindOptions;
use crate::transfer::Transfer;

/// Connections the kernel keeps until they are accepted.
const BACKLOG: i32 = 1024;
/// Parts per system call; the kernel takes 1024.
const SLICES: usize = 64;
/// Bytes made room for in one receive, whatever the caller's maximum.
const RECV: usize = 256 << 10;
/// Times that pages of one piece are brought in, before they are taken for ones that do not stay.
const BRINGS: u32 = 8;

fn stream(addr: SocketAddr) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    Socket::new(Domain::for_address(addr), kind, Some(Protocol::TCP))
}

fn local_addr(socket: &Socket) -> io::Result<SocketAddr> {
    socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

fn pollable(socket: Socket) -> io::Result<PollableFd<Socket>> {
    PollableFd::new(socket).map_err(io_error)
}

/// Bytes that the socket took of a range of a file, without waiting for the socket. Waits for pages that are not there.
fn sendfile(socket: &Socket, file: &SealedFile, pos: u64, len: usize) -> io::Result<usize> {
    let mut pos = libc::off64_t::try_from(pos).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: two descriptors that their owners keep open during the call, a pointer to a number that is ours alone,
    // and a length.
    let sent = unsafe { libc::sendfile64(socket.as_raw_fd(), file.fd(), &raw mut pos, len) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

pub(super) fn bind(core: &Rc<Core>, addr: SocketAddr, options: BindOptions) -> Result<Acceptor> {
    let listen = || -> io::Result<Acceptor> {
        let socket = stream(addr)?;
        // Only lets a restart bind while old connections are in TIME_WAIT; a live listener still refuses.
        socket.set_reuse_address(true)?;
        if options.shared {
            socket.set_reuse_port(true)?;
        }
        socket.bind(&addr.into())?;
        socket.listen(BACKLOG)?;
        let local = local_addr(&socket)?;
        Ok(Acceptor { core: Rc::clone(core), socket: pollable(socket)?, local })
    };
    listen().map_err(|e| Error::new("bind", e).with_detail(addr.to_string()))
}

pub(super) async fn connect(core: &Rc<Core>, addr: SocketAddr) -> Result<Conn> {
    let error = |e: io::Error| Error::new("connect", e).with_detail(addr.to_string());
    let socket = pollable(stream(addr).map_err(error)?).map_err(error)?;
    match socket.get_ref().connect(&addr.into()) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => {
            socket.writable().await.map_err(|e| error(io_error(e)))?;
            if let Some(e) = socket.get_ref().take_error().map_err(error)? {
                return Err(error(e));
            }
        }
        Err(e) => return Err(error(e)),
    }
    Conn::new(core, socket, addr).map_err(error)
}

/// See `crate::Acceptor`.
pub(crate) struct Acceptor {
    core: Rc<Core>,
    socket: PollableFd<Socket>,
    local: SocketAddr,
}

impl Acceptor {
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    pub(crate) async fn accept(&self) -> Result<Conn> {
        let error = |e: io::Error| Error::new("accept", e).with_detail(self.local.to_string());
        loop {
            match self.socket.get_ref().accept() {
                Ok((socket, peer)) => {
                    let peer = peer.as_socket();
                    let peer = peer.ok_or_else(|| error(io::ErrorKind::Unsupported.into()))?;
                    socket.set_nonblocking(true).map_err(error)?;
                    let socket = pollable(socket).map_err(error)?;
                    match Conn::new(&self.core, socket, peer) {
                        Ok(conn) => return Ok(conn),
                        // Reset before it was accepted: its options can no longer be set.
                        Err(_) => continue,
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.socket.readable().await.map_err(|e| error(io_error(e)))?;
                }
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(error(e)),
            }
        }
    }
}

/// See `crate::Conn`.
pub(crate) struct Conn {
    core: Rc<Core>,
    socket: PollableFd<Socket>,
    peer: SocketAddr,
    local: SocketAddr,
    shut: Cell<bool>,
}

impl Conn {
    fn new(core: &Rc<Core>, socket: PollableFd<Socket>, peer: SocketAddr) -> io::Result<Conn> {
        socket.get_ref().set_tcp_nodelay(true)?;
        let local = local_addr(socket.get_ref())?;
        Ok(Conn { core: Rc::clone(core), socket, peer, local, shut: Cell::new(false) })
    }

    pub(crate) fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn error(&self, op: &'static str, source: io::Error) -> Error {
        Error::new(op, source).with_detail(format!("peer {}", self.peer))
    }

    pub(crate) async fn recv(&self, into: &mut Vec<u8>, max: usize) -> Result<usize> {
        // A sender that is never slower than us must not keep the core to itself.
        self.core.yield_now().await;
        into.reserve(max.min(RECV));
        loop {
            if self.shut.get() {
                return Ok(0);
            }
            let len = into.len();
            let room = into.spare_capacity_mut();
            let n = room.len().min(max);
            match self.socket.get_ref().recv(&mut room[..n]) {
                Ok(got) => {
                    // SAFETY: the kernel has written `got` bytes after the first `len`, into the capacity.
                    unsafe { into.set_len(len + got) };
                    return Ok(got);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let ready = self.socket.readable().await;
                    ready.map_err(|e| self.error("recv", io_error(e)))?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.error("recv", e)),
            }
        }
    }

    /// One system call: true if the socket took something, false if it is full.
    pub(crate) fn try_send(&self, out: &mut Outgoing, more: bool) -> Result<bool> {
        let flags = libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
        loop {
            self.check_open()?;
            let result = {
                let slices: Vec<IoSlice<'_>> = out.slices(SLICES).map(IoSlice::new).collect();
                self.socket.get_ref().send_vectored_with_flags(&slices, flags)
            };
            match result {
                Ok(n) => {
                    out.advance(n);
                    return Ok(true);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.error("send", e)),
            }
        }
    }

    /// Lets others run, if this task has had its time.
    pub(crate) async fn pause(&self) {
        self.core.yield_now().await;
    }

    pub(crate) async fn writable(&self) -> Result<()> {
        self.check_open()?;
        self.socket.writable().await.map_err(|e| self.error("send", io_error(e)))
    }

    fn check_open(&self) -> Result<()> {
        if self.shut.get() {
            return Err(self.error("send", io::ErrorKind::BrokenPipe.into()));
        }
        Ok(())
    }

    /// Sends part of a file from the page cache, a piece at a time, each when its pages are in memory.
    pub(crate) async fn send_sealed(
        &self,
        file: &SealedFile,
        pos: u64,
        len: usize,
        transfer: &Transfer,
    ) -> Result<()> {
        file.check(pos, len)?;
        let end = pos + len as u64;
        let mut pos = pos;
        while pos < end {
            let piece = usize::try_from(end - pos).map_or(PIECE, |left| left.min(PIECE));
            // A page may be reclaimed as soon as it was brought in, so this is asked before each send.
            let mut brings = 0;
            while !file.all_resident(pos, piece)? {
                if brings == BRINGS {
                    let gone = file.error("readahead", io::ErrorKind::OutOfMemory.into());
                    return Err(gone.with_detail("pages do not stay in memory until they are sent"));
                }
                brings += 1;
                transfer.count(|c| c.brought += 1);
                file.bring(pos, piece).await?;
            }
            self.check_open()?;
            match sendfile(self.socket.get_ref(), file, pos, piece) {
                Ok(0) => return Err(file.error("sendfile", io::ErrorKind::UnexpectedEof.into())),
                Ok(n) => {
                    pos += n as u64;
                    self.pause().await;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.error("sendfile", e)),
            }
        }
        Ok(())
    }

    pub(crate) fn shutdown(&self) {
        self.shut.set(true);
        // Fails only if the peer has closed already.
        let _ = self.socket.get_ref().shutdown(Shutdown::Both);
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        // Closing alone would not tell the peer while a poll of ours is armed: it holds the socket.
        self.shutdown();
    }
}
