//! A batch's times, as the broker takes them.
//!
//! The header is trusted for the largest timestamp unless it is unset or below the first one; then the records are
//! read, as Kafka reads them always (a difference that ARCHITECTURE.md states). Some clients leave it unset, and then
//! searches by time and retention would go wrong (redpanda#25200).

use rillway_wire::ErrorCode;
use rillway_wire::batch::{
    BatchError, BatchView, TimestampType, decompress, records, set_max_timestamp_and_type,
};

/// Kafka's default of message.timestamp.after.max.ms.
const AFTER_MAX_MS: i64 = 3_600_000;
/// What such a batch may unpack to (Kafka 4.4 calls it max.decompressed.message.bytes).
const DECOMPRESSED_MAX: usize = 64 << 20;

/// The batch with its largest timestamp set right, if the header's cannot be trusted.
pub(super) fn with_max_timestamp(
    batch: &BatchView<'_>,
    now_ms: i64,
) -> Result<Option<Vec<u8>>, (ErrorCode, String)> {
    let (base, mut max) = (batch.base_timestamp(), batch.max_timestamp());
    let mut mended = None;
    if max < base || max < 0 {
        max = largest(batch).map_err(|e| match e {
            BatchError::TooLarge { .. } => (ErrorCode::MessageTooLarge, e.to_string()),
            _ => (e.error_code(), e.to_string()),
        })?;
        if max != batch.max_timestamp() {
            let mut bytes = batch.bytes().to_vec();
            set_max_timestamp_and_type(&mut bytes, max, TimestampType::CreateTime);
            mended = Some(bytes);
        }
    }
    if max > now_ms.saturating_add(AFTER_MAX_MS) {
        let why = format!(
            "timestamp {max} is more than {AFTER_MAX_MS} ms ahead of the broker's clock ({now_ms})"
        );
        return Err((ErrorCode::InvalidTimestamp, why));
    }
    Ok(mended)
}

fn largest(batch: &BatchView<'_>) -> Result<i64, BatchError> {
    let payload = decompress(batch.codec()?, batch.records(), DECOMPRESSED_MAX)?;
    let mut max = -1;
    for record in records(&payload) {
        max = max.max(batch.base_timestamp().saturating_add(record?.timestamp_delta));
    }
    Ok(max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rillway_wire::batch::{BatchBuilder, Codec};

    fn batch(codec: Codec, times: &[i64]) -> Vec<u8> {
        let mut b = BatchBuilder::new(codec);
        for t in times {
            b.push(*t, None, Some(b"v"), &[]);
        }
        b.build().unwrap()
    }

    fn with_header_max(mut bytes: Vec<u8>, max: i64) -> Vec<u8> {
        set_max_timestamp_and_type(&mut bytes, max, TimestampType::CreateTime);
        bytes
    }

    fn mended_max(bytes: &[u8]) -> i64 {
        let view = BatchView::parse(bytes).unwrap();
        match with_max_timestamp(&view, 10_000).unwrap() {
            Some(mended) => {
                let mended = BatchView::parse(&mended).unwrap();
                assert!(mended.check_crc());
                mended.max_timestamp()
            }
            None => view.max_timestamp(),
        }
    }

    #[test]
    fn an_unset_or_too_low_largest_timestamp_is_taken_from_the_records() {
        for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            for claimed in [-1, 0, 4] {
                assert_eq!(
                    mended_max(&with_header_max(batch(codec, &[5, 9, 7]), claimed)),
                    9,
                    "{codec:?}"
                );
            }
        }
    }

    #[test]
    fn a_largest_timestamp_that_is_not_below_the_first_is_trusted() {
        assert_eq!(mended_max(&with_header_max(batch(Codec::None, &[5, 9]), 6)), 6);
    }

    #[test]
    fn a_batch_from_the_far_future_is_refused() {
        let bytes = batch(Codec::None, &[AFTER_MAX_MS + 10_001]);
        let view = BatchView::parse(&bytes).unwrap();
        assert_eq!(with_max_timestamp(&view, 10_000).unwrap_err().0, ErrorCode::InvalidTimestamp);
    }

    #[test]
    fn records_without_a_time_are_taken_as_they_are() {
        assert_eq!(mended_max(&with_header_max(batch(Codec::None, &[-1, -1]), -1)), -1);
    }
}
