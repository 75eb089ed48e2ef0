//! The simulated network: listeners, connections, and links that can be cut.
//!
//! Bytes are copied when they are sent, cut into pieces at random, delayed, and delivered in order. A pipe holds
//! a bounded number of bytes, so a slow reader blocks its sender. A kill ends or resets connections; a cut link
//! holds everything back until it is healed.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

pub(crate) use super::conn::Conn;
use super::conn::{End, Item, Pipe};
use super::executor::{Executor, Life};
use super::rng::Rng;
use crate::error::{Error, Result};
use crate::net::BindOptions;
use crate::sync::oneshot;
use crate::time::nanos;

/// Connections that wait to be accepted, per listener.
const BACKLOG: usize = 128;
/// How often a connect over a cut link is tried again, and how often in all.
const CONNECT_RETRY: u64 = 250_000_000;
const CONNECT_TRIES: u32 = 40;

struct Listener {
    id: u64,
    addr: SocketAddr,
    shared: bool,
    life: Rc<Life>,
    queue: VecDeque<Conn>,
    waker: Option<Waker>,
}

#[derive(Default)]
struct State {
    listeners: Vec<Listener>,
    pipes: Vec<Weak<RefCell<Pipe>>>,
    ends: Vec<Weak<End>>,
    cut: BTreeSet<(String, String)>,
    hosts: Vec<String>,
    next_port: u16,
    delay: Duration,
    reset_chance: f64,
}

pub(crate) struct Network {
    pub(super) executor: Rc<Executor>,
    pub(super) rng: RefCell<Rng>,
    state: RefCell<State>,
}

fn link(a: &str, b: &str) -> (String, String) {
    if a <= b { (a.to_string(), b.to_string()) } else { (b.to_string(), a.to_string()) }
}

impl Network {
    pub(crate) fn new(executor: &Rc<Executor>, seed: u64) -> Rc<Network> {
        Rc::new(Network {
            executor: Rc::clone(executor),
            rng: RefCell::new(Rng::stream(seed, "network")),
            state: RefCell::new(State { next_port: 32_768, ..State::default() }),
        })
    }

    pub(super) fn reset_chance(&self) -> f64 {
        self.state.borrow().reset_chance
    }

    pub(crate) fn configure(&self, delay: Duration, reset_chance: f64) {
        let mut state = self.state.borrow_mut();
        state.delay = delay;
        state.reset_chance = reset_chance;
    }

    fn delay(&self) -> u64 {
        let longest = nanos(self.state.borrow().delay);
        self.rng.borrow_mut().between(longest / 8, longest)
    }

    /// The address of a node or client: 10.0.0.1 and on, in the order of their first use.
    fn host(&self, name: &str) -> IpAddr {
        let mut state = self.state.borrow_mut();
        let at = state.hosts.iter().position(|h| h == name).unwrap_or_else(|| {
            state.hosts.push(name.to_string());
            state.hosts.len() - 1
        });
        let number = at as u32 + 1;
        IpAddr::V4(Ipv4Addr::from(0x0A00_0000 + number))
    }

    fn port(&self) -> u16 {
        let mut state = self.state.borrow_mut();
        let port = state.next_port;
        state.next_port = port.checked_add(1).unwrap_or(32_768);
        port
    }

    fn is_cut(&self, link: &(String, String)) -> bool {
        self.state.borrow().cut.contains(link)
    }

    /// Holds back everything between two hosts.
    pub(crate) fn cut(&self, a: &str, b: &str) {
        self.state.borrow_mut().cut.insert(link(a, b));
    }

    /// Lets it through again, in order.
    pub(crate) fn heal(self: &Rc<Self>, a: &str, b: &str) {
        let link = link(a, b);
        let pipes: Vec<Rc<RefCell<Pipe>>> = {
            let mut state = self.state.borrow_mut();
            state.cut.remove(&link);
            state.pipes.iter().filter_map(Weak::upgrade).collect()
        };
        for pipe in pipes.iter().filter(|p| p.borrow().link == link) {
            self.pump(pipe);
        }
    }

    pub(crate) fn bind(
        self: &Rc<Self>,
        life: &Rc<Life>,
        mut addr: SocketAddr,
        options: BindOptions,
    ) -> Result<Acceptor> {
        if addr.port() == 0 {
            addr.set_port(self.port());
        }
        let id = self.executor.id();
        let mut state = self.state.borrow_mut();
        let taken = state.listeners.iter().any(|l| {
            let same = l.addr.ip() == addr.ip()
                || l.addr.ip().is_unspecified()
                || addr.ip().is_unspecified();
            l.addr.port() == addr.port()
                && same
                && !(l.shared && options.shared && l.life.name == life.name)
        });
        if taken {
            let error = io::Error::from(io::ErrorKind::AddrInUse);
            return Err(Error::new("bind", error).with_detail(addr.to_string()));
        }
        state.listeners.push(Listener {
            id,
            addr,
            shared: options.shared,
            life: Rc::clone(life),
            queue: VecDeque::new(),
            waker: None,
        });
        Ok(Acceptor { network: Rc::clone(self), life: Rc::clone(life), id, addr })
    }

    pub(crate) async fn connect(self: &Rc<Self>, life: &Rc<Life>, to: SocketAddr) -> Result<Conn> {
        let (sender, done) = oneshot();
        let (network, life) = (Rc::clone(self), Rc::clone(life));
        let delay = self.delay();
        self.executor.after(delay, move || network.try_connect(life, to, CONNECT_TRIES, sender));
        let result = done.await.unwrap_or_else(|| Err(io::ErrorKind::ConnectionRefused.into()));
        result.map_err(|source| Error::new("connect", source).with_detail(to.to_string()))
    }

    fn try_connect(
        self: &Rc<Self>,
        life: Rc<Life>,
        to: SocketAddr,
        tries: u32,
        sender: crate::sync::OneshotSender<io::Result<Conn>>,
    ) {
        if !life.alive.get() || sender.is_closed() {
            return;
        }
        let found = self.find_listener(to);
        let Some((listener, server)) = found else {
            let _ = sender.send(Err(io::ErrorKind::ConnectionRefused.into()));
            return;
        };
        let link = link(&life.name, &server.name);
        if self.is_cut(&link) {
            if tries == 0 {
                let _ = sender.send(Err(io::ErrorKind::TimedOut.into()));
                return;
            }
            let network = Rc::clone(self);
            self.executor
                .after(CONNECT_RETRY, move || network.try_connect(life, to, tries - 1, sender));
            return;
        }
        let from = SocketAddr::new(self.host(&life.name), self.port());
        let there = self.pipe(&link);
        let back = self.pipe(&link);
        let client = self.end(&life, from, to, &back, &there);
        let accepted = self.end(&server, to, from, &there, &back);
        let waker = {
            let mut state = self.state.borrow_mut();
            let listener = state.listeners.iter_mut().find(|l| l.id == listener);
            let listener = listener.expect("found above, and nothing ran since");
            listener.queue.push_back(accepted);
            listener.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
        // If the connector has gone, its end is dropped here and the other one sees the end.
        let unwanted = sender.send(Ok(client));
        drop(unwanted);
    }

    fn find_listener(&self, to: SocketAddr) -> Option<(u64, Rc<Life>)> {
        let state = self.state.borrow();
        let fits: Vec<&Listener> = state
            .listeners
            .iter()
            .filter(|l| l.addr.port() == to.port())
            .filter(|l| l.addr.ip() == to.ip() || l.addr.ip().is_unspecified())
            .filter(|l| l.queue.len() < BACKLOG)
            .collect();
        if fits.is_empty() {
            return None;
        }
        let chosen = fits[self.rng.borrow_mut().index(fits.len())];
        Some((chosen.id, Rc::clone(&chosen.life)))
    }

    fn pipe(&self, link: &(String, String)) -> Rc<RefCell<Pipe>> {
        let capacity = 1usize << self.rng.borrow_mut().between(14, 18);
        let pipe = Rc::new(RefCell::new(Pipe {
            flight: VecDeque::new(),
            arrived: VecDeque::new(),
            held: 0,
            capacity,
            ended: false,
            reset: false,
            unread: false,
            unsent: false,
            reader: None,
            writer: None,
            link: link.clone(),
        }));
        let mut state = self.state.borrow_mut();
        state.pipes.retain(|p| p.strong_count() > 0);
        state.pipes.push(Rc::downgrade(&pipe));
        pipe
    }

    fn end(
        self: &Rc<Self>,
        life: &Rc<Life>,
        local: SocketAddr,
        peer: SocketAddr,
        input: &Rc<RefCell<Pipe>>,
        output: &Rc<RefCell<Pipe>>,
    ) -> Conn {
        let end = Rc::new(End {
            network: Rc::clone(self),
            life: Rc::clone(life),
            local,
            peer,
            input: Rc::clone(input),
            output: Rc::clone(output),
            closed: Cell::new(false),
        });
        let mut state = self.state.borrow_mut();
        state.ends.retain(|e| e.strong_count() > 0);
        state.ends.push(Rc::downgrade(&end));
        Conn { end }
    }

    /// Sends something down a pipe; it arrives after what was sent before.
    pub(super) fn dispatch(self: &Rc<Self>, pipe: &Rc<RefCell<Pipe>>, item: Item) {
        let delay = self.delay();
        let at = {
            let mut p = pipe.borrow_mut();
            let last = p.flight.back().map_or(0, |(at, _)| *at);
            let at = last.max(self.executor.now() + delay);
            p.flight.push_back((at, item));
            at
        };
        let (network, pipe) = (Rc::clone(self), Rc::downgrade(pipe));
        self.executor.after(at - self.executor.now(), move || {
            if let Some(pipe) = pipe.upgrade() {
                network.pump(&pipe);
            }
        });
    }

    /// Delivers what is due.
    fn pump(&self, pipe: &Rc<RefCell<Pipe>>) {
        let mut p = pipe.borrow_mut();
        if self.is_cut(&p.link) {
            return;
        }
        let now = self.executor.now();
        while let Some((_, item)) = p.flight.pop_front_if(|(at, _)| *at <= now) {
            match item {
                Item::Bytes(bytes) if p.unread => p.held -= bytes.len(),
                Item::Bytes(bytes) => p.arrived.extend(bytes),
                Item::End => p.ended = true,
                Item::Reset => p.reset = true,
            }
        }
        p.wake();
    }

    /// The process (or, with `power`, the machine) of a life is gone.
    pub(crate) fn kill(self: &Rc<Self>, life: u64, power: bool) {
        let ends: Vec<Rc<End>> = {
            let mut state = self.state.borrow_mut();
            // A queued connection of a dropped listener is reset below, as the life's other ends are.
            let (gone, kept) = std::mem::take(&mut state.listeners)
                .into_iter()
                .partition::<Vec<_>, _>(|l| l.life.id == life);
            state.listeners = kept;
            let ends = state.ends.iter().filter_map(Weak::upgrade).collect();
            drop(state);
            drop(gone);
            ends
        };
        for end in ends.iter().filter(|e| e.life.id == life) {
            if !end.closed.replace(true) {
                self.abandon(end, power);
            }
        }
    }

    fn abandon(self: &Rc<Self>, end: &End, power: bool) {
        let gently = !power && self.rng.borrow_mut().coin();
        {
            let mut input = end.input.borrow_mut();
            input.unread = true;
            let dropped = input.arrived.len();
            input.arrived.clear();
            input.held -= dropped;
            input.wake();
        }
        {
            let mut output = end.output.borrow_mut();
            if !gently {
                let keep =
                    if power { 0 } else { self.rng.borrow_mut().index(output.flight.len() + 1) };
                let lost: usize = output.flight.split_off(keep).iter().map(|(_, i)| i.len()).sum();
                output.held -= lost;
            }
            output.unsent = true;
        }
        self.dispatch(&end.output, if gently { Item::End } else { Item::Reset });
    }
}

/// See `crate::Acceptor`.
pub(crate) struct Acceptor {
    network: Rc<Network>,
    life: Rc<Life>,
    id: u64,
    addr: SocketAddr,
}

impl Acceptor {
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) async fn accept(&self) -> Result<Conn> {
        poll_fn(|cx| {
            let mut state = self.network.state.borrow_mut();
            let Some(listener) = state.listeners.iter_mut().find(|l| l.id == self.id) else {
                return Poll::Ready(Err(Error::new("accept", io::ErrorKind::NotConnected.into())));
            };
            match listener.queue.pop_front() {
                Some(conn) => Poll::Ready(Ok(conn)),
                None => {
                    listener.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        if !self.life.alive.get() {
            return;
        }
        let gone = {
            let mut state = self.network.state.borrow_mut();
            let at = state.listeners.iter().position(|l| l.id == self.id);
            at.map(|at| state.listeners.remove(at))
        };
        drop(gone);
    }
}
