//! The snapshot of the metadata log: the image and the values as JSON, with a checksum line, replaced by rename. Values
//! are in hexadecimal.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::embedded::Values;
use crate::error::{Error, Result};
use crate::image::{Image, Topic};

const FIRST_LINE: &str = "rillway-metadata 1";

#[derive(Serialize, Deserialize)]
struct Body {
    version: i64,
    topics: BTreeMap<String, Topic>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    values: BTreeMap<String, String>,
}

pub(crate) fn encode(image: &Image, values: &Values) -> Vec<u8> {
    let topics = image.topics.iter().map(|(name, t)| (name.clone(), Topic::clone(t))).collect();
    let values = values.iter().map(|(key, value)| (key.clone(), to_hex(value))).collect();
    let body = serde_json::to_string(&Body { version: image.version, topics, values })
        .expect("an image is plain data");
    let text = format!("{FIRST_LINE}\n{body}\n");
    let crc = crc32c::crc32c(text.as_bytes());
    format!("{text}crc {crc:08x}\n").into_bytes()
}

fn to_hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from(b"0123456789abcdef"[usize::from(n)]);
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<(Image, Values)> {
    let bad = |what: String| Error::Snapshot { path: path.display().to_string(), what };
    let text = std::str::from_utf8(bytes).map_err(|e| bad(e.to_string()))?;
    let at = text.rfind("crc ").ok_or_else(|| bad("no checksum line".to_owned()))?;
    let want = format!("crc {:08x}\n", crc32c::crc32c(&bytes[..at]));
    if text[at..] != want {
        return Err(bad(format!("got {}, expected {}", text[at..].trim_end(), want.trim_end())));
    }
    let mut lines = text[..at].lines();
    let first = lines.next().unwrap_or("");
    if first != FIRST_LINE {
        return Err(bad(format!("first line `{first}`, this build reads `{FIRST_LINE}`")));
    }
    let body: Body =
        serde_json::from_str(lines.next().unwrap_or("")).map_err(|e| bad(e.to_string()))?;
    let topics = body.topics.into_iter().map(|(name, t)| (name, Arc::new(t))).collect();
    let mut values = Values::new();
    for (key, text) in body.values {
        let value = from_hex(&text)
            .ok_or_else(|| bad(format!("the value of {key} is not hexadecimal digits")))?;
        values.insert(key, value);
    }
    Ok((Image { version: body.version, topics }, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_reads_back_as_it_was_written_and_damage_is_refused() {
        let topic = Topic {
            name: "t".to_owned(),
            id: rillway_log::TopicId([7; 16]),
            partitions: 3,
            state: crate::image::TopicState::Created,
            configs: BTreeMap::from([("retention.ms".to_owned(), "5".to_owned())]),
            growing: Some(4),
        };
        let topics = BTreeMap::from([("t".to_owned(), Arc::new(topic))]);
        let image = Image { version: 7, topics };
        let values = Values::from([("/group/g".to_owned(), vec![0, 9, 0xab, 0xff])]);
        let good = encode(&image, &values);
        assert_eq!(decode(Path::new("s"), &good).unwrap(), (image, values));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(decode(Path::new("s"), &bad).is_err(), "byte {at}");
        }
    }
}
