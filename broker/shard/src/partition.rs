//! The owner's side of a partition: is it here, and may this request have it.

use std::rc::Rc;

use rillway_log::{Log, PartitionId};

use crate::error::PartitionError;
use crate::shard::Shard;

impl Shard {
    /// The log of a partition that this core owns.
    pub(crate) fn own(&self, id: PartitionId) -> Result<Rc<Log>, PartitionError> {
        self.inner.store.log(id).ok_or(PartitionError::UnknownPartition)
    }

    /// The core that leads a partition, as the view has it.
    pub(crate) fn owner_of(&self, id: PartitionId) -> Result<usize, PartitionError> {
        self.view().owner(id).map(|owner| owner.core).ok_or(PartitionError::UnknownPartition)
    }
}

/// A request's leader epoch against the log's (KIP-320); negative: not given.
pub(crate) fn check_epoch(log: &Log, got: i32) -> Result<(), PartitionError> {
    let current = log.leader_epoch();
    if got < 0 || got == current {
        Ok(())
    } else if got < current {
        Err(PartitionError::FencedLeaderEpoch { got, current })
    } else {
        Err(PartitionError::UnknownLeaderEpoch { got, current })
    }
}
