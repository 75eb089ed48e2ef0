//! What the driver and the clients share: the oracle, the state of the broker as the driver knows it, and counts.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use rillway_io::Runtime;

use crate::oracle::Oracle;
use crate::rng::Rng;

/// See the module.
#[derive(Default)]
pub(crate) struct Hub {
    pub oracle: Oracle,
    /// Requests that were answered.
    pub operations: Cell<u64>,
    /// Lives of the broker so far; in between nobody listens.
    pub life: Cell<u64>,
    /// Cores of the life that runs.
    pub cores: Cell<usize>,
    /// Clients keep quiet.
    pub paused: Cell<bool>,
    /// Clients finish.
    pub done: Cell<bool>,
    /// Tasks of clients that have not finished.
    pub running: Cell<usize>,
    /// Groups come to rest: no member goes, whoever is away comes back.
    pub settling: Cell<bool>,
    /// Members finish.
    pub members_done: Cell<bool>,
    /// Tasks of members that have not finished.
    pub members_running: Cell<usize>,
    /// How members stand, by their number.
    pub standing: RefCell<BTreeMap<u64, Standing>>,
    /// Offsets expire within a run.
    pub offsets_expire: Cell<bool>,
    connections: Cell<u64>,
    /// How long a client waits for an answer.
    pub patience: Cell<Duration>,
    pub verbose: bool,
    /// Milliseconds between a client's requests, at most.
    pub pause_ms: Cell<u64>,
    /// What the fleet saw, for the coverage.
    pub seen: RefCell<Seen>,
}

/// Things that only clients notice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub deletes: u64,
    pub recreations: u64,
    pub retries: u64,
    pub disk_full: u64,
    /// Generations that a leader was told.
    pub generations: u64,
    /// Assignments that members got.
    pub parts: u64,
    /// Commits of members of the past that were refused.
    pub fenced: u64,
    /// Members that went on in another life of the broker without joining.
    pub survived: u64,
    pub groups_not_available: u64,
}

/// How a member stands.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub group: String,
    pub id: String,
    pub generation: i32,
    /// `None`: it has none, and joins.
    pub part: Option<Vec<(String, i32)>>,
    /// Heartbeats that were well since then, once groups come to rest.
    pub beats: u32,
}

pub(crate) const PORT: u16 = 9092;

impl Hub {
    pub(crate) fn new(verbose: bool) -> Rc<Hub> {
        Rc::new(Hub { verbose, patience: Cell::new(Duration::from_secs(2)), ..Default::default() })
    }

    pub(crate) fn operation(&self) {
        self.operations.set(self.operations.get() + 1);
    }

    pub(crate) fn connection(&self) -> u64 {
        self.connections.set(self.connections.get() + 1);
        self.connections.get()
    }

    /// Whether every group is at rest: all members are in one generation, and their parts are everything, once.
    pub(crate) fn at_rest(&self) -> Result<(), String> {
        let standing = self.standing.borrow();
        let all = self.oracle.settled().into_iter();
        let all: BTreeSet<_> =
            all.flat_map(|(name, n)| (0..n).map(move |index| (name.clone(), index))).collect();
        // Of each group the generation, and what its members have.
        let mut groups = BTreeMap::<&str, (i32, BTreeSet<_>)>::new();
        for (n, member) in standing.iter() {
            let Standing { group, id, generation, part, beats } = member;
            let here = format!("member {n} of {group}, {id} at generation {generation}");
            let Some(part) = part.as_ref().filter(|_| *beats >= 2) else {
                return Err(format!("{here}, is not in"));
            };
            let known = groups.entry(group).or_insert_with(|| (*generation, BTreeSet::new()));
            if known.0 != *generation {
                return Err(format!("{here}, another is at generation {}", known.0));
            }
            for at in part {
                if !known.1.insert(at.clone()) {
                    return Err(format!("{here}, and another both have {at:?}"));
                }
            }
        }
        match groups.iter().find(|(_, (_, parts))| *parts != all) {
            Some((group, (_, parts))) => Err(format!("{group} has {parts:?} of {all:?}")),
            None => Ok(()),
        }
    }

    /// Port of a core.
    pub(crate) fn port(&self, core: usize) -> u16 {
        if self.cores.get() == 1 { PORT } else { PORT + 1000 + 100 * core as u16 }
    }

    /// A port that answers everything.
    pub(crate) fn any_port(&self, rng: &mut Rng) -> u16 {
        let core = rng.index(self.cores.get().max(1) + 1);
        if core == self.cores.get() { PORT } else { self.port(core) }
    }

    /// Waits while clients are to keep quiet, and a moment more. False: finish.
    pub(crate) async fn go_on(&self, rt: &Runtime, rng: &mut Rng) -> bool {
        rt.sleep(Duration::from_micros(rng.range(10, 1_000 * self.pause_ms.get().max(1)))).await;
        while self.paused.get() && !self.done.get() {
            rt.sleep(Duration::from_millis(5)).await;
        }
        !self.done.get()
    }

    pub(crate) fn say(&self, rt: &Runtime, what: impl FnOnce() -> String) {
        if self.verbose {
            println!("{:?} {}", rt.now(), what());
        }
    }
}
