//! One simulated connection: two pipes, two ends.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::disk::SealedFile;
use super::executor::Life;
use super::net::Network;
use crate::error::{Error, Result};
use crate::list::Outgoing;
use crate::transfer::Transfer;

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

    /// Loses the connection, by chance.
    pub(crate) fn maybe_reset(&self) {
        let chance = self.end.network.reset_chance();
        if self.end.network.rng.borrow_mut().chance(chance) {
            self.end.network.dispatch(&self.end.output, Item::Reset);
            self.end.input.borrow_mut().reset = true;
        }
    }

    /// Copies some of the bytes into the pipe, as many as chance and room allow; false if it is full.
    pub(crate) fn try_send(&self, out: &mut Outgoing) -> Result<bool> {
        let room = self.room()?;
        if room == 0 {
            return Ok(false);
        }
        let Some(first) = out.slices(1).next() else {
            return Ok(true);
        };
        let bytes = first[..self.some(room.min(first.len()))].to_vec();
        out.advance(bytes.len());
        self.put(bytes);
        Ok(true)
    }

    /// Copies part of a file into the pipe as there is room for it, and not before: what was written over until then
    /// shows.
    pub(crate) async fn send_sealed(
        &self,
        file: &SealedFile,
        pos: u64,
        len: usize,
        transfer: &Transfer,
    ) -> Result<()> {
        let end = pos + len as u64;
        let mut pos = pos;
        while pos < end {
            let room = self.room()?;
            if room == 0 {
                self.writable().await?;
                continue;
            }
            // Pages are there or not, by chance, and always once they were asked for.
            if self.end.network.rng.borrow_mut().coin() {
                transfer.count(|c| c.brought += 1);
                file.bring(pos).await?;
            }
            let left = usize::try_from(end - pos).unwrap_or(usize::MAX);
            let Some(most) = Some(self.room()?.min(left)).filter(|most| *most > 0) else {
                continue;
            };
            let bytes = file.copy(pos, self.some(most))?;
            pos += bytes.len() as u64;
            self.put(bytes);
        }
        Ok(())
    }

    /// Waits for room in the pipe, or its end.
    pub(crate) async fn writable(&self) -> Result<()> {
        poll_fn(|cx| match self.room() {
            Ok(0) => {
                self.end.output.borrow_mut().writer = Some(cx.waker().clone());
                Poll::Pending
            }
            Ok(_) => Poll::Ready(Ok(())),
            Err(e) => Poll::Ready(Err(e)),
        })
        .await
    }

    fn room(&self) -> Result<usize> {
        if self.end.input.borrow().reset {
            return Err(Error::new("send", io::ErrorKind::ConnectionReset.into()));
        }
        let p = self.end.output.borrow();
        if p.unsent || p.unread {
            return Err(Error::new("send", io::ErrorKind::BrokenPipe.into()));
        }
        Ok(p.capacity - p.held)
    }

    /// From 1 to `most`, by chance; mostly `most`.
    fn some(&self, most: usize) -> usize {
        let mut rng = self.end.network.rng.borrow_mut();
        if rng.below(4) == 0 { 1 + rng.index(most) } else { most }
    }

    fn put(&self, bytes: Vec<u8>) {
        self.end.output.borrow_mut().held += bytes.len();
        self.end.network.dispatch(&self.end.output, Item::Bytes(bytes));
    }
}
