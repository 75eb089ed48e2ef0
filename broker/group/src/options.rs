//! Settings of groups, under Kafka's names.

/// Limits and times of all groups of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// group.min.session.timeout.ms
    pub session_timeout_min_ms: i32,
    /// group.max.session.timeout.ms
    pub session_timeout_max_ms: i32,
    /// group.initial.rebalance.delay.ms: how long the first rebalance of an empty group waits for more members.
    pub initial_rebalance_delay_ms: i32,
    /// group.max.size: members that a group may have.
    pub size_max: usize,
    /// offset.metadata.max.bytes, in units of UTF-16 for all its name.
    pub offset_metadata_max: usize,
    /// offsets.retention.minutes, in milliseconds.
    pub offsets_retention_ms: i64,
    /// Transitions that a group remembers (`rillctl group why`).
    pub history_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            session_timeout_min_ms: 6_000,
            session_timeout_max_ms: 1_800_000,
            initial_rebalance_delay_ms: 3_000,
            size_max: i32::MAX as usize,
            offset_metadata_max: 4_096,
            offsets_retention_ms: 7 * 86_400_000,
            history_max: 32,
        }
    }
}
