//! What is kept of a group (Kafka's `GroupMetadataValue`), and a group from what was kept.

use super::member::Member;
use super::{Group, Phase, Step, Waiting};
use crate::error::GroupError;
use crate::event::{Join, Protocol};
use crate::history::Cause;
use crate::record::{GroupState, KeptMember, TEXT_MAX};

/// A kept state is written with 16-bit lengths, so longer texts, which flexible versions could carry, are refused when
/// they come in.
pub(crate) fn check_texts(join: &Join) -> Result<(), GroupError> {
    let ids = [&join.group, &join.member, &join.new_member, &join.client_id, &join.client_host];
    if ids.into_iter().chain(&join.instance).any(|text| text.len() > TEXT_MAX) {
        return Err(GroupError::InvalidGroupId);
    }
    let mut names = join.protocols.iter().map(|protocol| &protocol.name);
    if join.protocol_type.len() > TEXT_MAX || names.any(|name| name.len() > TEXT_MAX) {
        return Err(GroupError::InconsistentProtocol);
    }
    Ok(())
}

impl Group {
    /// The group at a generation that nobody has an assignment of.
    pub(super) fn generation_state(&self, step: &Step<'_>, generation: i32) -> Vec<u8> {
        let state = GroupState {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation,
            protocol: None,
            leader: None,
            since_ms: step.clock.wall_ms,
            members: Vec::new(),
        };
        state.encode()
    }

    /// The current generation with its assignments.
    pub(super) fn stable_state(&self, assignment: impl Fn(&str, &Member) -> Vec<u8>) -> Vec<u8> {
        let protocol = self.protocol.as_deref().expect("a generation with members has an assignor");
        let members = self.members.iter().map(|(id, member)| KeptMember {
            member: id.clone(),
            instance: member.instance.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            subscription: member.metadata(protocol).expect("the assignor is everybody's").to_vec(),
            assignment: assignment(id, member),
        });
        let state = GroupState {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: Some(protocol.to_owned()),
            leader: self.leader.clone(),
            since_ms: self.since_ms,
            members: members.collect(),
        };
        state.encode()
    }

    /// The state handed out as `revision` is kept (`ok`), or could not be. Revisions are kept in order, so one that is
    /// kept covers those before it.
    pub(crate) fn persisted(&mut self, step: &mut Step<'_>, revision: u64, ok: bool) {
        match &self.waiting {
            Waiting::Generation { revision: awaited } if *awaited <= revision => {
                self.generation_kept(step, ok);
            }
            Waiting::Assignments { revision: awaited, .. } if *awaited <= revision => {
                self.assignments_kept(step, ok);
            }
            Waiting::Replaced(_) => {
                if !ok {
                    self.note(step, Cause::NotKept);
                }
                self.replaced_kept(step, revision, ok);
            }
            Waiting::Nothing | Waiting::Generation { .. } | Waiting::Assignments { .. } => {
                if !ok {
                    self.note(step, Cause::NotKept);
                }
            }
        }
    }

    /// A group from its kept state: stable if it has members, whose sessions begin now.
    pub(crate) fn restore(
        step: &mut Step<'_>,
        name: &str,
        state: GroupState,
    ) -> Result<Group, String> {
        if !(0..i32::MAX).contains(&state.generation) {
            return Err(format!("group {name}: generation {} is none", state.generation));
        }
        let mut group = Group::new(name, state.since_ms);
        group.on_record = true;
        group.generation = state.generation;
        group.kept_generation = state.generation;
        group.protocol_type = Some(state.protocol_type).filter(|kind| !kind.is_empty());
        for kept in state.members {
            let protocol = state.protocol.as_deref().filter(|_| group.protocol_type.is_some());
            let protocol = protocol.ok_or_else(|| format!("group {name}: members, no protocol"))?;
            group.restore_member(step, protocol, kept)?;
        }
        if !group.members.is_empty() {
            group.phase = Phase::Stable;
            group.protocol = state.protocol;
            let leader = state.leader.filter(|leader| group.members.contains_key(leader));
            group.leader = leader.or_else(|| group.members.keys().next().cloned());
        }
        group.subscribed = group.subscriptions();
        group.note(step, Cause::Restarted);
        let max = step.options.size_max;
        if group.members.len() > max {
            group.prepare(step, Cause::OverCapacity { max }, |_, _| {});
        }
        Ok(group)
    }

    fn restore_member(
        &mut self,
        step: &Step<'_>,
        protocol: &str,
        kept: KeptMember,
    ) -> Result<(), String> {
        let KeptMember { member: id, instance, .. } = kept;
        if let Some(instance) = &instance
            && self.instances.insert(instance.clone(), id.clone()).is_some()
        {
            return Err(format!("group {}: two members are instance {instance}", self.name));
        }
        self.arrivals += 1;
        let now = step.clock.mono_ms;
        let mut member = Member {
            instance,
            client_id: kept.client_id,
            client_host: kept.client_host,
            session_timeout_ms: kept.session_timeout_ms,
            rebalance_timeout_ms: kept.rebalance_timeout_ms.max(0),
            protocols: vec![Protocol { name: protocol.to_owned(), metadata: kept.subscription }]
                .into(),
            assignment: kept.assignment,
            join: None,
            sync: None,
            sync_by: None,
            is_new: false,
            id_known: true,
            restored: true,
            heard_ms: now,
            expires_ms: now,
            arrival: self.arrivals,
        };
        member.renew(now);
        match self.members.insert(id, member) {
            None => Ok(()),
            Some(_) => Err(format!("group {}: a member is there twice", self.name)),
        }
    }
}
