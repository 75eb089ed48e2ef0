//! Committed offsets: a commit is a batch of records in the group's partition of `__consumer_offsets`, answered when it
//! is durable.

use std::rc::Rc;

use rillway_group::record;
use rillway_group::{Commit, Committed, GroupError, TopicPartition};
use rillway_log::{Log, Mutant};
use rillway_wire::batch::{BATCH_HEADER, BatchBuilder, Codec};

use crate::error::{CoordinatorError, PartitionError};
use crate::shard::Shard;

/// Bytes of a batch, unless the topic's max.message.bytes is lower, or one record alone is larger.
const BATCH_BYTES: usize = 64 << 10;

/// One partition of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetToCommit {
    pub at: TopicPartition,
    pub offset: i64,
    /// -1: not known.
    pub leader_epoch: i32,
    pub metadata: String,
    /// Zero: not known.
    pub topic_id: [u8; 16],
    /// How long it is kept, if the request says so (OffsetCommit 2-4).
    pub retention_ms: Option<i64>,
}

/// What a group has committed for a partition; `None`: nothing.
pub type CommittedOffset = (TopicPartition, Option<Committed>);

impl Shard {
    /// OffsetCommit. Durable when it returns.
    pub async fn commit_offsets(
        &self,
        commit: Commit,
        offsets: Vec<OffsetToCommit>,
    ) -> Result<(), CoordinatorError> {
        let group = commit.group.clone();
        self.find_coordinator(&group).await?;
        self.at_coordinator(&group, |shard| async move {
            let checked = shard.ask_groups(|groups, clock, _| groups.check_commit(clock, &commit));
            match checked {
                Err(GroupError::IllegalGeneration { .. })
                    if shard.inner.store.runs(Mutant::OldGenerationCommits) => {}
                checked => checked?,
            }
            let now = shard.runtime().wall_ms();
            let committed = offsets.into_iter().map(|o| {
                let committed = Committed {
                    offset: o.offset,
                    leader_epoch: o.leader_epoch,
                    metadata: o.metadata,
                    commit_ms: now,
                    expire_ms: o.retention_ms.map(|ms| now.saturating_add(ms)),
                    topic_id: o.topic_id,
                };
                (o.at, Some(committed))
            });
            shard.write_offsets(&commit.group, committed.collect()).await
        })
        .await
    }

    /// OffsetFetch: what a group has committed for these partitions, or for all that it has. `member` and
    /// `member_epoch` are checked if given (OffsetFetch 9).
    pub async fn fetch_offsets(
        &self,
        group: &str,
        partitions: Option<Vec<TopicPartition>>,
        member: Option<String>,
        member_epoch: i32,
    ) -> Result<Vec<CommittedOffset>, CoordinatorError> {
        let name = group.to_owned();
        self.at_coordinator(group, move |shard| async move {
            let groups = shard.inner.groups.coordinator.borrow();
            groups.check_fetch(&name, member.as_deref(), member_epoch)?;
            let of_now = |at: &TopicPartition, c: &Committed| shard.is_of_now(at, c);
            Ok(match partitions {
                Some(asked) => {
                    let find = |at: TopicPartition| {
                        let found = groups.offsets().get(&name, &at).filter(|c| of_now(&at, c));
                        let found = found.cloned();
                        (at, found)
                    };
                    asked.into_iter().map(find).collect()
                }
                None => {
                    let all = groups.offsets().of_group(&name).filter(|(at, c)| of_now(at, c));
                    all.map(|(at, c)| (at.clone(), Some(c.clone()))).collect()
                }
            })
        })
        .await
    }

    /// Whether an offset was committed for the topic that has its name now, and not for one before it.
    pub(super) fn is_of_now(&self, at: &TopicPartition, committed: &Committed) -> bool {
        let known = committed.topic_id != [0; 16];
        self.view().topic(&at.topic).is_some_and(|t| !known || t.id.0 == committed.topic_id)
    }

    /// Writes offsets of a group (`None`: a tombstone), waits until they are durable, and shows them.
    pub(super) async fn write_offsets(
        &self,
        group: &str,
        offsets: Vec<(TopicPartition, Option<Committed>)>,
    ) -> Result<(), CoordinatorError> {
        let log = self.offsets_log(group)?;
        let most = BATCH_BYTES.min(log.config().max_message_bytes);
        let mut appended = Vec::new();
        let mut refused = Ok(());
        let mut rest = offsets.as_slice();
        while !rest.is_empty() {
            let (together, behind) = rest.split_at(fitting(group, rest, most));
            match self.append_offsets(&log, group, together).await {
                Ok(done) => appended.push((together, done)),
                Err(e) => {
                    refused = Err(e);
                    break;
                }
            }
            rest = behind;
        }
        // Those before a batch that was refused are in the log, and a restart would show them: so they are shown now.
        for (together, appended) in appended {
            let first = appended.base_offset;
            if !self.inner.store.runs(Mutant::CommitAnsweredEarly) {
                appended.receipt.wait().await.map_err(PartitionError::from)?;
            }
            let mut groups = self.inner.groups.coordinator.borrow_mut();
            for (position, (at, committed)) in (first..).zip(together) {
                groups.offsets_mut().put(group, at.clone(), position, committed.clone());
            }
        }
        refused
    }

    async fn append_offsets(
        &self,
        log: &Rc<Log>,
        group: &str,
        offsets: &[(TopicPartition, Option<Committed>)],
    ) -> Result<rillway_log::Appended, CoordinatorError> {
        let mut batch = BatchBuilder::new(Codec::None);
        for (at, committed) in offsets {
            let key = record::offset_key(group, at);
            let value = committed.as_ref().map(record::encode_offset);
            batch.push(self.runtime().wall_ms(), Some(&key), value.as_deref(), &[]);
        }
        let batch = batch.build().map_err(|e| CoordinatorError::NotAvailable(e.to_string()))?;
        Ok(log.append_as_leader(&batch).await.map_err(PartitionError::from)?)
    }
}

/// How many of these records, one at least, make a batch.
fn fitting(group: &str, offsets: &[(TopicPartition, Option<Committed>)], most: usize) -> usize {
    // All that is neither a name nor metadata: numbers of a fixed size, and lengths.
    const REST: usize = 80;
    let mut bytes = BATCH_HEADER;
    let fits = offsets.iter().take_while(|(at, committed)| {
        let metadata = committed.as_ref().map_or(0, |c| c.metadata.len());
        bytes += REST + group.len() + at.topic.len() + metadata;
        bytes <= most
    });
    fits.count().max(1)
}
