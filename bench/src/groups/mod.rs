//! Members of consumer groups, as load: what commits cost, and how soon groups go on after a broker's end.
//!
//! A member speaks the classic protocol on one connection to its coordinator, with one request in flight. The leader
//! assigns nothing: what is measured is the broker, not an assignor.

mod commit;
mod resume;

use rillway_client::{Address, Pipe};
use rillway_wire::ErrorCode;
use rillway_wire::api::{find_coordinator, heartbeat, join_group, offset_commit, sync_group};

use crate::cluster::Cluster;
use crate::error::{Error, Result};

pub(crate) use commit::{Args as CommitArgs, run as commit};
pub(crate) use resume::{Args as ResumeArgs, run as resume};

/// Longer than any broker takes to come back.
const SESSION_MS: i32 = 30_000;
const REBALANCE_MS: i32 = 60_000;

/// A member and its connection.
struct Member {
    cluster: Cluster,
    pipe: Pipe<()>,
    group: String,
    id: String,
    generation: i32,
}

impl Member {
    /// Connects to the coordinator of a group.
    async fn connect(cluster: &Cluster, group: &str) -> Result<Member> {
        let pipe = cluster.open::<()>(&coordinator(cluster, group).await?).await?;
        let (cluster, group) = (cluster.clone(), group.to_string());
        Ok(Member { cluster, pipe, group, id: String::new(), generation: -1 })
    }

    /// JoinGroup, twice if an id is required. Everybody's ids, for the leader; nothing for the others.
    async fn join(&mut self) -> Result<Vec<String>> {
        loop {
            let protocol = join_group::Protocol { name: "range", metadata: b"" };
            let request = join_group::Request {
                group_id: &self.group,
                session_timeout_ms: SESSION_MS,
                rebalance_timeout_ms: REBALANCE_MS,
                member_id: &self.id,
                protocol_type: "consumer",
                protocols: [protocol].into_iter().collect(),
                ..Default::default()
            };
            let answer = self.pipe.ask(&request, ()).await?;
            let answer = answer.decode::<join_group::Response<'_>>()?;
            match answer.error_code {
                ErrorCode::None => {
                    self.id = answer.member_id.to_string();
                    self.generation = answer.generation_id;
                    return Ok(answer.members.iter().map(|m| m.member_id.to_string()).collect());
                }
                ErrorCode::MemberIdRequired => self.id = answer.member_id.to_string(),
                ErrorCode::UnknownMemberId => self.id.clear(),
                code => return Err(refused(&self.group, code)),
            }
        }
    }

    /// SyncGroup; `members` of the leader's join. The code, because a rebalance may have begun.
    async fn sync(&mut self, members: &[String]) -> Result<ErrorCode> {
        let assignments =
            members.iter().map(|id| sync_group::Assignment { member_id: id, assignment: b"" });
        let request = sync_group::Request {
            group_id: &self.group,
            generation_id: self.generation,
            member_id: &self.id,
            protocol_type: Some("consumer"),
            protocol_name: Some("range"),
            assignments: assignments.collect(),
            ..Default::default()
        };
        let answer = self.pipe.ask(&request, ()).await?;
        Ok(answer.decode::<sync_group::Response<'_>>()?.error_code)
    }

    /// Joins and syncs until the group is stable with this member in it. A coordinator may still be loading, or not know
    /// of its new role yet (Kafka, for the first group of all).
    async fn settle(&mut self) -> Result<()> {
        loop {
            match self.join_and_sync().await {
                Ok(ErrorCode::None) => return Ok(()),
                Ok(code) if goes_on(code) => {}
                Ok(code) | Err(Error::Refused { code, .. }) if code.is_retriable() => {
                    self.cluster.pause().await;
                    let to = coordinator(&self.cluster, &self.group).await?;
                    self.pipe = self.cluster.open(&to).await?;
                }
                Ok(code) => return Err(refused(&self.group, code)),
                Err(error) => return Err(error),
            }
        }
    }

    async fn join_and_sync(&mut self) -> Result<ErrorCode> {
        let members = self.join().await?;
        self.sync(&members).await
    }

    async fn heartbeat(&self) -> Result<ErrorCode> {
        let request = heartbeat::Request {
            group_id: &self.group,
            generation_id: self.generation,
            member_id: &self.id,
            ..Default::default()
        };
        let answer = self.pipe.ask(&request, ()).await?;
        Ok(answer.decode::<heartbeat::Response>()?.error_code)
    }

    /// Commits an offset of one partition.
    async fn commit(&self, topic: &str, partition_index: i32, offset: i64) -> Result<ErrorCode> {
        let partition = offset_commit::Partition {
            partition_index,
            committed_offset: offset,
            committed_metadata: Some(""),
            ..Default::default()
        };
        let topic = offset_commit::Topic {
            name: topic,
            partitions: [partition].into_iter().collect(),
            ..Default::default()
        };
        let request = offset_commit::Request {
            group_id: &self.group,
            generation_id_or_member_epoch: self.generation,
            member_id: &self.id,
            topics: [topic].into_iter().collect(),
            ..Default::default()
        };
        let answer = self.pipe.ask(&request, ()).await?;
        let answer = answer.decode::<offset_commit::Response<'_>>()?;
        let partition = answer.topics.first().and_then(|t| t.partitions.first());
        Ok(partition.map_or(ErrorCode::UnknownServerError, |p| p.error_code))
    }
}

/// Whether a member answers this by joining again.
fn goes_on(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::RebalanceInProgress | ErrorCode::IllegalGeneration | ErrorCode::UnknownMemberId
    )
}

fn refused(group: &str, code: ErrorCode) -> Error {
    Error::Refused { topic: group.to_string(), partition: -1, code }
}

/// Where the coordinator of a group is; asked until there is one.
async fn coordinator(cluster: &Cluster, group: &str) -> Result<Address> {
    let first = cluster.config.bootstrap.first();
    let first = first.ok_or_else(|| Error::Arguments("--bootstrap is empty".to_string()))?;
    let pipe = cluster.open::<()>(first).await?;
    loop {
        let request = find_coordinator::Request { key: group, ..Default::default() };
        let answer = pipe.ask(&request, ()).await?;
        let found = answer.decode::<find_coordinator::Response<'_>>()?;
        match found.error_code {
            ErrorCode::None => {
                let port = u16::try_from(found.port).unwrap_or(0);
                return Ok(Address { host: found.host.to_string(), port });
            }
            code if code.is_retriable() => cluster.pause().await,
            code => return Err(refused(group, code)),
        }
    }
}
