//! Static membership (KIP-345): a member that comes back under its group instance id takes the place, the assignment
//! and the leadership of the one that was there, which is fenced.
//!
//! A stable group goes on without a rebalance if nothing that an assignment depends on has changed. Kafka looks at the
//! chosen assignor only, and leaves a member that came back with other topics with its old partitions. Here the
//! subscribed topics are compared too; not the whole metadata, since what a member owns is in there, and a member that
//! comes back owns nothing.

use super::member::JoinWait;
use super::{Group, Phase, Step, Waiting};
use crate::effect::Ticket;
use crate::error::GroupError;
use crate::event::Join;
use crate::history::{Cause, cut};
use crate::subscription::subscribed_topics;

/// A static member of a stable group that has taken its place under a new id, and waits until that is kept.
#[derive(Debug)]
pub(super) struct Replaced {
    pub(super) revision: u64,
    pub(super) member: String,
    /// The leader before. A client that cannot skip the assignment is told this one, so that it does not assign.
    leader: String,
}

impl Group {
    pub(super) fn replace_static(
        &mut self,
        step: &mut Step<'_>,
        ticket: Ticket,
        join: &Join,
        instance: &str,
        old: &str,
    ) {
        let new = join.new_member.as_str();
        let mut member = self.members.remove(old).expect("instances name members");
        let fenced = || GroupError::FencedInstance(instance.to_owned());
        if let Some(wait) = member.join.take() {
            step.joined(wait.ticket, Err(fenced()));
        }
        if let Some(ticket) = member.sync.take() {
            step.synced(ticket, Err(fenced()));
        }
        if let Waiting::Replaced(replaced) = &mut self.waiting {
            replaced.retain(|replaced| replaced.member != old);
        }
        let topics = |metadata: Option<&[u8]>| metadata.and_then(subscribed_topics);
        let topics_before = topics(self.protocol.as_deref().and_then(|name| member.metadata(name)));
        member.update(join);
        member.client_id.clone_from(&join.client_id);
        member.client_host.clone_from(&join.client_host);
        member.join = Some(JoinWait { ticket, skip_assignment: join.skip_assignment });
        member.id_known = false;
        member.heard_ms = step.clock.mono_ms;
        member.renew(step.clock.mono_ms);
        let topics_now = topics(self.protocol.as_deref().and_then(|name| member.metadata(name)));
        let cause =
            Cause::StaticReplaced { who: member.who(new), instance: cut(instance), old: cut(old) };

        let taken = self.members.insert(new.to_owned(), member);
        assert!(taken.is_none(), "group {}: id {new} was given out twice", self.name);
        self.instances.insert(instance.to_owned(), new.to_owned());
        let leader = self.leader.clone().expect("a group with members has a leader");
        if leader == old {
            self.leader = Some(new.to_owned());
        }

        match self.phase {
            Phase::Stable => {
                let same_topics = !self.is_consumer() || topics_before == topics_now;
                if same_topics && Some(self.vote()) == self.protocol {
                    self.note(step, cause);
                    self.keep_replaced(step, new, leader);
                } else {
                    self.prepare(step, cause, |_, _| {});
                }
            }
            // The leader may have been told the old id, and would assign to it.
            Phase::CompletingRebalance => self.prepare(step, cause, |_, _| {}),
            Phase::PreparingRebalance => {
                self.note(step, cause);
                self.maybe_end_join_phase(step);
            }
            Phase::Empty | Phase::Dead => unreachable!("the group has a member"),
        }
    }

    fn keep_replaced(&mut self, step: &mut Step<'_>, member: &str, leader: String) {
        let state = self.stable_state(|_, member| member.assignment.clone());
        let revision = step.persist(&self.name, Some(state));
        let replaced = Replaced { revision, member: member.to_owned(), leader };
        match &mut self.waiting {
            Waiting::Replaced(waiting) => waiting.push(replaced),
            Waiting::Nothing => self.waiting = Waiting::Replaced(vec![replaced]),
            waiting => unreachable!("a stable group waits for {waiting:?}"),
        }
    }

    /// What was asked to be kept up to `revision` is kept, or could not be. In that case the member has to come again;
    /// the place stays its own, and the one that it took it from stays fenced.
    pub(super) fn replaced_kept(&mut self, step: &mut Step<'_>, revision: u64, ok: bool) {
        let Waiting::Replaced(waiting) = &mut self.waiting else { return };
        let kept = waiting.extract_if(.., |replaced| replaced.revision <= revision);
        let kept: Vec<Replaced> = kept.collect();
        if waiting.is_empty() {
            self.waiting = Waiting::Nothing;
        }
        let sync_by = step.after(self.rebalance_timeout_ms());
        for replaced in kept {
            let leads = self.is_leader(&replaced.member);
            let member = self.members.get_mut(&replaced.member).expect("it would be forgotten");
            member.renew(step.clock.mono_ms);
            let wait = member.join.take().expect("held until it is kept");
            if !ok {
                step.joined(wait.ticket, Err(GroupError::NotAvailable));
                continue;
            }
            member.id_known = true;
            member.sync_by = Some(sync_by);
            let skips = leads && wait.skip_assignment;
            let mut answer = self.joined(&replaced.member, skips, skips);
            if !wait.skip_assignment {
                answer.leader = replaced.leader;
            }
            step.joined(wait.ticket, Ok(answer));
        }
    }
}
