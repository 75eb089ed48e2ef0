//! The entries of a frame (FORMAT.md 3.2): encode, and a decode that trusts nothing.

use crate::bytes::{Parse, Put, Take};
use crate::ids::{Generation, PartitionId, RingId, TopicId};
use crate::limits::APPEND_OVERHEAD;
use crate::state::SegmentState;

/// A partition as entries name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionRef {
    pub id: PartitionId,
    pub generation: Generation,
}

impl PartitionRef {
    pub(crate) fn put(&self, out: &mut impl Put) {
        out.put(&self.id.topic.0);
        out.u32(self.id.index);
        out.u32(self.generation.0);
    }

    pub(crate) fn take(t: &mut Take<'_>) -> Parse<PartitionRef> {
        let topic = TopicId(t.array()?);
        let index = t.u32()?;
        let generation = Generation(t.u32()?);
        Ok(PartitionRef { id: PartitionId { topic, index }, generation })
    }
}

/// Bytes that a commit wrote to the segment itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtentEntry<'a> {
    pub partition: PartitionRef,
    pub segment: i64,
    /// The write head, a block boundary: everything below it is durable in the segment, or stands in an earlier extent
    /// of this frame. The extent begins with what was journaled above it.
    pub position: u64,
    pub length: u64,
    pub base_offset: i64,
    /// CRC-32C, unseeded, of the extent's bytes.
    pub crc: u32,
    /// Headers of the batches that this commit adds, 61 bytes each.
    pub headers: Vec<&'a [u8]>,
    /// What follows the extent: the new partial last block.
    pub tail: &'a [u8],
}

/// A segment that compaction puts in the place of others: its row of the segment table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewSegment {
    pub base: i64,
    pub end: i64,
    pub compaction: u32,
    pub meta_crc: u32,
    pub length: u64,
    pub first_append_ms: i64,
    pub last_append_ms: i64,
    pub first_timestamp: i64,
    pub max_timestamp: i64,
    pub max_timestamp_offset: i64,
    pub horizon_ms: i64,
}

impl From<&SegmentState> for NewSegment {
    fn from(s: &SegmentState) -> NewSegment {
        NewSegment {
            base: s.base,
            end: s.end,
            compaction: s.compaction,
            meta_crc: s.meta_crc,
            length: s.length,
            first_append_ms: s.first_append_ms,
            last_append_ms: s.last_append_ms,
            first_timestamp: s.first_timestamp,
            max_timestamp: s.max_timestamp,
            max_timestamp_offset: s.max_timestamp_offset,
            horizon_ms: s.horizon_ms,
        }
    }
}

/// Bytes of a [`NewSegment`].
const NEW_SEGMENT: usize = 8 + 8 + 4 + 4 + 8 + 6 * 8;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    Append {
        partition: PartitionRef,
        segment: i64,
        position: u64,
        base_offset: i64,
        batches: &'a [u8],
    },
    Extent(ExtentEntry<'a>),
    Roll {
        partition: PartitionRef,
        ended: i64,
        length: u64,
        next: i64,
    },
    Seal {
        partition: PartitionRef,
        segment: i64,
        length: u64,
        meta_crc: u32,
    },
    Replace {
        partition: PartitionRef,
        /// Compaction has seen everything below.
        clean_end: i64,
        /// Base offset and compaction number of each; none: only `clean_end` moves.
        old: Vec<(i64, u32)>,
        new: Vec<NewSegment>,
    },
    LogStart {
        partition: PartitionRef,
        offset: i64,
    },
    Epoch {
        partition: PartitionRef,
        epoch: i32,
        start: i64,
    },
    ProducerIds {
        next: i64,
    },
    Truncate {
        partition: PartitionRef,
        end: i64,
        segment: i64,
        length: u64,
        tail: &'a [u8],
        producers: &'a [u8],
    },
    Create {
        partition: PartitionRef,
        log_start: i64,
        topic: &'a str,
    },
    Delete {
        partition: PartitionRef,
    },
    Move {
        partition: PartitionRef,
        target: RingId,
    },
}

impl<'a> Entry<'a> {
    fn kind(&self) -> u8 {
        match self {
            Entry::Append { .. } => 1,
            Entry::Extent(_) => 2,
            Entry::Roll { .. } => 3,
            Entry::Seal { .. } => 4,
            Entry::Replace { .. } => 5,
            Entry::LogStart { .. } => 6,
            Entry::Epoch { .. } => 7,
            Entry::ProducerIds { .. } => 8,
            Entry::Truncate { .. } => 9,
            Entry::Create { .. } => 10,
            Entry::Delete { .. } => 11,
            Entry::Move { .. } => 12,
        }
    }

    /// The partition that it concerns; `None` for what concerns the ring.
    pub fn partition(&self) -> Option<PartitionRef> {
        match self {
            Entry::ProducerIds { .. } => None,
            Entry::Extent(e) => Some(e.partition),
            Entry::Append { partition, .. }
            | Entry::Roll { partition, .. }
            | Entry::Seal { partition, .. }
            | Entry::Replace { partition, .. }
            | Entry::LogStart { partition, .. }
            | Entry::Epoch { partition, .. }
            | Entry::Truncate { partition, .. }
            | Entry::Create { partition, .. }
            | Entry::Delete { partition }
            | Entry::Move { partition, .. } => Some(*partition),
        }
    }

    /// Bytes that the entry takes in a frame.
    pub fn encoded_len(&self) -> usize {
        let body = match self {
            Entry::Append { batches, .. } => {
                return (APPEND_OVERHEAD + batches.len()).next_multiple_of(8);
            }
            Entry::Extent(e) => {
                24 + 8 + 8 + 8 + 8 + 4 + 4 + 61 * e.headers.len() + 4 + e.tail.len()
            }
            Entry::Roll { .. } => 24 + 24,
            Entry::Seal { .. } => 24 + 24,
            Entry::Replace { old, new, .. } => 24 + 16 + 16 * old.len() + NEW_SEGMENT * new.len(),
            Entry::LogStart { .. } => 24 + 8,
            Entry::Epoch { .. } => 24 + 16,
            Entry::ProducerIds { .. } => 8,
            Entry::Truncate { tail, producers, .. } => 24 + 24 + 8 + tail.len() + producers.len(),
            Entry::Create { topic, .. } => 24 + 8 + 2 + topic.len(),
            Entry::Delete { .. } => 24,
            Entry::Move { .. } => 24 + 8,
        };
        (8 + body).next_multiple_of(8)
    }

    /// Appends the entry, padded, to a frame.
    pub(crate) fn encode(&self, out: &mut impl Put, body_len: usize) {
        out.u8(self.kind());
        out.u8(0);
        out.u16(0);
        out.count(body_len);
        match self {
            Entry::Append { partition, segment, position, base_offset, batches } => {
                partition.put(out);
                out.i64(*segment);
                out.u64(*position);
                out.i64(*base_offset);
                out.put(batches);
            }
            Entry::Extent(e) => {
                e.partition.put(out);
                out.i64(e.segment);
                out.u64(e.position);
                out.u64(e.length);
                out.i64(e.base_offset);
                out.u32(e.crc);
                out.count(e.headers.len());
                e.headers.iter().for_each(|h| out.put(h));
                out.count(e.tail.len());
                out.put(e.tail);
            }
            Entry::Roll { partition, ended, length, next } => {
                partition.put(out);
                out.i64(*ended);
                out.u64(*length);
                out.i64(*next);
            }
            Entry::Seal { partition, segment, length, meta_crc } => {
                partition.put(out);
                out.i64(*segment);
                out.u64(*length);
                out.u32(*meta_crc);
                out.u32(0);
            }
            Entry::Replace { partition, clean_end, old, new } => {
                partition.put(out);
                out.i64(*clean_end);
                out.count(old.len());
                out.count(new.len());
                for (base, compaction) in old {
                    out.i64(*base);
                    out.u32(*compaction);
                    out.u32(0);
                }
                for n in new {
                    out.i64(n.base);
                    out.i64(n.end);
                    out.u32(n.compaction);
                    out.u32(n.meta_crc);
                    out.u64(n.length);
                    for v in [
                        n.first_append_ms,
                        n.last_append_ms,
                        n.first_timestamp,
                        n.max_timestamp,
                        n.max_timestamp_offset,
                        n.horizon_ms,
                    ] {
                        out.i64(v);
                    }
                }
            }
            Entry::LogStart { partition, offset } => {
                partition.put(out);
                out.i64(*offset);
            }
            Entry::Epoch { partition, epoch, start } => {
                partition.put(out);
                out.i32(*epoch);
                out.u32(0);
                out.i64(*start);
            }
            Entry::ProducerIds { next } => out.i64(*next),
            Entry::Truncate { partition, end, segment, length, tail, producers } => {
                partition.put(out);
                out.i64(*end);
                out.i64(*segment);
                out.u64(*length);
                out.count(tail.len());
                out.put(tail);
                out.count(producers.len());
                out.put(producers);
            }
            Entry::Create { partition, log_start, topic } => {
                partition.put(out);
                out.i64(*log_start);
                out.string(topic);
            }
            Entry::Delete { partition } => partition.put(out),
            Entry::Move { partition, target } => {
                partition.put(out);
                out.u64(target.0);
            }
        }
        let padding = (8 + body_len).next_multiple_of(8) - (8 + body_len);
        out.put(&[0; 8][..padding]);
    }

    /// The entry as it stands in a frame, padded. For tools, and for tests that write a frame by hand.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_len());
        self.encode(&mut out, self.body_len());
        out
    }

    /// Exact length of the body.
    pub(crate) fn body_len(&self) -> usize {
        match self {
            Entry::Append { batches, .. } => APPEND_OVERHEAD - 8 + batches.len(),
            Entry::Extent(e) => 64 + 61 * e.headers.len() + 4 + e.tail.len(),
            Entry::Truncate { tail, producers, .. } => 56 + tail.len() + producers.len(),
            Entry::Create { topic, .. } => 34 + topic.len(),
            // All others are multiples of 8, so that padding adds nothing.
            Entry::Roll { .. }
            | Entry::Seal { .. }
            | Entry::Replace { .. }
            | Entry::LogStart { .. }
            | Entry::Epoch { .. }
            | Entry::ProducerIds { .. }
            | Entry::Delete { .. }
            | Entry::Move { .. } => self.encoded_len() - 8,
        }
    }

    /// The next entry of a frame's payload.
    pub(crate) fn decode(t: &mut Take<'a>) -> Parse<Entry<'a>> {
        let kind = t.u8()?;
        t.zeros(3)?;
        let len = t.u32()? as usize;
        let body = t.bytes(len)?;
        t.zeros((8 + len).next_multiple_of(8) - (8 + len))?;
        let mut b = Take::new(body);
        let entry = Entry::decode_body(kind, &mut b)?;
        b.end()?;
        Ok(entry)
    }

    fn decode_body(kind: u8, b: &mut Take<'a>) -> Parse<Entry<'a>> {
        if kind == 8 {
            return Ok(Entry::ProducerIds { next: b.i64()? });
        }
        if !(1..=12).contains(&kind) {
            return b.fail("entry kind", kind, "1 to 12");
        }
        let partition = PartitionRef::take(b)?;
        Ok(match kind {
            1 => {
                let (segment, position, base_offset) = (b.i64()?, b.u64()?, b.i64()?);
                Entry::Append {
                    partition,
                    segment,
                    position,
                    base_offset,
                    batches: b.bytes(b.remaining())?,
                }
            }
            2 => {
                let (segment, position, length) = (b.i64()?, b.u64()?, b.u64()?);
                let (base_offset, crc) = (b.i64()?, b.u32()?);
                let n = b.count(61)?;
                let headers = (0..n).map(|_| b.bytes(61)).collect::<Parse<Vec<_>>>()?;
                let n = b.count(1)?;
                let tail = b.bytes(n)?;
                Entry::Extent(ExtentEntry {
                    partition,
                    segment,
                    position,
                    length,
                    base_offset,
                    crc,
                    headers,
                    tail,
                })
            }
            3 => Entry::Roll { partition, ended: b.i64()?, length: b.u64()?, next: b.i64()? },
            4 => {
                let entry = Entry::Seal {
                    partition,
                    segment: b.i64()?,
                    length: b.u64()?,
                    meta_crc: b.u32()?,
                };
                b.zeros(4)?;
                entry
            }
            5 => {
                let clean_end = b.i64()?;
                let (n, m) = (b.count(16)?, b.count(NEW_SEGMENT)?);
                let mut old = Vec::with_capacity(n);
                for _ in 0..n {
                    old.push((b.i64()?, b.u32()?));
                    b.zeros(4)?;
                }
                let mut new = Vec::with_capacity(m);
                for _ in 0..m {
                    new.push(NewSegment {
                        base: b.i64()?,
                        end: b.i64()?,
                        compaction: b.u32()?,
                        meta_crc: b.u32()?,
                        length: b.u64()?,
                        first_append_ms: b.i64()?,
                        last_append_ms: b.i64()?,
                        first_timestamp: b.i64()?,
                        max_timestamp: b.i64()?,
                        max_timestamp_offset: b.i64()?,
                        horizon_ms: b.i64()?,
                    });
                }
                Entry::Replace { partition, clean_end, old, new }
            }
            6 => Entry::LogStart { partition, offset: b.i64()? },
            7 => {
                let epoch = b.i32()?;
                b.zeros(4)?;
                Entry::Epoch { partition, epoch, start: b.i64()? }
            }
            9 => {
                let (end, segment, length) = (b.i64()?, b.i64()?, b.u64()?);
                let n = b.count(1)?;
                let tail = b.bytes(n)?;
                let n = b.count(1)?;
                Entry::Truncate { partition, end, segment, length, tail, producers: b.bytes(n)? }
            }
            10 => Entry::Create { partition, log_start: b.i64()?, topic: b.string()? },
            11 => Entry::Delete { partition },
            _ => Entry::Move { partition, target: RingId(b.u64()?) },
        })
    }
}

/// All entries of a frame's payload; what follows the last one must be zero.
pub(crate) fn entries(payload: &[u8], count: u32) -> Parse<Vec<Entry<'_>>> {
    let mut t = Take::new(payload);
    let mut out = Vec::new();
    for _ in 0..count {
        out.push(Entry::decode(&mut t)?);
    }
    t.zeros(t.remaining())?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn partition() -> PartitionRef {
        PartitionRef {
            id: PartitionId { topic: TopicId([7; 16]), index: 3 },
            generation: Generation(2),
        }
    }

    fn samples<'a>(bytes: &'a [u8], header: &'a [u8]) -> Vec<Entry<'a>> {
        let partition = partition();
        vec![
            Entry::Append { partition, segment: 5, position: 100, base_offset: 9, batches: bytes },
            Entry::Extent(ExtentEntry {
                partition,
                segment: 5,
                position: 4096,
                length: 8192,
                base_offset: 10,
                crc: 77,
                headers: vec![header, header],
                tail: bytes,
            }),
            Entry::Roll { partition, ended: 1, length: 2, next: 3 },
            Entry::Seal { partition, segment: 1, length: 2, meta_crc: 3 },
            Entry::Replace {
                partition,
                clean_end: 20,
                old: vec![(0, 0), (10, 1)],
                new: vec![NewSegment {
                    base: 0,
                    end: 20,
                    compaction: 2,
                    meta_crc: 9,
                    length: 1,
                    first_append_ms: 3,
                    last_append_ms: 4,
                    first_timestamp: -1,
                    max_timestamp: 5,
                    max_timestamp_offset: 6,
                    horizon_ms: 7,
                }],
            },
            Entry::LogStart { partition, offset: 12 },
            Entry::Epoch { partition, epoch: 4, start: 13 },
            Entry::ProducerIds { next: 1000 },
            Entry::Truncate {
                partition,
                end: 4,
                segment: 0,
                length: 9,
                tail: bytes,
                producers: bytes,
            },
            Entry::Create { partition, log_start: 0, topic: "clicks" },
            Entry::Delete { partition },
            Entry::Move { partition, target: RingId(4) },
        ]
    }

    proptest! {
        #[test]
        fn every_kind_of_entry_reads_back_as_it_was_written(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let header = [5u8; 61];
            let all = samples(&bytes, &header);
            let mut out = Vec::new();
            for e in &all {
                let before = out.len();
                e.encode(&mut out, e.body_len());
                prop_assert_eq!(out.len() - before, e.encoded_len());
            }
            out.extend_from_slice(&[0; 40]);
            prop_assert_eq!(entries(&out, all.len() as u32).unwrap(), all);
        }

        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 0u8..16) {
            let _ = entries(&bytes, 3);
            let mut b = bytes.clone();
            if b.len() >= 8 {
                b[0] = kind;
                b[1..4].fill(0);
                let len = (b.len() - 8) as u32;
                b[4..8].copy_from_slice(&len.to_le_bytes());
            }
            let _ = entries(&b, 1);
        }
    }
}
