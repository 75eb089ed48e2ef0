//! DeleteRecords: a client moves the start of a partition up (KIP-107).

use rillway_log::PartitionId;

use crate::error::PartitionError;
use crate::shard::Shard;

impl Shard {
    /// Deletes what lies before an offset, `None`: before the high watermark. The log start then, durable; what waits for
    /// the partition looks again. An offset that is already behind the log start is no change.
    pub async fn delete_records(
        &self,
        id: PartitionId,
        before: Option<i64>,
    ) -> Result<i64, PartitionError> {
        let core = self.owner_of(id)?;
        if core == self.core() {
            return self.own_delete_records(id, before).await;
        }
        let asked = move |shard: Shard| async move { shard.own_delete_records(id, before).await };
        self.inner.mesh.call(core, asked).await.unwrap_or(Err(PartitionError::Stopping))
    }

    async fn own_delete_records(
        &self,
        id: PartitionId,
        before: Option<i64>,
    ) -> Result<i64, PartitionError> {
        let log = self.own(id)?;
        if !log.config().delete {
            return Err(PartitionError::NotDeletable);
        }
        log.trim(before.unwrap_or_else(|| log.flushed_end())).await?;
        Ok(log.log_start())
    }
}
