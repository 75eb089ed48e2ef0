//! A batch's times, as the broker takes them.
//!
//! With LogAppendTime the header says that all records have the broker's time; the records keep what the producer
//! wrote, and readers ignore it. With CreateTime the header's first and largest times must lie within
//! message.timestamp.before.max.ms and .after.max.ms of the broker's clock (single records between them are not looked
//! at; a difference from Kafka).
//!
//! The header is trusted for the largest timestamp unless it is unset or below the first one; then the records are
//! read, as Kafka reads them always (a difference that ARCHITECTURE.md states). Some clients leave it unset, and then
//! searches by time and retention would go wrong (redpanda#25200).

use rillway_shard::TopicSettings;
use rillway_wire::ErrorCode;
use rillway_wire::batch::{
    BatchError, BatchView, TimestampType, decompress, records, set_max_timestamp_and_type,
};

/// What such a batch may unpack to (Kafka 4.4 calls it max.decompressed.message.bytes).
const DECOMPRESSED_MAX: usize = 64 << 20;

/// The batch with its times as the topic wants them, if they are not so already.
pub(super) fn timed(
    batch: &BatchView<'_>,
    settings: &TopicSettings,
    now_ms: i64,
) -> Result<Option<Vec<u8>>, (ErrorCode, String)> {
    let claims_append_time = batch.timestamp_type() == TimestampType::LogAppendTime;
    if claims_append_time && settings.log_append_time {
        let why = "producers do not set the timestamp type to LogAppendTime, brokers do";
        return Err((ErrorCode::InvalidTimestamp, why.to_owned()));
    }
    if settings.log_append_time {
        let mut bytes = batch.bytes().to_vec();
        set_max_timestamp_and_type(&mut bytes, now_ms, TimestampType::LogAppendTime);
        return Ok(Some(bytes));
    }
    let (base, mut max) = (batch.base_timestamp(), batch.max_timestamp());
    let mut mended = None;
    // A claim of the broker's time where the producer's counts is put right, as in Kafka.
    if max < base || max < 0 || claims_append_time {
        max = largest(batch).map_err(|e| match e {
            BatchError::TooLarge { .. } => (ErrorCode::MessageTooLarge, e.to_string()),
            _ => (e.error_code(), e.to_string()),
        })?;
        if max != batch.max_timestamp() || claims_append_time {
            let mut bytes = batch.bytes().to_vec();
            set_max_timestamp_and_type(&mut bytes, max, TimestampType::CreateTime);
            mended = Some(bytes);
        }
    }
    let (before, after) = (settings.timestamp_before_max_ms, settings.timestamp_after_max_ms);
    if max > now_ms.saturating_add(after) {
        let why = format!(
            "timestamp {max} is more than {after} ms ahead of the broker's clock ({now_ms})"
        );
        return Err((ErrorCode::InvalidTimestamp, why));
    }
    // A record without a time has none that could be too old.
    if base >= 0 && base < now_ms.saturating_sub(before) {
        let why = format!(
            "timestamp {base} is more than {before} ms behind the broker's clock ({now_ms})"
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
        match timed(&view, &TopicSettings::default(), 10_000).unwrap() {
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
        assert_eq!(
            code(&[3_600_000 + 10_001], TopicSettings::default()),
            Some(ErrorCode::InvalidTimestamp)
        );
        assert_eq!(code(&[3_600_000 + 10_000], TopicSettings::default()), None);
    }

    fn code(times: &[i64], settings: TopicSettings) -> Option<ErrorCode> {
        let bytes = batch(Codec::None, times);
        let view = BatchView::parse(&bytes).unwrap();
        timed(&view, &settings, 10_000).err().map(|(code, _)| code)
    }

    #[test]
    fn a_batch_from_before_the_limit_is_refused_and_one_without_a_time_is_not() {
        let settings = TopicSettings { timestamp_before_max_ms: 1_000, ..Default::default() };
        assert_eq!(code(&[8_999], settings), Some(ErrorCode::InvalidTimestamp));
        assert_eq!(code(&[9_000], settings), None);
        assert_eq!(code(&[-1], settings), None);
    }

    #[test]
    fn with_log_append_time_the_header_has_the_brokers_time_and_any_producers_time_is_taken() {
        let settings = TopicSettings { log_append_time: true, ..Default::default() };
        let bytes = batch(Codec::None, &[5, 3_600_000 + 10_001]);
        let stamped =
            timed(&BatchView::parse(&bytes).unwrap(), &settings, 10_000).unwrap().unwrap();
        let view = BatchView::parse(&stamped).unwrap();
        assert!(view.check_crc());
        assert_eq!(
            (view.timestamp_type(), view.max_timestamp()),
            (TimestampType::LogAppendTime, 10_000)
        );
        let again = timed(&view, &settings, 10_000).unwrap_err();
        assert_eq!(
            again.0,
            ErrorCode::InvalidTimestamp,
            "a producer that claims the broker's time"
        );
    }

    #[test]
    fn records_without_a_time_are_taken_as_they_are() {
        assert_eq!(mended_max(&with_header_max(batch(Codec::None, &[-1, -1]), -1)), -1);
    }
}
