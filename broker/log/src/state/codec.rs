//! Partition records and producer snapshots as bytes (FORMAT.md 4 and 6.3).

use std::collections::VecDeque;

use crate::bytes::{Parse, Put, Take};
use crate::entry::PartitionRef;
use crate::ids::Sequence;
use crate::limits::PRODUCER_BATCHES;
use crate::state::producers::ProducedBatch;
use crate::state::{
    EpochMap, IndexEntry, PartitionState, ProducerState, ProducerTable, SegmentState, SegmentStatus,
};

/// A segment record without index entries and without a tail (FORMAT.md 4).
const SEGMENT_RECORD_MIN: usize = 8 + 8 + 1 + 4 + 8 + 8 + 5 * 8 + 4 + 4 + 4;

impl ProducerTable {
    pub(crate) fn put(&self, out: &mut impl Put) {
        out.count(self.len());
        for (id, p) in self.iter() {
            out.i64(id);
            out.i16(p.epoch);
            out.i64(p.last_append_ms);
            out.u8(p.batches.len() as u8);
            for b in &p.batches {
                out.i32(b.first_sequence);
                out.i32(b.last_sequence);
                out.i64(b.base_offset);
                out.i64(b.last_offset);
            }
        }
    }

    pub(crate) fn take(t: &mut Take<'_>) -> Parse<ProducerTable> {
        let mut table = ProducerTable::default();
        for _ in 0..t.count(19)? {
            let (id, epoch, last_append_ms) = (t.i64()?, t.i16()?, t.i64()?);
            let n = usize::from(t.u8()?);
            if n > PRODUCER_BATCHES {
                return t.fail("batches of a producer", n, format!("at most {PRODUCER_BATCHES}"));
            }
            let mut batches = VecDeque::with_capacity(PRODUCER_BATCHES);
            for _ in 0..n {
                batches.push_back(ProducedBatch {
                    first_sequence: t.i32()?,
                    last_sequence: t.i32()?,
                    base_offset: t.i64()?,
                    last_offset: t.i64()?,
                });
            }
            table.insert(id, ProducerState { epoch, last_append_ms, batches });
        }
        Ok(table)
    }
}

impl EpochMap {
    pub(crate) fn put(&self, out: &mut impl Put) {
        out.count(self.entries().len());
        for (epoch, start) in self.entries() {
            out.i32(*epoch);
            out.i64(*start);
        }
    }

    pub(crate) fn take(t: &mut Take<'_>) -> Parse<EpochMap> {
        let n = t.count(12)?;
        let entries = (0..n).map(|_| Ok((t.i32()?, t.i64()?))).collect::<Parse<Vec<_>>>()?;
        match EpochMap::from_entries(entries) {
            Some(map) => Ok(map),
            None => t.fail("epoch map", "epochs or offsets that go back", "growing ones"),
        }
    }
}

pub(crate) fn put_index(index: &[IndexEntry], out: &mut impl Put) {
    out.count(index.len());
    for e in index {
        out.u64(e.position);
        out.i64(e.base_offset);
        out.i64(e.max_timestamp);
    }
}

pub(crate) fn take_index(t: &mut Take<'_>) -> Parse<Vec<IndexEntry>> {
    let n = t.count(24)?;
    (0..n)
        .map(|_| {
            Ok(IndexEntry { position: t.u64()?, base_offset: t.i64()?, max_timestamp: t.i64()? })
        })
        .collect()
}

impl SegmentState {
    fn put(&self, tail: &[&[u8]], out: &mut impl Put) {
        out.i64(self.base);
        out.i64(self.end);
        out.u8(match self.status {
            SegmentStatus::Active => 0,
            SegmentStatus::Rolled => 1,
            SegmentStatus::Sealed => 2,
        });
        out.u32(self.compaction);
        out.u64(self.length);
        out.u64(self.durable);
        for v in [
            self.first_append_ms,
            self.last_append_ms,
            self.first_timestamp,
            self.max_timestamp,
            self.max_timestamp_offset,
        ] {
            out.i64(v);
        }
        out.u32(self.meta_crc);
        put_index(&self.index, out);
        out.count(tail.iter().map(|part| part.len()).sum());
        tail.iter().for_each(|part| out.put(part));
    }

    fn take<'a>(t: &mut Take<'a>) -> Parse<(SegmentState, &'a [u8])> {
        let (base, end) = (t.i64()?, t.i64()?);
        let status = match t.u8()? {
            0 => SegmentStatus::Active,
            1 => SegmentStatus::Rolled,
            2 => SegmentStatus::Sealed,
            other => return t.fail("segment status", other, "0, 1 or 2"),
        };
        let segment = SegmentState {
            base,
            end,
            status,
            compaction: t.u32()?,
            length: t.u64()?,
            durable: t.u64()?,
            first_append_ms: t.i64()?,
            last_append_ms: t.i64()?,
            first_timestamp: t.i64()?,
            max_timestamp: t.i64()?,
            max_timestamp_offset: t.i64()?,
            meta_crc: t.u32()?,
            index: take_index(t)?.into(),
        };
        let n = t.count(1)?;
        let tail = t.bytes(n)?;
        let want = if status == SegmentStatus::Sealed {
            0
        } else {
            match segment.length.checked_sub(segment.durable) {
                Some(want) => want,
                None => return t.fail("durable bytes", segment.durable, segment.length),
            }
        };
        if tail.len() as u64 != want {
            return t.fail("tail length", tail.len(), want);
        }
        Ok((segment, tail))
    }
}

/// A partition record read back: the state, and the tail of each segment in its order.
pub(crate) struct PartitionRecord<'a> {
    pub state: PartitionState,
    pub tails: Vec<&'a [u8]>,
}

impl PartitionState {
    /// `tail(base)` gives the bytes `durable .. length` of an unsealed segment, in pieces.
    pub(crate) fn put<'a>(
        &self,
        tail: impl Fn(&SegmentState) -> Vec<&'a [u8]>,
        out: &mut impl Put,
    ) {
        self.reference().put(out);
        out.string(&self.topic);
        out.u64(self.applied.0);
        out.i64(self.log_start);
        out.i64(self.end);
        self.epochs.put(out);
        out.count(self.segments.len());
        for s in &self.segments {
            s.put(&tail(s), out);
        }
        self.producers.put(out);
    }

    pub(crate) fn take<'a>(t: &mut Take<'a>) -> Parse<PartitionRecord<'a>> {
        let PartitionRef { id, generation } = PartitionRef::take(t)?;
        let topic = t.string()?.to_owned();
        let applied = Sequence(t.u64()?);
        let (log_start, end) = (t.i64()?, t.i64()?);
        let epochs = EpochMap::take(t)?;
        let n = t.count(SEGMENT_RECORD_MIN)?;
        let mut segments = Vec::with_capacity(n);
        let mut tails = Vec::with_capacity(n);
        for _ in 0..n {
            let (segment, tail) = SegmentState::take(t)?;
            segments.push(segment);
            tails.push(tail);
        }
        let producers = ProducerTable::take(t)?;
        let dense = segments.windows(2).all(|w| w[0].end == w[1].base);
        let ends =
            segments.last().is_some_and(|s| s.end == end && s.status == SegmentStatus::Active);
        if !dense || !ends || log_start > end {
            return t.fail(
                "segment table",
                "segments that do not follow each other",
                "dense ones up to the log end",
            );
        }
        let state = PartitionState {
            id,
            generation,
            topic,
            applied,
            log_start,
            end,
            epochs,
            segments,
            producers,
        };
        Ok(PartitionRecord { state, tails })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::PartitionRef;
    use crate::ids::{Generation, PartitionId, TopicId};

    #[test]
    fn an_empty_partition_reads_back_as_it_was_written() {
        let id = PartitionId { topic: TopicId([1; 16]), index: 0 };
        let state = PartitionState::new(
            PartitionRef { id, generation: Generation(1) },
            "t",
            0,
            Sequence(3),
        );
        let mut out = Vec::new();
        state.put(|_| Vec::new(), &mut out);
        let mut t = Take::new(&out);
        assert_eq!(PartitionState::take(&mut t).unwrap().state, state);
        t.end().unwrap();
    }
}
