//! Every message in every version against the `kafka-protocol` crate, whose code is generated from Kafka's schemas.
//!
//! Our bytes are decoded there to the last one, encoded there again to the same bytes, and decoded here to the same
//! message. That the fields also have the same names is what `apache_schema` checks.

use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable, Message as TheirMessage};

use super::{Dice, Sample, every_api};
use crate::codec::Writer;
use crate::{Message, api};

fn compare<M, T>() -> usize
where
    M: Message<'static> + Sample + PartialEq + std::fmt::Debug,
    T: Encodable + Decodable + TheirMessage,
{
    let mut compared = 0;
    for version in M::VERSIONS {
        if version < T::VERSIONS.min || version > T::VERSIONS.max {
            continue;
        }
        let mut dice = Dice(version as u64 + 1_000);
        for _ in 0..50 {
            let message = M::sample(&mut dice, version);
            let mut to = Writer::default();
            message.encode_body(&mut to, version);
            let (ours, _) = to.into_frame().into_parts();

            let mut from = bytes::Bytes::from(ours.clone());
            let there = T::decode(&mut from, version)
                .unwrap_or_else(|e| panic!("{} v{version}: {e}\n{message:?}", M::API));
            assert!(from.is_empty(), "{} v{version}: {} bytes left", M::API, from.len());
            let mut to = bytes::BytesMut::new();
            there.encode(&mut to, version).unwrap_or_else(|e| panic!("{} v{version}: {e}", M::API));
            assert_eq!(to, ours, "{} v{version}: {message:?}", M::API);

            let back = M::decode_body(to.to_vec().leak(), version);
            assert_eq!(back, Ok(message), "{} v{version}", M::API);
            compared += 1;
        }
    }
    compared
}

#[test]
fn every_message_means_the_same_to_the_kafka_protocol_crate() {
    macro_rules! check {
        ($($api:ident $request:ident $response:ident,)*) => {$(
            assert!(compare::<api::$api::Request, theirs::$request>() > 0);
            assert!(compare::<api::$api::Response, theirs::$response>() > 0);
        )*};
    }
    every_api!(check);
}
