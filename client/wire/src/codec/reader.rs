//! Taking fields from the front of a frame.

use crate::varint;

/// Most tagged fields in one section; Kafka 4.4 draws the same line. Honest sections have fewer than ten.
pub const MAX_TAGS: u32 = 10_000;

/// What is wrong with a frame, and in which field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {kind}")]
pub struct DecodeError {
    pub kind: DecodeErrorKind,
    /// Struct and field of the table, as in `Topic.partitions`.
    pub field: &'static str,
}

/// What is wrong with the bytes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeErrorKind {
    #[error("{need} bytes needed, {have} left")]
    End { need: usize, have: usize },
    #[error("length {0} is neither a length nor null")]
    Length(i64),
    #[error("null where this version has none")]
    Null,
    #[error("text is not UTF-8")]
    Utf8,
    #[error("a varint is cut off or too long")]
    Varint,
    #[error("array of {0} elements is over the limit")]
    Elements(usize),
    #[error("section of {0} tagged fields is over the limit")]
    Tags(u32),
    #[error("{0} bytes left over")]
    LeftOver(usize),
    #[error("frame of {len} bytes is over the limit of {limit}")]
    Frame { len: usize, limit: usize },
    #[error("version {0} is not known")]
    Version(i16),
    #[error("API key {0} is not known")]
    ApiKey(i16),
}

impl DecodeError {
    /// An error that does not know its field yet.
    #[must_use]
    pub const fn new(kind: DecodeErrorKind) -> Self {
        Self { kind, field: "" }
    }

    /// Names the field, unless an inner field has been named.
    #[must_use]
    pub const fn in_field(self, field: &'static str) -> Self {
        if self.field.is_empty() { Self { field, ..self } } else { self }
    }
}

impl From<DecodeErrorKind> for DecodeError {
    fn from(kind: DecodeErrorKind) -> Self {
        Self::new(kind)
    }
}

/// The bytes of a frame that have not been decoded yet.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been taken yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes exactly `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(len) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(DecodeErrorKind::End { need: len, have: self.rest.len() }.into()),
        }
    }

    /// Takes `N` bytes, for integers.
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(DecodeErrorKind::End { need: N, have: self.rest.len() }.into()),
        }
    }

    /// Takes an unsigned varint of 32 bits.
    pub fn varint(&mut self) -> Result<u32, DecodeError> {
        let (value, len) = varint::read_u32(self.rest).ok_or(DecodeErrorKind::Varint)?;
        self.rest = &self.rest[len..];
        Ok(value)
    }

    /// Takes a compact length: a varint of length + 1, where 0 is null.
    pub fn compact_len(&mut self) -> Result<Option<usize>, DecodeError> {
        Ok((self.varint()? as usize).checked_sub(1))
    }

    /// Takes a 16-bit length, where -1 is null.
    pub fn short_len(&mut self) -> Result<Option<usize>, DecodeError> {
        plain_len(i64::from(i16::from_be_bytes(self.fixed()?)))
    }

    /// Takes a 32-bit length, where -1 is null.
    pub fn long_len(&mut self) -> Result<Option<usize>, DecodeError> {
        plain_len(i64::from(i32::from_be_bytes(self.fixed()?)))
    }

    /// Takes a section of tagged fields. `known` gets each tag with a reader over exactly its bytes, and says whether
    /// it knew the tag; fields with other tags are skipped, which is how newer clients stay readable.
    pub fn tags(
        &mut self,
        mut known: impl FnMut(u32, &mut Reader<'a>) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        let count = self.varint()?;
        if count > MAX_TAGS {
            return Err(DecodeErrorKind::Tags(count).into());
        }
        for _ in 0..count {
            let tag = self.varint()?;
            let size = self.varint()? as usize;
            let mut field = Reader::new(self.take(size)?);
            if known(tag, &mut field)? {
                field.finish()?;
            }
        }
        Ok(())
    }

    /// Checks that everything has been taken.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(DecodeErrorKind::LeftOver(left).into()),
        }
    }
}

fn plain_len(len: i64) -> Result<Option<usize>, DecodeError> {
    match len {
        -1 => Ok(None),
        0.. => Ok(Some(len as usize)),
        _ => Err(DecodeErrorKind::Length(len).into()),
    }
}
