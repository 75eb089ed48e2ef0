//! What must be true of everything that clients are told, whatever crashed in between.
//!
//! Clients report what they sent (before they send it) and what they were answered; each answer is judged by what was
//! known when its request was sent, because requests overlap. A batch is known by a hash of what the broker may not
//! change. The first violation is kept; the run ends with it.
//!
//! An incarnation is one life of a topic's name. While the name is being created or deleted, answers cannot be told
//! apart by incarnation and only their bytes are judged.

pub(crate) mod commits;
pub(crate) mod compacted;
pub(crate) mod groups;

use std::cell::RefCell;
use std::collections::BTreeMap;

use rillway_wire::batch::{BatchView, batches};

/// A batch that somebody sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SendId(usize);

/// Who sent a batch, for the order: the nth of a connection, or a sequence of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    Connection { connection: u64, n: u64 },
    Producer { id: i64, sequence: i32 },
}

struct Sent {
    topic: String,
    index: i32,
    count: i64,
    bytes: usize,
    order: Order,
    attempts: usize,
    /// Changes of the topic's name when it was sent first, and when its outcome was known.
    first: u64,
    last: Option<u64>,
    /// Where it was seen, in which incarnation.
    places: Vec<(u64, i64)>,
    /// For a compacted topic.
    records: Vec<compacted::SentRecord>,
}

#[derive(Clone, Copy, Debug)]
struct Placed {
    send: SendId,
    count: i64,
    epoch: Option<i32>,
    acknowledged: bool,
}

#[derive(Default)]
struct Partition {
    placed: BTreeMap<i64, Placed>,
    orders: BTreeMap<Order, i64>,
    /// Everything below was acknowledged, shown, or below a high watermark that was shown.
    end: i64,
    start: i64,
    epoch: i32,
}

struct Incarnation {
    id: [u8; 16],
    /// Changes of the name when its creation began.
    born: u64,
    retention_bytes: i64,
    partitions: Vec<Partition>,
}

#[derive(Default)]
struct Topic {
    changes: u64,
    /// Being created, deleted, or of unknown fate.
    unsettled: bool,
    now: Option<Incarnation>,
    dead: Vec<[u8; 16]>,
}

/// What was known of a partition when a request was sent.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub topic: String,
    pub index: i32,
    changes: u64,
    settled: bool,
    pub end: i64,
    pub start: i64,
    pub epoch: i32,
}

/// A partition's answer to a fetch.
pub(crate) struct Shown<'a> {
    pub offset: i64,
    pub high_watermark: i64,
    pub log_start: i64,
    pub bytes: &'a [u8],
    /// Nothing else was asked for, so nothing else can have used up the limits.
    pub alone: bool,
}

#[derive(Default)]
struct State {
    topics: BTreeMap<String, Topic>,
    sent: Vec<Sent>,
    by_hash: BTreeMap<u64, SendId>,
    /// Records of compacted topics: their batch, and their place in it.
    by_record: BTreeMap<Vec<u8>, (SendId, usize)>,
    groups: groups::Groups,
    commits: commits::Commits,
    violation: Option<String>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Oracle {
    state: RefCell<State>,
}

/// Of everything but base offset, length and leader epoch. FNV over words.
fn hash(batch: &[u8]) -> u64 {
    let mut h = 0xCBF2_9CE4_8422_2325u64;
    for part in batch[16..].chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        h = (h ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01B3);
        h ^= h >> 31;
    }
    h
}

impl Oracle {
    pub(crate) fn violated(&self) -> bool {
        self.state.borrow().violation.is_some()
    }

    pub(crate) fn violation(&self) -> Option<String> {
        self.state.borrow().violation.clone()
    }

    pub(crate) fn complain(&self, what: String) {
        self.state.borrow_mut().violation.get_or_insert(what);
    }

    /// Topics that exist for certain: name and number of partitions.
    pub(crate) fn settled(&self) -> Vec<(String, i32)> {
        let state = self.state.borrow();
        let settled = state.topics.iter().filter(|(_, t)| !t.unsettled);
        settled
            .filter_map(|(name, t)| Some((name.clone(), t.now.as_ref()?.partitions.len() as i32)))
            .collect()
    }

    /// A topic's name is about to be created or deleted.
    pub(crate) fn changing(&self, name: &str) {
        let mut state = self.state.borrow_mut();
        let topic = state.topics.entry(name.to_owned()).or_default();
        topic.changes += 1;
        topic.unsettled = true;
    }

    pub(crate) fn created(&self, name: &str, id: [u8; 16], partitions: i32, retention_bytes: i64) {
        let mut state = self.state.borrow_mut();
        let topic = state.topics.entry(name.to_owned()).or_default();
        if topic.now.as_ref().is_some_and(|i| i.id == id) {
            // Its deletion, of unknown outcome, turned out not to have happened.
            topic.changes += 1;
            topic.unsettled = false;
            return;
        }
        let dead = topic.dead.contains(&id) || topic.now.is_some();
        let born = topic.changes;
        topic.changes += 1;
        topic.unsettled = false;
        topic.now = Some(Incarnation {
            id,
            born,
            retention_bytes,
            partitions: (0..partitions)
                .map(|_| Partition { epoch: -1, ..Default::default() })
                .collect(),
        });
        if dead {
            state.violation.get_or_insert(format!(
                "topic {name}: an id that was deleted, or another id, is back"
            ));
        }
    }

    /// It is not there, for certain.
    pub(crate) fn gone(&self, name: &str) {
        let mut state = self.state.borrow_mut();
        let topic = state.topics.entry(name.to_owned()).or_default();
        topic.changes += 1;
        topic.unsettled = false;
        if let Some(was) = topic.now.take() {
            topic.dead.push(was.id);
        }
    }

    /// What is known of a partition now; `None` if it does not exist for certain.
    pub(crate) fn ticket(&self, topic: &str, index: i32) -> Option<Ticket> {
        let state = self.state.borrow();
        let known = state.topics.get(topic)?;
        let p = known.now.as_ref()?.partitions.get(usize::try_from(index).ok()?)?;
        Some(Ticket {
            topic: topic.to_owned(),
            index,
            changes: known.changes,
            settled: !known.unsettled,
            end: p.end,
            start: p.start,
            epoch: p.epoch,
        })
    }

    /// Whether nothing happened to the topic's name since the ticket was taken.
    pub(crate) fn stable(&self, ticket: &Ticket) -> bool {
        let state = self.state.borrow();
        ticket.settled
            && state.topics.get(&ticket.topic).is_some_and(|t| t.changes == ticket.changes)
    }

    /// A batch is about to be sent for the first time.
    pub(crate) fn sending(&self, ticket: &Ticket, batch: &[u8], order: Order) -> SendId {
        let mut state = self.state.borrow_mut();
        let view = BatchView::parse(batch).expect("built a moment ago");
        let id = SendId(state.sent.len());
        let known = state.by_hash.insert(hash(batch), id);
        assert!(known.is_none(), "batches are unique");
        let compacted = compacted::is_compacted(&ticket.topic);
        let records = if compacted { compacted::sent(&view) } else { Vec::new() };
        for (at, record) in records.iter().enumerate() {
            let known = state.by_record.insert(record.id.clone(), (id, at));
            assert!(known.is_none(), "records are unique");
        }
        state.sent.push(Sent {
            records,
            topic: ticket.topic.clone(),
            index: ticket.index,
            count: i64::from(view.record_count()),
            bytes: batch.len(),
            order,
            attempts: 1,
            first: ticket.changes,
            last: None,
            places: Vec::new(),
        });
        id
    }

    /// It is about to be sent once more.
    pub(crate) fn again(&self, send: SendId) {
        let sent = &mut self.state.borrow_mut().sent[send.0];
        sent.attempts += 1;
        sent.last = None;
    }

    /// Every attempt was answered, none with success: it must never be seen.
    pub(crate) fn refused(&self, send: SendId, ticket: &Ticket) {
        let mut state = self.state.borrow_mut();
        if state.sent[send.0].attempts == 1 {
            state.sent[send.0].last = Some(ticket.changes);
            state.sent[send.0].attempts = 0;
        }
    }

    /// An acknowledgement.
    pub(crate) fn acknowledged(
        &self,
        send: SendId,
        ticket: &Ticket,
        base_offset: i64,
        log_start: i64,
    ) {
        if !self.stable(ticket) {
            return;
        }
        let mut state = self.state.borrow_mut();
        let result = state
            .place(ticket, base_offset, send, None, true)
            .and_then(|()| state.log_start(ticket, log_start))
            .map_err(|what| format!("acknowledged: {what}"));
        state.judge(ticket, result);
    }

    /// The end of the log as it was told to somebody: never lower than anything told before.
    pub(crate) fn end_shown(&self, ticket: &Ticket, end: i64) {
        if !self.stable(ticket) {
            return;
        }
        let mut state = self.state.borrow_mut();
        let result = state.end(ticket, end);
        state.judge(ticket, result);
    }

    pub(crate) fn start_shown(&self, ticket: &Ticket, start: i64) {
        if !self.stable(ticket) {
            return;
        }
        let mut state = self.state.borrow_mut();
        let result = state.log_start(ticket, start);
        state.judge(ticket, result);
    }

    pub(crate) fn epoch_shown(&self, ticket: &Ticket, epoch: i32) {
        if !self.stable(ticket) {
            return;
        }
        let mut state = self.state.borrow_mut();
        let result = if epoch < ticket.epoch {
            Err(format!("leader epoch {epoch}, it was {} before", ticket.epoch))
        } else {
            let p = state.partition(ticket);
            p.epoch = p.epoch.max(epoch);
            Ok(())
        };
        state.judge(ticket, result);
    }

    /// A fetch was answered: the offset behind its last record.
    pub(crate) fn shown(&self, ticket: &Ticket, shown: &Shown<'_>) -> i64 {
        let stable = self.stable(ticket);
        let mut state = self.state.borrow_mut();
        let result = state.check_shown(ticket, shown, stable);
        let next = *result.as_ref().unwrap_or(&shown.offset);
        state.judge(ticket, result.map(|_| ()));
        next
    }

    /// A fetch found its offset out of range: only because the log start has passed it.
    pub(crate) fn out_of_range(
        &self,
        ticket: &Ticket,
        offset: i64,
        log_start: i64,
        high_watermark: i64,
    ) {
        if !self.stable(ticket) {
            return;
        }
        let mut state = self.state.borrow_mut();
        let result =
            state.log_start(ticket, log_start).and_then(|()| state.end(ticket, high_watermark));
        let result = result.and_then(|()| {
            if offset < log_start || offset > ticket.end {
                Ok(())
            } else {
                Err(format!(
                    "offset {offset} is out of range, the log is {log_start}..{high_watermark}, it was {}..{}",
                    ticket.start, ticket.end
                ))
            }
        });
        state.judge(ticket, result);
    }

    /// Metadata of a name: its id, or that it is not there. `changes`: from [`Oracle::changes`] before the request.
    pub(crate) fn topic_shown(&self, name: &str, changes: u64, id: Option<[u8; 16]>) {
        let mut state = self.state.borrow_mut();
        let Some(topic) = state.topics.get(name) else {
            return;
        };
        let what = match (id, &topic.now) {
            (Some(id), _) if topic.dead.contains(&id) => Some("was deleted and is back".to_owned()),
            _ if topic.unsettled || topic.changes != changes => None,
            (None, None) => None,
            (Some(_), None) => Some("is not there for certain, and is shown".to_owned()),
            (None, Some(_)) => Some("exists for certain, and is not shown".to_owned()),
            (Some(id), Some(now)) if id == now.id => None,
            (Some(_), Some(_)) => Some("has another id".to_owned()),
        };
        if let Some(what) = what {
            state.violation.get_or_insert(format!("topic {name} {what}"));
        }
    }

    pub(crate) fn changes(&self, name: &str) -> u64 {
        self.state.borrow().topics.get(name).map_or(0, |t| t.changes)
    }

    /// All of a partition was read: everything that was ever placed must have been among it.
    pub(crate) fn read_to_end(&self, ticket: &Ticket, from: i64, to: i64, bytes: u64) {
        if !self.stable(ticket) {
            return;
        }
        let mut state = self.state.borrow_mut();
        let retention = state
            .topics
            .get(&ticket.topic)
            .and_then(|t| t.now.as_ref())
            .map_or(-1, |i| i.retention_bytes);
        let end = state.partition(ticket).end;
        let result = if to < end {
            Err(format!("read up to {to}, but {end} was shown"))
        } else if from > 0
            && retention >= 0
            && bytes < retention.unsigned_abs()
            && !compacted::is_compacted(&ticket.topic)
        {
            Err(format!("retention.bytes is {retention}, and only {bytes} bytes are left"))
        } else {
            Ok(())
        };
        state.judge(ticket, result);
    }

    pub(crate) fn batches_acknowledged(&self) -> usize {
        let state = self.state.borrow();
        let partitions =
            state.topics.values().filter_map(|t| t.now.as_ref()).flat_map(|i| &i.partitions);
        partitions.map(|p| p.placed.values().filter(|x| x.acknowledged).count()).sum()
    }
}

impl State {
    fn judge(&mut self, ticket: &Ticket, result: Result<(), String>) {
        if let Err(what) = result {
            self.violation.get_or_insert(format!("{}-{}: {what}", ticket.topic, ticket.index));
        }
    }

    fn incarnation(&mut self, ticket: &Ticket) -> &mut Incarnation {
        let topic = self.topics.get_mut(&ticket.topic).expect("it had a ticket");
        topic.now.as_mut().expect("stable, so it is there")
    }

    fn partition(&mut self, ticket: &Ticket) -> &mut Partition {
        &mut self.incarnation(ticket).partitions[ticket.index as usize]
    }

    fn end(&mut self, ticket: &Ticket, end: i64) -> Result<(), String> {
        if end < ticket.end {
            return Err(format!(
                "the log ends at {end}, {} was acknowledged or shown before",
                ticket.end
            ));
        }
        let p = self.partition(ticket);
        p.end = p.end.max(end);
        Ok(())
    }

    fn log_start(&mut self, ticket: &Ticket, start: i64) -> Result<(), String> {
        let retention = self.incarnation(ticket).retention_bytes;
        let p = self.partition(ticket);
        if start < ticket.start {
            return Err(format!("the log starts at {start}, it was {} before", ticket.start));
        }
        if start > 0 && retention < 0 {
            return Err(format!("the log starts at {start}, and nothing may have moved it"));
        }
        let split = p.placed.range(..start).next_back().filter(|(base, b)| *base + b.count > start);
        if let Some((base, b)) = split {
            return Err(format!(
                "the log starts at {start}, inside the batch {base}..{}",
                base + b.count
            ));
        }
        p.start = p.start.max(start);
        Ok(())
    }

    fn check_shown(
        &mut self,
        ticket: &Ticket,
        shown: &Shown<'_>,
        stable: bool,
    ) -> Result<i64, String> {
        let mut next = shown.offset;
        let mut first = true;
        let compacted = compacted::is_compacted(&ticket.topic);
        if stable {
            self.log_start(ticket, shown.log_start)?;
            self.end(ticket, shown.high_watermark)?;
            if shown.alone && shown.bytes.is_empty() && shown.offset < shown.high_watermark {
                return Err(format!(
                    "nothing at offset {}, below {}",
                    shown.offset, shown.high_watermark
                ));
            }
        }
        for batch in batches(shown.bytes) {
            let batch = batch.map_err(|e| format!("fetch at {}: {e}", shown.offset))?;
            let (base, end) = (batch.base_offset(), batch.next_offset());
            if !batch.check_crc() {
                return Err(format!("the CRC of the batch {base}..{end} does not fit"));
            }
            let follows = if compacted {
                next < end && (first || base >= next)
            } else if first {
                base <= next && next < end
            } else {
                base == next
            };
            if !follows {
                return Err(format!("a batch {base}..{end} where offset {next} was to be"));
            }
            first = false;
            next = end;
            let origin = if compacted {
                self.origin(&batch).map_err(|e| format!("the batch {base}..{end}: {e}"))?
            } else {
                let Some(send) = self.by_hash.get(&hash(batch.bytes())).copied() else {
                    return Err(format!("the batch {base}..{end} was sent by nobody"));
                };
                Some((send, base))
            };
            let Some((send, first_offset)) = origin else { continue };
            if (base, end - base) != (first_offset, self.sent[send.0].count) {
                return Err(format!("the batch {base}..{end} was sent with other offsets"));
            }
            let sent = &self.sent[send.0];
            if (sent.topic.as_str(), sent.index) != (ticket.topic.as_str(), ticket.index) {
                return Err(format!(
                    "the batch {base}..{end} was sent to {}-{}",
                    sent.topic, sent.index
                ));
            }
            if stable {
                if end > shown.high_watermark {
                    return Err(format!(
                        "the batch {base}..{end} is beyond the high watermark {}",
                        shown.high_watermark
                    ));
                }
                self.place(ticket, base, send, Some(batch.leader_epoch()), false)
                    .map_err(|e| format!("shown: {e}"))?;
            }
        }
        Ok(next)
    }

    /// A batch stands at an offset. Everything that was ever said about that offset, and that batch, must agree.
    fn place(
        &mut self,
        ticket: &Ticket,
        base: i64,
        send: SendId,
        epoch: Option<i32>,
        acknowledged: bool,
    ) -> Result<(), String> {
        let born = self.incarnation(ticket).born;
        let sent = &mut self.sent[send.0];
        let (count, order, attempts) = (sent.count, sent.order, sent.attempts);
        let end = base + count;
        if sent.last.is_some_and(|last| last < born) {
            return Err(format!(
                "the batch {base}..{end} belongs to a topic of this name that is deleted"
            ));
        }
        if attempts == 0 {
            return Err(format!(
                "the batch {base}..{end} was refused ({order:?}, first sent at change {})",
                sent.first
            ));
        }
        let here = sent.places.iter().filter(|(b, _)| *b == born).count();
        if !sent.places.contains(&(born, base)) {
            let most = match order {
                Order::Producer { .. } => 1,
                Order::Connection { .. } => attempts,
            };
            if here >= most {
                let bytes = sent.bytes;
                return Err(format!(
                    "the batch {base}..{end} ({bytes} bytes, {order:?}) is at {:?} already, sent {attempts} times",
                    sent.places
                ));
            }
            sent.places.push((born, base));
        }
        let p = self.partition(ticket);
        let before = p.placed.range(..end).next_back().map(|(b, x)| (*b, *x));
        if let Some((other, x)) = before
            && (other + x.count > base)
            && (other, x.send) != (base, send)
        {
            let was = if x.acknowledged { "acknowledged" } else { "shown" };
            return Err(format!(
                "the batch at {base}..{end} is another than the one that was {was} at {other}..{}",
                other + x.count
            ));
        }
        if epoch.is_some() {
            let lower = p.placed.range(..base).next_back().and_then(|(_, x)| x.epoch);
            let upper = p.placed.range(end..).next().and_then(|(_, x)| x.epoch);
            if lower.is_some_and(|l| Some(l) > epoch) || upper.is_some_and(|u| Some(u) < epoch) {
                return Err(format!(
                    "leader epoch {epoch:?} at {base}, between {lower:?} and {upper:?}"
                ));
            }
        }
        let placed = p.placed.entry(base).or_insert(Placed { send, count, epoch, acknowledged });
        placed.acknowledged |= acknowledged;
        if let (Some(was), Some(is)) = (placed.epoch, epoch)
            && was != is
        {
            return Err(format!("the batch at {base} has leader epoch {is}, it was {was}"));
        }
        placed.epoch = placed.epoch.or(epoch);
        p.end = p.end.max(end);
        // A retried batch without a producer id may stand anywhere, once for each attempt.
        if matches!(order, Order::Connection { .. }) && attempts > 1 {
            return Ok(());
        }
        p.in_order(order, base)
    }
}

impl Partition {
    fn in_order(&mut self, order: Order, base: i64) -> Result<(), String> {
        let same = |other: &Order| match (order, other) {
            (Order::Connection { connection: a, .. }, Order::Connection { connection: b, .. }) => {
                a == *b
            }
            (Order::Producer { id: a, .. }, Order::Producer { id: b, .. }) => a == *b,
            (Order::Connection { .. }, Order::Producer { .. })
            | (Order::Producer { .. }, Order::Connection { .. }) => false,
        };
        let before = self.orders.range(..order).next_back().filter(|(o, _)| same(o));
        let after = self
            .orders
            .range((std::ops::Bound::Excluded(order), std::ops::Bound::Unbounded))
            .next()
            .filter(|(o, _)| same(o));
        if let Some((o, at)) =
            before.filter(|(_, at)| **at >= base).or(after.filter(|(_, at)| **at <= base))
        {
            return Err(format!("order: {order:?} stands at {base}, and {o:?} at {at}"));
        }
        self.orders.insert(order, base);
        Ok(())
    }
}
