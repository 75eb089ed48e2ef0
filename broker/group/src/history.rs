//! The black box of a group: its last transitions, each with its cause, for the people who ask why it rebalances.
//!
//! Bounded twice: by `Options::history_max` transitions, and each text in them by [`TEXT_MAX`] bytes, since ids and
//! reasons come from clients.

use std::collections::VecDeque;
use std::fmt;

use crate::group::Phase;

/// Longest text of a client that is remembered; the reasons of KIP-800 are cut to 255 by honest clients.
const TEXT_MAX: usize = 255;

/// One change of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    pub wall_ms: i64,
    pub from: Phase,
    /// May be `from`: something that matters happened within the phase.
    pub to: Phase,
    /// The generation behind the change.
    pub generation: i32,
    pub cause: Cause,
    /// Members behind the change.
    pub members: usize,
}

/// A member, as people know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    pub member: String,
    pub client_id: String,
    pub host: String,
}

impl Who {
    pub(crate) fn new(member: &str, client_id: &str, host: &str) -> Who {
        Who { member: cut(member), client_id: cut(client_id), host: cut(host) }
    }
}

/// Why a group changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    Joined {
        who: Who,
        reason: Option<String>,
    },
    Left {
        who: Who,
        reason: Option<String>,
    },
    /// The connection of a joining member that did not know its id yet was closed.
    Disconnected {
        who: Who,
    },
    SessionTimedOut {
        who: Who,
        silent_ms: u64,
    },
    /// Slow processing: no rejoin within the rebalance timeout.
    NotRejoined {
        who: Who,
        others: usize,
        timeout_ms: u64,
    },
    MetadataChanged {
        who: Who,
        reason: Option<String>,
    },
    LeaderRejoined {
        who: Who,
        reason: Option<String>,
    },
    StaticReplaced {
        who: Who,
        instance: String,
        old: String,
    },
    /// A member, perhaps the leader with everybody's assignment, did not sync within the rebalance timeout.
    NotSynced {
        who: Who,
        others: usize,
        leader: bool,
        timeout_ms: u64,
    },
    EverybodyJoined,
    /// The first rebalance of an empty group has waited long enough for more members.
    WaitedForMembers,
    Assigned,
    Restarted,
    NotKept,
    Emptied,
    /// More members were kept than group.max.size allows now.
    OverCapacity {
        max: usize,
    },
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member {} (client {} at {})", self.member, self.client_id, self.host)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Joined { who, reason } => with_reason(f, format_args!("{who} joined"), reason),
            Cause::Left { who, reason } => with_reason(f, format_args!("{who} left"), reason),
            Cause::Disconnected { who } => {
                write!(f, "the connection of {who} was closed before it knew its member id")
            }
            Cause::SessionTimedOut { who, silent_ms } => {
                write!(f, "{who} was silent for {silent_ms} ms: its session timed out")
            }
            Cause::NotRejoined { who, others, timeout_ms } => {
                write!(f, "{who}{} did not rejoin", Others(*others))?;
                write!(f, " within the rebalance timeout of {timeout_ms} ms: slow processing")
            }
            Cause::MetadataChanged { who, reason } => {
                with_reason(f, format_args!("{who} changed what it subscribes to or owns"), reason)
            }
            Cause::LeaderRejoined { who, reason } => {
                with_reason(f, format_args!("the leader rejoined to assign anew: {who}"), reason)
            }
            Cause::StaticReplaced { who, instance, old } => {
                write!(f, "{who} has taken the group instance id {instance} from {old}")
            }
            Cause::NotSynced { who, others, leader, timeout_ms } => {
                let what = if *leader { "the leader's assignment" } else { "the sync" };
                write!(f, "{what} of {who}{} did not come in time", Others(*others))?;
                write!(f, " ({timeout_ms} ms)")
            }
            Cause::EverybodyJoined => f.write_str("everybody has joined"),
            Cause::WaitedForMembers => {
                f.write_str("the initial rebalance delay is over, and the members that came start")
            }
            Cause::Assigned => f.write_str("the leader's assignment is kept"),
            Cause::Restarted => {
                f.write_str("the coordinator restarted with the state that was kept")
            }
            Cause::NotKept => f.write_str("the state of the group could not be kept"),
            Cause::Emptied => f.write_str("the last member is gone"),
            Cause::OverCapacity { max } => write!(f, "the group has more than {max} members"),
        }
    }
}

/// `, and n others`, if there are any.
struct Others(usize);

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            1 => f.write_str(" and 1 other"),
            others => write!(f, " and {others} others"),
        }
    }
}

fn with_reason(
    f: &mut fmt::Formatter<'_>,
    what: fmt::Arguments<'_>,
    reason: &Option<String>,
) -> fmt::Result {
    match reason {
        Some(reason) => write!(f, "{what}: {reason}"),
        None => f.write_fmt(what),
    }
}

/// Cuts a client's text to what is remembered.
pub(crate) fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_MAX)].to_owned()
}

/// A client's reason, if it gave one.
pub(crate) fn cut_reason(reason: Option<&str>) -> Option<String> {
    reason.filter(|reason| !reason.is_empty()).map(cut)
}

/// The last transitions, oldest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    transitions: VecDeque<Transition>,
}

impl History {
    pub(crate) fn add(&mut self, transition: Transition, max: usize) {
        self.transitions.push_back(transition);
        while self.transitions.len() > max {
            self.transitions.pop_front();
        }
    }

    pub(crate) fn to_vec(&self) -> Vec<Transition> {
        self.transitions.iter().cloned().collect()
    }
}
