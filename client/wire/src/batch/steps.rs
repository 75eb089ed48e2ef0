//! The codecs in small steps, for whoever must give way in between: a payload that unpacks to megabytes takes tens of
//! milliseconds in one go, and packing it by gzip ten times that.
//!
//! The same bounds as in `compress`. zstd, and Snappy without the Java framing, unpack in one step: their libraries have
//! no other way that does not reserve what the payload claims.

use std::borrow::Cow;
use std::io::{Read, Write};

use super::compress::{XERIAL_BLOCK, XERIAL_HEADER, XERIAL_MAGIC, decompress, snappy_block};
use super::{BatchError, Codec};

/// Bytes that a step brings or takes: below a millisecond with every codec.
pub const STEP: usize = XERIAL_BLOCK;

enum Input<'a> {
    /// In one step.
    Whole(&'a [u8]),
    Gzip(Box<flate2::read::MultiGzDecoder<&'a [u8]>>),
    Lz4(Box<lz4_flex::frame::FrameDecoder<&'a [u8]>>),
    /// Blocks of 32 KiB, each with its length in front.
    Framed(&'a [u8]),
}

/// Decompresses the records of a batch, step by step. See the module.
pub struct Unpacker<'a> {
    codec: Codec,
    input: Input<'a>,
    out: Cow<'a, [u8]>,
    limit: usize,
}

impl<'a> Unpacker<'a> {
    /// Of a payload that may unpack to `limit` bytes.
    #[must_use]
    pub fn new(codec: Codec, payload: &'a [u8], limit: usize) -> Self {
        let input = match codec {
            Codec::Gzip => Input::Gzip(Box::new(flate2::read::MultiGzDecoder::new(payload))),
            Codec::Lz4 => Input::Lz4(Box::new(lz4_flex::frame::FrameDecoder::new(payload))),
            Codec::Snappy if payload.starts_with(XERIAL_MAGIC) => {
                // What is cut off inside its header is told by `decompress`.
                payload.get(XERIAL_HEADER.len()..).map_or(Input::Whole(payload), Input::Framed)
            }
            Codec::None | Codec::Snappy | Codec::Zstd => Input::Whole(payload),
        };
        Self { codec, input, out: Cow::Borrowed(&[]), limit }
    }

    /// Does a step. False: that was the last.
    ///
    /// # Errors
    /// As [`decompress`].
    pub fn step(&mut self) -> Result<bool, BatchError> {
        let (codec, limit) = (self.codec, self.limit);
        match &mut self.input {
            Input::Whole(payload) => {
                self.out = decompress(codec, payload, limit)?;
                Ok(false)
            }
            Input::Gzip(from) => read(codec, from, limit, self.out.to_mut()),
            Input::Lz4(from) => read(codec, from, limit, self.out.to_mut()),
            Input::Framed(rest) => {
                if rest.is_empty() {
                    return Ok(false);
                }
                let corrupt = BatchError::Decompress(codec);
                let (len, behind) = rest.split_first_chunk::<4>().ok_or(corrupt.clone())?;
                let len = u32::from_be_bytes(*len) as usize;
                let (block, behind) = behind.split_at_checked(len).ok_or(corrupt)?;
                *rest = behind;
                snappy_block(block, limit, self.out.to_mut())?;
                Ok(true)
            }
        }
    }

    /// What came out.
    #[must_use]
    pub fn finish(self) -> Cow<'a, [u8]> {
        self.out
    }
}

fn read(
    codec: Codec,
    from: &mut impl Read,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<bool, BatchError> {
    let mut step = [0; STEP];
    match from.read(&mut step) {
        Ok(0) => Ok(false),
        Ok(len) if len > limit - out.len() => Err(BatchError::TooLarge { limit }),
        Ok(len) => {
            out.extend_from_slice(&step[..len]);
            Ok(true)
        }
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(true),
        Err(_) => Err(BatchError::Decompress(codec)),
    }
}

enum Output {
    None(Vec<u8>),
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
    Snappy(Vec<u8>),
    Lz4(Box<lz4_flex::frame::FrameEncoder<Vec<u8>>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

/// Compresses the records of a batch, step by step, with the settings of [`super::compress()`].
pub struct Packer {
    codec: Codec,
    output: Output,
}

impl Packer {
    /// For a payload of `len` bytes.
    ///
    /// # Errors
    /// When the codec's library fails.
    pub fn new(codec: Codec, len: usize) -> Result<Self, BatchError> {
        let output = match codec {
            Codec::None => Output::None(Vec::with_capacity(len)),
            Codec::Gzip => Output::Gzip(flate2::write::GzEncoder::new(
                Vec::new(),
                flate2::Compression::default(),
            )),
            Codec::Snappy => Output::Snappy(XERIAL_HEADER.to_vec()),
            Codec::Lz4 => Output::Lz4(Box::new(lz4_flex::frame::FrameEncoder::new(Vec::new()))),
            Codec::Zstd => {
                let level = zstd::DEFAULT_COMPRESSION_LEVEL;
                let made =
                    zstd::stream::write::Encoder::new(Vec::new(), level).and_then(|mut e| {
                        // Said in the frame: some readers allocate by it and take none without.
                        e.set_pledged_src_size(Some(len as u64))?;
                        Ok(e)
                    });
                Output::Zstd(made.map_err(|_| BatchError::Compress(codec))?)
            }
        };
        Ok(Self { codec, output })
    }

    /// Takes the next [`STEP`] bytes of the payload, fewer at its end.
    ///
    /// # Errors
    /// When the codec's library fails.
    pub fn step(&mut self, bytes: &[u8]) -> Result<(), BatchError> {
        let failed = BatchError::Compress(self.codec);
        match &mut self.output {
            Output::None(out) => out.extend_from_slice(bytes),
            Output::Gzip(to) => to.write_all(bytes).map_err(|_| failed)?,
            Output::Lz4(to) => to.write_all(bytes).map_err(|_| failed)?,
            Output::Zstd(to) => to.write_all(bytes).map_err(|_| failed)?,
            Output::Snappy(out) => {
                let block = snap::raw::Encoder::new().compress_vec(bytes).map_err(|_| failed)?;
                out.extend_from_slice(&(block.len() as u32).to_be_bytes());
                out.extend_from_slice(&block);
            }
        }
        Ok(())
    }

    /// What came out.
    ///
    /// # Errors
    /// When the codec's library fails, as it does where the payload was not as long as was said.
    pub fn finish(self) -> Result<Vec<u8>, BatchError> {
        let failed = BatchError::Compress(self.codec);
        match self.output {
            Output::None(out) | Output::Snappy(out) => Ok(out),
            Output::Gzip(to) => to.finish().map_err(|_| failed),
            Output::Lz4(to) => to.finish().map_err(|_| failed),
            Output::Zstd(to) => to.finish().map_err(|_| failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    fn packed(codec: Codec, payload: &[u8]) -> Vec<u8> {
        let mut packer = Packer::new(codec, payload.len()).expect("memory never fails");
        for step in payload.chunks(STEP) {
            packer.step(step).expect("memory never fails");
        }
        packer.finish().expect("memory never fails")
    }

    fn unpacked(codec: Codec, payload: &[u8], limit: usize) -> Result<Vec<u8>, BatchError> {
        let mut unpacker = Unpacker::new(codec, payload, limit);
        while unpacker.step()? {}
        Ok(unpacker.finish().into_owned())
    }

    proptest! {
        #[test]
        fn what_is_packed_in_steps_is_read_whole_and_in_steps(
            seed in prop::collection::vec(any::<u8>(), 0..50),
            times in 0usize..4_000,
        ) {
            let payload = seed.repeat(times);
            for codec in CODECS {
                let bytes = packed(codec, &payload);
                let limit = payload.len();
                prop_assert_eq!(&*decompress(codec, &bytes, limit).expect("its own codec"), &payload[..]);
                prop_assert_eq!(unpacked(codec, &bytes, limit), Ok(payload.clone()));
                if limit > 0 {
                    let over = unpacked(codec, &bytes, limit - 1);
                    prop_assert_eq!(over, Err(BatchError::TooLarge { limit: limit - 1 }));
                }
            }
        }

        #[test]
        fn any_bytes_unpack_in_steps_as_they_do_in_one(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            codec in 0..5_i16,
            framed: bool,
        ) {
            let codec = Codec::from_id(codec).expect("there are five");
            let bytes = if framed { [&XERIAL_HEADER[..], &bytes].concat() } else { bytes };
            let whole = decompress(codec, &bytes, 1_000).map(Cow::into_owned);
            prop_assert_eq!(unpacked(codec, &bytes, 1_000), whole);
        }
    }
}
