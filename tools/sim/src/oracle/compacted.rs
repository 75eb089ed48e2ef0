//! What must be true of compacted topics, whose names begin with `c`.
//!
//! A batch may come back with some of its records only, so records are told apart one by one, by a header that no two
//! have. Each must stand where its batch was placed, byte for byte. When all of a partition is read while nothing is being
//! cleaned, what is there of a key is a suffix of what was written of it: never an older record without the newer ones
//! behind it, and nothing at all only if a tombstone was the last.

use std::collections::{BTreeMap, BTreeSet};

use rillway_wire::batch::{BatchView, batches, decompress, records};

use super::{Oracle, SendId, State, Ticket};

/// The header that names a record.
pub(crate) const ID: &str = "id";

const LIMIT: usize = 64 << 20;

/// A record of a batch that was sent.
pub(super) struct SentRecord {
    pub id: Vec<u8>,
    key: Option<Vec<u8>>,
    tombstone: bool,
    content: u64,
}

/// Where a record was seen.
struct SeenRecord {
    offset: i64,
    record: SentRecord,
}

/// Whether a topic is compacted.
pub(crate) fn is_compacted(topic: &str) -> bool {
    topic.starts_with('c')
}

fn seen(batch: &BatchView<'_>) -> Result<Vec<SeenRecord>, String> {
    let codec = batch.codec().map_err(|e| e.to_string())?;
    let payload = decompress(codec, batch.records(), LIMIT).map_err(|e| e.to_string())?;
    let mut out = Vec::new();
    for r in records(&payload) {
        let r = r.map_err(|e| e.to_string())?;
        let mut headers = r.headers;
        let id = headers.next().and_then(|h| h.value).unwrap_or_default().to_vec();
        let timestamp = batch.base_timestamp() + r.timestamp_delta;
        let mut content = timestamp.to_le_bytes().to_vec();
        content.extend_from_slice(r.key.unwrap_or(b"none"));
        content.extend_from_slice(r.value.unwrap_or(b"none"));
        out.push(SeenRecord {
            offset: batch.base_offset() + i64::from(r.offset_delta),
            record: SentRecord {
                id,
                key: r.key.map(<[u8]>::to_vec),
                tombstone: r.value.is_none(),
                content: super::hash(&[&[0; 16], &content[..]].concat()),
            },
        });
    }
    if usize::try_from(batch.record_count()) != Ok(out.len()) {
        return Err(format!("{} records where {} are claimed", out.len(), batch.record_count()));
    }
    Ok(out)
}

/// The records of a batch that is about to be sent.
pub(super) fn sent(batch: &BatchView<'_>) -> Vec<SentRecord> {
    let seen = seen(batch).expect("built a moment ago");
    seen.into_iter().map(|s| s.record).collect()
}

/// The records of an answer by key: for who reads all of a partition.
pub(crate) fn keys(bytes: &[u8], into: &mut BTreeMap<Vec<u8>, BTreeSet<i64>>) {
    for batch in batches(bytes).flatten() {
        for s in seen(&batch).unwrap_or_default() {
            into.entry(s.record.key.unwrap_or_default()).or_default().insert(s.offset);
        }
    }
}

impl State {
    /// Which batch this one was, and where its first record stood; `None` if it has no records left.
    pub(super) fn origin(&self, batch: &BatchView<'_>) -> Result<Option<(SendId, i64)>, String> {
        let mut origin = None;
        for s in seen(batch)? {
            let Some((send, at)) = self.by_record.get(&s.record.id).copied() else {
                return Err(format!("the record at {} was sent by nobody", s.offset));
            };
            let was = &self.sent[send.0].records[at];
            if (was.content, was.tombstone) != (s.record.content, s.record.tombstone) {
                return Err(format!("the record at {} is not as it was sent", s.offset));
            }
            let here = (send, s.offset - at as i64);
            if origin.is_some_and(|o| o != here) {
                return Err(format!(
                    "the record at {} was sent in another batch, or moved",
                    s.offset
                ));
            }
            origin = Some(here);
        }
        Ok(origin)
    }

    fn check_keys(
        &mut self,
        ticket: &Ticket,
        from: i64,
        present: &BTreeMap<Vec<u8>, BTreeSet<i64>>,
    ) -> Result<(), String> {
        let born = self.incarnation(ticket).born;
        // Everything that is known to have been written, by key and offset, and whether it was a tombstone.
        let mut written: BTreeMap<&[u8], BTreeMap<i64, bool>> = BTreeMap::new();
        // Keys of which a tombstone may stand where nobody knows: a lost answer, or a copy by a retry.
        let mut unknown: BTreeSet<&[u8]> = BTreeSet::new();
        for sent in &self.sent {
            if (sent.topic.as_str(), sent.index) != (ticket.topic.as_str(), ticket.index) {
                continue;
            }
            let places = sent.places.iter().filter(|(b, _)| *b == born);
            for (at, r) in sent.records.iter().enumerate() {
                let key = r.key.as_deref().unwrap_or_default();
                for (_, base) in places.clone() {
                    let offset = base + at as i64;
                    if offset >= from {
                        written.entry(key).or_default().insert(offset, r.tombstone);
                    }
                }
                if r.tombstone && places.clone().count() < sent.attempts {
                    unknown.insert(key);
                }
            }
        }
        let none = BTreeSet::new();
        for (key, written) in written {
            let there = present.get(key).unwrap_or(&none);
            let last: Vec<i64> = written.keys().rev().take(there.len()).rev().copied().collect();
            let removed = written.values().next_back() == Some(&true) || unknown.contains(key);
            let suffix = there.iter().copied().eq(last);
            if !suffix || there.is_empty() && !removed {
                return Err(format!(
                    "of key {key:02x?} the records {there:?} are left, of {written:?} (true: a tombstone)"
                ));
            }
        }
        Ok(())
    }
}

impl Oracle {
    /// All of a compacted partition was read, from its start, while nothing was being cleaned.
    pub(crate) fn read_compacted(
        &self,
        ticket: &Ticket,
        from: i64,
        present: &BTreeMap<Vec<u8>, BTreeSet<i64>>,
    ) {
        if !self.stable(ticket) {
            return;
        }
        let mut state = self.state.borrow_mut();
        let result = state.check_keys(ticket, from, present);
        state.judge(ticket, result);
    }
}
