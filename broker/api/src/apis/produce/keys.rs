//! Every record of a compacted topic must have a key: without one it could never be superseded, and never go.
//!
//! So the records of such topics are read, all of them, unpacked within a bound: what unpacks to more would be kept for
//! ever by the cleaner, and would hold this core for too long here. Other topics' records stay opaque.

use std::borrow::Cow;

use rillway_io::Runtime;
use rillway_shard::UNPACKED_BYTES_MAX;
use rillway_wire::ErrorCode;
use rillway_wire::batch::{BatchError, BatchView, Unpacker, records};

use super::Refusal;

/// Records that the answer's text shows, as in Kafka; all of them are in its list.
const SHOWN: usize = 3;

/// Refuses a batch that holds a record without a key, or records that cannot be read. `partition`: as Kafka writes it.
pub(super) async fn check(
    rt: &Runtime,
    batch: &BatchView<'_>,
    partition: &str,
) -> Result<(), Refusal> {
    let unpacked = unpack(rt, batch).await;
    let found = unpacked.and_then(|payload| keyless(batch, &payload));
    let keyless = found.map_err(|e| Refusal::new(e.error_code(), e.to_string()))?;
    if keyless.is_empty() {
        return Ok(());
    }
    let why =
        format!("Compacted topic cannot accept message without key in topic partition {partition}");
    let shown = keyless.iter().take(SHOWN);
    let shown: Vec<String> =
        shown.map(|at| format!("RecordError(batchIndex={at}, message='{why}')")).collect();
    let message = format!(
        "One or more records have been rejected due to {} record errors in total, and only showing the first \
         three errors at most: [{}]",
        keyless.len(),
        shown.join(", ")
    );
    let records = keyless.into_iter().map(|at| (at, why.clone())).collect();
    Err(Refusal { at_log: true, records, ..Refusal::new(ErrorCode::InvalidRecord, message) })
}

/// The records of a batch, in steps: others of this core go on meanwhile.
async fn unpack<'a>(rt: &Runtime, batch: &BatchView<'a>) -> Result<Cow<'a, [u8]>, BatchError> {
    let mut unpacker = Unpacker::new(batch.codec()?, batch.records(), UNPACKED_BYTES_MAX);
    while unpacker.step()? {
        rt.yield_now().await;
    }
    Ok(unpacker.finish())
}

/// The records without a key, by their place in the batch.
fn keyless(batch: &BatchView<'_>, payload: &[u8]) -> Result<Vec<i32>, BatchError> {
    let mut found = Vec::new();
    let mut count = 0;
    for record in records(payload) {
        let record = record?;
        // Compaction goes by the offsets inside: those of a produced batch are dense.
        if record.offset_delta != count {
            return Err(BatchError::Record { at: 0, what: "offset" });
        }
        if record.key.is_none() {
            found.push(count);
        }
        count += 1;
    }
    if count != batch.record_count() {
        return Err(BatchError::Count { count, delta: batch.last_offset_delta() });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rillway_io::sim::World;
    use rillway_wire::batch::{BatchBuilder, Codec};

    const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    fn batch(codec: Codec, keys: &[Option<&[u8]>]) -> Vec<u8> {
        let mut b = BatchBuilder::new(codec);
        for key in keys {
            b.push(5, *key, Some(b"v"), &[]);
        }
        b.build().unwrap()
    }

    fn checked(bytes: &[u8]) -> Result<(), Refusal> {
        let bytes = bytes.to_vec();
        let world = World::new(1);
        let rt = world.client("producer");
        world.block_on(async move { check(&rt, &BatchView::parse(&bytes).unwrap(), "t-0").await })
    }

    #[test]
    fn a_batch_with_a_keyless_record_is_refused_and_each_such_record_named() {
        for codec in CODECS {
            let good = batch(codec, &[Some(b"k"), Some(b"")]);
            assert!(checked(&good).is_ok(), "an empty key is one");
            let bad = batch(codec, &[None, Some(b"k"), None, None, None]);
            let refusal = checked(&bad).unwrap_err();
            assert_eq!(refusal.code, ErrorCode::InvalidRecord);
            assert!(
                refusal
                    .why
                    .starts_with("One or more records have been rejected due to 4 record errors")
            );
            assert_eq!(refusal.why.matches("RecordError(").count(), 3);
            let places: Vec<i32> = refusal.records.iter().map(|(at, _)| *at).collect();
            assert_eq!(places, [0, 2, 3, 4]);
        }
    }

    #[test]
    fn records_that_unpack_to_more_than_the_limit_are_refused() {
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let zeros = vec![0; 1 << 20];
            let mut b = BatchBuilder::new(codec);
            for _ in 0..17 {
                b.push(5, Some(b"k"), Some(&zeros), &[]);
            }
            let bytes = b.build().unwrap();
            let refusal = checked(&bytes).unwrap_err();
            assert_eq!(refusal.code, ErrorCode::MessageTooLarge, "{codec:?}");
        }
    }
}
