//! A coordinator with a clock, and everything that it has answered.

use std::collections::BTreeMap;

use rillway_group::{
    Clock, Commit, Coordinator, Effect, Fence, GroupError, Heartbeat, Join, Joined, Leave, Leaving,
    Options, Protocol, Sync, Synced, Ticket,
};

pub(crate) const GROUP: &str = "g";
pub(crate) const SESSION: i32 = 10_000;
pub(crate) const REBALANCE: i32 = 60_000;

pub(crate) type JoinAnswer = Result<Joined, GroupError>;
pub(crate) type SyncAnswer = Result<Synced, GroupError>;

/// What a join of protocol type `consumer` says to an assignor: version 1, no user data, nothing owned.
pub(crate) fn subscription(topics: &[&str]) -> Vec<u8> {
    let mut bytes = vec![0, 1];
    bytes.extend((topics.len() as i32).to_be_bytes());
    for topic in topics {
        bytes.extend((topic.len() as i16).to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes.extend((-1i32).to_be_bytes());
    bytes.extend(0i32.to_be_bytes());
    bytes
}

pub(crate) fn protocol(name: &str, topics: &[&str]) -> Protocol {
    Protocol { name: name.to_owned(), metadata: subscription(topics) }
}

/// A join of a client that has no id yet and understands everything; tests change what they are about.
pub(crate) fn newcomer(client: &str) -> Join {
    Join {
        group: GROUP.to_owned(),
        member: String::new(),
        instance: None,
        new_member: format!("{client}-1"),
        client_id: client.to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        protocol_type: "consumer".to_owned(),
        protocols: vec![protocol("range", &["t"])],
        session_timeout_ms: SESSION,
        rebalance_timeout_ms: REBALANCE,
        id_required: false,
        skip_assignment: true,
        reason: None,
    }
}

/// The same member again, under the id it was told.
pub(crate) fn again(client: &str) -> Join {
    Join { member: format!("{client}-1"), ..newcomer(client) }
}

pub(crate) struct Table {
    pub(crate) coordinator: Coordinator,
    pub(crate) options: Options,
    pub(crate) mono_ms: u64,
    pub(crate) wall_ms: i64,
    /// Whether what is to be kept is reported as kept at once.
    pub(crate) keeps: bool,
    /// What is to be kept and is not reported yet.
    pub(crate) open: Vec<(String, u64, Option<Vec<u8>>)>,
    /// What a restart finds.
    pub(crate) kept: BTreeMap<String, Vec<u8>>,
    tickets: u64,
    joins: BTreeMap<Ticket, JoinAnswer>,
    syncs: BTreeMap<Ticket, SyncAnswer>,
}

impl Default for Table {
    fn default() -> Self {
        Table::new(Options::default())
    }
}

impl Table {
    pub(crate) fn new(options: Options) -> Table {
        Table {
            coordinator: Coordinator::new(options),
            options,
            mono_ms: 1_000,
            wall_ms: 1_800_000_000_000,
            keeps: true,
            open: Vec::new(),
            kept: BTreeMap::new(),
            tickets: 0,
            joins: BTreeMap::new(),
            syncs: BTreeMap::new(),
        }
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock { mono_ms: self.mono_ms, wall_ms: self.wall_ms }
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Carries effects out.
    pub(crate) fn run(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Joined(ticket, answer) => {
                    let old = self.joins.insert(ticket, answer);
                    assert!(old.is_none(), "{ticket:?} is answered twice");
                }
                Effect::Synced(ticket, answer) => {
                    let old = self.syncs.insert(ticket, answer);
                    assert!(old.is_none(), "{ticket:?} is answered twice");
                }
                Effect::Persist { group, revision, state } => {
                    self.open.push((group, revision, state));
                }
            }
        }
        if self.keeps && !self.open.is_empty() {
            self.report(true);
        }
    }

    /// Reports everything that is to be kept, and what comes of it if it is reported as kept.
    pub(crate) fn report(&mut self, ok: bool) {
        for (group, revision, state) in std::mem::take(&mut self.open) {
            if ok {
                match state {
                    Some(state) => self.kept.insert(group.clone(), state),
                    None => self.kept.remove(&group),
                };
            }
            let mut out = Vec::new();
            self.coordinator.persisted(self.clock(), &group, revision, ok, &mut out);
            self.run(out);
        }
    }

    pub(crate) fn join(&mut self, join: Join) -> Ticket {
        let ticket = self.ticket();
        let mut out = Vec::new();
        self.coordinator.join(self.clock(), ticket, join, &mut out);
        self.run(out);
        ticket
    }

    pub(crate) fn fence(&self, member: &str, generation: i32) -> Fence {
        Fence { member: member.to_owned(), instance: None, generation }
    }

    pub(crate) fn sync(&mut self, member: &str, generation: i32, said: &[(&str, &str)]) -> Ticket {
        let said = said.iter().map(|(id, bytes)| ((*id).to_owned(), bytes.as_bytes().to_vec()));
        let sync = Sync {
            group: GROUP.to_owned(),
            fence: self.fence(member, generation),
            protocol_type: None,
            protocol_name: None,
            assignments: said.collect(),
        };
        self.sync_as(sync)
    }

    pub(crate) fn sync_as(&mut self, sync: Sync) -> Ticket {
        let ticket = self.ticket();
        let mut out = Vec::new();
        self.coordinator.sync(self.clock(), ticket, sync, &mut out);
        self.run(out);
        ticket
    }

    pub(crate) fn heartbeat(&mut self, member: &str, generation: i32) -> Result<(), GroupError> {
        let fence = self.fence(member, generation);
        let beat = Heartbeat { group: GROUP.to_owned(), fence };
        self.coordinator.heartbeat(self.clock(), &beat)
    }

    pub(crate) fn commit(&mut self, member: &str, generation: i32) -> Result<(), GroupError> {
        let fence = self.fence(member, generation);
        let commit = Commit { group: GROUP.to_owned(), fence };
        self.coordinator.check_commit(self.clock(), &commit)
    }

    pub(crate) fn leave(&mut self, member: &str, instance: Option<&str>) -> Result<(), GroupError> {
        let leaving = Leaving {
            member: member.to_owned(),
            instance: instance.map(str::to_owned),
            reason: Some("the consumer is being closed".to_owned()),
        };
        let leave = Leave { group: GROUP.to_owned(), members: vec![leaving] };
        let mut out = Vec::new();
        let result = self.coordinator.leave(self.clock(), &leave, &mut out);
        self.run(out);
        result.expect("the group has a name").remove(0)
    }

    pub(crate) fn abandon(&mut self, ticket: Ticket) {
        let mut out = Vec::new();
        self.coordinator.abandoned(self.clock(), GROUP, ticket, &mut out);
        self.run(out);
    }

    /// Lets time pass; timers fire when they are due.
    pub(crate) fn pass(&mut self, ms: u64) {
        let end = self.mono_ms + ms;
        while let Some(at) = self.coordinator.deadline().filter(|at| *at <= end) {
            self.step_to(at.max(self.mono_ms));
            let mut out = Vec::new();
            self.coordinator.tick(self.clock(), &mut out);
            self.run(out);
        }
        self.step_to(end);
    }

    fn step_to(&mut self, mono_ms: u64) {
        self.wall_ms += (mono_ms - self.mono_ms) as i64;
        self.mono_ms = mono_ms;
    }

    /// Lets time pass while these members send heartbeats every three seconds.
    pub(crate) fn pass_beating(&mut self, ms: u64, members: &[&str], generation: i32) {
        let mut left = ms;
        while left > 0 {
            for member in members {
                // A rebalance under way is for the test to notice.
                let _ = self.heartbeat(member, generation);
            }
            let next = left.min(3_000);
            self.pass(next);
            left -= next;
        }
    }

    pub(crate) fn join_answer(&self, ticket: Ticket) -> Option<&JoinAnswer> {
        self.joins.get(&ticket)
    }

    pub(crate) fn sync_answer(&self, ticket: Ticket) -> Option<&SyncAnswer> {
        self.syncs.get(&ticket)
    }

    /// The answer of a join that has succeeded.
    pub(crate) fn joined(&self, ticket: Ticket) -> &Joined {
        match self.joins.get(&ticket) {
            Some(Ok(joined)) => joined,
            other => panic!("{ticket:?} was not let in: {other:?}"),
        }
    }

    pub(crate) fn join_error(&self, ticket: Ticket) -> &GroupError {
        match self.joins.get(&ticket) {
            Some(Err(error)) => error,
            other => panic!("{ticket:?} was not refused: {other:?}"),
        }
    }

    /// The assignment that a sync has brought, as text.
    pub(crate) fn assignment(&self, ticket: Ticket) -> &str {
        match self.syncs.get(&ticket) {
            Some(Ok(synced)) => std::str::from_utf8(&synced.assignment).expect("set by the test"),
            other => panic!("{ticket:?} has no assignment: {other:?}"),
        }
    }

    pub(crate) fn sync_error(&self, ticket: Ticket) -> &GroupError {
        match self.syncs.get(&ticket) {
            Some(Err(error)) => error,
            other => panic!("{ticket:?} was not refused: {other:?}"),
        }
    }

    pub(crate) fn phase(&self) -> &'static str {
        self.coordinator.describe(GROUP).map_or("none", |group| group.phase.name())
    }

    pub(crate) fn members(&self) -> usize {
        self.coordinator.describe(GROUP).map_or(0, |group| group.members.len())
    }

    pub(crate) fn generation(&self) -> i32 {
        self.coordinator.describe(GROUP).expect("the group is there").generation
    }

    /// The causes that are remembered, as sentences.
    pub(crate) fn causes(&self) -> Vec<String> {
        let history = self.coordinator.history(GROUP);
        history.iter().map(|transition| transition.cause.to_string()).collect()
    }

    /// The last transition, as `from -> to: cause`.
    pub(crate) fn last_change(&self) -> String {
        let history = self.coordinator.history(GROUP);
        let last = history.last().expect("something happened");
        format!("{} -> {}: {}", last.from, last.to, last.cause)
    }

    /// A stable group of these clients, the first of them its leader. Each `x` has the assignment `x gets`.
    pub(crate) fn stable(&mut self, clients: &[&str]) {
        let joins: Vec<Ticket> = clients.iter().map(|client| self.join(newcomer(client))).collect();
        self.pass(2 * self.options.initial_rebalance_delay_ms as u64 + 1);
        let generation = self.joined(joins[0]).generation;
        self.sync_all(clients, generation);
    }

    /// Everybody syncs, the first as the leader.
    pub(crate) fn sync_all(&mut self, clients: &[&str], generation: i32) {
        let ids: Vec<(String, String)> = clients
            .iter()
            .map(|client| (format!("{client}-1"), format!("{client} gets")))
            .collect();
        let said: Vec<(&str, &str)> =
            ids.iter().map(|(id, bytes)| (id.as_str(), bytes.as_str())).collect();
        let syncs: Vec<Ticket> =
            ids.iter().map(|(id, _)| self.sync(id, generation, &said)).collect();
        for (sync, (_, bytes)) in syncs.iter().zip(&ids) {
            assert_eq!(self.assignment(*sync), bytes);
        }
        assert_eq!(self.phase(), "Stable");
    }

    /// A coordinator that has only what was kept.
    pub(crate) fn restart(&mut self) {
        self.open.clear();
        self.coordinator = Coordinator::new(self.options);
        for (group, state) in &self.kept {
            let clock = Clock { mono_ms: self.mono_ms, wall_ms: self.wall_ms };
            self.coordinator.restore(clock, group, state).expect("we have written it");
        }
    }
}
