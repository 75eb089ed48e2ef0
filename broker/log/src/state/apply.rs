//! The one function that changes flushed state, for the living broker and for recovery alike.

use std::rc::Rc;

use crate::entry::NewSegment;
use crate::ids::Sequence;
use crate::limits::block_down;
use crate::state::{
    BatchInfo, PartitionState, ProducerTable, SegmentKey, SegmentState, SegmentStatus,
};

/// An entry, reduced to what changes a partition's state. The bytes themselves go to the tail.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Append {
        segment: i64,
        position: u64,
        batches: Vec<BatchInfo>,
    },
    /// As `Append`, with everything below `position + length` durable in the segment already.
    Extent {
        segment: i64,
        position: u64,
        length: u64,
        batches: Vec<BatchInfo>,
    },
    Roll {
        ended: i64,
        length: u64,
        next: i64,
    },
    Seal {
        segment: i64,
        length: u64,
        meta_crc: u32,
    },
    /// Compaction: these rows of the table, one behind the other, become those.
    Replace {
        clean_end: i64,
        old: Vec<SegmentKey>,
        new: Vec<NewSegment>,
    },
    LogStart {
        offset: i64,
    },
    Epoch {
        epoch: i32,
        start: i64,
    },
    Truncate {
        end: i64,
        segment: i64,
        length: u64,
        producers: ProducerTable,
    },
}

/// An entry that does not fit the state: corruption when replayed, a bug when live.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub what: &'static str,
    pub got: String,
    pub expected: String,
}

fn expect<T: PartialEq + ToString>(
    what: &'static str,
    got: T,
    expected: T,
) -> Result<(), Mismatch> {
    if got == expected {
        Ok(())
    } else {
        Err(Mismatch { what, got: got.to_string(), expected: expected.to_string() })
    }
}

impl PartitionState {
    /// Applies one flushed change. Returns the segments that left the table, whose files can go.
    pub(crate) fn apply(
        &mut self,
        change: &Change,
        wall_ms: i64,
        sequence: Sequence,
    ) -> Result<Vec<SegmentState>, Mismatch> {
        let mut gone = Vec::new();
        match change {
            Change::Append { segment, position, batches } => {
                expect("position of an append", *position, self.active().length)?;
                self.append(*segment, batches, wall_ms)?;
            }
            Change::Extent { segment, position, length, batches } => {
                let whole = block_down(self.active().length);
                if *position > whole || *position != block_down(*position) {
                    let up_to = format!("a block boundary up to {whole}");
                    return expect("position of an extent", position.to_string(), up_to)
                        .map(|()| gone);
                }
                self.append(*segment, batches, wall_ms)?;
                let active = self.active_mut();
                let durable = *position + *length;
                if durable > active.length || durable != block_down(durable) {
                    return Err(Mismatch {
                        what: "end of an extent",
                        got: durable.to_string(),
                        expected: format!("a block boundary up to {}", active.length),
                    });
                }
                // A destage round may have come further meanwhile, with the same bytes.
                active.durable = active.durable.max(durable);
            }
            Change::Roll { ended, length, next } => {
                expect("segment that ends", *ended, self.active().base)?;
                expect("length of a rolled segment", *length, self.active().length)?;
                expect("base of the next segment", *next, self.end)?;
                self.active_mut().status = SegmentStatus::Rolled;
                self.segments.push(SegmentState::new(*next));
            }
            Change::Seal { segment, length, meta_crc } => {
                let Some(s) = self.segment_mut(*segment) else {
                    return expect(
                        "segment that is sealed",
                        "none".to_owned(),
                        segment.to_string(),
                    )
                    .map(|()| gone);
                };
                expect("length of a sealed segment", *length, s.length)?;
                if s.status == SegmentStatus::Active {
                    return expect("status of a sealed segment", "active", "rolled").map(|()| gone);
                }
                s.status = SegmentStatus::Sealed;
                s.durable = s.length;
                s.meta_crc = *meta_crc;
                s.index = Rc::default();
            }
            Change::Replace { clean_end, old, new } => {
                gone = self.replace(*clean_end, old, new)?;
            }
            Change::LogStart { offset } => {
                if *offset > self.end || *offset < self.log_start {
                    let range = format!("{}..={}", self.log_start, self.end);
                    return expect("log start", offset.to_string(), range).map(|()| gone);
                }
                self.log_start = *offset;
                self.epochs.trim_front(*offset);
                let n = self
                    .segments
                    .iter()
                    .take_while(|s| s.status == SegmentStatus::Sealed && s.end <= *offset)
                    .count();
                gone.extend(self.segments.drain(..n));
            }
            Change::Epoch { epoch, start } => {
                expect("start of an epoch", *start, self.end)?;
                if self.epochs.latest().is_some_and(|last| last >= *epoch) {
                    let above = format!("above {:?}", self.epochs.latest());
                    return expect("leader epoch", epoch.to_string(), above).map(|()| gone);
                }
                self.epochs.begin(*epoch, *start);
            }
            Change::Truncate { end, segment, length, producers } => {
                gone = self.truncate(*end, *segment, *length, producers)?;
            }
        }
        self.applied = sequence;
        self.check();
        Ok(gone)
    }

    fn append(
        &mut self,
        segment: i64,
        batches: &[BatchInfo],
        wall_ms: i64,
    ) -> Result<(), Mismatch> {
        expect("segment of an append", segment, self.active().base)?;
        for b in batches {
            expect("base offset of a batch", b.base_offset, self.end)?;
            if b.next_offset <= b.base_offset {
                return expect("offsets of a batch", b.next_offset, b.base_offset + 1);
            }
            self.active_mut().push(b, wall_ms);
            self.producers.push(b, wall_ms);
            self.end = b.next_offset;
        }
        Ok(())
    }

    fn replace(
        &mut self,
        clean_end: i64,
        old: &[SegmentKey],
        new: &[NewSegment],
    ) -> Result<Vec<SegmentState>, Mismatch> {
        let start = self.active().base;
        if clean_end < self.clean_end || clean_end > start {
            let range = format!("{}..={start}", self.clean_end);
            return expect("end of what is clean", clean_end.to_string(), range)
                .map(|()| Vec::new());
        }
        let mut gone = Vec::new();
        if let (Some(first), Some(last)) = (old.first(), old.last()) {
            let at = self.segments.partition_point(|s| s.base < first.base);
            let rows = self.segments.get(at..at + old.len()).unwrap_or_default();
            let same = rows.len() == old.len()
                && rows.iter().zip(old).all(|(row, key)| row.key() == *key)
                && rows.iter().all(|row| row.status == SegmentStatus::Sealed);
            if !same {
                let got = format!(
                    "{}.{} to {}.{}",
                    first.base, first.compaction, last.base, last.compaction
                );
                return expect(
                    "segments that are replaced",
                    got,
                    "sealed ones of the table".to_owned(),
                )
                .map(|()| Vec::new());
            }
            let (base, end) = (rows[0].base, rows[rows.len() - 1].end);
            let mut next = base;
            for n in new {
                expect("base of a new segment", n.base, next)?;
                next = n.end;
            }
            expect("end of the new segments", next, end)?;
            gone.extend(
                self.segments.splice(at..at + old.len(), new.iter().map(SegmentState::from)),
            );
        } else if !new.is_empty() {
            return expect("new segments that replace none", new.len(), 0).map(|()| Vec::new());
        }
        self.clean_end = clean_end;
        Ok(gone)
    }

    fn truncate(
        &mut self,
        end: i64,
        segment: i64,
        length: u64,
        producers: &ProducerTable,
    ) -> Result<Vec<SegmentState>, Mismatch> {
        if end < self.log_start || end > self.end {
            let range = format!("{}..={}", self.log_start, self.end);
            return expect("new end", end.to_string(), range).map(|()| Vec::new());
        }
        let at = self.segments.partition_point(|s| s.base <= segment);
        let gone = self.segments.split_off(at);
        expect("segment that is cut", self.segments.last().map_or(-1, |s| s.base), segment)?;
        let cut = self.active_mut();
        if length > cut.length {
            return expect("new length", length.to_string(), format!("at most {}", cut.length))
                .map(|()| Vec::new());
        }
        cut.status = SegmentStatus::Active;
        cut.length = length;
        cut.end = end;
        cut.durable = cut.durable.min(block_down(length));
        Rc::make_mut(&mut cut.index).retain(|e| e.position < length);
        // The largest timestamp may have been cut away. It stays as an upper bound: a search by time then reads a
        // segment in vain and goes on.
        self.end = end;
        self.clean_end = self.clean_end.min(self.active().base);
        self.epochs.trim_back(end);
        self.producers = producers.clone();
        Ok(gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::PartitionRef;
    use crate::ids::{Generation, PartitionId, TopicId};

    fn partition() -> PartitionState {
        let id = PartitionId { topic: TopicId([1; 16]), index: 0 };
        PartitionState::new(PartitionRef { id, generation: Generation(1) }, "t", 0, Sequence(1))
    }

    fn batch(base: i64, count: i64, len: u32, timestamp: i64) -> BatchInfo {
        BatchInfo {
            base_offset: base,
            next_offset: base + count,
            len,
            base_timestamp: timestamp,
            max_timestamp: timestamp,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            last_sequence: -1,
            leader_epoch: 0,
        }
    }

    fn append(
        p: &mut PartitionState,
        batches: Vec<BatchInfo>,
    ) -> Result<Vec<SegmentState>, Mismatch> {
        let change =
            Change::Append { segment: p.active().base, position: p.active().length, batches };
        p.apply(&change, 500, Sequence(2))
    }

    #[test]
    fn appends_move_the_end_and_the_largest_timestamp() {
        let mut p = partition();
        append(&mut p, vec![batch(0, 3, 100, 50), batch(3, 1, 100, 40)]).unwrap();
        assert_eq!((p.end, p.active().length), (4, 200));
        assert_eq!((p.active().max_timestamp, p.active().max_timestamp_offset), (50, 0));
    }

    #[test]
    fn an_append_that_leaves_a_hole_does_not_fit() {
        let mut p = partition();
        assert_eq!(
            append(&mut p, vec![batch(1, 1, 100, 0)]).unwrap_err().what,
            "base offset of a batch"
        );
        let change = Change::Append { segment: 0, position: 7, batches: vec![batch(0, 1, 10, 0)] };
        assert_eq!(p.apply(&change, 0, Sequence(2)).unwrap_err().what, "position of an append");
    }

    #[test]
    fn the_log_start_takes_sealed_segments_only() {
        let mut p = partition();
        append(&mut p, vec![batch(0, 5, 100, 0)]).unwrap();
        p.apply(&Change::Roll { ended: 0, length: 100, next: 5 }, 0, Sequence(3)).unwrap();
        let gone = p.clone().apply(&Change::LogStart { offset: 5 }, 0, Sequence(4)).unwrap();
        assert!(gone.is_empty(), "a rolled segment stays until its SEAL is flushed");
        p.apply(&Change::Seal { segment: 0, length: 100, meta_crc: 1 }, 0, Sequence(4)).unwrap();
        let gone = p.apply(&Change::LogStart { offset: 5 }, 0, Sequence(5)).unwrap();
        assert_eq!(gone.iter().map(|s| s.base).collect::<Vec<_>>(), [0]);
        assert_eq!((p.log_start, p.end), (5, 5));
    }

    /// Three sealed segments of five offsets each, and an active one.
    fn sealed() -> PartitionState {
        let mut p = partition();
        for base in [0, 5, 10] {
            append(&mut p, vec![batch(base, 5, 100, 0)]).unwrap();
            let roll = Change::Roll { ended: base, length: 100, next: base + 5 };
            p.apply(&roll, 0, Sequence(3)).unwrap();
            let seal = Change::Seal { segment: base, length: 100, meta_crc: 1 };
            p.apply(&seal, 0, Sequence(3)).unwrap();
        }
        p
    }

    fn new_segment(base: i64, end: i64) -> NewSegment {
        NewSegment { end, compaction: 1, length: 70, ..NewSegment::from(&SegmentState::new(base)) }
    }

    #[test]
    fn compaction_puts_new_rows_in_the_place_of_those_that_it_names() {
        let mut p = sealed();
        let old = [0, 5].map(SegmentKey::written).to_vec();
        let change =
            Change::Replace { clean_end: 8, old: old.clone(), new: vec![new_segment(0, 10)] };
        let gone = p.apply(&change, 0, Sequence(4)).unwrap();
        assert_eq!(gone.iter().map(SegmentState::key).collect::<Vec<_>>(), old);
        let rows: Vec<_> = p.segments.iter().map(|s| (s.base, s.end, s.compaction)).collect();
        assert_eq!(rows, [(0, 10, 1), (10, 15, 0), (15, 15, 0)]);
        assert_eq!((p.clean_end, p.segments[0].status), (8, SegmentStatus::Sealed));
        // Once more the same rows are not there.
        assert_eq!(
            p.apply(&change, 0, Sequence(5)).unwrap_err().what,
            "segments that are replaced"
        );
        let on = Change::Replace { clean_end: 15, old: Vec::new(), new: Vec::new() };
        assert_eq!(p.apply(&on, 0, Sequence(5)), Ok(Vec::new()));
        assert_eq!(p.clean_end, 15);
    }

    #[test]
    fn a_replacement_that_does_not_fit_the_table_changes_nothing() {
        let keys =
            |bases: &[i64]| bases.iter().map(|b| SegmentKey::written(*b)).collect::<Vec<_>>();
        let cases: [(&str, i64, Vec<SegmentKey>, Vec<NewSegment>); 8] = [
            ("the active segment", 5, keys(&[10, 15]), vec![new_segment(10, 15)]),
            ("a hole between the old ones", 5, keys(&[0, 10]), vec![new_segment(0, 15)]),
            (
                "another form",
                5,
                vec![SegmentKey { base: 0, compaction: 1 }],
                vec![new_segment(0, 5)],
            ),
            ("less than the old ones", 5, keys(&[0, 5]), vec![new_segment(0, 5)]),
            (
                "a hole in the new ones",
                5,
                keys(&[0, 5]),
                vec![new_segment(0, 4), new_segment(5, 10)],
            ),
            ("new ones for none", 5, Vec::new(), vec![new_segment(0, 5)]),
            ("clean beyond what is sealed", 16, keys(&[0]), vec![new_segment(0, 5)]),
            ("clean end that goes back", -1, keys(&[0]), vec![new_segment(0, 5)]),
        ];
        for (what, clean_end, old, new) in cases {
            let mut p = sealed();
            let before = p.clone();
            assert!(
                p.apply(&Change::Replace { clean_end, old, new }, 0, Sequence(4)).is_err(),
                "{what}"
            );
            assert_eq!(p, before, "{what}");
        }
    }

    #[test]
    fn a_coarse_index_has_an_entry_per_interval_and_the_largest_timestamp_before_it() {
        let mut p = partition();
        let len = 100 << 10;
        append(&mut p, (0..10).map(|i| batch(i, 1, len, 10 + i)).collect()).unwrap();
        let index: Vec<_> =
            p.active().index.iter().map(|e| (e.base_offset, e.max_timestamp)).collect();
        assert_eq!(index, [(0, -1), (3, 12), (6, 15), (9, 18)]);
    }
}
