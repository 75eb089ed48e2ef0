//! One classic group: its phase, its members, and what it waits for.
//!
//! The files: `member` (one member), `join` and `statics` (JoinGroup), `rebalance` (the join phase and its end), `sync`
//! (SyncGroup and the assignment), `session` (heartbeats, leaving, timers), `keep` (what is kept and restored),
//! `describe`. A generation is answered to members only after it was kept, so that no restart can give it out again:
//! the end of a join phase first keeps the group as empty at the new generation, and answers when that is reported.
//! Kafka does without, and a restart between the end of a join and the sync gives the same generation out twice.
//!
//! Owned by the coordinator of one core. Absent on purpose: waiting for ids that were given out by MEMBER_ID_REQUIRED.
//! Kafka holds the join phase for them, and ids that nobody comes back with block the others (field case group-1).

mod describe;
mod join;
mod keep;
mod member;
mod rebalance;
mod session;
mod statics;
mod sync;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use describe::{Described, DescribedMember, Listed};

pub(crate) use self::keep::check_texts;
use self::member::{Member, PendingId};
use self::statics::Replaced;
use crate::clock::Clock;
use crate::effect::{Effect, Joined, Synced, Ticket};
use crate::error::GroupError;
use crate::history::{Cause, History, Transition};
use crate::options::Options;

/// The protocol type whose metadata names topics.
const CONSUMER: &str = "consumer";

/// Ids given out by MEMBER_ID_REQUIRED that a group remembers; one more pushes out the oldest, whose owner is told to
/// begin again. An honest client comes back within a round trip.
const PENDING_MAX: usize = 1_000;

/// How long a member that does not know its id yet may wait for the answer of its join, as in Kafka: it cannot send
/// heartbeats, and a client that has given up would stay for ever.
const NEW_MEMBER_JOIN_MS: u64 = 300_000;

/// The state of a group, under Kafka's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// No members; there may be committed offsets.
    Empty,
    /// Joins are collected.
    PreparingRebalance,
    /// The generation is told to members, the assignment of its leader is awaited.
    CompletingRebalance,
    /// Everybody has, or can have, an assignment.
    Stable,
    /// Not there any more.
    Dead,
}

impl Phase {
    /// Kafka's name of the state.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Empty => "Empty",
            Phase::PreparingRebalance => "PreparingRebalance",
            Phase::CompletingRebalance => "CompletingRebalance",
            Phase::Stable => "Stable",
            Phase::Dead => "Dead",
        }
    }

    /// Whether a group may go from this phase to `to`.
    const fn leads_to(self, to: Phase) -> bool {
        match to {
            Phase::Empty => matches!(self, Phase::PreparingRebalance),
            Phase::PreparingRebalance => {
                matches!(self, Phase::Empty | Phase::CompletingRebalance | Phase::Stable)
            }
            Phase::CompletingRebalance => matches!(self, Phase::PreparingRebalance),
            Phase::Stable => matches!(self, Phase::CompletingRebalance),
            // Such a group is not held any more.
            Phase::Dead => false,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One event's surroundings: the time, the settings, and where effects go.
pub(crate) struct Step<'a> {
    pub(crate) clock: Clock,
    pub(crate) options: &'a Options,
    /// The last revision given out by this coordinator, to whatever group.
    pub(crate) revision: &'a mut u64,
    pub(crate) out: &'a mut Vec<Effect>,
}

impl Step<'_> {
    fn joined(&mut self, ticket: Ticket, answer: Result<Joined, GroupError>) {
        self.out.push(Effect::Joined(ticket, answer));
    }

    fn synced(&mut self, ticket: Ticket, answer: Result<Synced, GroupError>) {
        self.out.push(Effect::Synced(ticket, answer));
    }

    fn persist(&mut self, group: &str, state: Option<Vec<u8>>) -> u64 {
        *self.revision += 1;
        let revision = *self.revision;
        self.out.push(Effect::Persist { group: group.to_owned(), revision, state });
        revision
    }

    /// The moment on the monotonic clock that is `ms` from now.
    fn after(&self, ms: u64) -> u64 {
        self.clock.mono_ms.saturating_add(ms)
    }
}

/// What the group has asked to be kept, and what happens once it is. Belongs to a phase and ends with it.
#[derive(Debug)]
enum Waiting {
    Nothing,
    /// `PreparingRebalance`: the next generation, before it is told to anybody.
    Generation {
        revision: u64,
    },
    /// `CompletingRebalance`: the leader's assignments, by member.
    Assignments {
        revision: u64,
        assignments: BTreeMap<String, Vec<u8>>,
    },
    /// `Stable`: static members that came back under new ids.
    Replaced(Vec<Replaced>),
}

/// When the join phase ends although not everybody has come.
#[derive(Clone, Copy, Debug)]
enum JoinTimer {
    /// The first rebalance of an empty group: `delay_ms` at a time, as long as members come and time remains.
    Initial {
        at: u64,
        delay_ms: u64,
        remaining_ms: u64,
    },
    Rebalance {
        at: u64,
    },
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Group {
    name: String,
    phase: Phase,
    /// Wall clock of the last change of phase; retention goes by it. -1: not known.
    since_ms: i64,
    /// The last generation that was told to members, or that ended with the group empty.
    generation: i32,
    /// The highest generation that is known to be kept.
    kept_generation: i32,
    /// Something of the group was handed out to be kept, so its end has to be too.
    on_record: bool,
    protocol_type: Option<String>,
    protocol: Option<String>,
    leader: Option<String>,
    members: BTreeMap<String, Member>,
    /// Static members: group instance id to member id.
    instances: BTreeMap<String, String>,
    pending: Vec<PendingId>,
    /// Numbers members in the order they came, for the election of a leader.
    arrivals: u64,
    /// `PreparingRebalance`, and the group was empty before.
    initial: bool,
    /// During the initial rebalance: somebody came since its timer was set.
    newcomer: bool,
    join_timer: Option<JoinTimer>,
    waiting: Waiting,
    /// What all members of the current generation ask for; none if that cannot be told.
    subscribed: Option<BTreeSet<String>>,
    history: History,
}

impl Group {
    pub(crate) fn new(name: &str, wall_ms: i64) -> Group {
        Group {
            name: name.to_owned(),
            phase: Phase::Empty,
            since_ms: wall_ms,
            generation: 0,
            kept_generation: 0,
            on_record: false,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            pending: Vec::new(),
            arrivals: 0,
            initial: false,
            newcomer: false,
            join_timer: None,
            waiting: Waiting::Nothing,
            subscribed: None,
            history: History::default(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn history(&self) -> Vec<Transition> {
        self.history.to_vec()
    }

    /// Whether something of it was handed out to be kept.
    pub(crate) fn is_on_record(&self) -> bool {
        self.on_record
    }

    /// Nothing would be lost with it: it has no members, nobody was promised an id, nothing of it was kept.
    pub(crate) fn is_void(&self) -> bool {
        self.phase == Phase::Empty && self.pending.is_empty() && !self.on_record
    }

    fn is_consumer(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER)
    }

    fn is_leader(&self, member: &str) -> bool {
        self.leader.as_deref() == Some(member)
    }

    /// Goes to another phase. What was waited for in the old one ends; answers that are held must have been given, or
    /// go on in the new one.
    fn transition(&mut self, step: &Step<'_>, to: Phase, cause: Cause) {
        assert!(self.phase.leads_to(to), "group {}: {} to {to}", self.name, self.phase);
        let from = self.phase;
        self.phase = to;
        self.since_ms = step.clock.wall_ms;
        self.waiting = Waiting::Nothing;
        self.remember(step, from, cause);
    }

    /// Notes something that matters within the phase.
    fn note(&mut self, step: &Step<'_>, cause: Cause) {
        self.remember(step, self.phase, cause);
    }

    fn remember(&mut self, step: &Step<'_>, from: Phase, cause: Cause) {
        let transition = Transition {
            wall_ms: step.clock.wall_ms,
            from,
            to: self.phase,
            generation: self.generation,
            cause,
            members: self.members.len(),
        };
        self.history.add(transition, step.options.history_max);
    }

    /// The longest that a member may take to rejoin.
    fn rebalance_timeout_ms(&self) -> u64 {
        self.members.values().map(Member::rebalance_ms).max().unwrap_or(0)
    }

    /// The member, and that it is the one that holds its group instance id.
    fn validate(&self, member: &str, instance: Option<&str>) -> Result<(), GroupError> {
        if let Some(instance) = instance {
            match self.instances.get(instance) {
                None => return Err(GroupError::UnknownMember(member.to_owned())),
                Some(holder) if holder != member => {
                    return Err(GroupError::FencedInstance(instance.to_owned()));
                }
                Some(_) => {}
            }
        }
        if self.members.contains_key(member) {
            Ok(())
        } else {
            Err(GroupError::UnknownMember(member.to_owned()))
        }
    }

    fn check_generation(&self, got: i32) -> Result<(), GroupError> {
        if got == self.generation {
            Ok(())
        } else {
            Err(GroupError::IllegalGeneration { got, current: self.generation })
        }
    }

    /// Takes a member out and refuses the answers it waits for. The leader's place goes to the one that came first.
    fn remove(&mut self, step: &mut Step<'_>, id: &str) -> Option<Member> {
        let mut member = self.members.remove(id)?;
        if let Some(wait) = member.join.take() {
            step.joined(wait.ticket, Err(GroupError::UnknownMember(id.to_owned())));
        }
        if let Some(ticket) = member.sync.take() {
            step.synced(ticket, Err(GroupError::UnknownMember(id.to_owned())));
        }
        if let Some(instance) = &member.instance {
            let holder = self.instances.remove(instance);
            assert_eq!(holder.as_deref(), Some(id), "group {}: instance {instance}", self.name);
        }
        if let Waiting::Replaced(replaced) = &mut self.waiting {
            replaced.retain(|replaced| replaced.member != id);
        }
        if self.is_leader(id) {
            let first = self.members.iter().min_by_key(|(_, member)| member.arrival);
            self.leader = first.map(|(id, _)| id.clone());
        }
        Some(member)
    }

    /// What must hold between events.
    ///
    /// # Panics
    /// When it does not: then members would be answered nonsense.
    pub(crate) fn check(&self) {
        let Group { name, phase, members, .. } = self;
        assert!(
            *phase != Phase::Empty || members.is_empty(),
            "group {name} is empty and has {} members",
            members.len()
        );
        assert!(
            *phase == Phase::Empty || !members.is_empty(),
            "group {name} is {phase} and has no members"
        );
        assert!(
            !matches!(phase, Phase::CompletingRebalance | Phase::Stable)
                || self.generation <= self.kept_generation,
            "group {name} told generation {}, kept is {}",
            self.generation,
            self.kept_generation
        );
        match self.waiting {
            Waiting::Nothing => {}
            Waiting::Generation { .. } => assert_eq!(*phase, Phase::PreparingRebalance),
            Waiting::Assignments { .. } => assert_eq!(*phase, Phase::CompletingRebalance),
            Waiting::Replaced(_) => assert_eq!(*phase, Phase::Stable),
        }
        assert_eq!(
            self.join_timer.is_some() || matches!(self.waiting, Waiting::Generation { .. }),
            *phase == Phase::PreparingRebalance,
            "group {name} is {phase} and its join phase has an end: {:?}",
            self.join_timer
        );
        assert!(self.pending.len() <= PENDING_MAX, "group {name} has too many pending ids");
        if cfg!(debug_assertions) {
            self.check_members();
        }
    }

    /// The part of [`Group::check`] whose price grows with the group.
    fn check_members(&self) {
        let Group { name, phase, members, .. } = self;
        assert_eq!(
            members.values().filter(|member| member.instance.is_some()).count(),
            self.instances.len(),
            "group {name}: static members"
        );
        for (instance, id) in &self.instances {
            assert_eq!(members[id].instance.as_ref(), Some(instance), "group {name}");
        }
        assert_eq!(
            self.leader.is_some(),
            !members.is_empty(),
            "group {name} is led by {:?}",
            self.leader
        );
        assert!(self.leader.iter().all(|leader| members.contains_key(leader)), "group {name}");
        for (id, member) in members {
            let held = match &self.waiting {
                Waiting::Replaced(replaced) => replaced.iter().any(|new| new.member == *id),
                _ => *phase == Phase::PreparingRebalance,
            };
            assert!(
                member.join.is_none() || held,
                "group {name} is {phase}: {id} waits for its join"
            );
            assert!(
                member.sync.is_none() || *phase == Phase::CompletingRebalance,
                "group {name} is {phase}: {id} waits for its sync"
            );
            assert!(self.pending.iter().all(|pending| pending.id != *id), "group {name}: {id}");
        }
    }
}
