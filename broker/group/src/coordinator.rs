//! All groups of a core: finds the group of an event, keeps their timers, and the offsets beside them.
//!
//! Owned by the core that leads the partition of `__consumer_offsets`. A group exists if somebody has joined it or it
//! has committed offsets; one that has neither, and of which nothing was kept, is forgotten at once, so that names
//! that were only asked for cost nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::Clock;
use crate::effect::{Effect, Ticket};
use crate::error::GroupError;
use crate::event::{Commit, Heartbeat, Join, Leave, Sync};
use crate::group::{Described, Group, Listed, Phase, Step, check_texts};
use crate::history::Transition;
use crate::offsets::{Committed, Offsets, TopicPartition};
use crate::options::Options;
use crate::record::{GroupState, TEXT_MAX};

/// See the head of this file.
#[derive(Debug)]
pub struct Coordinator {
    options: Options,
    groups: BTreeMap<String, Slot>,
    /// Groups by the time of their next timer, or before it: heartbeats move deadlines without telling.
    timers: BTreeSet<(u64, String)>,
    offsets: Offsets,
    revision: u64,
}

#[derive(Debug)]
struct Slot {
    group: Group,
    /// Where the group is in `timers`.
    timer: Option<u64>,
}

impl Coordinator {
    #[must_use]
    pub fn new(options: Options) -> Coordinator {
        Coordinator {
            options,
            groups: BTreeMap::new(),
            timers: BTreeSet::new(),
            offsets: Offsets::default(),
            revision: 0,
        }
    }

    /// After a restart: a group's kept state. Its members go on, their sessions begin now.
    ///
    /// # Errors
    /// What is wrong with the state.
    pub fn restore(&mut self, clock: Clock, group: &str, state: &[u8]) -> Result<(), String> {
        let state = GroupState::decode(state).map_err(|e| format!("group {group}: {e}"))?;
        let mut out = Vec::new();
        let mut step =
            Step { clock, options: &self.options, revision: &mut self.revision, out: &mut out };
        let restored = Group::restore(&mut step, group, state)?;
        assert!(out.is_empty(), "nobody waits for a group that was only just restored: {out:?}");
        self.forget_timer(group);
        self.groups.insert(group.to_owned(), Slot { group: restored, timer: None });
        self.settle(group);
        Ok(())
    }

    /// JoinGroup; answered by [`Effect::Joined`].
    pub fn join(&mut self, clock: Clock, ticket: Ticket, join: Join, out: &mut Vec<Effect>) {
        if let Err(error) = self.check_join(&join) {
            out.push(Effect::Joined(ticket, Err(error)));
            return;
        }
        if !self.groups.contains_key(&join.group) {
            let group = Group::new(&join.group, clock.wall_ms);
            self.groups.insert(join.group.clone(), Slot { group, timer: None });
        }
        self.with(clock, &join.group, out, |group, step| group.join(step, ticket, &join));
    }

    fn check_join(&self, join: &Join) -> Result<(), GroupError> {
        if join.group.is_empty() {
            return Err(GroupError::InvalidGroupId);
        }
        let (min, max) = (self.options.session_timeout_min_ms, self.options.session_timeout_max_ms);
        if !(min..=max).contains(&join.session_timeout_ms) {
            return Err(GroupError::InvalidSessionTimeout {
                got: join.session_timeout_ms,
                min,
                max,
            });
        }
        check_texts(join)?;
        if !join.member.is_empty() && !self.groups.contains_key(&join.group) {
            return Err(GroupError::UnknownMember(join.member.clone()));
        }
        Ok(())
    }

    /// SyncGroup; answered by [`Effect::Synced`].
    pub fn sync(&mut self, clock: Clock, ticket: Ticket, sync: Sync, out: &mut Vec<Effect>) {
        let error = if sync.group.is_empty() {
            GroupError::InvalidGroupId
        } else {
            let run = |group: &mut Group, step: &mut Step<'_>| group.sync(step, ticket, &sync);
            if self.with(clock, &sync.group, out, run).is_some() {
                return;
            }
            GroupError::UnknownMember(sync.fence.member)
        };
        out.push(Effect::Synced(ticket, Err(error)));
    }

    /// Heartbeat.
    ///
    /// # Errors
    /// Why the member has to join again, or that a rebalance is under way.
    pub fn heartbeat(&mut self, clock: Clock, beat: &Heartbeat) -> Result<(), GroupError> {
        if beat.group.is_empty() {
            return Err(GroupError::InvalidGroupId);
        }
        match self.groups.get_mut(&beat.group) {
            Some(slot) => slot.group.heartbeat(clock.mono_ms, beat),
            None => Err(GroupError::UnknownMember(beat.fence.member.clone())),
        }
    }

    /// LeaveGroup: one result for each member.
    ///
    /// # Errors
    /// When the request as a whole is refused.
    pub fn leave(
        &mut self,
        clock: Clock,
        leave: &Leave,
        out: &mut Vec<Effect>,
    ) -> Result<Vec<Result<(), GroupError>>, GroupError> {
        if leave.group.is_empty() {
            return Err(GroupError::InvalidGroupId);
        }
        let run = |group: &mut Group, step: &mut Step<'_>| group.leave(step, &leave.members);
        Ok(self.with(clock, &leave.group, out, run).unwrap_or_else(|| {
            let unknown = |id: &String| Err(GroupError::UnknownMember(id.clone()));
            leave.members.iter().map(|leaving| unknown(&leaving.member)).collect()
        }))
    }

    /// The connection that waited for `ticket` in `group` is closed: whatever is answered reaches nobody. Not needed for
    /// correctness; ends ghosts (field case group-1) at once instead of at the end of their sessions.
    pub fn abandoned(&mut self, clock: Clock, group: &str, ticket: Ticket, out: &mut Vec<Effect>) {
        self.with(clock, group, out, |group, step| group.abandoned(step, ticket));
    }

    /// OffsetCommit: whether it may be done. Counts as a heartbeat, as in Kafka. The group id may be empty.
    ///
    /// # Errors
    /// Why not. [`GroupError::NotFound`] is ILLEGAL_GENERATION below OffsetCommit 9.
    pub fn check_commit(&mut self, clock: Clock, commit: &Commit) -> Result<(), GroupError> {
        if commit.group.len() > TEXT_MAX {
            return Err(GroupError::InvalidGroupId);
        }
        if let Some(slot) = self.groups.get_mut(&commit.group) {
            return slot.group.check_commit(clock.mono_ms, commit);
        }
        if commit.fence.generation < 0 {
            return Ok(());
        }
        if self.offsets.has_group(&commit.group) {
            return Err(GroupError::UnknownMember(commit.fence.member.clone()));
        }
        Err(GroupError::NotFound(commit.group.clone()))
    }

    /// The metadata of one committed offset, whose length Kafka counts in UTF-16.
    ///
    /// # Errors
    /// When it is longer than offset.metadata.max.bytes; the other partitions of the request are not concerned.
    pub fn check_metadata(&self, metadata: &str) -> Result<(), GroupError> {
        let max = self.options.offset_metadata_max;
        if metadata.encode_utf16().count() > max {
            Err(GroupError::OffsetMetadataTooLarge { max })
        } else {
            Ok(())
        }
    }

    /// OffsetFetch from version 9: a member and its epoch. Classic groups let everybody read, as in Kafka; a group that
    /// is not there has committed nothing.
    ///
    /// # Errors
    /// None for classic groups.
    pub fn check_fetch(
        &self,
        _group: &str,
        _member: Option<&str>,
        _epoch: i32,
    ) -> Result<(), GroupError> {
        Ok(())
    }

    /// DescribeGroups. `None`: there is no such group.
    #[must_use]
    pub fn describe(&self, group: &str) -> Option<Described> {
        match self.groups.get(group) {
            Some(slot) => Some(slot.group.describe()),
            None => self.offsets.has_group(group).then(Described::simple),
        }
    }

    /// ListGroups, by name.
    #[must_use]
    pub fn list(&self) -> Vec<Listed> {
        let mut list: Vec<Listed> = self.groups.values().map(|slot| slot.group.list()).collect();
        let simple = self.offsets.groups().filter(|group| !self.groups.contains_key(*group));
        list.extend(simple.map(|group| Listed::new(group, "", Phase::Empty)));
        list.sort_by(|a, b| a.group.cmp(&b.group));
        list
    }

    /// DeleteGroups: takes the group out and returns the offsets to write tombstones for, which stay readable until
    /// the tombstones are put.
    ///
    /// # Errors
    /// When it has members, or is not there.
    pub fn delete(
        &mut self,
        group: &str,
        out: &mut Vec<Effect>,
    ) -> Result<Vec<TopicPartition>, GroupError> {
        match self.groups.get(group) {
            Some(slot) if slot.group.phase() != Phase::Empty => return Err(GroupError::NonEmpty),
            Some(_) => self.dissolve(group, out),
            None if self.offsets.has_group(group) => {}
            None => return Err(GroupError::NotFound(group.to_owned())),
        }
        Ok(self.offsets.of_group(group).map(|(partition, _)| partition.clone()).collect())
    }

    /// OffsetDelete: whether the offsets of a topic may be deleted.
    ///
    /// # Errors
    /// Why not.
    pub fn check_offset_delete(&self, group: &str, topic: &str) -> Result<(), GroupError> {
        match self.groups.get(group) {
            Some(slot) => slot.group.check_offset_delete(topic),
            None if self.offsets.has_group(group) => Ok(()),
            None => Err(GroupError::NotFound(group.to_owned())),
        }
    }

    /// The last transitions of a group, newest last; empty if it is not there.
    #[must_use]
    pub fn history(&self, group: &str) -> Vec<Transition> {
        self.groups.get(group).map(|slot| slot.group.history()).unwrap_or_default()
    }

    #[must_use]
    pub fn offsets(&self) -> &Offsets {
        &self.offsets
    }

    pub fn offsets_mut(&mut self) -> &mut Offsets {
        &mut self.offsets
    }

    /// Offset retention (KIP-211), to be called every offsets.retention.check.interval.ms: the offsets to write
    /// tombstones for, which stay until those are put. Empty groups that have no other offsets end.
    pub fn expired(
        &mut self,
        clock: Clock,
        out: &mut Vec<Effect>,
    ) -> Vec<(String, TopicPartition)> {
        self.offsets.sweep();
        let mut expired = Vec::new();
        for group in self.offsets.groups() {
            let slot = self.groups.get(group);
            for (partition, committed) in self.offsets.of_group(group) {
                if self.is_expired(slot, &partition.topic, committed, clock.wall_ms) {
                    expired.push((group.to_owned(), partition.clone()));
                }
            }
        }
        for group in self.ended_groups(clock.wall_ms) {
            self.dissolve(&group, out);
        }
        expired
    }

    fn is_expired(&self, slot: Option<&Slot>, topic: &str, offset: &Committed, now: i64) -> bool {
        let base = match slot {
            Some(slot) if slot.group.reads(topic) => return false,
            Some(slot) => slot.group.retention_base(),
            None => Some(None),
        };
        let Some(base) = base else { return false };
        match offset.expire_ms {
            Some(expire) => now >= expire,
            None => {
                let age = now.saturating_sub(base.unwrap_or(offset.commit_ms));
                age >= self.options.offsets_retention_ms
            }
        }
    }

    /// Empty groups without offsets that stay.
    fn ended_groups(&self, now: i64) -> Vec<String> {
        let ended = self.groups.iter().filter(|(name, slot)| {
            slot.group.phase() == Phase::Empty
                && !slot.group.has_pending()
                && self.offsets.of_group(name).all(|(partition, committed)| {
                    self.is_expired(Some(slot), &partition.topic, committed, now)
                })
        });
        ended.map(|(name, _)| name.clone()).collect()
    }

    /// What [`Effect::Persist`] of `revision` has come to: kept, or not. Every one has to be reported, except that a
    /// report covers the older ones of its group.
    pub fn persisted(
        &mut self,
        clock: Clock,
        group: &str,
        revision: u64,
        ok: bool,
        out: &mut Vec<Effect>,
    ) {
        self.with(clock, group, out, |group, step| group.persisted(step, revision, ok));
    }

    /// Monotonic milliseconds at which [`Coordinator::tick`] is to be called next; may be early, and may be past.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Does everything that is due.
    pub fn tick(&mut self, clock: Clock, out: &mut Vec<Effect>) {
        let due: Vec<String> = self
            .timers
            .iter()
            .take_while(|(at, _)| *at <= clock.mono_ms)
            .map(|(_, group)| group.clone())
            .collect();
        for group in due {
            self.with(clock, &group, out, Group::tick);
        }
    }

    /// Lets `run` change a group, then checks it and sets its timer. `None`: there is no such group.
    fn with<T>(
        &mut self,
        clock: Clock,
        group: &str,
        out: &mut Vec<Effect>,
        run: impl FnOnce(&mut Group, &mut Step<'_>) -> T,
    ) -> Option<T> {
        let slot = self.groups.get_mut(group)?;
        let mut step = Step { clock, options: &self.options, revision: &mut self.revision, out };
        let result = run(&mut slot.group, &mut step);
        self.settle(group);
        Some(result)
    }

    fn settle(&mut self, group: &str) {
        let slot = self.groups.get_mut(group).expect("was there before the event");
        slot.group.check();
        let next = slot.group.deadline();
        let void = slot.group.is_void();
        if next != slot.timer {
            let old = std::mem::replace(&mut slot.timer, next);
            if let Some(at) = old {
                self.timers.remove(&(at, group.to_owned()));
            }
            if let Some(at) = next {
                self.timers.insert((at, group.to_owned()));
            }
        }
        if void {
            self.forget_timer(group);
            self.groups.remove(group);
        }
    }

    fn forget_timer(&mut self, group: &str) {
        if let Some(at) = self.groups.get_mut(group).and_then(|slot| slot.timer.take()) {
            self.timers.remove(&(at, group.to_owned()));
        }
    }

    /// Takes out an empty group, and what was kept of it.
    fn dissolve(&mut self, group: &str, out: &mut Vec<Effect>) {
        self.forget_timer(group);
        let slot = self.groups.remove(group).expect("found by the caller");
        assert_eq!(slot.group.phase(), Phase::Empty, "group {group} ends");
        if slot.group.is_on_record() {
            self.revision += 1;
            let (group, revision) = (group.to_owned(), self.revision);
            out.push(Effect::Persist { group, revision, state: None });
        }
    }
}
