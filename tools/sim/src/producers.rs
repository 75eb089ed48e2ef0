//! Producers: plain ones and idempotent ones, several batches in flight, retries over new connections.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use rillway_io::Runtime;
use rillway_wire::api::{init_producer_id, produce};
use rillway_wire::batch::{BatchBuilder, Codec};
use rillway_wire::{ErrorCode, Records};

use crate::client::{Client, Lost};
use crate::hub::Hub;
use crate::oracle::compacted::{ID, is_compacted};
use crate::oracle::{Order, SendId, Ticket};
use crate::rng::Rng;

const VERSION: i16 = 9;

/// A batch that is under way.
struct Batch {
    send: SendId,
    bytes: Vec<u8>,
}

/// What one attempt came to.
enum Outcome {
    Acknowledged,
    /// It was not appended.
    Refused(ErrorCode),
    /// It may or may not be there.
    Unknown,
}

/// What both kinds are made of.
pub(crate) struct Producer {
    pub hub: Rc<Hub>,
    pub rt: Runtime,
    pub rng: Rng,
    /// Makes every batch unique.
    pub name: u64,
    /// Most bytes of a batch, about.
    pub largest: u64,
    made: u64,
    client: Option<(Client, u64)>,
}

impl Producer {
    pub(crate) fn new(hub: &Rc<Hub>, rt: &Runtime, rng: Rng, name: u64, largest: u64) -> Producer {
        Producer { hub: Rc::clone(hub), rt: rt.clone(), rng, name, largest, made: 0, client: None }
    }

    /// A batch for a topic. Keyed, with tombstones and another codec now and then, if that is compacted.
    fn batch(&mut self, topic: &str, producer: Option<(i64, i32)>) -> (Vec<u8>, i32) {
        let compacted = is_compacted(topic);
        let codec = if compacted && self.rng.percent(20) {
            *self.rng.pick(&[Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd])
        } else if self.rng.percent(5) {
            Codec::Lz4
        } else {
            Codec::None
        };
        let mut builder = BatchBuilder::new(codec);
        if let Some((id, sequence)) = producer {
            builder = builder.producer(id, 0, sequence);
        }
        let records = if self.rng.percent(70) { 1 } else { self.rng.range(1, 6) };
        let bytes = if self.rng.percent(60) {
            self.rng.range(1, 500)
        } else {
            self.rng.range(500, self.largest)
        };
        for _ in 0..records {
            self.made += 1;
            let mut value = Vec::with_capacity(bytes as usize + 24);
            value.extend_from_slice(&self.name.to_le_bytes());
            value.extend_from_slice(&self.made.to_le_bytes());
            let pattern = self.rng.next().to_le_bytes();
            while value.len() < (bytes / records) as usize {
                value.extend_from_slice(&pattern);
            }
            let timestamp = self.rt.wall_ms() - self.rng.range(0, 50) as i64;
            if compacted {
                let id = [self.name.to_le_bytes(), self.made.to_le_bytes()].concat();
                let key = [self.rng.range(0, 25) as u8];
                let value = (!self.rng.percent(20)).then_some(&value[..]);
                builder.push(timestamp, Some(&key), value, &[(ID, Some(&id))]);
            } else {
                builder.push(timestamp, None, Some(&value), &[]);
            }
        }
        (builder.build().expect("batches are built in memory"), records as i32)
    }

    fn pick(&mut self) -> Option<(String, i32)> {
        let topics = self.hub.oracle.settled();
        if topics.is_empty() {
            return None;
        }
        let (name, partitions) = self.rng.pick(&topics).clone();
        Some((name, self.rng.index(partitions as usize) as i32))
    }

    async fn connected(&mut self) -> Result<(), Lost> {
        if self.client.is_none() || self.rng.percent(1) {
            let port = self.hub.any_port(&mut self.rng);
            self.client = None;
            let client = Client::connect(&self.hub, &self.rt, port).await?;
            self.client = Some((client, self.hub.connection()));
        }
        Ok(())
    }

    /// Sends the batches, one request each, and takes the answers: one outcome per batch, in order.
    async fn attempt(
        &mut self,
        ticket: &Ticket,
        batches: &[Vec<u8>],
        sends: &[SendId],
    ) -> Vec<Outcome> {
        let mut outcomes: Vec<Outcome> = Vec::new();
        let acks = if self.rng.percent(80) { -1 } else { 1 };
        if let Some((client, _)) = &mut self.client {
            let mut sent = Vec::new();
            for bytes in batches {
                let partition =
                    produce::Partition { index: ticket.index, records: Records::Bytes(bytes) };
                let topic =
                    produce::Topic { name: &ticket.topic, partition_data: vec![partition].into() };
                let request = produce::Request {
                    acks,
                    timeout_ms: 1_000,
                    topic_data: vec![topic].into(),
                    ..Default::default()
                };
                match client.send(&request, VERSION).await {
                    Ok(correlation) => sent.push(correlation),
                    Err(Lost) => break,
                }
            }
            for (correlation, send) in sent.into_iter().zip(sends) {
                let Ok(answer) = client.receive(correlation).await else {
                    break;
                };
                let body: produce::Response<'_> = answer.body(VERSION);
                let topic = body.responses.first().expect("one topic was sent");
                let p = topic.partition_responses.first().expect("one partition was sent");
                outcomes.push(match p.error_code {
                    ErrorCode::None => {
                        self.hub.oracle.acknowledged(
                            *send,
                            ticket,
                            p.base_offset,
                            p.log_start_offset,
                        );
                        Outcome::Acknowledged
                    }
                    // The broker is stopping: it may have been appended.
                    ErrorCode::NotLeaderOrFollower => Outcome::Unknown,
                    code => {
                        let what = p.error_message.unwrap_or_default();
                        self.hub.say(&self.rt, || {
                            format!("produce {}-{}: {code:?} {what}", ticket.topic, ticket.index)
                        });
                        if code == ErrorCode::KafkaStorageError && !what.contains("no room") {
                            self.hub.oracle.complain(format!(
                                "produce to {}-{}: {what}",
                                ticket.topic, ticket.index
                            ));
                        }
                        Outcome::Refused(code)
                    }
                });
            }
        }
        if outcomes.len() < batches.len() {
            self.client = None;
        }
        outcomes.resize_with(batches.len(), || Outcome::Unknown);
        outcomes
    }

    /// An answer that no order of events explains.
    fn unexpected(&self, ticket: &Ticket, code: ErrorCode) {
        let fine = match code {
            ErrorCode::KafkaStorageError => {
                self.hub.seen.borrow_mut().disk_full += 1;
                true
            }
            ErrorCode::UnknownTopicOrPartition => !self.hub.oracle.stable(ticket),
            _ => false,
        };
        if !fine {
            self.hub
                .oracle
                .complain(format!("produce to {}-{}: {code:?}", ticket.topic, ticket.index));
        }
    }

    /// Plain batches, some of which are sent again when their fate is unknown.
    pub(crate) async fn plain(mut self) {
        while self.hub.go_on(&self.rt, &mut self.rng).await {
            let Some((topic, index)) = self.pick() else {
                continue;
            };
            if self.connected().await.is_err() {
                continue;
            }
            let Some(ticket) = self.hub.oracle.ticket(&topic, index) else {
                continue;
            };
            let n = self.rng.range(1, 5);
            let mut batches: Vec<Vec<u8>> = (0..n).map(|_| self.batch(&topic, None).0).collect();
            let connection = self.hub.connection();
            let mut sends: Vec<SendId> = Vec::new();
            for (n, bytes) in batches.iter().enumerate() {
                let order = Order::Connection { connection, n: n as u64 };
                sends.push(self.hub.oracle.sending(&ticket, bytes, order));
            }
            for _ in 0..3 {
                let outcomes = self.attempt(&ticket, &batches, &sends).await;
                let mut unknown = Vec::new();
                for (at, outcome) in outcomes.iter().enumerate() {
                    match outcome {
                        Outcome::Acknowledged => {}
                        Outcome::Refused(code) => {
                            self.unexpected(&ticket, *code);
                            self.hub.oracle.refused(sends[at], &ticket);
                        }
                        Outcome::Unknown => unknown.push(at),
                    }
                }
                if unknown.is_empty()
                    || self.rng.percent(50)
                    || !self.hub.go_on(&self.rt, &mut self.rng).await
                {
                    break;
                }
                batches = unknown.iter().map(|at| std::mem::take(&mut batches[*at])).collect();
                sends = unknown.iter().map(|at| sends[*at]).collect();
                if self.connected().await.is_err() {
                    break;
                }
                self.hub.seen.borrow_mut().retries += 1;
                sends.iter().for_each(|send| self.hub.oracle.again(*send));
            }
        }
    }

    async fn producer_id(&mut self) -> Option<i64> {
        self.connected().await.ok()?;
        let (client, _) = self.client.as_mut()?;
        let request =
            init_producer_id::Request { transaction_timeout_ms: 1_000, ..Default::default() };
        let Ok(answer) = client.call(&request, 4).await else {
            self.client = None;
            return None;
        };
        let body: init_producer_id::Response = answer.body(4);
        match body.error_code {
            ErrorCode::None => Some(body.producer_id),
            ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => None,
            code => {
                self.hub.oracle.complain(format!("InitProducerId: {code:?}"));
                None
            }
        }
    }

    /// Exactly once: a window of batches is sent again, whole and in order, until each is acknowledged.
    pub(crate) async fn idempotent(mut self, ids: Rc<std::cell::RefCell<BTreeSet<i64>>>) {
        let mut id: Option<i64> = None;
        let mut sequences: BTreeMap<(String, i32), i32> = BTreeMap::new();
        let mut window: VecDeque<Batch> = VecDeque::new();
        let mut target: Option<Ticket> = None;
        // Whether the window is sent for the first time, or again after a pass in which nothing was refused.
        let mut clean = true;
        // Partitions that know the producer: there a sequence that is not the next one is always refused.
        let mut known: BTreeSet<(String, i32)> = BTreeSet::new();
        let mut stuck = 0;
        while self.hub.go_on(&self.rt, &mut self.rng).await {
            let Some(own) = id else {
                id = self.producer_id().await;
                if let Some(new) = id {
                    if !ids.borrow_mut().insert(new) {
                        self.hub.oracle.complain(format!("producer id {new} was given out twice"));
                    }
                    sequences.clear();
                    known.clear();
                    window.clear();
                    stuck = 0;
                }
                continue;
            };
            if target.as_ref().is_some_and(|t| !self.hub.oracle.stable(t)) {
                // The topic is another one, or none: its sequences mean nothing now.
                id = None;
                target = None;
                continue;
            }
            if window.is_empty() {
                let Some((topic, index)) = self.pick() else {
                    continue;
                };
                let Some(ticket) = self.hub.oracle.ticket(&topic, index) else {
                    continue;
                };
                for _ in 0..self.rng.range(1, 6) {
                    let next = sequences.entry((topic.clone(), index)).or_insert(0);
                    let sequence = *next;
                    let (bytes, records) = self.batch(&topic, Some((own, sequence)));
                    *sequences.get_mut(&(topic.clone(), index)).expect("put a moment ago") +=
                        records;
                    let send = self.hub.oracle.sending(
                        &ticket,
                        &bytes,
                        Order::Producer { id: own, sequence },
                    );
                    window.push_back(Batch { send, bytes });
                }
                target = Some(ticket);
                clean = true;
            } else {
                self.hub.seen.borrow_mut().retries += 1;
                window.iter().for_each(|b| self.hub.oracle.again(b.send));
            }
            let Some(was) = target.clone() else { continue };
            // What is known now counts for this attempt.
            let Some(ticket) = self.hub.oracle.ticket(&was.topic, was.index) else {
                continue;
            };
            if self.connected().await.is_err() {
                continue;
            }
            let bytes: Vec<Vec<u8>> = window.iter().map(|b| b.bytes.clone()).collect();
            let sends: Vec<SendId> = window.iter().map(|b| b.send).collect();
            let outcomes = self.attempt(&ticket, &bytes, &sends).await;
            let mut refused = false;
            let mut left = VecDeque::new();
            for (batch, outcome) in window.drain(..).zip(&outcomes) {
                match outcome {
                    Outcome::Acknowledged if left.is_empty() => {
                        stuck = 0;
                        known.insert((ticket.topic.clone(), ticket.index));
                    }
                    Outcome::Acknowledged | Outcome::Unknown => left.push_back(batch),
                    Outcome::Refused(ErrorCode::OutOfOrderSequenceNumber) => {
                        // Right behind one that was refused; wrong at the head, unless the topic changed.
                        let expects = known.contains(&(ticket.topic.clone(), ticket.index));
                        stuck += usize::from(left.is_empty());
                        if !refused
                            && clean
                            && expects
                            && left.is_empty()
                            && self.hub.oracle.stable(&ticket)
                        {
                            self.hub.oracle.complain(format!(
                                "{}-{}: OUT_OF_ORDER_SEQUENCE_NUMBER for the oldest batch of producer {own} ({:?})",
                                ticket.topic, ticket.index, batch.send
                            ));
                        }
                        refused = true;
                        left.push_back(batch);
                    }
                    Outcome::Refused(code) => {
                        self.unexpected(&ticket, *code);
                        refused = true;
                        left.push_back(batch);
                    }
                }
            }
            window = left;
            clean = !refused;
            if window.is_empty() {
                target = None;
            } else if stuck > 3 {
                // A later batch of a new producer was taken while its first one was refused for want of room.
                id = None;
                target = None;
            }
        }
    }
}
