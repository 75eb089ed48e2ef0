//! The batches of one partition, from their first record to their delivery, in order.
//!
//! Two lists: `open`, batches that may still change, and `flight`, batches that were built and have their sequence
//! number for good. At most five are in flight, because a broker remembers the last five batches of a producer and
//! would take an older one, sent again, for a gap.
//!
//! After a retriable failure the batch is sent again only as the oldest in flight, and the ones behind it wait until
//! it is delivered: they would be refused as out of order, and, sent to two leaders in turn, could overtake it.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use rillway_wire::batch::{BatchBuilder, BatchError, sequence_after};

use crate::config::{Acks, ProducerConfig};
use crate::error::Error;

/// Most batches of a partition on their way (KIP-98: what a broker remembers).
pub(super) const MAX_IN_FLIGHT: usize = 5;

/// What a record takes besides its key and value: lengths and deltas are varints, at most 32 bytes in sum.
pub(super) const RECORD_OVERHEAD: usize = 32;

/// The id that a broker gave to an idempotent producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProducerId {
    pub(super) id: i64,
    pub(super) epoch: i16,
}

/// One record, borrowed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) timestamp: i64,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
}

impl Record<'_> {
    /// An upper bound of what it takes in a batch.
    pub(super) fn size(&self) -> usize {
        RECORD_OVERHEAD + self.key.map_or(0, <[u8]>::len) + self.value.map_or(0, <[u8]>::len)
    }
}

#[derive(Debug)]
struct Open {
    builder: BatchBuilder,
    /// What was counted against the buffer for its records.
    size: usize,
    queued_at: Duration,
}

/// A batch that was built.
#[derive(Debug)]
struct Flight {
    serial: u64,
    bytes: Bytes,
    records: u32,
    size: usize,
    queued_at: Duration,
    attempts: u32,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// To be sent, not before this time.
    Waiting(Duration),
    Sent,
    /// Written at this offset, but an older batch is not.
    Done(i64),
}

/// What left the queue.
#[derive(Debug)]
pub(super) struct Gone {
    pub(super) result: Result<i64, Error>,
    pub(super) records: u32,
    pub(super) size: usize,
    pub(super) queued_at: Duration,
}

/// The batches of one partition.
#[derive(Debug, Default)]
pub(super) struct Queue {
    open: VecDeque<Open>,
    flight: VecDeque<Flight>,
    next_sequence: i32,
    failed: Option<Error>,
}

impl Queue {
    /// Why nothing more is taken.
    pub(super) fn failure(&self) -> Option<&Error> {
        self.failed.as_ref()
    }

    /// Appends a record. True when there is something to do for whoever sends: a batch was closed, or a first record
    /// starts the time of a new one.
    pub(super) fn push(
        &mut self,
        record: Record<'_>,
        now: Duration,
        config: &ProducerConfig,
    ) -> bool {
        let size = record.size();
        let fits = self
            .open
            .back()
            .is_some_and(|open| open.builder.uncompressed_len() + size <= config.batch_bytes);
        if !fits {
            self.open.push_back(Open {
                builder: BatchBuilder::new(config.codec),
                size: 0,
                queued_at: now,
            });
        }
        if let Some(open) = self.open.back_mut() {
            let Record { timestamp, key, value } = record;
            open.builder.push(timestamp, key, value, &[]);
            open.size += size;
        }
        !fits
    }

    /// The batch that may be sent now, if there is one: its serial number and bytes.
    ///
    /// # Errors
    /// When its codec fails; the batch is still at the front of `open` then.
    pub(super) fn next(
        &mut self,
        now: Duration,
        flush: bool,
        producer: Option<ProducerId>,
        serials: &mut u64,
        config: &ProducerConfig,
    ) -> Result<Option<(u64, Bytes)>, BatchError> {
        if !self.is_due(now, flush, config) {
            return Ok(None);
        }
        if !self.flight.iter().any(|f| matches!(f.state, State::Waiting(_))) {
            self.build(producer, serials, config)?;
        }
        let waiting = |f: &&mut Flight| matches!(f.state, State::Waiting(_));
        Ok(self.flight.iter_mut().find(waiting).map(|f| {
            f.state = State::Sent;
            f.attempts += 1;
            (f.serial, f.bytes.clone())
        }))
    }

    /// Whether [`Self::next`] has a batch.
    pub(super) fn is_due(&self, now: Duration, flush: bool, config: &ProducerConfig) -> bool {
        self.due_at(flush, config).is_some_and(|at| at <= now)
    }

    /// When it has one, answers aside.
    pub(super) fn due_at(&self, flush: bool, config: &ProducerConfig) -> Option<Duration> {
        if self.failed.is_some() {
            return None;
        }
        let waiting = self.flight.iter().enumerate().find_map(|(index, f)| match f.state {
            State::Waiting(at) => Some((index, f, at)),
            State::Sent | State::Done(_) => None,
        });
        if let Some((index, flight, at)) = waiting {
            let retry_out_of_turn = flight.attempts > 0 && index > 0;
            return (!retry_out_of_turn).then_some(at);
        }
        let retried = self.flight.front().is_some_and(|f| f.attempts > 1);
        let most = match config.acks {
            Acks::Leader => 1,
            Acks::All => MAX_IN_FLIGHT,
        };
        if retried || self.flight.len() >= most {
            return None;
        }
        let first = self.open.front()?;
        if flush || self.open.len() > 1 {
            return Some(Duration::ZERO);
        }
        Some(first.queued_at.saturating_add(config.linger))
    }

    fn build(
        &mut self,
        producer: Option<ProducerId>,
        serials: &mut u64,
        config: &ProducerConfig,
    ) -> Result<(), BatchError> {
        let Some(mut open) = self.open.pop_front() else {
            return Ok(());
        };
        if let (Acks::All, Some(producer)) = (config.acks, producer) {
            let ProducerId { id, epoch } = producer;
            open.builder = open.builder.producer(id, epoch, self.next_sequence);
        }
        let bytes = match open.builder.build() {
            Ok(bytes) => Bytes::from(bytes),
            Err(error) => {
                self.open.push_front(open);
                return Err(error);
            }
        };
        let records = u32::try_from(open.builder.len()).unwrap_or(u32::MAX);
        self.next_sequence =
            sequence_after(self.next_sequence, i32::try_from(records).unwrap_or(i32::MAX));
        *serials += 1;
        self.flight.push_back(Flight {
            serial: *serials,
            bytes,
            records,
            size: open.size,
            queued_at: open.queued_at,
            attempts: 0,
            state: State::Waiting(Duration::ZERO),
        });
        Ok(())
    }

    /// How often the batch was sent.
    pub(super) fn attempts(&self, serial: u64) -> Option<u32> {
        self.find(serial).map(|index| self.flight[index].attempts)
    }

    /// Whether no older batch is undelivered.
    pub(super) fn is_oldest(&self, serial: u64) -> bool {
        self.flight.front().is_some_and(|f| f.serial == serial)
    }

    fn find(&self, serial: u64) -> Option<usize> {
        self.flight.iter().position(|f| f.serial == serial)
    }

    /// The batch is written at `offset` (-1: unknown). What is delivered by it, in order, goes to `gone`.
    pub(super) fn done(&mut self, serial: u64, offset: i64, gone: &mut Vec<Gone>) {
        if let Some(index) = self.find(serial) {
            self.flight[index].state = State::Done(offset);
        }
        while let Some(Flight { state: State::Done(offset), .. }) = self.flight.front() {
            let offset = *offset;
            gone.extend(self.flight.pop_front().map(|flight| flight.gone(Ok(offset))));
        }
    }

    /// The batch shall be sent again, not before `at`.
    pub(super) fn retry(&mut self, serial: u64, at: Duration) {
        if let Some(index) = self.find(serial)
            && self.flight[index].state == State::Sent
        {
            self.flight[index].state = State::Waiting(at);
        }
    }

    /// The oldest batch that is past its time.
    pub(super) fn expires_at(&self, config: &ProducerConfig) -> Option<Duration> {
        let oldest = self.flight.front().map(|f| f.queued_at);
        let oldest = oldest.or(self.open.front().map(|o| o.queued_at));
        oldest.map(|at| at.saturating_add(config.delivery_timeout))
    }

    /// Nothing more is sent: `error` is the result of the oldest batch, and the others stand behind it.
    pub(super) fn fail(&mut self, error: &Error, behind: &Error, gone: &mut Vec<Gone>) {
        if self.failed.is_none() {
            self.failed = Some(behind.clone());
        }
        let mut errors = std::iter::once(error).chain(std::iter::repeat(behind)).cloned();
        for flight in self.flight.drain(..) {
            // Written is written, also when an older batch is not.
            let result = match flight.state {
                State::Done(offset) => Ok(offset),
                State::Waiting(_) | State::Sent => Err(errors.next().unwrap_or(Error::Closed)),
            };
            gone.push(flight.gone(result));
        }
        for open in self.open.drain(..) {
            gone.push(Gone {
                result: Err(errors.next().unwrap_or(Error::Closed)),
                records: u32::try_from(open.builder.len()).unwrap_or(u32::MAX),
                size: open.size,
                queued_at: open.queued_at,
            });
        }
    }
}

impl Flight {
    fn gone(self, result: Result<i64, Error>) -> Gone {
        Gone { result, records: self.records, size: self.size, queued_at: self.queued_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rillway_wire::batch::BatchView;

    const ID: Option<ProducerId> = Some(ProducerId { id: 9, epoch: 0 });

    fn config() -> ProducerConfig {
        ProducerConfig { batch_bytes: 160, ..ProducerConfig::default() }
    }

    /// A queue of `batches` batches with two records each.
    fn filled(batches: usize) -> Queue {
        let mut queue = Queue::default();
        for _ in 0..2 * batches {
            let record = Record { timestamp: 0, key: None, value: Some(&[7; 30]) };
            queue.push(record, Duration::ZERO, &config());
        }
        assert_eq!(queue.open.len(), batches);
        queue
    }

    fn next(queue: &mut Queue, serials: &mut u64) -> Option<(u64, i32)> {
        let next = queue.next(Duration::ZERO, true, ID, serials, &config());
        next.expect("no codec").map(|(serial, bytes)| {
            (serial, BatchView::parse(&bytes).expect("a batch").base_sequence())
        })
    }

    #[test]
    fn five_batches_are_in_flight_with_sequences_in_order() {
        let (mut queue, mut serials) = (filled(7), 0);
        let sent: Vec<_> = std::iter::from_fn(|| next(&mut queue, &mut serials)).collect();
        assert_eq!(sent, [(1, 0), (2, 2), (3, 4), (4, 6), (5, 8)]);
        let mut gone = Vec::new();
        queue.done(1, 100, &mut gone);
        assert_eq!(gone.len(), 1);
        assert_eq!(next(&mut queue, &mut serials), Some((6, 10)));
    }

    #[test]
    fn after_a_failure_batches_go_again_one_by_one_with_their_old_sequences() {
        let (mut queue, mut serials, mut gone) = (filled(4), 0, Vec::new());
        for _ in 0..3 {
            next(&mut queue, &mut serials);
        }
        for serial in 1..=3 {
            queue.retry(serial, Duration::ZERO);
        }
        for (serial, sequence) in [(1, 0), (2, 2), (3, 4)] {
            assert_eq!(next(&mut queue, &mut serials), Some((serial, sequence)));
            assert_eq!(next(&mut queue, &mut serials), None, "the others wait");
            queue.done(serial, 0, &mut gone);
        }
        assert_eq!(next(&mut queue, &mut serials), Some((4, 6)));
    }

    #[test]
    fn a_batch_that_is_written_before_an_older_one_is_delivered_behind_it() {
        let (mut queue, mut serials, mut gone) = (filled(2), 0, Vec::new());
        next(&mut queue, &mut serials);
        next(&mut queue, &mut serials);
        queue.done(2, 12, &mut gone);
        assert!(gone.is_empty());
        queue.done(1, 10, &mut gone);
        let offsets: Vec<_> = gone.iter().map(|g| g.result.clone()).collect();
        assert_eq!(offsets, [Ok(10), Ok(12)]);
    }

    #[test]
    fn an_acks_1_queue_has_one_batch_in_flight_and_no_sequence() {
        let config = ProducerConfig { acks: Acks::Leader, ..config() };
        let (mut queue, mut serials) = (filled(3), 0);
        let first = queue.next(Duration::ZERO, true, None, &mut serials, &config);
        let (_, bytes) = first.expect("no codec").expect("a batch");
        assert_eq!(BatchView::parse(&bytes).expect("a batch").producer_id(), -1);
        let second = queue.next(Duration::ZERO, true, None, &mut serials, &config);
        assert_eq!(second, Ok(None));
    }

    #[test]
    fn an_open_batch_waits_for_its_linger_and_a_closed_one_does_not() {
        let mut queue = filled(1);
        assert_eq!(queue.due_at(false, &config()), Some(config().linger));
        let record = Record { timestamp: 0, key: None, value: Some(&[7; 30]) };
        assert!(queue.push(record, Duration::ZERO, &config()), "a second batch was opened");
        assert!(queue.is_due(Duration::ZERO, false, &config()));
    }
}
