//! What may go wrong in a world, apart from kills and power cuts.

use std::time::Duration;

/// Faults of disk and network. The default has none, and the delays of a decent disk and a near network.
///
/// "The nth" counts operations from the call of `set_faults`, starting at 1, over all disks, and only those on
/// paths that contain `only_paths`, if that is set.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// Restricts disk faults to files whose path contains this.
    pub only_paths: Option<String>,
    /// The nth write fails with EIO; an unknown part of it is written.
    pub eio_on_write: Option<u64>,
    /// The nth `fdatasync` (or completed write of a `dsync` file) fails with EIO. What it should have covered is
    /// not covered by any later flush either, as in Linux.
    pub eio_on_flush: Option<u64>,
    /// The nth `syncfs` fails with EIO, likewise. (`only_paths` does not apply.)
    pub eio_on_syncfs: Option<u64>,
    /// The nth `syncfs` succeeds and has done nothing, as on a file system that was shut down (storage.md
    /// section 1); every write and flush of that disk after it fails with EIO, until the power is cut or
    /// faults are set anew.
    pub syncfs_lies: Option<u64>,
    /// The nth write is short: part of it is written, and it fails with `WriteZero`.
    pub short_write: Option<u64>,
    /// The nth read returns one flipped bit.
    pub bit_flip_on_read: Option<u64>,
    /// Probability that a write fails with EIO.
    pub eio_write_chance: f64,
    /// Probability that a flush fails with EIO.
    pub eio_flush_chance: f64,
    /// Probability that a read returns one flipped bit.
    pub bit_flip_chance: f64,
    /// Capacity of each disk in bytes; writes and allocations beyond it fail with ENOSPC.
    pub capacity: Option<u64>,
    /// Longest time a read takes.
    pub read_delay: Duration,
    /// Longest time a write takes.
    pub write_delay: Duration,
    /// Longest time an `fdatasync` takes.
    pub flush_delay: Duration,
    /// Longest time a `syncfs` takes.
    pub syncfs_delay: Duration,
    /// Longest time an open, rename, unlink, truncate or allocation takes.
    pub name_delay: Duration,
    /// Longest time after a kill at which a write that was in flight may still land. Zero: it lands, or does
    /// not, at the kill.
    pub late_writes: Duration,
    /// Longest time bytes take from end to end.
    pub net_delay: Duration,
    /// Probability that a send resets the connection.
    pub reset_chance: f64,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            only_paths: None,
            eio_on_write: None,
            eio_on_flush: None,
            eio_on_syncfs: None,
            syncfs_lies: None,
            short_write: None,
            bit_flip_on_read: None,
            eio_write_chance: 0.0,
            eio_flush_chance: 0.0,
            bit_flip_chance: 0.0,
            capacity: None,
            read_delay: Duration::from_micros(200),
            write_delay: Duration::from_micros(300),
            flush_delay: Duration::from_micros(600),
            syncfs_delay: Duration::from_millis(3),
            name_delay: Duration::from_micros(100),
            late_writes: Duration::from_secs(2),
            net_delay: Duration::from_micros(200),
            reset_chance: 0.0,
        }
    }
}
