//! The records of one partition in a Produce request or a Fetch response.

use super::{Context, DecodeError, Reader, Wire, Writer};

/// Record batches as they are: borrowed from a frame, or promised to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Records<'a> {
    /// No records at all. Kafka sends `Bytes(&[])` instead, even with an error, and some clients count on it.
    #[default]
    Null,
    /// The bytes.
    Bytes(&'a [u8]),
    /// This many bytes, which the sender puts in: they become [`Part::Records`](super::Part::Records) of the frame.
    Later(usize),
}

impl<'a> Records<'a> {
    /// The bytes that are here; empty for null and for records that come later.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        match *self {
            Self::Bytes(bytes) => bytes,
            Self::Null | Self::Later(_) => &[],
        }
    }
}

impl<'a> Wire<'a> for Records<'a> {
    fn decode(from: &mut Reader<'a>, context: Context) -> Result<Self, DecodeError> {
        Ok(Option::<&[u8]>::decode(from, context)?.map_or(Self::Null, Self::Bytes))
    }

    fn encode(&self, to: &mut Writer, context: Context) {
        match *self {
            Self::Null => None::<&[u8]>.encode(to, context),
            Self::Bytes(bytes) => bytes.encode(to, context),
            Self::Later(len) => {
                if context.flexible {
                    to.compact_len(Some(len));
                } else {
                    to.long_len(Some(len));
                }
                to.hole(len);
            }
        }
    }
}
