//! What is to be done for the groups: answers to send, state to keep.

use crate::error::GroupError;

/// An answer that a member waits for, named by the caller; unique within a coordinator's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A member as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    pub member: String,
    pub instance: Option<String>,
    pub metadata: Vec<u8>,
}

/// The answer of JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    pub generation: i32,
    pub protocol_type: String,
    pub protocol_name: String,
    pub leader: String,
    /// The member's own id.
    pub member: String,
    /// Everybody, for the leader; empty for the others.
    pub members: Vec<JoinedMember>,
    /// The leader has come back to a group that goes on as it is, and need not assign anew.
    pub skip_assignment: bool,
}

/// The answer of SyncGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synced {
    pub protocol_type: String,
    pub protocol_name: String,
    pub assignment: Vec<u8>,
}

/// Something that the owner of the coordinator has to carry out, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Joined(Ticket, Result<Joined, GroupError>),
    Synced(Ticket, Result<Synced, GroupError>),
    /// Keep the state of a group (`None`: it is gone), then report [`crate::Coordinator::persisted`] with the same
    /// revision. Revisions of a group are kept in their order; an older one may be skipped when a newer one is there.
    Persist {
        group: String,
        revision: u64,
        state: Option<Vec<u8>>,
    },
}
