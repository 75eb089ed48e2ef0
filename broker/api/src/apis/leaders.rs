//! Who leads, for answers that say that the asked node does not, or not any more (KIP-951): the client goes there without
//! asking for metadata first.

use std::collections::BTreeSet;

use rillway_shard::PartitionId;

use crate::advertise::Advertised;
use crate::context::Request;

/// The nodes that one answer names as leaders.
#[derive(Default)]
pub(crate) struct Leaders(BTreeSet<i32>);

impl Leaders {
    /// Node and epoch of a partition's leader.
    pub(crate) fn of(&mut self, request: &Request, id: PartitionId) -> Option<(i32, i32)> {
        let owner = request.context.shard().view().owner(id)?;
        let node = request.context.nodes().id(owner.core);
        self.0.insert(node);
        Some((node, owner.leader_epoch))
    }

    /// Where the client finds them.
    pub(crate) fn advertised(&self, request: &Request) -> Vec<Advertised> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut nodes = request.context.nodes().advertised(request.door, request.local);
        nodes.retain(|n| self.0.contains(&n.id));
        nodes
    }
}
