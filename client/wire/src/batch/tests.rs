//! Batches as scenarios and properties.

use proptest::prelude::*;

use super::*;

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
const LIMIT: usize = 1 << 20;

fn batch_of(codec: Codec, records: usize) -> Vec<u8> {
    let mut batch = BatchBuilder::new(codec);
    for index in 0..records {
        let value = format!("value {index} of some length, so that there is something to compress");
        batch.push(1_000 + index as i64, Some(b"key"), Some(value.as_bytes()), &[]);
    }
    batch.build().expect("memory never fails")
}

/// Sets a field at a position and seals the batch with a new checksum.
fn with<const N: usize>(mut bytes: Vec<u8>, at: usize, field: [u8; N]) -> Vec<u8> {
    bytes[at..at + N].copy_from_slice(&field);
    let crc = crc32c::crc32c(&bytes[CRC_START..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes
}

#[test]
fn a_batch_reads_back_as_it_was_built_with_every_codec() {
    for codec in CODECS {
        let mut builder = BatchBuilder::new(codec).producer(7, 3, i32::MAX - 1).transactional();
        let headers: &[(&str, Option<&[u8]>)] =
            &[("b", Some(b"1")), ("a", None), ("b", Some(b"2")), ("", Some(b""))];
        builder.push(5_000, Some(b"k"), Some(b"v"), headers);
        builder.push(4_000, None, None, &[]);
        builder.push(9_000, Some(b""), Some(b""), &[]);
        let bytes = builder.build().expect("memory never fails");

        let batch = BatchView::validate_produce(&bytes).expect("a whole batch");
        assert_eq!(
            (batch.codec(), batch.is_transactional(), batch.is_control()),
            (Ok(codec), true, false)
        );
        assert_eq!((batch.base_timestamp(), batch.max_timestamp()), (5_000, 9_000));
        assert_eq!((batch.producer_id(), batch.producer_epoch()), (7, 3));
        assert_eq!((batch.base_sequence(), batch.last_sequence()), (i32::MAX - 1, 0), "wraps to 0");
        assert_eq!(
            (batch.record_count(), batch.last_offset_delta(), batch.next_offset()),
            (3, 2, 3)
        );

        let payload = decompress(codec, batch.records(), LIMIT).expect("its own codec");
        let found: Vec<_> = records(&payload).collect::<Result<_, _>>().expect("three records");
        assert_eq!(found.len(), 3);
        assert_eq!(found.iter().map(|r| r.offset_delta).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(found.iter().map(|r| r.timestamp_delta).collect::<Vec<_>>(), [0, -1_000, 4_000]);
        assert_eq!((found[1].key, found[1].value), (None, None));
        assert_eq!((found[2].key, found[2].value), (Some(&b""[..]), Some(&b""[..])));
        let kept: Vec<_> = found[0].headers.map(|h| (h.key, h.value)).collect();
        let sent: Vec<_> = headers.iter().map(|(k, v)| (k.as_bytes(), *v)).collect();
        assert_eq!(kept, sent, "duplicates and order are kept");
    }
}

#[test]
fn assigning_an_offset_leaves_the_checksum_valid() {
    let mut bytes = batch_of(Codec::None, 3);
    let crc = BatchView::parse(&bytes).expect("a whole batch").crc();
    assign(&mut bytes, 1 << 40, 17);
    let batch = BatchView::parse(&bytes).expect("a whole batch");
    assert_eq!(
        (batch.base_offset(), batch.last_offset(), batch.leader_epoch()),
        (1 << 40, (1 << 40) + 2, 17)
    );
    assert_eq!(batch.crc(), crc);
    assert!(batch.check_crc());
}

#[test]
fn log_append_time_gets_a_new_checksum_over_the_batch_only() {
    let mut bytes = batch_of(Codec::None, 1);
    let len = bytes.len();
    bytes.extend_from_slice(&batch_of(Codec::None, 2));
    let second = bytes[len..].to_vec();
    set_max_timestamp_and_type(&mut bytes, 77, TimestampType::LogAppendTime);
    let batch = BatchView::parse(&bytes).expect("a whole batch");
    assert_eq!((batch.max_timestamp(), batch.timestamp_type()), (77, TimestampType::LogAppendTime));
    assert!(batch.check_crc());
    assert_eq!(bytes[len..], second);
}

#[test]
fn batches_are_walked_until_one_is_cut_off() {
    let mut bytes = batch_of(Codec::None, 2);
    let first = bytes.len();
    bytes.extend_from_slice(&batch_of(Codec::Zstd, 5));
    assert_eq!(
        batches(&bytes).map(|b| b.map(|b| b.record_count())).collect::<Vec<_>>(),
        [Ok(2), Ok(5)]
    );
    for cut in 1..bytes.len() - first {
        let found: Vec<_> = batches(&bytes[..first + cut]).collect();
        assert_eq!(found.len(), 2);
        assert!(matches!(found[1], Err(BatchError::Truncated { have, .. }) if have == cut));
    }
    let header = BatchView::parse_header(&bytes[..BATCH_HEADER]).expect("61 bytes are a header");
    assert_eq!((header.total_len(), header.records().len()), (first, 0));
}

#[test]
fn what_a_broker_refuses_on_produce_has_kafkas_code() {
    let good = || batch_of(Codec::None, 3);
    let mut flipped = good();
    *flipped.last_mut().expect("a batch has bytes") ^= 1;
    let twice = [good(), good()].concat();
    let mut orphan = BatchBuilder::new(Codec::None).producer(7, 0, -1);
    orphan.push(0, None, None, &[]);
    let orphan = orphan.build().expect("memory never fails");
    let cases: [(&str, Vec<u8>, ErrorCode); 13] = [
        ("nothing", Vec::new(), ErrorCode::InvalidRecord),
        ("cut off", good()[..100].to_vec(), ErrorCode::InvalidRecord),
        ("two batches", twice, ErrorCode::InvalidRecord),
        ("a flipped bit", flipped, ErrorCode::CorruptMessage),
        ("format 1", with(good(), 16, [1]), ErrorCode::InvalidRecord),
        ("format 3", with(good(), 16, [3]), ErrorCode::CorruptMessage),
        (
            "a length below the header",
            with(good(), 8, 48_i32.to_be_bytes()),
            ErrorCode::CorruptMessage,
        ),
        ("a negative length", with(good(), 8, [0xff; 4]), ErrorCode::CorruptMessage),
        ("codec 5", with(good(), 21, [0, 5]), ErrorCode::UnsupportedCompressionType),
        ("a control batch", with(good(), 21, [0, 0x20]), ErrorCode::InvalidRecord),
        (
            "an offset of its own",
            with(good(), 0, [0, 0, 0, 0, 0, 0, 0, 1]),
            ErrorCode::InvalidRecord,
        ),
        ("two offsets for three records", with(good(), 23, [0, 0, 0, 1]), ErrorCode::InvalidRecord),
        ("a producer without a sequence", orphan, ErrorCode::InvalidRecord),
    ];
    for (what, bytes, code) in cases {
        let error = BatchView::validate_produce(&bytes).expect_err(what);
        assert_eq!(error.error_code(), code, "{what}: {error}");
    }
    let none = with(with(good(), 23, [0xff; 4]), 57, [0; 4]);
    assert!(matches!(
        BatchView::validate_produce(&none),
        Err(BatchError::Count { count: 0, delta: -1 })
    ));
    let most = with(with(good(), 23, i32::MAX.to_be_bytes()), 57, i32::MIN.to_be_bytes());
    assert!(BatchView::validate_produce(&most).is_err());
}

#[test]
fn decompression_stops_at_its_limit() {
    let payload = vec![7; LIMIT];
    for codec in CODECS {
        let compressed = compress(codec, &payload).expect("memory never fails");
        assert_eq!(decompress(codec, &compressed, LIMIT).expect("just fits"), payload);
        assert_eq!(
            decompress(codec, &compressed, LIMIT - 1),
            Err(BatchError::TooLarge { limit: LIMIT - 1 }),
            "{codec:?}"
        );
    }
}

#[test]
fn snappy_is_read_with_and_without_the_java_framing() {
    let payload = vec![9; 100_000];
    let raw = snap::raw::Encoder::new().compress_vec(&payload).expect("memory never fails");
    assert_eq!(decompress(Codec::Snappy, &raw, LIMIT).expect("raw"), payload);
    let framed = compress(Codec::Snappy, &payload).expect("memory never fails");
    assert!(framed.starts_with(b"\x82SNAPPY\0"));
    assert_eq!(decompress(Codec::Snappy, &framed, LIMIT).expect("framed"), payload);
    // Five bytes that promise a mebibyte.
    let lie = [0x80, 0x80, 0x40, 0, 0];
    assert_eq!(decompress(Codec::Snappy, &lie, LIMIT), Err(BatchError::Decompress(Codec::Snappy)));
}

#[test]
fn a_broken_record_is_reported_with_its_place() {
    let bytes = batch_of(Codec::None, 2);
    let payload = BatchView::parse(&bytes).expect("a whole batch").records();
    let second = payload.len() - 5;
    let found: Vec<_> = records(&payload[..second]).collect();
    assert!(found[0].is_ok());
    assert_eq!(found[1], Err(BatchError::Record { at: payload.len() / 2, what: "length" }));
    assert_eq!(found.len(), 2);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), codec in 0..5_i16) {
        let _ = BatchView::validate_produce(&bytes);
        for batch in batches(&bytes).flatten() {
            prop_assert!(batch.total_len() <= bytes.len());
        }
        for record in records(&bytes).flatten() {
            prop_assert_eq!(record.headers.count(), record.headers.len());
        }
        let codec = Codec::from_id(codec).expect("there are five");
        if let Ok(out) = decompress(codec, &bytes, 1_000) {
            prop_assert!(out.len() <= 1_000);
        }
    }

    #[test]
    fn a_header_of_any_numbers_is_read_or_refused(tail: [u8; 32], middle: [u8; 17]) {
        let mut bytes = batch_of(Codec::None, 1);
        bytes[21..53].copy_from_slice(&tail);
        bytes[44..61].copy_from_slice(&middle);
        let batch = BatchView::parse(&bytes).expect("the length is untouched");
        let _ = (batch.last_offset(), batch.next_offset(), batch.last_sequence(), batch.codec());
        let _ = BatchView::validate_produce(&bytes);
    }

    #[test]
    fn damage_to_a_compressed_payload_is_survived(codec in 1..5_i16, at: prop::sample::Index, byte: u8) {
        let codec = Codec::from_id(codec).expect("there are five");
        let mut payload = compress(codec, &[5; 4_000]).expect("memory never fails").into_owned();
        let at = at.index(payload.len());
        payload[at] = byte;
        if let Ok(out) = decompress(codec, &payload, 8_000) {
            prop_assert!(out.len() <= 8_000);
        }
    }

    #[test]
    fn sequences_wrap_to_zero(base in 0..=i32::MAX, delta in 0..=i32::MAX) {
        let next = (i64::from(base) + i64::from(delta)) % (i64::from(i32::MAX) + 1);
        prop_assert_eq!(i64::from(sequence_after(base, delta)), next);
    }
}
