//! Building a batch, as a producer does.

use zerocopy::IntoBytes;

use super::view::{Header, LENGTH_PREFIX, MAGIC, TRANSACTIONAL};
use super::{BATCH_HEADER, BatchError, CRC_START, Codec, compress};
use crate::varint;

/// Collects records and turns them into one batch, ready for a Produce request.
///
/// ```
/// use rillway_wire::batch::{BatchBuilder, BatchView, Codec};
/// let mut batch = BatchBuilder::new(Codec::Lz4);
/// batch.push(1_700_000_000_000, Some(b"key"), Some(b"value"), &[("trace", Some(b"1"))]);
/// let bytes = batch.build().expect("LZ4 writes to memory");
/// assert_eq!(BatchView::validate_produce(&bytes).expect("a whole batch").record_count(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    codec: Codec,
    attributes: i16,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    count: i32,
    payload: Vec<u8>,
}

impl BatchBuilder {
    /// An empty batch without a producer id.
    #[must_use]
    pub const fn new(codec: Codec) -> Self {
        Self {
            codec,
            attributes: codec as i16,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            base_timestamp: -1,
            max_timestamp: -1,
            count: 0,
            payload: Vec::new(),
        }
    }

    /// Makes the batch idempotent: `base_sequence` is the number of its first record.
    #[must_use]
    pub const fn producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> Self {
        self.producer_id = id;
        self.producer_epoch = epoch;
        self.base_sequence = base_sequence;
        self
    }

    /// Makes the batch part of the producer's transaction.
    #[must_use]
    pub const fn transactional(mut self) -> Self {
        self.attributes |= TRANSACTIONAL;
        self
    }

    /// Appends a record. `timestamp` is in milliseconds since 1970.
    ///
    /// # Panics
    /// At 2^31 records or a key, value or header of 2 GiB: no broker takes such a batch.
    pub fn push(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) {
        if self.count == 0 {
            self.base_timestamp = timestamp;
            self.max_timestamp = timestamp;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        let timestamp_delta = timestamp.wrapping_sub(self.base_timestamp);
        let offset_delta = i64::from(self.count);
        let header_count = length(headers.len());

        let body = 1
            + varint::len_i64(timestamp_delta)
            + varint::len_i64(offset_delta)
            + bytes_len(key)
            + bytes_len(value)
            + varint::len_i64(header_count)
            + headers
                .iter()
                .map(|(key, value)| bytes_len(Some(key.as_bytes())) + bytes_len(*value))
                .sum::<usize>();

        let out = &mut self.payload;
        varint::write_i64(out, length(body));
        out.push(0);
        varint::write_i64(out, timestamp_delta);
        varint::write_i64(out, offset_delta);
        write_bytes(out, key);
        write_bytes(out, value);
        varint::write_i64(out, header_count);
        for (key, value) in headers {
            write_bytes(out, Some(key.as_bytes()));
            write_bytes(out, *value);
        }
        self.count = self.count.checked_add(1).expect("a batch has fewer than 2^31 records");
    }

    /// Records so far.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the batch before compression, header included: what a producer compares with its batch size.
    #[must_use]
    pub const fn uncompressed_len(&self) -> usize {
        BATCH_HEADER + self.payload.len()
    }

    /// The batch, with base offset 0 and leader epoch -1, as a broker expects it.
    ///
    /// # Errors
    /// When the codec fails, which none does on memory.
    ///
    /// # Panics
    /// When the batch is 2 GiB long: no broker takes it.
    pub fn build(&self) -> Result<Vec<u8>, BatchError> {
        let payload = compress(self.codec, &self.payload)?;
        let batch_length = i32::try_from(BATCH_HEADER - LENGTH_PREFIX + payload.len())
            .expect("a batch is below 2 GiB");
        let header = Header {
            base_offset: 0.into(),
            batch_length: batch_length.into(),
            leader_epoch: (-1).into(),
            magic: MAGIC,
            crc: 0.into(),
            attributes: self.attributes.into(),
            last_offset_delta: (self.count - 1).into(),
            base_timestamp: self.base_timestamp.into(),
            max_timestamp: self.max_timestamp.into(),
            producer_id: self.producer_id.into(),
            producer_epoch: self.producer_epoch.into(),
            base_sequence: self.base_sequence.into(),
            record_count: self.count.into(),
        };
        let mut bytes = Vec::with_capacity(BATCH_HEADER + payload.len());
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&payload);
        let crc = crc32c::crc32c(&bytes[CRC_START..]);
        super::view::header_mut(&mut bytes).crc.set(crc);
        Ok(bytes)
    }
}

fn length(len: usize) -> i64 {
    i64::from(i32::try_from(len).expect("a field of a record is below 2 GiB"))
}

fn bytes_len(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| varint::len_i64(length(bytes.len())) + bytes.len())
}

fn write_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    varint::write_i64(out, bytes.map_or(-1, |bytes| length(bytes.len())));
    out.extend_from_slice(bytes.unwrap_or_default());
}
