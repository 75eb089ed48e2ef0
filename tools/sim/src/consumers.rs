//! Consumers: tails that follow a partition, readers at random offsets, and questions about offsets.

use std::collections::BTreeMap;
use std::rc::Rc;

use rillway_io::Runtime;
use rillway_wire::ErrorCode;
use rillway_wire::api::{fetch, list_offsets};

use crate::client::{Answer, Client};
use crate::hub::Hub;
use crate::oracle::compacted::{is_compacted, keys};
use crate::oracle::{Shown, Ticket};
use crate::rng::Rng;

const FETCH: i16 = 12;
const OFFSETS: i16 = 7;

/// See the module.
pub(crate) struct Consumer {
    pub hub: Rc<Hub>,
    pub rt: Runtime,
    pub rng: Rng,
    client: Option<Client>,
}

/// What a fetch of one partition brought.
enum Fetched {
    /// The offset to go on at, and what came.
    Next(i64, Vec<u8>),
    /// The offset is gone; the log starts here.
    Start(i64),
    Nothing,
}

impl Consumer {
    pub(crate) fn new(hub: &Rc<Hub>, rt: &Runtime, rng: Rng) -> Consumer {
        Consumer { hub: Rc::clone(hub), rt: rt.clone(), rng, client: None }
    }

    async fn connected(&mut self) -> bool {
        if self.client.is_none() || self.rng.percent(2) {
            let port = self.hub.any_port(&mut self.rng);
            self.client = None;
            self.client = Client::connect(&self.hub, &self.rt, port).await.ok();
        }
        self.client.is_some()
    }

    /// Fetches from one partition.
    async fn fetch(
        &mut self,
        ticket: &Ticket,
        offset: i64,
        max_bytes: i32,
        max_wait_ms: i32,
    ) -> Fetched {
        if !self.connected().await {
            return Fetched::Nothing;
        }
        let Some(client) = &mut self.client else {
            return Fetched::Nothing;
        };
        let partition = fetch::Partition {
            partition: ticket.index,
            fetch_offset: offset,
            partition_max_bytes: max_bytes,
            ..Default::default()
        };
        let topic = fetch::Topic {
            topic: &ticket.topic,
            partitions: vec![partition].into(),
            ..Default::default()
        };
        let request = fetch::Request {
            max_wait_ms,
            min_bytes: 1,
            max_bytes: max_bytes.max(1),
            topics: vec![topic].into(),
            ..Default::default()
        };
        let Ok(answer) = client.call(&request, FETCH).await else {
            self.client = None;
            return Fetched::Nothing;
        };
        let body: fetch::Response<'_> = answer.body(FETCH);
        let topic = body.responses.first().expect("one topic was asked for");
        let p = topic.partitions.first().expect("one partition was asked for");
        let oracle = &self.hub.oracle;
        match p.error_code {
            ErrorCode::None => {
                let shown = Shown {
                    offset,
                    high_watermark: p.high_watermark,
                    log_start: p.log_start_offset,
                    bytes: p.records.bytes(),
                    alone: true,
                };
                Fetched::Next(oracle.shown(ticket, &shown), shown.bytes.to_vec())
            }
            // As in Kafka the error tells no offsets; a client asks where the log begins.
            ErrorCode::OffsetOutOfRange => {
                let Some(start) = self.edge(ticket, list_offsets::EARLIEST).await else {
                    return Fetched::Nothing;
                };
                let Some(end) = self.edge(ticket, list_offsets::LATEST).await else {
                    return Fetched::Nothing;
                };
                self.hub.oracle.out_of_range(ticket, offset, start, end);
                Fetched::Start(start)
            }
            ErrorCode::NotLeaderOrFollower => Fetched::Nothing,
            ErrorCode::UnknownTopicOrPartition if !oracle.stable(ticket) => Fetched::Nothing,
            code => {
                oracle.complain(format!(
                    "fetch of {}-{} at {offset}: {code:?}",
                    ticket.topic, ticket.index
                ));
                Fetched::Nothing
            }
        }
    }

    /// Follows one partition, and takes another one when that is gone.
    pub(crate) async fn tail(mut self) {
        let mut follows: Option<(Ticket, i64)> = None;
        while self.hub.go_on(&self.rt, &mut self.rng).await {
            let topics = self.hub.oracle.settled();
            let gone = follows.as_ref().is_none_or(|(t, _)| !self.hub.oracle.stable(t));
            if gone || self.rng.percent(1) {
                follows = None;
                if !topics.is_empty() {
                    let (name, partitions) = self.rng.pick(&topics);
                    let ticket = self
                        .hub
                        .oracle
                        .ticket(name, self.rng.clone().index(*partitions as usize) as i32);
                    follows = ticket.map(|t| {
                        let start = t.start;
                        (t, start)
                    });
                }
            }
            let Some((ticket, offset)) = follows.take() else {
                continue;
            };
            let Some(ticket) = self.hub.oracle.ticket(&ticket.topic, ticket.index) else {
                continue;
            };
            let wait = self.rng.range(0, 300) as i32;
            follows = Some(match self.fetch(&ticket, offset, 1 << 20, wait).await {
                Fetched::Next(next, _) => (ticket, next),
                Fetched::Start(start) => (ticket, start),
                Fetched::Nothing => (ticket, offset),
            });
        }
    }

    /// Reads anywhere, and asks where the logs begin and end.
    pub(crate) async fn random(mut self) {
        while self.hub.go_on(&self.rt, &mut self.rng).await {
            let topics = self.hub.oracle.settled();
            if topics.is_empty() {
                continue;
            }
            let (name, partitions) = self.rng.pick(&topics).clone();
            let Some(ticket) =
                self.hub.oracle.ticket(&name, self.rng.index(partitions as usize) as i32)
            else {
                continue;
            };
            match self.rng.range(0, 10) {
                0..6 => {
                    let offset = self.rng.range(ticket.start as u64, ticket.end as u64 + 1) as i64;
                    let most = *self.rng.pick(&[1, 1_000, 60_000, 1 << 20]);
                    self.fetch(&ticket, offset, most, 0).await;
                }
                6..8 => self.offsets(&ticket, list_offsets::LATEST).await,
                8 => self.offsets(&ticket, list_offsets::EARLIEST).await,
                _ => {
                    let time = self.rt.wall_ms() - self.rng.range(0, 500) as i64;
                    let time =
                        if self.rng.percent(30) { list_offsets::MAX_TIMESTAMP } else { time };
                    self.offsets(&ticket, time).await;
                }
            }
        }
    }

    /// Where a log begins or ends; `None` if nobody can say now.
    async fn edge(&mut self, ticket: &Ticket, which: i64) -> Option<i64> {
        let answer = self.list_offsets(ticket, which).await?;
        let body: list_offsets::Response<'_> = answer.body(OFFSETS);
        let topic = body.topics.first().expect("one topic was asked for");
        let p = topic.partitions.first().expect("one partition was asked for");
        (p.error_code == ErrorCode::None).then_some(p.offset)
    }

    async fn list_offsets(&mut self, ticket: &Ticket, timestamp: i64) -> Option<Answer> {
        if !self.connected().await {
            return None;
        }
        let client = self.client.as_mut()?;
        let partition = list_offsets::Partition {
            partition_index: ticket.index,
            timestamp,
            ..Default::default()
        };
        let topic = list_offsets::Topic { name: &ticket.topic, partitions: vec![partition].into() };
        let request = list_offsets::Request {
            replica_id: -1,
            topics: vec![topic].into(),
            ..Default::default()
        };
        match client.call(&request, OFFSETS).await {
            Ok(answer) => Some(answer),
            Err(_) => {
                self.client = None;
                None
            }
        }
    }

    async fn offsets(&mut self, ticket: &Ticket, timestamp: i64) {
        let Some(answer) = self.list_offsets(ticket, timestamp).await else {
            return;
        };
        let body: list_offsets::Response<'_> = answer.body(OFFSETS);
        let topic = body.topics.first().expect("one topic was asked for");
        let p = topic.partitions.first().expect("one partition was asked for");
        let oracle = &self.hub.oracle;
        match p.error_code {
            ErrorCode::None => match timestamp {
                list_offsets::LATEST => {
                    oracle.end_shown(ticket, p.offset);
                    oracle.epoch_shown(ticket, p.leader_epoch);
                }
                list_offsets::EARLIEST => oracle.start_shown(ticket, p.offset),
                time => {
                    if time >= 0 && p.offset >= 0 && p.timestamp < time {
                        let (offset, found) = (p.offset, p.timestamp);
                        oracle.complain(format!(
                            "offset {offset} of time {found} for {time} ({})",
                            ticket.topic
                        ));
                    }
                }
            },
            ErrorCode::NotLeaderOrFollower => {}
            ErrorCode::UnknownTopicOrPartition if !oracle.stable(ticket) => {}
            code => {
                oracle.complain(format!("offsets of {}-{}: {code:?}", ticket.topic, ticket.index))
            }
        }
    }

    /// Reads every partition from its start to its end.
    pub(crate) async fn read_everything(mut self) {
        for (name, partitions) in self.hub.oracle.settled() {
            for index in 0..partitions {
                self.read_partition(&name, index).await;
            }
        }
    }

    async fn read_partition(&mut self, name: &str, index: i32) {
        let Some(first) = self.hub.oracle.ticket(name, index) else {
            return;
        };
        let compacted = is_compacted(name);
        let (mut from, mut bytes) = (first.start, 0u64);
        let mut present = BTreeMap::new();
        let mut next = from;
        let mut tries = 0;
        while tries < 200 && !self.hub.oracle.violated() {
            let Some(ticket) = self.hub.oracle.ticket(name, index) else {
                return;
            };
            if next >= ticket.end && next > first.start {
                break;
            }
            match self.fetch(&ticket, next, 1 << 20, 0).await {
                Fetched::Next(to, n) => {
                    bytes += n.len() as u64;
                    if compacted {
                        keys(&n, &mut present);
                    }
                    if to == next {
                        break;
                    }
                    next = to;
                }
                Fetched::Start(start) => {
                    // The log start moved while it was read: begin anew.
                    (from, next, bytes) = (start, start, 0);
                    present.clear();
                    tries += 1;
                }
                Fetched::Nothing => {
                    tries += 1;
                    self.rt.sleep(std::time::Duration::from_millis(20)).await;
                }
            }
        }
        if tries >= 200 {
            self.hub.oracle.complain(format!("{name}-{index} could not be read"));
        }
        self.hub.oracle.read_to_end(&first, from, next, bytes);
        if compacted && !self.hub.oracle.violated() {
            self.hub.oracle.read_compacted(&first, from, &present);
        }
    }
}
