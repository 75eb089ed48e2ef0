//! The zerocopy view of a record batch's header (Kafka's format v2) and the two edits a broker makes in place.
//!
//! A broker that keeps batches opaque needs three things from them: their extent, what the header says, and whether
//! the bytes are intact. All of it is read where it lies; nothing here allocates.

use zerocopy::byteorder::big_endian::{I16, I32, I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{BatchError, Codec, TimestampType};

/// Bytes of a batch before its records.
pub const BATCH_HEADER: usize = 61;

/// Bytes that `batch_length` does not count: the base offset and the length itself.
pub const LENGTH_PREFIX: usize = 12;

/// The first byte the checksum covers. What stands before it (base offset, length, leader epoch, magic, the checksum)
/// may be rewritten without a new checksum.
pub const CRC_START: usize = 21;

/// The only format that is accepted; Kafka has written nothing else since 0.11 and read nothing else since 4.0.
pub const MAGIC: i8 = 2;

const CODEC_MASK: i16 = 0x07;
const LOG_APPEND_TIME: i16 = 0x08;
pub(super) const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;

/// The header as it lies in memory and on the disk: big-endian, packed, no alignment.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Header {
    pub(super) base_offset: I64,
    pub(super) batch_length: I32,
    pub(super) leader_epoch: I32,
    pub(super) magic: i8,
    pub(super) crc: U32,
    pub(super) attributes: I16,
    pub(super) last_offset_delta: I32,
    pub(super) base_timestamp: I64,
    pub(super) max_timestamp: I64,
    pub(super) producer_id: I64,
    pub(super) producer_epoch: I16,
    pub(super) base_sequence: I32,
    pub(super) record_count: I32,
}

const _: () = assert!(size_of::<Header>() == BATCH_HEADER);

/// One record batch: its header, and as much of its body as the slice holds.
#[derive(Clone, Copy)]
pub struct BatchView<'a> {
    header: &'a Header,
    /// Exactly the batch (`parse`), or what there is of it (`parse_header`).
    bytes: &'a [u8],
}

impl<'a> BatchView<'a> {
    /// Reads the first batch of `bytes`, which may go on behind it.
    ///
    /// # Errors
    /// [`BatchError::Truncated`] when the slice ends before the batch does; [`BatchError::Length`] and
    /// [`BatchError::Magic`] when it is no batch of format v2. The checksum is not verified: see [`Self::check_crc`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let view = Self::parse_header(bytes)?;
        let total = view.total_len();
        match bytes.get(..total) {
            Some(bytes) => Ok(Self { bytes, ..view }),
            None => Err(BatchError::Truncated { need: total, have: bytes.len() }),
        }
    }

    /// Reads the header only: 61 bytes are enough, and the batch may end behind the slice.
    ///
    /// On such a view [`Self::records`] and [`Self::check_crc`] see only the bytes that are there.
    ///
    /// # Errors
    /// As [`Self::parse`], with `Truncated` only below 61 bytes.
    pub fn parse_header(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let Ok((header, _)) = Header::ref_from_prefix(bytes) else {
            return Err(BatchError::Truncated { need: BATCH_HEADER, have: bytes.len() });
        };
        // The magic comes first: in the older formats the length means something else.
        if header.magic != MAGIC {
            return Err(BatchError::Magic(header.magic));
        }
        let length = header.batch_length.get();
        if length < (BATCH_HEADER - LENGTH_PREFIX) as i32 {
            return Err(BatchError::Length(length));
        }
        let total = LENGTH_PREFIX + length as usize;
        Ok(Self { header, bytes: &bytes[..total.min(bytes.len())] })
    }

    /// Offset of the first record.
    #[must_use]
    pub fn base_offset(&self) -> i64 {
        self.header.base_offset.get()
    }

    /// Bytes of the whole batch, header included: at least 61, at most 2^31 + 11.
    #[must_use]
    pub fn total_len(&self) -> usize {
        LENGTH_PREFIX + self.header.batch_length.get() as usize
    }

    /// Leader epoch, as the broker stamped it; -1 from a producer.
    #[must_use]
    pub fn leader_epoch(&self) -> i32 {
        self.header.leader_epoch.get()
    }

    /// The CRC-32C that the batch claims.
    #[must_use]
    pub fn crc(&self) -> u32 {
        self.header.crc.get()
    }

    /// The attribute bits: 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon.
    #[must_use]
    pub fn attributes(&self) -> i16 {
        self.header.attributes.get()
    }

    /// The compression of the records.
    ///
    /// # Errors
    /// [`BatchError::Codec`] for the three values that mean nothing.
    pub fn codec(&self) -> Result<Codec, BatchError> {
        let id = self.attributes() & CODEC_MASK;
        Codec::from_id(id).ok_or(BatchError::Codec(id))
    }

    /// Whether the batch belongs to a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes() & TRANSACTIONAL != 0
    }

    /// Whether the batch is a control batch: a commit or abort marker, never handed to applications.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes() & CONTROL != 0
    }

    /// Whose clock [`Self::max_timestamp`] comes from.
    #[must_use]
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes() & LOG_APPEND_TIME != 0 {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        }
    }

    /// Distance from the first to the last offset; compaction keeps it when it removes records.
    #[must_use]
    pub fn last_offset_delta(&self) -> i32 {
        self.header.last_offset_delta.get()
    }

    /// Offset of the last record. Wraps on a header that lies, rather than panic.
    #[must_use]
    pub fn last_offset(&self) -> i64 {
        self.base_offset().wrapping_add(i64::from(self.last_offset_delta()))
    }

    /// The first offset after the batch.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.last_offset().wrapping_add(1)
    }

    /// Milliseconds since 1970 of the first record; -1 when unset.
    #[must_use]
    pub fn base_timestamp(&self) -> i64 {
        self.header.base_timestamp.get()
    }

    /// The largest timestamp of the batch in milliseconds since 1970; -1 when unset.
    #[must_use]
    pub fn max_timestamp(&self) -> i64 {
        self.header.max_timestamp.get()
    }

    /// Producer id, -1 for a producer that is not idempotent.
    #[must_use]
    pub fn producer_id(&self) -> i64 {
        self.header.producer_id.get()
    }

    /// Producer epoch, -1 when there is no producer id.
    #[must_use]
    pub fn producer_epoch(&self) -> i16 {
        self.header.producer_epoch.get()
    }

    /// Sequence number of the first record, -1 when there is no producer id.
    #[must_use]
    pub fn base_sequence(&self) -> i32 {
        self.header.base_sequence.get()
    }

    /// Sequence number of the last record; -1 when there is none. After `i32::MAX` comes 0.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        match self.base_sequence() {
            -1 => -1,
            base => sequence_after(base, self.last_offset_delta()),
        }
    }

    /// Number of records, as the header claims it.
    #[must_use]
    pub fn record_count(&self) -> i32 {
        self.header.record_count.get()
    }

    /// The records: compressed as [`Self::codec`] says. From `parse_header`, what there is of them.
    #[must_use]
    pub fn records(&self) -> &'a [u8] {
        &self.bytes[BATCH_HEADER..]
    }

    /// The bytes of the batch, header included.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether the checksum fits the bytes.
    #[must_use]
    pub fn check_crc(&self) -> bool {
        crc32c::crc32c(&self.bytes[CRC_START..]) == self.crc()
    }

    /// What a broker checks before it appends a batch that a producer sent, cheapest first.
    ///
    /// `bytes` are the records of one partition of a Produce request, which must be exactly one batch. The records
    /// stay opaque: their number is compared with the offsets that the header claims, and the checksum vouches for
    /// the rest. Transactional batches pass: whether they are welcome is the caller's affair.
    ///
    /// # Errors
    /// See [`BatchError::error_code`] for what the client gets.
    pub fn validate_produce(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let batch = Self::parse(bytes)?;
        if batch.total_len() != bytes.len() {
            return Err(BatchError::MoreThanOne { first: batch.total_len(), all: bytes.len() });
        }
        if batch.is_control() {
            return Err(BatchError::Control);
        }
        if batch.base_offset() != 0 {
            return Err(BatchError::BaseOffset(batch.base_offset()));
        }
        batch.codec()?;
        let (count, delta) = (batch.record_count(), batch.last_offset_delta());
        if count <= 0 || Some(count) != delta.checked_add(1) {
            return Err(BatchError::Count { count, delta });
        }
        if batch.producer_id() >= 0 && (batch.base_sequence() < 0 || batch.producer_epoch() < 0) {
            return Err(BatchError::Sequence {
                epoch: batch.producer_epoch(),
                sequence: batch.base_sequence(),
            });
        }
        if !batch.check_crc() {
            return Err(BatchError::Crc {
                claimed: batch.crc(),
                computed: crc32c::crc32c(&bytes[CRC_START..]),
            });
        }
        Ok(batch)
    }
}

impl std::fmt::Debug for BatchView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchView")
            .field("base_offset", &self.base_offset())
            .field("last_offset", &self.last_offset())
            .field("total_len", &self.total_len())
            .field("leader_epoch", &self.leader_epoch())
            .field("attributes", &self.attributes())
            .field("max_timestamp", &self.max_timestamp())
            .field("producer_id", &self.producer_id())
            .field("producer_epoch", &self.producer_epoch())
            .field("base_sequence", &self.base_sequence())
            .field("record_count", &self.record_count())
            .finish_non_exhaustive()
    }
}

/// The sequence number `delta` after `base`: from `i32::MAX` it goes on at 0, since negative numbers mean "none".
#[must_use]
pub fn sequence_after(base: i32, delta: i32) -> i32 {
    base.wrapping_add(delta) & i32::MAX
}

/// Stamps a batch with its place in the log. The checksum does not cover these fields and stays as it is.
///
/// # Panics
/// When `bytes` is shorter than a header: batches are parsed before they are assigned.
pub fn assign(bytes: &mut [u8], base_offset: i64, leader_epoch: i32) {
    let header = header_mut(bytes);
    header.base_offset.set(base_offset);
    header.leader_epoch.set(leader_epoch);
}

/// Sets the largest timestamp and whose clock it is (`message.timestamp.type=LogAppendTime`), and the new checksum.
///
/// # Panics
/// When `bytes` does not start with a whole batch: it is parsed before it is edited.
pub fn set_max_timestamp_and_type(
    bytes: &mut [u8],
    max_timestamp: i64,
    timestamp_type: TimestampType,
) {
    let total =
        BatchView::parse(bytes).expect("only a batch that was parsed is edited").total_len();
    let header = header_mut(bytes);
    header.max_timestamp.set(max_timestamp);
    let attributes = header.attributes.get();
    header.attributes.set(match timestamp_type {
        TimestampType::LogAppendTime => attributes | LOG_APPEND_TIME,
        TimestampType::CreateTime => attributes & !LOG_APPEND_TIME,
    });
    let crc = crc32c::crc32c(&bytes[CRC_START..total]);
    header_mut(bytes).crc.set(crc);
}

pub(super) fn header_mut(bytes: &mut [u8]) -> &mut Header {
    match Header::mut_from_prefix(bytes) {
        Ok((header, _)) => header,
        Err(_) => panic!("a batch of less than {BATCH_HEADER} bytes was never parsed"),
    }
}

/// Walks consecutive batches, as a segment or a Fetch response holds them. See [`batches`].
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
}

/// The consecutive batches of `bytes`.
///
/// The walk ends after the first error. A batch that the slice cuts off (the end of a Fetch response, a torn tail)
/// yields [`BatchError::Truncated`].
#[must_use]
pub fn batches(bytes: &[u8]) -> Batches<'_> {
    Batches { rest: bytes }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<BatchView<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let parsed = BatchView::parse(self.rest);
        self.rest = match &parsed {
            Ok(batch) => &self.rest[batch.total_len()..],
            Err(_) => &[],
        };
        Some(parsed)
    }
}
