//! Rewriting against a naive model: of each key the newest record, byte for byte, at its own offset.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rillway_wire::batch::{BatchBuilder, assign, compress, decompress};

use crate::limits::UNPACKED_BYTES_MAX;

use super::*;

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
const START_MS: i64 = 1_700_000_000_000;

/// Records as (key, value); a key of 255 is none, and so is a value of none.
type Records = Vec<(u8, Option<u8>)>;

/// A batch: its codec's number, and its records.
type Content = (usize, Records);

/// A record as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    offset: i64,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn unpack<'a>(batch: &BatchView<'a>) -> Option<std::borrow::Cow<'a, [u8]>> {
    decompress(batch.codec().ok()?, batch.records(), UNPACKED_BYTES_MAX).ok()
}

fn cleaned(batch: &[u8], rules: &Rules<'_>, keep_empty: bool) -> Cleaned {
    let view = BatchView::parse(batch).unwrap();
    clean(&view, unpack(&view).as_deref(), rules, keep_empty)
}

fn mapped(batch: &[u8], map: &mut OffsetMap) -> bool {
    let view = BatchView::parse(batch).unwrap();
    map_keys(&view, unpack(&view).as_deref(), 0, map)
}

fn seen(batch: &[u8]) -> Vec<Seen> {
    let view = BatchView::parse(batch).unwrap();
    assert!(view.check_crc());
    let payload = unpack(&view).unwrap();
    let mut out = Vec::new();
    each(&view, &payload, |_, r| {
        out.push(Seen {
            offset: view.base_offset() + i64::from(r.offset_delta),
            timestamp: view.base_timestamp() + r.timestamp_delta,
            key: r.key.map(<[u8]>::to_vec),
            value: r.value.map(<[u8]>::to_vec),
            headers: r.headers.map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec))).collect(),
        });
    })
    .unwrap();
    out
}

/// Batches of (key, value) records, one behind the other from offset 0 on. Key 255 is none.
fn log_of(batches: &[Content]) -> Vec<Vec<u8>> {
    let mut next = 0i64;
    let mut out = Vec::new();
    for (codec, records) in batches {
        let mut b = BatchBuilder::new(CODECS[*codec]).producer(9, 2, next as i32);
        for (n, (key, value)) in records.iter().enumerate() {
            let key_bytes = [*key; 5];
            let value_bytes = value.map(|v| vec![v; usize::from(v)]);
            let headers: [(&str, Option<&[u8]>); 3] =
                [("b", Some(b"1")), ("a", None), ("b", Some(b""))];
            let headers = &headers[..usize::from(*key) % 4];
            let key = (*key != 255).then_some(&key_bytes[..]);
            // Times that go up and down.
            let timestamp = START_MS + (next * 37) % 101 - n as i64;
            b.push(timestamp, key, value_bytes.as_deref(), headers);
        }
        let mut bytes = b.build().unwrap();
        assign(&mut bytes, next, 7);
        next += records.len() as i64;
        out.push(bytes);
    }
    out
}

fn map_of(log: &[Vec<u8>], slots: usize) -> OffsetMap {
    let mut map = OffsetMap::new(slots * 24, u64::MAX, 0, [3, 4]);
    for batch in log {
        if !mapped(batch, &mut map) {
            break;
        }
    }
    map
}

/// One pass over a log.
fn pass(log: &[Vec<u8>], map: &OffsetMap, cleaned_before: i64, now_ms: i64) -> Vec<Vec<u8>> {
    let rules = Rules { map, cleaned_before, now_ms, delete_retention_ms: 1_000, all_read: true };
    let last = log.len().saturating_sub(1);
    let mut out = Vec::new();
    for (n, batch) in log.iter().enumerate() {
        let cleaned = cleaned(batch, &rules, n == last);
        assert!(cleaned.read);
        match cleaned.kept {
            Kept::Same => out.push(batch.clone()),
            Kept::Rewritten(draft) => {
                let packed = compress(draft.codec, &draft.payload).unwrap().into_owned();
                out.push(draft.seal(&packed).unwrap());
            }
            Kept::Nothing => {}
        }
    }
    out
}

fn one(records: &[(u8, Option<u8>)], codec: Codec) -> Vec<u8> {
    log_of(&[(codec as usize, records.to_vec())]).remove(0)
}

fn records_strategy() -> impl Strategy<Value = Vec<Content>> {
    let record =
        (prop_oneof![9 => 0u8..12, 1 => Just(255u8)], prop::option::weighted(0.8, 0u8..90));
    prop::collection::vec((0usize..5, prop::collection::vec(record, 1..8)), 1..20)
}

proptest! {
    #[test]
    fn of_every_key_the_newest_record_is_left_byte_for_byte_and_nothing_else(
        batches in records_strategy(),
        slots in prop_oneof![Just(1_000usize), 3usize..20],
    ) {
        let log = log_of(&batches);
        let map = map_of(&log, slots);
        let all: Vec<Seen> = log.iter().flat_map(|b| seen(b)).collect();
        let mut newest: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
        for r in all.iter().filter(|r| r.offset < map.end()) {
            if let Some(key) = &r.key {
                newest.insert(key.clone(), r.offset);
            }
        }
        let want: Vec<Seen> = all
            .into_iter()
            .filter(|r| {
                r.offset >= map.end() || r.key.as_ref().is_some_and(|k| newest[k] == r.offset)
            })
            .collect();
        let cleaned = pass(&log, &map, 0, START_MS);
        let got: Vec<Seen> = cleaned.iter().flat_map(|b| seen(b)).collect();
        prop_assert_eq!(&got, &want);
        // What stays says the same of offsets, producer, epochs and codec.
        let find = |base| log.iter().find(|b| BatchView::parse(b).unwrap().base_offset() == base);
        for bytes in &cleaned {
            let new = BatchView::parse(bytes).unwrap();
            let old = BatchView::parse(find(new.base_offset()).unwrap()).unwrap();
            prop_assert_eq!(
                (new.last_offset(), new.producer_id(), new.producer_epoch(), new.base_sequence()),
                (old.last_offset(), old.producer_id(), old.producer_epoch(), old.base_sequence())
            );
            prop_assert_eq!((new.leader_epoch(), new.last_sequence()), (7, old.last_sequence()));
            let records = seen(bytes);
            if !records.is_empty() {
                prop_assert_eq!(new.codec(), old.codec());
                let max = records.iter().map(|r| r.timestamp).max();
                prop_assert_eq!(Some(new.max_timestamp()), max);
            }
        }
        // The last offset stays known.
        let end = |log: &[Vec<u8>]| BatchView::parse(log.last().unwrap()).unwrap().next_offset();
        prop_assert_eq!(end(&cleaned), end(&log));
    }

    #[test]
    fn a_pass_over_what_is_clean_changes_nothing_until_the_tombstones_go(batches in records_strategy()) {
        let log = log_of(&batches);
        let map = map_of(&log, 1_000);
        let end = map.end();
        let once = pass(&log, &map, 0, START_MS);
        let none = OffsetMap::new(0, 0, end, [0, 0]);
        prop_assert_eq!(&pass(&once, &none, end, START_MS + 999), &once);
        let later = pass(&once, &none, end, START_MS + 1_000);
        let values: Vec<Seen> =
            once.iter().flat_map(|b| seen(b)).filter(|r| r.value.is_some()).collect();
        prop_assert_eq!(later.iter().flat_map(|b| seen(b)).collect::<Vec<_>>(), values);
    }

    #[test]
    fn a_batch_of_any_bytes_is_cleaned_or_kept_as_it_is(
        codec in 0usize..5,
        garbage in prop::collection::vec(any::<u8>(), 0..200),
        count in -2i32..10,
    ) {
        let mut bytes = one(&[(1, Some(1))], Codec::None)[..BATCH_HEADER].to_vec();
        bytes[21..23].copy_from_slice(&(codec as i16).to_be_bytes());
        bytes.extend_from_slice(&garbage);
        let bytes = seal(bytes, 5, count).unwrap();
        let mut map = OffsetMap::new(1_000, 100, 0, [1, 1]);
        mapped(&bytes, &mut map);
        let rules = Rules { map: &map, cleaned_before: 0, now_ms: 5, delete_retention_ms: 5, all_read: true };
        let cleaned = cleaned(&bytes, &rules, true);
        prop_assert!(cleaned.read || cleaned.kept == Kept::Same);
    }
}

#[test]
fn an_empty_value_is_no_tombstone() {
    for codec in CODECS {
        let log = vec![one(&[(1, Some(0)), (2, None)], codec)];
        let map = map_of(&log, 100);
        let once = pass(&log, &map, 0, START_MS);
        let twice = pass(&once, &OffsetMap::new(0, 0, 2, [0, 0]), 2, START_MS + 5_000);
        let left = seen(&twice[0]);
        assert_eq!(left.len(), 1);
        assert_eq!((left[0].key.clone(), left[0].value.clone()), (Some(vec![1; 5]), Some(vec![])));
    }
}

#[test]
fn a_horizon_that_a_producer_stamped_does_not_count() {
    let mut log = vec![one(&[(1, None)], Codec::None)];
    log[0][21..23].copy_from_slice(&DELETE_HORIZON.to_be_bytes());
    log[0] = seal(log[0].clone(), START_MS, 1).unwrap();
    let map = map_of(&log, 100);
    let once = pass(&log, &map, 0, START_MS + 50_000);
    assert_eq!(seen(&once[0]).len(), 1, "its time begins with its first cleaning");
    assert_eq!(BatchView::parse(&once[0]).unwrap().base_timestamp(), START_MS + 51_000);
}

#[test]
fn tombstones_above_a_batch_that_could_not_be_read_get_no_horizon() {
    let log = vec![one(&[(1, None)], Codec::None)];
    let map = map_of(&log, 100);
    let rules =
        Rules { map: &map, cleaned_before: 0, now_ms: 5, delete_retention_ms: 5, all_read: false };
    let cleaned = cleaned(&log[0], &rules, false);
    assert_eq!((cleaned.kept, cleaned.horizon_ms), (Kept::Same, -1));
}

#[test]
fn what_unpacks_to_more_than_the_limit_is_kept_as_it_is_and_in_no_map() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut b = BatchBuilder::new(codec);
        let zeros = vec![0; 1 << 20];
        for _ in 0..17 {
            b.push(START_MS, Some(b"k"), Some(&zeros), &[]);
        }
        let log = [b.build().unwrap(), one(&[(1, Some(1))], codec)];
        let map = map_of(&log[..1], 100);
        assert_eq!((map.newest(b"k"), map.end()), (None, 17));
        let rules = Rules {
            map: &map,
            cleaned_before: 0,
            now_ms: 5,
            delete_retention_ms: 5,
            all_read: true,
        };
        let cleaned = cleaned(&log[0], &rules, false);
        assert_eq!((cleaned.kept, cleaned.read), (Kept::Same, false), "{codec:?}");
    }
}

#[test]
fn records_of_append_time_keep_the_batchs_time() {
    let mut log = vec![one(&[(1, Some(1)), (1, Some(2))], Codec::Gzip)];
    rillway_wire::batch::set_max_timestamp_and_type(
        &mut log[0],
        START_MS + 9_000,
        TimestampType::LogAppendTime,
    );
    let map = map_of(&log, 100);
    let once = pass(&log, &map, 0, START_MS);
    let view = BatchView::parse(&once[0]).unwrap();
    assert_eq!((view.record_count(), view.max_timestamp()), (1, START_MS + 9_000));
    assert_eq!(view.timestamp_type(), TimestampType::LogAppendTime);
}
