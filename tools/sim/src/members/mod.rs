//! Members of groups: small state machines that join, sync, send heartbeats, commit and read offsets, leave and crash,
//! over the wire, and try again whatever happens.
//!
//! `mod` is a member's life, `request` its requests and what their errors mean to it, `offsets` commits and fetches of
//! offsets, `assign` the bytes between consumers. What they are told is judged by `oracle::groups` and
//! `oracle::commits`. Their requests do not count as operations of a run, so that they do not take the place of batches.

mod assign;
pub(crate) mod offsets;
mod request;

use std::rc::Rc;
use std::time::Duration;

use rillway_io::Runtime;

use crate::client::{Client, Lost};
use crate::hub::{Hub, Standing};
use crate::rng::Rng;

use assign::Topics;

/// A group, as a seed has it.
#[derive(Clone, Debug)]
pub(crate) struct GroupPlan {
    pub name: String,
    pub session_ms: u64,
    pub rebalance_ms: u64,
}

impl GroupPlan {
    pub(crate) fn draw(n: u64, rng: &mut Rng) -> GroupPlan {
        GroupPlan {
            name: format!("group{n}"),
            session_ms: rng.range(300, 1_500),
            rebalance_ms: rng.range(100, 800),
        }
    }
}

/// See the module.
pub(crate) struct Member {
    hub: Rc<Hub>,
    rt: Runtime,
    rng: Rng,
    client: Option<Client>,
    n: u64,
    group: GroupPlan,
    instance: Option<String>,
    /// It says at the end of the run that it has changed, so that its group rebalances once more.
    first: bool,
    join_version: i16,
    /// Empty: it has none.
    id: String,
    generation: i32,
    /// Changes when it wants a rebalance.
    flavour: u32,
    leads: bool,
    /// The topics that it has assigned, if it leads.
    assigned: Topics,
    /// Its assignment; `None`: it has to join.
    part: Option<Vec<(String, i32)>>,
    /// What it was before: ids and generations.
    past: Vec<(String, i32)>,
    /// Heartbeats that were well since it got its part.
    beats: u32,
    /// The last life of the broker in which it was accepted since it got its part; 0: none.
    heard_in: u64,
    settling: bool,
}

impl Member {
    pub(crate) fn new(
        hub: &Rc<Hub>,
        rt: &Runtime,
        mut rng: Rng,
        n: u64,
        group: &GroupPlan,
        first: bool,
    ) -> Member {
        let instance = rng.percent(30).then(|| format!("instance{n}"));
        let join_version = *rng.pick(&[5, 9]);
        Member {
            hub: Rc::clone(hub),
            rt: rt.clone(),
            rng,
            client: None,
            n,
            group: group.clone(),
            instance,
            first,
            join_version,
            id: String::new(),
            generation: -1,
            flavour: 0,
            leads: false,
            assigned: Topics::new(),
            part: None,
            past: Vec::new(),
            beats: 0,
            heard_in: 0,
            settling: false,
        }
    }

    fn say(&self, what: impl FnOnce() -> String) {
        self.hub.say(&self.rt, || format!("member {} of {}: {}", self.n, self.group.name, what()));
    }

    fn stand(&self) {
        let standing = Standing {
            group: self.group.name.clone(),
            id: self.id.clone(),
            generation: self.generation,
            part: self.part.clone(),
            beats: if self.settling { self.beats } else { 0 },
        };
        self.hub.standing.borrow_mut().insert(self.n, standing);
    }

    /// Waits a moment, and while clients are to keep quiet. False: finish.
    async fn go_on(&mut self) -> bool {
        self.stand();
        self.rt.sleep(Duration::from_micros(self.rng.range(500, 15_000))).await;
        while self.hub.paused.get() && !self.hub.members_done.get() {
            self.rt.sleep(Duration::from_millis(5)).await;
        }
        if self.hub.settling.get() && !self.settling {
            self.settling = true;
            self.beats = 0;
            if self.first {
                self.flavour += 1;
                self.out();
            }
        }
        !self.hub.members_done.get()
    }

    pub(crate) async fn run(mut self) {
        while self.go_on().await {
            if self.part.is_none() {
                self.enter().await;
            } else if self.settling {
                self.settle().await;
            } else {
                self.live().await;
            }
        }
    }

    /// Has no part any more, and joins again.
    fn out(&mut self) {
        if self.part.take().is_some() {
            self.past.push((self.id.clone(), self.generation));
        }
        self.beats = 0;
        self.heard_in = 0;
    }

    /// The process ends, and its connection; another one takes its place after a while.
    async fn crash(&mut self) {
        self.say(|| "crashes".to_owned());
        self.out();
        self.client = None;
        self.id.clear();
        self.generation = -1;
        self.away().await;
    }

    /// Not there for a while, unless the run ends.
    async fn away(&mut self) {
        let until = self.rt.now() + Duration::from_millis(self.rng.range(5, 1_500));
        while self.rt.now() < until && !self.hub.settling.get() {
            self.rt.sleep(Duration::from_millis(20)).await;
        }
    }

    /// One thing that a member does.
    async fn live(&mut self) {
        let topics = self.hub.oracle.settled();
        if self.leads && self.assigned != topics && self.rng.percent(30) {
            self.say(|| "has seen other topics".to_owned());
            self.out();
            return;
        }
        match self.rng.range(0, 100) {
            0 | 1 => self.crash().await,
            2 => {
                self.leave().await;
                self.away().await;
            }
            // Slow processing: nothing is heard of it, perhaps for longer than its session lasts.
            3 => {
                let ms = self.rng.range(self.group.session_ms / 2, 2 * self.group.session_ms);
                self.rt.sleep(Duration::from_millis(ms)).await;
            }
            4 => {
                self.flavour += 1;
                self.out();
            }
            5 if self.first => self.shorten_segments().await,
            5..10 => self.commit_from_the_past().await,
            10..45 => self.commit().await,
            45..60 => self.read_offsets().await,
            _ => self.beat().await,
        }
    }

    /// Nothing happens any more but what brings the group to rest.
    async fn settle(&mut self) {
        if self.leads && self.assigned != self.hub.oracle.settled() {
            self.out();
            return;
        }
        self.beat().await;
    }

    /// Joins, and syncs.
    async fn enter(&mut self) {
        if self.connected().await.is_err() {
            self.client = None;
            return;
        }
        if self.id.is_empty() && !self.settling && self.rng.percent(5) {
            self.commit_from_outside().await;
        }
        match self.join().await {
            Ok(Some(assignments)) => {
                // Now and then one joins and never asks for its assignment.
                if !self.settling && self.rng.percent(2) {
                    self.crash().await;
                } else if self.sync(assignments).await == Err(Lost) {
                    self.say(|| "sync: no answer".to_owned());
                    self.client = None;
                }
            }
            Ok(None) => {}
            Err(Lost) => {
                self.say(|| "join: no answer".to_owned());
                self.client = None;
            }
        }
    }
}
