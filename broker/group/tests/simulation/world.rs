//! Time, the network, the log and the accidents.

use std::collections::{BTreeMap, BTreeSet};

use rillway_group::{Clock, Coordinator, Effect, Options, Ticket};

use super::client::{Answer, Client, GROUP, Request, State};
use super::oracle::Oracle;
use super::random::Random;

/// How long accidents go on, and how long they have been over when everybody must have its part.
const ACCIDENTS_MS: u64 = 150_000;
const QUIET_MS: u64 = 150_000;

const OPTIONS: Options = Options {
    session_timeout_min_ms: 6_000,
    session_timeout_max_ms: 1_800_000,
    initial_rebalance_delay_ms: 3_000,
    size_max: 64,
    offset_metadata_max: 4_096,
    offsets_retention_ms: 604_800_000,
    history_max: 16,
};

#[derive(Clone, Copy, Debug)]
struct Caller {
    client: usize,
    life: u32,
    call: u64,
}

enum Event {
    ToBroker(Caller, Request),
    ToClient(Caller, Answer),
    Wake(usize),
    Log,
    Accident,
}

/// What the coordinator has asked to be kept.
struct Record {
    revision: u64,
    state: Option<Vec<u8>>,
}

/// What a ticket was for.
struct Asked {
    caller: Caller,
    instance: Option<String>,
    /// Of a sync.
    member: String,
    generation: i32,
}

/// How often the things were met that the simulation is for.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    restarts: u64,
    stable_restarts: u64,
    failed_records: u64,
    skipped_records: u64,
    lost_answers: u64,
    repeated_joins: u64,
    stale_commits_refused: u64,
    commits: u64,
    skipped_assignments: u64,
    generations: u64,
}

impl Reached {
    pub(crate) fn add(&mut self, of_seed: &Reached) {
        self.restarts += of_seed.restarts;
        self.stable_restarts += of_seed.stable_restarts;
        self.failed_records += of_seed.failed_records;
        self.skipped_records += of_seed.skipped_records;
        self.lost_answers += of_seed.lost_answers;
        self.repeated_joins += of_seed.repeated_joins;
        self.stale_commits_refused += of_seed.stale_commits_refused;
        self.commits += of_seed.commits;
        self.skipped_assignments += of_seed.skipped_assignments;
        self.generations += of_seed.generations;
    }

    pub(crate) fn check(&self) {
        let all = [
            self.restarts,
            self.stable_restarts,
            self.failed_records,
            self.skipped_records,
            self.skipped_assignments,
            self.lost_answers,
            self.repeated_joins,
            self.stale_commits_refused,
            self.commits,
            self.generations,
        ];
        assert!(all.iter().all(|count| *count > 0), "{self:?}");
    }
}

pub(crate) struct World {
    random: Random,
    coordinator: Coordinator,
    oracle: Oracle,
    reached: Reached,
    clients: Vec<Client>,
    events: BTreeMap<(u64, u64), Event>,
    numbers: u64,
    mono_ms: u64,
    wall_ms: i64,
    partitions: u32,
    tickets: BTreeMap<Ticket, Asked>,
    /// Asked to be kept and not reported, in order.
    open: Vec<Record>,
    kept: Option<Vec<u8>>,
    quiet: bool,
}

impl World {
    pub(crate) fn run(seed: u64) -> Reached {
        let mut random = Random::new(seed);
        let count = random.between(1, 8) as usize;
        let clients = (0..count).map(|index| Client::new(index, &mut random)).collect();
        let partitions = random.between(1, 12) as u32;
        let mut world = World {
            random,
            coordinator: Coordinator::new(OPTIONS),
            oracle: Oracle::default(),
            reached: Reached::default(),
            clients,
            events: BTreeMap::new(),
            numbers: 0,
            mono_ms: 1,
            wall_ms: 1_800_000_000_000,
            partitions,
            tickets: BTreeMap::new(),
            open: Vec::new(),
            kept: None,
            quiet: false,
        };
        for index in 0..count {
            world.clients[index].start(1);
            let delay = world.random.below(5_000);
            world.after(delay, Event::Wake(index));
        }
        world.after(1_000, Event::Accident);
        world.until(ACCIDENTS_MS);
        world.calm();
        world.until(ACCIDENTS_MS + QUIET_MS);
        world.check_end();
        world.reached
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn after(&mut self, ms: u64, event: Event) {
        let number = self.number();
        self.events.insert((self.mono_ms + ms, number), event);
    }

    fn clock(&self) -> Clock {
        Clock { mono_ms: self.mono_ms, wall_ms: self.wall_ms }
    }

    fn until(&mut self, end: u64) {
        loop {
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let timer = self.coordinator.deadline();
            let Some(next) = event.into_iter().chain(timer).min().filter(|at| *at <= end) else {
                break;
            };
            let next = next.max(self.mono_ms);
            self.wall_ms += (next - self.mono_ms) as i64;
            self.mono_ms = next;
            if timer.is_some_and(|at| at <= next) {
                let mut out = Vec::new();
                self.coordinator.tick(self.clock(), &mut out);
                self.carry_out(out);
            } else {
                let (_, event) = self.events.pop_first().expect("seen just now");
                self.happen(event);
            }
            self.check_bounds();
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            // What a member sent before it hung is stuck with it.
            Event::ToBroker(caller, Request::Sync(_))
                if self.clients[caller.client].state == State::Hung => {}
            Event::ToBroker(caller, request) => self.serve(caller, request),
            Event::ToClient(caller, answer) => {
                let client = &mut self.clients[caller.client];
                if client.alive && client.life == caller.life && client.call == caller.call {
                    let request = client.answered(self.mono_ms, self.partitions, answer);
                    if let Some(request) = request {
                        self.ask(caller.client, request);
                    }
                }
            }
            Event::Wake(index) => self.wake(index),
            Event::Log => self.report(),
            Event::Accident => self.accident(),
        }
    }

    fn wake(&mut self, index: usize) {
        let pause = if !self.quiet && self.random.percent(1) {
            // Slow processing: it is not heard of for longer than a session or a rebalance lasts.
            self.random.between(5_000, 40_000)
        } else {
            self.random.between(200, 1_500)
        };
        self.after(pause, Event::Wake(index));
        if !self.clients[index].alive {
            return;
        }
        let id = format!("c{index}-{}", self.number());
        let client = &mut self.clients[index];
        let joining = matches!(client.state, State::Joining(_));
        let request = client.wake(self.mono_ms, self.partitions, id, &mut self.random);
        if let Some(request) = request {
            if joining {
                self.reached.repeated_joins += 1;
                self.hang_up(index);
            }
            self.ask(index, request);
        }
    }

    /// The connection of a client is closed; the coordinator may be told.
    fn hang_up(&mut self, index: usize) {
        let waiting: Vec<Ticket> = self
            .tickets
            .iter()
            .filter(|(_, asked)| asked.caller.client == index)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in waiting {
            if self.random.percent(50) {
                let mut out = Vec::new();
                self.coordinator.abandoned(self.clock(), GROUP, ticket, &mut out);
                self.carry_out(out);
            }
        }
    }

    /// A request goes out, and may get lost.
    fn ask(&mut self, index: usize, request: Request) {
        let call = self.number();
        let client = &mut self.clients[index];
        client.call = call;
        let caller = Caller { client: index, life: client.life, call };
        if !self.lost() {
            let delay = self.delay();
            self.after(delay, Event::ToBroker(caller, request));
        }
    }

    fn answer(&mut self, caller: Caller, answer: Answer) {
        if self.lost() {
            self.reached.lost_answers += 1;
        } else {
            let delay = self.delay();
            self.after(delay, Event::ToClient(caller, answer));
        }
    }

    fn lost(&mut self) -> bool {
        !self.quiet && self.random.percent(4)
    }

    fn delay(&mut self) -> u64 {
        match self.quiet {
            true => self.random.between(1, 20),
            false if self.random.percent(3) => self.random.between(1_000, 20_000),
            false => self.random.between(1, 200),
        }
    }

    fn serve(&mut self, caller: Caller, request: Request) {
        let clock = self.clock();
        let ticket = Ticket(self.number());
        let mut out = Vec::new();
        match request {
            Request::Join(join) => {
                let asked = Asked {
                    caller,
                    instance: join.instance.clone(),
                    member: String::new(),
                    generation: -1,
                };
                self.tickets.insert(ticket, asked);
                self.coordinator.join(clock, ticket, join, &mut out);
            }
            Request::Sync(sync) => {
                let asked = Asked {
                    caller,
                    instance: None,
                    member: sync.fence.member.clone(),
                    generation: sync.fence.generation,
                };
                self.tickets.insert(ticket, asked);
                self.coordinator.sync(clock, ticket, sync, &mut out);
            }
            Request::Beat(beat) => {
                let result = self.coordinator.heartbeat(clock, &beat);
                self.answer(caller, Answer::Life(result));
            }
            Request::Commit(commit) => {
                let result = self.coordinator.check_commit(clock, &commit);
                if result.is_ok() {
                    self.reached.commits += 1;
                    self.oracle.committed(&commit.fence.member, commit.fence.generation);
                }
                self.answer(caller, Answer::Life(result));
            }
            Request::Leave(leave) => {
                let result = self.coordinator.leave(clock, &leave, &mut out);
                if result.expect("the group has a name") == [Ok(())] {
                    self.oracle.left(&leave.members[0].member);
                }
            }
        }
        self.carry_out(out);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Joined(ticket, answer) => {
                    let asked = self.tickets.remove(&ticket).expect("answered once");
                    if let Ok(joined) = &answer {
                        self.reached.generations +=
                            u64::from(joined.generation > self.oracle.newest());
                        self.reached.skipped_assignments += u64::from(joined.skip_assignment);
                        self.oracle.joined(joined, asked.instance.as_deref());
                    }
                    self.answer(asked.caller, Answer::Join(answer));
                }
                Effect::Synced(ticket, answer) => {
                    let asked = self.tickets.remove(&ticket).expect("answered once");
                    if let Ok(synced) = &answer {
                        self.oracle.synced(&asked.member, asked.generation, synced);
                    }
                    self.answer(asked.caller, Answer::Sync(answer));
                }
                Effect::Persist { group, revision, state } => {
                    assert_eq!(group, GROUP);
                    let newest = self.open.last().map_or(0, |record| record.revision);
                    assert!(revision > newest, "revisions rise");
                    self.open.push(Record { revision, state });
                    // Now and then the disk is slow, and much happens meanwhile.
                    let slow = !self.quiet && self.random.percent(10);
                    let delay = self.random.between(1, if slow { 8_000 } else { 60 });
                    self.after(delay, Event::Log);
                }
            }
        }
    }

    /// The oldest record is written, or not, or was passed over for a newer one.
    fn report(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let Record { revision, state } = self.open.remove(0);
        if !self.open.is_empty() && self.random.percent(50) {
            self.reached.skipped_records += 1;
            return;
        }
        let ok = self.quiet || !self.random.percent(8);
        // A failed write may have reached the disk all the same.
        if ok || self.random.percent(25) {
            self.kept = state;
        }
        self.reached.failed_records += u64::from(!ok);
        let mut out = Vec::new();
        self.coordinator.persisted(self.clock(), GROUP, revision, ok, &mut out);
        self.carry_out(out);
    }

    fn accident(&mut self) {
        if self.quiet {
            return;
        }
        let pause = self.random.between(500, 6_000);
        self.after(pause, Event::Accident);
        let index = self.random.below(self.clients.len() as u64) as usize;
        let now = self.mono_ms;
        match self.random.below(12) {
            0 | 1 if self.clients[index].alive => {
                self.clients[index].alive = false;
                self.hang_up(index);
            }
            0..=3 if !self.clients[index].alive => self.clients[index].start(now),
            4 if self.clients[index].alive => {
                let request = self.clients[index].leave();
                self.ask(index, request);
            }
            5 if self.partitions < 40 => self.partitions += 1,
            6 => self.clients[index].topics ^= 1,
            7 => self.restart(),
            8 => self.wall_ms += self.random.below(20_000_000) as i64 - 10_000_000,
            _ => self.commit_from_the_past(),
        }
    }

    /// What is on the disk goes on; whoever waited for an answer gets none.
    fn restart(&mut self) {
        self.reached.restarts += 1;
        for record in std::mem::take(&mut self.open) {
            if self.random.percent(50) {
                break;
            }
            self.kept = record.state;
        }
        self.tickets.clear();
        for client in &mut self.clients {
            client.disconnected(self.mono_ms);
        }
        self.coordinator = Coordinator::new(OPTIONS);
        if let Some(state) = &self.kept {
            self.coordinator.restore(self.clock(), GROUP, state).expect("we have written it");
        }
        self.oracle.restarted(self.coordinator.describe(GROUP).as_ref());
        self.check_stable_members();
    }

    /// Members that have their part go on with it after a restart if nothing was under way.
    fn check_stable_members(&mut self) {
        let Some(group) = self.coordinator.describe(GROUP) else { return };
        for index in 0..self.clients.len() {
            let client = &self.clients[index];
            let settled = client.alive
                && client.state == State::In
                && client.generation == group.generation
                && group.members.iter().any(|member| member.member == client.id);
            if !settled {
                continue;
            }
            let fence = rillway_group::Fence {
                member: client.id.clone(),
                instance: client.instance.clone(),
                generation: client.generation,
            };
            let beat = rillway_group::Heartbeat { group: GROUP.to_owned(), fence };
            assert_eq!(self.coordinator.heartbeat(self.clock(), &beat), Ok(()));
            self.reached.stable_restarts += 1;
        }
    }

    fn commit_from_the_past(&mut self) {
        let nth = self.random.below(u64::MAX);
        let Some((member, mut generation)) = self.oracle.past(nth) else { return };
        if self.random.percent(30) {
            generation += 1;
        }
        let fence = rillway_group::Fence { member: member.clone(), instance: None, generation };
        let commit = rillway_group::Commit { group: GROUP.to_owned(), fence };
        match self.coordinator.check_commit(self.clock(), &commit) {
            Ok(()) => self.oracle.committed(&member, generation),
            Err(_) => self.reached.stale_commits_refused += 1,
        }
    }

    fn calm(&mut self) {
        self.quiet = true;
        for client in &mut self.clients {
            client.calm = true;
        }
        if self.clients.iter().all(|client| !client.alive) {
            self.clients[0].start(self.mono_ms);
        }
        // An old leader that came back may not know that it leads (see `statics`), and would not notice more partitions.
        let mut alive = self.clients.iter_mut().filter(|client| client.alive);
        alive.next().expect("one at least").topics ^= 2;
    }

    fn check_bounds(&self) {
        let members = self.coordinator.describe(GROUP).map_or(0, |group| group.members.len());
        assert!(
            self.tickets.len() <= members,
            "{} tickets of {members} members are not answered",
            self.tickets.len()
        );
        assert!(self.coordinator.history(GROUP).len() <= OPTIONS.history_max);
    }

    fn check_end(&self) {
        let group = self.coordinator.describe(GROUP).expect("somebody is alive");
        let why = || {
            let history = self.coordinator.history(GROUP);
            let lines = history.iter().map(|t| format!("{} {}: {}", t.generation, t.to, t.cause));
            lines.collect::<Vec<_>>().join("\n")
        };
        assert_eq!(group.phase.name(), "Stable", "{}", why());
        let alive: Vec<&Client> = self.clients.iter().filter(|client| client.alive).collect();
        assert_eq!(group.members.len(), alive.len(), "{}", why());
        let mut owned = BTreeSet::new();
        for client in alive {
            assert_eq!(client.state, State::In, "client {} is stuck\n{}", client.index, why());
            assert_eq!(client.generation, group.generation, "{}", why());
            for partition in &client.owned {
                assert!(owned.insert(*partition), "{partition} has two owners");
            }
        }
        assert!(owned.iter().copied().eq(0..self.partitions), "{owned:?} of {}", self.partitions);
        assert_eq!((self.tickets.len(), self.open.len()), (0, 0));
    }
}
