//! The connections: which there are, to whom, and when one that failed may be opened again.
//!
//! Two to a node that is read from and written to: answers come in the order of the requests, and a fetch waits at the
//! broker for up to half a second, so it has a connection of its own. The bootstrap addresses are asked until a node
//! is known, and again when no node can be reached.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::link::Link;
use super::metadata::Metadata;
use super::{Effect, Purpose};
use crate::config::{Address, Config};
use crate::error::Error;

/// Names a connection; never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(u64);

/// Somebody to connect to, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    /// A node, for everything but fetches.
    Node(i32),
    /// A node, for fetches.
    Fetch(i32),
    /// An address of the configuration, by its place there.
    Seed(usize),
}

#[derive(Debug, Default)]
struct State {
    link: Option<LinkId>,
    failures: u32,
    not_before: Duration,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Peers {
    seeds: Vec<Address>,
    client_id: Arc<str>,
    max_frame: usize,
    connect_timeout: Duration,
    backoff: Duration,
    max_backoff: Duration,
    states: BTreeMap<Peer, State>,
    links: BTreeMap<LinkId, (Peer, Link<Purpose>)>,
    next_link: u64,
    next_seed: usize,
}

impl Peers {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            seeds: config.bootstrap.clone(),
            client_id: Arc::from(&*config.client_id),
            max_frame: config.max_frame,
            connect_timeout: config.connect_timeout,
            backoff: config.backoff,
            max_backoff: config.max_backoff,
            states: BTreeMap::new(),
            links: BTreeMap::new(),
            next_link: 0,
            next_seed: 0,
        }
    }

    pub(super) fn link(&mut self, id: LinkId) -> Option<&mut Link<Purpose>> {
        self.links.get_mut(&id).map(|(_, link)| link)
    }

    pub(super) fn want(&self, id: LinkId) -> usize {
        self.links.get(&id).map_or(0, |(_, link)| link.want())
    }

    /// The connection to `peer` if it is ready; otherwise it is opened, unless it failed just now.
    pub(super) fn ready(
        &mut self,
        peer: Peer,
        metadata: &Metadata,
        effects: &mut impl Extend<Effect>,
        now: Duration,
    ) -> Option<LinkId> {
        let address = match peer {
            Peer::Node(node) | Peer::Fetch(node) => metadata.address(node),
            Peer::Seed(index) => self.seeds.get(index),
        };
        let address = address?.clone();
        let state = self.states.entry(peer).or_default();
        if let Some(id) = state.link {
            return self.links.get(&id).filter(|(_, l)| l.is_ready()).map(|_| id);
        }
        if state.not_before > now {
            return None;
        }
        let id = LinkId(self.next_link);
        self.next_link += 1;
        state.link = Some(id);
        let deadline = now.saturating_add(self.connect_timeout);
        let client_id = Arc::clone(&self.client_id);
        let link = Link::new(address.clone(), client_id, self.max_frame, deadline);
        self.links.insert(id, (peer, link));
        effects.extend([Effect::Connect { link: id, to: address }]);
        None
    }

    /// Any connection that is ready, the least busy one; otherwise one is opened.
    pub(super) fn any(
        &mut self,
        metadata: &Metadata,
        effects: &mut impl Extend<Effect>,
        now: Duration,
    ) -> Option<LinkId> {
        let usable = self.links.iter().filter(|(_, (peer, _))| !matches!(peer, Peer::Fetch(_)));
        let ready = usable.clone().filter(|(_, (_, link))| link.is_ready());
        let best = ready.min_by_key(|(id, (peer, link))| (link.in_flight().count(), *peer, **id));
        if let Some((id, _)) = best {
            return Some(*id);
        }
        if usable.count() > 0 {
            // One is being opened.
            return None;
        }
        let nodes: Vec<i32> = metadata.nodes().collect();
        let may = |states: &BTreeMap<Peer, State>, peer| {
            states.get(&peer).is_none_or(|s| s.not_before <= now)
        };
        let node = nodes.into_iter().map(Peer::Node).find(|peer| may(&self.states, *peer));
        let seeds =
            (0..self.seeds.len()).map(|i| Peer::Seed((self.next_seed + i) % self.seeds.len()));
        let peer = node.or_else(|| seeds.into_iter().find(|peer| may(&self.states, *peer)))?;
        if let Peer::Seed(index) = peer {
            self.next_seed = index + 1;
        }
        self.ready(peer, metadata, effects, now)
    }

    /// Requests on their way over a connection for which `count` is true.
    pub(super) fn in_flight(&mut self, id: LinkId, count: impl Fn(&Purpose) -> bool) -> usize {
        self.link(id).map_or(0, |link| link.in_flight().filter(|p| count(p)).count())
    }

    /// The error for a connection that the other side or the network ended; `None` when it is not known any more.
    pub(super) fn ended(&mut self, id: LinkId, detail: &str) -> Option<Error> {
        let link = self.link(id)?;
        let (address, detail) = (link.address().clone(), detail.to_string());
        Some(if link.is_ready() {
            Error::Disconnected { address, detail }
        } else {
            Error::Connect { address, detail }
        })
    }

    /// The handshake is over: the next failure is the first again.
    pub(super) fn succeeded(&mut self, id: LinkId) {
        if let Some((peer, _)) = self.links.get(&id)
            && let Some(state) = self.states.get_mut(peer)
        {
            state.failures = 0;
        }
    }

    /// Forgets a connection, and returns it for what it had not answered.
    pub(super) fn remove(&mut self, id: LinkId, now: Duration) -> Option<Link<Purpose>> {
        let (peer, link) = self.links.remove(&id)?;
        let state = self.states.entry(peer).or_default();
        let backoff = self.backoff.saturating_mul(1 << state.failures.min(10));
        state.failures = state.failures.saturating_add(1);
        state.not_before = now.saturating_add(backoff.min(self.max_backoff));
        state.link = None;
        Some(link)
    }

    /// The connections that have taken too long.
    pub(super) fn late(&mut self, now: Duration, config: &Config) -> Vec<(LinkId, Error)> {
        let late =
            self.links.iter().filter(|(_, (_, link))| link.deadline().is_some_and(|at| at <= now));
        late.map(|(id, (_, link))| {
            let address = link.address().clone();
            let error = if link.is_ready() {
                let detail =
                    format!("a request was not answered within {:?}", config.request_timeout);
                Error::Disconnected { address, detail }
            } else {
                let detail =
                    format!("no connection and handshake within {:?}", config.connect_timeout);
                Error::Connect { address, detail }
            };
            (*id, error)
        })
        .collect()
    }

    /// When something becomes due by time alone.
    pub(super) fn next_timer(&self, now: Duration) -> Option<Duration> {
        let deadlines = self.links.values().filter_map(|(_, link)| link.deadline());
        let backoffs = self.states.values().filter(|s| s.link.is_none()).map(|s| s.not_before);
        deadlines.chain(backoffs).filter(|at| *at > now).min()
    }
}
