//! What must be true of the offsets that groups commit.
//!
//! A partition of a group is a register: commits write it, OffsetFetch reads it. Each commit is known by its metadata,
//! which no two share. Requests overlap, so an order is only certain between a commit that had ended and one that was
//! sent later; what is certain to have been overwritten before a fetch was sent must not come back, over any number of
//! crashes. The end of a commit: its acknowledgement, its first showing (what is shown is durable), or, if its answer
//! was lost, the next life of the broker.
//!
//! Nothing committed may be shown only if nothing was acknowledged for this incarnation of the topic, or if all of it is
//! older than the retention of offsets.

use std::collections::BTreeMap;

use super::{Oracle, State, Ticket};

/// A commit that somebody sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CommitId(usize);

impl CommitId {
    /// The metadata that names it.
    pub(crate) fn name(self) -> String {
        format!("commit {}", self.0)
    }
}

/// Moments are numbered in the order in which clients saw them.
type Moment = u64;

struct Commit {
    group: String,
    topic: String,
    index: i32,
    offset: i64,
    sent: Moment,
    /// Wall clock when it was sent.
    sent_ms: i64,
    life: u64,
    end: Option<Moment>,
    refused: bool,
    /// Acknowledged or shown.
    durable: bool,
    acknowledged: bool,
    /// Since when it is certain that another one stands in its place.
    overwritten: Option<Moment>,
    /// Changes of the topic's name when its end was known.
    last: Option<u64>,
    /// The incarnation of the topic that it is for, if that is certain.
    born: Option<u64>,
}

#[derive(Default)]
pub(super) struct Commits {
    now: Moment,
    all: Vec<Commit>,
    by_partition: BTreeMap<(String, String, i32), Vec<usize>>,
    /// Commits of this life and later whose outcome is not known.
    open: Vec<usize>,
    /// Offsets that have expired.
    expired: u64,
    /// offsets.retention.minutes; `None`: longer than a run.
    retention_ms: Option<i64>,
}

/// When a fetch of offsets was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTicket(Moment);

impl Commits {
    fn moment(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// It is certain that `by` was written. What had ended before it was sent is overwritten.
    fn written(&mut self, by: usize) {
        let now = self.moment();
        let Commit { group, topic, index, sent, .. } = &self.all[by];
        let (sent, key) = (*sent, (group.clone(), topic.clone(), *index));
        for other in &self.by_partition[&key] {
            let other = &mut self.all[*other];
            if other.overwritten.is_none() && other.end.is_some_and(|end| end < sent) {
                other.overwritten = Some(now);
            }
        }
        let it = &mut self.all[by];
        it.durable = true;
        it.end = Some(it.end.map_or(now, |end| end.min(now)));
        self.open.retain(|open| *open != by);
    }
}

impl Commits {
    /// A fetch sent at `asked` has shown another commit, or none: whatever had ended by then will not come back.
    fn gone(&mut self, key: &(String, String, i32), asked: Moment, shown: Option<usize>) {
        let now = self.moment();
        for other in self.by_partition.get(key).into_iter().flatten() {
            let it = &mut self.all[*other];
            if Some(*other) != shown && it.end.is_some_and(|end| end < asked) {
                it.overwritten = it.overwritten.or(Some(now));
            }
        }
    }
}

impl Oracle {
    /// Offsets older than this may go, if no member reads them.
    pub(crate) fn retain_offsets(&self, retention_ms: Option<i64>) {
        self.state.borrow_mut().commits.retention_ms = retention_ms;
    }

    /// A commit is about to be sent.
    pub(crate) fn committing(
        &self,
        ticket: &Ticket,
        group: &str,
        offset: i64,
        life: u64,
        wall_ms: i64,
    ) -> CommitId {
        let commits = &mut self.state.borrow_mut().commits;
        let id = commits.all.len();
        let sent = commits.moment();
        commits.all.push(Commit {
            group: group.to_owned(),
            topic: ticket.topic.clone(),
            index: ticket.index,
            offset,
            sent,
            sent_ms: wall_ms,
            life,
            end: None,
            refused: false,
            durable: false,
            acknowledged: false,
            overwritten: None,
            last: None,
            born: None,
        });
        let key = (group.to_owned(), ticket.topic.clone(), ticket.index);
        commits.by_partition.entry(key).or_default().push(id);
        commits.open.push(id);
        CommitId(id)
    }

    pub(crate) fn commit_acknowledged(&self, id: CommitId, ticket: &Ticket) {
        let stable = self.stable(ticket);
        let mut state = self.state.borrow_mut();
        let changes = state.topics.get(&ticket.topic).map(|t| t.changes);
        let born = stable.then(|| state.incarnation(ticket).born);
        state.commits.written(id.0);
        let commit = &mut state.commits.all[id.0];
        commit.acknowledged = true;
        commit.born = commit.born.or(born);
        commit.last = commit.last.or(changes);
    }

    /// It was refused: it must never be seen.
    pub(crate) fn commit_refused(&self, id: CommitId) {
        let commits = &mut self.state.borrow_mut().commits;
        commits.all[id.0].refused = true;
        commits.open.retain(|open| *open != id.0);
    }

    /// A life of the broker begins: what was sent to an earlier one has happened by now, or never will.
    pub(crate) fn life_began(&self, life: u64) {
        let mut state = self.state.borrow_mut();
        let now = state.commits.moment();
        let State { commits, topics, .. } = &mut *state;
        commits.open.retain(|id| {
            let commit = &mut commits.all[*id];
            if commit.life >= life {
                return true;
            }
            commit.end = Some(now);
            commit.last = topics.get(&commit.topic).map(|t| t.changes);
            false
        });
    }

    pub(crate) fn reading_offsets(&self) -> ReadTicket {
        ReadTicket(self.state.borrow_mut().commits.moment())
    }

    /// OffsetFetch was answered for a partition: an offset and its metadata, or that there is none.
    pub(crate) fn offset_shown(
        &self,
        read: ReadTicket,
        ticket: &Ticket,
        group: &str,
        shown: Option<(i64, &str)>,
        wall_ms: i64,
    ) {
        let stable = self.stable(ticket);
        let mut state = self.state.borrow_mut();
        let result = state
            .check_offset(read, ticket, group, shown, stable, wall_ms)
            .map_err(|what| format!("group {group} has {what}"));
        state.judge(ticket, result);
    }

    /// Groups that have sent commits, and the partitions of these.
    pub(crate) fn committed_partitions(&self) -> Vec<(String, String, i32)> {
        self.state.borrow().commits.by_partition.keys().cloned().collect()
    }

    /// Offsets that were acknowledged or shown, and have rightly gone.
    pub(crate) fn offsets_expired(&self) -> u64 {
        self.state.borrow().commits.expired
    }

    pub(crate) fn commits_acknowledged(&self) -> usize {
        self.state.borrow().commits.all.iter().filter(|c| c.acknowledged).count()
    }
}

impl State {
    fn check_offset(
        &mut self,
        read: ReadTicket,
        ticket: &Ticket,
        group: &str,
        shown: Option<(i64, &str)>,
        stable: bool,
        wall_ms: i64,
    ) -> Result<(), String> {
        let born = stable.then(|| self.incarnation(ticket).born);
        let changes = self.topics.get(&ticket.topic).map_or(0, |t| t.changes);
        let commits = &mut self.commits;
        let key = (group.to_owned(), ticket.topic.clone(), ticket.index);
        let of_partition = commits.by_partition.get(&key).map(Vec::as_slice).unwrap_or_default();
        let Some((offset, name)) = shown else {
            // What was certain to be there when it was asked for, and is too young to have gone by itself.
            let young = |c: &Commit| {
                commits.retention_ms.is_none_or(|retention| wall_ms - c.sent_ms < retention)
            };
            let there = of_partition.iter().find(|id| {
                let c = &commits.all[**id];
                let certain = c.durable && c.end.is_some_and(|end| end < read.0);
                certain && born.is_some() && c.born == born && young(c)
            });
            return match there {
                Some(id) => {
                    let it = CommitId(*id).name();
                    Err(format!("no offset, and {it} was acknowledged or shown"))
                }
                None => {
                    if stable {
                        let was = |c: &Commit| c.born == born && c.overwritten.is_none();
                        let expired = of_partition.iter().any(|id| {
                            let c = &commits.all[*id];
                            c.durable && was(c) && c.end.is_some_and(|end| end < read.0)
                        });
                        commits.expired += u64::from(expired);
                        commits.gone(&key, read.0, None);
                    }
                    Ok(())
                }
            };
        };
        let found = of_partition.iter().copied().find(|id| CommitId(*id).name() == name);
        let Some(id) = found else {
            return Err(format!("offset {offset} (`{name}`), which nobody committed"));
        };
        let commit = &commits.all[id];
        if commit.offset != offset {
            return Err(format!("offset {offset} of {name}, which was {}", commit.offset));
        }
        if commit.refused {
            return Err(format!("offset {offset} of {name}, which was refused"));
        }
        if let Some(since) = commit.overwritten.filter(|since| *since < read.0) {
            return Err(format!(
                "offset {offset} of {name}, sent at {}, overwritten at {since}, asked for at {}",
                commit.sent, read.0
            ));
        }
        let Some(born) = born else { return Ok(()) };
        if commit.last.is_some_and(|last| last < born) || commit.born.is_some_and(|b| b != born) {
            return Err(format!(
                "offset {offset} of {name}, from a topic of this name that is deleted"
            ));
        }
        commits.gone(&key, read.0, Some(id));
        commits.written(id);
        let commit = &mut commits.all[id];
        commit.born = Some(born);
        commit.last = commit.last.or(Some(changes));
        Ok(())
    }
}
