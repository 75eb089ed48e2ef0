//! Fetch sessions (KIP-227): what a reader of many partitions asked for is remembered, so that its next requests and our
//! answers name only what changed.
//!
//! One cache per core, for the node that the core is to clients: a connection lives on one core, and a reader that comes
//! back on another one is told that its session is unknown and opens a new one. Rules of eviction, epochs and order are
//! Kafka's (`max.incremental.fetch.session.cache.slots`); beyond Kafka, the memory of all sessions has a bound.
//!
//! Pure: time and chance come from the caller. Absent on purpose: privileged sessions of followers, since there are none.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::time::Duration;

use rillway_io::Instant;
use rillway_shard::TopicId;
use rillway_wire::ErrorCode;

/// `session_epoch` of a request that wants no session, and ends the one that it names.
pub(crate) const FINAL_EPOCH: i32 = -1;
/// `session_epoch` of a request that wants a new session.
const INITIAL_EPOCH: i32 = 0;
/// A session that was not used for so long is replaced by any other, and one so young by none (Kafka's, not a setting).
const EVICTION: Duration = Duration::from_secs(120);
/// Memory of the sessions of a core. A third of a million partitions fit, where Kafka has a bound on sessions only: one
/// request of 100 MB names millions.
const BYTES_MAX: usize = 64 << 20;
/// What a partition takes besides its topic's name, rounded up: 100 bytes, in two maps that are half full.
const PARTITION_BYTES: usize = 200;
const SESSION_BYTES: usize = 400;

/// A topic as the request names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TopicKey {
    Name(Rc<str>),
    /// From version 13 on.
    Id(TopicId),
}

/// A partition as the reader wants it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    pub topic: TopicKey,
    pub index: i32,
    pub offset: i64,
    pub max_bytes: i32,
    pub leader_epoch: i32,
}

/// A partition of a session.
#[derive(Debug)]
pub(crate) struct Member {
    pub wanted: Wanted,
    /// The name that the topic's id had when it was last found.
    pub name: Option<Rc<str>>,
    /// What the reader was told last; -1: nothing, or an error.
    told: Told,
}

/// What decides whether a partition without records is worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub high_watermark: i64,
    pub log_start: i64,
}

const NOTHING: Told = Told { high_watermark: -1, log_start: -1 };

/// What a partition's answer says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub told: Told,
    pub has_records: bool,
    pub failed: bool,
}

/// A place of a partition in its session, for as long as the session's epoch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn(u64);

/// One reader's session. Its partitions are read in their order; one that had records goes to the end, so that none
/// starves behind others when answers are full.
#[derive(Debug)]
pub(crate) struct Session {
    id: i32,
    /// Topics are named by id: then they are in every request.
    by_id: bool,
    /// Number of the next request.
    epoch: i32,
    created: Instant,
    used: Instant,
    /// Partitions and bytes as the cache has counted them.
    counted: (usize, usize),
    bytes: usize,
    members: BTreeMap<Turn, Member>,
    turns: HashMap<(TopicKey, i32), Turn>,
    next: u64,
}

impl Session {
    pub(crate) fn id(&self) -> i32 {
        self.id
    }

    pub(crate) fn epoch(&self) -> i32 {
        self.epoch
    }

    pub(crate) fn members(&mut self) -> impl Iterator<Item = (Turn, &mut Member)> {
        self.members.iter_mut().map(|(turn, member)| (*turn, member))
    }

    fn put(&mut self, wanted: Wanted) -> Turn {
        let key = (wanted.topic.clone(), wanted.index);
        if let Some(turn) = self.turns.get(&key).copied() {
            let member = self.members.get_mut(&turn).expect("both maps have the same partitions");
            member.wanted = wanted;
            return turn;
        }
        self.bytes += cost(&wanted);
        let turn = self.turn();
        self.turns.insert(key, turn);
        self.members.insert(turn, Member { wanted, name: None, told: NOTHING });
        turn
    }

    fn turn(&mut self) -> Turn {
        self.next += 1;
        Turn(self.next)
    }

    fn forget(&mut self, topic: &TopicKey, index: i32) {
        if let Some(turn) = self.turns.remove(&(topic.clone(), index))
            && let Some(member) = self.members.remove(&turn)
        {
            self.bytes -= cost(&member.wanted);
        }
    }

    /// Notes an answer; whether it has to be told.
    pub(crate) fn answer(&mut self, turn: Turn, answered: Answered) -> bool {
        let Some(member) = self.members.get_mut(&turn) else { return false };
        let tell = answered.has_records || answered.failed || member.told != answered.told;
        member.told = answered.told;
        if answered.failed {
            // So that it is told when the error has gone.
            member.told.high_watermark = -1;
        }
        if answered.has_records
            && let Some(member) = self.members.remove(&turn)
        {
            let last = self.turn();
            self.turns.insert((member.wanted.topic.clone(), member.wanted.index), last);
            self.members.insert(last, member);
        }
        tell
    }
}

fn cost(wanted: &Wanted) -> usize {
    PARTITION_BYTES
        + match &wanted.topic {
            TopicKey::Name(name) => name.len(),
            TopicKey::Id(_) => 0,
        }
}

fn next_epoch(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(1)
}

/// What a request is to its session.
pub(crate) enum Opened {
    /// It wants what it names, and no session.
    Sessionless,
    /// It wants what it names, and a session for it: see [`FetchSessions::create`].
    New,
    /// All of the session is wanted. The number is the epoch that the session has while nobody else goes on with it.
    Incremental(Rc<RefCell<Session>>, i32),
    Refused(ErrorCode),
}

/// How a request names its session.
#[derive(Clone, Copy)]
pub(crate) struct Naming {
    pub id: i32,
    pub epoch: i32,
    /// Its version names topics by id.
    pub by_id: bool,
}

/// The sessions of a core.
#[derive(Debug)]
pub(crate) struct FetchSessions {
    slots: usize,
    core: usize,
    cores: usize,
    sessions: HashMap<i32, Rc<RefCell<Session>>>,
    by_use: BTreeSet<(Instant, i32)>,
    /// Those that have stood for [`EVICTION`], by size: the smallest gives way to a larger one.
    by_size: BTreeSet<(usize, i32)>,
    bytes: usize,
}

impl FetchSessions {
    pub(crate) fn new(slots: usize, core: usize, cores: usize) -> FetchSessions {
        FetchSessions {
            slots,
            core,
            cores,
            sessions: HashMap::new(),
            by_use: BTreeSet::new(),
            by_size: BTreeSet::new(),
            bytes: 0,
        }
    }

    /// Takes a request in: what it wants of its session, and what leaves the session.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        naming: Naming,
        wanted: impl Iterator<Item = Wanted>,
        forgotten: impl Iterator<Item = (TopicKey, i32)>,
    ) -> Opened {
        if [INITIAL_EPOCH, FINAL_EPOCH].contains(&naming.epoch) {
            self.remove(naming.id);
            let new = naming.epoch == INITIAL_EPOCH;
            return if new { Opened::New } else { Opened::Sessionless };
        }
        let Some(session) = self.sessions.get(&naming.id).cloned() else {
            return Opened::Refused(ErrorCode::FetchSessionIdNotFound);
        };
        let mut s = session.borrow_mut();
        if s.epoch != naming.epoch {
            return Opened::Refused(ErrorCode::InvalidFetchSessionEpoch);
        }
        if s.by_id != naming.by_id {
            return Opened::Refused(ErrorCode::FetchSessionTopicIdError);
        }
        for w in wanted {
            s.put(w);
            if self.bytes - s.counted.1 + s.bytes > BYTES_MAX {
                drop(s);
                self.remove(naming.id);
                // The reader comes back with all that it wants, and is declined.
                return Opened::Refused(ErrorCode::FetchSessionIdNotFound);
            }
        }
        for (topic, index) in forgotten {
            s.forget(&topic, index);
        }
        if s.members.is_empty() {
            drop(s);
            self.remove(naming.id);
            return Opened::Sessionless;
        }
        s.epoch = next_epoch(s.epoch);
        let epoch = s.epoch;
        self.touch(&mut s, now);
        drop(s);
        Opened::Incremental(session, epoch)
    }

    /// A session for what was just answered, if there is room for it: its id, else 0.
    pub(crate) fn create(
        &mut self,
        now: Instant,
        by_id: bool,
        answered: impl ExactSizeIterator<Item = (Wanted, Option<Rc<str>>, Answered)>,
        mut random: impl FnMut() -> u64,
    ) -> i32 {
        if self.sessions.len() >= self.slots && !self.evict(now, answered.len()) {
            return 0;
        }
        let mut session = Session {
            id: 0,
            by_id,
            epoch: next_epoch(INITIAL_EPOCH),
            created: now,
            used: now,
            counted: (0, 0),
            bytes: SESSION_BYTES,
            members: BTreeMap::new(),
            turns: HashMap::new(),
            next: 0,
        };
        for (wanted, name, answer) in answered {
            let turn = session.put(wanted);
            if self.bytes + session.bytes > BYTES_MAX {
                return 0;
            }
            if let Some(member) = session.members.get_mut(&turn) {
                member.name = name;
                member.told = answer.told;
            }
        }
        session.id = self.new_id(&mut random);
        let id = session.id;
        self.touch(&mut session, now);
        self.sessions.insert(id, Rc::new(RefCell::new(session)));
        id
    }

    /// Positive, not to be guessed, and never another core's, so that a reader that lands there is told at once.
    fn new_id(&self, random: &mut impl FnMut() -> u64) -> i32 {
        let cores = self.cores as u64;
        loop {
            let any = random() % (i32::MAX as u64 / cores) * cores + self.core as u64;
            match i32::try_from(any) {
                Ok(id) if id > 0 && !self.sessions.contains_key(&id) => return id,
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Makes room for a session of so many partitions: one that nobody uses goes, else the smallest, if it is smaller and
    /// not young.
    fn evict(&mut self, now: Instant, size: usize) -> bool {
        let stale = self.by_use.first().filter(|(used, _)| now - *used > EVICTION);
        let smaller = || self.by_size.first().filter(|(least, _)| *least < size).map(|(_, id)| *id);
        match stale.map(|(_, id)| *id).or_else(smaller) {
            Some(id) => self.remove(id),
            None => false,
        }
    }

    fn remove(&mut self, id: i32) -> bool {
        let Some(session) = self.sessions.remove(&id) else { return false };
        let s = session.borrow();
        self.by_use.remove(&(s.used, id));
        self.by_size.remove(&(s.counted.0, id));
        self.bytes -= s.counted.1;
        true
    }

    fn touch(&mut self, s: &mut Session, now: Instant) {
        self.by_use.remove(&(s.used, s.id));
        self.by_size.remove(&(s.counted.0, s.id));
        self.bytes -= s.counted.1;
        s.used = now;
        s.counted = (s.members.len(), s.bytes);
        self.by_use.insert((s.used, s.id));
        if now - s.created > EVICTION {
            self.by_size.insert((s.counted.0, s.id));
        }
        self.bytes += s.counted.1;
    }
}

#[cfg(test)]
mod tests;
