//! One member of a group, and ids that were given out to members to be.

use crate::effect::Ticket;
use crate::event::{Join, Protocol};
use crate::history::Who;

/// The answer of a join that is held until the join phase ends.
#[derive(Debug)]
pub(super) struct JoinWait {
    pub(super) ticket: Ticket,
    /// The client understands "no need to assign" (KIP-814).
    pub(super) skip_assignment: bool,
}

/// An id that was given out by MEMBER_ID_REQUIRED and has not come back yet. No member.
#[derive(Debug)]
pub(super) struct PendingId {
    pub(super) id: String,
    pub(super) expires_ms: u64,
}

/// The assignors of a member, by preference; never empty. A client may name tens of thousands of them, and each is looked
/// for among those of every other member.
#[derive(Debug)]
pub(super) struct Protocols {
    list: Vec<Protocol>,
    /// Places in `list`, by name; of equal names the first is first.
    by_name: Vec<usize>,
}

impl From<Vec<Protocol>> for Protocols {
    fn from(list: Vec<Protocol>) -> Protocols {
        let mut by_name: Vec<usize> = (0..list.len()).collect();
        by_name.sort_by(|a, b| list[*a].name.cmp(&list[*b].name));
        Protocols { list, by_name }
    }
}

impl Protocols {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Protocol> {
        self.list.iter()
    }

    /// Each name once, in alphabetical order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let name = |at: usize| self.list[self.by_name[at]].name.as_str();
        (0..self.by_name.len())
            .map(name)
            .enumerate()
            .filter_map(move |(at, here)| (at == 0 || name(at - 1) != here).then_some(here))
    }

    fn find(&self, name: &str) -> Option<&Protocol> {
        let at = self.by_name.partition_point(|at| self.list[*at].name.as_str() < name);
        let found = self.by_name.get(at).map(|at| &self.list[*at]);
        found.filter(|protocol| protocol.name == name)
    }
}

/// A member. Times are on the monotonic clock.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) instance: Option<String>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) session_timeout_ms: i32,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) protocols: Protocols,
    pub(super) assignment: Vec<u8>,
    pub(super) join: Option<JoinWait>,
    pub(super) sync: Option<Ticket>,
    /// Has been told the generation and has not asked for its assignment; is given up at this time.
    pub(super) sync_by: Option<u64>,
    /// Its first join is not answered yet: it is given up after a fixed time even though it waits for us.
    pub(super) is_new: bool,
    /// The client has been told its member id, so that it can come back.
    pub(super) id_known: bool,
    /// From the kept state, which has only the chosen one of its protocols.
    pub(super) restored: bool,
    pub(super) heard_ms: u64,
    pub(super) expires_ms: u64,
    pub(super) arrival: u64,
}

impl Member {
    pub(super) fn rebalance_ms(&self) -> u64 {
        u64::try_from(self.rebalance_timeout_ms).unwrap_or(0)
    }

    fn session_ms(&self) -> u64 {
        u64::try_from(self.session_timeout_ms).unwrap_or(0)
    }

    /// A sign of life: the session begins anew.
    pub(super) fn touch(&mut self, now: u64) {
        self.heard_ms = now;
        if !self.is_new {
            self.renew(now);
        }
    }

    /// The session begins anew because it was us who kept the member waiting.
    pub(super) fn renew(&mut self, now: u64) {
        self.expires_ms = now.saturating_add(self.session_ms());
    }

    /// When the session ends if nothing is heard. A member that waits for our answer has none, unless it is new.
    pub(super) fn deadline(&self) -> Option<u64> {
        let waits = self.join.is_some() || self.sync.is_some();
        (self.is_new || !waits).then_some(self.expires_ms)
    }

    /// What it says to an assignor; `None` if it cannot do it.
    pub(super) fn metadata(&self, protocol: &str) -> Option<&[u8]> {
        self.protocols.find(protocol).map(|found| found.metadata.as_slice())
    }

    pub(super) fn supports(&self, protocol: &str) -> bool {
        self.metadata(protocol).is_some()
    }

    /// Whether a join says what the member has said before. After a restart only the chosen protocol is there to compare.
    pub(super) fn says_the_same(&self, protocols: &[Protocol]) -> bool {
        if self.restored {
            self.protocols.iter().all(|kept| protocols.contains(kept))
        } else {
            self.protocols.list == protocols
        }
    }

    /// Takes over what a join says.
    pub(super) fn update(&mut self, join: &Join) {
        self.protocols = join.protocols.clone().into();
        self.restored = false;
        self.session_timeout_ms = join.session_timeout_ms;
        self.rebalance_timeout_ms = join.rebalance_timeout_ms.max(0);
    }

    pub(super) fn who(&self, id: &str) -> Who {
        Who::new(id, &self.client_id, &self.client_host)
    }
}
