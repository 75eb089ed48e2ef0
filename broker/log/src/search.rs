//! Looking offsets up by time (ListOffsets). Reads inside one batch, with bounded decompression.

use std::cell::Cell;
use std::rc::Rc;

use rillway_wire::batch::{BatchError, BatchView, TimestampType, decompress, records};

use crate::error::{Error, Result};
use crate::limits::READ_BYTES_MAX;
use crate::log::Log;
use crate::read::{Placed, Walker};
use crate::state::SegmentState;

/// A record that a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub offset: i64,
    pub timestamp: i64,
    pub leader_epoch: i32,
}

/// What one batch may unpack to; beyond it the batch's own header answers.
const DECOMPRESSED_MAX: usize = 64 << 20;

impl Log {
    /// The first record, from the log start on, whose timestamp is at least `timestamp`.
    pub async fn offset_for_timestamp(self: &Rc<Self>, timestamp: i64) -> Result<Option<Found>> {
        loop {
            match self.first_since(timestamp).await {
                Err(Error::Replaced { .. }) => {}
                done => return done,
            }
        }
    }

    async fn first_since(self: &Rc<Self>, timestamp: i64) -> Result<Option<Found>> {
        self.check_refused()?;
        let (segments, start) = self.candidates(|s| s.max_timestamp >= timestamp);
        for segment in segments {
            let from = self.time_floor(&segment, timestamp).await?;
            let mut walker = self.walker(segment, 64 << 10)?;
            let mut position = from;
            while let Some(batch) = walker.at(position).await? {
                if batch.max_timestamp >= timestamp && batch.next_offset > start {
                    let found =
                        inside(&mut walker, &batch, |offset, t| offset >= start && t >= timestamp)
                            .await?;
                    if found.is_some() {
                        return Ok(found);
                    }
                }
                position += batch.len;
            }
        }
        Ok(None)
    }

    /// The record with the largest timestamp, the lowest offset among equals (ListOffsets -3).
    pub async fn offset_of_max_timestamp(self: &Rc<Self>) -> Result<Option<Found>> {
        loop {
            match self.newest().await {
                Err(Error::Replaced { .. }) => {}
                done => return done,
            }
        }
    }

    async fn newest(self: &Rc<Self>) -> Result<Option<Found>> {
        self.check_refused()?;
        let (segments, start) = self.candidates(|_| true);
        let (mut largest, mut at) = (i64::MIN, None);
        for segment in segments {
            // Where no record has a time, the first is as good as any.
            let timeless = segment.max_timestamp < 0;
            let (newest, offset) = if timeless {
                (segment.max_timestamp, start.max(segment.base))
            } else if segment.max_timestamp_offset >= start {
                (segment.max_timestamp, segment.max_timestamp_offset)
            } else {
                // Its newest record lies before the log start, or in the batch that the log start is in.
                (self.largest_from(&segment, start).await?, start)
            };
            if newest > largest {
                (largest, at) = (newest, Some((segment, offset)));
            }
        }
        let Some((segment, offset)) = at else {
            return Ok(None);
        };
        let mut walker = self.walker(segment, READ_BYTES_MAX)?;
        let from = self.index_floor(&walker.segment, offset).await?;
        let mut position = from;
        while let Some(batch) = walker.at(position).await? {
            if batch.next_offset > offset && batch.max_timestamp >= largest {
                let found = inside(&mut walker, &batch, |o, t| o >= start && t >= largest).await?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            position += batch.len;
        }
        Ok(None)
    }

    /// The largest timestamp of a segment's records from an offset on, which lies inside; -1 if they have none.
    async fn largest_from(self: &Rc<Self>, segment: &SegmentState, start: i64) -> Result<i64> {
        let mut position = self.index_floor(segment, start).await?;
        let mut walker = self.walker(segment.clone(), 64 << 10)?;
        let largest = Cell::new(-1);
        while let Some(batch) = walker.at(position).await? {
            if batch.base_offset >= start {
                largest.set(largest.get().max(batch.max_timestamp));
            } else if batch.next_offset > start {
                let look = |offset, timestamp| {
                    if offset >= start {
                        largest.set(largest.get().max(timestamp));
                    }
                    false
                };
                inside(&mut walker, &batch, look).await?;
            }
            position += batch.len;
        }
        Ok(largest.get())
    }

    fn candidates(&self, wanted: impl Fn(&SegmentState) -> bool) -> (Vec<SegmentState>, i64) {
        let state = self.state();
        let start = state.flushed.log_start;
        let segments =
            state.flushed.segments.iter().filter(|s| s.end > start && s.length > 0 && wanted(s));
        (segments.cloned().collect(), start)
    }

    /// Position of the last index entry before which everything is older than `timestamp`.
    async fn time_floor(&self, segment: &SegmentState, timestamp: i64) -> Result<u64> {
        let index = self.index(segment).await?;
        let at = index.partition_point(|e| e.max_timestamp < timestamp);
        Ok(at.checked_sub(1).map_or(0, |at| index[at].position))
    }
}

/// The first record of a batch that is `wanted`.
async fn inside(
    walker: &mut Walker,
    batch: &Placed,
    wanted: impl Fn(i64, i64) -> bool,
) -> Result<Option<Found>> {
    let bytes = walker.whole(batch).await?;
    let rotten = |what: String| Error::Partition {
        partition: format!("segment {}", walker.segment.base),
        what: format!("the batch at offset {} does not read: {what}", batch.base_offset),
    };
    let view = BatchView::parse(&bytes).map_err(|e| rotten(e.to_string()))?;
    let leader_epoch = view.leader_epoch();
    // All records of such a batch have the batch's time. Which of them compaction has left only they themselves tell.
    let whole = view.last_offset_delta().checked_add(1) == Some(view.record_count());
    let append_time = view.timestamp_type() == TimestampType::LogAppendTime;
    if append_time && whole {
        let found =
            Found { offset: batch.base_offset, timestamp: batch.max_timestamp, leader_epoch };
        return Ok(wanted(batch.next_offset - 1, batch.max_timestamp).then_some(found));
    }
    if !view.check_crc() {
        return Err(rotten(format!("its checksum is not {:#x}", view.crc())));
    }
    among_records(&view, &wanted).or_else(|_| {
        // The producer's own bytes, which nobody read when they came: an error would be for ever, and clients would ask
        // again for ever. The batch's header answers.
        let timestamp = batch.max_timestamp;
        let found = Found { offset: batch.base_offset, timestamp, leader_epoch };
        Ok(wanted(batch.next_offset - 1, timestamp).then_some(found))
    })
}

fn among_records(
    view: &BatchView<'_>,
    wanted: impl Fn(i64, i64) -> bool,
) -> std::result::Result<Option<Found>, BatchError> {
    let payload = decompress(view.codec()?, view.records(), DECOMPRESSED_MAX)?;
    for record in records(&payload) {
        let record = record?;
        let offset = view.base_offset() + i64::from(record.offset_delta);
        let timestamp = match view.timestamp_type() {
            TimestampType::LogAppendTime => view.max_timestamp(),
            TimestampType::CreateTime => {
                view.base_timestamp().saturating_add(record.timestamp_delta)
            }
        };
        if wanted(offset, timestamp) {
            let leader_epoch = view.leader_epoch();
            return Ok(Some(Found { offset, timestamp, leader_epoch }));
        }
    }
    Ok(None)
}
