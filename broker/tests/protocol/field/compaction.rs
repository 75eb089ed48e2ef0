//! Compacted topics: what is left, for whom it can be read, and what is not taken.

use std::collections::BTreeMap;
use std::time::Duration;

use rillway::node::NodeOptions;
use rillway_io::Runtime;
use rillway_wire::ErrorCode;
use rillway_wire::api::{list_offsets, produce as produce_api};
use rillway_wire::batch::{
    BatchBuilder, Codec, TimestampType, batches, compress, decompress, records,
};

use super::{CODECS, create_with, fetch_as, list, set, with_payload};
use crate::client::{
    Client, ENDS, End, Lives, decode, fetch_request, options, produce_request, scenario,
    scenario_with,
};

/// A record as its reader sees it: offset, time, key, value, headers.
type Seen = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(Vec<u8>, Option<Vec<u8>>)>);

fn records_of(answer: &[u8]) -> Vec<Seen> {
    let mut out = Vec::new();
    for view in batches(answer) {
        let view = view.expect("no cut batch");
        assert!(view.check_crc());
        let payload = decompress(view.codec().unwrap(), view.records(), 64 << 20).unwrap();
        for r in records(&payload) {
            let r = r.expect("a record");
            let time = match view.timestamp_type() {
                TimestampType::LogAppendTime => view.max_timestamp(),
                TimestampType::CreateTime => view.base_timestamp() + r.timestamp_delta,
            };
            let headers = r.headers.map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec)));
            out.push((
                view.base_offset() + i64::from(r.offset_delta),
                time,
                r.key.map(<[u8]>::to_vec),
                r.value.map(<[u8]>::to_vec),
                headers.collect(),
            ));
        }
    }
    out
}

/// Keyed records of one batch; no value: a tombstone.
fn keyed(codec: Codec, content: &[(&str, Option<&str>)]) -> Vec<u8> {
    let mut b = BatchBuilder::new(codec);
    for (n, (key, value)) in content.iter().enumerate() {
        b.push(1_000 + n as i64, Some(key.as_bytes()), value.map(str::as_bytes), &[]);
    }
    b.build().expect("a batch")
}

/// A broker that cleans often.
fn cleaning(cores: usize) -> NodeOptions {
    let mut options = options(cores);
    options.shard.cleaner_backoff = Some(Duration::from_millis(200));
    options
}

const COMPACT: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("segment.ms", "1000"), ("min.cleanable.dirty.ratio", "0")];

/// Follows the answers of one version from an offset to the end, with so small limits.
async fn follow(
    client: &mut Client,
    topic: &str,
    from: i64,
    (version, max_bytes): (i16, i32),
) -> (Vec<Seen>, i64) {
    let (mut next, mut out) = (from, Vec::new());
    loop {
        let request = fetch_request(&[(topic, 0, next, max_bytes)], max_bytes, 0, 0);
        let got = fetch_as(client, &request, version).await.remove(0);
        assert_eq!((got.code, got.stable), (ErrorCode::None, got.end));
        if next == got.end {
            assert!(got.records.is_empty());
            return (out, next);
        }
        assert!(!got.records.is_empty(), "nothing at {next}, the log ends at {}", got.end);
        out.extend(records_of(&got.records).into_iter().filter(|r| r.0 >= from));
        let before = next;
        for b in batches(&got.records) {
            next = b.expect("no cut batch").next_offset();
        }
        assert!(next > before, "{next} after {before}");
    }
}

/// Produces with a second between, so that each batch begins a segment.
async fn segments(client: &mut Client, rt: &Runtime, topic: &str, all: &[Vec<u8>]) {
    for batch in all {
        assert_eq!(client.produce(topic, 0, batch).await.0, ErrorCode::None);
        rt.sleep(Duration::from_millis(1_100)).await;
    }
}

async fn everything(client: &mut Client, topic: &str) -> Vec<Seen> {
    follow(client, topic, 0, (12, 1 << 20)).await.0
}

fn offsets(seen: &[Seen]) -> Vec<i64> {
    seen.iter().map(|r| r.0).collect()
}

/// compact-1: removed inside of a batch, a whole batch, the end of a segment, a whole segment: from every offset, by
/// every version and with every limit the reader gets what is left, and comes to the end.
#[test]
fn from_every_offset_a_reader_gets_what_compaction_left_and_comes_to_the_end() {
    for (codec, cores, end) in [
        (Codec::None, 1, ENDS[0]),
        (Codec::Gzip, 2, ENDS[1]),
        (Codec::Snappy, 1, ENDS[2]),
        (Codec::Lz4, 2, ENDS[1]),
        (Codec::Zstd, 1, ENDS[2]),
    ] {
        let options = cleaning(cores);
        let lives = Lives::new();
        let left = vec![0, 2, 7, 9, 10, 11];
        let want = left.clone();
        lives.live(&options, end, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            assert_eq!(create_with(&mut client, "t", 1, &COMPACT).await, ErrorCode::None);
            let v = Some("value");
            let all = [
                // 0 and 2 stay, 1 goes inside of the batch.
                keyed(codec, &[("stays", v), ("a", v), ("too", v)]),
                // A whole segment.
                keyed(codec, &[("a", v), ("b", v), ("c", v)]),
                // 6, 8: 7 stays, the end goes.
                keyed(codec, &[("b", v), ("e", v), ("c", v)]),
                keyed(codec, &[("a", v), ("b", v), ("c", v)]),
            ];
            segments(&mut client, &rt, "t", &all).await;
            // Rolls the last of them.
            assert_eq!(client.produce("t", 0, &keyed(codec, &[("last", v)])).await.1, 12);
            for _ in 0..100 {
                if offsets(&everything(&mut client, "t").await).len() <= want.len() + 1 {
                    break;
                }
                rt.sleep(Duration::from_millis(200)).await;
            }
        });
        let want: Vec<i64> = left.into_iter().chain([12]).collect();
        lives.live(&options, end, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            let full = everything(&mut client, "t").await;
            assert_eq!(offsets(&full), want, "{codec:?}, {end:?}");
            for version in [4, 11, 12] {
                for max_bytes in [1, 100, 1 << 20] {
                    for from in 0..=13 {
                        let (got, next) =
                            follow(&mut client, "t", from, (version, max_bytes)).await;
                        let some: Vec<Seen> =
                            full.iter().filter(|r| r.0 >= from).cloned().collect();
                        assert_eq!((got, next), (some, 13), "from {from}, {codec:?}");
                    }
                }
            }
            let beyond = client.fetch("t", 0, 14).await.0;
            assert_eq!(beyond, ErrorCode::OffsetOutOfRange);
            // Searches meet records that are there, and no others.
            for time in 0..=1_003 {
                let found = list(&mut client, ("t", 0), time, 0).await;
                let first = full.iter().find(|r| r.1 >= time);
                let expected =
                    first.map_or((ErrorCode::None, -1, -1), |r| (ErrorCode::None, r.0, r.1));
                assert_eq!(found, expected, "{time}");
            }
            let newest = list(&mut client, ("t", 0), list_offsets::MAX_TIMESTAMP, 0).await;
            assert_eq!(newest, (ErrorCode::None, 2, 1_002));
        });
    }
}

/// compact-2: a tombstone stays for delete.retention.ms after its first cleaning and goes then; an empty value is none;
/// and what was deleted never comes back, whatever crashes when.
#[test]
fn tombstones_go_in_time_empty_values_stay_and_nothing_deleted_comes_back() {
    for (n, end) in ENDS.into_iter().enumerate() {
        for codec in CODECS {
            let options = cleaning(1 + n % 2);
            let lives = Lives::new();
            lives.live(&options, end, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                let configs: Vec<_> =
                    COMPACT.into_iter().chain([("delete.retention.ms", "2000")]).collect();
                assert_eq!(create_with(&mut client, "t", 1, &configs).await, ErrorCode::None);
                let all = [
                    keyed(codec, &[("a", Some("1")), ("b", Some("2")), ("c", Some("3"))]),
                    keyed(codec, &[("a", None), ("b", Some(""))]),
                ];
                segments(&mut client, &rt, "t", &all).await;
                assert_eq!(client.produce("t", 0, &keyed(codec, &[("z", Some("z"))])).await.1, 5);
                let mut seen = everything(&mut client, "t").await;
                while seen.len() > 4 {
                    assert_eq!(seen.last().map(|r| r.0), Some(5));
                    rt.sleep(Duration::from_millis(20)).await;
                    seen = everything(&mut client, "t").await;
                }
                // Whoever reads now learns that a is deleted.
                let what: Vec<_> = seen.iter().map(|r| (r.0, r.3.as_deref())).collect();
                let want: [(i64, Option<&[u8]>); 4] =
                    [(2, Some(b"3")), (3, None), (4, Some(b"")), (5, Some(b"z"))];
                assert_eq!(what, want, "{codec:?}");
            });
            lives.live(&options, end, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                for _ in 0..200 {
                    let seen = everything(&mut client, "t").await;
                    let there = offsets(&seen);
                    assert!(there == [2, 3, 4, 5] || there == [2, 4, 5], "{there:?}");
                    if there.len() == 3 {
                        assert_eq!(seen[1].3.as_deref(), Some(&b""[..]));
                        return;
                    }
                    rt.sleep(Duration::from_millis(100)).await;
                }
                panic!("the tombstone stays for ever");
            });
            lives.live(&options, end, |rt| async move {
                let mut client = Client::connect(&rt).await;
                assert_eq!(offsets(&everything(&mut client, "t").await), [2, 4, 5]);
            });
        }
    }
}

/// compact-2: a crash at any moment of the cleaning.
#[test]
fn a_crash_while_tombstones_are_cleaned_leaves_what_was_or_what_is_to_be() {
    for cut in 0..24u64 {
        let options = cleaning(1);
        let lives = Lives::new();
        let end = if cut % 2 == 0 { End::Kill } else { End::PowerCut };
        lives.live(&options, end, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            let configs: Vec<_> =
                COMPACT.into_iter().chain([("delete.retention.ms", "0")]).collect();
            assert_eq!(create_with(&mut client, "t", 1, &configs).await, ErrorCode::None);
            let all = [
                keyed(Codec::Zstd, &[("a", Some("1")), ("b", Some("2"))]),
                keyed(Codec::None, &[("a", None), ("c", Some("3"))]),
            ];
            segments(&mut client, &rt, "t", &all).await;
            client.produce("t", 0, &keyed(Codec::None, &[("z", Some("z"))])).await;
            rt.sleep(Duration::from_millis(5 * cut * cut)).await;
        });
        for _ in 0..3 {
            lives.live(&options, end, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                let there = offsets(&everything(&mut client, "t").await);
                let fine: [&[i64]; 3] = [&[0, 1, 2, 3, 4], &[1, 2, 3, 4], &[1, 3, 4]];
                assert!(fine.contains(&&there[..]), "{there:?}");
                rt.sleep(Duration::from_millis(3 * cut)).await;
            });
        }
        lives.live(&options, End::Stop, |rt| async move {
            let mut client = Client::connect(&rt).await;
            rt.sleep(Duration::from_secs(3)).await;
            assert_eq!(offsets(&everything(&mut client, "t").await), [1, 3, 4]);
        });
    }
}

/// record-1: after compaction nulls, empties, headers and times are what they were, with every codec and with the
/// broker's time.
#[test]
fn records_that_compaction_leaves_in_a_rewritten_batch_come_back_as_they_came() {
    type Content<'a> = (Option<&'a [u8]>, Vec<(&'a str, Option<&'a [u8]>)>);
    for codec in CODECS {
        scenario_with(cleaning(1), move |rt| async move {
            let large = vec![7; 60_000];
            let content: Vec<Content<'_>> = vec![
                (Some(b""), vec![]),
                (None, vec![("", None)]),
                (Some(b"v"), vec![("", Some(b"")), ("one", Some(b"1"))]),
                (Some(b"v"), vec![("h", Some(b"x")); 5_000]),
                (Some(b"v"), vec![("a", Some(b"3")), ("b", None), ("a", Some(b"1"))]),
                (Some(b"v"), vec![("\u{fc}\u{4e2d}", Some(&large)), ("n", None)]),
            ];
            let mut client = Client::connect(&rt).await;
            for (topic, append_time) in [("t", false), ("a", true)] {
                let kind = if append_time { "LogAppendTime" } else { "CreateTime" };
                let configs: Vec<_> =
                    COMPACT.into_iter().chain([("message.timestamp.type", kind)]).collect();
                assert_eq!(create_with(&mut client, topic, 1, &configs).await, ErrorCode::None);
                let mut b = BatchBuilder::new(codec);
                b.push(999, Some(b"goes"), Some(b"x"), &[]);
                for (n, (value, headers)) in content.iter().enumerate() {
                    let key = vec![n as u8; n];
                    b.push(1_000 + 7 * n as i64, Some(&key), *value, headers);
                }
                b.push(5, Some(b"goes"), Some(b"y"), &[]);
                let before = rt.wall_ms();
                let sent = b.build().unwrap();
                segments(&mut client, &rt, topic, &[sent]).await;
                client.produce(topic, 0, &keyed(codec, &[("goes", Some("z"))])).await;
                let mut seen = everything(&mut client, topic).await;
                for _ in 0..100 {
                    if seen.len() == content.len() + 1 {
                        break;
                    }
                    rt.sleep(Duration::from_millis(200)).await;
                    seen = everything(&mut client, topic).await;
                }
                // The active segment is not cleaned; only the older two of three are known to be superseded.
                let kept: Vec<_> =
                    seen.iter().filter(|r| r.2.as_deref() != Some(b"goes")).collect();
                assert_eq!(kept.len(), content.len(), "{codec:?}");
                assert!(seen.iter().all(|r| r.0 != 0), "superseded in its own batch");
                for (n, (got, (value, headers))) in kept.iter().zip(&content).enumerate() {
                    assert_eq!(got.0, 1 + n as i64);
                    if append_time {
                        assert!(got.1 >= before && got.1 <= rt.wall_ms());
                    } else {
                        assert_eq!(got.1, 1_000 + 7 * n as i64);
                    }
                    assert_eq!(
                        (got.2.as_deref(), got.3.as_deref()),
                        (Some(&vec![n as u8; n][..]), *value)
                    );
                    let want: Vec<_> = headers
                        .iter()
                        .map(|(k, v)| (k.as_bytes().to_vec(), v.map(<[u8]>::to_vec)))
                        .collect();
                    assert_eq!(got.4, want);
                }
            }
        });
    }
}

/// produce-2: what unpacks to too much, or does not unpack, is refused by a compacted topic; what was stored before the
/// topic was compacted stays as it is, and the rest is cleaned around it.
#[test]
fn payloads_that_unpack_to_too_much_are_refused_by_a_compacted_topic_and_kept_by_the_cleaner() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        scenario_with(cleaning(1), move |rt| async move {
            let mut client = Client::connect(&rt).await;
            let configs = [("segment.ms", "1000"), ("max.message.bytes", "2000000")];
            assert_eq!(create_with(&mut client, "t", 1, &configs).await, ErrorCode::None);
            let zeros = vec![0; 1 << 20];
            let mut b = BatchBuilder::new(codec);
            for _ in 0..20 {
                b.push(1_000, Some(b"bomb"), Some(&zeros), &[]);
            }
            let bomb = b.build().unwrap();
            let small = keyed(codec, &[("a", Some("1")), ("b", None)]);
            let packed = compress(codec, &small[61..]).unwrap();
            let cut = with_payload(codec, 2, &packed[..packed.len() / 2]);
            let all = [small.clone(), bomb.clone(), cut.clone(), small.clone(), small.clone()];
            segments(&mut client, &rt, "t", &all).await;
            assert_eq!(set(&mut client, "t", "cleanup.policy", "compact").await, ErrorCode::None);
            let ratio = set(&mut client, "t", "min.cleanable.dirty.ratio", "0").await;
            assert_eq!(ratio, ErrorCode::None);
            let produced = client.produce("t", 0, &bomb).await.0;
            assert_eq!(produced, ErrorCode::MessageTooLarge, "{codec:?}");
            let broken = client.produce("t", 0, &cut).await.0;
            assert!([ErrorCode::CorruptMessage, ErrorCode::InvalidRecord].contains(&broken));
            assert_eq!(client.produce("t", 0, &small).await.0, ErrorCode::None);
            rt.sleep(Duration::from_secs(5)).await;
            // 2 + 20 + 2 + 2 + 2 + 2 records; of the small ones those of the cleaned segments are superseded.
            let (mut next, mut found, mut opaque) = (0, BTreeMap::new(), 0);
            while next < 30 {
                let answer = client.fetch("t", 0, next).await.2;
                assert!(!answer.is_empty(), "nothing at {next}");
                for view in batches(&answer) {
                    let view = view.unwrap();
                    assert!(view.check_crc());
                    next = view.next_offset();
                    if [bomb.len(), cut.len()].contains(&view.total_len()) {
                        opaque += 1;
                        continue;
                    }
                    let payload =
                        decompress(view.codec().unwrap(), view.records(), 1 << 20).unwrap();
                    for r in records(&payload) {
                        let r = r.unwrap();
                        let offset = view.base_offset() + i64::from(r.offset_delta);
                        let key = (r.key.unwrap()[0], r.value.is_none());
                        found.entry(key).or_insert_with(Vec::new).push(offset);
                    }
                }
            }
            assert_eq!(opaque, 2, "both are there, byte for byte");
            assert_eq!(
                found,
                BTreeMap::from([((b'a', false), vec![26, 28]), ((b'b', true), vec![27, 29])])
            );
        });
    }
}

/// A record without a key is refused with its place in the batch, and nothing of the batch is stored.
#[test]
fn records_without_a_key_are_refused_by_compacted_topics_with_their_place() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        for policy in ["compact", "delete,compact"] {
            let topic = policy.split(',').next().unwrap();
            let configs = [("cleanup.policy", policy)];
            assert_eq!(create_with(&mut client, topic, 1, &configs).await, ErrorCode::None);
            for codec in CODECS {
                let mut b = BatchBuilder::new(codec);
                b.push(1_000, Some(b""), Some(b"v"), &[]);
                b.push(1_000, None, Some(b"v"), &[]);
                b.push(1_000, None, None, &[]);
                let batch = b.build().unwrap();
                for version in 3..=9 {
                    if codec == Codec::Zstd && version < 7 {
                        continue;
                    }
                    let body = client.call(&produce_request(topic, 0, &batch, -1), version).await;
                    let response: produce_api::Response<'_> = decode(&body, version);
                    let answer = response.responses.first().unwrap();
                    let p = answer.partition_responses.first().unwrap();
                    assert_eq!((p.error_code, p.base_offset), (ErrorCode::InvalidRecord, -1));
                    let places: Vec<i32> = p.record_errors.iter().map(|e| e.batch_index).collect();
                    if version < 8 {
                        assert_eq!((places.len(), p.error_message), (0, None));
                        continue;
                    }
                    assert_eq!(places, [1, 2]);
                    let text = p.record_errors.first().unwrap().batch_index_error_message.unwrap();
                    assert_eq!(
                        text,
                        format!(
                            "Compacted topic cannot accept message without key in topic partition {topic}-0"
                        )
                    );
                    assert!(p.error_message.unwrap().starts_with(
                        "One or more records have been rejected due to 2 record errors in total, and only showing the \
                         first three errors at most: [RecordError(batchIndex=1, message='Compacted topic"
                    ));
                }
            }
            let keyed = keyed(Codec::None, &[("k", None)]);
            assert_eq!(client.produce(topic, 0, &keyed).await, (ErrorCode::None, 0));
        }
    });
}
