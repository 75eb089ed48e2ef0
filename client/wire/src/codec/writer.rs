//! Appending fields, and what comes out: a [`Frame`] with holes for records.

use crate::varint;

/// Collects the bytes of a message.
///
/// Records that live elsewhere (a cache, a file) are not copied through it: the writer notes where they belong and how
/// long they are, and goes on behind them.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    /// Position in `bytes` before which `len` foreign bytes belong; ascending.
    holes: Vec<(usize, usize)>,
    /// See [`Writer::cutting`].
    cuts: bool,
}

impl Writer {
    /// A writer that goes on behind `bytes`.
    #[must_use]
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, holes: Vec::new(), cuts: false }
    }

    /// Cuts a text that an old version has no room for, where it would panic otherwise. For answers: they quote what a
    /// client sent, or name what came with a newer version, and must not end whoever answers. A request, or a record that
    /// is kept, would name something else if it were cut.
    #[must_use]
    pub const fn cutting(mut self) -> Self {
        self.cuts = true;
        self
    }

    /// Appends bytes as they are.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Leaves room for `len` bytes that the sender puts in. An empty hole is no hole.
    pub fn hole(&mut self, len: usize) {
        if len > 0 {
            self.holes.push((self.bytes.len(), len));
        }
    }

    /// Appends an unsigned varint.
    pub fn varint(&mut self, value: u32) {
        varint::write_u64(&mut self.bytes, u64::from(value));
    }

    /// Appends a compact length: length + 1, or 0 for null.
    ///
    /// # Panics
    /// When a length does not fit the protocol: 2 GiB is beyond any frame.
    pub fn compact_len(&mut self, len: Option<usize>) {
        self.varint(len.map_or(0, |len| checked_i32(len) as u32 + 1));
    }

    /// Appends a text behind a 16-bit length, -1 for null.
    ///
    /// # Panics
    /// When it is longer than 32,767 bytes, which the protocol cannot express, and the writer does not cut.
    pub fn short_text(&mut self, text: Option<&str>) {
        const MOST: usize = i16::MAX as usize;
        let text = text.map(|t| if self.cuts { &t[..t.floor_char_boundary(MOST)] } else { t });
        let len = text.map_or(-1, |text| {
            i16::try_from(text.len()).expect("a text of the protocol has at most 32,767 bytes")
        });
        self.put(&len.to_be_bytes());
        self.put(text.unwrap_or_default().as_bytes());
    }

    /// Appends a 32-bit length, -1 for null.
    ///
    /// # Panics
    /// When a length does not fit the protocol: 2 GiB is beyond any frame.
    pub fn long_len(&mut self, len: Option<usize>) {
        self.put(&len.map_or(-1, checked_i32).to_be_bytes());
    }

    /// Appends one tagged field: tag, size, and what `write` writes.
    pub fn tag(&mut self, tag: u32, write: impl FnOnce(&mut Self)) {
        let mut field = Self::default();
        write(&mut field);
        assert!(field.holes.is_empty(), "no tagged field of the protocol holds records");
        self.varint(tag);
        self.varint(checked_i32(field.bytes.len()) as u32);
        self.put(&field.bytes);
    }

    /// The bytes and holes so far, without a length in front.
    #[must_use]
    pub fn into_frame(self) -> Frame {
        Frame { bytes: self.bytes, holes: self.holes }
    }
}

fn checked_i32(len: usize) -> i32 {
    i32::try_from(len).expect("no field of the protocol is 2 GiB long")
}

/// An encoded message: bytes, and holes that the sender fills with records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    bytes: Vec<u8>,
    holes: Vec<(usize, usize)>,
}

/// A piece of a [`Frame`], to be sent in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Bytes of the frame itself.
    Bytes(&'a [u8]),
    /// `len` bytes of records: those of the `index`-th [`Records::Later`](crate::Records::Later) with a length above 0.
    Records { index: usize, len: usize },
}

impl Frame {
    /// Bytes that go over the wire, holes included.
    #[must_use]
    pub fn total_len(&self) -> usize {
        self.bytes.len() + self.holes.iter().map(|(_, len)| len).sum::<usize>()
    }

    /// The pieces in the order in which they are sent; bytes between two holes are never empty.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let mut start = 0;
        let ends =
            self.holes.iter().enumerate().map(|(index, (at, len))| (*at, Some((index, *len))));
        ends.chain([(self.bytes.len(), None)]).flat_map(move |(at, hole)| {
            let bytes = &self.bytes[start..at];
            start = at;
            let bytes = (!bytes.is_empty()).then_some(Part::Bytes(bytes));
            bytes.into_iter().chain(hole.map(|(index, len)| Part::Records { index, len }))
        })
    }

    /// The bytes, when there is no hole; otherwise `None`.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.holes.is_empty().then_some(&self.bytes)
    }

    /// The bytes, when there is no hole; otherwise the frame.
    ///
    /// # Errors
    /// The frame itself, when it has holes to be filled.
    pub fn into_bytes(self) -> Result<Vec<u8>, Self> {
        if self.holes.is_empty() { Ok(self.bytes) } else { Err(self) }
    }

    /// The bytes, holes left out, and the holes: for each the position before which it belongs, and its length.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, Vec<(usize, usize)>) {
        (self.bytes, self.holes)
    }

    /// Writes the length of what stands behind it into the first four bytes.
    ///
    /// # Panics
    /// When the frame is longer than 2 GiB, or did not start with four bytes for its length.
    pub(crate) fn set_length(&mut self) {
        let len = checked_i32(self.total_len() - 4);
        self.bytes[..4].copy_from_slice(&len.to_be_bytes());
    }
}
