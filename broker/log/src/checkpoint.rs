//! A ring's checkpoint: header, partition records, deletion records (FORMAT.md 4). Bytes only; who writes them when is
//! in `maintenance.rs`, who reads them in `recovery.rs`.

use std::path::Path;

use crate::bytes::{Malformed, Parse, Put, Take, salted_crc};
use crate::entry::PartitionRef;
use crate::error::{Error, Result};
use crate::ids::{RingId, Sequence};
use crate::limits::{BLOCK, CHECKPOINT_VERSION};
use crate::state::{PartitionRecord, PartitionState};
use crate::storage::RingRef;

pub(crate) const CHECKPOINT_MAGIC: &[u8; 8] = b"RWCKPT01";
const HEADER_LEN: usize = 108;

/// The header's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointHeader {
    pub clean: bool,
    pub storage: [u8; 16],
    pub ring: RingId,
    pub number: u64,
    pub replay_position: u64,
    pub replay_sequence: Sequence,
    pub previous_crc: u32,
    pub body_crc: u32,
    pub body_len: u64,
    pub wall_ms: i64,
    pub next_producer_id: i64,
    pub partitions: u32,
    pub deletions: u32,
}

/// A partition whose DELETE is flushed and whose directory may still have its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deletion {
    pub partition: PartitionRef,
    pub directory: String,
}

impl CheckpointHeader {
    /// The header as one block.
    pub(crate) fn encode(&self, salt: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(BLOCK);
        out.put(CHECKPOINT_MAGIC);
        out.u16(CHECKPOINT_VERSION);
        out.u16(u16::from(self.clean));
        out.u32(0);
        out.put(&self.storage);
        out.u64(self.ring.0);
        out.u64(self.number);
        out.u64(self.replay_position);
        out.u64(self.replay_sequence.0);
        out.u32(self.previous_crc);
        out.u32(self.body_crc);
        out.u64(self.body_len);
        out.i64(self.wall_ms);
        out.i64(self.next_producer_id);
        out.u32(self.partitions);
        out.u32(self.deletions);
        let crc = salted_crc(salt, &out);
        out.u32(crc);
        debug_assert_eq!(out.len(), HEADER_LEN);
        out.resize(BLOCK, 0);
        out
    }

    fn take(t: &mut Take<'_>) -> Parse<CheckpointHeader> {
        t.bytes(8)?;
        t.u16()?;
        let flags = t.u16()?;
        if flags > 1 {
            return t.fail("flags", flags, "0 or 1");
        }
        t.zeros(4)?;
        Ok(CheckpointHeader {
            clean: flags == 1,
            storage: t.array()?,
            ring: RingId(t.u64()?),
            number: t.u64()?,
            replay_position: t.u64()?,
            replay_sequence: Sequence(t.u64()?),
            previous_crc: t.u32()?,
            body_crc: t.u32()?,
            body_len: t.u64()?,
            wall_ms: t.i64()?,
            next_producer_id: t.i64()?,
            partitions: t.u32()?,
            deletions: t.u32()?,
        })
    }
}

/// Begins a record: the place of its length, which [`end_record`] fills in.
pub(crate) fn begin_record(body: &mut Vec<u8>) -> usize {
    body.u32(0);
    body.len()
}

pub(crate) fn end_record(body: &mut [u8], start: usize) {
    let len = u32::try_from(body.len() - start).expect("a record is far below 4 GiB");
    body[start - 4..start].copy_from_slice(&len.to_le_bytes());
}

pub(crate) fn put_deletion(d: &Deletion, body: &mut Vec<u8>) {
    let start = begin_record(body);
    d.partition.put(body);
    body.string(&d.directory);
    end_record(body, start);
}

/// What a checkpoint file holds.
pub(crate) enum CheckpointRead<'a> {
    Valid(Checkpoint<'a>),
    /// Torn, rotten or never written; the sentence says which.
    Invalid(Malformed),
}

pub(crate) struct Checkpoint<'a> {
    pub header: CheckpointHeader,
    pub partitions: Vec<PartitionRecord<'a>>,
    pub deletions: Vec<Deletion>,
}

/// Judges a checkpoint file's bytes. An `Err` is final: a newer format, or another storage's file.
pub(crate) fn read_checkpoint<'a>(
    path: &Path,
    ring: &RingRef,
    bytes: &'a [u8],
) -> Result<CheckpointRead<'a>> {
    let invalid = |at, what, got: String, expected: String| {
        Ok(CheckpointRead::Invalid(Malformed { at, what, got, expected }))
    };
    let Some(header) = bytes.get(..HEADER_LEN) else {
        return invalid(
            0,
            "length",
            format!("{} bytes", bytes.len()),
            format!("{HEADER_LEN} bytes at least"),
        );
    };
    if &header[..8] != CHECKPOINT_MAGIC {
        return invalid(0, "magic", format!("{:02x?}", &header[..8]), "RWCKPT01".to_owned());
    }
    let version = u16::from_le_bytes([header[8], header[9]]);
    if !(1..=CHECKPOINT_VERSION).contains(&version) {
        return Err(Error::Version {
            path: path.into(),
            got: version.into(),
            expected: CHECKPOINT_VERSION.into(),
        });
    }
    if header[16..32] != ring.storage {
        return Err(Error::ForeignStorage {
            path: path.into(),
            got: crate::directory::hex(&header[16..32]),
            expected: crate::directory::hex(&ring.storage),
        });
    }
    let crc = u32::from_le_bytes([header[104], header[105], header[106], header[107]]);
    let computed = salted_crc(ring.salt, &header[..104]);
    if crc != computed {
        return invalid(104, "header CRC", format!("{crc:08x}"), format!("{computed:08x}"));
    }
    let header = match CheckpointHeader::take(&mut Take::new(header)) {
        Ok(header) => header,
        Err(malformed) => return Ok(CheckpointRead::Invalid(malformed)),
    };
    if header.ring != ring.id {
        return invalid(32, "ring", header.ring.to_string(), ring.id.to_string());
    }
    let body = usize::try_from(header.body_len).ok().and_then(|n| bytes.get(BLOCK..)?.get(..n));
    let Some(body) = body else {
        return invalid(
            72,
            "body length",
            header.body_len.to_string(),
            format!("up to {}", bytes.len()),
        );
    };
    let computed = salted_crc(ring.salt, body);
    if computed != header.body_crc {
        return invalid(
            68,
            "body CRC",
            format!("{:08x}", header.body_crc),
            format!("{computed:08x}"),
        );
    }
    // The checksums fit, so from here on anything that does not parse is a bug or a forgery: refused, not skipped.
    match read_body(&header, body, version) {
        Ok((partitions, deletions)) => {
            Ok(CheckpointRead::Valid(Checkpoint { header, partitions, deletions }))
        }
        Err(m) => Err(Error::corrupt(path, (BLOCK + m.at) as u64, m.what, m.got, m.expected)),
    }
}

fn read_body<'a>(
    header: &CheckpointHeader,
    body: &'a [u8],
    version: u16,
) -> Parse<(Vec<PartitionRecord<'a>>, Vec<Deletion>)> {
    let mut t = Take::new(body);
    let mut partitions = Vec::new();
    for _ in 0..header.partitions {
        let n = t.count(1)?;
        let mut record = Take::new(t.bytes(n)?);
        partitions.push(PartitionState::take(&mut record, version)?);
        record.end()?;
    }
    let mut deletions = Vec::new();
    for _ in 0..header.deletions {
        let n = t.count(1)?;
        let mut record = Take::new(t.bytes(n)?);
        deletions.push(Deletion {
            partition: PartitionRef::take(&mut record)?,
            directory: record.string()?.to_owned(),
        });
        record.end()?;
    }
    t.end()?;
    Ok((partitions, deletions))
}
