//! What goes out: for each thing that is due, the connection it goes to and the request that says it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use rillway_wire::api::{
    create_partitions, create_topics, delete_topics, describe_configs, fetch,
    incremental_alter_configs, init_producer_id, list_offsets, metadata, produce,
};
use rillway_wire::{ApiKey, Frame, Part, Records, RequestMessage};

use super::calls::{Call, CallId};
use super::peers::{LinkId, Peer};
use super::producer::Sent;
use super::{Core, Effect, Purpose, TopicPartition};
use crate::config::Acks;
use crate::error::{Error, Result};

/// Most requests of other kinds than Produce and Fetch on their way over one connection.
const MAX_QUESTIONS: usize = 8;

impl Core {
    pub(super) fn ask_metadata(&mut self, now: Duration) {
        if !self.metadata.is_due(now, self.config.metadata_max_age) {
            return;
        }
        let Some(link) = self.peers.any(&self.metadata, &mut self.effects, now) else {
            return;
        };
        let Some(version) = self.version(link, ApiKey::Metadata, now) else {
            return;
        };
        let deadline = self.deadline(now);
        let Some(open) = self.peers.link(link) else {
            return;
        };
        let request = self.metadata.ask();
        let frame = open.request(&request, version, deadline, Purpose::Metadata);
        self.push_frame(link, frame, &mut std::iter::empty());
    }

    pub(super) fn ask_producer_id(&mut self, now: Duration) {
        if !self.producer.as_ref().is_some_and(|p| p.wants_id(now)) {
            return;
        }
        let Some(link) = self.peers.any(&self.metadata, &mut self.effects, now) else {
            return;
        };
        let request =
            init_producer_id::Request { transaction_timeout_ms: i32::MAX, ..Default::default() };
        if self.ask(link, &request, Purpose::ProducerId, now).is_some()
            && let Some(producer) = &mut self.producer
        {
            producer.id_asked();
        }
    }

    /// Sends the batches that are due: of each partition one, to its leader, as long as nodes take more.
    pub(super) fn send_batches(&mut self, now: Duration) {
        loop {
            let Some(producer) = &self.producer else {
                return;
            };
            let mut by_node: BTreeMap<i32, Vec<TopicPartition>> = BTreeMap::new();
            for at in producer.due(now) {
                match self.metadata.leader(at) {
                    Some(leader) => by_node.entry(leader.node).or_default().push(at.clone()),
                    None => self.metadata.refresh(),
                }
            }
            let mut sent = false;
            for (node, partitions) in by_node {
                sent |= self.send_to(node, &partitions, now);
            }
            if !sent {
                return;
            }
        }
    }

    fn send_to(&mut self, node: i32, partitions: &[TopicPartition], now: Duration) -> bool {
        let peer = Peer::Node(node);
        let Some(link) = self.peers.ready(peer, &self.metadata, &mut self.effects, now) else {
            return false;
        };
        let on_their_way = self.peers.in_flight(link, |p| matches!(p, Purpose::Produce(_)));
        let Some(version) = self.version(link, ApiKey::Produce, now) else {
            return false;
        };
        let deadline = self.deadline(now);
        let Some(producer) = &mut self.producer else {
            return false;
        };
        if on_their_way >= producer.config().requests_per_node {
            return false;
        }
        let taken = producer.take(partitions, now);
        let Some(open) = self.peers.link(link).filter(|_| !taken.is_empty()) else {
            return false;
        };
        let request = produce::Request {
            transactional_id: None,
            acks: match producer.config().acks {
                Acks::Leader => 1,
                Acks::All => -1,
            },
            timeout_ms: millis(producer.config().replica_timeout),
            topic_data: by_topic(taken.iter().map(|(sent, batch)| (&sent.at, batch)))
                .map(|(name, lines)| produce::Topic {
                    name,
                    partition_data: lines
                        .into_iter()
                        .map(|(at, batch)| produce::Partition {
                            index: at.partition,
                            records: Records::Later(batch.len()),
                        })
                        .collect(),
                    ..Default::default()
                })
                .collect(),
        };
        let purpose: Vec<Sent> = taken.iter().map(|(sent, _)| sent.clone()).collect();
        let frame = open.request(&request, version, deadline, Purpose::Produce(purpose));
        self.push_frame(link, frame, &mut taken.into_iter().map(|(_, batch)| batch));
        true
    }

    /// Asks each node for what it leads, one request at a time.
    pub(super) fn fetch(&mut self, now: Duration) {
        let Some(fetcher) = &self.fetcher else { return };
        let mut by_node: BTreeMap<i32, Vec<TopicPartition>> = BTreeMap::new();
        for at in fetcher.due(now) {
            match self.metadata.leader(&at) {
                Some(leader) => by_node.entry(leader.node).or_default().push(at),
                None => self.metadata.refresh(),
            }
        }
        for (node, partitions) in by_node {
            self.fetch_from(node, &partitions, now);
        }
    }

    fn fetch_from(&mut self, node: i32, partitions: &[TopicPartition], now: Duration) {
        let peer = Peer::Fetch(node);
        let Some(link) = self.peers.ready(peer, &self.metadata, &mut self.effects, now) else {
            return;
        };
        if self.peers.in_flight(link, |_| true) > 0 {
            return;
        }
        let Some(version) = self.version(link, ApiKey::Fetch, now) else {
            return;
        };
        let deadline = self.deadline(now);
        let (Some(fetcher), Some(open)) = (&mut self.fetcher, self.peers.link(link)) else {
            return;
        };
        let deadline = deadline.saturating_add(fetcher.config().max_wait);
        let lines = fetcher.ask(partitions);
        let metadata = &self.metadata;
        // An epoch lets the broker refuse a reader whose metadata is old, instead of serving it from an old leader.
        let epoch = |at: &TopicPartition| metadata.leader(at).map_or(-1, |leader| leader.epoch);
        let request = fetch::Request {
            max_wait_ms: millis(fetcher.config().max_wait),
            min_bytes: fetcher.config().min_bytes,
            max_bytes: fetcher.config().max_bytes,
            topics: by_topic(lines.iter().map(|line| (&line.0, line)))
                .map(|(topic, lines)| fetch::Topic {
                    topic,
                    partitions: lines
                        .into_iter()
                        .map(|(at, (_, offset, max_bytes))| fetch::Partition {
                            partition: at.partition,
                            current_leader_epoch: epoch(at),
                            fetch_offset: *offset,
                            partition_max_bytes: *max_bytes,
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        };
        let asked = lines.iter().map(|(at, offset, _)| (at.clone(), *offset)).collect();
        let frame = open.request(&request, version, deadline, Purpose::Fetch(asked));
        self.push_frame(link, frame, &mut std::iter::empty());
    }

    pub(super) fn ask_calls(&mut self, now: Duration) {
        for id in self.calls.due(now) {
            if let Some(pending) = self.calls.get(id) {
                let timeout_ms = millis(pending.time_left(now));
                let call = pending.call.clone();
                let unknown: Vec<TopicPartition> = pending.unknown().cloned().collect();
                self.ask_call(id, &call, timeout_ms, unknown, now);
            }
        }
    }

    fn ask_call(
        &mut self,
        id: CallId,
        call: &Call,
        timeout_ms: i32,
        unknown: Vec<TopicPartition>,
        now: Duration,
    ) {
        let purpose = Purpose::Call(id, Vec::new());
        let asked = match call {
            Call::Group { group, ask } => self.ask_group(id, group, ask, now),
            Call::ListGroups(node) => self.ask_groups(purpose, *node, now),
            Call::Nodes => {
                let request = metadata::Request {
                    topics: Some(Vec::new().into()),
                    allow_auto_topic_creation: false,
                    ..Default::default()
                };
                let link = self.peers.any(&self.metadata, &mut self.effects, now);
                link.and_then(|link| self.ask(link, &request, purpose, now))
            }
            Call::DescribeBroker(node) => {
                let name = node.to_string();
                let resource = describe_configs::Resource {
                    resource_type: describe_configs::BROKER,
                    resource_name: &name,
                    configuration_keys: None,
                };
                let request = describe_configs::Request {
                    resources: vec![resource].into(),
                    ..Default::default()
                };
                let link = self.node(*node, now);
                link.and_then(|link| self.ask(link, &request, purpose, now))
            }
            Call::ListOffsets { timestamp, .. } => {
                return self.ask_offsets(id, *timestamp, unknown, now);
            }
            Call::Topics(names) => {
                let by_name =
                    |name| metadata::TopicRequest { name: Some(name), ..Default::default() };
                let topics =
                    names.as_ref().map(|names| names.iter().map(|n| by_name(n.as_str())).collect());
                let request = metadata::Request {
                    topics,
                    allow_auto_topic_creation: false,
                    ..Default::default()
                };
                let link = self.peers.any(&self.metadata, &mut self.effects, now);
                link.and_then(|link| self.ask(link, &request, purpose, now))
            }
            Call::CreateTopic(topic) => {
                let request = create_topics::Request {
                    topics: vec![topic.to_wire()].into(),
                    timeout_ms,
                    validate_only: false,
                };
                let link = self.controller(now);
                link.and_then(|link| self.ask(link, &request, purpose, now))
            }
            Call::DescribeTopic(name) => {
                let resource = describe_configs::Resource {
                    resource_type: describe_configs::TOPIC,
                    resource_name: name,
                    configuration_keys: None,
                };
                let request = describe_configs::Request {
                    resources: vec![resource].into(),
                    ..Default::default()
                };
                let link = self.peers.any(&self.metadata, &mut self.effects, now);
                link.and_then(|link| self.ask(link, &request, purpose, now))
            }
            Call::AlterTopic { topic, changes } => {
                let configs =
                    changes.iter().map(|(name, value)| incremental_alter_configs::Config {
                        name,
                        config_operation: match value {
                            Some(_) => incremental_alter_configs::SET,
                            None => incremental_alter_configs::DELETE,
                        },
                        value: value.as_deref(),
                    });
                let resource = incremental_alter_configs::Resource {
                    resource_type: describe_configs::TOPIC,
                    resource_name: topic,
                    configs: configs.collect(),
                };
                let request = incremental_alter_configs::Request {
                    resources: vec![resource].into(),
                    validate_only: false,
                };
                let link = self.controller(now);
                link.and_then(|link| self.ask(link, &request, purpose, now))
            }
            Call::GrowTopic { topic, count } => {
                let grown =
                    create_partitions::Topic { name: topic, count: *count, assignments: None };
                let request = create_partitions::Request {
                    topics: vec![grown].into(),
                    timeout_ms,
                    validate_only: false,
                };
                let link = self.controller(now);
                link.and_then(|link| self.ask(link, &request, purpose, now))
            }
            Call::DeleteTopic(name) => {
                let request = delete_topics::Request {
                    topic_names: vec![name.as_str()].into(),
                    timeout_ms,
                    ..Default::default()
                };
                let link = self.controller(now);
                link.and_then(|link| self.ask(link, &request, purpose, now))
            }
        };
        if asked.is_some() {
            self.calls.asked(id, &[]);
        }
    }

    fn ask_offsets(
        &mut self,
        id: CallId,
        timestamp: i64,
        unknown: Vec<TopicPartition>,
        now: Duration,
    ) {
        let mut by_node: BTreeMap<i32, Vec<TopicPartition>> = BTreeMap::new();
        for at in unknown {
            match self.metadata.leader(&at) {
                Some(leader) => by_node.entry(leader.node).or_default().push(at),
                None => self.metadata.refresh(),
            }
        }
        for (node, partitions) in by_node {
            let peer = Peer::Node(node);
            let Some(link) = self.peers.ready(peer, &self.metadata, &mut self.effects, now) else {
                continue;
            };
            let request = list_offsets::Request {
                replica_id: -1,
                topics: by_topic(partitions.iter().map(|at| (at, ())))
                    .map(|(name, lines)| list_offsets::Topic {
                        name,
                        partitions: lines
                            .into_iter()
                            .map(|(at, ())| list_offsets::Partition {
                                partition_index: at.partition,
                                timestamp,
                                ..Default::default()
                            })
                            .collect(),
                    })
                    .collect(),
                ..Default::default()
            };
            let purpose = Purpose::Call(id, partitions.clone());
            if self.ask(link, &request, purpose, now).is_some() {
                self.calls.asked(id, &partitions);
            }
        }
    }

    /// The controller if it is known, else anybody: brokers pass such requests on, or say who it is by an error.
    fn controller(&mut self, now: Duration) -> Option<LinkId> {
        match self.metadata.controller() {
            Some(node) => {
                self.peers.ready(Peer::Node(node), &self.metadata, &mut self.effects, now)
            }
            None => self.peers.any(&self.metadata, &mut self.effects, now),
        }
    }

    /// Sends a request, unless the connection has enough of them already.
    pub(super) fn ask<'a, R: RequestMessage<'a>>(
        &mut self,
        link: LinkId,
        request: &R,
        purpose: Purpose,
        now: Duration,
    ) -> Option<()> {
        let questions = |p: &Purpose| !matches!(p, Purpose::Produce(_) | Purpose::Fetch(_));
        if self.peers.in_flight(link, questions) >= MAX_QUESTIONS {
            return None;
        }
        let version = match self.peers.link(link)?.version(R::API) {
            Ok(version) => version,
            Err(error) => {
                self.refuse(purpose, error);
                return None;
            }
        };
        let deadline = self.deadline(now);
        let frame = self.peers.link(link)?.request(request, version, deadline, purpose);
        self.push_frame(link, frame, &mut std::iter::empty());
        Some(())
    }

    /// The broker does not serve what is needed, and no retry will change that.
    pub(super) fn refuse(&mut self, purpose: Purpose, error: Error) {
        match purpose {
            Purpose::Call(id, _) => self.calls.finish(id, Err(error)),
            Purpose::ProducerId | Purpose::Produce(_) => {
                if let Some(producer) = &mut self.producer {
                    producer.fail_all(&error);
                }
            }
            Purpose::Metadata | Purpose::Fetch(_) => self.last_error = Some(error),
        }
    }

    /// The version to ask in; without one, the connection is of no use for this.
    fn version(&mut self, link: LinkId, api: ApiKey, now: Duration) -> Option<i16> {
        let version: Result<i16> = self.peers.link(link)?.version(api);
        match version {
            Ok(version) => Some(version),
            Err(error) => {
                self.abandon(link, error, now);
                None
            }
        }
    }

    fn deadline(&self, now: Duration) -> Duration {
        now.saturating_add(self.config.request_timeout)
    }

    /// Turns a frame into parts, with the batches where it has holes.
    pub(super) fn push_frame(
        &mut self,
        link: LinkId,
        frame: Frame,
        batches: &mut dyn Iterator<Item = Bytes>,
    ) {
        let mut parts = Vec::new();
        // The bytes between the batches are few: copied once here, so that each part owns its memory.
        for part in frame.parts() {
            match part {
                Part::Bytes(bytes) => parts.push(Bytes::copy_from_slice(bytes)),
                Part::Records { len, .. } => {
                    let batch = batches.next().filter(|batch| batch.len() == len);
                    parts.push(batch.expect("every hole was made for a batch of its length"));
                }
            }
        }
        self.effects.push_back(Effect::Send { link, parts });
    }
}

/// Groups lines that stand in the order of their partitions by topic.
pub(super) fn by_topic<'a, T: 'a>(
    lines: impl Iterator<Item = (&'a TopicPartition, T)>,
) -> impl Iterator<Item = (&'a str, Vec<(&'a TopicPartition, T)>)> {
    let mut topics: Vec<(&str, Vec<(&TopicPartition, T)>)> = Vec::new();
    for (at, line) in lines {
        match topics.last_mut() {
            Some((topic, lines)) if **topic == *at.topic => lines.push((at, line)),
            _ => topics.push((&at.topic, vec![(at, line)])),
        }
    }
    topics.into_iter()
}

/// A duration as the protocol has it.
fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
