//! ListOffsets: where a partition begins and ends, and what stands at a time.

use rillway_log::PartitionId;

use crate::error::PartitionError;
use crate::partition::{check_epoch, given_epoch};
use crate::shard::Shard;

/// What is asked of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetQuery {
    /// -2
    Earliest,
    /// -1: the high watermark, which is the last stable offset while there are no transactions.
    Latest,
    /// -3: the record with the largest timestamp.
    MaxTimestamp,
    /// -5: there is none, since nothing is tiered.
    LatestTiered,
    /// The first record at or after a time.
    AtTime(i64),
}

/// Offset -1: there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetAnswer {
    pub offset: i64,
    pub timestamp: i64,
    pub leader_epoch: i32,
}

impl Shard {
    pub async fn offset(
        &self,
        id: PartitionId,
        query: OffsetQuery,
        leader_epoch: i32,
    ) -> Result<OffsetAnswer, PartitionError> {
        let core = self.owner_of(id)?;
        if core == self.core() {
            return self.own_offset(id, query, leader_epoch).await;
        }
        let asked =
            move |shard: Shard| async move { shard.own_offset(id, query, leader_epoch).await };
        self.inner.mesh.call(core, asked).await.unwrap_or(Err(PartitionError::Stopping))
    }

    async fn own_offset(
        &self,
        id: PartitionId,
        query: OffsetQuery,
        leader_epoch: i32,
    ) -> Result<OffsetAnswer, PartitionError> {
        let log = self.own(id)?;
        check_epoch(&log, given_epoch(leader_epoch))?;
        let epoch = log.leader_epoch();
        let at = |offset| OffsetAnswer { offset, timestamp: -1, leader_epoch: epoch };
        let found = match query {
            OffsetQuery::Earliest => return Ok(at(log.log_start())),
            OffsetQuery::Latest => return Ok(at(log.flushed_end())),
            OffsetQuery::LatestTiered => None,
            OffsetQuery::MaxTimestamp => log.offset_of_max_timestamp().await?,
            OffsetQuery::AtTime(timestamp) => log.offset_for_timestamp(timestamp).await?,
        };
        Ok(match found {
            Some(f) => OffsetAnswer {
                offset: f.offset,
                timestamp: f.timestamp,
                leader_epoch: f.leader_epoch,
            },
            None => OffsetAnswer { offset: -1, timestamp: -1, leader_epoch: -1 },
        })
    }
}

impl Shard {
    /// OffsetForLeaderEpoch (KIP-101, KIP-320): the largest epoch up to `asked`, and the offset behind its last record;
    /// (-1, -1) when `asked` is in the future. `current` is what the reader believes the epoch to be; negative: nothing.
    pub async fn epoch_end(
        &self,
        id: PartitionId,
        current: i32,
        asked: i32,
    ) -> Result<(i32, i64), PartitionError> {
        let core = self.owner_of(id)?;
        if core == self.core() {
            return self.own_epoch_end(id, current, asked);
        }
        let call = move |shard: Shard| async move { shard.own_epoch_end(id, current, asked) };
        self.inner.mesh.call(core, call).await.unwrap_or(Err(PartitionError::Stopping))
    }

    fn own_epoch_end(
        &self,
        id: PartitionId,
        current: i32,
        asked: i32,
    ) -> Result<(i32, i64), PartitionError> {
        let log = self.own(id)?;
        check_epoch(&log, given_epoch(current))?;
        Ok(log.epoch_end(asked))
    }
}
