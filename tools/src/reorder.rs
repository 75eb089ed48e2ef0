//! Puts the chunks of a file back in order when they come from several partitions.
//!
//! Each partition holds its chunks in rising order, so the chunk that is missing is in a partition that has not come as
//! far yet. When more than half of the buffer is used, the partitions that are ahead stop being read until it is
//! nearly empty: so the buffer stays within its bound plus what was on its way.

use std::collections::BTreeMap;

use bytes::Bytes;
use rillway_client::TopicPartition;

use crate::error::{Error, Result};

/// The chunks that cannot be written yet.
#[derive(Debug)]
pub(crate) struct Reorder {
    /// In bytes.
    limit: usize,
    next: u64,
    waiting: BTreeMap<u64, Bytes>,
    buffered: usize,
    partitions: BTreeMap<TopicPartition, Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    last: Option<u64>,
    paused: bool,
    ended: bool,
}

impl Reorder {
    pub(crate) fn new(limit: usize, partitions: impl Iterator<Item = TopicPartition>) -> Self {
        Self {
            limit,
            next: 0,
            waiting: BTreeMap::new(),
            buffered: 0,
            partitions: partitions.map(|at| (at, Progress::default())).collect(),
        }
    }

    /// Takes a chunk of a partition. What can be written now comes from [`Self::pop`].
    ///
    /// # Errors
    /// [`Error::ChunkOrder`] when the partition has had this chunk or a later one.
    pub(crate) fn push(&mut self, at: &TopicPartition, index: u64, chunk: Bytes) -> Result<()> {
        let progress = self.partitions.entry(at.clone()).or_default();
        let twice = index < self.next || self.waiting.contains_key(&index);
        if let Some(last) = progress.last.filter(|last| *last >= index || twice) {
            return Err(order(at, last, index));
        }
        if twice {
            return Err(order(at, index, index));
        }
        progress.last = Some(index);
        // A chunk that is not written at once is copied, or it would keep the whole answer it came in.
        let chunk = if index == self.next { chunk } else { Bytes::copy_from_slice(&chunk) };
        self.buffered += chunk.len();
        self.waiting.insert(index, chunk);
        Ok(())
    }

    /// The next chunk of the file, if it is there.
    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let chunk = self.waiting.remove(&self.next)?;
        self.next += 1;
        self.buffered -= chunk.len();
        Some(chunk)
    }

    /// The partition was read to its end.
    pub(crate) fn end(&mut self, at: &TopicPartition) {
        self.partitions.entry(at.clone()).or_default().ended = true;
    }

    pub(crate) fn buffered(&self) -> usize {
        self.buffered
    }

    /// The partitions to stop reading now. They are ahead of what is missing.
    ///
    /// # Errors
    /// [`Error::MissingChunk`] when every partition is: nobody can bring it any more.
    pub(crate) fn pause(&mut self) -> Result<Vec<TopicPartition>> {
        if self.buffered <= self.limit / 2 {
            return Ok(Vec::new());
        }
        let next = self.next;
        let is_ahead = |p: &Progress| p.last.is_some_and(|last| last > next);
        let mut paused = Vec::new();
        for (at, progress) in &mut self.partitions {
            if !progress.paused && !progress.ended && is_ahead(progress) {
                progress.paused = true;
                paused.push(at.clone());
            }
        }
        if self.partitions.values().all(|p| p.ended || is_ahead(p)) {
            return Err(self.missing("all partitions are beyond it"));
        }
        Ok(paused)
    }

    /// The partitions to go on with: all of them when the buffer is nearly empty, and always those that are no longer
    /// ahead, since one of them has the chunk that is missing now.
    pub(crate) fn resume(&mut self) -> Vec<TopicPartition> {
        let (next, empty) = (self.next, self.buffered <= self.limit / 8);
        let is_due = |p: &Progress| p.paused && (empty || p.last.is_none_or(|last| last < next));
        let due = self.partitions.iter_mut().filter(|(_, p)| is_due(p));
        due.map(|(at, progress)| {
            progress.paused = false;
            at.clone()
        })
        .collect()
    }

    /// Everything was read: nothing may be left.
    ///
    /// # Errors
    /// [`Error::MissingChunk`] when later chunks wait for one.
    pub(crate) fn finish(&self) -> Result<()> {
        match self.waiting.first_key_value() {
            None => Ok(()),
            Some((first, _)) => Err(self
                .missing(&format!("{} later ones are there, from {first} on", self.waiting.len()))),
        }
    }

    fn missing(&self, what: &str) -> Error {
        Error::MissingChunk { expected: self.next, what: what.to_string() }
    }
}

fn order(at: &TopicPartition, last: u64, got: u64) -> Error {
    Error::ChunkOrder { topic: at.topic.to_string(), partition: at.partition, last, got }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(partition: i32) -> TopicPartition {
        TopicPartition::new("t", partition)
    }

    fn chunk() -> Bytes {
        Bytes::from_static(&[7; 10])
    }

    #[test]
    fn chunks_come_out_in_order_whatever_the_partitions_do() {
        let mut reorder = Reorder::new(1000, (0..2).map(at));
        for index in [1, 3] {
            reorder.push(&at(1), index, chunk()).expect("rising");
        }
        assert_eq!(reorder.pop(), None);
        reorder.push(&at(0), 0, chunk()).expect("rising");
        assert_eq!(std::iter::from_fn(|| reorder.pop()).count(), 2);
        assert!(matches!(reorder.finish(), Err(Error::MissingChunk { expected: 2, .. })));
        reorder.push(&at(0), 2, chunk()).expect("rising");
        assert_eq!(std::iter::from_fn(|| reorder.pop()).count(), 2);
        assert!(reorder.finish().is_ok());
    }

    #[test]
    fn partitions_that_are_ahead_wait_while_the_buffer_is_half_full() {
        let mut reorder = Reorder::new(40, (0..2).map(at));
        for index in [1, 3, 5] {
            reorder.push(&at(1), index, chunk()).expect("rising");
        }
        assert_eq!(reorder.pause().expect("partition 0 may bring it"), [at(1)]);
        assert!(reorder.resume().is_empty());
        for index in [0, 2, 4] {
            reorder.push(&at(0), index, chunk()).expect("rising");
            while reorder.pop().is_some() {}
        }
        assert_eq!(reorder.resume(), [at(1)]);
    }

    #[test]
    fn a_partition_that_waited_goes_on_when_the_missing_chunk_is_its_own() {
        let mut reorder = Reorder::new(40, (0..2).map(at));
        for index in [1, 3, 5] {
            reorder.push(&at(1), index, chunk()).expect("rising");
        }
        assert_eq!(reorder.pause().expect("partition 0 may bring it"), [at(1)]);
        for index in [0, 2, 4, 7, 8, 9, 10] {
            reorder.push(&at(0), index, chunk()).expect("rising");
            while reorder.pop().is_some() {}
        }
        assert!(reorder.buffered() > 40 / 2, "the buffer alone would keep it waiting");
        assert_eq!(reorder.resume(), [at(1)], "it has chunk 6");
        assert_eq!(reorder.pause().expect("partition 1 may bring it"), [at(0)]);
    }

    #[test]
    fn a_chunk_that_nobody_can_bring_is_an_error_and_not_a_wait() {
        let mut reorder = Reorder::new(10, (0..2).map(at));
        reorder.push(&at(1), 4, chunk()).expect("rising");
        reorder.end(&at(0));
        assert!(matches!(reorder.pause(), Err(Error::MissingChunk { expected: 0, .. })));
    }

    #[test]
    fn a_second_file_in_the_topic_is_noticed() {
        let mut reorder = Reorder::new(1000, (0..2).map(at));
        reorder.push(&at(0), 0, chunk()).expect("rising");
        reorder.pop();
        assert!(reorder.push(&at(0), 0, chunk()).is_err());
        assert!(reorder.push(&at(1), 0, chunk()).is_err());
    }
}
