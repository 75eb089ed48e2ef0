//! Who leads what, and where they are: learnt from Metadata, forgotten never, replaced by what is newer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rillway_wire::api::metadata;
use rillway_wire::{Array, ErrorCode, Uuid};

use super::TopicPartition;
use crate::Address;

/// A partition's leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leader {
    pub(super) node: i32,
    /// -1: the broker did not say.
    pub(super) epoch: i32,
}

#[derive(Debug, Default)]
struct Topic {
    id: Uuid,
    partitions: BTreeMap<i32, Leader>,
}

/// What is known of the cluster.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    nodes: BTreeMap<i32, Address>,
    controller: Option<i32>,
    topics: BTreeMap<Arc<str>, Topic>,
    /// The topics that somebody works with: only those are asked for.
    interest: BTreeSet<Arc<str>>,
    /// Something is missing or was found to be wrong.
    stale: bool,
    asked: bool,
    not_before: Duration,
    updated: Option<Duration>,
}

impl Metadata {
    /// Adds a topic to those that are kept.
    pub(super) fn follow(&mut self, topic: &Arc<str>) {
        if self.interest.insert(Arc::clone(topic)) {
            self.stale = true;
        }
    }

    /// Asks for an update: an answer or a failure said that what is known is wrong.
    pub(super) fn refresh(&mut self) {
        self.stale = true;
    }

    /// Whether to ask now.
    pub(super) fn is_due(&self, now: Duration, max_age: Duration) -> bool {
        let old = self.updated.is_some_and(|at| now >= at.saturating_add(max_age));
        (self.stale || old) && !self.asked && now >= self.not_before
    }

    /// When to ask, if that is in the future.
    pub(super) fn next_timer(&self, now: Duration, max_age: Duration) -> Option<Duration> {
        let aged = self.updated.map(|at| at.saturating_add(max_age));
        let stale = self.stale.then_some(self.not_before);
        [aged, stale].into_iter().flatten().filter(|at| *at > now).min()
    }

    /// The request; the answer goes to [`Self::update`], its failure to [`Self::failed`].
    pub(super) fn ask(&mut self) -> metadata::Request<'_> {
        self.asked = true;
        self.stale = false;
        let by_name = |name| metadata::TopicRequest { name: Some(name), ..Default::default() };
        let topics: Array<'_, _> = self.interest.iter().map(|t| by_name(&**t)).collect();
        metadata::Request {
            topics: Some(topics),
            allow_auto_topic_creation: false,
            ..Default::default()
        }
    }

    /// The request failed: another one after `backoff`.
    pub(super) fn failed(&mut self, now: Duration, backoff: Duration) {
        self.asked = false;
        self.stale = true;
        self.not_before = now.saturating_add(backoff);
    }

    /// Takes an answer in. A leader with a lower epoch than the known one is old news, from a broker that lags behind.
    pub(super) fn update(
        &mut self,
        answer: &metadata::Response<'_>,
        now: Duration,
        backoff: Duration,
    ) {
        self.asked = false;
        self.updated = Some(now);
        // Whatever went wrong before this answer is answered by it; what goes wrong after it waits its turn.
        self.not_before = now.saturating_add(backoff);
        self.controller = (answer.controller_id >= 0).then_some(answer.controller_id);
        let nodes: BTreeMap<i32, Address> = answer
            .brokers
            .iter()
            .filter_map(|broker| {
                let port = u16::try_from(broker.port).ok()?;
                let host = broker.host.to_string();
                Some((broker.node_id, Address { host, port }))
            })
            .collect();
        if !nodes.is_empty() {
            self.nodes = nodes;
        }
        for topic in &answer.topics {
            let Some(name) = topic.name.and_then(|name| self.interest.get(name)) else {
                continue;
            };
            let name = Arc::clone(name);
            if topic.error_code != ErrorCode::None {
                self.stale = true;
                continue;
            }
            let known = self.topics.entry(name).or_default();
            if known.id != topic.topic_id {
                // Deleted and created again: epochs start anew.
                *known = Topic { id: topic.topic_id, ..Topic::default() };
            }
            for partition in &topic.partitions {
                let leader = Leader { node: partition.leader_id, epoch: partition.leader_epoch };
                self.stale |= leader.node < 0;
                let newer = known
                    .partitions
                    .get(&partition.partition_index)
                    .is_none_or(|old| leader.epoch < 0 || leader.epoch >= old.epoch);
                if newer {
                    known.partitions.insert(partition.partition_index, leader);
                }
            }
        }
    }

    /// The leader, when there is one that can be reached.
    pub(super) fn leader(&self, at: &TopicPartition) -> Option<Leader> {
        let topic = self.topics.get(&at.topic)?;
        let leader = topic.partitions.get(&at.partition)?;
        self.nodes.contains_key(&leader.node).then_some(*leader)
    }

    /// Where a node is.
    pub(super) fn address(&self, node: i32) -> Option<&Address> {
        self.nodes.get(&node)
    }

    /// The nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = i32> {
        self.nodes.keys().copied()
    }

    /// The node that creates and deletes topics.
    pub(super) fn controller(&self) -> Option<i32> {
        self.controller.filter(|node| self.nodes.contains_key(node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(leader: i32, epoch: i32, id: u8) -> metadata::Response<'static> {
        let broker =
            |node_id| metadata::Broker { node_id, host: "h", port: 9000 + node_id, rack: None };
        let partition =
            metadata::Partition { leader_id: leader, leader_epoch: epoch, ..Default::default() };
        metadata::Response {
            brokers: vec![broker(1), broker(2)].into(),
            topics: vec![metadata::Topic {
                name: Some("t"),
                topic_id: Uuid([id; 16]),
                partitions: vec![partition].into(),
                ..Default::default()
            }]
            .into(),
            ..Default::default()
        }
    }

    const BACKOFF: Duration = Duration::from_millis(100);

    fn known(answers: &[metadata::Response<'static>]) -> (Metadata, TopicPartition) {
        let mut metadata = Metadata::default();
        metadata.follow(&Arc::from("t"));
        for answer in answers {
            metadata.update(answer, Duration::ZERO, BACKOFF);
        }
        (metadata, TopicPartition::new("t", 0))
    }

    #[test]
    fn an_older_epoch_does_not_bring_an_old_leader_back() {
        let (metadata, at) = known(&[answer(2, 7, 1), answer(1, 6, 1)]);
        assert_eq!(metadata.leader(&at), Some(Leader { node: 2, epoch: 7 }));
    }

    #[test]
    fn a_topic_that_was_created_again_starts_with_new_epochs() {
        let (metadata, at) = known(&[answer(2, 7, 1), answer(1, 0, 2)]);
        assert_eq!(metadata.leader(&at), Some(Leader { node: 1, epoch: 0 }));
    }

    #[test]
    fn a_partition_without_a_leader_is_asked_for_again_but_not_at_once() {
        let (metadata, at) = known(&[answer(-1, 3, 1)]);
        assert_eq!(metadata.leader(&at), None);
        assert!(!metadata.is_due(BACKOFF / 2, Duration::MAX));
        assert_eq!(metadata.next_timer(Duration::ZERO, Duration::MAX), Some(BACKOFF));
        assert!(metadata.is_due(BACKOFF, Duration::MAX));
    }
}
