//! A group as administrators see it (DescribeGroups, ListGroups), and what may be done to it.

use super::{CONSUMER, Group, Phase};
use crate::error::GroupError;

/// A group with its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    pub phase: Phase,
    pub generation: i32,
    /// Empty: none, offsets are committed without membership.
    pub protocol_type: String,
    /// The assignor; empty unless the group is stable, as in Kafka.
    pub protocol: String,
    /// Member id of the leader.
    pub leader: Option<String>,
    pub members: Vec<DescribedMember>,
}

/// A member of a described group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedMember {
    pub member: String,
    pub instance: Option<String>,
    pub client_id: String,
    pub client_host: String,
    /// What it said to the assignor; empty unless the group is stable.
    pub metadata: Vec<u8>,
    pub assignment: Vec<u8>,
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub group: String,
    pub protocol_type: String,
    pub phase: Phase,
    /// `classic`, the only type there is.
    pub group_type: &'static str,
}

impl Described {
    /// A group that has only committed offsets.
    pub(crate) fn simple() -> Described {
        Described {
            phase: Phase::Empty,
            generation: 0,
            protocol_type: String::new(),
            protocol: String::new(),
            leader: None,
            members: Vec::new(),
        }
    }
}

impl Listed {
    pub(crate) fn new(group: &str, protocol_type: &str, phase: Phase) -> Listed {
        let (group, protocol_type) = (group.to_owned(), protocol_type.to_owned());
        Listed { group, protocol_type, phase, group_type: "classic" }
    }
}

impl Group {
    pub(crate) fn describe(&self) -> Described {
        let protocol = self.protocol.as_deref().filter(|_| self.phase == Phase::Stable);
        let members = self.members.iter().map(|(id, member)| DescribedMember {
            member: id.clone(),
            instance: member.instance.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: protocol.and_then(|name| member.metadata(name)).unwrap_or_default().to_vec(),
            assignment: member.assignment.clone(),
        });
        Described {
            phase: self.phase,
            generation: self.generation,
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: protocol.unwrap_or_default().to_owned(),
            leader: self.leader.clone(),
            members: members.collect(),
        }
    }

    pub(crate) fn list(&self) -> Listed {
        let protocol_type = self.protocol_type.as_deref().unwrap_or_default();
        Listed::new(&self.name, protocol_type, self.phase)
    }

    /// Whether the offsets of a topic may be deleted: not while members read it.
    pub(crate) fn check_offset_delete(&self, topic: &str) -> Result<(), GroupError> {
        if self.phase != Phase::Empty && !self.is_consumer() {
            return Err(GroupError::NonEmpty);
        }
        if self.reads(topic) { Err(GroupError::SubscribedToTopic) } else { Ok(()) }
    }

    /// Whether members read the topic. A group of consumers that cannot be understood may read any.
    pub(crate) fn reads(&self, topic: &str) -> bool {
        match &self.subscribed {
            Some(topics) => topics.contains(topic),
            None => self.phase != Phase::Empty && self.is_consumer(),
        }
    }

    /// From which time on offsets that members do not read get older: `None`, they do not; with a time, all since
    /// then; without, each since its commit (KIP-211).
    pub(crate) fn retention_base(&self) -> Option<Option<i64>> {
        match (self.protocol_type.as_deref(), self.phase) {
            // Offsets without membership.
            (None, _) => Some(None),
            (Some(_), Phase::Empty) => Some((self.since_ms >= 0).then_some(self.since_ms)),
            // What members have stopped to read.
            (Some(CONSUMER), Phase::Stable) if self.subscribed.is_some() => Some(None),
            (Some(_), _) => None,
        }
    }

    /// Whether ids were promised to members to be.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}
