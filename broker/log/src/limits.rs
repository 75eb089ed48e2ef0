//! Every limit of the log in one place, with the relations that must hold between them.

/// Unit of all direct IO, and of everything that FORMAT.md aligns.
pub const BLOCK: usize = rillway_io::BLOCK;

/// Version of the on-disk format that this build writes and, but for checkpoints, the only one that it reads.
pub const FORMAT_VERSION: u16 = 1;
/// Version of checkpoints: 2 knows how far a partition is compacted. Version 1 is read too.
pub const CHECKPOINT_VERSION: u16 = 2;

/// Smallest ring: a quarter of it must still hold the largest batch that Kafka's default allows (1 MiB and a header).
pub const RING_BYTES_MIN: u64 = 8 << 20;
/// Default ring. Large enough that a lap at 1 GiB/s takes 250 ms, small enough that recovery reads it in 100 ms.
pub const RING_BYTES_DEFAULT: u64 = 256 << 20;

/// Largest frame as a share of the ring: release needs several frames in a lap.
pub const RING_FRAMES_MIN: u64 = 4;
/// Largest frame whatever the ring: a frame is one direct write, and single IOs above a few MiB have hung kernels
/// (glommio#633); it is also how far recovery looks for a frame that would prove corruption.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// Distance between entries of a coarse index: what a look-up reads at most, beside one batch.
pub const INDEX_INTERVAL: u64 = 256 << 10;

/// First and largest capacity of a buffer of a partition's tail. An idle partition keeps one of the first kind.
pub const TAIL_BUFFER_MIN: usize = BLOCK;
pub const TAIL_BUFFER_MAX: usize = 256 << 10;

/// Smallest and largest step by which a segment file is extended ahead of its write head. 10,000 partitions at a fixed
/// 16 MiB would take 160 GB.
pub const EXTEND_MIN: u64 = 64 << 10;
pub const EXTEND_MAX: u64 = 16 << 20;

/// What one read from a file brings into memory at most (unless one batch is larger).
pub const READ_BYTES_MAX: usize = 1 << 20;

/// Batches that a producer's state remembers, Kafka's number: why max.in.flight is at most 5.
pub const PRODUCER_BATCHES: usize = 5;
/// Producers that one partition remembers; the one that was idle longest goes first.
pub const PRODUCERS_PER_PARTITION_MAX: usize = 10_000;

/// Smallest batch that may be written straight to its segment (EXTENT) by the default settings, and the smallest that
/// any setting may ask for: below it the whole blocks are not worth a flush of their own.
pub const EXTENT_BYTES_DEFAULT: u64 = 256 << 10;
pub const EXTENT_BYTES_MIN: u64 = 16 << 10;
/// What an EXTENT entry of one batch takes in a frame at most: entry header, body, one batch header, partial block.
pub const EXTENT_ENTRY_MAX: usize = (8 + 64 + 61 + 4 + BLOCK).next_multiple_of(8);

/// Bytes before the batches of an APPEND entry: entry header, partition, segment, position, base offset.
pub const APPEND_OVERHEAD: usize = 8 + 24 + 8 + 8 + 8;
pub const FRAME_HEADER: usize = 64;

/// Memory of the cleaner's map of keys, per core. Kafka takes 128 MiB for a whole node (log.cleaner.dedupe.buffer.size).
pub const DEDUPE_BYTES_DEFAULT: usize = 32 << 20;
/// Smallest map: more keys than one batch of the smallest records should come to.
pub const DEDUPE_BYTES_MIN: usize = 1 << 20;
/// What a batch of a compacted topic may unpack to. One that unpacks to more is refused by produce, and kept as it is by
/// the cleaner: memory, and with zstd and raw Snappy, which unpack in one step, how long the core is away (16 ms at
/// 1 GB/s).
pub const UNPACKED_BYTES_MAX: usize = 16 << 20;
/// Segments that one REPLACE takes away at most: its entry must fit the smallest frame.
pub const REPLACED_MAX: usize = 4096;

/// Longest topic name that Kafka allows.
pub const TOPIC_NAME_MAX: usize = 249;

const _: () = assert!(FRAME_BYTES_MAX.is_multiple_of(BLOCK));
// An extent of the smallest size holds whole blocks, and its entry is smaller than the bytes that it replaces.
const _: () = assert!(EXTENT_BYTES_MIN as usize > EXTENT_ENTRY_MAX && EXTENT_ENTRY_MAX > BLOCK);
const _: () = assert!(EXTENT_BYTES_DEFAULT >= EXTENT_BYTES_MIN);
const _: () =
    assert!(TAIL_BUFFER_MAX.is_multiple_of(BLOCK) && TAIL_BUFFER_MIN.is_multiple_of(BLOCK));
const _: () =
    assert!(EXTEND_MIN as usize >= TAIL_BUFFER_MIN && EXTEND_MIN.is_multiple_of(BLOCK as u64));
// The smallest ring must take a batch of Kafka's default max.message.bytes with its entry and frame header.
const _: () = assert!(
    RING_BYTES_MIN / RING_FRAMES_MIN > (1_048_588 + APPEND_OVERHEAD + FRAME_HEADER + BLOCK) as u64
);

/// Largest frame of a ring of that size.
pub const fn frame_bytes_max(ring_bytes: u64) -> usize {
    let share = ring_bytes / RING_FRAMES_MIN;
    let share = share - share % BLOCK as u64;
    if share < FRAME_BYTES_MAX as u64 { share as usize } else { FRAME_BYTES_MAX }
}

/// Largest batch that fits a frame of a ring of that size.
pub const fn batch_bytes_max(ring_bytes: u64) -> usize {
    frame_bytes_max(ring_bytes) - FRAME_HEADER - APPEND_OVERHEAD - BLOCK
}

/// `n` rounded up to whole blocks.
pub(crate) const fn block_up(n: u64) -> u64 {
    n.next_multiple_of(BLOCK as u64)
}

/// `n` rounded down to whole blocks.
pub(crate) const fn block_down(n: u64) -> u64 {
    n - n % BLOCK as u64
}
