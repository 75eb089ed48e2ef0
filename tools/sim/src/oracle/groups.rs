//! What must be true of the members of groups, judged by what they are told and nothing else.
//!
//! A generation is told to members once, with one list of members, and never goes back, over any number of crashes. In
//! a generation a partition has one owner. Once anybody was told a newer generation, nobody of an older one is
//! accepted; nor is a member whose place another has taken, or who has left in this life of the broker (as in Kafka a
//! departure is not kept at once).
//!
//! Where offsets expire, an empty group may end, and begins anew at 1: that is an era, and what was asked in an older
//! one is not judged.

use std::collections::{BTreeMap, BTreeSet};

use super::Oracle;

/// What was known of a group when a member sent a request.
#[derive(Clone, Debug)]
pub(crate) struct GroupTicket {
    pub group: String,
    pub member: String,
    pub generation: i32,
    era: u64,
    newest: i32,
    /// The member was told for certain that it is out.
    out: bool,
}

/// The answer of a join.
pub(crate) struct JoinShown<'a> {
    pub generation: i32,
    pub member: &'a str,
    pub instance: Option<&'a str>,
    /// Told to a leader that is to assign.
    pub members: Vec<&'a str>,
}

/// Partitions of an assignment, and the generation that its leader made it for.
pub(crate) struct Assignment {
    pub generation: i32,
    pub partitions: Vec<(String, i32)>,
}

#[derive(Default)]
struct Group {
    era: u64,
    newest: i32,
    /// The place that a member id stands for: its instance if it is static, else itself.
    places: BTreeMap<String, String>,
    holders: BTreeMap<String, String>,
    /// Ids whose place was taken.
    gone: BTreeSet<String>,
    /// Ids that left, and in which life of the broker.
    left: BTreeMap<String, u64>,
    lists: BTreeMap<(u64, i32), Vec<String>>,
    /// Generations in which a place was taken.
    changed: BTreeSet<(u64, i32)>,
    owners: BTreeMap<(u64, i32, String, i32), String>,
}

#[derive(Default)]
pub(super) struct Groups {
    groups: BTreeMap<String, Group>,
    /// Empty groups may end.
    may_end: bool,
}

impl Oracle {
    pub(crate) fn groups_may_end(&self, may: bool) {
        self.state.borrow_mut().groups.may_end = may;
    }

    /// A member is about to ask its group something.
    pub(crate) fn asking(
        &self,
        group: &str,
        member: &str,
        generation: i32,
        life: u64,
    ) -> GroupTicket {
        let mut state = self.state.borrow_mut();
        let known = state.groups.groups.entry(group.to_owned()).or_default();
        GroupTicket {
            group: group.to_owned(),
            member: member.to_owned(),
            generation,
            era: known.era,
            newest: known.newest,
            out: known.gone.contains(member) || known.left.get(member) == Some(&life),
        }
    }

    /// JoinGroup was answered with success.
    pub(crate) fn joined(&self, ticket: &GroupTicket, shown: &JoinShown<'_>) {
        let mut state = self.state.borrow_mut();
        let may_end = state.groups.may_end;
        let group = state.groups.groups.get_mut(&ticket.group).expect("it had a ticket");
        let result = group.joined(ticket, shown, may_end);
        state.judge_group(ticket, result);
    }

    /// SyncGroup was answered with success.
    pub(crate) fn synced(&self, ticket: &GroupTicket, assignment: &Assignment) {
        let mut state = self.state.borrow_mut();
        let group = state.groups.groups.get_mut(&ticket.group).expect("it had a ticket");
        let result = group.accepted(ticket).and_then(|()| group.synced(ticket, assignment));
        state.judge_group(ticket, result.map_err(|what| format!("sync: {what}")));
    }

    /// A request of a member was answered with success.
    pub(crate) fn accepted(&self, ticket: &GroupTicket, what: &str) {
        let mut state = self.state.borrow_mut();
        let group = state.groups.groups.get_mut(&ticket.group).expect("it had a ticket");
        let result = group.accepted(ticket);
        state.judge_group(ticket, result.map_err(|e| format!("{what}: {e}")));
    }

    /// A member has left, in this life of the broker.
    pub(crate) fn left(&self, ticket: &GroupTicket, life: u64) {
        let mut state = self.state.borrow_mut();
        let group = state.groups.groups.get_mut(&ticket.group).expect("it had a ticket");
        group.left.insert(ticket.member.clone(), life);
    }
}

impl super::State {
    fn judge_group(&mut self, ticket: &GroupTicket, result: Result<(), String>) {
        if let Err(what) = result {
            let GroupTicket { group, member, generation, .. } = ticket;
            self.violation.get_or_insert(format!(
                "group {group}, member {member} at generation {generation}: {what}"
            ));
        }
    }
}

impl Group {
    fn joined(
        &mut self,
        ticket: &GroupTicket,
        shown: &JoinShown<'_>,
        may_end: bool,
    ) -> Result<(), String> {
        let JoinShown { generation, member, instance, members } = shown;
        let generation = *generation;
        let place = instance.unwrap_or(member).to_owned();
        let is_new = self.places.insert((*member).to_owned(), place).is_none();
        if ticket.era != self.era {
            return Ok(());
        }
        // Ids are never given out twice, so nobody of an old era can be in a new one.
        let others = self.lists.get(&(self.era, generation));
        let others = others.is_some_and(|list| list.iter().all(|id| id != member));
        if may_end && is_new && (generation < ticket.newest || others) {
            self.era += 1;
            self.newest = 0;
        } else if generation < ticket.newest {
            let newest = ticket.newest;
            return Err(format!("told generation {generation} after {newest}"));
        }
        if ticket.out || (!ticket.member.is_empty() && *member != ticket.member) {
            return Err(format!("out, and let in as {member} at generation {generation}"));
        }
        self.newest = self.newest.max(generation);
        let at = (self.era, generation);
        if let Some(instance) = instance
            && let Some(old) = self.holders.insert((*instance).to_owned(), (*member).to_owned())
            && old != *member
        {
            self.gone.insert(old);
            self.changed.insert(at);
        }
        if members.is_empty() {
            return Ok(());
        }
        if !members.contains(member) {
            return Err(format!("the leader of generation {generation} is not a member of it"));
        }
        let list: Vec<String> = members.iter().map(|id| (*id).to_owned()).collect();
        let first = self.lists.entry(at).or_insert_with(|| list.clone());
        if *first != list && !self.changed.contains(&at) {
            return Err(format!(
                "generation {generation} was given out twice: {first:?}, {list:?}"
            ));
        }
        Ok(())
    }

    fn accepted(&self, ticket: &GroupTicket) -> Result<(), String> {
        if ticket.era != self.era {
            return Ok(());
        }
        if ticket.out {
            return Err("out, and accepted".to_owned());
        }
        if ticket.generation < ticket.newest {
            return Err(format!("accepted, and generation {} was told before", ticket.newest));
        }
        Ok(())
    }

    fn synced(&mut self, ticket: &GroupTicket, assignment: &Assignment) -> Result<(), String> {
        if ticket.era != self.era {
            return Ok(());
        }
        let (generation, made_for) = (ticket.generation, assignment.generation);
        if made_for != generation {
            return Err(format!("given an assignment of generation {made_for}"));
        }
        let place = self.places.get(&ticket.member).ok_or("never joined")?;
        for (topic, index) in &assignment.partitions {
            let at = (self.era, generation, topic.clone(), *index);
            let owner = self.owners.entry(at).or_insert_with(|| place.clone());
            if owner != place {
                return Err(format!("{topic}-{index} is {owner}'s already"));
            }
        }
        Ok(())
    }
}
