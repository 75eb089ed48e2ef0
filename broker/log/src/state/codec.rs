//! Partition records and producer snapshots as bytes (FORMAT.md 4 and 6.3).

use std::collections::VecDeque;

use crate::bytes::{Parse, Put, Take};
use crate::entry::PartitionRef;
use crate::ids::Sequence;
use crate::limits::PRODUCER_BATCHES;
use crate::state::NO_TIMESTAMP;
use crate::state::producers::ProducedBatch;
use crate::state::{
    EpochMap, IndexEntry, PartitionState, ProducerState, ProducerTable, SegmentState, SegmentStatus,
};

/// A segment record of version 1 without index entries and without a tail (FORMAT.md 4).
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
        out.i64(self.horizon_ms);
        put_index(&self.index, out);
        out.count(tail.iter().map(|part| part.len()).sum());
        tail.iter().for_each(|part| out.put(part));
    }

    fn take<'a>(t: &mut Take<'a>, version: u16) -> Parse<(SegmentState, &'a [u8])> {
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
            horizon_ms: if version == 1 { NO_TIMESTAMP } else { t.i64()? },
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
        out.i64(self.clean_end);
        self.epochs.put(out);
        out.count(self.segments.len());
        for s in &self.segments {
            s.put(&tail(s), out);
        }
        self.producers.put(out);
    }

    /// `version`: of the checkpoint. Version 1 knew no compaction.
    pub(crate) fn take<'a>(t: &mut Take<'a>, version: u16) -> Parse<PartitionRecord<'a>> {
        let PartitionRef { id, generation } = PartitionRef::take(t)?;
        let topic = t.string()?.to_owned();
        let applied = Sequence(t.u64()?);
        let (log_start, end) = (t.i64()?, t.i64()?);
        let clean_end = if version == 1 { log_start } else { t.i64()? };
        let epochs = EpochMap::take(t)?;
        let n = t.count(SEGMENT_RECORD_MIN)?;
        let mut segments = Vec::with_capacity(n);
        let mut tails = Vec::with_capacity(n);
        for _ in 0..n {
            let (segment, tail) = SegmentState::take(t, version)?;
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
        // Everything of version 1 is dirty; the log start may lie in its active segment.
        let active = segments.last().map_or(0, |s| s.base);
        let clean_end = if version == 1 { clean_end.min(active) } else { clean_end };
        if clean_end > active {
            return t.fail("end of what is clean", clean_end, format!("up to {active}"));
        }
        let state = PartitionState {
            id,
            generation,
            topic,
            applied,
            log_start,
            end,
            clean_end,
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
        assert_eq!(PartitionState::take(&mut t, 2).unwrap().state, state);
        t.end().unwrap();
    }

    /// A record as builds wrote it that did not compact: a sealed segment, and an active one with a tail.
    fn version_1() -> Vec<u8> {
        let mut out = Vec::new();
        PartitionRef {
            id: PartitionId { topic: TopicId([1; 16]), index: 0 },
            generation: Generation(2),
        }
        .put(&mut out);
        out.string("t");
        out.u64(9);
        for v in [3, 12] {
            out.i64(v);
        }
        EpochMap::default().put(&mut out);
        out.count(2);
        for (base, end, status, length, durable) in
            [(0, 10, 2, 5_000, 5_000), (10, 12, 0, 4_100, 4_096)]
        {
            out.i64(base);
            out.i64(end);
            out.u8(status);
            out.u32(0);
            out.u64(length);
            out.u64(durable);
            for v in [100, 200, 50, 60, base] {
                out.i64(v);
            }
            out.u32(if status == 2 { 77 } else { 0 });
            put_index(&[], &mut out);
            let tail = (length - durable) as usize;
            out.count(tail);
            out.put(&vec![7; tail]);
        }
        ProducerTable::default().put(&mut out);
        out
    }

    #[test]
    fn a_record_of_a_build_that_did_not_compact_is_read_and_all_of_it_is_dirty() {
        let bytes = version_1();
        let mut t = Take::new(&bytes);
        let record = PartitionState::take(&mut t, 1).unwrap();
        t.end().unwrap();
        let p = record.state;
        assert_eq!((p.log_start, p.end, p.clean_end), (3, 12, 3));
        assert!(p.segments.iter().all(|s| (s.compaction, s.horizon_ms) == (0, -1)));
        assert_eq!(record.tails, [&[][..], &[7; 4]]);
        // Written again, it is of version 2, and says the same.
        let mut out = Vec::new();
        p.put(|s| if s.base == 10 { vec![&[7; 4][..]] } else { Vec::new() }, &mut out);
        assert_eq!(PartitionState::take(&mut Take::new(&out), 2).unwrap().state, p);
        let forged = [&bytes[..], &[0; 8]].concat();
        let mut t = Take::new(&forged);
        assert!(PartitionState::take(&mut t, 2).is_err() || t.end().is_err());
    }
}
