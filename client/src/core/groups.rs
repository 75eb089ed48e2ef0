//! Questions about consumer groups: each goes to the coordinator of its group, which is looked up first, and again when
//! it says that it is another node's affair. Who lists groups asks every node ([`crate::Client::groups`]).
//!
//! Here: what is asked, the requests that say it, and what the answers mean. When to ask is in `calls`.

use std::time::Duration;

use rillway_wire::api::{
    delete_groups, describe_groups, find_coordinator, group_report, list_groups, offset_commit,
    offset_delete, offset_fetch,
};
use rillway_wire::{ApiKey, ErrorCode};

use super::calls::{Call, CallAnswer, CallId};
use super::peers::{LinkId, Peer};
use super::requests::by_topic;
use super::{Core, Purpose, TopicPartition};
use crate::error::{Error, Result};

/// What to ask a group's coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupCall {
    /// State and members.
    Describe,
    /// Lag and the last transitions: Rillway only, others are [`Error::Unsupported`].
    Report,
    /// What it has committed.
    Offsets,
    /// Commits offsets from outside the group's protocol: refused while the group has members. In the order of the
    /// partitions.
    Commit(Vec<(TopicPartition, i64)>),
    /// Forgets what it has committed. In the order of the partitions.
    DeleteOffsets(Vec<TopicPartition>),
    /// Deletes a group without members.
    Delete,
}

/// A group in the list of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupListing {
    pub group: String,
    pub protocol_type: String,
    /// Empty: the broker is too old to say.
    pub state: String,
    /// Empty: the broker is too old to say.
    pub kind: String,
    /// The node that coordinates it.
    pub coordinator: i32,
}

/// State and members of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInfo {
    pub state: String,
    pub protocol_type: String,
    pub protocol: String,
    pub members: Vec<GroupMember>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    pub member: String,
    /// The id that a static member keeps over restarts.
    pub instance: Option<String>,
    pub client_id: String,
    pub host: String,
    /// As the group's leader wrote it; for consumers in the format of ConsumerProtocolAssignment.
    pub assignment: Vec<u8>,
}

/// How far behind a group is, and what happened to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReport {
    /// The generation; -1: it never had members.
    pub generation: i32,
    pub info: GroupInfo,
    pub partitions: Vec<PartitionLag>,
    /// Oldest first.
    pub transitions: Vec<GroupTransition>,
}

/// How far behind a group is in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionLag {
    pub at: TopicPartition,
    pub committed: i64,
    /// The client's own words.
    pub metadata: String,
    /// Milliseconds since 1970.
    pub commit_time_ms: i64,
    pub log_start: i64,
    pub end: i64,
    pub records: i64,
    pub bytes: i64,
    /// Age of the first record that is still to be read; 0: there is none.
    pub age_ms: i64,
}

/// A change of a group's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTransition {
    /// Milliseconds since 1970.
    pub time_ms: i64,
    pub from: String,
    pub to: String,
    pub generation: i32,
    pub members: i32,
    /// A sentence.
    pub cause: String,
}

/// What came of a request about several partitions, one by one.
pub type PartitionOutcomes = Vec<(TopicPartition, ErrorCode)>;

impl GroupCall {
    /// As the beginning of an error message.
    pub(super) fn doing(&self, group: &str) -> String {
        match self {
            Self::Describe | Self::Report => format!("describing group {group}"),
            Self::Offsets => format!("asking for the offsets of group {group}"),
            Self::Commit(_) => format!("committing offsets of group {group}"),
            Self::DeleteOffsets(_) => format!("deleting offsets of group {group}"),
            Self::Delete => format!("deleting group {group}"),
        }
    }
}

impl Core {
    /// Asks one node for the groups that it coordinates.
    pub(super) fn ask_groups(&mut self, purpose: Purpose, node: i32, now: Duration) -> Option<()> {
        let link = self.node(node, now)?;
        self.ask(link, &list_groups::Request::default(), purpose, now)
    }

    /// Asks for a group's coordinator, or when that is known, what was to be asked.
    pub(super) fn ask_group(
        &mut self,
        id: CallId,
        group: &str,
        ask: &GroupCall,
        now: Duration,
    ) -> Option<()> {
        let purpose = Purpose::Call(id, Vec::new());
        let Some(node) = self.calls.get(id)?.coordinator else {
            let link = self.peers.any(&self.metadata, &mut self.effects, now)?;
            let request = find_coordinator::Request {
                key: group,
                key_type: find_coordinator::GROUP,
                ..Default::default()
            };
            return self.ask(link, &request, purpose, now);
        };
        let link = self.node(node, now)?;
        match ask {
            GroupCall::Describe => {
                let request =
                    describe_groups::Request { groups: vec![group].into(), ..Default::default() };
                self.ask(link, &request, purpose, now)
            }
            GroupCall::Report => {
                self.ask(link, &group_report::Request { group_id: group }, purpose, now)
            }
            GroupCall::Offsets => {
                let request =
                    offset_fetch::Request { group_id: group, topics: None, ..Default::default() };
                self.ask(link, &request, purpose, now)
            }
            GroupCall::Commit(offsets) => {
                let topics = by_topic(offsets.iter().map(|(at, offset)| (at, *offset)));
                let topics = topics.map(|(name, lines)| offset_commit::Topic {
                    name,
                    partitions: lines
                        .into_iter()
                        .map(|(at, committed_offset)| offset_commit::Partition {
                            partition_index: at.partition,
                            committed_offset,
                            committed_metadata: Some(""),
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                });
                let request = offset_commit::Request {
                    group_id: group,
                    topics: topics.collect(),
                    ..Default::default()
                };
                self.ask(link, &request, purpose, now)
            }
            GroupCall::DeleteOffsets(partitions) => {
                let topics = by_topic(partitions.iter().map(|at| (at, ())));
                let topics = topics.map(|(name, lines)| offset_delete::Topic {
                    name,
                    partitions: lines
                        .into_iter()
                        .map(|(at, ())| offset_delete::Partition { partition_index: at.partition })
                        .collect(),
                });
                let request = offset_delete::Request { group_id: group, topics: topics.collect() };
                self.ask(link, &request, purpose, now)
            }
            GroupCall::Delete => {
                let request = delete_groups::Request { groups_names: vec![group].into() };
                self.ask(link, &request, purpose, now)
            }
        }
    }

    /// The connection to a node; one that is not known is looked up.
    pub(super) fn node(&mut self, node: i32, now: Duration) -> Option<LinkId> {
        if self.metadata.address(node).is_none() {
            self.metadata.refresh();
        }
        self.peers.ready(Peer::Node(node), &self.metadata, &mut self.effects, now)
    }

    /// Takes a coordinator's answer, or the answer who that is.
    pub(super) fn group_answered(
        &mut self,
        link: LinkId,
        answer: &super::answers::Answered,
        id: CallId,
        now: Duration,
    ) -> Result<()> {
        let Some(pending) = self.calls.get(id) else { return Ok(()) };
        let Call::Group { ask, .. } = &pending.call else {
            unreachable!("only Call::Group comes here");
        };
        let (ask, doing, known) = (ask.clone(), pending.call.doing(), pending.coordinator);
        let said = |code, message: Option<&str>| match code {
            ErrorCode::None => Ok(()),
            code => Err(Error::Broker {
                doing: doing.clone(),
                code,
                message: message.filter(|m| !m.is_empty()).map(str::to_string),
            }),
        };
        let retry_at = now.saturating_add(self.config.backoff);
        if known.is_none() {
            let answer: find_coordinator::Response<'_> = self.decode(link, answer)?;
            match said(answer.error_code, answer.error_message) {
                Ok(()) => self.calls.coordinator(id, answer.node_id),
                Err(error) => self.calls.group_failed(id, error, retry_at),
            }
            return Ok(());
        }
        let result = match &ask {
            GroupCall::Describe => {
                let answer: describe_groups::Response<'_> = self.decode(link, answer)?;
                match answer.groups.first() {
                    Some(g) => said(g.error_code, g.error_message)
                        .map(|()| CallAnswer::Group(group_info(&g))),
                    None => Err(left_out(ApiKey::DescribeGroups)),
                }
            }
            GroupCall::Report => {
                let answer: group_report::Response<'_> = self.decode(link, answer)?;
                said(answer.error_code, answer.error_message)
                    .map(|()| CallAnswer::GroupReport(report(&answer)))
            }
            GroupCall::Offsets => {
                let answer: offset_fetch::Response<'_> = self.decode(link, answer)?;
                said(answer.error_code, None)
                    .and_then(|()| offsets(&answer, said))
                    .map(CallAnswer::Offsets)
            }
            GroupCall::Commit(asked) => {
                let answer: offset_commit::Response<'_> = self.decode(link, answer)?;
                let code = |at: &TopicPartition| {
                    let topic = answer.topics.iter().find(|t| t.name == &*at.topic)?;
                    let part =
                        topic.partitions.iter().find(|p| p.partition_index == at.partition)?;
                    Some(part.error_code)
                };
                outcomes(asked.iter().map(|(at, _)| at), ApiKey::OffsetCommit, code, said)
            }
            GroupCall::DeleteOffsets(asked) => {
                let answer: offset_delete::Response<'_> = self.decode(link, answer)?;
                let code = |at: &TopicPartition| {
                    let topic = answer.topics.iter().find(|t| t.name == &*at.topic)?;
                    let part =
                        topic.partitions.iter().find(|p| p.partition_index == at.partition)?;
                    Some(part.error_code)
                };
                said(answer.error_code, None)
                    .and_then(|()| outcomes(asked.iter(), ApiKey::OffsetDelete, code, said))
            }
            GroupCall::Delete => {
                let answer: delete_groups::Response<'_> = self.decode(link, answer)?;
                match answer.results.first() {
                    Some(g) => said(g.error_code, None).map(|()| CallAnswer::Deleted),
                    None => Err(left_out(ApiKey::DeleteGroups)),
                }
            }
        };
        match result {
            Ok(answer) => self.calls.finish(id, Ok(answer)),
            Err(error) => self.calls.group_failed(id, error, retry_at),
        }
        Ok(())
    }
}

fn left_out(api: ApiKey) -> Error {
    Error::Incomplete { api, what: "the group".to_string() }
}

/// One code per partition; one that will be another when asked again fails the whole, so that it is.
fn outcomes<'a>(
    asked: impl Iterator<Item = &'a TopicPartition>,
    api: ApiKey,
    code: impl Fn(&TopicPartition) -> Option<ErrorCode>,
    said: impl Fn(ErrorCode, Option<&str>) -> Result<()>,
) -> Result<CallAnswer> {
    let mut all = PartitionOutcomes::new();
    for at in asked {
        let code = code(at).ok_or_else(|| Error::Incomplete { api, what: at.to_string() })?;
        // That a topic is not there will not get better by waiting.
        if code.is_retriable() && code != ErrorCode::UnknownTopicOrPartition {
            said(code, None)?;
        }
        all.push((at.clone(), code));
    }
    Ok(CallAnswer::Outcomes(all))
}

fn offsets(
    answer: &offset_fetch::Response<'_>,
    said: impl Fn(ErrorCode, Option<&str>) -> Result<()>,
) -> Result<Vec<(TopicPartition, i64)>> {
    let mut all = Vec::new();
    for topic in &answer.topics {
        for part in &topic.partitions {
            said(part.error_code, None)?;
            // -1: none was committed.
            if part.committed_offset >= 0 {
                let at = TopicPartition::new(topic.name, part.partition_index);
                all.push((at, part.committed_offset));
            }
        }
    }
    all.sort();
    Ok(all)
}

/// The groups of one node, by name.
pub(super) fn listings(answer: &list_groups::Response<'_>, coordinator: i32) -> Vec<GroupListing> {
    let listing = |g: list_groups::Group<'_>| GroupListing {
        group: g.group_id.to_string(),
        protocol_type: g.protocol_type.to_string(),
        state: g.group_state.to_string(),
        kind: g.group_type.to_string(),
        coordinator,
    };
    let mut all: Vec<GroupListing> = answer.groups.iter().map(listing).collect();
    all.sort();
    all
}

fn group_info(group: &describe_groups::Group<'_>) -> GroupInfo {
    let member = |m: describe_groups::Member<'_>| GroupMember {
        member: m.member_id.to_string(),
        instance: m.group_instance_id.map(str::to_string),
        client_id: m.client_id.to_string(),
        host: m.client_host.to_string(),
        assignment: m.member_assignment.to_vec(),
    };
    GroupInfo {
        state: group.group_state.to_string(),
        protocol_type: group.protocol_type.to_string(),
        protocol: group.protocol_data.to_string(),
        members: group.members.iter().map(member).collect(),
    }
}

fn report(answer: &group_report::Response<'_>) -> GroupReport {
    let member = |m: group_report::Member<'_>| GroupMember {
        member: m.member_id.to_string(),
        instance: m.group_instance_id.map(str::to_string),
        client_id: m.client_id.to_string(),
        host: m.client_host.to_string(),
        assignment: m.assignment.to_vec(),
    };
    let lag = |p: group_report::Partition<'_>| PartitionLag {
        at: TopicPartition::new(p.topic, p.partition_index),
        committed: p.committed_offset,
        metadata: p.metadata.to_string(),
        commit_time_ms: p.commit_time_ms,
        log_start: p.log_start_offset,
        end: p.end_offset,
        records: p.lag_records,
        bytes: p.lag_bytes,
        age_ms: p.lag_ms,
    };
    let transition = |t: group_report::Transition<'_>| GroupTransition {
        time_ms: t.time_ms,
        from: t.from.to_string(),
        to: t.to.to_string(),
        generation: t.generation_id,
        members: t.member_count,
        cause: t.cause.to_string(),
    };
    let mut partitions: Vec<PartitionLag> = answer.partitions.iter().map(lag).collect();
    partitions.sort_by(|a, b| a.at.cmp(&b.at));
    GroupReport {
        generation: answer.generation_id,
        info: GroupInfo {
            state: answer.group_state.to_string(),
            protocol_type: answer.protocol_type.to_string(),
            protocol: answer.protocol_name.to_string(),
            members: answer.members.iter().map(member).collect(),
        },
        partitions,
        transitions: answer.transitions.iter().map(transition).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(partition: i32) -> TopicPartition {
        TopicPartition::new("orders", partition)
    }

    fn said(code: ErrorCode, _: Option<&str>) -> Result<()> {
        match code {
            ErrorCode::None => Ok(()),
            code => Err(Error::Broker { doing: "resetting".to_string(), code, message: None }),
        }
    }

    #[test]
    fn outcomes_come_in_the_order_of_the_question_and_what_passes_is_asked_again() {
        let code = |at: &TopicPartition| match at.partition {
            0 => Some(ErrorCode::None),
            1 => Some(ErrorCode::UnknownTopicOrPartition),
            2 => Some(ErrorCode::NotCoordinator),
            _ => None,
        };
        let ask = |of: &[TopicPartition]| outcomes(of.iter(), ApiKey::OffsetCommit, code, said);
        let told = vec![(at(1), ErrorCode::UnknownTopicOrPartition), (at(0), ErrorCode::None)];
        assert_eq!(ask(&[at(1), at(0)]), Ok(CallAnswer::Outcomes(told)));
        let passes = ask(&[at(0), at(2)]).expect_err("another node coordinates");
        assert!(passes.code().is_some_and(ErrorCode::is_retriable));
        assert!(matches!(ask(&[at(3)]), Err(Error::Incomplete { .. })));
    }

    #[test]
    fn partitions_without_an_offset_are_left_out() {
        let part = |partition_index, committed_offset| offset_fetch::PartitionResponse {
            partition_index,
            committed_offset,
            ..Default::default()
        };
        let topic = offset_fetch::TopicResponse {
            name: "orders",
            partitions: vec![part(2, 5), part(1, -1), part(0, 0)].into(),
        };
        let answer = offset_fetch::Response { topics: vec![topic].into(), ..Default::default() };
        assert_eq!(offsets(&answer, said), Ok(vec![(at(0), 0), (at(2), 5)]));
    }
}
