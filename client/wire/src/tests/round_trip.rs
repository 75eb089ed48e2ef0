//! Every message in every version: what is encoded is decoded, and what is damaged is refused.

use std::fmt::Debug;

use super::{Dice, Sample, every_api};
use crate::codec::{Frame, Part, Reader, Writer};
use crate::{
    DecodeError, DecodeErrorKind, Message, Records, RequestHeader, RequestMessage, RequestPeek,
    ResponseHeader, ResponseMessage, api, frame_len,
};

/// Frames that outlive the test, since the messages borrow from them.
fn forever(bytes: Vec<u8>) -> &'static [u8] {
    bytes.leak()
}

fn body(message: &impl Message<'static>, version: i16) -> &'static [u8] {
    let mut to = Writer::default();
    message.encode_body(&mut to, version);
    forever(bytes(to.into_frame()))
}

fn bytes(frame: Frame) -> Vec<u8> {
    let (bytes, holes) = frame.into_parts();
    assert!(holes.is_empty());
    bytes
}

fn samples<M: Sample + Message<'static>>(each: usize) -> impl Iterator<Item = (i16, M)> {
    M::VERSIONS.flat_map(move |version| {
        let mut dice = Dice(version as u64);
        (0..each).map(move |_| (version, M::sample(&mut dice, version)))
    })
}

fn round_trip<M: Sample + Message<'static> + Debug + PartialEq>() {
    for (version, message) in samples::<M>(100) {
        let encoded = body(&message, version);
        let decoded = M::decode_body(encoded, version);
        assert_eq!(decoded.as_ref(), Ok(&message), "{} v{version}", M::API);
        let again = body(&decoded.expect("compared above"), version);
        assert_eq!(again, encoded, "{} v{version}", M::API);
    }
}

#[test]
fn every_message_of_every_version_decodes_to_what_was_encoded() {
    macro_rules! check {
        ($($api:ident $request:ident $response:ident,)*) => {$(
            round_trip::<api::$api::Request>();
            round_trip::<api::$api::Response>();
        )*};
    }
    every_api!(check);
}

/// Every cut is an error; every flipped byte is an error or another message; nothing panics.
fn damage<M: Sample + Message<'static>>() {
    for (version, message) in samples::<M>(3) {
        let encoded = body(&message, version);
        for cut in 0..encoded.len() {
            assert!(
                M::decode_body(&encoded[..cut], version).is_err(),
                "{} v{version} cut at {cut}",
                M::API
            );
        }
        let longer = forever([encoded, &[0]].concat());
        let left_over = M::decode_body(longer, version).err().map(|e| e.kind);
        assert_eq!(left_over, Some(DecodeErrorKind::LeftOver(1)), "{} v{version}", M::API);
        assert!(M::decode_prefix(longer, version).is_ok_and(|(_, rest)| rest == [0]));
    }
    for (version, message) in samples::<M>(40) {
        let mut dice = Dice(7);
        let mut damaged = body(&message, version).to_vec();
        for _ in 0..=dice.below(3) {
            if !damaged.is_empty() {
                let at = dice.below(damaged.len());
                damaged[at] = [0, 0x7f, 0x80, 0xff, dice.roll() as u8][dice.below(5)];
            }
        }
        walk::<M>(forever(damaged), version);
        let noise = (0..dice.below(200)).map(|_| dice.roll() as u8).collect();
        walk::<M>(forever(noise), version);
    }
}

/// Decodes and, by encoding again, reaches every element.
fn walk<M: Message<'static>>(bytes: &'static [u8], version: i16) {
    if let Ok((message, _)) = M::decode_prefix(bytes, version) {
        body(&message, version);
    }
}

#[test]
fn no_damage_to_a_message_makes_the_decoder_panic() {
    macro_rules! check {
        ($($api:ident $request:ident $response:ident,)*) => {$(
            damage::<api::$api::Request>();
            damage::<api::$api::Response>();
        )*};
    }
    every_api!(check);
}

#[test]
fn an_unknown_version_is_refused() {
    let error = api::fetch::Request::decode_body(&[], 3).expect_err("Fetch begins at 4");
    assert_eq!(error.to_string(), "Fetch: version 3 is not known");
}

#[test]
fn an_error_names_the_field() {
    // One topic of four bytes, of which two are there.
    let error = api::delete_topics::Request::decode_body(&[0, 0, 0, 1, 0, 4, b'a', b'b'], 1);
    assert_eq!(
        error,
        Err(DecodeError {
            kind: DecodeErrorKind::End { need: 4, have: 2 },
            field: "Request.topic_names"
        })
    );
}

#[test]
fn frames_carry_the_header_that_goes_with_the_version() {
    for version in 0..=4 {
        let request = api::api_versions::Request {
            client_software_name: "kcat",
            client_software_version: "1",
        };
        let frame = bytes(request.request_frame(version, 77, Some("me")));
        let (length, content) = frame.split_first_chunk::<4>().expect("a length");
        assert_eq!(u32::from_be_bytes(*length) as usize, content.len());
        assert_eq!(
            RequestPeek::decode(content),
            Ok(RequestPeek { api_key: 18, api_version: version, correlation_id: 77 })
        );
        let (header, body) = RequestHeader::decode(content).expect("a header");
        assert_eq!(
            (header.api_version, header.correlation_id, header.client_id),
            (version, 77, Some("me"))
        );
        assert!(api::api_versions::Request::decode_body(body, version).is_ok());

        let frame = bytes(api::api_versions::Response::default().response_frame(version, 77));
        let (header, body) =
            ResponseHeader::decode(&frame[4..], crate::ApiKey::ApiVersions, version)
                .expect("a header");
        assert_eq!(header.correlation_id, 77);
        assert_eq!(frame.len() - body.len(), 8, "no tags in this header, whatever the version");
        assert!(api::api_versions::Response::decode_body(body, version).is_ok());
    }
}

#[test]
fn a_frame_that_is_too_long_is_refused_by_its_length() {
    assert_eq!(frame_len([0, 0, 1, 0], 256), Ok(256));
    assert_eq!(
        frame_len([0, 0, 1, 1], 256).map_err(|e| e.kind),
        Err(DecodeErrorKind::Frame { len: 257, limit: 256 })
    );
    assert_eq!(
        frame_len(*b"\xff\xff\xff\xff", 256).map_err(|e| e.kind),
        Err(DecodeErrorKind::Length(-1))
    );
}

#[test]
fn a_refused_version_of_api_versions_is_answered_in_version_0() {
    use api::api_versions::{ApiVersion, Response};
    let answer = Response {
        error_code: crate::ErrorCode::UnsupportedVersion,
        api_keys: vec![ApiVersion { api_key: 18, min_version: 0, max_version: 3 }].into(),
        ..Default::default()
    };
    assert_eq!(Response::decode_answer(body(&answer, 0), 4), Ok(answer));
    let fine = Response { throttle_time_ms: 5, ..Default::default() };
    assert_eq!(Response::decode_answer(body(&fine, 4), 4), Ok(fine));
}

#[test]
fn a_header_of_any_bytes_is_read_or_refused() {
    let mut dice = Dice(3);
    for _ in 0..20_000 {
        let noise: Vec<u8> = (0..dice.below(40)).map(|_| dice.roll() as u8 % 80).collect();
        let peek = RequestPeek::decode(&noise);
        assert_eq!(peek.is_ok(), noise.len() >= 8);
        if let Ok((header, rest)) = RequestHeader::decode(&noise) {
            assert_eq!(peek.map(|p| p.correlation_id), Ok(header.correlation_id));
            assert!(rest.len() <= noise.len() - 10);
        }
    }
}

#[test]
fn tagged_fields_from_the_future_are_skipped() {
    let message = api::init_producer_id::Response { producer_id: 9, ..Default::default() };
    let mut encoded = body(&message, 4).to_vec();
    assert_eq!(encoded.pop(), Some(0), "no tags so far");
    encoded.extend_from_slice(&[2, 5, 3, 1, 2, 3, 0xff, 0x01, 0]);
    assert_eq!(api::init_producer_id::Response::decode_body(&encoded, 4), Ok(message));
}

#[test]
fn more_than_ten_thousand_tags_are_refused() {
    let mut encoded = body(&api::init_producer_id::Response::default(), 4).to_vec();
    encoded.pop();
    crate::varint::write_u64(&mut encoded, 10_001);
    encoded.extend_from_slice(&vec![0; 30_000]);
    let error = api::init_producer_id::Response::decode_body(&encoded, 4).expect_err("too many");
    assert_eq!(error.kind, DecodeErrorKind::Tags(10_001));
}

#[test]
fn a_null_that_a_version_does_not_have_is_empty_in_it() {
    let all = api::metadata::Request { topics: None, ..Default::default() };
    assert_eq!(body(&all, 0), [0, 0, 0, 0], "version 0 says all by none");
    assert_eq!(body(&all, 1), [0xff; 4]);
    let error =
        api::metadata::Request::decode_body(&[0xff; 4], 0).expect_err("no null in version 0");
    assert_eq!((error.kind, error.field), (DecodeErrorKind::Null, "Request.topics"));
}

#[test]
fn tagged_fields_at_their_defaults_are_not_written() {
    let quiet = api::api_versions::Response::default();
    assert_eq!(body(&quiet, 3), [0, 0, 1, 0, 0, 0, 0, 0], "error, no keys, throttle time, no tags");
    let epoch = api::api_versions::Response { finalized_features_epoch: 0, ..quiet };
    assert_eq!(body(&epoch, 3)[7..], [1, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn records_of_a_fetch_response_never_pass_through_the_encoder() {
    use api::fetch::{PartitionResponse, Response, TopicResponse};
    let records: [&[u8]; 3] = [&[1; 300], &[], &[2; 5]];
    let response = |form: fn(&'static [u8]) -> Records<'static>, records: [&'static [u8]; 3]| {
        let partitions =
            records.into_iter().enumerate().map(|(index, records)| PartitionResponse {
                partition_index: index as i32,
                records: form(records),
                ..Default::default()
            });
        let topic = TopicResponse {
            topic: "orders",
            partitions: partitions.collect(),
            ..Default::default()
        };
        Response { responses: vec![topic].into(), ..Default::default() }
    };
    for version in Response::VERSIONS {
        let records = records.map(|r| forever(r.to_vec()));
        let whole = bytes(response(Records::Bytes, records).response_frame(version, 5));
        let frame = response(|r| Records::Later(r.len()), records).response_frame(version, 5);
        assert_eq!(frame.total_len(), whole.len());
        assert_eq!(frame.as_bytes(), None);
        // Only the holes that are not empty are counted.
        let filled = [records[0], records[2]];
        let sent: Vec<u8> = frame
            .parts()
            .flat_map(|part| match part {
                Part::Bytes(bytes) => bytes.to_vec(),
                Part::Records { index, len } => {
                    assert_eq!(filled[index].len(), len);
                    filled[index].to_vec()
                }
            })
            .collect();
        assert_eq!(sent, whole);
    }
}

#[test]
fn an_array_that_lies_about_its_length_ends_at_once() {
    let mut from = Reader::new(&[0x7f, 0xff, 0xff, 0xff, 0, 0]);
    let context = api::metadata::Request::context(1);
    let error = <crate::Array<'_, i32> as crate::codec::Wire>::decode(&mut from, context);
    assert_eq!(error.map_err(|e| e.kind), Err(DecodeErrorKind::Elements(i32::MAX as usize)));
    let mut from = Reader::new(&[0, 0, 0, 9, 0, 0]);
    let error = <crate::Array<'_, i32> as crate::codec::Wire>::decode(&mut from, context);
    assert_eq!(error.map_err(|e| e.kind), Err(DecodeErrorKind::End { need: 9, have: 2 }));
}
