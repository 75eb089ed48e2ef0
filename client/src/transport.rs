//! The client on a [`Runtime`]: sockets, timers and waiting around [`Core`].
//!
//! Per connection two tasks, one that reads and one that sends, and per client one that watches the clock. All of them
//! live on the core that started the client. The core is borrowed for the length of one call and never across an
//! await. What waits to be sent on a connection is bounded by the requests that `Core` allows on it.
//!
//! Absent on purpose: TLS, and a choice among the addresses of a name beyond "the first that answers".

pub(crate) mod link;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use rillway_io::{Class, Instant, Notify, Runtime};

use crate::config::{Config, FetcherConfig, ProducerConfig};
use crate::core::{
    Call, CallAnswer, ConfigInfo, Core, CreatedTopic, Delivery, Effect, Fetched, LinkId, NewTopic,
    TopicInfo, TopicPartition,
};
use crate::error::{Error, Result};
use link::Outbox;

/// A client. Clones share everything; when the last one is dropped, the connections are closed and what was not
/// delivered is lost, so [`Client::flush`] comes first.
#[derive(Clone)]
pub struct Client {
    inner: Rc<Inner>,
    _guard: Rc<Guard>,
}

struct Inner {
    rt: Runtime,
    started: Instant,
    core: RefCell<Core>,
    outboxes: RefCell<BTreeMap<LinkId, Rc<Outbox>>>,
    /// There is something for the application, or the client is closed.
    results: Notify,
    /// The clock task has to look again.
    timer: Notify,
    /// When the clock task wakes up by itself; `None`: never.
    wakes_at: Cell<Option<Duration>>,
    closed: Cell<bool>,
}

/// Closes the client with its last handle; the tasks hold `Inner` themselves.
struct Guard(Rc<Inner>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Client {
    /// A client on this core. Connections are opened when they are needed.
    #[must_use]
    pub fn new(rt: &Runtime, config: Config) -> Self {
        let inner = Rc::new(Inner {
            rt: rt.clone(),
            started: rt.now(),
            core: RefCell::new(Core::new(config)),
            outboxes: RefCell::default(),
            results: Notify::new(),
            timer: Notify::new(),
            wakes_at: Cell::new(None),
            closed: Cell::new(false),
        });
        rt.spawn(Class::Control, clock(Rc::clone(&inner))).detach();
        let guard = Rc::new(Guard(Rc::clone(&inner)));
        Self { inner, _guard: guard }
    }

    /// Time since the client was made: the clock of [`Delivery::queued_at`].
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.inner.elapsed()
    }

    /// Gives the client a producer.
    pub fn start_producer(&self, config: ProducerConfig) {
        self.inner.with(|core, _| core.start_producer(config));
    }

    /// Takes a record, waiting for room if need be. That it is delivered is told by [`Self::next_delivery`].
    /// `timestamp` is in milliseconds since 1970.
    ///
    /// Somebody has to take deliveries meanwhile: they are kept until then.
    ///
    /// # Errors
    /// A record that fits no batch, a partition that has failed, a closed client.
    ///
    /// # Panics
    /// When there is no producer.
    pub async fn send(
        &self,
        at: &TopicPartition,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<()> {
        loop {
            let changed = self.inner.results.notified();
            if self.try_send(at, timestamp, key, value)? {
                return Ok(());
            }
            changed.await;
        }
    }

    /// The same without waiting: false when there is no room before the next delivery.
    ///
    /// # Errors
    /// As [`Self::send`].
    ///
    /// # Panics
    /// When there is no producer.
    pub fn try_send(
        &self,
        at: &TopicPartition,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool> {
        self.inner.check_open()?;
        let now = self.inner.elapsed();
        // Most records only join a batch: nothing is to be sent, and no timer changes.
        let taken = self.inner.core.borrow_mut().send(at, timestamp, key, value, now)?;
        if taken != Some(false) {
            self.inner.with(|_, _| ());
        }
        Ok(taken.is_some())
    }

    /// Waits until everything that was taken is delivered or has failed.
    ///
    /// # Errors
    /// A closed client.
    ///
    /// # Panics
    /// When there is no producer.
    pub async fn flush(&self) -> Result<()> {
        loop {
            self.inner.check_open()?;
            let changed = self.inner.results.notified();
            let left = self.inner.with(|core, _| {
                core.flush();
                core.undelivered()
            });
            if left == 0 {
                return Ok(());
            }
            changed.await;
        }
    }

    /// Sends everything without waiting for more, until all is delivered.
    ///
    /// # Panics
    /// When there is no producer.
    pub fn start_flush(&self) {
        self.inner.with(|core, _| core.flush());
    }

    /// Bytes of records that were taken and are neither delivered nor failed.
    #[must_use]
    pub fn undelivered(&self) -> usize {
        self.inner.core.borrow().undelivered()
    }

    /// The next batch that was delivered or failed; waits for one. `None`: everything that was taken has been told.
    ///
    /// # Errors
    /// A closed client.
    pub async fn next_delivery(&self) -> Result<Option<Delivery>> {
        loop {
            self.inner.check_open()?;
            let changed = self.inner.results.notified();
            if let Some(delivery) = self.try_delivery() {
                return Ok(Some(delivery));
            }
            if self.undelivered() == 0 {
                return Ok(None);
            }
            changed.await;
        }
    }

    /// The next batch that was delivered or failed, if there is one.
    #[must_use]
    pub fn try_delivery(&self) -> Option<Delivery> {
        self.inner.core.borrow_mut().next_delivery()
    }

    /// Gives the client a fetcher.
    pub fn start_fetcher(&self, config: FetcherConfig) {
        self.inner.with(|core, _| core.start_fetcher(config));
    }

    /// Reads a partition from an offset on.
    ///
    /// # Panics
    /// When there is no fetcher.
    pub fn assign(&self, at: TopicPartition, offset: i64) {
        self.inner.with(|core, _| core.assign(at, offset));
    }

    /// Stops reading a partition.
    pub fn unassign(&self, at: &TopicPartition) {
        self.inner.with(|core, _| core.unassign(at));
    }

    /// The next batches of any assigned partition; waits for them.
    ///
    /// # Errors
    /// A closed client. What goes wrong with a partition is in [`Fetched::result`].
    pub async fn fetch(&self) -> Result<Fetched> {
        loop {
            self.inner.check_open()?;
            let changed = self.inner.results.notified();
            if let Some(fetched) = self.inner.with(|core, _| core.take_fetched()) {
                return Ok(fetched);
            }
            changed.await;
        }
    }

    /// Asks something and waits for the answer.
    ///
    /// # Errors
    /// What the broker said, or that it said nothing in time.
    pub async fn call(&self, call: Call) -> Result<CallAnswer> {
        let id = self.inner.with(|core, now| core.call(call, now));
        loop {
            self.inner.check_open()?;
            let changed = self.inner.results.notified();
            if let Some(answer) = self.inner.core.borrow_mut().take_answer(id) {
                return answer;
            }
            changed.await;
        }
    }

    /// All topics, or those named. A topic that does not exist is an entry with an error.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn topics(&self, names: Option<Vec<String>>) -> Result<Vec<TopicInfo>> {
        match self.call(Call::Topics(names)).await? {
            CallAnswer::Topics(topics) => Ok(topics),
            other => unreachable!("the answer to Topics is Topics, not {other:?}"),
        }
    }

    /// Creates a topic.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn create_topic(&self, topic: NewTopic) -> Result<CreatedTopic> {
        match self.call(Call::CreateTopic(topic)).await? {
            CallAnswer::Created(created) => Ok(created),
            other => unreachable!("the answer to CreateTopic is Created, not {other:?}"),
        }
    }

    /// The settings of a topic.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn describe_topic(&self, name: String) -> Result<Vec<ConfigInfo>> {
        match self.call(Call::DescribeTopic(name)).await? {
            CallAnswer::Configs(configs) => Ok(configs),
            other => unreachable!("the answer to DescribeTopic is Configs, not {other:?}"),
        }
    }

    /// Sets settings of a topic, or with `None` goes back to the default; all, or none.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn alter_topic(
        &self,
        topic: String,
        changes: Vec<(String, Option<String>)>,
    ) -> Result<()> {
        self.call(Call::AlterTopic { topic, changes }).await.map(drop)
    }

    /// Adds partitions to a topic, up to `count` in all.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn grow_topic(&self, topic: String, count: i32) -> Result<()> {
        self.call(Call::GrowTopic { topic, count }).await.map(drop)
    }

    /// The last thing that went wrong with a connection, whatever came of it since.
    #[must_use]
    pub fn last_error(&self) -> Option<Error> {
        self.inner.core.borrow().last_error().cloned()
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn delete_topic(&self, name: String) -> Result<()> {
        self.call(Call::DeleteTopic(name)).await.map(drop)
    }

    /// The offset of each partition at a time, or at an end of the log: see [`Call::ListOffsets`].
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn list_offsets(
        &self,
        partitions: Vec<TopicPartition>,
        timestamp: i64,
    ) -> Result<Vec<(TopicPartition, i64)>> {
        let call = Call::ListOffsets { partitions, timestamp };
        match self.call(call).await? {
            CallAnswer::Offsets(offsets) => Ok(offsets),
            other => unreachable!("the answer to ListOffsets is Offsets, not {other:?}"),
        }
    }

    /// Closes all connections. Everything that waits ends with [`Error::Closed`].
    pub fn close(&self) {
        self.inner.close();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({} connections)", self.inner.outboxes.borrow().len())
    }
}

impl Inner {
    fn elapsed(&self) -> Duration {
        self.rt.now().since(self.started)
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.get() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Changes the core, lets it do what follows, and does with sockets and waiters what it asks for.
    fn with<T>(self: &Rc<Self>, change: impl FnOnce(&mut Core, Duration) -> T) -> T {
        let now = self.elapsed();
        let (value, effects, has_results, next) = {
            let mut core = self.core.borrow_mut();
            let value = change(&mut core, now);
            core.pump(now);
            let effects: Vec<Effect> = std::iter::from_fn(|| core.next_effect()).collect();
            (value, effects, core.has_results(), core.next_timer(now))
        };
        if self.closed.get() {
            return value;
        }
        for effect in effects {
            self.carry_out(effect);
        }
        if has_results {
            self.results.notify_all();
        }
        // A timer that moved back is met when the clock task wakes up in vain.
        let earlier = next.is_some_and(|next| self.wakes_at.get().is_none_or(|at| next < at));
        if earlier {
            self.timer.notify_all();
        }
        value
    }

    fn carry_out(self: &Rc<Self>, effect: Effect) {
        match effect {
            Effect::Connect { link, to } => {
                let outbox = Rc::new(Outbox::default());
                self.outboxes.borrow_mut().insert(link, Rc::clone(&outbox));
                let task = link::run(Rc::clone(self), link, to, outbox);
                self.rt.spawn(Class::Data, task).detach();
            }
            Effect::Send { link, parts } => {
                if let Some(outbox) = self.outboxes.borrow().get(&link) {
                    outbox.push(parts);
                }
            }
            Effect::Close { link } => {
                if let Some(outbox) = self.outboxes.borrow_mut().remove(&link) {
                    outbox.close();
                }
            }
        }
    }

    fn close(&self) {
        self.closed.set(true);
        for outbox in std::mem::take(&mut *self.outboxes.borrow_mut()).values() {
            outbox.close();
        }
        self.results.notify_all();
        self.timer.notify_all();
    }
}

/// Pumps the core when its timer is due.
async fn clock(inner: Rc<Inner>) {
    while !inner.closed.get() {
        let changed = inner.timer.notified();
        let now = inner.elapsed();
        let next = inner.core.borrow().next_timer(now);
        inner.wakes_at.set(next);
        match next {
            Some(at) => drop(inner.rt.timeout(at.saturating_sub(now), changed).await),
            None => changed.await,
        }
        inner.wakes_at.set(Some(Duration::ZERO));
        inner.with(|_, _| ());
    }
}
