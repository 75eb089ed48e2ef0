//! The records of `__consumer_offsets`, decoded as `kafka-dump-log --offsets-decoder` does: Kafka's `OffsetCommitKey` 0
//! and 1 with `OffsetCommitValue` 0 to 4, and `GroupMetadataKey` 2, whose value is shown by its version alone (Rillway
//! keeps groups in its metadata store). What is of another version is named and not decoded.

use rillway_wire::DecodeError;
use rillway_wire::codec::{Context, Reader, Wire};
use serde_json::{Value, json};

const PLAIN: Context = Context { version: 0, flexible: false };

/// The key and value of a record; what does not parse says so in their place.
pub(super) fn decoded(key: Option<&[u8]>, value: Option<&[u8]>) -> (Value, Value) {
    let Some(key) = key else { return (Value::Null, json!({"error": "a record without a key"})) };
    match decode_key(key) {
        Ok((kind, key)) => {
            let value = match (kind, value) {
                (_, None) => json!("tombstone"),
                (Kind::Offset, Some(bytes)) => decode_value(bytes).unwrap_or_else(error),
                (Kind::Group | Kind::Unknown, Some(bytes)) => {
                    let version = bytes.first_chunk::<2>().map(|b| i16::from_be_bytes(*b));
                    json!({"version": version, "bytes": bytes.len()})
                }
            };
            (key, value)
        }
        Err(why) => (error(why), Value::Null),
    }
}

enum Kind {
    Offset,
    Group,
    Unknown,
}

fn error(why: DecodeError) -> Value {
    json!({"error": why.to_string()})
}

fn decode_key(bytes: &[u8]) -> Result<(Kind, Value), DecodeError> {
    let mut from = Reader::new(bytes);
    let version = i16::decode(&mut from, PLAIN)?;
    let (kind, key) = match version {
        0 | 1 => {
            let group = <&str>::decode(&mut from, PLAIN)?;
            let topic = <&str>::decode(&mut from, PLAIN)?;
            let partition = i32::decode(&mut from, PLAIN)?;
            (Kind::Offset, json!({"group": group, "topic": topic, "partition": partition}))
        }
        2 => (Kind::Group, json!({"group_metadata": <&str>::decode(&mut from, PLAIN)?})),
        version => return Ok((Kind::Unknown, json!({"version": version}))),
    };
    from.finish()?;
    Ok((kind, key))
}

fn decode_value(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut from = Reader::new(bytes);
    let version = i16::decode(&mut from, PLAIN)?;
    if !(0..=4).contains(&version) {
        return Ok(json!({"version": version, "bytes": bytes.len()}));
    }
    let context = Context { version, flexible: version >= 4 };
    let offset = i64::decode(&mut from, context)?;
    let epoch = if version >= 3 { i32::decode(&mut from, context)? } else { -1 };
    let metadata = <&str>::decode(&mut from, context)?;
    let committed = i64::decode(&mut from, context)?;
    let expires = if version == 1 { i64::decode(&mut from, context)? } else { -1 };
    if context.flexible {
        // Tag 0 is the topic's id.
        from.tags(|tag, from| if tag == 0 { from.fixed::<16>().map(|_| true) } else { Ok(false) })?;
    }
    from.finish()?;
    Ok(json!({
        "offset": offset,
        "leader_epoch": (epoch >= 0).then_some(epoch),
        "metadata": metadata,
        "committed_ms": committed,
        "expires_ms": (expires >= 0).then_some(expires),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(of: &str) -> Vec<u8> {
        [&(of.len() as i16).to_be_bytes()[..], of.as_bytes()].concat()
    }

    fn key() -> Vec<u8> {
        [&[0, 1][..], &text("readers"), &text("orders"), &[0, 0, 0, 7]].concat()
    }

    fn value(version: i16) -> Vec<u8> {
        let mut bytes = [&version.to_be_bytes()[..], &300i64.to_be_bytes()].concat();
        if version >= 3 {
            bytes.extend(2i32.to_be_bytes());
        }
        // Compact lengths are one more, and tags follow.
        bytes.extend(if version >= 4 { [&[5][..], b"note"].concat() } else { text("note") });
        bytes.extend(1_700_000_000_000i64.to_be_bytes());
        match version {
            1 => bytes.extend(1_700_000_000_999i64.to_be_bytes()),
            4 => bytes.extend([&[1, 0, 16][..], &[9; 16]].concat()),
            _ => {}
        }
        bytes
    }

    #[test]
    fn every_version_of_a_committed_offset_is_decoded() {
        for version in 0..=4 {
            let (key, value) = decoded(Some(&key()), Some(&value(version)));
            assert_eq!(key, json!({"group": "readers", "topic": "orders", "partition": 7}));
            assert_eq!(value["offset"], 300, "version {version}: {value}");
            assert_eq!(value["metadata"], "note");
            assert_eq!(value["committed_ms"], 1_700_000_000_000i64);
            assert_eq!(value["leader_epoch"], if version >= 3 { json!(2) } else { Value::Null });
            let expires = if version == 1 { json!(1_700_000_000_999i64) } else { Value::Null };
            assert_eq!(value["expires_ms"], expires);
        }
    }

    #[test]
    fn a_deleted_offset_is_a_tombstone_and_what_does_not_parse_says_so() {
        assert_eq!(decoded(Some(&key()), None).1, json!("tombstone"));
        for len in 0..key().len() {
            let (key, _) = decoded(Some(&key()[..len]), None);
            assert!(key["error"].is_string(), "{len} bytes: {key}");
        }
        for version in 0..=4 {
            let whole = value(version);
            for len in 0..whole.len() {
                let (_, value) = decoded(Some(&key()), Some(&whole[..len]));
                assert!(value["error"].is_string(), "version {version}, {len} bytes: {value}");
            }
        }
        assert_eq!(decoded(Some(&[0, 9]), Some(&[0, 0])).0, json!({"version": 9}));
    }
}
