//! One commit's frame: header, seeded checksums, and the verdict on bytes that may be one (FORMAT.md 3.1).

use crate::bytes::{Parse, Put, Take, salted_crc};
use crate::ids::{RingId, Sequence};
use crate::limits::{BLOCK, FORMAT_VERSION, FRAME_HEADER};

pub(crate) const FRAME_MAGIC: &[u8; 8] = b"RWFRAME1";

/// The 64 bytes at the start of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    pub mark: bool,
    pub entries: u32,
    pub ring: RingId,
    pub sequence: Sequence,
    /// Number of the newest flushed checkpoint of this ring when the frame was written.
    pub checkpoint: u64,
    pub wall_ms: i64,
    pub payload_len: u32,
    pub previous_crc: u32,
    pub payload_crc: u32,
}

impl FrameHeader {
    /// The header's bytes and its own CRC, which the next frame repeats.
    pub fn encode(&self, salt: u64) -> ([u8; FRAME_HEADER], u32) {
        let mut out = Vec::with_capacity(FRAME_HEADER);
        out.put(FRAME_MAGIC);
        out.u16(FORMAT_VERSION);
        out.u16(u16::from(self.mark));
        out.u32(self.entries);
        out.u64(self.ring.0);
        out.u64(self.sequence.0);
        out.u64(self.checkpoint);
        out.i64(self.wall_ms);
        out.u32(self.payload_len);
        out.u32(self.previous_crc);
        out.u32(self.payload_crc);
        let crc = salted_crc(salt, &out);
        out.u32(crc);
        let mut header = [0; FRAME_HEADER];
        header.copy_from_slice(&out);
        (header, crc)
    }

    /// The header in `bytes`, with its CRC; `None` if these bytes are no header that this ring's salt sealed.
    pub fn decode(salt: u64, bytes: &[u8]) -> Option<(FrameHeader, u32)> {
        let sealed = bytes.get(..FRAME_HEADER - 4)?;
        let parse = |mut t: Take<'_>| -> Parse<(FrameHeader, u32, bool)> {
            let magic = t.array::<8>()?;
            let version = t.u16()?;
            let flags = t.u16()?;
            let header = FrameHeader {
                mark: flags & 1 != 0,
                entries: t.u32()?,
                ring: RingId(t.u64()?),
                sequence: Sequence(t.u64()?),
                checkpoint: t.u64()?,
                wall_ms: t.i64()?,
                payload_len: t.u32()?,
                previous_crc: t.u32()?,
                payload_crc: t.u32()?,
            };
            let ours = &magic == FRAME_MAGIC && version == FORMAT_VERSION && flags <= 1;
            Ok((header, t.u32()?, ours))
        };
        let (header, crc, ours) = parse(Take::new(bytes)).ok()?;
        (ours && crc == salted_crc(salt, sealed)).then_some((header, crc))
    }

    /// Bytes that the frame occupies in its ring.
    pub fn frame_len(&self) -> u64 {
        FRAME_HEADER as u64 + u64::from(self.payload_len)
    }
}

/// What stands where a frame was looked for.
#[derive(Debug)]
pub enum FrameRead<'a> {
    Valid {
        header: FrameHeader,
        crc: u32,
        payload: &'a [u8],
    },
    /// A header that is right, but more bytes are needed to judge the payload.
    NeedBytes(usize),
    Invalid,
}

/// What is known of the frame that is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    pub ring: RingId,
    pub salt: u64,
    pub sequence: Sequence,
    pub previous_crc: u32,
    pub frame_bytes_max: usize,
}

/// Judges `bytes`, which start at a block boundary of the ring.
pub fn read_frame<'a>(expected: &Expected, bytes: &'a [u8]) -> FrameRead<'a> {
    let Some((header, crc)) = FrameHeader::decode(expected.salt, bytes) else {
        return FrameRead::Invalid;
    };
    let len = header.frame_len();
    if header.ring != expected.ring
        || header.sequence != expected.sequence
        || header.previous_crc != expected.previous_crc
        || len > expected.frame_bytes_max as u64
        || len % BLOCK as u64 != 0
    {
        return FrameRead::Invalid;
    }
    let len = len as usize;
    match bytes.get(FRAME_HEADER..len) {
        None => FrameRead::NeedBytes(len),
        Some(payload) if salted_crc(expected.salt, payload) == header.payload_crc => {
            FrameRead::Valid { header, crc, payload }
        }
        Some(_) => FrameRead::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> FrameHeader {
        FrameHeader {
            mark: false,
            entries: 2,
            ring: RingId(7),
            sequence: Sequence(41),
            checkpoint: 3,
            wall_ms: 1_700_000_000_000,
            payload_len: (BLOCK - FRAME_HEADER) as u32,
            previous_crc: 0xdead_beef,
            payload_crc: 0,
        }
    }

    #[test]
    fn a_header_reads_back_as_it_was_written() {
        let (bytes, crc) = sample().encode(99);
        assert_eq!(FrameHeader::decode(99, &bytes), Some((sample(), crc)));
    }

    #[test]
    fn another_salt_does_not_open_a_header() {
        let (bytes, _) = sample().encode(99);
        assert_eq!(FrameHeader::decode(98, &bytes), None);
    }

    #[test]
    fn every_single_bit_flip_of_a_header_is_noticed() {
        let (bytes, _) = sample().encode(99);
        for bit in 0..FRAME_HEADER * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FrameHeader::decode(99, &damaged), None, "bit {bit}");
        }
    }
}
