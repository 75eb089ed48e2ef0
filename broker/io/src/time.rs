//! A point on the monotonic clock of one node.
//!
//! A number and nothing else, so pure state machines can hold and compare it, and the simulator can make
//! it up. Absent on purpose: `Instant::now()`. Only a `Runtime` knows what time it is.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// Nanoseconds since some moment before the node started. Comparable within one node's life only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The beginning of the clock.
    pub const ZERO: Instant = Instant(0);

    /// From nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }

    /// As nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time passed since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Nanoseconds of `d`, capped at 584 years.
pub(crate) fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, d: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos(d)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, d: Duration) -> Instant {
        Instant(self.0.saturating_sub(nanos(d)))
    }
}
