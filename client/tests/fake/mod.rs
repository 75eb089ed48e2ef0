//! A broker of two nodes in memory, on the simulated network: enough of Kafka for a producer and a fetcher, with the
//! same rules for sequences, and with faults drawn from the world's seed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use rillway_io::{BindOptions, Class, Conn, IoList, Notify, Runtime};
use rillway_wire::api::{api_versions, fetch, init_producer_id, list_offsets, metadata, produce};
use rillway_wire::batch::{BatchView, assign, batches, records, sequence_after};
use rillway_wire::{ApiKey, ErrorCode, Frame, Message, Records, RequestHeader, ResponseMessage};

pub(crate) const TOPIC: &str = "orders";
pub(crate) const NODES: [i32; 2] = [1, 2];

/// How often something goes wrong, in percent of the requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chances {
    /// The connection ends before the request is looked at.
    pub(crate) drop_before: u64,
    /// The connection ends after the request was carried out.
    pub(crate) drop_after: u64,
    /// The partition is led by the other node from now on.
    pub(crate) move_leader: u64,
    /// The answer to the request comes after the answer to the next one.
    pub(crate) swap_answers: u64,
    /// The answer is nonsense.
    pub(crate) garbage: u64,
}

/// Base sequence, last sequence and offset of a batch.
type Known = (i32, i32, i64);

/// One partition.
#[derive(Default)]
pub(crate) struct Partition {
    pub(crate) leader: Cell<i32>,
    epoch: Cell<i32>,
    log: RefCell<Vec<u8>>,
    next: Cell<i64>,
    /// By producer id, the last five batches.
    producers: RefCell<BTreeMap<i64, Vec<Known>>>,
    appended: Notify,
}

/// What happened, to see that a test has met what it is about.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) duplicates: Cell<u64>,
    pub(crate) out_of_order: Cell<u64>,
    pub(crate) not_leader: Cell<u64>,
    pub(crate) dropped: Cell<u64>,
    pub(crate) swapped: Cell<u64>,
    pub(crate) garbage: Cell<u64>,
    /// ApiVersions requests above the only version that is served.
    pub(crate) versions_refused: Cell<u64>,
}

pub(crate) struct Fake {
    rt: Runtime,
    pub(crate) chances: Cell<Chances>,
    pub(crate) partitions: Vec<Partition>,
    pub(crate) seen: Seen,
    /// Answers every batch with this error.
    pub(crate) refuse: Cell<Option<ErrorCode>>,
    next_id: Cell<i64>,
}

fn count(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

pub(crate) fn port(node: i32) -> u16 {
    u16::try_from(9000 + node).expect("a small node id")
}

impl Fake {
    /// Starts both nodes on the first address of the world.
    pub(crate) fn start(rt: &Runtime, partitions: usize) -> Rc<Self> {
        let fake = Rc::new(Self {
            rt: rt.clone(),
            chances: Cell::default(),
            partitions: (0..partitions).map(|_| Partition::default()).collect(),
            seen: Seen::default(),
            refuse: Cell::new(None),
            next_id: Cell::new(70),
        });
        for (index, partition) in fake.partitions.iter().enumerate() {
            partition.leader.set(NODES[index % 2]);
        }
        for node in NODES {
            let served = Rc::clone(&fake);
            rt.spawn(Class::Control, async move {
                let at = SocketAddr::from(([0, 0, 0, 0], port(node)));
                let acceptor = served.rt.bind(at, BindOptions::default()).await.expect("bind");
                loop {
                    let conn = acceptor.accept().await.expect("accept");
                    let fake = Rc::clone(&served);
                    let task = fake.serve(node, conn);
                    served.rt.spawn(Class::Control, task).detach();
                }
            })
            .detach();
        }
        fake
    }

    /// The values in the log of a partition, in order.
    pub(crate) fn values(&self, partition: usize) -> Vec<Vec<u8>> {
        let log = self.partitions[partition].log.borrow();
        let mut values = Vec::new();
        for batch in batches(&log) {
            let batch = batch.expect("a whole batch");
            for record in records(batch.records()) {
                values.push(record.expect("a record").value.expect("a value").to_vec());
            }
        }
        values
    }

    fn happens(&self, percent: u64) -> bool {
        self.rt.random_u64() % 100 < percent
    }

    async fn serve(self: Rc<Self>, node: i32, conn: Conn) {
        let (mut input, mut held) = (Vec::new(), None);
        loop {
            let Some(content) = next_frame(&conn, &mut input).await else {
                return;
            };
            let chances = self.chances.get();
            let (header, body) = RequestHeader::decode(&content).expect("the client encodes well");
            let handshake = header.api_key == ApiKey::ApiVersions.code();
            if !handshake && self.happens(chances.drop_before) {
                count(&self.seen.dropped);
                return conn.shutdown();
            }
            let answer = self.answer(node, header, body).await;
            if !handshake && self.happens(chances.drop_after) {
                count(&self.seen.dropped);
                return conn.shutdown();
            }
            let mut answer = answer.into_bytes().expect("no holes");
            if !handshake && self.happens(chances.garbage) {
                count(&self.seen.garbage);
                answer[8..].fill(0xff);
            }
            let mut out = vec![answer];
            match held.take() {
                Some(earlier) => out.push(earlier),
                None if !handshake && self.happens(chances.swap_answers) => {
                    count(&self.seen.swapped);
                    held = out.pop();
                }
                None => {}
            }
            let mut list = IoList::new();
            out.into_iter().for_each(|bytes| list.push_bytes(bytes));
            if !list.is_empty() && conn.send(list).await.is_err() {
                return;
            }
        }
    }

    async fn answer(&self, node: i32, header: RequestHeader<'_>, body: &[u8]) -> Frame {
        let (version, id) = (header.api_version, header.correlation_id);
        match ApiKey::from_code(header.api_key).expect("a known API") {
            // Only version 0 is served, as by a very old broker: the first question is refused.
            ApiKey::ApiVersions if version > 0 => {
                count(&self.seen.versions_refused);
                let error_code = ErrorCode::UnsupportedVersion;
                api_versions::Response { error_code, ..Default::default() }.response_frame(0, id)
            }
            ApiKey::ApiVersions => versions().response_frame(0, id),
            ApiKey::Metadata => self.metadata().response_frame(version, id),
            ApiKey::InitProducerId => {
                self.next_id.set(self.next_id.get() + 1);
                let producer_id = self.next_id.get();
                init_producer_id::Response { producer_id, ..Default::default() }
                    .response_frame(version, id)
            }
            ApiKey::Produce => {
                let request = produce::Request::decode_body(body, version).expect("Produce");
                self.produce(node, &request).response_frame(version, id)
            }
            ApiKey::Fetch => {
                let request = fetch::Request::decode_body(body, version).expect("Fetch");
                self.fetch(node, &request, version, id).await
            }
            ApiKey::ListOffsets => {
                let request =
                    list_offsets::Request::decode_body(body, version).expect("ListOffsets");
                self.list_offsets(node, &request).response_frame(version, id)
            }
            other => panic!("nobody asks for {other} in these tests"),
        }
    }

    fn metadata(&self) -> metadata::Response<'static> {
        let broker = |node_id| metadata::Broker {
            node_id,
            host: "10.0.0.1",
            port: i32::from(port(node_id)),
            rack: None,
        };
        let partition = |(index, partition): (usize, &Partition)| metadata::Partition {
            partition_index: index as i32,
            leader_id: partition.leader.get(),
            leader_epoch: partition.epoch.get(),
            ..Default::default()
        };
        metadata::Response {
            brokers: NODES.into_iter().map(broker).collect(),
            controller_id: NODES[0],
            topics: vec![metadata::Topic {
                name: Some(TOPIC),
                partitions: self.partitions.iter().enumerate().map(partition).collect(),
                ..Default::default()
            }]
            .into(),
            ..Default::default()
        }
    }

    /// The partition, if this node leads it; now and then it does not any more.
    fn led(&self, node: i32, index: i32) -> Result<&Partition, ErrorCode> {
        let partition = &self.partitions[index as usize];
        if self.happens(self.chances.get().move_leader) {
            partition.leader.set(NODES[(self.rt.random_u64() % 2) as usize]);
            partition.epoch.set(partition.epoch.get() + 1);
        }
        if partition.leader.get() == node {
            Ok(partition)
        } else {
            count(&self.seen.not_leader);
            Err(ErrorCode::NotLeaderOrFollower)
        }
    }

    fn produce<'a>(&self, node: i32, request: &produce::Request<'a>) -> produce::Response<'a> {
        let topics = request.topic_data.iter().map(|topic| produce::TopicResponse {
            name: topic.name,
            partition_responses: topic
                .partition_data
                .iter()
                .map(|p| {
                    let done = match self.refuse.get() {
                        Some(code) => Err(code),
                        None => self
                            .led(node, p.index)
                            .and_then(|to| self.append(to, p.records.bytes())),
                    };
                    produce::PartitionResponse {
                        index: p.index,
                        error_code: done.err().unwrap_or(ErrorCode::None),
                        base_offset: done.unwrap_or(-1),
                        ..Default::default()
                    }
                })
                .collect(),
            ..Default::default()
        });
        produce::Response { responses: topics.collect(), ..Default::default() }
    }

    /// Kafka's rule: the next sequence is appended, one of the last five batches is a duplicate, all else is a gap.
    fn append(&self, to: &Partition, bytes: &[u8]) -> Result<i64, ErrorCode> {
        let batch = BatchView::validate_produce(bytes).map_err(|e| e.error_code())?;
        let offset = to.next.get();
        if batch.producer_id() >= 0 {
            let mut producers = to.producers.borrow_mut();
            let last = producers.entry(batch.producer_id()).or_default();
            let (base, end) = (batch.base_sequence(), batch.last_sequence());
            if let Some(known) = last.iter().find(|known| (known.0, known.1) == (base, end)) {
                count(&self.seen.duplicates);
                return Ok(known.2);
            }
            let expected = last.last().map_or(0, |last| sequence_after(last.1, 1));
            if base != expected {
                count(&self.seen.out_of_order);
                return Err(ErrorCode::OutOfOrderSequenceNumber);
            }
            last.push((base, end, offset));
            if last.len() > 5 {
                last.remove(0);
            }
        }
        let mut bytes = bytes.to_vec();
        assign(&mut bytes, offset, to.epoch.get());
        to.next.set(offset + i64::from(batch.record_count()));
        to.log.borrow_mut().extend_from_slice(&bytes);
        to.appended.notify_all();
        Ok(offset)
    }

    async fn fetch(&self, node: i32, request: &fetch::Request<'_>, version: i16, id: i32) -> Frame {
        let (mut topics, mut waits) = (Vec::new(), Vec::new());
        for topic in &request.topics {
            for p in &topic.partitions {
                let led = self.led(node, p.partition);
                let found = led.map(|from| {
                    waits.push(from.appended.notified());
                    read(from, p.fetch_offset, p.partition_max_bytes as usize)
                });
                topics.push((p.partition, found));
            }
        }
        if topics.iter().all(|(_, found)| found.as_ref().is_ok_and(|(bytes, _)| bytes.is_empty()))
            && let Some(first) = waits.pop()
        {
            // Nothing there: the answer is empty, but not at once.
            let wait = Duration::from_millis(request.max_wait_ms as u64);
            self.rt.timeout(wait, first).await;
        }
        let parts = topics.iter().map(|(index, found)| match found {
            Ok((bytes, high_watermark)) => fetch::PartitionResponse {
                partition_index: *index,
                high_watermark: *high_watermark,
                records: Records::Bytes(bytes),
                ..Default::default()
            },
            Err(code) => fetch::PartitionResponse {
                partition_index: *index,
                error_code: *code,
                high_watermark: -1,
                ..Default::default()
            },
        });
        let topic = fetch::TopicResponse {
            topic: TOPIC,
            partitions: parts.collect(),
            ..Default::default()
        };
        let responses = vec![topic].into();
        fetch::Response { responses, ..Default::default() }.response_frame(version, id)
    }

    fn list_offsets<'a>(
        &self,
        node: i32,
        request: &list_offsets::Request<'a>,
    ) -> list_offsets::Response<'a> {
        let part = |p: list_offsets::Partition| {
            let led = self.led(node, p.partition_index);
            let end = led.map(|from| from.next.get());
            let offset = if p.timestamp == list_offsets::EARLIEST { end.map(|_| 0) } else { end };
            list_offsets::PartitionResponse {
                partition_index: p.partition_index,
                error_code: offset.err().unwrap_or(ErrorCode::None),
                offset: offset.unwrap_or(-1),
                ..Default::default()
            }
        };
        let topics = request.topics.iter().map(|topic| list_offsets::TopicResponse {
            name: topic.name,
            partitions: topic.partitions.iter().map(part).collect(),
        });
        list_offsets::Response { topics: topics.collect(), ..Default::default() }
    }
}

/// The bytes from the batch with `offset` on: the first one whole, the last one perhaps cut off.
fn read(from: &Partition, offset: i64, max: usize) -> (Vec<u8>, i64) {
    let log = from.log.borrow();
    let mut at = 0;
    for batch in batches(&log) {
        let batch = batch.expect("a whole batch");
        if batch.next_offset() > offset {
            let len = batch.total_len().max(max).min(log.len() - at);
            return (log[at..at + len].to_vec(), from.next.get());
        }
        at += batch.total_len();
    }
    (Vec::new(), from.next.get())
}

fn versions() -> api_versions::Response<'static> {
    let served = [
        (ApiKey::ApiVersions, 0, 0),
        (ApiKey::Metadata, 0, 12),
        (ApiKey::InitProducerId, 0, 4),
        (ApiKey::Produce, 3, 11),
        (ApiKey::Fetch, 4, 12),
        (ApiKey::ListOffsets, 1, 7),
    ];
    let served = served.into_iter().map(|(api, min_version, max_version)| {
        api_versions::ApiVersion { api_key: api.code(), min_version, max_version }
    });
    api_versions::Response { api_keys: served.collect(), ..Default::default() }
}

/// The content of the next frame; `None` when the connection has ended.
async fn next_frame(conn: &Conn, input: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some((len, rest)) = input.split_first_chunk::<4>() {
            let len = u32::from_be_bytes(*len) as usize;
            if rest.len() >= len {
                let content = rest[..len].to_vec();
                input.drain(..4 + len);
                return Some(content);
            }
        }
        match conn.recv(input, 1 << 20).await {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}
