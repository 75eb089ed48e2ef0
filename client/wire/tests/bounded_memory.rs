//! What a decoder may allocate for any input: at most twice the frame and 64 KiB.
//!
//! The only test of this binary, since the allocator counts for the whole process.

use std::fmt::Write;

use peak_alloc::PeakAlloc;
use rillway_wire::batch::{Codec, compress, decompress};
use rillway_wire::{Message, RequestHeader, api};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const SLACK: usize = 64 * 1024;
const FRAME: usize = 1 << 20;

/// Bytes that `work` has on the heap at its peak, besides what was there before.
fn peak(work: impl FnOnce()) -> usize {
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    work();
    HEAP.peak_usage().saturating_sub(before)
}

/// Swallows what a walk prints.
struct Sink;

impl Write for Sink {
    fn write_str(&mut self, _: &str) -> std::fmt::Result {
        Ok(())
    }
}

/// Decodes, and walks every element of what came out.
fn decode<'a, M: Message<'a> + std::fmt::Debug>(frame: &'a [u8], version: i16) -> bool {
    match M::decode_prefix(frame, version) {
        Ok((message, _)) => write!(Sink, "{message:?}").is_ok(),
        Err(_) => false,
    }
}

/// Frames that are all array: small counts and empty texts repeat until the end, whatever the message is.
fn hostile_frames() -> Vec<Vec<u8>> {
    let mut frames = vec![Vec::new(), vec![0xff; FRAME], vec![0x7f; FRAME], vec![0x80; FRAME]];
    // Counts in front of nothing: 16-bit lengths of zero, compact lengths of null, empty and one.
    for count in [
        &[0x00, 0x0f, 0x42, 0x40][..],
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xc1, 0x84, 0x3d],
        &[0xff, 0xff, 0x3f],
    ] {
        for prefix in 0..24 {
            for fill in [&[0x00][..], &[0x01], &[0x01, 0x00], &[0x02, 0x00], &[0x01, 0x01, 0x00]] {
                let mut frame = vec![0; prefix];
                frame.extend_from_slice(count);
                frame.extend(fill.iter().cycle().take(64 * 1024));
                frames.push(frame);
            }
        }
    }
    // Noise of small numbers, which makes the deepest structures.
    let mut state = 1u32;
    for _ in 0..300 {
        frames.push(
            (0..4_000)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8 % 4
                })
                .collect(),
        );
    }
    frames
}

/// Every version of one message against all frames; how many of them decoded.
macro_rules! check {
    ($message:ty, $frames:expr) => {{
        let mut decoded = 0;
        for version in <$message>::VERSIONS {
            for frame in $frames {
                let used = peak(|| decoded += usize::from(decode::<$message>(frame, version)));
                let most = 2 * frame.len() + SLACK;
                let what = <$message>::API;
                assert!(
                    used <= most,
                    "{what} v{version}: {used} bytes for a frame of {}",
                    frame.len()
                );
            }
        }
        decoded
    }};
}

/// Both messages of an API: some frames have to decode, or the test would show nothing.
macro_rules! check_apis {
    ($frames:expr, $($api:ident),*) => {$(
        let decoded = check!(api::$api::Request, $frames) + check!(api::$api::Response, $frames);
        assert!(decoded > 0, "no frame was good enough for {}", stringify!($api));
    )*};
}

#[test]
fn no_input_makes_a_decoder_allocate_more_than_twice_its_size() {
    let frames = &hostile_frames();
    check_apis!(
        frames,
        alter_configs,
        api_versions,
        create_partitions,
        create_topics,
        delete_groups,
        delete_records,
        delete_topics,
        describe_cluster,
        describe_configs,
        describe_groups,
        describe_log_dirs,
        describe_topic_partitions,
        fetch,
        find_coordinator,
        heartbeat,
        incremental_alter_configs,
        init_producer_id,
        join_group,
        leave_group,
        list_config_resources,
        list_groups,
        list_offsets,
        metadata,
        offset_commit,
        offset_delete,
        offset_fetch,
        offset_for_leader_epoch,
        produce,
        sync_group
    );

    // The densest array there is: half a million names of nothing, two bytes each, sixteen in memory.
    let mut dense = vec![0, 7, 0xa1, 0x20];
    dense.resize(4 + 1_000_000 + 4, 0);
    let used = peak(|| assert!(decode::<api::delete_topics::Request<'_>>(&dense, 1)));
    assert!(used <= SLACK, "{used} bytes for names that are borrowed");

    for frame in frames {
        assert!(peak(|| _ = RequestHeader::decode(frame)) <= SLACK);
    }

    // 64 MiB of nothing, in a few kilobytes: what comes out is bounded, and so is what it takes.
    let limit = FRAME;
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let bomb = compress(codec, &vec![0; 64 << 20]).expect("memory never fails").into_owned();
        let used = peak(|| assert!(decompress(codec, &bomb, limit).is_err()));
        // A buffer that grows is there twice while it moves; LZ4 has its blocks of up to 4 MiB besides.
        let most = 3 * limit + SLACK + if codec == Codec::Lz4 { 8 << 20 } else { SLACK };
        assert!(used <= most, "{codec:?}: {used} bytes for a limit of {limit}");
    }
}
