//! The bytes of the worked examples of FORMAT.md, made by the code that makes the real ones. `tests/format.rs` compares
//! them with the page. Fixed inputs: storage id 00 01 .. 0f, salt 0x0123456789abcdef, partition 3 of topic 07 07 .. 07.

use crate::bytes::salted_crc;
use crate::checkpoint::CheckpointHeader;
use crate::entry::{Entry, PartitionRef};
use crate::frame::FrameHeader;
use crate::ids::{Generation, PartitionId, RingId, Sequence, TopicId};
use crate::limits::{BLOCK, FRAME_HEADER};
use crate::state::{EpochMap, ProducerTable, SegmentState};

pub const STORAGE: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
pub const SALT: u64 = 0x0123_4567_89ab_cdef;

const WALL_MS: i64 = 1_700_000_000_000;

fn partition() -> PartitionRef {
    PartitionRef {
        id: PartitionId { topic: TopicId([7; 16]), index: 3 },
        generation: Generation(1),
    }
}

/// A frame of one block, the third of ring 1: CREATE of topic `clicks`, EPOCH 0, PRODUCER_IDS.
pub fn frame() -> Vec<u8> {
    let entries = [
        Entry::Create { partition: partition(), log_start: 0, topic: "clicks" },
        Entry::Epoch { partition: partition(), epoch: 0, start: 0 },
        Entry::ProducerIds { next: 1_000 },
    ];
    let mut payload: Vec<u8> = entries.iter().flat_map(Entry::to_bytes).collect();
    payload.resize(BLOCK - FRAME_HEADER, 0);
    let header = FrameHeader {
        mark: false,
        entries: 3,
        ring: RingId(1),
        sequence: Sequence(3),
        checkpoint: 2,
        wall_ms: WALL_MS,
        payload_len: (BLOCK - FRAME_HEADER) as u32,
        previous_crc: 0x1122_3344,
        payload_crc: salted_crc(SALT, &payload),
    };
    let (bytes, _) = header.encode(SALT);
    [bytes.to_vec(), payload].concat()
}

/// The header block of a checkpoint without records, the fifth of ring 1, of a clean stop.
pub fn checkpoint_header() -> Vec<u8> {
    let header = CheckpointHeader {
        clean: true,
        storage: STORAGE,
        ring: RingId(1),
        number: 5,
        replay_position: 8192,
        replay_sequence: Sequence(4),
        previous_crc: 0x1122_3344,
        body_crc: salted_crc(SALT, &[]),
        body_len: 0,
        wall_ms: WALL_MS,
        next_producer_id: 1_000,
        partitions: 0,
        deletions: 0,
    };
    header.encode(SALT)
}

/// The `.meta` of a segment of one batch of 100 bytes: offsets 10 to 14, appended at the wall clock of the frame.
pub fn meta() -> Vec<u8> {
    let mut segment = SegmentState::new(10);
    let batch = crate::state::BatchInfo {
        base_offset: 10,
        next_offset: 15,
        len: 100,
        base_timestamp: WALL_MS,
        max_timestamp: WALL_MS + 4,
        producer_id: 1,
        producer_epoch: 0,
        base_sequence: 0,
        last_sequence: 4,
        leader_epoch: 0,
    };
    segment.push(&batch, WALL_MS);
    let mut producers = ProducerTable::default();
    producers.push(&batch, WALL_MS);
    let mut epochs = EpochMap::default();
    epochs.begin(0, 10);
    crate::meta::encode(&STORAGE, partition(), &segment, &producers, &epochs)
}
