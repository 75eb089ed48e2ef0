//! Sizes that count, and payloads that unpack to more than there is.

use rillway_wire::ErrorCode;
use rillway_wire::Records;
use rillway_wire::api::list_offsets::MAX_TIMESTAMP;
use rillway_wire::api::produce::{Partition, Request, Topic};
use rillway_wire::batch::{BatchBuilder, Codec, compress};

use super::{CODECS, claiming, create_with, ends, list, produce_as, produced, set, with_payload};
use crate::client::{Client, batch, options, scenario, scenario_with};

/// A batch of exactly so many stored bytes. The payload stays opaque to the broker.
fn stored(codec: Codec, len: usize) -> Vec<u8> {
    let bytes = with_payload(codec, 1, &vec![7; len - 61]);
    assert_eq!(bytes.len(), len);
    bytes
}

/// produce-1: the whole batch as stored, header included, after compression, counts against the limit of the topic.
#[test]
fn a_batch_is_measured_as_stored_and_a_new_limit_holds_for_the_next_request() {
    for (cores, limit) in [(1, 100_000), (2, 100_000), (2, 1_000), (1, 1_048_588), (2, 2_000_000)] {
        scenario(cores, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            let text = limit.to_string();
            let configs = [("max.message.bytes", text.as_str())];
            assert_eq!(create_with(&mut client, "t", 2, &configs).await, ErrorCode::None);
            let mut next = [0, 0];
            for version in 3..=9 {
                for codec in CODECS {
                    if codec == Codec::Zstd && version < 7 {
                        continue;
                    }
                    let (fits, above) = (stored(codec, limit), stored(codec, limit + 1));
                    let small = batch(&[b"small"]);
                    // One request: too large for one partition, small for the other, in both orders.
                    for (order, large) in [([0, 1], 0), ([1, 0], 1)] {
                        let partition_data = order.map(|index| Partition {
                            index,
                            records: Records::Bytes(if index == large { &above } else { &small }),
                        });
                        let topic = Topic {
                            name: "t",
                            partition_data: partition_data.to_vec().into(),
                            ..Default::default()
                        };
                        let request = Request {
                            acks: -1,
                            timeout_ms: 1_000,
                            topic_data: vec![topic].into(),
                            ..Default::default()
                        };
                        let body = client.call(&request, version).await;
                        let got = produced(&body, version);
                        for (at, index) in order.into_iter().enumerate() {
                            if index == large {
                                assert_eq!(got[at], (ErrorCode::MessageTooLarge, -1));
                            } else {
                                let slot = &mut next[index as usize];
                                assert_eq!(got[at], (ErrorCode::None, *slot));
                                *slot += 1;
                            }
                        }
                    }
                    let got = produce_as(&mut client, ("t", 0), &fits, version).await;
                    assert_eq!(got, (ErrorCode::None, next[0]), "{codec:?}, version {version}");
                    next[0] += 1;
                }
            }
            // Much that compresses to little is little.
            for codec in CODECS.into_iter().skip(1) {
                let mut builder = BatchBuilder::new(codec);
                builder.push(1_000, None, Some(&vec![b'a'; 10 * limit]), &[]);
                let small = builder.build().unwrap();
                let fits = small.len() <= limit;
                let code = client.produce("t", 1, &small).await.0;
                assert_eq!(code == ErrorCode::None, fits, "{codec:?}: {} bytes", small.len());
            }
            let above = stored(Codec::None, limit + 1);
            let raised = (limit + 1).to_string();
            assert_eq!(set(&mut client, "t", "max.message.bytes", &raised).await, ErrorCode::None);
            for index in 0..2 {
                assert_eq!(client.produce("t", index, &above).await.0, ErrorCode::None);
            }
            assert_eq!(set(&mut client, "t", "max.message.bytes", &text).await, ErrorCode::None);
            for index in 0..2 {
                assert_eq!(client.produce("t", index, &above).await.0, ErrorCode::MessageTooLarge);
            }
        });
    }
}

/// What a few bytes claim or hold: a gigabyte of zeros, a frame that names 4 GB, half of a frame.
fn bombs(codec: Codec) -> Vec<(&'static str, Vec<u8>)> {
    // Above the 64 MiB that the broker unpacks.
    let zeros = compress(codec, &vec![0; 65 << 20]).unwrap().into_owned();
    let cut = zeros[..zeros.len() / 2].to_vec();
    let claim = match codec {
        Codec::None => vec![0x80; 9],
        Codec::Gzip => [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &[0xff; 40]].concat(),
        // 2^32 - 1 as a varint.
        Codec::Snappy => vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0],
        // Magic, content size of 4 GiB, a block of 4 MiB that is not there.
        Codec::Lz4 => {
            let mut frame = vec![0x04, 0x22, 0x4d, 0x18, 0x6c, 0x70];
            frame.extend_from_slice(&(4u64 << 30).to_le_bytes());
            frame.extend_from_slice(&[0, 0, 0, 0x40, 0]);
            frame
        }
        // Magic, single segment with eight bytes of content size.
        Codec::Zstd => {
            let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
            frame.extend_from_slice(&(4u64 << 30).to_le_bytes());
            frame.extend_from_slice(&[1, 0, 0]);
            frame
        }
    };
    vec![("zeros", zeros), ("cut", cut), ("claim", claim)]
}

/// Rings that take a batch of eight megabytes.
fn large_batches() -> rillway::node::NodeOptions {
    let mut options = options(1);
    options.storage.ring_bytes = 64 << 20;
    options
}

/// produce-2: where the broker has to unpack (a largest timestamp that is unset), what is too large or broken is
/// refused; others are served, and nothing of it is stored.
#[test]
fn payloads_that_unpack_to_too_much_or_break_off_are_refused_where_the_broker_reads_them() {
    for codec in CODECS.into_iter().skip(1) {
        scenario_with(large_batches(), move |rt| async move {
            let mut client = Client::connect(&rt).await;
            let configs = [("max.message.bytes", "8000000")];
            assert_eq!(create_with(&mut client, "t", 2, &configs).await, ErrorCode::None);
            for (what, payload) in bombs(codec) {
                let unread = claiming(with_payload(codec, 1, &payload), -1);
                for _ in 0..3 {
                    let code = client.produce("t", 0, &unread).await.0;
                    let wanted = [
                        ErrorCode::MessageTooLarge,
                        ErrorCode::InvalidRecord,
                        ErrorCode::CorruptMessage,
                    ];
                    assert!(wanted.contains(&code), "{codec:?} {what}: {code:?}");
                    if what == "zeros" {
                        assert_eq!(code, ErrorCode::MessageTooLarge, "{codec:?}");
                    }
                }
            }
            assert_eq!(ends(&mut client, ("t", 0)).await, (0, 0));
            assert_eq!(client.produce("t", 0, &batch(&[b"good"])).await, (ErrorCode::None, 0));
        });
    }
}

/// produce-2: where the header is in order the payload is stored unread. A search by time that meets it does not unpack
/// it beyond the limit, answers, and leaves the partition in service.
#[test]
fn what_was_stored_unread_harms_neither_searches_nor_the_partition() {
    for codec in CODECS {
        scenario_with(large_batches(), move |rt| async move {
            let mut client = Client::connect(&rt).await;
            let configs = [("max.message.bytes", "8000000")];
            assert_eq!(create_with(&mut client, "t", 2, &configs).await, ErrorCode::None);
            let stored = bombs(codec).into_iter().filter(|(_, payload)| payload.len() < 7_000_000);
            for (n, (what, payload)) in stored.enumerate() {
                let time = 10_000 * (n as i64 + 1);
                let bomb = claiming(with_payload(codec, 1, &payload), time);
                let (code, base) = client.produce("t", 0, &bomb).await;
                assert_eq!(code, ErrorCode::None, "{codec:?} {what}");
                for timestamp in [time, time - 1, MAX_TIMESTAMP] {
                    let (code, offset, _) = list(&mut client, ("t", 0), timestamp, 0).await;
                    // By its header the batch begins at or after the time: its first record is the answer.
                    assert_eq!(
                        (code, offset),
                        (ErrorCode::None, base),
                        "{codec:?} {what} {timestamp}"
                    );
                }
                assert_eq!(client.fetch("t", 0, base).await.2.len(), bomb.len());
            }
            assert_eq!(client.produce("t", 0, &batch(&[b"good"])).await.0, ErrorCode::None);
        });
    }
}
