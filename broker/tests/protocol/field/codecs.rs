//! Codecs and their forms.

use rillway_wire::ErrorCode;
use rillway_wire::batch::{BatchBuilder, BatchView, Codec};

use super::{CODECS, FETCH, create_with, fetch_as, list, produce_as, with_payload};
use crate::client::{Client, ENDS, End, Lives, fetch_request, options, scenario};

const T: (&str, i32) = ("t", 0);

/// Three records at times 1000, 1010 and 1020, uncompressed, one of them large.
fn plain() -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None);
    for (n, len) in [10, 90_000, 10].into_iter().enumerate() {
        let value: Vec<u8> = (0..len).map(|i| (i / 7) as u8).collect();
        builder.push(1_000 + 10 * n as i64, None, Some(&value), &[]);
    }
    builder.build().unwrap()[61..].to_vec()
}

/// A Snappy block of literals only: its length, then runs of at most 60 bytes.
fn literals(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut n = data.len();
    while n > 0x7f {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
    for run in data.chunks(60) {
        out.push(((run.len() - 1) << 2) as u8);
        out.extend_from_slice(run);
    }
    out
}

/// The Java framing around blocks of so many bytes.
fn framed(data: &[u8], block: usize) -> Vec<u8> {
    let mut out = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for part in data.chunks(block) {
        let block = literals(part);
        out.extend_from_slice(&(block.len() as u32).to_be_bytes());
        out.extend_from_slice(&block);
    }
    out
}

/// codec-1: both forms of Snappy are taken, passed on untouched, and read by a search; over restarts too.
#[test]
fn raw_and_framed_snappy_are_both_stored_untouched_and_searched() {
    let data = plain();
    let mut forms = vec![literals(&data)];
    forms.extend([data.len(), 32 << 10, 1_000, 1].map(|block| framed(&data, block)));
    for end in ENDS {
        let (lives, options) = (Lives::new(), options(1));
        let sent: Vec<_> =
            forms.iter().map(|form| timed_payload(with_payload(Codec::Snappy, 3, form))).collect();
        let again = sent.clone();
        lives.live(&options, end, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 1).await;
            for (n, one) in sent.iter().enumerate() {
                for version in [3, 6, 7, 9] {
                    let topic = format!("t{n}-{version}");
                    client.create(&topic, 1).await;
                    let got = produce_as(&mut client, (&topic, 0), one, version).await;
                    assert_eq!(got, (ErrorCode::None, 0));
                }
            }
        });
        lives.live(&options, End::Stop, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            for (n, one) in again.iter().enumerate() {
                for written in [3, 6, 7, 9] {
                    let topic = format!("t{n}-{written}");
                    for version in FETCH {
                        let request = fetch_request(&[(&topic, 0, 0, 1 << 20)], 1 << 20, 0, 0);
                        let got = fetch_as(&mut client, &request, version).await;
                        assert_eq!(got[0].records[17..], one[17..], "form {n}");
                    }
                    let found = list(&mut client, (&topic, 0), 1_015, 0).await;
                    assert_eq!(found, (ErrorCode::None, 2, 1_020), "form {n}");
                }
            }
        });
    }
}

/// `with_payload` knows nothing of times: the largest one is 1020.
fn timed_payload(batch: Vec<u8>) -> Vec<u8> {
    super::claiming(batch, 1_020)
}

/// codec-2: zstd needs Produce 7; what is stored is handed out untouched to every version of Fetch, as Kafka does with
/// compression.type=producer. Topics that are set to a codec are refused by name.
#[test]
fn zstd_is_refused_below_produce_7_for_its_partition_only_and_is_fetched_by_every_version() {
    for cores in [1, 2] {
        scenario(cores, |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 2).await;
            let mut next = 0;
            for codec in CODECS {
                let mut builder = BatchBuilder::new(codec);
                builder.push(1_000, None, Some(&[7; 500]), &[]);
                let one = builder.build().unwrap();
                for version in 3..=9 {
                    let (code, base) = produce_as(&mut client, T, &one, version).await;
                    if codec == Codec::Zstd && version < 7 {
                        assert_eq!((code, base), (ErrorCode::UnsupportedCompressionType, -1));
                    } else {
                        assert_eq!((code, base), (ErrorCode::None, next), "{codec:?} v{version}");
                        next += 1;
                    }
                }
                for version in FETCH {
                    let asked = [("t", 0, next - 1, 1 << 20), ("t", 1, 0, 1 << 20)];
                    let request = fetch_request(&asked, 1 << 20, 0, 0);
                    let got = fetch_as(&mut client, &request, version).await;
                    assert!(got.iter().all(|p| p.code == ErrorCode::None), "v{version}");
                    let view = BatchView::parse(&got[0].records).unwrap();
                    assert_eq!(view.codec(), Ok(codec));
                    assert_eq!(view.bytes()[17..], one[17..]);
                }
            }
            for codec in ["zstd", "gzip", "snappy", "lz4", "uncompressed"] {
                let configs = [("compression.type", codec)];
                let code = create_with(&mut client, "set", 1, &configs).await;
                assert_eq!(code, ErrorCode::InvalidConfig, "{codec}");
            }
        });
    }
}
