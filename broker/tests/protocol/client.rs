//! A world with one broker, and a connection that speaks raw frames.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use rillway::node::{ListenOptions, NodeOptions, Shared, start_core};
use rillway_io::sim::{Faults, NodeHandle, World};
use rillway_io::{Conn, IoList, Notify, Runtime, Transfer};
use rillway_log::{RING_BYTES_MIN, StorageOptions};
use rillway_wire::api::{create_topics, fetch, metadata, produce};
use rillway_wire::batch::{BatchBuilder, Codec};
use rillway_wire::{ErrorCode, Records, RequestMessage, ResponseHeader, ResponseMessage, Uuid};

/// The port that the broker listens on.
pub(crate) const PORT: u16 = 9092;

/// Settings that a scenario may change.
pub(crate) fn options(cores: usize) -> NodeOptions {
    let mut options = NodeOptions {
        listeners: vec![ListenOptions::at(SocketAddr::from(([0, 0, 0, 0], PORT)))],
        nodes: None,
        configs: Default::default(),
        broker_id: 1,
        storage: StorageOptions {
            dir: PathBuf::from("/data"),
            rings: cores,
            ring_bytes: RING_BYTES_MIN,
            reserve_bytes: 0,
            lock_wait: Duration::from_secs(1),
        },
        store: Default::default(),
        shard: Default::default(),
        limits: Default::default(),
    };
    options.shard.num_partitions = 2;
    options
}

/// Runs a scenario against a broker of so many cores.
pub(crate) fn scenario<F, Fut>(cores: usize, script: F)
where
    F: FnOnce(Runtime) -> Fut + 'static,
    Fut: Future<Output = ()> + 'static,
{
    scenario_with(options(cores), script);
}

pub(crate) fn scenario_with<F, Fut>(options: NodeOptions, script: F)
where
    F: FnOnce(Runtime) -> Fut + 'static,
    Fut: Future<Output = ()> + 'static,
{
    scenario_with_stop(options, |rt, _| script(rt));
}

/// The broker's SIGTERM.
#[derive(Clone, Default)]
pub(crate) struct Stop {
    asked: Rc<Cell<bool>>,
    ask: Rc<Notify>,
    /// Cores that have stopped.
    pub ended: Rc<Cell<usize>>,
    transfers: Rc<RefCell<Vec<Transfer>>>,
}

impl Stop {
    /// What the broker's cores have on its way to clients.
    pub(crate) fn transfers(&self) -> Vec<Transfer> {
        self.transfers.borrow().clone()
    }

    pub(crate) fn now(&self) {
        self.asked.set(true);
        self.ask.notify_all();
    }

    async fn wait(&self) {
        loop {
            let ask = self.ask.notified();
            if self.asked.get() {
                return;
            }
            ask.await;
        }
    }
}

/// As [`scenario_with`], for a script that stops the broker.
pub(crate) fn scenario_with_stop<F, Fut>(options: NodeOptions, script: F)
where
    F: FnOnce(Runtime, Stop) -> Fut + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let world = World::new(7);
    let stop = Stop::default();
    let _node = serve(&world, &options, &stop);
    let rt = world.client("client");
    world.block_on(script(rt, stop));
}

/// Starts a broker and waits until it serves.
fn serve(world: &World, options: &NodeOptions, stop: &Stop) -> NodeHandle<()> {
    let (options, told) = (options.clone(), stop.clone());
    let cores = options.storage.rings;
    let parts = Shared::new(cores);
    let ready = Rc::new(Cell::new(0));
    let serving = Rc::clone(&ready);
    let node = world.start_node::<(), _, _>("broker", cores, move |rt| {
        let (parts, options, serving) =
            (parts.take(rt.core()), options.clone(), Rc::clone(&serving));
        let stop = told.clone();
        async move {
            let core = start_core(&rt, parts, &options).await.expect("starts");
            stop.transfers.borrow_mut().push(core.shard.store().transfer().clone());
            serving.set(serving.get() + 1);
            stop.wait().await;
            core.stop().await.expect("stops");
            stop.ended.set(stop.ended.get() + 1);
        }
    });
    world.run_until(|| ready.get() == cores, Duration::from_secs(60)).expect("the broker serves");
    node
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    Stop,
    Kill,
    PowerCut,
}

/// Every way.
pub(crate) const ENDS: [End; 3] = [End::Stop, End::Kill, End::PowerCut];

/// One data directory, and the lives of a broker on it.
pub(crate) struct Lives(World);

impl Lives {
    pub(crate) fn new() -> Lives {
        Lives(World::new(7))
    }

    /// The world, to break its disks.
    pub(crate) fn world(&self) -> &World {
        &self.0
    }

    /// A life in which the disk fails; the broker may die of it, and ends with a cut of the power. Why it died.
    pub(crate) fn broken<F, Fut>(
        &self,
        options: &NodeOptions,
        faults: Faults,
        script: F,
    ) -> Option<String>
    where
        F: FnOnce(Runtime) -> Fut,
        Fut: Future<Output = ()> + 'static,
    {
        let _node = serve(&self.0, options, &Stop::default());
        self.0.set_faults(faults);
        self.0.block_on(script(self.0.client("client")));
        let death = self.0.death("broker");
        self.0.set_faults(Faults::default());
        self.0.power_cut("broker");
        death
    }

    /// One life with a script in it.
    pub(crate) fn live<F, Fut>(&self, options: &NodeOptions, end: End, script: F)
    where
        F: FnOnce(Runtime) -> Fut,
        Fut: Future<Output = ()> + 'static,
    {
        let stop = Stop::default();
        let node = serve(&self.0, options, &stop);
        self.0.block_on(script(self.0.client("client")));
        match end {
            End::Stop => {
                stop.now();
                let ended = || node.is_finished();
                self.0.run_until(ended, Duration::from_secs(60)).expect("stops");
            }
            End::Kill => self.0.kill("broker"),
            End::PowerCut => self.0.power_cut("broker"),
        }
    }
}

/// One connection.
pub(crate) struct Client {
    pub rt: Runtime,
    conn: Conn,
    input: Vec<u8>,
    correlation: i32,
}

impl Client {
    pub(crate) async fn connect(rt: &Runtime) -> Client {
        Client::connect_to(rt, PORT).await
    }

    pub(crate) async fn connect_to(rt: &Runtime, port: u16) -> Client {
        let conn = rt.connect(SocketAddr::from(([10, 200, 0, 1], port))).await.expect("connects");
        Client { rt: rt.clone(), conn, input: Vec::new(), correlation: 0 }
    }

    /// Sends bytes as they are.
    pub(crate) async fn raw(&self, bytes: &[u8]) {
        self.try_raw(bytes).await.expect("sent");
    }

    /// As [`Self::raw`], where the broker may be gone.
    pub(crate) async fn try_raw(&self, bytes: &[u8]) -> rillway_io::Result<()> {
        let mut list = IoList::new();
        list.push_bytes(bytes.to_vec());
        self.conn.send(list).await
    }

    /// Sends a request and returns the answer's frame; `None` if the broker is gone.
    pub(crate) async fn try_call<'a>(
        &mut self,
        request: &impl RequestMessage<'a>,
        version: i16,
    ) -> Option<Vec<u8>> {
        self.correlation += 1;
        let frame = request.request_frame(version, self.correlation, Some("test"));
        self.try_raw(&frame.into_bytes().expect("requests have no holes")).await.ok()?;
        self.frame().await
    }

    pub(crate) async fn send<'a>(
        &mut self,
        request: &impl RequestMessage<'a>,
        version: i16,
    ) -> i32 {
        self.correlation += 1;
        let frame = request.request_frame(version, self.correlation, Some("test"));
        self.raw(&frame.into_bytes().expect("requests have no holes")).await;
        self.correlation
    }

    /// The next frame's content, or `None` if the broker closed.
    pub(crate) async fn frame(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(prefix) = self.input.first_chunk::<4>() {
                let end = 4 + u32::from_be_bytes(*prefix) as usize;
                if self.input.len() >= end {
                    let content = self.input[4..end].to_vec();
                    self.input.drain(..end);
                    return Some(content);
                }
            }
            let received = self
                .rt
                .timeout(Duration::from_secs(60), self.conn.recv(&mut self.input, 1 << 20))
                .await;
            match received.expect("an answer, or the end, within a minute") {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// True if the broker closes the connection without saying anything more.
    pub(crate) async fn is_closed(&mut self) -> bool {
        self.frame().await.is_none()
    }

    /// Sends and returns the answer's content behind its header, checked against the correlation id.
    pub(crate) async fn call<'a, R: RequestMessage<'a>>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Vec<u8> {
        self.send(request, version).await;
        self.answer::<R>(version).await
    }

    /// The content of the answer to the request that was sent last.
    pub(crate) async fn answer<'a, R: RequestMessage<'a>>(&mut self, version: i16) -> Vec<u8> {
        let content = self.frame().await.expect("an answer");
        let (header, body) =
            ResponseHeader::decode(&content, R::API, version).expect("a response header");
        assert_eq!(header.correlation_id, self.correlation, "answers come in order");
        body.to_vec()
    }

    /// Creates a topic with `partitions` partitions.
    pub(crate) async fn create(&mut self, name: &str, partitions: i32) {
        let topic = create_topics::Topic {
            name,
            num_partitions: partitions,
            replication_factor: 1,
            ..Default::default()
        };
        let body = self
            .call(&create_topics::Request { topics: vec![topic].into(), ..Default::default() }, 5)
            .await;
        let response: create_topics::Response<'_> = decode(&body, 5);
        let created = response.topics.first().expect("one topic");
        assert_eq!(created.error_code, ErrorCode::None, "{:?}", created.error_message);
    }

    /// Produces one batch with acks=all; its code and base offset.
    pub(crate) async fn produce(
        &mut self,
        topic: &str,
        index: i32,
        batch: &[u8],
    ) -> (ErrorCode, i64) {
        let body = self.call(&produce_request(topic, index, batch, -1), 7).await;
        let response: produce::Response<'_> = decode(&body, 7);
        let answer = response
            .responses
            .first()
            .expect("a topic")
            .partition_responses
            .first()
            .expect("a partition");
        (answer.error_code, answer.base_offset)
    }

    /// Fetches one partition: code, high watermark, record bytes.
    pub(crate) async fn fetch(
        &mut self,
        topic: &str,
        index: i32,
        offset: i64,
    ) -> (ErrorCode, i64, Vec<u8>) {
        let body =
            self.call(&fetch_request(&[(topic, index, offset, 1 << 20)], 1 << 20, 0, 0), 11).await;
        let response: fetch::Response<'_> = decode(&body, 11);
        let answer =
            response.responses.first().expect("a topic").partitions.first().expect("a partition");
        (answer.error_code, answer.high_watermark, bytes(&answer.records))
    }

    /// Id of a topic.
    pub(crate) async fn topic_id(&mut self, topic: &str) -> Uuid {
        let asked = metadata::TopicRequest { name: Some(topic), ..Default::default() };
        let request = metadata::Request { topics: Some(vec![asked].into()), ..Default::default() };
        let body = self.call(&request, 13).await;
        let response: metadata::Response<'_> = decode(&body, 13);
        assert_eq!(response.error_code, ErrorCode::None);
        response.topics.first().expect("a topic").topic_id
    }

    /// Port of the node that leads a partition.
    pub(crate) async fn leader_port(&mut self, topic: &str, index: i32) -> u16 {
        let asked = metadata::TopicRequest { name: Some(topic), ..Default::default() };
        let body = self
            .call(&metadata::Request { topics: Some(vec![asked].into()), ..Default::default() }, 5)
            .await;
        let response: metadata::Response<'_> = decode(&body, 5);
        let found = response.topics.first().expect("a topic");
        let leader = found
            .partitions
            .iter()
            .find(|p| p.partition_index == index)
            .expect("the partition")
            .leader_id;
        let node =
            response.brokers.iter().find(|b| b.node_id == leader).expect("the leader is a node");
        u16::try_from(node.port).expect("a port")
    }
}

/// Decodes to the last byte.
pub(crate) fn decode<'a, R: ResponseMessage<'a>>(body: &'a [u8], version: i16) -> R {
    R::decode_body(body, version).expect("the answer has the form of the request's version")
}

pub(crate) fn bytes(records: &Records<'_>) -> Vec<u8> {
    match records {
        Records::Bytes(bytes) => bytes.to_vec(),
        Records::Null | Records::Later(_) => Vec::new(),
    }
}

/// A batch of values, uncompressed, without a producer id.
pub(crate) fn batch(values: &[&[u8]]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None);
    for value in values {
        builder.push(1_000, None, Some(value), &[]);
    }
    builder.build().expect("a batch")
}

pub(crate) fn produce_request<'a>(
    topic: &'a str,
    index: i32,
    batch: &'a [u8],
    acks: i16,
) -> produce::Request<'a> {
    let partition = produce::Partition { index, records: Records::Bytes(batch) };
    let topic = produce::Topic {
        name: topic,
        partition_data: vec![partition].into(),
        ..Default::default()
    };
    produce::Request {
        acks,
        timeout_ms: 1_000,
        topic_data: vec![topic].into(),
        ..Default::default()
    }
}

/// Partitions as (topic, index, offset, partition_max_bytes), each in a topic entry of its own.
pub(crate) fn fetch_request<'a>(
    partitions: &[(&'a str, i32, i64, i32)],
    max_bytes: i32,
    min_bytes: i32,
    max_wait_ms: i32,
) -> fetch::Request<'a> {
    let topics = partitions.iter().map(|(topic, partition, fetch_offset, partition_max_bytes)| {
        fetch::Topic {
            topic,
            partitions: vec![fetch::Partition {
                partition: *partition,
                fetch_offset: *fetch_offset,
                partition_max_bytes: *partition_max_bytes,
                ..Default::default()
            }]
            .into(),
            ..Default::default()
        }
    });
    fetch::Request {
        replica_id: -1,
        max_wait_ms,
        min_bytes,
        max_bytes,
        topics: topics.collect(),
        ..Default::default()
    }
}
