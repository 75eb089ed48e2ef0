//! JoinGroup: who may come in, and what a join does in each phase.

use super::member::{JoinWait, Member, PendingId};
use super::{Group, NEW_MEMBER_JOIN_MS, PENDING_MAX, Phase, Step};
use crate::effect::{Joined, JoinedMember, Ticket};
use crate::error::GroupError;
use crate::event::{Join, Protocol};
use crate::history::{Cause, Who, cut_reason};

impl Group {
    pub(crate) fn join(&mut self, step: &mut Step<'_>, ticket: Ticket, join: &Join) {
        // A static member that comes back takes its own place, which Kafka forgets.
        let holder = join.instance.as_ref().and_then(|instance| self.instances.get(instance));
        let place = holder.filter(|_| join.member.is_empty()).unwrap_or(&join.member);
        if !self.accepts(place, step.options.size_max) {
            let max = step.options.size_max;
            step.joined(ticket, Err(GroupError::MaxSizeReached { max }));
            self.pending.retain(|pending| pending.id != join.member);
            if let Some(member) = self.remove(step, &join.member) {
                let who = member.who(&join.member);
                self.member_is_gone(step, Cause::Left { who, reason: Some("no room".to_owned()) });
            }
            return;
        }
        if !self.supports(&join.protocol_type, &join.protocols) {
            step.joined(ticket, Err(GroupError::InconsistentProtocol));
        } else if !join.member.is_empty() {
            self.join_known(step, ticket, join);
        } else if let Some(instance) = &join.instance {
            match self.instances.get(instance).cloned() {
                Some(old) => self.replace_static(step, ticket, join, instance, &old),
                None => self.add(step, ticket, join, &join.new_member),
            }
        } else if join.id_required {
            self.promise(step, join);
            step.joined(ticket, Err(GroupError::MemberIdRequired(join.new_member.clone())));
        } else {
            self.add(step, ticket, join, &join.new_member);
        }
    }

    /// Whether there is room. While joins are collected, those that wait are counted, so that the last ones to rejoin
    /// are turned away when group.max.size was lowered.
    fn accepts(&self, id: &str, max: usize) -> bool {
        match self.phase {
            Phase::Empty => true,
            Phase::PreparingRebalance => {
                let waits = |member: &Member| member.join.is_some();
                self.members.get(id).is_some_and(waits)
                    || self.members.values().filter(|member| waits(member)).count() < max
            }
            Phase::CompletingRebalance | Phase::Stable => {
                self.members.contains_key(id) || self.members.len() < max
            }
            Phase::Dead => unreachable!("a dead group is asked nothing"),
        }
    }

    /// Whether a member with these protocols can be in the group: the first may choose, the others need one that all
    /// members can do.
    fn supports(&self, protocol_type: &str, protocols: &[Protocol]) -> bool {
        if self.members.is_empty() {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|protocol| self.is_candidate(&protocol.name))
    }

    /// Whether every member can do this assignor.
    pub(super) fn is_candidate(&self, protocol: &str) -> bool {
        self.members.values().all(|member| member.supports(protocol))
    }

    /// Remembers an id that is given out. It is no member before it comes back.
    fn promise(&mut self, step: &Step<'_>, join: &Join) {
        if self.pending.len() == PENDING_MAX {
            self.pending.remove(0);
        }
        let session_ms = u64::try_from(join.session_timeout_ms).unwrap_or(0);
        let expires_ms = step.after(session_ms);
        self.pending.push(PendingId { id: join.new_member.clone(), expires_ms });
    }

    /// A join under an id that we have given out.
    fn join_known(&mut self, step: &mut Step<'_>, ticket: Ticket, join: &Join) {
        let id = join.member.as_str();
        if let Some(at) = self.pending.iter().position(|pending| pending.id == id) {
            // Static members get no such ids: Kafka takes this for a bug of the client and fails the request.
            if join.instance.is_some() {
                step.joined(ticket, Err(GroupError::UnknownMember(id.to_owned())));
                return;
            }
            self.pending.remove(at);
            self.add(step, ticket, join, id);
            return;
        }
        if let Err(error) = self.validate(id, join.instance.as_deref()) {
            step.joined(ticket, Err(error));
            return;
        }
        let member = &self.members[id];
        let who = member.who(id);
        let reason = cut_reason(join.reason.as_deref());
        let same = member.says_the_same(&join.protocols);
        match self.phase {
            Phase::PreparingRebalance => {
                self.rejoin(step, ticket, join);
                self.maybe_end_join_phase(step);
            }
            // The answer was lost: here it is again.
            Phase::CompletingRebalance if same => self.answer_again(step, ticket, join),
            Phase::Stable if same && !self.is_leader(id) => self.answer_again(step, ticket, join),
            Phase::CompletingRebalance | Phase::Stable => {
                let cause = if same {
                    // Partitions were added, for example: nothing in the metadata tells.
                    Cause::LeaderRejoined { who, reason }
                } else {
                    Cause::MetadataChanged { who, reason }
                };
                self.prepare(step, cause, |group, step| group.rejoin(step, ticket, join));
            }
            Phase::Empty | Phase::Dead => unreachable!("the member would not be known"),
        }
    }

    /// A new member. Begins a rebalance, or takes part in the one under way.
    fn add(&mut self, step: &mut Step<'_>, ticket: Ticket, join: &Join, id: &str) {
        let who = Who::new(id, &join.client_id, &join.client_host);
        let cause = Cause::Joined { who, reason: cut_reason(join.reason.as_deref()) };
        if self.phase == Phase::PreparingRebalance {
            self.insert(step, ticket, join, id);
            self.newcomer = true;
            self.maybe_end_join_phase(step);
        } else {
            self.prepare(step, cause, |group, step| group.insert(step, ticket, join, id));
        }
    }

    fn insert(&mut self, step: &mut Step<'_>, ticket: Ticket, join: &Join, id: &str) {
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type.clone());
        }
        if self.leader.is_none() {
            self.leader = Some(id.to_owned());
        }
        if let Some(instance) = &join.instance {
            let old = self.instances.insert(instance.clone(), id.to_owned());
            assert_eq!(old, None, "group {}: instance {instance} is taken", self.name);
        }
        self.arrivals += 1;
        let member = Member {
            instance: join.instance.clone(),
            client_id: join.client_id.clone(),
            client_host: join.client_host.clone(),
            session_timeout_ms: join.session_timeout_ms,
            rebalance_timeout_ms: join.rebalance_timeout_ms.max(0),
            protocols: join.protocols.clone().into(),
            assignment: Vec::new(),
            join: Some(JoinWait { ticket, skip_assignment: join.skip_assignment }),
            sync: None,
            sync_by: None,
            is_new: true,
            id_known: !join.member.is_empty(),
            restored: false,
            heard_ms: step.clock.mono_ms,
            expires_ms: step.after(NEW_MEMBER_JOIN_MS),
            arrival: self.arrivals,
        };
        let old = self.members.insert(id.to_owned(), member);
        assert!(old.is_none(), "group {}: id {id} was given out twice", self.name);
    }

    /// Takes over what a member that is there says, and holds its answer. An answer that it waited for before was lost
    /// on the way; whoever still waits for it is told to try again.
    pub(super) fn rejoin(&mut self, step: &mut Step<'_>, ticket: Ticket, join: &Join) {
        let member = self.members.get_mut(&join.member).expect("checked by the caller");
        member.update(join);
        member.heard_ms = step.clock.mono_ms;
        let wait = JoinWait { ticket, skip_assignment: join.skip_assignment };
        if let Some(lost) = member.join.replace(wait) {
            step.joined(lost.ticket, Err(GroupError::RebalanceInProgress));
        }
    }

    /// The answer of the current generation, for a member that already had it.
    fn answer_again(&mut self, step: &mut Step<'_>, ticket: Ticket, join: &Join) {
        let now = step.clock.mono_ms;
        let sync_by = step.after(self.rebalance_timeout_ms());
        let member = self.members.get_mut(&join.member).expect("checked by the caller");
        member.update(join);
        member.touch(now);
        member.sync_by = Some(sync_by);
        let answer = self.joined(&join.member, self.is_leader(&join.member), false);
        step.joined(ticket, Ok(answer));
    }

    /// The answer of a join at the current generation.
    pub(super) fn joined(&self, id: &str, with_members: bool, skip_assignment: bool) -> Joined {
        let protocol = self.protocol.clone().expect("a generation with members has an assignor");
        let members = if with_members { self.joined_members(&protocol) } else { Vec::new() };
        Joined {
            generation: self.generation,
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol_name: protocol,
            leader: self.leader.clone().unwrap_or_default(),
            member: id.to_owned(),
            members,
            skip_assignment,
        }
    }

    fn joined_members(&self, protocol: &str) -> Vec<JoinedMember> {
        let members = self.members.iter().map(|(id, member)| JoinedMember {
            member: id.clone(),
            instance: member.instance.clone(),
            metadata: member.metadata(protocol).expect("the assignor is everybody's").to_vec(),
        });
        members.collect()
    }
}
