//! Signs of life, leaving, and what happens when time passes.

use super::member::Member;
use super::{Group, JoinTimer, Phase, Step};
use crate::effect::Ticket;
use crate::error::GroupError;
use crate::event::{Commit, Heartbeat, Leaving};
use crate::history::{Cause, cut_reason};

impl Group {
    pub(crate) fn heartbeat(&mut self, now: u64, beat: &Heartbeat) -> Result<(), GroupError> {
        self.validate(&beat.fence.member, beat.fence.instance.as_deref())?;
        self.check_generation(beat.fence.generation)?;
        self.members.get_mut(&beat.fence.member).expect("checked above").touch(now);
        match self.phase {
            Phase::PreparingRebalance => Err(GroupError::RebalanceInProgress),
            Phase::CompletingRebalance | Phase::Stable => Ok(()),
            Phase::Empty | Phase::Dead => unreachable!("such a group has no members"),
        }
    }

    /// Whether a commit is allowed; it counts as a heartbeat. While joins are collected, members of the generation that
    /// ends may still commit, and should.
    pub(crate) fn check_commit(&mut self, now: u64, commit: &Commit) -> Result<(), GroupError> {
        let fence = &commit.fence;
        if fence.generation < 0 && self.phase == Phase::Empty {
            return Ok(());
        }
        if fence.generation < 0 && fence.member.is_empty() && fence.instance.is_none() {
            return Err(GroupError::UnknownMember(String::new()));
        }
        self.validate(&fence.member, fence.instance.as_deref())?;
        self.check_generation(fence.generation)?;
        let member = self.members.get_mut(&fence.member).expect("checked above");
        if member.is_new {
            // No generation was told to it yet, so it has guessed.
            let (got, current) = (fence.generation, self.generation);
            return Err(GroupError::IllegalGeneration { got, current });
        }
        if self.phase == Phase::CompletingRebalance {
            return Err(GroupError::RebalanceInProgress);
        }
        member.touch(now);
        Ok(())
    }

    /// Takes members out; one answer for each. The others rebalance once.
    pub(crate) fn leave(
        &mut self,
        step: &mut Step<'_>,
        leaving: &[Leaving],
    ) -> Vec<Result<(), GroupError>> {
        let mut first = None;
        let mut answers = Vec::with_capacity(leaving.len());
        for one in leaving {
            answers.push(match self.leave_one(step, one) {
                Ok(Some(cause)) => {
                    first.get_or_insert(cause);
                    Ok(())
                }
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            });
        }
        if let Some(cause) = first {
            self.member_is_gone(step, cause);
        }
        answers
    }

    /// `None` if it was no member yet.
    fn leave_one(
        &mut self,
        step: &mut Step<'_>,
        leaving: &Leaving,
    ) -> Result<Option<Cause>, GroupError> {
        let id = if leaving.member.is_empty() {
            // An administrator names the instance only.
            let holder = leaving.instance.as_ref().and_then(|name| self.instances.get(name));
            holder.cloned().ok_or(GroupError::UnknownMember(String::new()))?
        } else if let Some(at) = self.pending.iter().position(|one| one.id == leaving.member) {
            self.pending.remove(at);
            return Ok(None);
        } else {
            self.validate(&leaving.member, leaving.instance.as_deref())?;
            leaving.member.clone()
        };
        let member = self.remove(step, &id).expect("checked above");
        let reason = cut_reason(leaving.reason.as_deref());
        Ok(Some(Cause::Left { who: member.who(&id), reason }))
    }

    /// The connection that waits for `ticket` is closed. A member that has not been told its id can never come back.
    pub(crate) fn abandoned(&mut self, step: &mut Step<'_>, ticket: Ticket) {
        let waits = self.members.iter().find(|(_, member)| {
            member.is_new
                && !member.id_known
                && member.join.as_ref().is_some_and(|wait| wait.ticket == ticket)
        });
        let Some((id, member)) = waits else { return };
        let (id, who) = (id.clone(), member.who(id));
        self.remove(step, &id);
        self.member_is_gone(step, Cause::Disconnected { who });
    }

    /// When [`Group::tick`] has something to do next.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let join = self.join_timer.map(|timer| match timer {
            JoinTimer::Initial { at, .. } | JoinTimer::Rebalance { at } => at,
        });
        let pending = self.pending.iter().map(|pending| pending.expires_ms);
        let sessions = self.members.values().filter_map(Member::deadline);
        let syncs = self.members.values().filter_map(|member| member.sync_by);
        pending.chain(sessions).chain(syncs).chain(join).min()
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, step: &mut Step<'_>) {
        let now = step.clock.mono_ms;
        self.pending.retain(|pending| pending.expires_ms > now);
        self.end_sessions(step);
        match self.join_timer {
            Some(timer @ (JoinTimer::Initial { at, .. } | JoinTimer::Rebalance { at }))
                if at <= now =>
            {
                self.join_timer_fired(step, timer);
            }
            Some(_) | None => {}
        }
        self.end_syncs(step);
    }

    fn end_sessions(&mut self, step: &mut Step<'_>) {
        let now = step.clock.mono_ms;
        let over = self.members.iter();
        let over = over.filter(|(_, member)| member.deadline().is_some_and(|at| at <= now));
        let over: Vec<String> = over.map(|(id, _)| id.clone()).collect();
        for id in over {
            // The end of another session may have answered this one, which began it anew.
            let Some(member) = self.members.get(&id) else { continue };
            if member.deadline().is_none_or(|at| at > now) {
                continue;
            }
            let silent_ms = now.saturating_sub(member.heard_ms);
            let cause = Cause::SessionTimedOut { who: member.who(&id), silent_ms };
            self.remove(step, &id);
            self.member_is_gone(step, cause);
        }
    }
}
