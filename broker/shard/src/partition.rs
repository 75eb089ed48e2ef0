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

/// What a request says of the leader epoch, where only -1 says nothing.
pub(crate) fn given_epoch(got: i32) -> Option<i32> {
    Some(got).filter(|got| *got != -1)
}

/// A request's leader epoch against the log's (KIP-320).
pub(crate) fn check_epoch(log: &Log, got: Option<i32>) -> Result<(), PartitionError> {
    let current = log.leader_epoch();
    let Some(got) = got else { return Ok(()) };
    if got == current {
        Ok(())
    } else if got < current {
        Err(PartitionError::FencedLeaderEpoch { got, current })
    } else {
        Err(PartitionError::UnknownLeaderEpoch { got, current })
    }
}
