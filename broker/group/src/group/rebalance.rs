//! The join phase: how it begins, how long it lasts, and how a generation comes out of it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Group, JoinTimer, Phase, Step, Waiting};
use crate::error::GroupError;
use crate::history::Cause;
use crate::subscription::subscribed_topics;

/// Least time between two looks at a group whose members are all static and away: timeouts may be zero.
const AWAY_MS_MIN: u64 = 1_000;

impl Group {
    /// Begins a rebalance for `cause`; `change` is what the event changes of the members. Everybody has to join again,
    /// within the longest of their rebalance timeouts.
    pub(super) fn prepare(
        &mut self,
        step: &mut Step<'_>,
        cause: Cause,
        change: impl FnOnce(&mut Group, &mut Step<'_>),
    ) {
        let from = self.phase;
        if from == Phase::CompletingRebalance {
            self.refuse_syncs(step, &GroupError::RebalanceInProgress);
        }
        for member in self.members.values_mut() {
            member.sync_by = None;
        }
        self.initial = from == Phase::Empty;
        self.newcomer = false;
        change(self, step);
        self.transition(step, Phase::PreparingRebalance, cause);
        let timeout_ms = self.rebalance_timeout_ms();
        if self.initial {
            let delay_ms = u64::try_from(step.options.initial_rebalance_delay_ms).unwrap_or(0);
            let remaining_ms = timeout_ms.saturating_sub(delay_ms);
            let at = step.after(delay_ms);
            self.join_timer = Some(JoinTimer::Initial { at, delay_ms, remaining_ms });
        } else {
            self.join_timer = Some(JoinTimer::Rebalance { at: step.after(timeout_ms) });
        }
        self.maybe_end_join_phase(step);
    }

    /// Ends the join phase if nobody is missing. The first rebalance of an empty group always waits for its timer: its
    /// members are only just being started.
    pub(super) fn maybe_end_join_phase(&mut self, step: &mut Step<'_>) {
        assert_eq!(self.phase, Phase::PreparingRebalance, "group {}", self.name);
        let all = self.members.values().all(|member| member.join.is_some());
        if self.members.is_empty() || (all && !self.initial) {
            self.end_join_phase(step);
        }
    }

    /// A member of the group was removed. It is missed in every phase.
    pub(super) fn member_is_gone(&mut self, step: &mut Step<'_>, cause: Cause) {
        match self.phase {
            Phase::CompletingRebalance | Phase::Stable => self.prepare(step, cause, |_, _| {}),
            Phase::PreparingRebalance => {
                self.note(step, cause);
                self.maybe_end_join_phase(step);
            }
            Phase::Empty | Phase::Dead => unreachable!("such a group has no members"),
        }
    }

    /// The join timer has fired.
    pub(super) fn join_timer_fired(&mut self, step: &mut Step<'_>, timer: JoinTimer) {
        let delay_max = u64::try_from(step.options.initial_rebalance_delay_ms).unwrap_or(0);
        match timer {
            JoinTimer::Initial { delay_ms, remaining_ms, .. }
                if self.newcomer && remaining_ms > 0 =>
            {
                self.newcomer = false;
                let next_ms = delay_max.min(remaining_ms);
                self.join_timer = Some(JoinTimer::Initial {
                    at: step.after(next_ms),
                    delay_ms: next_ms,
                    remaining_ms: remaining_ms.saturating_sub(delay_ms),
                });
            }
            JoinTimer::Initial { .. } | JoinTimer::Rebalance { .. } => self.end_join_phase(step),
        }
    }

    /// Ends the join phase with those that have come; the next generation has to be kept before it is told.
    pub(super) fn end_join_phase(&mut self, step: &mut Step<'_>) {
        assert_eq!(self.phase, Phase::PreparingRebalance, "group {}", self.name);
        if matches!(self.waiting, Waiting::Generation { .. }) && !self.members.is_empty() {
            return;
        }
        let somebody_joined = self.members.values().any(|member| member.join.is_some());
        let next = self.next_generation();
        if somebody_joined && self.kept_generation < next {
            let state = self.generation_state(step, next);
            let revision = step.persist(&self.name, Some(state));
            self.on_record = true;
            self.waiting = Waiting::Generation { revision };
            self.join_timer = None;
            return;
        }
        self.begin_generation(step);
    }

    /// Generations are counted from 1 and never reused; 2^31 of them take 68 years at one a second.
    pub(super) fn next_generation(&self) -> i32 {
        self.generation.max(self.kept_generation.saturating_sub(1)).saturating_add(1)
    }

    /// The next generation: those that have joined, and static members, who may be away.
    fn begin_generation(&mut self, step: &mut Step<'_>) {
        self.join_timer = None;
        let missing = self.drop_missing(step);
        if self.members.is_empty() {
            self.begin_empty_generation(step, missing.unwrap_or(Cause::Emptied));
            return;
        }
        if !self.elect_joined_leader() {
            // Only static members that are away: they have until their sessions end.
            let timeout_ms = self.rebalance_timeout_ms().max(AWAY_MS_MIN);
            self.join_timer = Some(JoinTimer::Rebalance { at: step.after(timeout_ms) });
            self.initial = false;
            return;
        }
        let cause = missing.unwrap_or(match self.initial {
            true => Cause::WaitedForMembers,
            false => Cause::EverybodyJoined,
        });
        self.generation = self.next_generation();
        self.protocol = Some(self.vote());
        self.subscribed = self.subscriptions();
        self.initial = false;
        self.transition(step, Phase::CompletingRebalance, cause);
        self.answer_joins(step);
    }

    fn begin_empty_generation(&mut self, step: &mut Step<'_>, cause: Cause) {
        self.generation = self.next_generation();
        self.protocol = None;
        self.subscribed = self.subscriptions();
        self.initial = false;
        self.transition(step, Phase::Empty, cause);
        // Nobody waits for this: should it fail, the members that are kept time out after a restart.
        let state = self.generation_state(step, self.generation);
        step.persist(&self.name, Some(state));
        self.on_record = true;
    }

    /// Removes the dynamic members that have not rejoined.
    fn drop_missing(&mut self, step: &mut Step<'_>) -> Option<Cause> {
        let timeout_ms = self.rebalance_timeout_ms();
        let missing = self.members.iter();
        let missing =
            missing.filter(|(_, member)| member.join.is_none() && member.instance.is_none());
        let missing: Vec<String> = missing.map(|(id, _)| id.clone()).collect();
        let first = missing.first()?;
        let who = self.members[first].who(first);
        for id in &missing {
            self.remove(step, id);
        }
        Some(Cause::NotRejoined { who, others: missing.len() - 1, timeout_ms })
    }

    /// The leader has to be one that has joined: it is told the members and has to assign.
    fn elect_joined_leader(&mut self) -> bool {
        let leader = self.leader.as_ref().expect("a group with members has a leader");
        if self.members[leader].join.is_some() {
            return true;
        }
        let joined = self.members.iter().filter(|(_, member)| member.join.is_some());
        match joined.min_by_key(|(_, member)| member.arrival) {
            Some((id, _)) => {
                self.leader = Some(id.clone());
                true
            }
            None => false,
        }
    }

    /// Each member votes for the first of its assignors that everybody can do; most votes win. Between equals, the
    /// leader's order decides.
    pub(super) fn vote(&self) -> String {
        let mut can: BTreeMap<&str, usize> = BTreeMap::new();
        for name in self.members.values().flat_map(|member| member.protocols.names()) {
            *can.entry(name).or_default() += 1;
        }
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let mut names = member.protocols.iter().map(|protocol| protocol.name.as_str());
            let choice = names.find(|name| can[name] == self.members.len());
            *votes.entry(choice.expect("members have an assignor in common")).or_default() += 1;
        }
        let most = votes.values().copied().max().expect("a vote needs members");
        let leader = self.leader.as_ref().expect("a group with members has a leader");
        let preferred = self.members[leader].protocols.iter().map(|protocol| &protocol.name);
        let mut winners = preferred.filter(|name| votes.get(name.as_str()) == Some(&most));
        winners.next().expect("the leader can do what everybody can").clone()
    }

    /// The topics that members of protocol type `consumer` are subscribed to; `None` if they cannot be told.
    pub(super) fn subscriptions(&self) -> Option<BTreeSet<String>> {
        if !self.is_consumer() {
            return None;
        }
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            topics.extend(subscribed_topics(member.metadata(self.protocol.as_deref()?)?)?);
        }
        Some(topics)
    }

    /// Tells the generation to all that have joined; from now on their syncs are awaited.
    fn answer_joins(&mut self, step: &mut Step<'_>) {
        let now = step.clock.mono_ms;
        let sync_by = step.after(self.rebalance_timeout_ms());
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let answer = self.joined(&id, self.is_leader(&id), false);
            let member = self.members.get_mut(&id).expect("listed just now");
            member.is_new = false;
            member.sync_by = Some(sync_by);
            member.assignment.clear();
            member.renew(now);
            if let Some(wait) = member.join.take() {
                member.id_known = true;
                step.joined(wait.ticket, Ok(answer));
            }
        }
    }

    /// The next generation is kept, or could not be.
    pub(super) fn generation_kept(&mut self, step: &mut Step<'_>, ok: bool) {
        self.waiting = Waiting::Nothing;
        if ok {
            self.kept_generation = self.next_generation();
            self.begin_generation(step);
            return;
        }
        self.note(step, Cause::NotKept);
        self.initial = false;
        self.refuse_joins(step);
        let timeout_ms = self.rebalance_timeout_ms();
        self.join_timer = Some(JoinTimer::Rebalance { at: step.after(timeout_ms) });
        self.maybe_end_join_phase(step);
    }

    /// All joins are to be tried again. Members that do not know their ids cannot, so they are gone.
    fn refuse_joins(&mut self, step: &mut Step<'_>) {
        let now = step.clock.mono_ms;
        let mut unknown = Vec::new();
        for (id, member) in &mut self.members {
            if let Some(wait) = member.join.take() {
                step.joined(wait.ticket, Err(GroupError::NotAvailable));
                member.renew(now);
                member.is_new = false;
                if !member.id_known {
                    unknown.push(id.clone());
                }
            }
        }
        for id in unknown {
            self.remove(step, &id);
        }
    }
}
