//! What members ask of their group: join, sync, heartbeat, leave.

use rillway_group::{GroupError, Heartbeat, Join, Joined, Leave, Sync, Synced, Ticket};
use rillway_io::reply;

use crate::error::CoordinatorError;
use crate::groups::Waiting;
use crate::shard::Shard;

/// Tells the group when nobody waits for a ticket's answer any more: the member's connection is closed. Only where it
/// came in on the coordinator's own core, as those of clients that asked for the coordinator do.
struct Abandon {
    shard: Shard,
    group: String,
    ticket: Ticket,
}

impl Drop for Abandon {
    fn drop(&mut self) {
        let groups = &self.shard.inner.groups;
        // Answered tickets are not there any more, and nobody is when the node stops.
        if groups.waiting.borrow_mut().remove(&self.ticket).is_some() {
            let (group, ticket) = (&self.group, self.ticket);
            self.shard.ask_groups(|groups, clock, effects| {
                groups.abandoned(clock, group, ticket, effects);
            });
        }
    }
}

impl Shard {
    /// JoinGroup: answered when the rebalance has all its members, or its time is over.
    pub async fn join_group(&self, join: Join) -> Result<Joined, CoordinatorError> {
        let group = join.group.clone();
        // The first group's first member may have asked nobody who coordinates it.
        self.find_coordinator(&group).await?;
        self.at_coordinator(&group, |shard| async move {
            let (answer, answered) = reply();
            let ticket = shard.inner.groups.wait(Waiting::Join(answer));
            let group = join.group.clone();
            shard.ask_groups(|groups, clock, effects| groups.join(clock, ticket, join, effects));
            let _gone = Abandon { shard, group, ticket };
            answered.await.unwrap_or(Err(CoordinatorError::Stopping))
        })
        .await
    }

    /// SyncGroup: answered when the leader has assigned and the assignment is durable.
    pub async fn sync_group(&self, sync: Sync) -> Result<Synced, CoordinatorError> {
        let group = sync.group.clone();
        self.at_coordinator(&group, |shard| async move {
            let (answer, answered) = reply();
            let ticket = shard.inner.groups.wait(Waiting::Sync(answer));
            shard.ask_groups(|groups, clock, effects| groups.sync(clock, ticket, sync, effects));
            answered.await.unwrap_or(Err(CoordinatorError::Stopping))
        })
        .await
    }

    /// Heartbeat.
    pub async fn heartbeat(&self, beat: Heartbeat) -> Result<(), CoordinatorError> {
        let group = beat.group.clone();
        self.at_coordinator(&group, |shard| async move {
            let alive = shard.ask_groups(|groups, clock, _| groups.heartbeat(clock, &beat));
            Ok(alive?)
        })
        .await
    }

    /// LeaveGroup; what became of each member that leaves.
    pub async fn leave_group(
        &self,
        leave: Leave,
    ) -> Result<Vec<Result<(), GroupError>>, CoordinatorError> {
        let group = leave.group.clone();
        self.at_coordinator(&group, |shard| async move {
            Ok(shard.ask_groups(|groups, clock, effects| groups.leave(clock, &leave, effects))?)
        })
        .await
    }
}
