//! What a group is doing and how far behind it is, from the broker itself: no exporter, no guess.
//!
//! Lag in records counts from the log start if what was committed lies below it. Lag in bytes is the size of the batches
//! that are still to be read. Lag in time is the age of the first record that is still to be read; 0 when there is none,
//! so it does not grow on an idle topic.

use rillway_group::{Committed, Described, TopicPartition, Transition};
use rillway_log::PartitionId;
use rillway_wire::batch::batches;

use crate::error::{CoordinatorError, PartitionError};
use crate::shard::Shard;

/// One group.
#[derive(Clone, Debug)]
pub struct GroupReport {
    /// `None`: it has committed, and never had members.
    pub described: Option<Described>,
    pub partitions: Vec<PartitionLag>,
    /// The last transitions, newest last.
    pub history: Vec<Transition>,
}

/// How far behind a group is in one partition.
#[derive(Clone, Debug)]
pub struct PartitionLag {
    pub at: TopicPartition,
    pub committed: Committed,
    pub log_start: i64,
    /// The last stable offset, which is the high watermark while there are no transactions.
    pub end: i64,
    pub records: i64,
    pub bytes: u64,
    pub age_ms: i64,
}

/// What of the log lies behind an offset.
struct Behind {
    log_start: i64,
    end: i64,
    bytes: u64,
    /// -1: nothing.
    first_timestamp: i64,
}

impl Shard {
    /// The report of a group; `None`: there is no such group.
    pub async fn group_report(&self, group: &str) -> Result<Option<GroupReport>, CoordinatorError> {
        let name = group.to_owned();
        let known = self.at_coordinator(group, move |shard| async move {
            let groups = shard.inner.groups.coordinator.borrow();
            let offsets = groups.offsets().of_group(&name).filter(|(at, c)| shard.is_of_now(at, c));
            let offsets: Vec<_> = offsets.map(|(at, c)| (at.clone(), c.clone())).collect();
            Ok((groups.describe(&name), offsets, groups.history(&name)))
        });
        let (described, offsets, history) = match known.await {
            Err(CoordinatorError::NotCoordinator) => return Ok(None),
            known => known?,
        };
        if described.is_none() && offsets.is_empty() {
            return Ok(None);
        }
        let mut partitions = Vec::new();
        for (at, committed) in offsets {
            // A partition that went meanwhile has no lag.
            if let Some(lag) = self.lag(at, committed).await {
                partitions.push(lag);
            }
        }
        Ok(Some(GroupReport { described, partitions, history }))
    }

    async fn lag(&self, at: TopicPartition, committed: Committed) -> Option<PartitionLag> {
        let id = self.view().partition(&at.topic, at.partition)?;
        let behind = self.behind(id, committed.offset).await.ok()?;
        let records = (behind.end - committed.offset.max(behind.log_start)).max(0);
        let now = self.runtime().wall_ms();
        let age_ms = if records == 0 || behind.first_timestamp < 0 {
            0
        } else {
            now.saturating_sub(behind.first_timestamp).max(0)
        };
        let Behind { log_start, end, bytes, .. } = behind;
        Some(PartitionLag { at, committed, log_start, end, records, bytes, age_ms })
    }

    async fn behind(&self, id: PartitionId, offset: i64) -> Result<Behind, PartitionError> {
        let core = self.owner_of(id)?;
        if core == self.core() {
            return self.own_behind(id, offset).await;
        }
        let there = move |shard: Shard| async move { shard.own_behind(id, offset).await };
        self.inner.mesh.call(core, there).await.unwrap_or(Err(PartitionError::Stopping))
    }

    async fn own_behind(&self, id: PartitionId, offset: i64) -> Result<Behind, PartitionError> {
        let log = self.own(id)?;
        let (log_start, end) = (log.log_start(), log.flushed_end());
        let from = offset.max(log_start);
        if from >= end {
            return Ok(Behind { log_start, end, bytes: 0, first_timestamp: -1 });
        }
        let bytes = log.bytes_from(from).await?;
        let first = log.read(from, 1, true, 1 << 20).await?;
        let head: Vec<u8> = first.chunks.iter().flat_map(|c| c.iter().copied()).collect();
        let batch = batches(&head).next().and_then(Result::ok);
        let first_timestamp = batch.map_or(-1, |batch| batch.max_timestamp());
        Ok(Behind { log_start, end, bytes, first_timestamp })
    }
}
