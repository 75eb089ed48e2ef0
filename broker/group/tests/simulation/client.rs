//! A consumer: joins, syncs, sends heartbeats, commits, and tries again. It is a state machine, too, so that the world
//! decides about time and loss.

use rillway_group::{
    Commit, Fence, GroupError, Heartbeat, Join, Joined, Leave, Leaving, Protocol, Sync, Synced,
};

use super::oracle::{assignment, parse};
use super::random::Random;

pub(crate) const GROUP: &str = "g";

#[derive(Clone, Debug)]
pub(crate) enum Request {
    Join(Join),
    Sync(Sync),
    Beat(Heartbeat),
    Commit(Commit),
    Leave(Leave),
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Join(Result<Joined, GroupError>),
    Sync(Result<Synced, GroupError>),
    /// To a heartbeat or a commit.
    Life(Result<(), GroupError>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Has to join, not before this time.
    Out(u64),
    /// Waits for the answer of a join, until this time.
    Joining(u64),
    Syncing(u64),
    In,
    /// Has joined and never asks for its assignment, but its heartbeats go on.
    Hung,
}

pub(crate) struct Client {
    pub(crate) index: usize,
    pub(crate) alive: bool,
    /// Counts process starts; what belongs to an earlier one reaches nobody.
    pub(crate) life: u32,
    /// The request whose answer is awaited; others are too late.
    pub(crate) call: u64,
    pub(crate) instance: Option<String>,
    pub(crate) id: String,
    pub(crate) generation: i32,
    pub(crate) state: State,
    pub(crate) owned: Vec<u32>,
    /// What it subscribes to, as a number that the group does not understand.
    pub(crate) topics: u8,
    /// What the group was told of it.
    subscribed: u8,
    /// Accidents are over.
    pub(crate) calm: bool,
    id_required: bool,
    hangs: bool,
    patience: u64,
    leads: bool,
    assigned: u32,
    next_beat: u64,
}

impl Client {
    pub(crate) fn new(index: usize, random: &mut Random) -> Client {
        Client {
            index,
            alive: false,
            life: 0,
            call: 0,
            instance: random.percent(30).then(|| format!("i{index}")),
            id: String::new(),
            generation: -1,
            state: State::Out(0),
            owned: Vec::new(),
            topics: 0,
            subscribed: 0,
            id_required: random.percent(70),
            calm: false,
            hangs: false,
            patience: 0,
            leads: false,
            assigned: 0,
            next_beat: 0,
        }
    }

    pub(crate) fn start(&mut self, now: u64) {
        self.alive = true;
        self.life += 1;
        self.id.clear();
        self.out(now);
    }

    /// Has no part any more, and joins again from `at` on.
    fn out(&mut self, at: u64) {
        self.state = State::Out(at);
        self.owned.clear();
    }

    /// The coordinator has restarted. It cannot know that a member of a kept assignment never asked for it, so one that
    /// hangs has to notice the closed connection itself.
    pub(crate) fn disconnected(&mut self, now: u64) {
        if self.state == State::Hung {
            self.out(now);
        }
    }

    fn fence(&self) -> Fence {
        Fence {
            member: self.id.clone(),
            instance: self.instance.clone(),
            generation: self.generation,
        }
    }

    /// What it does now, if anything. `partitions`: how many there are. `id`: one that is new.
    pub(crate) fn wake(
        &mut self,
        now: u64,
        partitions: u32,
        id: String,
        random: &mut Random,
    ) -> Option<Request> {
        match self.state {
            State::Out(at) if now >= at => Some(self.join(now, id, random)),
            // The answer was lost. Some clients are impatient and ask again while the group waits.
            State::Joining(until) if now >= until => Some(self.join(now, id, random)),
            State::Syncing(until) if now >= until => {
                self.out(now);
                Some(self.join(now, id, random))
            }
            State::In
                if self.subscribed != self.topics
                    || (self.leads && self.assigned != partitions) =>
            {
                Some(self.join(now, id, random))
            }
            State::In if random.percent(20) => {
                Some(Request::Commit(Commit { group: GROUP.to_owned(), fence: self.fence() }))
            }
            State::In | State::Hung if now >= self.next_beat => {
                self.next_beat = now + 3_000;
                Some(Request::Beat(Heartbeat { group: GROUP.to_owned(), fence: self.fence() }))
            }
            State::Out(_) | State::Joining(_) | State::Syncing(_) | State::In | State::Hung => None,
        }
    }

    fn join(&mut self, now: u64, new_member: String, random: &mut Random) -> Request {
        self.patience = if random.percent(20) { 3_000 } else { 40_000 };
        self.hangs = !self.calm && random.percent(2);
        self.state = State::Joining(now + self.patience);
        self.subscribed = self.topics;
        let names: &[&str] = if self.index.is_multiple_of(2) { &["a", "b"] } else { &["b", "a"] };
        let protocols = names
            .iter()
            .map(|name| Protocol { name: (*name).to_owned(), metadata: vec![self.topics] });
        Request::Join(Join {
            group: GROUP.to_owned(),
            member: self.id.clone(),
            instance: self.instance.clone(),
            new_member,
            client_id: format!("c{}", self.index),
            client_host: "/127.0.0.1".to_owned(),
            protocol_type: "simulated".to_owned(),
            protocols: protocols.collect(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 20_000,
            id_required: self.id_required,
            skip_assignment: self.index < 4,
            reason: None,
        })
    }

    pub(crate) fn leave(&mut self) -> Request {
        self.alive = false;
        let leaving =
            Leaving { member: self.id.clone(), instance: self.instance.clone(), reason: None };
        Request::Leave(Leave { group: GROUP.to_owned(), members: vec![leaving] })
    }

    /// Takes an answer; perhaps there is something to ask at once.
    pub(crate) fn answered(
        &mut self,
        now: u64,
        partitions: u32,
        answer: Answer,
    ) -> Option<Request> {
        match (answer, self.state) {
            (Answer::Join(Ok(joined)), State::Joining(_)) => {
                let request = self.sync(now, partitions, joined);
                if !self.hangs {
                    return Some(request);
                }
                self.state = State::Hung;
            }
            (Answer::Sync(Ok(synced)), State::Syncing(_)) => {
                let (generation, owned) = parse(&synced.assignment);
                assert_eq!(generation, self.generation);
                self.owned = owned;
                self.state = State::In;
                self.next_beat = now + 3_000;
            }
            (Answer::Join(Err(error)), State::Joining(_))
            | (Answer::Sync(Err(error)), State::Syncing(_))
            | (Answer::Life(Err(error)), State::In | State::Hung) => self.failed(now, error),
            // Too late, or nothing to say.
            (Answer::Join(_) | Answer::Sync(_) | Answer::Life(_), _) => {}
        }
        None
    }

    fn sync(&mut self, now: u64, partitions: u32, joined: Joined) -> Request {
        self.id.clone_from(&joined.member);
        self.generation = joined.generation;
        self.state = State::Syncing(now + self.patience);
        self.leads = joined.leader == joined.member;
        let mut assignments = Vec::new();
        if self.leads {
            // Who skips does not know how many partitions the assignment was made for.
            self.assigned = if joined.skip_assignment { 0 } else { partitions };
        }
        if self.leads && !joined.skip_assignment {
            let members = joined.members.len() as u32;
            for (nth, member) in joined.members.iter().enumerate() {
                let own: Vec<u32> = (0..partitions).filter(|p| p % members == nth as u32).collect();
                assignments.push((member.member.clone(), assignment(joined.generation, &own)));
            }
        }
        Request::Sync(Sync {
            group: GROUP.to_owned(),
            fence: self.fence(),
            protocol_type: Some(joined.protocol_type),
            protocol_name: Some(joined.protocol_name),
            assignments,
        })
    }

    fn failed(&mut self, now: u64, error: GroupError) {
        match error {
            GroupError::MemberIdRequired(id) => {
                self.id = id;
                self.out(now);
            }
            // A fenced one is restarted by whoever runs it.
            GroupError::UnknownMember(_) | GroupError::FencedInstance(_) => {
                self.id.clear();
                self.out(now + 100);
            }
            GroupError::RebalanceInProgress | GroupError::IllegalGeneration { .. } => self.out(now),
            GroupError::NotAvailable => self.out(now + 100),
            error => panic!("client {}: {error}", self.index),
        }
    }
}
