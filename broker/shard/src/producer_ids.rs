//! Producer ids: unique for ever, so they come from blocks that the controller's ring has reserved before one is given
//! out (storage.md section 9). A core takes a block of its own and hands out of it.

use crate::error::PartitionError;
use crate::shard::{CONTROLLER, Shard};

/// Ids in a block, Kafka's number: a restart gives up the rest of one.
const BLOCK: i64 = 1_000;

impl Shard {
    /// A producer id that nobody else has or will have.
    pub async fn new_producer_id(&self) -> Result<i64, PartitionError> {
        let inner = &self.inner;
        let _turn = inner.producer_ids_turn.acquire(1).await;
        let (next, end) = inner.producer_ids.get();
        let (next, end) = if next < end {
            (next, end)
        } else {
            let reserve = |shard: Shard| async move {
                shard.inner.store.reserve_producer_ids(BLOCK).await.map_err(Into::into)
            };
            let first = if inner.core == CONTROLLER {
                reserve(self.clone()).await
            } else {
                inner.mesh.call(CONTROLLER, reserve).await.unwrap_or(Err(PartitionError::Stopping))
            }?;
            (first, first + BLOCK)
        };
        inner.producer_ids.set((next + 1, end));
        Ok(next)
    }
}
