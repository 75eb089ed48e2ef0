//! Questions with one answer: topics, settings, groups, and where a log starts and ends. Retried until they are answered or too old.
//!
//! ListOffsets goes to the leader of each partition, what changes a topic to the controller, what concerns a group to
//! its coordinator (`groups`), the rest to anybody.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rillway_wire::api::{
    create_partitions, create_topics, delete_topics, describe_configs, incremental_alter_configs,
    list_groups, list_offsets, metadata,
};
use rillway_wire::{ApiKey, ErrorCode};

use super::TopicPartition;
use super::groups::{GroupCall, GroupInfo, GroupListing, GroupReport, PartitionOutcomes, listings};
use super::info::{ConfigInfo, CreatedTopic, NewTopic, NodeInfo, TopicInfo, topic_info};
use crate::error::{Error, Result};

/// A question.
#[derive(Clone, Debug)]
pub enum Call {
    /// All topics, or those named. A topic that does not exist is an entry with an error.
    Topics(Option<Vec<String>>),
    /// The nodes of the cluster.
    Nodes,
    CreateTopic(NewTopic),
    DeleteTopic(String),
    /// The settings of a topic.
    DescribeTopic(String),
    /// The settings of a node.
    DescribeBroker(i32),
    /// The groups that a node coordinates.
    ListGroups(i32),
    /// Something of a group, asked of its coordinator.
    Group {
        group: String,
        ask: GroupCall,
    },
    /// Sets settings of a topic, or with `None` goes back to the default.
    AlterTopic {
        topic: String,
        changes: Vec<(String, Option<String>)>,
    },
    /// More partitions: so many in all.
    GrowTopic {
        topic: String,
        count: i32,
    },
    /// The offset of each partition at a time in milliseconds, or at [`list_offsets::EARLIEST`] or
    /// [`list_offsets::LATEST`].
    ListOffsets {
        partitions: Vec<TopicPartition>,
        timestamp: i64,
    },
}

/// The answer to the [`Call`] of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallAnswer {
    Topics(Vec<TopicInfo>),
    Nodes(Vec<NodeInfo>),
    Groups(Vec<GroupListing>),
    Group(GroupInfo),
    GroupReport(GroupReport),
    /// Of the partitions of a group's call.
    Outcomes(PartitionOutcomes),
    Created(CreatedTopic),
    Deleted,
    Configs(Vec<ConfigInfo>),
    Altered,
    Grown,
    /// In the order of the question. -1: no record is that young.
    Offsets(Vec<(TopicPartition, i64)>),
}

/// Names a call until its answer was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(u64);

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) call: Call,
    deadline: Duration,
    not_before: Duration,
    /// Requests on their way.
    asked: usize,
    /// For ListOffsets: what is known, and what is being asked.
    offsets: BTreeMap<TopicPartition, Offset>,
    /// For [`Call::Group`]: the node to ask, once it is known.
    pub(super) coordinator: Option<i32>,
    last: Option<Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offset {
    Unknown,
    Asked,
    Known(i64),
}

/// The calls of a client.
#[derive(Debug, Default)]
pub(super) struct Calls {
    next: u64,
    pending: BTreeMap<CallId, Pending>,
    done: VecDeque<(CallId, Result<CallAnswer>)>,
}

impl Calls {
    pub(super) fn add(&mut self, call: Call, deadline: Duration) -> CallId {
        let id = CallId(self.next);
        self.next += 1;
        let offsets = match &call {
            Call::ListOffsets { partitions, .. } => {
                partitions.iter().map(|at| (at.clone(), Offset::Unknown)).collect()
            }
            Call::Topics(_)
            | Call::Nodes
            | Call::CreateTopic(_)
            | Call::DeleteTopic(_)
            | Call::DescribeTopic(_)
            | Call::DescribeBroker(_)
            | Call::AlterTopic { .. }
            | Call::GrowTopic { .. }
            | Call::ListGroups(_)
            | Call::Group { .. } => BTreeMap::new(),
        };
        let pending = Pending {
            call,
            deadline,
            not_before: Duration::ZERO,
            asked: 0,
            offsets,
            coordinator: None,
            last: None,
        };
        self.pending.insert(id, pending);
        self.finish_offsets(id);
        id
    }

    /// The calls that have something to ask now.
    pub(super) fn due(&self, now: Duration) -> Vec<CallId> {
        let due = self.pending.iter().filter(|(_, p)| p.not_before <= now && p.has_question());
        due.map(|(id, _)| *id).collect()
    }

    pub(super) fn get(&self, id: CallId) -> Option<&Pending> {
        self.pending.get(&id)
    }

    pub(super) fn take_done(&mut self, id: CallId) -> Option<Result<CallAnswer>> {
        let at = self.done.iter().position(|(done, _)| *done == id)?;
        self.done.remove(at).map(|(_, result)| result)
    }

    pub(super) fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// A request goes out; for ListOffsets, about these partitions.
    pub(super) fn asked(&mut self, id: CallId, partitions: &[TopicPartition]) {
        let Some(pending) = self.pending.get_mut(&id) else {
            return;
        };
        pending.asked += 1;
        for at in partitions {
            pending.offsets.insert(at.clone(), Offset::Asked);
        }
    }

    /// Ends a call.
    pub(super) fn finish(&mut self, id: CallId, result: Result<CallAnswer>) {
        if self.pending.remove(&id).is_some() {
            self.done.push_back((id, result));
        }
    }

    /// The request did not work, but may later.
    pub(super) fn retry(
        &mut self,
        id: CallId,
        partitions: &[TopicPartition],
        error: Error,
        at: Duration,
    ) {
        let Some(pending) = self.pending.get_mut(&id) else {
            return;
        };
        pending.asked = pending.asked.saturating_sub(1);
        pending.not_before = at;
        pending.last = Some(error);
        // Whoever did not answer may be the coordinator no more.
        pending.coordinator = None;
        for at in partitions {
            if let Some(offset @ Offset::Asked) = pending.offsets.get_mut(at) {
                *offset = Offset::Unknown;
            }
        }
    }

    /// Ends the calls that are past their time.
    pub(super) fn expire(&mut self, now: Duration, timeout: Duration, last: Option<&Error>) {
        let late = self.pending.iter().filter(|(_, p)| p.deadline <= now);
        let late: Vec<CallId> = late.map(|(id, _)| *id).collect();
        for id in late {
            let Some(pending) = self.pending.get(&id) else {
                continue;
            };
            let last = pending.last.as_ref().or(last);
            let error = Error::Timeout {
                doing: pending.call.doing(),
                after: timeout,
                last: last.cloned().map(Box::new),
            };
            self.finish(id, Err(error));
        }
    }

    /// When something becomes due by time alone.
    pub(super) fn next_timer(&self, now: Duration) -> Option<Duration> {
        let pending = self.pending.values();
        pending.flat_map(|p| [p.deadline, p.not_before]).filter(|at| *at > now).min()
    }

    /// The answer to a Metadata request of [`Call::Topics`].
    pub(super) fn topics(&mut self, id: CallId, answer: &metadata::Response<'_>) {
        let mut topics: Vec<TopicInfo> = answer.topics.iter().map(topic_info).collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        self.finish(id, Ok(CallAnswer::Topics(topics)));
    }

    /// The answer to a Metadata request of [`Call::Nodes`].
    pub(super) fn nodes(&mut self, id: CallId, answer: &metadata::Response<'_>) {
        let node = |b: metadata::Broker<'_>| NodeInfo {
            id: b.node_id,
            host: b.host.to_string(),
            port: b.port,
        };
        let mut nodes: Vec<NodeInfo> = answer.brokers.iter().map(node).collect();
        nodes.sort();
        self.finish(id, Ok(CallAnswer::Nodes(nodes)));
    }

    /// The answer to FindCoordinator: the question itself can go out.
    pub(super) fn coordinator(&mut self, id: CallId, node: i32) {
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.asked = pending.asked.saturating_sub(1);
            pending.coordinator = Some(node);
        }
    }

    /// The answer to ListGroups of a node.
    pub(super) fn listed(
        &mut self,
        id: CallId,
        answer: &list_groups::Response<'_>,
        node: i32,
        retry_at: Duration,
    ) {
        let Some(pending) = self.pending.get(&id) else {
            return;
        };
        let doing = pending.call.doing();
        match answer.error_code {
            ErrorCode::None => self.finish(id, Ok(CallAnswer::Groups(listings(answer, node)))),
            code => self.group_failed(id, Error::Broker { doing, code, message: None }, retry_at),
        }
    }

    /// A coordinator said no, for now or for good.
    pub(super) fn group_failed(&mut self, id: CallId, error: Error, retry_at: Duration) {
        match error.code() {
            Some(code) if code.is_retriable() => self.retry(id, &[], error, retry_at),
            _ => self.finish(id, Err(error)),
        }
    }

    /// The answer to CreateTopics.
    pub(super) fn created(
        &mut self,
        id: CallId,
        answer: &create_topics::Response<'_>,
        retry_at: Duration,
    ) {
        let outcome = answer.topics.first().map(|t| (t.error_code, t.error_message));
        let created =
            answer.topics.first().map_or((-1, -1), |t| (t.num_partitions, t.replication_factor));
        let created = CreatedTopic { partitions: created.0, replication_factor: created.1 };
        let created = CallAnswer::Created(created);
        self.topic_changed(id, ApiKey::CreateTopics, outcome, created, retry_at);
    }

    /// The answer to DescribeConfigs.
    pub(super) fn described(
        &mut self,
        id: CallId,
        answer: &describe_configs::Response<'_>,
        retry_at: Duration,
    ) {
        let first = answer.results.first();
        let outcome = first.as_ref().map(|r| (r.error_code, r.error_message));
        let config = |c: describe_configs::Config<'_>| ConfigInfo {
            name: c.name.to_string(),
            value: c.value.map(str::to_string),
            source: c.config_source,
            read_only: c.read_only,
        };
        let configs = first.iter().flat_map(|r| r.configs.iter().map(config)).collect();
        let configs = CallAnswer::Configs(configs);
        self.topic_changed(id, ApiKey::DescribeConfigs, outcome, configs, retry_at);
    }

    /// The answer to IncrementalAlterConfigs.
    pub(super) fn altered(
        &mut self,
        id: CallId,
        answer: &incremental_alter_configs::Response<'_>,
        retry_at: Duration,
    ) {
        let outcome = answer.responses.first().map(|r| (r.error_code, r.error_message));
        let api = ApiKey::IncrementalAlterConfigs;
        self.topic_changed(id, api, outcome, CallAnswer::Altered, retry_at);
    }

    /// The answer to CreatePartitions.
    pub(super) fn grown(
        &mut self,
        id: CallId,
        answer: &create_partitions::Response<'_>,
        retry_at: Duration,
    ) {
        let outcome = answer.results.first().map(|r| (r.error_code, r.error_message));
        self.topic_changed(id, ApiKey::CreatePartitions, outcome, CallAnswer::Grown, retry_at);
    }

    /// The answer to DeleteTopics.
    pub(super) fn deleted(
        &mut self,
        id: CallId,
        answer: &delete_topics::Response<'_>,
        retry_at: Duration,
    ) {
        let outcome = answer.responses.first().map(|t| (t.error_code, t.error_message));
        self.topic_changed(id, ApiKey::DeleteTopics, outcome, CallAnswer::Deleted, retry_at);
    }

    fn topic_changed(
        &mut self,
        id: CallId,
        api: ApiKey,
        outcome: Option<(ErrorCode, Option<&str>)>,
        answer: CallAnswer,
        retry_at: Duration,
    ) {
        let Some(pending) = self.pending.get(&id) else {
            return;
        };
        let Some((code, message)) = outcome else {
            let what = "the topic".to_string();
            return self.finish(id, Err(Error::Incomplete { api, what }));
        };
        let error = Error::Broker {
            doing: pending.call.doing(),
            code,
            message: message.map(str::to_string),
        };
        match code {
            ErrorCode::None => self.finish(id, Ok(answer)),
            // Deleting what is not there will not get better by waiting.
            ErrorCode::UnknownTopicOrPartition => self.finish(id, Err(error)),
            code if code.is_retriable() => self.retry(id, &[], error, retry_at),
            _ => self.finish(id, Err(error)),
        }
    }

    /// The answer to a ListOffsets request about `asked`. True when leaders should be looked up again.
    pub(super) fn offsets(
        &mut self,
        id: CallId,
        asked: &[TopicPartition],
        answer: &list_offsets::Response<'_>,
        retry_at: Duration,
    ) -> bool {
        let Some(pending) = self.pending.get_mut(&id) else {
            return false;
        };
        pending.asked = pending.asked.saturating_sub(1);
        let mut refresh = false;
        for at in asked {
            let topic = answer.topics.iter().find(|t| t.name == &*at.topic);
            let part =
                topic.and_then(|t| t.partitions.iter().find(|p| p.partition_index == at.partition));
            let doing = || format!("asking for an offset of {at}");
            let error = match part {
                Some(part) if part.error_code == ErrorCode::None => {
                    pending.offsets.insert(at.clone(), Offset::Known(part.offset));
                    continue;
                }
                Some(part) => {
                    Error::Broker { doing: doing(), code: part.error_code, message: None }
                }
                None => Error::Incomplete { api: ApiKey::ListOffsets, what: at.to_string() },
            };
            if error.code().is_some_and(ErrorCode::is_retriable) {
                pending.offsets.insert(at.clone(), Offset::Unknown);
                pending.not_before = retry_at;
                pending.last = Some(error);
                refresh = true;
            } else {
                self.finish(id, Err(error));
                return false;
            }
        }
        self.finish_offsets(id);
        refresh
    }

    fn finish_offsets(&mut self, id: CallId) {
        let Some(pending) = self.pending.get(&id) else {
            return;
        };
        let Call::ListOffsets { partitions, .. } = &pending.call else {
            return;
        };
        let known = |at: &TopicPartition| match pending.offsets.get(at) {
            Some(Offset::Known(offset)) => Some((at.clone(), *offset)),
            Some(Offset::Unknown | Offset::Asked) | None => None,
        };
        let all: Option<Vec<_>> = partitions.iter().map(known).collect();
        if let Some(all) = all {
            self.finish(id, Ok(CallAnswer::Offsets(all)));
        }
    }
}

impl Pending {
    fn has_question(&self) -> bool {
        match &self.call {
            Call::Topics(_)
            | Call::Nodes
            | Call::CreateTopic(_)
            | Call::DeleteTopic(_)
            | Call::DescribeTopic(_)
            | Call::DescribeBroker(_)
            | Call::AlterTopic { .. }
            | Call::GrowTopic { .. }
            | Call::ListGroups(_)
            | Call::Group { .. } => self.asked == 0,
            Call::ListOffsets { .. } => self.unknown().next().is_some(),
        }
    }

    /// The partitions of ListOffsets that nobody was asked about.
    pub(super) fn unknown(&self) -> impl Iterator<Item = &TopicPartition> {
        let unknown = self.offsets.iter().filter(|(_, offset)| **offset == Offset::Unknown);
        unknown.map(|(at, _)| at)
    }

    /// For how long the broker may take.
    pub(super) fn time_left(&self, now: Duration) -> Duration {
        self.deadline.saturating_sub(now)
    }
}

impl Call {
    /// As the beginning of an error message.
    pub(super) fn doing(&self) -> String {
        match self {
            Self::Topics(None) => "listing topics".to_string(),
            Self::Topics(Some(names)) => format!("looking up topic {}", names.join(", ")),
            Self::CreateTopic(topic) => format!("creating topic {}", topic.name),
            Self::DeleteTopic(name) => format!("deleting topic {name}"),
            Self::Nodes => "asking for the nodes of the cluster".to_string(),
            Self::DescribeTopic(name) => format!("asking for the settings of topic {name}"),
            Self::DescribeBroker(node) => format!("asking for the settings of node {node}"),
            Self::ListGroups(node) => format!("asking node {node} for its groups"),
            Self::Group { group, ask } => ask.doing(group),
            Self::AlterTopic { topic, .. } => format!("altering topic {topic}"),
            Self::GrowTopic { topic, count } => {
                format!("adding partitions to topic {topic}, up to {count}")
            }
            Self::ListOffsets { partitions, .. } => match partitions.first() {
                Some(first) => format!("asking for offsets of {}", first.topic),
                None => "asking for offsets".to_string(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Duration = Duration::from_secs(1);

    fn described(code: ErrorCode) -> describe_configs::Response<'static> {
        let config = describe_configs::Config {
            name: "retention.ms",
            value: Some("5"),
            config_source: describe_configs::SOURCE_TOPIC,
            ..Default::default()
        };
        let result = describe_configs::ResourceResponse {
            error_code: code,
            configs: vec![config].into(),
            ..Default::default()
        };
        describe_configs::Response { results: vec![result].into(), ..Default::default() }
    }

    #[test]
    fn settings_are_told_once_and_an_error_that_stays_ends_the_question() {
        let mut calls = Calls::default();
        let ask = |calls: &mut Calls| calls.add(Call::DescribeTopic("t".to_string()), LATER * 60);
        let id = ask(&mut calls);
        calls.described(id, &described(ErrorCode::None), LATER);
        let want = ConfigInfo {
            name: "retention.ms".to_string(),
            value: Some("5".to_string()),
            source: describe_configs::SOURCE_TOPIC,
            read_only: false,
        };
        assert_eq!(calls.take_done(id), Some(Ok(CallAnswer::Configs(vec![want]))));
        assert_eq!(calls.take_done(id), None);
        let id = ask(&mut calls);
        calls.described(id, &described(ErrorCode::UnknownTopicOrPartition), LATER);
        assert!(matches!(calls.take_done(id), Some(Err(Error::Broker { .. }))));
        let id = ask(&mut calls);
        calls.described(id, &describe_configs::Response::default(), LATER);
        assert!(matches!(calls.take_done(id), Some(Err(Error::Incomplete { .. }))));
    }

    #[test]
    fn an_alteration_that_may_work_later_is_asked_again() {
        let mut calls = Calls::default();
        let changes = vec![("retention.ms".to_string(), Some("5".to_string()))];
        let id = calls.add(Call::AlterTopic { topic: "t".to_string(), changes }, LATER * 60);
        let answer = |error_code| incremental_alter_configs::Response {
            responses: vec![incremental_alter_configs::ResourceResponse {
                error_code,
                ..Default::default()
            }]
            .into(),
            ..Default::default()
        };
        calls.asked(id, &[]);
        calls.altered(id, &answer(ErrorCode::NotController), LATER);
        assert!(calls.take_done(id).is_none());
        assert_eq!((calls.due(Duration::ZERO), calls.due(LATER)), (vec![], vec![id]));
        calls.altered(id, &answer(ErrorCode::None), LATER);
        assert_eq!(calls.take_done(id), Some(Ok(CallAnswer::Altered)));
    }
}
