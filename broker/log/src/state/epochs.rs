//! Leader epochs and where each begins (KIP-101).

/// Pairs (leader epoch, start offset), both strictly growing except that equal starts are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpochMap {
    entries: Vec<(i32, i64)>,
}

impl EpochMap {
    pub(crate) fn from_entries(entries: Vec<(i32, i64)>) -> Option<EpochMap> {
        entries
            .windows(2)
            .all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1)
            .then_some(EpochMap { entries })
    }

    pub fn entries(&self) -> &[(i32, i64)] {
        &self.entries
    }

    /// The epoch that a record at `offset` was written in; `None` below the first one that is known.
    pub fn at(&self, offset: i64) -> Option<i32> {
        let at = self.entries.partition_point(|(_, start)| *start <= offset);
        at.checked_sub(1).and_then(|at| self.entries.get(at)).map(|(epoch, _)| *epoch)
    }

    /// The newest epoch, if there is one.
    pub fn latest(&self) -> Option<i32> {
        self.entries.last().map(|(epoch, _)| *epoch)
    }

    /// A new epoch begins at `start`. An epoch that held no record is replaced, since nothing was written in it.
    pub(crate) fn begin(&mut self, epoch: i32, start: i64) {
        assert!(
            self.latest().is_none_or(|last| last < epoch),
            "epochs never go back: {epoch} after {:?}",
            self.latest()
        );
        while self.entries.last().is_some_and(|(_, s)| *s >= start) {
            self.entries.pop();
        }
        self.entries.push((epoch, start));
    }

    /// Forgets what lies wholly below `offset`; the epoch that covers it stays, its start moved up.
    pub(crate) fn trim_front(&mut self, offset: i64) {
        let keep = self.entries.iter().rposition(|(_, s)| *s <= offset).unwrap_or(0);
        self.entries.drain(..keep);
        if let Some(first) = self.entries.first_mut() {
            first.1 = first.1.max(offset);
        }
    }

    /// Cuts everything at and beyond `end`.
    pub(crate) fn trim_back(&mut self, end: i64) {
        while self.entries.len() > 1 && self.entries.last().is_some_and(|(_, s)| *s >= end) {
            self.entries.pop();
        }
    }

    /// End of `epoch` as OffsetForLeaderEpoch answers it: the largest epoch that is not above the asked one, and the
    /// start of the one behind it (or `log_end`). `None` when all known epochs are above it, or it is in the future.
    pub fn end_of(&self, epoch: i32, log_end: i64) -> Option<(i32, i64)> {
        if self.latest().is_none_or(|last| epoch > last) {
            return None;
        }
        let at = self.entries.iter().rposition(|(e, _)| *e <= epoch)?;
        let end = self.entries.get(at + 1).map_or(log_end, |(_, start)| *start);
        Some((self.entries[at].0, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_ends_where_the_next_begins_and_the_last_at_the_log_end() {
        let mut m = EpochMap::default();
        m.begin(0, 0);
        m.begin(3, 10);
        assert_eq!(m.end_of(0, 99), Some((0, 10)));
        assert_eq!(m.end_of(2, 99), Some((0, 10)));
        assert_eq!(m.end_of(3, 99), Some((3, 99)));
        assert_eq!(m.end_of(4, 99), None);
    }

    #[test]
    fn an_epoch_without_records_is_replaced_by_the_next() {
        let mut m = EpochMap::default();
        m.begin(0, 0);
        m.begin(1, 5);
        m.begin(2, 5);
        assert_eq!(m.entries(), [(0, 0), (2, 5)]);
    }

    #[test]
    fn trimming_the_head_keeps_the_epoch_that_covers_it() {
        let mut m = EpochMap::default();
        m.begin(0, 0);
        m.begin(1, 5);
        m.begin(2, 9);
        m.trim_front(7);
        assert_eq!(m.entries(), [(1, 7), (2, 9)]);
    }
}
