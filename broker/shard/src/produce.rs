//! Produce: offsets are assigned in the order of the requests; the answer waits for the flush.
//!
//! Two steps, so that a connection can go on: [`Shard::produce`] returns when the batch has its place in the order
//! (here, or in the owner's mailbox), and [`Producing::done`] when it is durable.

use rillway_io::{Class, Reply, reply};
use rillway_log::{Appended, PartitionId};

use crate::error::PartitionError;
use crate::shard::Shard;

/// A batch that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Produced {
    pub base_offset: i64,
    pub log_start: i64,
}

/// A batch that has its place in the order and waits for its flush.
pub struct Producing(State);

enum State {
    Here(Box<Appended>, i64),
    There(Reply<Result<Produced, PartitionError>>),
    Failed(PartitionError),
}

impl Producing {
    /// Waits until the batch is on disk, or says why it will not be.
    pub async fn done(self) -> Result<Produced, PartitionError> {
        match self.0 {
            State::Here(appended, log_start) => settle(*appended, log_start).await,
            State::There(answer) => answer.await.unwrap_or(Err(PartitionError::Stopping)),
            State::Failed(e) => Err(e),
        }
    }
}

async fn settle(appended: Appended, log_start: i64) -> Result<Produced, PartitionError> {
    let base_offset = appended.base_offset;
    appended.receipt.wait().await?;
    Ok(Produced { base_offset, log_start })
}

impl Shard {
    /// Appends one batch, which has passed `BatchView::validate_produce`. Waits while there is no room.
    pub async fn produce(&self, id: PartitionId, batch: &[u8]) -> Producing {
        match self.owner_of(id) {
            Err(e) => Producing(State::Failed(e)),
            Ok(core) if core == self.core() => match self.append(id, batch).await {
                Ok((appended, log_start)) => Producing(State::Here(Box::new(appended), log_start)),
                Err(e) => Producing(State::Failed(e)),
            },
            Ok(core) => {
                let (answer, answered) = reply();
                let batch = batch.to_vec();
                let sent = self.inner.mesh.call_in_order(core, move |shard: Shard| async move {
                    match shard.append(id, &batch).await {
                        Err(e) => {
                            answer.send(Err(e));
                        }
                        Ok((appended, log_start)) => {
                            let task = shard.runtime().spawn(Class::Data, async move {
                                answer.send(settle(appended, log_start).await);
                            });
                            drop(task);
                        }
                    }
                });
                if sent.await {
                    Producing(State::There(answered))
                } else {
                    Producing(State::Failed(PartitionError::Stopping))
                }
            }
        }
    }

    async fn append(
        &self,
        id: PartitionId,
        batch: &[u8],
    ) -> Result<(Appended, i64), PartitionError> {
        let log = self.own(id)?;
        let appended = log.append_as_leader(batch).await?;
        Ok((appended, log.log_start()))
    }
}
