//! What compaction makes of one batch. Pure: bytes in, bytes out. Unpacking and packing are the caller's, who can give
//! way in between.
//!
//! Kept are: base offset and last offset (so every record keeps its own), producer id, epoch and sequence, leader epoch,
//! timestamps, headers and their order, the codec, and every byte of a record but its distance to the batch's first
//! timestamp. A batch in which nothing changes keeps its very bytes.
//!
//! A tombstone is kept until the delete horizon of its batch (KIP-534): the first cleaning behind which nothing older is
//! left of its keys stamps that moment into the batch, as bit 6 of its attributes and in place of its first timestamp.
//! Absent on purpose: transactions. Control batches stay as they are.

use rillway_wire::batch::{
    BATCH_HEADER, BatchError, BatchView, CRC_START, Codec, LENGTH_PREFIX, RecordView,
    TimestampType, records,
};
use rillway_wire::varint;

use crate::cleaner::offset_map::OffsetMap;
use crate::state::NO_TIMESTAMP;

const CODEC_BITS: i16 = 0x07;
const DELETE_HORIZON: i16 = 0x40;

/// What a pass knows.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub map: &'a OffsetMap,
    /// Batches up to here were cleaned before: their delete horizons count. One that a producer stamped does not.
    pub cleaned_before: i64,
    pub now_ms: i64,
    pub delete_retention_ms: i64,
    /// Nothing below the batch was left unread: a tombstone in it is all that is left of its key.
    pub all_read: bool,
}

/// What is left of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Same,
    Rewritten(Draft),
    Nothing,
}

/// A batch whose records are not packed yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Draft {
    header: Vec<u8>,
    pub payload: Vec<u8>,
    pub codec: Codec,
    max_timestamp: i64,
    count: i32,
}

impl Draft {
    /// The batch, of the packed payload. `None`: it is too large for a length field.
    pub(crate) fn seal(mut self, packed: &[u8]) -> Option<Vec<u8>> {
        self.header.extend_from_slice(packed);
        seal(self.header, self.max_timestamp, self.count)
    }
}

/// See [`clean`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cleaned {
    pub kept: Kept,
    /// Largest timestamp of the records that are left; -1 if there are none.
    pub max_timestamp: i64,
    /// When its tombstones may go; -1 if it has none whose time is running.
    pub horizon_ms: i64,
    /// False: it is kept as it is because its records could not be read.
    pub read: bool,
}

/// Shows every record of a batch, with its own bytes, and checks that they are what the header says.
fn each<'p>(
    batch: &BatchView<'_>,
    payload: &'p [u8],
    mut show: impl FnMut(&'p [u8], &RecordView<'p>),
) -> Result<(), BatchError> {
    let (mut rest, mut before, mut count) = (payload, -1, 0i32);
    while !rest.is_empty() {
        let at = payload.len() - rest.len();
        let broken = |what| BatchError::Record { at, what };
        let (body, prefix) = varint::read_i32(rest).ok_or(broken("length"))?;
        let len = usize::try_from(body).ok().and_then(|body| body.checked_add(prefix));
        let (own, behind) =
            len.and_then(|len| rest.split_at_checked(len)).ok_or(broken("length"))?;
        let record = records(own).next().ok_or(broken("length"))??;
        if record.offset_delta <= before || record.offset_delta > batch.last_offset_delta() {
            return Err(broken("offset"));
        }
        (before, count, rest) = (record.offset_delta, count + 1, behind);
        show(own, &record);
    }
    if count != batch.record_count() {
        return Err(BatchError::Count { count, delta: batch.last_offset_delta() });
    }
    Ok(())
}

/// Puts the keys of a batch into the map, from an offset on. False: the map is full, and ends inside this batch. One
/// that cannot be read is passed over: it will be kept as it is. `payload`: its records, unpacked, if they could be.
pub(crate) fn map_keys(
    batch: &BatchView<'_>,
    payload: Option<&[u8]>,
    from: i64,
    map: &mut OffsetMap,
) -> bool {
    let mut room = true;
    if !batch.is_control()
        && let Some(payload) = payload
    {
        let put = each(batch, payload, |_, record| {
            let offset = batch.base_offset() + i64::from(record.offset_delta);
            if let Some(key) = record.key
                && room
                && offset >= from
            {
                room = map.put(key, offset);
            }
        });
        if let Err(e) = put {
            tracing::debug!("the batch at {} is not compacted: {e}", batch.base_offset());
        }
    }
    if room {
        map.seen(batch.next_offset());
    }
    room
}

/// Cleans one batch. `payload`: its records, unpacked, if they could be. `keep_empty`: its header is needed, even when
/// none of its records is.
pub(crate) fn clean(
    batch: &BatchView<'_>,
    payload: Option<&[u8]>,
    rules: &Rules<'_>,
    keep_empty: bool,
) -> Cleaned {
    let same = |max_timestamp, horizon_ms, read| Cleaned {
        kept: Kept::Same,
        max_timestamp,
        horizon_ms,
        read,
    };
    if batch.is_control() {
        return same(batch.max_timestamp(), NO_TIMESTAMP, true);
    }
    let unread = || same(batch.max_timestamp(), NO_TIMESTAMP, false);
    let (Some(payload), Ok(codec)) = (payload, batch.codec()) else { return unread() };

    let end = rules.map.end();
    let stamped = batch.attributes() & DELETE_HORIZON != 0;
    let horizon =
        (stamped && batch.next_offset() <= rules.cleaned_before).then(|| batch.base_timestamp());
    let expired = horizon.is_some_and(|at| at <= rules.now_ms);
    let append_time = batch.timestamp_type() == TimestampType::LogAppendTime;
    let mut kept: Vec<&[u8]> = Vec::new();
    let (mut tombstones, mut newest) = (false, NO_TIMESTAMP);
    let read = each(batch, payload, |own, record| {
        let offset = batch.base_offset() + i64::from(record.offset_delta);
        let stays = match record.key {
            _ if offset >= end => true,
            // It came before the topic was compacted. Kafka drops it too.
            None => false,
            Some(_) if record.value.is_none() && expired => false,
            Some(key) => rules.map.newest(key).is_none_or(|newest| newest <= offset),
        };
        if stays {
            kept.push(own);
            tombstones |= record.value.is_none();
            newest = newest.max(batch.base_timestamp().wrapping_add(record.timestamp_delta));
        }
    });
    if read.is_err() {
        return unread();
    }
    if kept.is_empty() {
        let empty = batch.record_count() == 0;
        let kept = match (keep_empty, empty) {
            (false, _) => Kept::Nothing,
            (true, true) => Kept::Same,
            (true, false) => Kept::Rewritten(emptied(batch)),
        };
        return Cleaned { kept, max_timestamp: NO_TIMESTAMP, horizon_ms: NO_TIMESTAMP, read: true };
    }
    let whole = kept.len() == usize::try_from(batch.record_count()).unwrap_or(0);
    // Only now is it certain that nothing older than its tombstones is left.
    let stamp = (tombstones && horizon.is_none() && batch.next_offset() <= end && rules.all_read)
        .then(|| rules.now_ms.saturating_add(rules.delete_retention_ms).max(0));
    let horizon_ms = stamp.or(horizon).filter(|_| tombstones).unwrap_or(NO_TIMESTAMP);
    let max_timestamp = if whole || append_time { batch.max_timestamp() } else { newest };
    if whole && stamp.is_none() {
        return same(max_timestamp, horizon_ms, true);
    }
    match rebuilt(batch, codec, &kept, stamp, max_timestamp) {
        Some(draft) => {
            Cleaned { kept: Kept::Rewritten(draft), max_timestamp, horizon_ms, read: true }
        }
        None => unread(),
    }
}

/// A batch of these records of another. `None`: one of them would be too large for a length field.
fn rebuilt(
    batch: &BatchView<'_>,
    codec: Codec,
    kept: &[&[u8]],
    stamp: Option<i64>,
    max_timestamp: i64,
) -> Option<Draft> {
    let base = batch.base_timestamp();
    let payload = match stamp {
        None => kept.concat(),
        Some(stamp) => {
            let mut out = Vec::with_capacity(kept.iter().map(|r| r.len() + 10).sum());
            for record in kept {
                rebase(record, base.wrapping_sub(stamp), &mut out)?;
            }
            out
        }
    };
    let mut header = batch.bytes()[..BATCH_HEADER].to_vec();
    if let Some(stamp) = stamp {
        header[21..23].copy_from_slice(&(batch.attributes() | DELETE_HORIZON).to_be_bytes());
        header[27..35].copy_from_slice(&stamp.to_be_bytes());
    }
    let count = i32::try_from(kept.len()).ok()?;
    Some(Draft { header, payload, codec, max_timestamp, count })
}

/// A record whose timestamp counts from another base, which is `shift` below the one before.
fn rebase(record: &[u8], shift: i64, out: &mut Vec<u8>) -> Option<()> {
    let (_, prefix) = varint::read_i32(record)?;
    let (attributes, rest) = record.get(prefix..)?.split_first()?;
    let (delta, len) = varint::read_i64(rest)?;
    let (delta, rest) = (delta.wrapping_add(shift), &rest[len..]);
    let body = 1 + varint::len_i64(delta) + rest.len();
    varint::write_i64(out, i64::from(i32::try_from(body).ok()?));
    out.push(*attributes);
    varint::write_i64(out, delta);
    out.extend_from_slice(rest);
    Some(())
}

/// A batch without records that still says which offsets and sequences were there, as Kafka writes it.
fn emptied(batch: &BatchView<'_>) -> Draft {
    let mut header = batch.bytes()[..BATCH_HEADER].to_vec();
    let attributes = batch.attributes() & !(CODEC_BITS | DELETE_HORIZON);
    header[21..23].copy_from_slice(&attributes.to_be_bytes());
    header[27..35].copy_from_slice(&NO_TIMESTAMP.to_be_bytes());
    let (codec, max_timestamp) = (Codec::None, batch.max_timestamp());
    Draft { header, payload: Vec::new(), codec, max_timestamp, count: 0 }
}

/// Fills in what follows from the rest: length, largest timestamp, number of records, checksum.
fn seal(mut bytes: Vec<u8>, max_timestamp: i64, count: i32) -> Option<Vec<u8>> {
    let length = i32::try_from(bytes.len() - LENGTH_PREFIX).ok()?;
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[35..43].copy_from_slice(&max_timestamp.to_be_bytes());
    bytes[57..61].copy_from_slice(&count.to_be_bytes());
    let crc = crc32c::crc32c(&bytes[CRC_START..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    Some(bytes)
}

#[cfg(test)]
#[path = "rewrite_tests.rs"]
mod tests;
