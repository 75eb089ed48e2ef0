//! What consumers put into the bytes that the broker does not look inside: subscriptions, the range assignment, and the
//! assignments themselves, which say the generation that they were made for.

use std::collections::BTreeMap;

use crate::oracle::groups::Assignment;

/// The topics that exist, with their numbers of partitions.
pub(super) type Topics = Vec<(String, i32)>;

fn text(out: &mut Vec<u8>, text: &str) {
    let length = i16::try_from(text.len()).expect("names here are short");
    out.extend(length.to_be_bytes());
    out.extend(text.as_bytes());
}

fn number(out: &mut Vec<u8>, number: usize) {
    out.extend(i32::try_from(number).expect("numbers here are small").to_be_bytes());
}

/// `ConsumerProtocolSubscription` 0: topics, and `flavour` as user data.
pub(super) fn subscription(topics: &[&str], flavour: u32) -> Vec<u8> {
    let mut out = 0_i16.to_be_bytes().to_vec();
    number(&mut out, topics.len());
    topics.iter().for_each(|topic| text(&mut out, topic));
    number(&mut out, 4);
    out.extend(flavour.to_be_bytes());
    out
}

/// Kafka's range: of each topic every member gets a stretch, the first ones one partition more.
pub(super) fn range<'a>(
    members: &[&'a str],
    topics: &Topics,
    generation: i32,
) -> Vec<(&'a str, Vec<u8>)> {
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    let of = |nth: usize| {
        let mut parts: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (topic, count) in topics {
            let (count, members) = (*count as usize, sorted.len());
            let (each, more) = (count / members, count % members);
            let from = nth * each + nth.min(more);
            let own = from..from + each + usize::from(nth < more);
            parts.insert(topic, own.map(|index| index as i32).collect());
        }
        parts
    };
    sorted.iter().enumerate().map(|(nth, id)| (*id, encode(&of(nth), generation))).collect()
}

/// `ConsumerProtocolAssignment` 0, with the generation as user data.
fn encode(parts: &BTreeMap<&str, Vec<i32>>, generation: i32) -> Vec<u8> {
    let mut out = 0_i16.to_be_bytes().to_vec();
    number(&mut out, parts.len());
    for (topic, indexes) in parts {
        text(&mut out, topic);
        number(&mut out, indexes.len());
        indexes.iter().for_each(|index| out.extend(index.to_be_bytes()));
    }
    number(&mut out, 4);
    out.extend(generation.to_be_bytes());
    out
}

/// An assignment that [`range`] made; `None`: the bytes are none.
pub(super) fn decode(bytes: &[u8]) -> Option<Assignment> {
    let mut rest = bytes;
    let mut take = |n: usize| {
        let (taken, left) = rest.split_at_checked(n)?;
        rest = left;
        Some(taken)
    };
    let word = |bytes: &[u8]| Some(i32::from_be_bytes(bytes.try_into().ok()?));
    take(2)?;
    let mut partitions = Vec::new();
    for _ in 0..word(take(4)?)? {
        let length = u16::from_be_bytes(take(2)?.try_into().ok()?);
        let topic = String::from_utf8(take(usize::from(length))?.to_vec()).ok()?;
        for _ in 0..word(take(4)?)? {
            partitions.push((topic.clone(), word(take(4)?)?));
        }
    }
    take(4)?;
    let generation = word(take(4)?)?;
    Some(Assignment { generation, partitions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_gives_every_partition_to_one_member_and_comes_back_from_its_bytes() {
        let topics = vec![("a".to_owned(), 5), ("b".to_owned(), 1)];
        let given = range(&["y", "x", "z"], &topics, 7);
        let back: Vec<Assignment> = given.iter().map(|(_, b)| decode(b).unwrap()).collect();
        assert!(back.iter().all(|a| a.generation == 7));
        let at = |topic: &str, indexes: &[i32]| -> Vec<(String, i32)> {
            indexes.iter().map(|index| (topic.to_owned(), *index)).collect()
        };
        assert_eq!(given[0].0, "x");
        assert_eq!(back[0].partitions, [at("a", &[0, 1]), at("b", &[0])].concat());
        assert_eq!(back[1].partitions, at("a", &[2, 3]));
        assert_eq!(back[2].partitions, at("a", &[4]));
        assert!(decode(&given[0].1[..20]).is_none());
    }
}
