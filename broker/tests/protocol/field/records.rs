//! Records come back byte for byte.

use rillway_wire::ErrorCode;
use rillway_wire::batch::{BatchBuilder, BatchView, Codec, decompress, records};

use super::{CODECS, create_with, with_payload};
use crate::client::{Client, ENDS, End, Lives, options, scenario};

type HeaderOf = (&'static str, Option<Vec<u8>>);

/// Key, value, headers.
type Sample = (Option<Vec<u8>>, Option<Vec<u8>>, Vec<HeaderOf>);

fn samples() -> Vec<Sample> {
    let some = |bytes: &[u8]| Some(bytes.to_vec());
    let many = (0..5_000).map(|n| ("h", some(&[n as u8]))).collect();
    vec![
        (None, None, vec![]),
        (some(b""), some(b""), vec![]),
        (None, some(b""), vec![("", None)]),
        (some(b""), None, vec![("", some(b""))]),
        (some(b"k"), some(b"v"), vec![("one", some(b"1"))]),
        (some(b"k"), some(b"v"), many),
        (
            some(b"k"),
            some(b"v"),
            vec![("a", some(b"3")), ("b", None), ("a", some(b"1")), ("a", some(b"2"))],
        ),
        (some(b"k"), some(b"v"), vec![("\u{fc}\u{4e2d}", some(&[7; 60_000])), ("n", None)]),
    ]
}

fn built(codec: Codec) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    for (n, (key, value, headers)) in samples().iter().enumerate() {
        let headers: Vec<_> = headers.iter().map(|(k, v)| (*k, v.as_deref())).collect();
        builder.push(1_000 + n as i64, key.as_deref(), value.as_deref(), &headers);
    }
    builder.build().expect("a batch")
}

fn check(answer: &[u8], sent: &[u8], same_crc: bool) {
    let view = BatchView::parse(answer).expect("a batch");
    assert!(view.check_crc());
    assert_eq!(view.records(), BatchView::parse(sent).unwrap().records());
    if same_crc {
        assert_eq!(view.bytes()[17..], sent[17..], "all that the checksum covers, and itself");
    }
    let payload = decompress(view.codec().unwrap(), view.records(), 64 << 20).unwrap();
    let read: Vec<_> = records(&payload).map(|r| r.expect("a record")).collect();
    assert_eq!(read.len(), samples().len());
    for (got, (key, value, headers)) in read.iter().zip(samples()) {
        assert_eq!((got.key, got.value), (key.as_deref(), value.as_deref()));
        let got: Vec<_> = got.headers.map(|h| (h.key.to_vec(), h.value)).collect();
        let want: Vec<_> =
            headers.iter().map(|(k, v)| (k.as_bytes().to_vec(), v.as_deref())).collect();
        assert_eq!(got, want);
    }
}

/// record-1: null and empty differ, headers keep order, doubles and bytes: with every codec, over a restart, and when
/// the broker writes its own time into the header.
#[test]
fn keys_values_and_headers_come_back_as_they_came() {
    for end in ENDS {
        let mut options = options(1);
        options.store.cache_bytes = 1 << 20;
        let lives = Lives::new();
        lives.live(&options, end, |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 1).await;
            let configs = [("message.timestamp.type", "LogAppendTime")];
            assert_eq!(create_with(&mut client, "a", 1, &configs).await, ErrorCode::None);
            for (n, codec) in CODECS.into_iter().enumerate() {
                for topic in ["t", "a"] {
                    let sent = built(codec);
                    let base = (n * samples().len()) as i64;
                    assert_eq!(client.produce(topic, 0, &sent).await, (ErrorCode::None, base));
                    let (_, _, answer) = client.fetch(topic, 0, base).await;
                    check(&answer, &sent, topic == "t");
                }
            }
        });
        lives.live(&options, End::Stop, |rt| async move {
            let mut client = Client::connect(&rt).await;
            for (n, codec) in CODECS.into_iter().enumerate() {
                for topic in ["t", "a"] {
                    let (_, _, answer) = client.fetch(topic, 0, (n * samples().len()) as i64).await;
                    check(&answer, &built(codec), topic == "t");
                }
            }
        });
    }
}

/// record-1: a difference from Kafka, which reads every record and refuses these with INVALID_RECORD: the header of the
/// batch and its checksum are right, so it is stored, and comes back byte for byte.
#[test]
fn null_header_keys_and_wrong_counts_inside_a_batch_are_stored_as_they_came() {
    // One record: length, attributes, time, offset, null key, null value, one header with a null key and a null value.
    let null_key: &[u8] = &[16, 0, 0, 0, 1, 1, 2, 1, 1];
    let plain: &[u8] = &[12, 0, 0, 0, 1, 1, 0];
    for codec in CODECS {
        scenario(1, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 1).await;
            let mut next = 0;
            for (payload, count) in [(null_key, 1), (plain, 3), (&plain.repeat(3), 1), (b"", 1)] {
                let packed = rillway_wire::batch::compress(codec, payload).unwrap();
                let sent = with_payload(codec, count, &packed);
                assert_eq!(client.produce("t", 0, &sent).await, (ErrorCode::None, next));
                let (_, _, answer) = client.fetch("t", 0, next).await;
                assert_eq!(BatchView::parse(&answer).unwrap().bytes()[17..], sent[17..]);
                next += i64::from(count);
            }
            assert_eq!(client.fetch("t", 0, next).await, (ErrorCode::None, next, Vec::new()));
        });
    }
}
