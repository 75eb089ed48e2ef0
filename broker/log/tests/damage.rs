//! Rings whose last frames are torn, rotten, stale or forged; and extents, which this build reads and does not write.

mod common;

use std::path::PathBuf;

use common::{Drill, End, NODE, batch, topic};
use rillway_log::{
    BLOCK, Entry, ExtentEntry, FRAME_HEADER, FrameHeader, Generation, PartitionRef, Sequence,
};
use rillway_wire::batch::assign;

/// The first ring, as it is on the disk.
struct Image {
    path: PathBuf,
    salt: u64,
    /// Position, header and header CRC, in the order of their sequences.
    frames: Vec<(u64, FrameHeader, u32)>,
}

fn image(drill: &Drill) -> Image {
    let disk = drill.world.disk(NODE);
    let current = disk.read(&drill.path("rings/current")).expect("the list of rings");
    let current = String::from_utf8(current).expect("text");
    let line = current.lines().find(|l| l.starts_with("ring 1 ")).expect("ring 1").to_owned();
    let salt = u64::from_str_radix(line.split(' ').nth(2).expect("a salt"), 16).expect("hex");
    let path = drill.path("rings/1.ring");
    let bytes = disk.read(&path).expect("a ring");
    let mut frames: Vec<_> = (0..bytes.len() / BLOCK)
        .filter_map(|n| {
            let (header, crc) = FrameHeader::decode(salt, &bytes[n * BLOCK..])?;
            Some(((n * BLOCK) as u64, header, crc))
        })
        .collect();
    frames.sort_by_key(|(_, header, _)| header.sequence);
    Image { path, salt, frames }
}

impl Image {
    fn last(&self) -> (u64, FrameHeader, u32) {
        *self.frames.last().expect("a frame")
    }

    /// Where the next frame goes, and its header, but for the payload.
    fn next(&self, payload: &[u8], entries: u32) -> (u64, Vec<u8>) {
        let (position, last, crc) = self.last();
        let header = FrameHeader {
            mark: false,
            entries,
            sequence: Sequence(last.sequence.0 + 1),
            payload_len: payload.len() as u32,
            previous_crc: crc,
            payload_crc: crc32c::crc32c_append(crc32c::crc32c(&self.salt.to_le_bytes()), payload),
            ..last
        };
        let (bytes, _) = header.encode(self.salt);
        (position + last.frame_len(), [bytes.to_vec(), payload.to_vec()].concat())
    }
}

/// Five batches, acknowledged, and then a kill.
fn five(seed: u64) -> Drill {
    let drill = Drill::new(seed);
    drill.life(End::Kill, |n| async move { n.fill(&n.log(topic(1)).await, 5, 3_000).await });
    drill
}

fn has_five(drill: &Drill, torn: u64) {
    drill.life(End::PowerCut, move |n| async move {
        assert_eq!(n.store().counters().torn_frames, torn);
        n.holds(&n.log(topic(1)).await, 5, 3_000).await;
    });
    drill.life(End::Kill, |n| async move {
        let log = n.log(topic(1)).await;
        n.holds(&log, 5, 3_000).await;
        n.append(&log, &batch(5, 3_000)).await;
    });
    drill.life(End::PowerCut, |n| async move { n.holds(&n.log(topic(1)).await, 6, 3_000).await });
}

#[test]
fn a_torn_frame_behind_an_acknowledged_one_is_dropped_whole() {
    let drill = five(1);
    let image = image(&drill);
    let (position, mut frame) = image.next(&vec![3; 4 * BLOCK - FRAME_HEADER], 1);
    frame[2 * BLOCK..3 * BLOCK].fill(0xa5);
    drill.world.disk(NODE).write(&image.path, position, &frame);
    has_five(&drill, 1);
}

#[test]
fn a_torn_header_is_dropped() {
    let drill = five(2);
    let image = image(&drill);
    let (position, frame) = image.next(&vec![3; 4 * BLOCK - FRAME_HEADER], 1);
    drill.world.disk(NODE).write(&image.path, position + 512, &frame[512..]);
    has_five(&drill, 0);
}

#[test]
fn the_stale_bytes_of_a_dropped_frame_under_the_next_one_are_no_frame() {
    let drill = five(3);
    let image = image(&drill);
    // The dropped frame was nine blocks; what comes next is one block each.
    let (position, mut frame) = image.next(&vec![3; 9 * BLOCK - FRAME_HEADER], 1);
    frame[8 * BLOCK..].fill(0);
    drill.world.disk(NODE).write(&image.path, position, &frame);
    has_five(&drill, 1);
}

#[test]
fn a_rotten_frame_before_a_mark_is_refused_and_a_rotten_mark_costs_nothing() {
    let drill = Drill::new(4);
    drill.life(End::Kill, |n| async move {
        n.fill(&n.log(topic(1)).await, 5, 3_000).await;
        n.rt.sleep(std::time::Duration::from_millis(1_500)).await;
    });
    let found = image(&drill);
    let (mark, header, _) = found.last();
    assert!(header.mark, "one second of rest ends with a mark");
    let (data, ..) = found.frames[found.frames.len() - 2];
    drill.world.disk(NODE).flip(&found.path, data + 900, 3);
    let words = drill.refused();
    assert!(words.contains("corrupt") && words.contains("1.ring"), "{words}");
    drill.world.disk(NODE).flip(&found.path, data + 900, 3);
    drill.world.disk(NODE).flip(&found.path, mark + 900, 3);
    has_five(&drill, 1);
}

#[test]
fn record_bytes_that_look_like_a_frame_are_records() {
    let drill = Drill::new(5);
    drill.life(End::Kill, |n| async move {
        let log = n.log(topic(1)).await;
        n.fill(&log, 5, 3_000).await;
        // Headers of all sequences to come, at every place within a block, sealed with a salt that is not the ring's.
        for shift in 0..64 {
            let mut value = vec![0; shift];
            for sequence in 0..600 {
                let header = FrameHeader {
                    mark: false,
                    entries: 1,
                    ring: n.store().ring(),
                    sequence: Sequence(sequence),
                    checkpoint: 1,
                    wall_ms: 0,
                    payload_len: (BLOCK - FRAME_HEADER) as u32,
                    previous_crc: 0,
                    payload_crc: 0,
                };
                value.extend_from_slice(&header.encode(0).0);
            }
            let mut builder =
                rillway_wire::batch::BatchBuilder::new(rillway_wire::batch::Codec::None);
            builder.push(0, None, Some(&value), &[]);
            n.append(&log, &builder.build().expect("in memory")).await;
        }
    });
    for end in [End::PowerCut, End::Kill] {
        drill.life(end, |n| async move {
            let log = n.log(topic(1)).await;
            assert_eq!((log.flushed_end(), n.read(&log).await.len()), (69, 69));
        });
    }
}

/// Writes what a commit with an extent leaves: `n` batches of 3,000 bytes whose whole blocks stand in the segment.
fn extent(drill: &Drill, tear: bool) {
    let log: Vec<u8> = drill.life(End::Kill, |n| async move {
        let log = n.log(topic(1)).await;
        let fetched = log.read(0, 1 << 20, true, 1 << 20).await.expect("read");
        fetched.chunks.iter().flat_map(|c| c.to_vec()).collect()
    });
    let image = image(drill);
    let position = log.len() / BLOCK * BLOCK;
    let mut bytes = log[position..].to_vec();
    let mut headers = Vec::new();
    for offset in 5..20 {
        let mut batch = batch(offset, 3_000);
        assign(&mut batch, offset as i64, 0);
        headers.push(batch[..61].to_vec());
        bytes.extend_from_slice(&batch);
    }
    let length = bytes.len() / BLOCK * BLOCK;
    let partition = PartitionRef { id: topic(1), generation: Generation(1) };
    let entry = Entry::Extent(ExtentEntry {
        partition,
        segment: 0,
        position: position as u64,
        length: length as u64,
        base_offset: 5,
        crc: crc32c::crc32c(&bytes[..length]),
        headers: headers.iter().map(Vec::as_slice).collect(),
        tail: &bytes[length..],
    });
    let mut payload = entry.to_bytes();
    payload.resize((FRAME_HEADER + payload.len()).next_multiple_of(BLOCK) - FRAME_HEADER, 0);
    let (at, frame) = image.next(&payload, 1);
    let disk = drill.world.disk(NODE);
    let segment = drill.path("t1-0/00000000000000000000.log");
    disk.write(&segment, position as u64, &bytes[..length]);
    if tear {
        disk.write(&segment, (position + 2 * BLOCK) as u64, &[0; 512]);
    }
    disk.write(&image.path, at, &frame);
}

#[test]
fn an_extent_whose_bytes_are_all_there_is_part_of_the_log() {
    let drill = five(6);
    extent(&drill, false);
    for end in [End::PowerCut, End::Kill] {
        drill.life(end, |n| async move { n.holds(&n.log(topic(1)).await, 20, 3_000).await });
    }
}

#[test]
fn a_frame_whose_extent_is_torn_is_dropped_whole() {
    let drill = five(7);
    extent(&drill, true);
    drill.life(End::PowerCut, |n| async move { n.holds(&n.log(topic(1)).await, 5, 3_000).await });
    drill.life(End::Kill, |n| async move {
        let log = n.log(topic(1)).await;
        n.append(&log, &batch(5, 3_000)).await;
        n.holds(&log, 6, 3_000).await;
    });
}

#[test]
fn a_ring_that_was_cut_is_refused() {
    let drill = Drill::new(5);
    drill.life(End::Kill, |n| async move {
        let log = n.log(topic(1)).await;
        n.fill(&log, 40, 50_000).await;
    });
    drill.world.disk(NODE).truncate(&drill.path("rings/1.ring"), 1 << 20);
    let words = drill.refused();
    assert!(words.contains("length of a ring"), "{words}");
}

#[test]
fn a_rotten_identity_refuses_its_partition_and_nothing_of_it_is_removed() {
    let drill = Drill::new(9);
    drill.life(End::Clean, |n| async move {
        n.fill(&n.log(topic(1)).await, 20, 60_000).await;
    });
    let (disk, path) = (drill.world.disk(NODE), drill.path("t1-0/partition.metadata"));
    disk.flip(&path, 30, 1);
    // Two starts: what one renames away the next one removes.
    for _ in 0..2 {
        drill.life(End::Clean, |n| async move {
            let log = n.log(topic(1)).await;
            assert!(log.append_as_leader(&batch(20, 60_000)).await.is_err());
            let why = log.refused().expect("it is refused");
            assert!(why.contains("partition.metadata"), "{why}");
        });
    }
    disk.flip(&path, 30, 1);
    drill.life(End::Kill, |n| async move {
        let log = n.log(topic(1)).await;
        n.holds(&log, 20, 60_000).await;
        n.append(&log, &batch(20, 60_000)).await;
    });
    drill.life(End::PowerCut, |n| async move { n.holds(&n.log(topic(1)).await, 21, 60_000).await });
}
