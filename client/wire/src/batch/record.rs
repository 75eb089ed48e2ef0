//! The records inside a payload that is not (or no longer) compressed.
//!
//! Read in place, one after the other; keys, values and headers are borrowed. Headers keep their order and their
//! duplicates (KIP-82), since applications count on both.

use super::BatchError;
use crate::varint;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// Offset minus the batch's base offset.
    pub offset_delta: i32,
    /// Timestamp minus the batch's base timestamp, in milliseconds.
    pub timestamp_delta: i64,
    pub key: Option<&'a [u8]>,
    /// `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers in order.
    pub headers: Headers<'a>,
}

/// The headers of a record: an iterator over [`Header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<'a> {
    bytes: &'a [u8],
    left: usize,
}

/// A header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// UTF-8 by convention; nobody checks it.
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

impl Headers<'_> {
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        let mut from = Cursor { rest: self.bytes };
        let header = from.header().expect("the headers were checked when the record was read");
        self.bytes = from.rest;
        Some(header)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// The records of an uncompressed payload. The walk ends after the first error.
#[must_use]
pub fn records(payload: &[u8]) -> RecordIter<'_> {
    RecordIter { rest: payload, len: payload.len() }
}

/// Walks the records of a payload. See [`records`].
#[derive(Clone, Debug)]
pub struct RecordIter<'a> {
    rest: &'a [u8],
    /// Of the whole payload, to tell where a record is broken.
    len: usize,
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<RecordView<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let at = self.len - self.rest.len();
        let mut from = Cursor { rest: self.rest };
        let record = from.record().map_err(|what| BatchError::Record { at, what });
        self.rest = if record.is_ok() { from.rest } else { &[] };
        Some(record)
    }
}

/// Takes fields from the front; the errors name the field.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn record(&mut self) -> Result<RecordView<'a>, &'static str> {
        let length = self.varint("length")?;
        let length = usize::try_from(length).map_err(|_| "length")?;
        let mut body = Cursor { rest: self.take(length, "length")? };
        body.take(1, "attributes")?;
        let record = RecordView {
            timestamp_delta: body.varlong("timestamp delta")?,
            offset_delta: body.varint("offset delta")?,
            key: body.bytes("key")?,
            value: body.bytes("value")?,
            headers: body.headers()?,
        };
        if !body.rest.is_empty() {
            return Err("bytes behind the headers");
        }
        Ok(record)
    }

    fn headers(&mut self) -> Result<Headers<'a>, &'static str> {
        let count = self.varint("number of headers")?;
        let headers = Headers {
            bytes: self.rest,
            left: usize::try_from(count).map_err(|_| "number of headers")?,
        };
        // Every header takes two bytes at least, so a count that lies ends with the bytes.
        for _ in 0..headers.left {
            self.header()?;
        }
        Ok(headers)
    }

    fn header(&mut self) -> Result<Header<'a>, &'static str> {
        let key = self.bytes("header key")?.ok_or("header key")?;
        Ok(Header { key, value: self.bytes("header value")? })
    }

    fn bytes(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, &'static str> {
        match self.varint(what)? {
            -1 => Ok(None),
            len => self.take(usize::try_from(len).map_err(|_| what)?, what).map(Some),
        }
    }

    fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(what)?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self, what: &'static str) -> Result<i32, &'static str> {
        let (value, len) = varint::read_i32(self.rest).ok_or(what)?;
        self.rest = &self.rest[len..];
        Ok(value)
    }

    fn varlong(&mut self, what: &'static str) -> Result<i64, &'static str> {
        let (value, len) = varint::read_i64(self.rest).ok_or(what)?;
        self.rest = &self.rest[len..];
        Ok(value)
    }
}
