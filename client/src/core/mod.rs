//! The client without sockets and clocks: one state machine, owned by one core, that never waits.
//!
//! In: commands, what happened to connections, received bytes, and the time since the client was made. Out: [`Effect`]s
//! for whoever owns the sockets, results for the application, and [`Core::next_timer`].
//!
//! - `link`: one connection: handshake, numbers of requests, answers. Over `frames` and `versions`.
//! - `peers`: which connections there are, and when to open one again.
//! - `metadata`: who leads which partition.
//! - `producer` over `queue`: batches of a partition, idempotence, order.
//! - `fetcher`: partitions read from explicit offsets.
//! - `calls`: topics, settings, and the ends of logs; `groups`: consumer groups, for who looks after them.
//!
//! What waits for an answer is bounded: requests per connection, bytes to deliver, bytes to be taken. Calls are bounded
//! by those who call.

mod answers;
mod calls;
mod fetcher;
mod frames;
mod groups;
mod info;
pub(crate) mod link;
mod metadata;
mod peers;
mod producer;
mod queue;
mod requests;
mod versions;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::config::{Address, Config, FetcherConfig, ProducerConfig};
use crate::error::{Error, Result};
use calls::Calls;
pub use calls::{Call, CallAnswer, CallId};
use fetcher::Fetcher;
pub use fetcher::{Fetched, FetchedData};
pub use groups::{
    GroupCall, GroupInfo, GroupListing, GroupMember, GroupReport, GroupTransition, PartitionLag,
    PartitionOutcomes,
};
pub use info::{ConfigInfo, CreatedTopic, NewTopic, NodeInfo, PartitionInfo, TopicInfo};
use link::Link;
use metadata::Metadata;
pub use peers::LinkId;
use peers::Peers;
pub use producer::Delivery;
use producer::{Producer, Sent};
use queue::Record;

/// A partition of a topic. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    pub topic: Arc<str>,
    pub partition: i32,
}

impl TopicPartition {
    #[must_use]
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// What the owner of the sockets has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Open a connection, and report [`Core::connected`] or [`Core::closed`].
    Connect { link: LinkId, to: Address },
    /// Send these bytes, one part after the other.
    Send { link: LinkId, parts: Vec<Bytes> },
    /// Close the connection, and report nothing more of it.
    Close { link: LinkId },
}

/// What a request was for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Purpose {
    Metadata,
    ProducerId,
    Produce(Vec<Sent>),
    /// With the offsets that were asked for.
    Fetch(Vec<(TopicPartition, i64)>),
    /// For ListOffsets, the partitions that were asked for.
    Call(CallId, Vec<TopicPartition>),
}

/// The client.
#[derive(Debug)]
pub struct Core {
    config: Config,
    peers: Peers,
    metadata: Metadata,
    producer: Option<Producer>,
    fetcher: Option<Fetcher>,
    calls: Calls,
    effects: VecDeque<Effect>,
    /// The last thing that went wrong with a connection: the reason to give when time runs out.
    last_error: Option<Error>,
}

impl Core {
    /// A client that has not opened any connection yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let mut metadata = Metadata::default();
        metadata.refresh();
        Self {
            peers: Peers::new(&config),
            config,
            metadata,
            producer: None,
            fetcher: None,
            calls: Calls::default(),
            effects: VecDeque::new(),
            last_error: None,
        }
    }

    /// Gives the client a producer. A second one replaces the first, and what that had not delivered is lost.
    pub fn start_producer(&mut self, config: ProducerConfig) {
        self.producer = Some(Producer::new(config, self.config.backoff));
    }

    /// Takes a record for the producer. `None`: its buffer is full, try again after a delivery. `Some(true)`: call
    /// [`Self::pump`] soon. `timestamp` is in milliseconds since 1970.
    ///
    /// # Errors
    /// A record that fits no batch, a partition that has failed.
    ///
    /// # Panics
    /// When there is no producer.
    pub fn send(
        &mut self,
        at: &TopicPartition,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        now: Duration,
    ) -> Result<Option<bool>> {
        self.metadata.follow(&at.topic);
        let record = Record { timestamp, key, value };
        self.the_producer().send(at, record, now)
    }

    /// Sends everything without waiting for more, until all is delivered. Follow it with [`Self::pump`].
    ///
    /// # Panics
    /// When there is no producer.
    pub fn flush(&mut self) {
        self.the_producer().flush();
    }

    fn the_producer(&mut self) -> &mut Producer {
        self.producer.as_mut().expect("start_producer comes before its use")
    }

    /// The next batch that was delivered or failed.
    pub fn next_delivery(&mut self) -> Option<Delivery> {
        self.producer.as_mut()?.next_delivery()
    }

    /// Bytes of records that were taken and are neither delivered nor failed.
    #[must_use]
    pub fn undelivered(&self) -> usize {
        self.producer.as_ref().map_or(0, Producer::buffered)
    }

    /// Gives the client a fetcher. A second one replaces the first.
    pub fn start_fetcher(&mut self, config: FetcherConfig) {
        self.fetcher = Some(Fetcher::new(config, self.config.backoff));
    }

    /// Reads a partition from an offset on. Follow it with [`Self::pump`].
    ///
    /// # Panics
    /// When there is no fetcher.
    pub fn assign(&mut self, at: TopicPartition, offset: i64) {
        self.metadata.follow(&at.topic);
        let fetcher = self.fetcher.as_mut();
        fetcher.expect("start_fetcher comes before its use").assign(at, offset);
    }

    /// Stops reading a partition.
    pub fn unassign(&mut self, at: &TopicPartition) {
        if let Some(fetcher) = &mut self.fetcher {
            fetcher.unassign(at);
        }
    }

    /// The next fetched batches. Follow it with [`Self::pump`], since taking them makes room.
    pub fn take_fetched(&mut self) -> Option<Fetched> {
        self.fetcher.as_mut()?.take()
    }

    /// Asks something; [`Self::take_answer`] has the answer. Follow it with [`Self::pump`].
    pub fn call(&mut self, call: Call, now: Duration) -> CallId {
        if let Call::ListOffsets { partitions, .. } = &call {
            for at in partitions {
                self.metadata.follow(&at.topic);
            }
        }
        self.calls.add(call, now.saturating_add(self.config.call_timeout))
    }

    /// The answer to a call, once.
    pub fn take_answer(&mut self, id: CallId) -> Option<Result<CallAnswer>> {
        self.calls.take_done(id)
    }

    /// The last thing that went wrong with a connection.
    #[must_use]
    pub fn last_error(&self) -> Option<&Error> {
        self.last_error.as_ref()
    }

    /// Whether there is something for the application to take.
    #[must_use]
    pub fn has_results(&self) -> bool {
        self.calls.has_done()
            || self.fetcher.as_ref().is_some_and(Fetcher::has_ready)
            || self.producer.as_ref().is_some_and(Producer::has_deliveries)
    }

    /// The next thing to do with a socket.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The connection is open.
    pub fn connected(&mut self, link: LinkId) {
        if let Some(open) = self.peers.link(link) {
            let frame = open.opened();
            self.push_frame(link, frame, &mut std::iter::empty());
        }
    }

    /// How many bytes to read next from a connection.
    #[must_use]
    pub fn want(&self, link: LinkId) -> usize {
        self.peers.want(link)
    }

    /// Lends the vector that the next bytes shall be appended to; [`Self::received`] takes it back. It may hold the
    /// beginning of an answer, so that a large one is collected without being copied.
    #[must_use]
    pub fn lend(&mut self, link: LinkId) -> Vec<u8> {
        self.peers.link(link).map(Link::lend).unwrap_or_default()
    }

    /// The connection brought bytes. Follow it with [`Self::pump`].
    pub fn received(&mut self, link: LinkId, bytes: Vec<u8>, now: Duration) {
        if let Some(open) = self.peers.link(link) {
            open.extend(bytes);
        }
        loop {
            let Some(open) = self.peers.link(link) else {
                return;
            };
            match open.next() {
                Ok(None) => return,
                Ok(Some(received)) => {
                    if let Err(error) = self.handle(link, received, now) {
                        return self.abandon(link, error, now);
                    }
                }
                Err(error) => return self.abandon(link, error, now),
            }
        }
    }

    /// The connection could not be opened, or has ended. Follow it with [`Self::pump`].
    pub fn closed(&mut self, link: LinkId, detail: &str, now: Duration) {
        if let Some(error) = self.peers.ended(link, detail) {
            self.lose(link, error, now);
        }
    }

    /// Ends a connection that is of no more use.
    fn abandon(&mut self, link: LinkId, error: Error, now: Duration) {
        self.effects.push_back(Effect::Close { link });
        self.lose(link, error, now);
    }

    /// Gives back what a connection had not answered.
    fn lose(&mut self, link: LinkId, error: Error, now: Duration) {
        let Some(lost) = self.peers.remove(link, now) else {
            return;
        };
        // Whoever led from there may lead no more.
        self.metadata.refresh();
        for purpose in lost.into_in_flight() {
            self.lost(purpose, &error, now);
        }
        self.last_error = Some(error);
    }

    fn lost(&mut self, purpose: Purpose, error: &Error, now: Duration) {
        let backoff = self.config.backoff;
        match purpose {
            Purpose::Metadata => self.metadata.failed(now, backoff),
            Purpose::ProducerId => {
                if let Some(producer) = &mut self.producer {
                    producer.unidentified(now);
                }
            }
            Purpose::Produce(sent) => {
                if let Some(producer) = &mut self.producer {
                    for sent in &sent {
                        producer.retry(sent, now);
                    }
                }
            }
            Purpose::Fetch(asked) => {
                if let Some(fetcher) = &mut self.fetcher {
                    for (at, _) in &asked {
                        fetcher.lost(at, now);
                    }
                }
            }
            Purpose::Call(id, partitions) => {
                let at = now.saturating_add(backoff);
                self.calls.retry(id, &partitions, error.clone(), at);
            }
        }
    }

    /// Does what can be done now, time-outs included: call it after every input, and at [`Self::next_timer`].
    pub fn pump(&mut self, now: Duration) {
        for (link, error) in self.peers.late(now, &self.config) {
            self.abandon(link, error, now);
        }
        let last = self.last_error.clone();
        if let Some(producer) = &mut self.producer {
            producer.expire(now, last.as_ref());
        }
        self.calls.expire(now, self.config.call_timeout, last.as_ref());
        self.ask_metadata(now);
        self.ask_producer_id(now);
        self.send_batches(now);
        self.fetch(now);
        self.ask_calls(now);
    }

    /// When to call [`Self::pump`] next, if nothing happens before.
    #[must_use]
    pub fn next_timer(&self, now: Duration) -> Option<Duration> {
        let producer = self.producer.as_ref().and_then(|p| p.next_timer(now));
        let fetcher = self.fetcher.as_ref().and_then(|f| f.next_timer(now));
        let metadata = self.metadata.next_timer(now, self.config.metadata_max_age);
        let others =
            [producer, fetcher, metadata, self.calls.next_timer(now), self.peers.next_timer(now)];
        others.into_iter().flatten().min()
    }
}
