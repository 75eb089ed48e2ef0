//! What every request handler gets: its core's shard, the nodes, the limits.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};

use rillway_io::{Gate, Instant, Notify, Semaphore};
use rillway_shard::Shard;

use crate::admission::Admission;
use crate::advertise::Nodes;
use crate::broker_configs::BrokerConfigs;
use crate::buffers::Buffers;
use crate::connection::Life;
use crate::fetch_sessions::FetchSessions;

/// How long a stop waits for clients to take the answers to what was accepted.
const ANSWERS_WITHIN: std::time::Duration = std::time::Duration::from_secs(3);

/// Limits of one core's connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Kafka: socket.request.max.bytes.
    pub request_bytes_max: usize,
    /// Memory for requests that are larger than a connection's buffer, and are under way.
    pub request_memory: usize,
    /// Kafka: fetch.max.bytes.
    pub fetch_bytes_max: usize,
    /// Of each core. Kafka: max.incremental.fetch.session.cache.slots.
    pub fetch_sessions_max: usize,
    /// Requests of one connection that wait for their answers.
    pub in_flight_max: usize,
    /// Connections of the node. Kafka: max.connections.
    pub connections_max: usize,
    /// Connections of one address. Kafka: max.connections.per.ip.
    pub connections_per_ip_max: usize,
    /// A frame that was begun must go on within this.
    pub frame_progress: std::time::Duration,
    /// An answer that others wait for to be taken is taken within this.
    pub answer_progress: std::time::Duration,
    /// Kafka: connections.max.idle.ms.
    pub idle: std::time::Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            request_bytes_max: 100 << 20,
            request_memory: 256 << 20,
            fetch_bytes_max: 55 << 20,
            fetch_sessions_max: 1000,
            in_flight_max: 128,
            connections_max: 100_000,
            connections_per_ip_max: usize::MAX,
            frame_progress: std::time::Duration::from_secs(30),
            answer_progress: std::time::Duration::from_secs(30),
            idle: std::time::Duration::from_secs(600),
        }
    }
}

/// One core's context. Clone: a handle.
#[derive(Clone)]
pub struct Context {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    pub shard: Shard,
    pub nodes: Nodes,
    pub configs: BrokerConfigs,
    pub admission: Admission,
    pub limits: Limits,
    /// Memory for large requests.
    pub request_memory: Semaphore,
    /// For large requests.
    pub buffers: Buffers,
    pub sessions: RefCell<FetchSessions>,
    pub connections: Cell<usize>,
    /// For the idle watch.
    pub lives: RefCell<Vec<Weak<Life>>>,
    /// Closes when the broker stops.
    pub gate: Gate,
    pub stopping: Cell<bool>,
    pub stop: Notify,
    /// When a line about a bad client was last written, and how many were swallowed since.
    complaints: RefCell<(Option<Instant>, u64)>,
}

impl Context {
    pub fn new(
        shard: Shard,
        nodes: Nodes,
        configs: BrokerConfigs,
        admission: Admission,
        limits: Limits,
    ) -> Context {
        let sessions = FetchSessions::new(limits.fetch_sessions_max, shard.core(), shard.cores());
        Context {
            inner: Rc::new(Inner {
                shard,
                nodes,
                configs,
                admission,
                request_memory: Semaphore::new(limits.request_memory.max(limits.request_bytes_max)),
                limits,
                buffers: Buffers::default(),
                sessions: RefCell::new(sessions),
                connections: Cell::new(0),
                lives: RefCell::new(Vec::new()),
                gate: Gate::new(),
                stopping: Cell::new(false),
                stop: Notify::new(),
                complaints: RefCell::new((None, 0)),
            }),
        }
    }

    pub fn shard(&self) -> &Shard {
        &self.inner.shard
    }

    pub fn nodes(&self) -> &Nodes {
        &self.inner.nodes
    }

    /// The node's settings, to be shown.
    pub(crate) fn configs(&self) -> &BrokerConfigs {
        &self.inner.configs
    }

    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// Connections that are open on this core.
    pub fn connections(&self) -> usize {
        self.inner.connections.get()
    }

    /// Takes no new connections, and closes those that there are.
    pub async fn stop(&self) {
        self.inner.stopping.set(true);
        self.inner.stop.notify_all();
        // Clients that read get their answers; one that does not would hold the stop up to its end.
        let rt = self.inner.shard.runtime().clone();
        if rt.timeout(ANSWERS_WITHIN, self.inner.gate.close()).await.is_none() {
            let lives: Vec<_> =
                self.inner.lives.borrow().iter().filter_map(Weak::upgrade).collect();
            tracing::info!(
                "{} connections did not take their answers and are cut off",
                lives.len()
            );
            lives.iter().for_each(|life| life.cut());
            self.inner.gate.close().await;
        }
    }

    /// One line about a client that misbehaved; at most one a second, with a count of the others.
    pub(crate) fn complain(&self, peer: SocketAddr, what: &dyn std::fmt::Display) {
        let now = self.inner.shard.runtime().now();
        let mut state = self.inner.complaints.borrow_mut();
        let quiet = state.0.is_some_and(|last| now - last < std::time::Duration::from_secs(1));
        if quiet {
            state.1 += 1;
            return;
        }
        let others = std::mem::take(&mut state.1);
        state.0 = Some(now);
        tracing::warn!(%peer, others, "connection closed: {what}");
    }
}

/// What a handler knows of the request beside its body.
#[derive(Clone)]
pub(crate) struct Request {
    pub context: Context,
    pub version: i16,
    pub correlation_id: i32,
    pub local: SocketAddr,
    /// The listener that the client came through.
    pub door: usize,
    pub peer: SocketAddr,
}
