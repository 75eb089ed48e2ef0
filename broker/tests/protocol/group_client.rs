//! A member of a consumer group, as clients write one: join (twice, if an id is required), sync, heartbeat, commit.

use rillway_io::Runtime;
use rillway_wire::ErrorCode;
use rillway_wire::api::{
    heartbeat, join_group, leave_group, offset_commit, offset_fetch, sync_group,
};

use crate::client::{Client, decode};

/// One connection and who it is in its group.
pub(crate) struct Member {
    pub client: Client,
    pub group: String,
    pub id: String,
    pub instance: Option<String>,
    pub generation: i32,
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
    pub protocols: Vec<(String, Vec<u8>)>,
    pub protocol_type: String,
    /// The one that the group has chosen.
    pub protocol: String,
}

/// What a join was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JoinAnswer {
    pub code: ErrorCode,
    pub generation: i32,
    pub protocol: String,
    pub leader: String,
    pub id: String,
    /// Ids of everybody, for the leader.
    pub members: Vec<String>,
}

impl Member {
    pub(crate) async fn connect(rt: &Runtime, group: &str) -> Member {
        Member::of(Client::connect(rt).await, group)
    }

    pub(crate) fn of(client: Client, group: &str) -> Member {
        Member {
            client,
            group: group.to_owned(),
            id: String::new(),
            instance: None,
            generation: -1,
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 20_000,
            protocols: vec![("range".to_owned(), b"metadata".to_vec())],
            protocol_type: "consumer".to_owned(),
            protocol: "range".to_owned(),
        }
    }

    /// One JoinGroup and its answer.
    pub(crate) async fn join_once(&mut self, version: i16) -> JoinAnswer {
        self.send_join(version).await;
        self.joined(version).await
    }

    /// Sends a JoinGroup; [`Self::joined`] waits for its answer.
    pub(crate) async fn send_join(&mut self, version: i16) {
        let protocols =
            self.protocols.iter().map(|(name, metadata)| join_group::Protocol { name, metadata });
        let request = join_group::Request {
            group_id: &self.group,
            session_timeout_ms: self.session_timeout_ms,
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            member_id: &self.id,
            group_instance_id: self.instance.as_deref(),
            protocol_type: &self.protocol_type,
            protocols: protocols.collect(),
            reason: None,
        };
        self.client.send(&request, version).await;
    }

    pub(crate) async fn joined(&mut self, version: i16) -> JoinAnswer {
        let body = self.client.answer::<join_group::Request<'_>>(version).await;
        let answer: join_group::Response<'_> = decode(&body, version);
        let joined = JoinAnswer {
            code: answer.error_code,
            generation: answer.generation_id,
            protocol: answer.protocol_name.unwrap_or_default().to_owned(),
            leader: answer.leader.to_owned(),
            id: answer.member_id.to_owned(),
            members: answer.members.iter().map(|m| m.member_id.to_owned()).collect(),
        };
        if [ErrorCode::None, ErrorCode::MemberIdRequired].contains(&joined.code) {
            self.id.clone_from(&joined.id);
            self.generation = joined.generation;
            if joined.code == ErrorCode::None {
                self.protocol.clone_from(&joined.protocol);
            }
        }
        joined
    }

    /// Joins, with the id that the broker gives if it wants one.
    pub(crate) async fn join(&mut self, version: i16) -> JoinAnswer {
        let first = self.join_once(version).await;
        if first.code == ErrorCode::MemberIdRequired {
            return self.join_once(version).await;
        }
        first
    }

    /// SyncGroup; a leader gives each of these members its own id as its assignment.
    pub(crate) async fn sync(&mut self, members: &[String], version: i16) -> (ErrorCode, Vec<u8>) {
        self.send_sync(members, version).await;
        self.synced(version).await
    }

    pub(crate) async fn send_sync(&mut self, members: &[String], version: i16) {
        let assignments = members
            .iter()
            .map(|id| sync_group::Assignment { member_id: id, assignment: id.as_bytes() });
        let request = sync_group::Request {
            group_id: &self.group,
            generation_id: self.generation,
            member_id: &self.id,
            group_instance_id: self.instance.as_deref(),
            protocol_type: Some(&self.protocol_type),
            protocol_name: Some(&self.protocol),
            assignments: assignments.collect(),
        };
        self.client.send(&request, version).await;
    }

    pub(crate) async fn synced(&mut self, version: i16) -> (ErrorCode, Vec<u8>) {
        let body = self.client.answer::<sync_group::Request<'_>>(version).await;
        let answer: sync_group::Response<'_> = decode(&body, version);
        (answer.error_code, answer.assignment.to_vec())
    }

    /// Joins alone and takes everything: a group of one.
    pub(crate) async fn settle(&mut self) {
        let joined = self.join(7).await;
        assert_eq!(joined.code, ErrorCode::None);
        let (code, assignment) = self.sync(&joined.members, 5).await;
        assert_eq!((code, assignment), (ErrorCode::None, self.id.clone().into_bytes()));
    }

    pub(crate) async fn heartbeat(&mut self) -> ErrorCode {
        let request = heartbeat::Request {
            group_id: &self.group,
            generation_id: self.generation,
            member_id: &self.id,
            group_instance_id: self.instance.as_deref(),
        };
        let body = self.client.call(&request, 4).await;
        let answer: heartbeat::Response = decode(&body, 4);
        answer.error_code
    }

    pub(crate) async fn leave(&mut self) -> ErrorCode {
        let member = leave_group::Member {
            member_id: &self.id,
            group_instance_id: self.instance.as_deref(),
            reason: Some("done"),
        };
        let request = leave_group::Request {
            group_id: &self.group,
            members: vec![member].into(),
            ..Default::default()
        };
        let body = self.client.call(&request, 5).await;
        let answer: leave_group::Response<'_> = decode(&body, 5);
        answer.members.first().map_or(answer.error_code, |m| m.error_code)
    }

    /// Commits one offset as a member.
    pub(crate) async fn commit(&mut self, topic: &str, index: i32, offset: i64) -> ErrorCode {
        let (group, id, generation) = (self.group.clone(), self.id.clone(), self.generation);
        let by = (group.as_str(), id.as_str(), generation);
        commit(&mut self.client, by, &[(topic, index, offset, Some("m"))], 8).await[0]
    }
}

/// OffsetCommit of (topic, partition, offset, metadata) by (group, member, generation); a code for each.
pub(crate) async fn commit(
    client: &mut Client,
    (group, member, generation): (&str, &str, i32),
    offsets: &[(&str, i32, i64, Option<&str>)],
    version: i16,
) -> Vec<ErrorCode> {
    let topics = offsets.iter().map(|(name, index, offset, metadata)| offset_commit::Topic {
        name,
        partitions: vec![offset_commit::Partition {
            partition_index: *index,
            committed_offset: *offset,
            committed_metadata: *metadata,
            ..Default::default()
        }]
        .into(),
        ..Default::default()
    });
    let request = offset_commit::Request {
        group_id: group,
        generation_id_or_member_epoch: generation,
        member_id: member,
        topics: topics.collect(),
        ..Default::default()
    };
    let body = client.call(&request, version).await;
    let answer: offset_commit::Response<'_> = decode(&body, version);
    let codes = answer.topics.iter().map(|t| t.partitions.first().expect("one").error_code);
    codes.collect()
}

/// Offset and metadata that a group has committed for a partition; -1: none.
pub(crate) async fn committed(
    client: &mut Client,
    group: &str,
    topic: &str,
    index: i32,
) -> (i64, String) {
    let wanted = offset_fetch::Topic { name: topic, partition_indexes: vec![index].into() };
    let request = offset_fetch::Request {
        group_id: group,
        topics: Some(vec![wanted].into()),
        ..Default::default()
    };
    let body = client.call(&request, 7).await;
    let answer: offset_fetch::Response<'_> = decode(&body, 7);
    assert_eq!(answer.error_code, ErrorCode::None);
    let found = answer.topics.first().expect("a topic").partitions.first().expect("a partition");
    assert_eq!(found.error_code, ErrorCode::None);
    (found.committed_offset, found.metadata.unwrap_or_default().to_owned())
}

/// Joins alone, with the steps that this version of JoinGroup has, and takes everything.
pub(crate) async fn settled_by_versions(member: &mut Member, version: i16) -> JoinAnswer {
    let joined = member.join(version).await;
    assert_eq!(joined.code, ErrorCode::None, "version {version}");
    let (code, _) = member.sync(&joined.members, version.min(5)).await;
    assert_eq!(code, ErrorCode::None, "version {version}");
    joined
}
