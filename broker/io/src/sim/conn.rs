//! One simulated connection: two pipes, two ends.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::executor::Life;
use super::net::Network;
use crate::error::{Error, Result};
use crate::net::Part;

pub(super) enum Item {
    Bytes(Vec<u8>),
    End,
    Reset,
}

/// One direction of a connection.
pub(super) struct Pipe {
    /// Sent, not arrived: with the time of arrival.
    pub(super) flight: VecDeque<(u64, Item)>,
    pub(super) arrived: VecDeque<u8>,
    /// Bytes in `flight` and `arrived`.
    pub(super) held: usize,
    pub(super) capacity: usize,
    pub(super) ended: bool,
    pub(super) reset: bool,
    /// The receiving end reads no more.
    pub(super) unread: bool,
    /// The sending end sends no more.
    pub(super) unsent: bool,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    pub(super) link: (String, String),
}

impl Pipe {
    pub(super) fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }
}

impl Item {
    pub(super) fn len(&self) -> usize {
        match self {
            Item::Bytes(bytes) => bytes.len(),
            Item::End | Item::Reset => 0,
        }
    }
}

/// One end of a connection.
pub(super) struct End {
    pub(super) network: Rc<Network>,
    pub(super) life: Rc<Life>,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    pub(super) input: Rc<RefCell<Pipe>>,
    pub(super) output: Rc<RefCell<Pipe>>,
    pub(super) closed: Cell<bool>,
}

impl End {
    fn close(&self) {
        if self.closed.replace(true) {
            return;
        }
        {
            let mut input = self.input.borrow_mut();
            input.unread = true;
            let dropped = input.arrived.len();
            input.arrived.clear();
            input.held -= dropped;
            input.wake();
        }
        {
            let mut output = self.output.borrow_mut();
            output.unsent = true;
            output.wake();
        }
        self.network.dispatch(&self.output, Item::End);
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // The connections of a dead life were ended by its death.
        if self.life.alive.get() {
            self.close();
        }
    }
}

/// See `crate::Conn`.
pub(crate) struct Conn {
    pub(super) end: Rc<End>,
}

impl Conn {
    pub(crate) fn peer_addr(&self) -> SocketAddr {
        self.end.peer
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.end.local
    }

    pub(crate) fn shutdown(&self) {
        self.end.close();
    }

    pub(crate) async fn recv(&self, into: &mut Vec<u8>, max: usize) -> Result<usize> {
        poll_fn(|cx| {
            let mut p = self.end.input.borrow_mut();
            if p.unread {
                return Poll::Ready(Ok(0));
            }
            if !p.arrived.is_empty() {
                let most = p.arrived.len().min(max);
                let mut rng = self.end.network.rng.borrow_mut();
                let n = if rng.below(4) == 0 { 1 + rng.index(most) } else { most };
                into.extend(p.arrived.drain(..n));
                p.held -= n;
                self.end.network.executor.record(n as u64);
                let writer = p.writer.take();
                writer.into_iter().for_each(Waker::wake);
                return Poll::Ready(Ok(n));
            }
            if p.reset {
                let reset = io::ErrorKind::ConnectionReset.into();
                return Poll::Ready(Err(Error::new("recv", reset)));
            }
            if p.ended {
                return Poll::Ready(Ok(0));
            }
            p.reader = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    pub(crate) async fn send(&self, parts: &mut VecDeque<Part>) -> Result<()> {
        let chance = self.end.network.reset_chance();
        if self.end.network.rng.borrow_mut().chance(chance) {
            self.end.network.dispatch(&self.end.output, Item::Reset);
            self.end.input.borrow_mut().reset = true;
        }
        while let Some(part) = parts.pop_front() {
            let mut sent = 0;
            while sent < part.bytes().len() {
                sent += self.send_some(&part.bytes()[sent..]).await?;
            }
        }
        Ok(())
    }

    /// Copies some of the bytes into the pipe, as many as chance and room allow.
    async fn send_some(&self, bytes: &[u8]) -> Result<usize> {
        let n = poll_fn(|cx| {
            if self.end.input.borrow().reset {
                let reset = io::ErrorKind::ConnectionReset.into();
                return Poll::Ready(Err(Error::new("send", reset)));
            }
            let mut p = self.end.output.borrow_mut();
            if p.unsent || p.unread {
                return Poll::Ready(Err(Error::new("send", io::ErrorKind::BrokenPipe.into())));
            }
            let room = p.capacity - p.held;
            if room == 0 {
                p.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let most = room.min(bytes.len());
            let mut rng = self.end.network.rng.borrow_mut();
            let n = if rng.below(4) == 0 { 1 + rng.index(most) } else { most };
            p.held += n;
            Poll::Ready(Ok(n))
        })
        .await?;
        self.end.network.dispatch(&self.end.output, Item::Bytes(bytes[..n].to_vec()));
        Ok(n)
    }
}
