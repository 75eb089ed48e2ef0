//! `.meta`: what a sealed segment's look-ups need, in one checksummed file (FORMAT.md 6). Bytes only.

use std::path::Path;

use crate::bytes::{Malformed, Parse, Put, Take};
use crate::entry::PartitionRef;
use crate::error::{Error, Result};
use crate::limits::FORMAT_VERSION;
use crate::state::{EpochMap, IndexEntry, ProducerTable, SegmentState, put_index, take_index};

const MAGIC: &[u8; 8] = b"RWMETA01";
const HEADER_LEN: usize = 96;

const TIMES: u16 = 1;
const INDEX: u16 = 2;
const PRODUCERS: u16 = 3;
const EPOCHS: u16 = 4;

/// A `.meta` file's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentMeta {
    pub partition: PartitionRef,
    pub base: i64,
    pub end: i64,
    pub length: u64,
    pub index: Vec<IndexEntry>,
    pub producers: ProducerTable,
    pub epochs: EpochMap,
}

/// The file for a segment that is about to be sealed.
pub(crate) fn encode(
    storage: &[u8; 16],
    partition: PartitionRef,
    segment: &SegmentState,
    producers: &ProducerTable,
    epochs: &EpochMap,
) -> Vec<u8> {
    let mut times = Vec::new();
    for v in [
        segment.first_append_ms,
        segment.last_append_ms,
        segment.first_timestamp,
        segment.max_timestamp,
        segment.max_timestamp_offset,
    ] {
        times.i64(v);
    }
    let (mut index, mut snapshot, mut map) = (Vec::new(), Vec::new(), Vec::new());
    put_index(&segment.index, &mut index);
    producers.put(&mut snapshot);
    epochs.put(&mut map);
    let sections = [(TIMES, times), (INDEX, index), (PRODUCERS, snapshot), (EPOCHS, map)];

    let mut body = Vec::new();
    for (kind, bytes) in &sections {
        let start = body.len();
        body.u16(*kind);
        body.u16(0);
        body.count(bytes.len());
        // Kind, flags and length are under the checksum too: a flipped flag would let a reader skip what it must know.
        let crc = crc32c::crc32c_append(crc32c::crc32c(&body[start..]), bytes);
        body.u32(crc);
        body.u32(0);
        body.put(bytes);
        body.resize(body.len().next_multiple_of(8), 0);
    }

    let mut out = Vec::with_capacity(HEADER_LEN + body.len());
    out.put(MAGIC);
    out.u16(FORMAT_VERSION);
    out.u16(sections.len() as u16);
    out.count(HEADER_LEN + body.len());
    out.put(storage);
    partition.put(&mut out);
    out.i64(segment.base);
    out.i64(segment.end);
    out.u64(segment.length);
    out.put(&[0; 12]);
    let crc = crc32c::crc32c(&out);
    out.u32(crc);
    out.put(&body);
    out
}

/// Reads a `.meta` file, trusting nothing.
pub(crate) fn decode(path: &Path, storage: &[u8; 16], bytes: &[u8]) -> Result<SegmentMeta> {
    if bytes.len() >= 10 && &bytes[..8] == MAGIC {
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version != FORMAT_VERSION {
            return Err(Error::Version {
                path: path.into(),
                got: version.into(),
                expected: FORMAT_VERSION.into(),
            });
        }
    }
    parse(storage, bytes).map_err(|Malformed { at, what, got, expected }| {
        Error::corrupt(path, at as u64, what, got, expected)
    })
}

fn parse(storage: &[u8; 16], bytes: &[u8]) -> Parse<SegmentMeta> {
    let mut t = Take::new(bytes);
    if t.bytes(8)? != MAGIC {
        return t.fail("magic", "other bytes", "RWMETA01");
    }
    t.u16()?;
    let sections = t.u16()?;
    let file_len = t.u32()?;
    if file_len as usize != bytes.len() {
        return t.fail("file length", bytes.len(), file_len);
    }
    let owner = t.bytes(16)?;
    let mut meta = SegmentMeta {
        partition: PartitionRef::take(&mut t)?,
        base: t.i64()?,
        end: t.i64()?,
        length: t.u64()?,
        index: Vec::new(),
        producers: ProducerTable::default(),
        epochs: EpochMap::default(),
    };
    t.zeros(12)?;
    let crc = t.u32()?;
    let computed = crc32c::crc32c(&bytes[..HEADER_LEN - 4]);
    if crc != computed {
        return t.fail("header CRC", format!("{crc:08x}"), format!("{computed:08x}"));
    }
    if owner != storage {
        return t.fail("storage id", crate::directory::hex(owner), crate::directory::hex(storage));
    }
    for _ in 0..sections {
        let head = t.bytes(8)?;
        let mut h = Take::new(head);
        let (kind, flags, len) = (h.u16()?, h.u16()?, h.u32()? as usize);
        let crc = t.u32()?;
        t.zeros(4)?;
        let body = t.bytes(len)?;
        t.zeros(len.next_multiple_of(8) - len)?;
        let computed = crc32c::crc32c_append(crc32c::crc32c(head), body);
        if crc != computed {
            return t.fail("section CRC", format!("{crc:08x}"), format!("{computed:08x}"));
        }
        let mut s = Take::new(body);
        match kind {
            TIMES => s = Take::new(&[]),
            INDEX => meta.index = take_index(&mut s)?,
            PRODUCERS => meta.producers = ProducerTable::take(&mut s)?,
            EPOCHS => meta.epochs = EpochMap::take(&mut s)?,
            // Bit 0: its writer says that a reader may skip what it does not know.
            _ if flags & 1 != 0 => s = Take::new(&[]),
            _ => return t.fail("section kind", kind, "one that this build knows"),
        }
        s.end()?;
    }
    t.end()?;
    Ok(meta)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Generation, PartitionId, TopicId};

    fn sample() -> Vec<u8> {
        let partition = PartitionRef {
            id: PartitionId { topic: TopicId([3; 16]), index: 1 },
            generation: Generation(1),
        };
        let mut segment = SegmentState::new(10);
        std::rc::Rc::make_mut(&mut segment.index).push(IndexEntry {
            position: 0,
            base_offset: 10,
            max_timestamp: -1,
        });
        encode(&[8; 16], partition, &segment, &ProducerTable::default(), &EpochMap::default())
    }

    #[test]
    fn a_meta_file_reads_back_as_it_was_written() {
        let meta = decode(Path::new("x.meta"), &[8; 16], &sample()).unwrap();
        assert_eq!((meta.base, meta.index.len()), (10, 1));
    }

    #[test]
    fn every_single_bit_flip_of_a_meta_file_is_refused() {
        let good = sample();
        for bit in 0..good.len() * 8 {
            let mut damaged = good.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(Path::new("x.meta"), &[8; 16], &damaged).is_err(), "bit {bit}");
        }
    }
}
