//! The four codecs.
//!
//! A payload of a few bytes can claim, or really contain, gigabytes. So decompression has a bound on what comes out,
//! and memory is taken as bytes arrive, never because a header promises them:
//! - gzip and LZ4 are read in steps of at most 64 KiB. LZ4 needs its block besides, at most 4 MiB by its format.
//! - Snappy says its length in front, and cannot grow more than 22-fold (three bytes copy 64): a claim beyond that is a
//!   lie.
//! - zstd is decompressed in one go into a buffer that grows fourfold until it fits: reading it as a stream would
//!   reserve the window that the frame names, up to 128 MiB.

use std::borrow::Cow;
use std::io::{Read, Write};

use super::{BatchError, Codec};

/// What the Java client writes before its Snappy blocks: a magic, a version, and the oldest compatible version.
pub(super) const XERIAL_HEADER: &[u8; 16] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
/// As above, but for the versions, which readers do not look at.
pub(super) const XERIAL_MAGIC: &[u8] = XERIAL_HEADER.split_at(8).0;
/// Size of the blocks that the Java client compresses one by one.
pub(super) const XERIAL_BLOCK: usize = 32 * 1024;
/// Above the 21.33 that a Snappy copy of three bytes for 64 comes to.
const SNAPPY_GROWTH: usize = 22;

/// Decompresses the records of a batch to at most `limit` bytes. Uncompressed records are borrowed.
///
/// # Errors
/// [`BatchError::Decompress`] when the payload is not of this codec; [`BatchError::TooLarge`] when more would come out.
pub fn decompress(codec: Codec, payload: &[u8], limit: usize) -> Result<Cow<'_, [u8]>, BatchError> {
    match codec {
        Codec::None if payload.len() > limit => Err(BatchError::TooLarge { limit }),
        Codec::None => Ok(Cow::Borrowed(payload)),
        Codec::Gzip => read(codec, flate2::read::MultiGzDecoder::new(payload), limit),
        Codec::Snappy => snappy(payload, limit),
        Codec::Lz4 => read(codec, lz4_flex::frame::FrameDecoder::new(payload), limit),
        Codec::Zstd => zstd(payload, limit),
    }
}

/// Compresses the records of a batch, with the settings of the Java client's defaults.
///
/// # Errors
/// When the codec's library fails, which none does on memory.
pub fn compress(codec: Codec, payload: &[u8]) -> Result<Cow<'_, [u8]>, BatchError> {
    let failed = |_| BatchError::Compress(codec);
    let bytes = match codec {
        Codec::None => return Ok(Cow::Borrowed(payload)),
        Codec::Gzip => {
            let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            to.write_all(payload).and_then(|()| to.finish()).map_err(failed)?
        }
        Codec::Snappy => {
            let mut out = XERIAL_HEADER.to_vec();
            let mut encoder = snap::raw::Encoder::new();
            for block in payload.chunks(XERIAL_BLOCK) {
                let block = encoder.compress_vec(block).map_err(|_| BatchError::Compress(codec))?;
                out.extend_from_slice(&(block.len() as u32).to_be_bytes());
                out.extend_from_slice(&block);
            }
            out
        }
        Codec::Lz4 => {
            let mut to = lz4_flex::frame::FrameEncoder::new(Vec::new());
            to.write_all(payload).map_err(failed)?;
            to.finish().map_err(|_| BatchError::Compress(codec))?
        }
        Codec::Zstd => {
            zstd::bulk::compress(payload, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(failed)?
        }
    };
    Ok(Cow::Owned(bytes))
}

fn read(codec: Codec, mut from: impl Read, limit: usize) -> Result<Cow<'static, [u8]>, BatchError> {
    let mut out = Vec::new();
    let mut step = [0; 64 * 1024];
    loop {
        match from.read(&mut step) {
            Ok(0) => return Ok(Cow::Owned(out)),
            Ok(len) if len > limit - out.len() => return Err(BatchError::TooLarge { limit }),
            Ok(len) => out.extend_from_slice(&step[..len]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Err(BatchError::Decompress(codec)),
        }
    }
}

fn snappy(payload: &[u8], limit: usize) -> Result<Cow<'static, [u8]>, BatchError> {
    let mut out = Vec::new();
    if !payload.starts_with(XERIAL_MAGIC) {
        snappy_block(payload, limit, &mut out)?;
        return Ok(Cow::Owned(out));
    }
    let corrupt = BatchError::Decompress(Codec::Snappy);
    let mut rest = payload.get(XERIAL_HEADER.len()..).ok_or(corrupt.clone())?;
    while !rest.is_empty() {
        let (len, behind) = rest.split_first_chunk::<4>().ok_or(corrupt.clone())?;
        let len = u32::from_be_bytes(*len) as usize;
        let (block, behind) = behind.split_at_checked(len).ok_or(corrupt.clone())?;
        snappy_block(block, limit, &mut out)?;
        rest = behind;
    }
    Ok(Cow::Owned(out))
}

pub(super) fn snappy_block(
    block: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), BatchError> {
    let corrupt = |_| BatchError::Decompress(Codec::Snappy);
    let claimed = snap::raw::decompress_len(block).map_err(corrupt)?;
    if claimed > limit - out.len() {
        return Err(BatchError::TooLarge { limit });
    }
    if claimed > block.len().saturating_mul(SNAPPY_GROWTH) {
        return Err(BatchError::Decompress(Codec::Snappy));
    }
    let start = out.len();
    out.resize(start + claimed, 0);
    snap::raw::Decoder::new().decompress(block, &mut out[start..]).map_err(corrupt)?;
    Ok(())
}

fn zstd(payload: &[u8], limit: usize) -> Result<Cow<'static, [u8]>, BatchError> {
    let corrupt = |_| BatchError::Decompress(Codec::Zstd);
    let mut decoder = zstd::bulk::Decompressor::new().map_err(corrupt)?;
    let mut room = payload.len().saturating_mul(4).max(64 * 1024).min(limit);
    loop {
        let mut out = Vec::with_capacity(room);
        match decoder.decompress_to_buffer(payload, &mut out) {
            Ok(_) => return Ok(Cow::Owned(out)),
            Err(error) if !is_too_small(&error) => return Err(BatchError::Decompress(Codec::Zstd)),
            Err(_) if room == limit => return Err(BatchError::TooLarge { limit }),
            Err(_) => room = room.saturating_mul(4).min(limit),
        }
    }
}

/// Whether zstd only lacked room. Its binding hands errors on as text.
fn is_too_small(error: &std::io::Error) -> bool {
    error.to_string().contains("Destination buffer is too small")
}
