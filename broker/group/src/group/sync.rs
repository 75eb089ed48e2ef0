//! SyncGroup: the leader's assignments come in, are kept, and go out.

use std::collections::BTreeMap;

use super::{Group, Phase, Step, Waiting};
use crate::effect::{Synced, Ticket};
use crate::error::GroupError;
use crate::event::Sync;
use crate::history::Cause;

impl Group {
    pub(crate) fn sync(&mut self, step: &mut Step<'_>, ticket: Ticket, sync: &Sync) {
        if let Err(error) = self.check_sync(sync) {
            step.synced(ticket, Err(error));
            return;
        }
        let id = sync.fence.member.as_str();
        let member = self.members.get_mut(id).expect("checked above");
        member.touch(step.clock.mono_ms);
        match self.phase {
            Phase::PreparingRebalance => {
                step.synced(ticket, Err(GroupError::RebalanceInProgress));
            }
            Phase::CompletingRebalance => {
                member.sync_by = None;
                if let Some(lost) = member.sync.replace(ticket) {
                    step.synced(lost, Err(GroupError::RebalanceInProgress));
                }
                // A leader that asks again because its answer was lost says what it said before.
                if self.is_leader(id) && matches!(self.waiting, Waiting::Nothing) {
                    self.keep_assignments(step, &sync.assignments);
                }
            }
            Phase::Stable => {
                member.sync_by = None;
                let assignment = member.assignment.clone();
                step.synced(ticket, Ok(self.synced(assignment)));
            }
            Phase::Empty | Phase::Dead => unreachable!("such a group has no members"),
        }
    }

    fn check_sync(&self, sync: &Sync) -> Result<(), GroupError> {
        self.validate(&sync.fence.member, sync.fence.instance.as_deref())?;
        self.check_generation(sync.fence.generation)?;
        let differs = |said: &Option<String>, is: &Option<String>| {
            said.is_some() && is.is_some() && said != is
        };
        if differs(&sync.protocol_type, &self.protocol_type)
            || differs(&sync.protocol_name, &self.protocol)
        {
            return Err(GroupError::InconsistentProtocol);
        }
        Ok(())
    }

    /// Members that the leader forgot get nothing; those that it invented are dropped.
    fn keep_assignments(&mut self, step: &mut Step<'_>, said: &[(String, Vec<u8>)]) {
        let said: BTreeMap<&str, &[u8]> =
            said.iter().map(|(id, assignment)| (id.as_str(), assignment.as_slice())).collect();
        let assignments: BTreeMap<String, Vec<u8>> = self
            .members
            .keys()
            .map(|id| {
                let assignment = said.get(id.as_str()).copied().unwrap_or_default();
                (id.clone(), assignment.to_vec())
            })
            .collect();
        let state = self.stable_state(|id, _| assignments[id].clone());
        let revision = step.persist(&self.name, Some(state));
        self.waiting = Waiting::Assignments { revision, assignments };
    }

    /// The assignments are kept, or could not be.
    pub(super) fn assignments_kept(&mut self, step: &mut Step<'_>, ok: bool) {
        let waiting = std::mem::replace(&mut self.waiting, Waiting::Nothing);
        let Waiting::Assignments { mut assignments, .. } = waiting else {
            unreachable!("the caller has looked: {waiting:?}")
        };
        if !ok {
            self.refuse_syncs(step, &GroupError::NotAvailable);
            self.prepare(step, Cause::NotKept, |_, _| {});
            return;
        }
        for (id, member) in &mut self.members {
            // Whoever comes or goes begins a rebalance, which ends the wait.
            member.assignment = assignments.remove(id).expect("members stay until it is kept");
        }
        self.transition(step, Phase::Stable, Cause::Assigned);
        let now = step.clock.mono_ms;
        let mut answers = Vec::new();
        for member in self.members.values_mut() {
            if let Some(ticket) = member.sync.take() {
                member.renew(now);
                answers.push((ticket, member.assignment.clone()));
            }
        }
        for (ticket, assignment) in answers {
            step.synced(ticket, Ok(self.synced(assignment)));
        }
    }

    fn synced(&self, assignment: Vec<u8>) -> Synced {
        Synced {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol_name: self.protocol.clone().unwrap_or_default(),
            assignment,
        }
    }

    /// Everybody who waits for an assignment gets `error` instead.
    pub(super) fn refuse_syncs(&mut self, step: &mut Step<'_>, error: &GroupError) {
        let now = step.clock.mono_ms;
        for member in self.members.values_mut() {
            if let Some(ticket) = member.sync.take() {
                member.renew(now);
                step.synced(ticket, Err(error.clone()));
            }
        }
    }

    /// Members that have not synced in time are removed, and the others rebalance.
    pub(super) fn end_syncs(&mut self, step: &mut Step<'_>) {
        let now = step.clock.mono_ms;
        let timeout_ms = self.rebalance_timeout_ms();
        let due =
            self.members.iter().filter(|(_, member)| member.sync_by.is_some_and(|at| at <= now));
        let mut due: Vec<String> = due.map(|(id, _)| id.clone()).collect();
        // If the leader is among them, it is the one that all the others wait for.
        due.sort_by_key(|id| !self.is_leader(id));
        let Some(first) = due.first() else { return };
        let who = self.members[first].who(first);
        let leader = self.is_leader(first) && self.phase == Phase::CompletingRebalance;
        let cause = Cause::NotSynced { who, others: due.len() - 1, leader, timeout_ms };
        for id in &due {
            self.remove(step, id);
        }
        self.prepare(step, cause, |_, _| {});
    }
}
