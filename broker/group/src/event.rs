//! What members ask of a group. Owned: a request may come from another core.

/// One assignor that a member can do, and what it says to it (opaque but for [`crate::subscribed_topics`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    pub name: String,
    pub metadata: Vec<u8>,
}

/// JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    pub group: String,
    /// Empty: a member that has no id yet.
    pub member: String,
    /// group.instance.id (KIP-345).
    pub instance: Option<String>,
    /// The id to give to a member that has none: unique for ever, made by the caller
    /// (`<client id or instance id>-<uuid>`, as Kafka's).
    pub new_member: String,
    pub client_id: String,
    /// `/address`, as Kafka shows it.
    pub client_host: String,
    pub protocol_type: String,
    pub protocols: Vec<Protocol>,
    pub session_timeout_ms: i32,
    /// The session timeout below JoinGroup 1.
    pub rebalance_timeout_ms: i32,
    /// A member without an id is told one and has to come again with it (KIP-394; from JoinGroup 4, unless static).
    pub id_required: bool,
    /// The answer may say that the leader need not assign anew (from JoinGroup 9, KIP-814).
    pub skip_assignment: bool,
    /// Why the member joins, in its words (from JoinGroup 8, KIP-800).
    pub reason: Option<String>,
}

/// Who says so, and of which generation it believes itself to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub member: String,
    pub instance: Option<String>,
    pub generation: i32,
}

/// SyncGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sync {
    pub group: String,
    pub fence: Fence,
    /// From SyncGroup 5; checked if given.
    pub protocol_type: Option<String>,
    pub protocol_name: Option<String>,
    /// The leader's; empty from all others.
    pub assignments: Vec<(String, Vec<u8>)>,
}

/// Heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    pub group: String,
    pub fence: Fence,
}

/// One that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// May be empty if `instance` is given (an administrator removes a static member).
    pub member: String,
    pub instance: Option<String>,
    pub reason: Option<String>,
}

/// LeaveGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leave {
    pub group: String,
    pub members: Vec<Leaving>,
}

/// OffsetCommit, without the offsets: whether it may be done. A negative generation and an empty member: not a member,
/// allowed while the group has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    pub group: String,
    pub fence: Fence,
}
