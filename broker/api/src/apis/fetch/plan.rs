//! What a fetch is for: the partitions to read, found in the view, and where each stands in the answer.

use std::rc::Rc;
use std::sync::Arc;

use rillway_shard::{
    FetchPartition, PartitionId, Topic as KnownTopic, TopicId, View, partition_of,
};
use rillway_wire::api::fetch::{Partition, Request as Body};
use rillway_wire::{ErrorCode, Uuid};

use crate::fetch_sessions::{Session, TopicKey, Turn, Wanted};

/// A topic of the answer.
pub(super) struct Topic {
    pub key: TopicKey,
    pub partitions: Vec<Line>,
}

/// A partition of the answer.
pub(super) struct Line {
    pub index: i32,
    pub place: Place,
    /// Its place in the session.
    pub turn: Option<Turn>,
}

#[derive(Clone, Copy)]
pub(super) enum Place {
    /// Which of those that are read.
    Asked(usize, PartitionId),
    Failed(ErrorCode),
}

#[derive(Default)]
pub(super) struct Plan {
    pub topics: Vec<Topic>,
    pub asked: Vec<FetchPartition>,
    /// For a new session, in the order of the lines: what the reader wants, and the name of a topic that was found by id.
    pub wanted: Vec<(Wanted, Option<Rc<str>>)>,
    /// There are partitions that were not found.
    pub has_failed: bool,
}

impl Plan {
    /// From a request that names all that it wants.
    pub(super) fn of_request(body: &Body<'_>, by_id: bool, view: &View, new_session: bool) -> Plan {
        let mut plan = Plan::default();
        for topic in &body.topics {
            let key = key(topic.topic, topic.topic_id, by_id);
            let known = known(view, &key);
            let name = known.filter(|_| by_id && new_session).map(|t| Rc::from(t.name.as_str()));
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for p in &topic.partitions {
                let wanted = wanted_of(&key, &p);
                let place = plan.place(&wanted, found(view, known, &wanted, None));
                partitions.push(Line { index: p.partition, place, turn: None });
                if new_session {
                    plan.wanted.push((wanted, name.clone()));
                }
            }
            plan.topics.push(Topic { key, partitions });
        }
        plan
    }

    /// From a session: all that is in it.
    pub(super) fn of_session(session: &mut Session, view: &View) -> Plan {
        let mut plan = Plan::default();
        for (turn, member) in session.members() {
            let key = &member.wanted.topic;
            let known = known(view, key);
            if let (TopicKey::Id(_), Some(topic), None) = (key, known, &member.name) {
                member.name = Some(Rc::from(topic.name.as_str()));
            }
            let found = found(view, known, &member.wanted, member.name.as_deref());
            let place = plan.place(&member.wanted, found);
            let line = Line { index: member.wanted.index, place, turn: Some(turn) };
            match plan.topics.last_mut().filter(|t| t.key == *key) {
                Some(topic) => topic.partitions.push(line),
                None => plan.topics.push(Topic { key: key.clone(), partitions: vec![line] }),
            }
        }
        plan
    }

    fn place(&mut self, wanted: &Wanted, found: Result<PartitionId, ErrorCode>) -> Place {
        match found {
            Ok(id) => {
                self.asked.push(FetchPartition {
                    id,
                    offset: wanted.offset,
                    max_bytes: usize::try_from(wanted.max_bytes).unwrap_or(0),
                    leader_epoch: wanted.leader_epoch,
                });
                Place::Asked(self.asked.len() - 1, id)
            }
            Err(code) => {
                self.has_failed = true;
                Place::Failed(code)
            }
        }
    }
}

/// The partitions that a request names, as a session keeps them.
pub(super) fn wanted<'b>(
    body: &'b Body<'_>,
    by_id: bool,
) -> impl Iterator<Item = Wanted> + use<'b> {
    body.topics.iter().flat_map(move |topic| {
        let key = key(topic.topic, topic.topic_id, by_id);
        topic.partitions.iter().map(|p| wanted_of(&key, &p)).collect::<Vec<_>>()
    })
}

/// The partitions that leave the session.
pub(super) fn forgotten<'b>(
    body: &'b Body<'_>,
    by_id: bool,
) -> impl Iterator<Item = (TopicKey, i32)> + use<'b> {
    body.forgotten_topics_data.iter().flat_map(move |topic| {
        let key = key(topic.topic, topic.topic_id, by_id);
        topic.partitions.iter().map(|index| (key.clone(), index)).collect::<Vec<_>>()
    })
}

fn key(name: &str, id: Uuid, by_id: bool) -> TopicKey {
    if by_id { TopicKey::Id(TopicId(id.0)) } else { TopicKey::Name(Rc::from(name)) }
}

fn wanted_of(topic: &TopicKey, p: &Partition) -> Wanted {
    Wanted {
        topic: topic.clone(),
        index: p.partition,
        offset: p.fetch_offset,
        max_bytes: p.partition_max_bytes,
        leader_epoch: p.current_leader_epoch,
    }
}

fn known<'v>(view: &'v View, topic: &TopicKey) -> Option<&'v Arc<KnownTopic>> {
    match topic {
        TopicKey::Name(name) => view.topic(name),
        TopicKey::Id(id) => view.topic_by_id(*id),
    }
}

/// A partition of a topic that was looked for. `name` is what its id was called when a session found it.
fn found(
    view: &View,
    known: Option<&Arc<KnownTopic>>,
    wanted: &Wanted,
    name: Option<&str>,
) -> Result<PartitionId, ErrorCode> {
    let unknown = ErrorCode::UnknownTopicOrPartition;
    match (known, &wanted.topic) {
        (Some(topic), _) => partition_of(topic, wanted.index).ok_or(unknown),
        (None, TopicKey::Name(_)) => Err(unknown),
        (None, TopicKey::Id(_)) => Err(match name {
            None => ErrorCode::UnknownTopicId,
            // Deleted; or, if there is such a partition again, that of another topic.
            Some(name) => match view.partition(name, wanted.index) {
                Some(_) => ErrorCode::InconsistentTopicId,
                None => unknown,
            },
        }),
    }
}
