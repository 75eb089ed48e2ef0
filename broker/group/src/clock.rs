//! The time of an event, as its caller read it.

/// One moment on two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Milliseconds on a clock that never steps; every timeout runs on it (field case time-2).
    pub mono_ms: u64,
    /// Milliseconds since 1970, for what people and records are told.
    pub wall_ms: i64,
}
