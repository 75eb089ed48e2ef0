//! The idempotent producer: records in, Produce requests out, deliveries back, per partition in order.
//!
//! A producer id is asked for once. What the broker refuses for good (a record too large, a gap in the sequence, a
//! time-out) fails its partition for good: everything behind the failed batch fails too, and nothing is sent to that
//! partition any more. A new client starts with a new producer id. Absent on purpose: going on with a new epoch
//! (KIP-360), which would need to know that nothing of the old one is still on its way.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use rillway_wire::ErrorCode;
use rillway_wire::api::produce;

use super::TopicPartition;
use super::queue::{Gone, ProducerId, Queue, RECORD_OVERHEAD, Record};
use crate::config::{Acks, ProducerConfig};
use crate::error::{Error, Result};

/// What became of a batch. Those of one partition come in the order of their records, so counting records is enough to
/// know which these are.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub at: TopicPartition,
    /// Offset of the first record; `None`: written, but the broker had forgotten where (a retry of an old batch).
    pub result: Result<Option<i64>>,
    pub records: u32,
    /// Bytes of their keys and values.
    pub bytes: usize,
    /// When the first record was taken, on the clock of the client.
    pub queued_at: Duration,
}

/// A batch inside a Produce request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) at: TopicPartition,
    pub(super) serial: u64,
}

#[derive(Debug)]
enum Identity {
    /// With `acks=1` there is none.
    Unneeded,
    Wanted {
        not_before: Duration,
    },
    Asked,
    Known(ProducerId),
}

/// The producer of a client.
#[derive(Debug)]
pub(super) struct Producer {
    config: ProducerConfig,
    backoff: Duration,
    identity: Identity,
    queues: BTreeMap<TopicPartition, Queue>,
    buffered: usize,
    serials: u64,
    /// Nobody sends more for now: no batch waits for its linger, until all is delivered.
    flush: bool,
    /// Somebody waits for room: the same, until half of the buffer is free.
    full: bool,
    deliveries: VecDeque<Delivery>,
}

impl Producer {
    pub(super) fn new(config: ProducerConfig, backoff: Duration) -> Self {
        let identity = match config.acks {
            Acks::Leader => Identity::Unneeded,
            Acks::All => Identity::Wanted { not_before: Duration::ZERO },
        };
        Self {
            config,
            backoff,
            identity,
            queues: BTreeMap::new(),
            buffered: 0,
            serials: 0,
            flush: false,
            full: false,
            deliveries: VecDeque::new(),
        }
    }

    pub(super) fn config(&self) -> &ProducerConfig {
        &self.config
    }

    /// Takes a record, or says `None` when the buffer is full: come back after a delivery. `Some(true)`: there is
    /// something to send, or a timer to set.
    pub(super) fn send(
        &mut self,
        at: &TopicPartition,
        record: Record<'_>,
        now: Duration,
    ) -> Result<Option<bool>> {
        let (len, limit) =
            (record.size() + rillway_wire::batch::BATCH_HEADER, self.config.batch_bytes);
        if len > limit {
            return Err(Error::RecordTooLarge { len, limit });
        }
        if !self.queues.contains_key(at) {
            self.queues.insert(at.clone(), Queue::default());
        }
        let Some(queue) = self.queues.get_mut(at) else {
            return Ok(None);
        };
        if let Some(failure) = queue.failure() {
            return Err(failure.clone());
        }
        if self.buffered > 0 && self.buffered + record.size() > self.config.buffer_bytes {
            self.full = true;
            return Ok(None);
        }
        self.buffered += record.size();
        Ok(Some(queue.push(record, now, &self.config)))
    }

    fn hurry(&self) -> bool {
        self.flush || self.full
    }

    /// Sends what there is without waiting for more, until everything is delivered.
    pub(super) fn flush(&mut self) {
        self.flush = true;
    }

    /// Bytes of records that are not delivered.
    pub(super) fn buffered(&self) -> usize {
        self.buffered
    }

    pub(super) fn next_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    pub(super) fn has_deliveries(&self) -> bool {
        !self.deliveries.is_empty()
    }

    /// Whether to ask for a producer id now. The answer goes to [`Self::identified`] or [`Self::unidentified`].
    pub(super) fn wants_id(&self, now: Duration) -> bool {
        matches!(self.identity, Identity::Wanted { not_before } if not_before <= now)
            && self.buffered > 0
    }

    pub(super) fn id_asked(&mut self) {
        self.identity = Identity::Asked;
    }

    pub(super) fn identified(&mut self, id: i64, epoch: i16) {
        self.identity = Identity::Known(ProducerId { id, epoch });
    }

    pub(super) fn unidentified(&mut self, now: Duration) {
        self.identity = Identity::Wanted { not_before: now.saturating_add(self.backoff) };
    }

    /// The partitions with a batch that could be sent now.
    pub(super) fn due(&self, now: Duration) -> impl Iterator<Item = &TopicPartition> {
        let ready = matches!(self.identity, Identity::Known(_) | Identity::Unneeded);
        let queues = self.queues.iter().filter(move |_| ready);
        queues
            .filter(move |(_, queue)| queue.is_due(now, self.hurry(), &self.config))
            .map(|(at, _)| at)
    }

    /// Takes the next batch of each of `partitions` until the request is as large as it may be.
    pub(super) fn take(
        &mut self,
        partitions: &[TopicPartition],
        now: Duration,
    ) -> Vec<(Sent, Bytes)> {
        let producer = match self.identity {
            Identity::Known(id) => Some(id),
            Identity::Unneeded | Identity::Wanted { .. } | Identity::Asked => None,
        };
        let (mut taken, mut bytes, hurry) = (Vec::new(), 0, self.hurry());
        for at in partitions {
            if bytes >= self.config.request_bytes {
                break;
            }
            let Some(queue) = self.queues.get_mut(at) else {
                continue;
            };
            match queue.next(now, hurry, producer, &mut self.serials, &self.config) {
                Ok(Some((serial, batch))) => {
                    bytes += batch.len();
                    let at = at.clone();
                    taken.push((Sent { at, serial }, batch));
                }
                Ok(None) => {}
                Err(source) => {
                    let error = Error::Batch {
                        topic: at.topic.to_string(),
                        partition: at.partition,
                        offset: -1,
                        source,
                    };
                    self.fail(&at.clone(), &error);
                }
            }
        }
        taken
    }

    /// The broker's answer to one batch. True when the leader should be looked up again.
    pub(super) fn answered(
        &mut self,
        sent: &Sent,
        answer: &produce::PartitionResponse<'_>,
        now: Duration,
    ) -> bool {
        let code = answer.error_code;
        if matches!(code, ErrorCode::None | ErrorCode::DuplicateSequenceNumber) {
            let Some(queue) = self.queues.get_mut(&sent.at) else {
                return false;
            };
            let mut gone = Vec::new();
            let offset = if code == ErrorCode::None { answer.base_offset } else { -1 };
            queue.done(sent.serial, offset, &mut gone);
            self.leave(&sent.at, gone);
            return false;
        }
        let Some(queue) = self.queues.get(&sent.at) else {
            return false;
        };
        // The batches behind one that failed arrive out of order, and are not at fault.
        let follows_a_failure =
            code == ErrorCode::OutOfOrderSequenceNumber && !queue.is_oldest(sent.serial);
        if code.is_retriable() || follows_a_failure {
            self.retry(sent, now);
            return !follows_a_failure;
        }
        let error = Error::Broker {
            doing: format!("producing to {}", sent.at),
            code,
            message: answer.error_message.map(str::to_string),
        };
        self.fail(&sent.at.clone(), &error);
        false
    }

    /// No answer will come: the connection ended, or the broker forgot the partition.
    pub(super) fn retry(&mut self, sent: &Sent, now: Duration) {
        let Some(queue) = self.queues.get_mut(&sent.at) else {
            return;
        };
        let Some(attempts) = queue.attempts(sent.serial) else {
            return;
        };
        let backoff = self.backoff.saturating_mul(1 << attempts.min(4));
        queue.retry(sent.serial, now.saturating_add(backoff / 2));
    }

    /// Fails what is past its time.
    pub(super) fn expire(&mut self, now: Duration, last: Option<&Error>) {
        let late = |queue: &Queue| queue.expires_at(&self.config).is_some_and(|at| at <= now);
        let queues = self.queues.iter().filter(|(_, queue)| late(queue));
        let late: Vec<TopicPartition> = queues.map(|(at, _)| at.clone()).collect();
        for at in late {
            let error = Error::Timeout {
                doing: format!("producing to {at}"),
                after: self.config.delivery_timeout,
                last: last.cloned().map(Box::new),
            };
            self.fail(&at, &error);
        }
    }

    /// Fails everything, for a reason that no retry changes.
    pub(super) fn fail_all(&mut self, error: &Error) {
        let all: Vec<TopicPartition> = self.queues.keys().cloned().collect();
        for at in all {
            self.fail(&at, error);
        }
    }

    fn fail(&mut self, at: &TopicPartition, error: &Error) {
        let Some(queue) = self.queues.get_mut(at) else {
            return;
        };
        let behind = Error::Behind {
            topic: at.topic.to_string(),
            partition: at.partition,
            source: Box::new(error.clone()),
        };
        let mut gone = Vec::new();
        queue.fail(error, &behind, &mut gone);
        self.leave(at, gone);
    }

    fn leave(&mut self, at: &TopicPartition, gone: Vec<Gone>) {
        for Gone { result, records, size, queued_at } in gone {
            self.buffered -= size;
            self.deliveries.push_back(Delivery {
                at: at.clone(),
                result: result.map(|offset| (offset >= 0).then_some(offset)),
                records,
                bytes: size - RECORD_OVERHEAD * records as usize,
                queued_at,
            });
        }
        self.flush &= self.buffered > 0;
        self.full &= self.buffered > self.config.buffer_bytes / 2;
    }

    /// When something becomes due by time alone.
    pub(super) fn next_timer(&self, now: Duration) -> Option<Duration> {
        let id = match self.identity {
            Identity::Wanted { not_before } if self.buffered > 0 => Some(not_before),
            _ => None,
        };
        let queues = self.queues.values().flat_map(|queue| {
            [queue.due_at(self.hurry(), &self.config), queue.expires_at(&self.config)]
        });
        queues.flatten().chain(id).filter(|at| *at > now).min()
    }
}
