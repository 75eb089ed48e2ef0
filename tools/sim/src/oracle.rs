//! What must be true of everything that clients are told, whatever crashed in between.
//!
//! Clients report what they sent (before they send it) and what they were answered; each answer is judged by what was
//! known when its request was sent, because requests overlap. A batch is known by a hash of what the broker may not
//! change. The first violation is kept; the run ends with it.
//!
//! `topics` is the life of names, `place` where batches stand, `compacted` what cleaning may leave of them; `groups` and
//! `commits` are consumer groups.
//!
//! An incarnation is one life of a topic's name. While the name is being created or deleted, answers cannot be told
//! apart by incarnation and only their bytes are judged.

pub(crate) mod commits;
pub(crate) mod compacted;
pub(crate) mod groups;
mod place;
mod topics;

use std::cell::RefCell;
use std::collections::BTreeMap;

use rillway_wire::batch::BatchView;

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
}
