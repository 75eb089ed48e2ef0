//! One seed: a world, a broker that lives and dies in it, clients, and the driver that decides when what happens.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use rillway_io::sim::{Faults, World};
use rillway_io::{Class, Runtime};
use rillway_log::Mutant;

use crate::admin::Admin;
use crate::consumers::Consumer;
use crate::coverage::Coverage;
use crate::hub::Hub;
use crate::members::offsets::read_all_offsets;
use crate::members::{GroupPlan, Member};
use crate::node::{Life, NODE, Settings, start};
use crate::producers::Producer;
use crate::rng::Rng;

/// Longest virtual time that a start, or a stretch of work, may take.
const START_LIMIT: Duration = Duration::from_secs(120);
const WORK_LIMIT: Duration = Duration::from_secs(120);
/// Longest virtual time until groups are at rest when nothing fails any more: a member that went without a word is
/// missed after 1.5 s, a rebalance waits for 0.8 s, and a join that lost its connection is told after 10 s.
const REST_LIMIT: Duration = Duration::from_secs(30);
/// After so long without members every offset has expired where offsets do: sessions last 1.5 s, rebalances 0.8 s,
/// retention 2 s and the time between two looks at it 0.3 s.
const EXPIRY: Duration = Duration::from_secs(8);
/// Requests that each seed has answered at least.
const OPERATIONS_MIN: u64 = 1_000;
/// Crashes that each seed has at least.
const CRASHES_MIN: u64 = 3;
/// A disk that is not full.
const ROOMY: u64 = 1 << 40;

/// What came of a seed.
pub(crate) struct Report {
    pub coverage: Coverage,
    pub trace: u64,
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Kill,
    PowerCut,
    Clean,
}

struct Driver {
    world: World,
    hub: Rc<Hub>,
    rng: Rng,
    settings: Settings,
    coverage: Coverage,
    cores: usize,
    eio: bool,
    full: bool,
    life: Option<Rc<Life>>,
}

/// Runs one seed.
///
/// # Errors
/// The first violation.
pub(crate) fn run(seed: u64, mutant: Option<Mutant>, verbose: bool) -> Result<Report, String> {
    let mut rng = Rng::new(seed);
    let hub = Hub::new(verbose);
    let world = World::new(seed);
    let settings = Settings::draw(&mut rng, mutant);
    let cores = *rng.pick(&[1, 1, 2, 2, 3]);
    let mut driver = Driver {
        world,
        hub,
        settings,
        coverage: Coverage::default(),
        cores,
        eio: false,
        full: false,
        life: None,
        rng,
    };
    driver.whole()?;
    Ok(Report { coverage: driver.coverage, trace: driver.world.trace_hash() })
}

impl Driver {
    fn say(&self, what: impl FnOnce() -> String) {
        if self.hub.verbose {
            println!("{:?} driver: {}", self.world.now(), what());
        }
    }

    fn whole(&mut self) -> Result<(), String> {
        self.world.start_node(NODE, 1, |_| async {});
        self.world.run_for(Duration::from_millis(1));
        self.world.disk(NODE).set_capacity(ROOMY);
        self.hub.pause_ms.set(*self.rng.pick(&[1, 2, 5]));
        self.spawn_clients();
        self.spawn_members();
        let lives = self.rng.range(4, 8);
        let operations = self.rng.range(1_000, 1_300);
        let mut n = 0;
        while n < lives
            || self.coverage.crashes() < CRASHES_MIN
            || self.hub.operations.get() < OPERATIONS_MIN
        {
            n += 1;
            self.one_life(operations * n.min(lives) / lives)?;
        }
        self.last_life()
    }

    fn spawn_clients(&mut self) {
        let largest = *self.rng.pick(&[2_000, 40_000, 40_000, 200_000, 200_000, 200_000, 500_000]);
        let ids = Rc::new(RefCell::new(BTreeSet::new()));
        for n in 0..self.rng.range(1, 4) {
            let (rt, rng) = (self.world.client(&format!("plain{n}")), self.rng.fork());
            let producer = Producer::new(&self.hub, &rt, rng, n, largest);
            self.spawn(&rt, producer.plain());
        }
        for n in 0..self.rng.range(1, 4) {
            let (rt, rng) = (self.world.client(&format!("idempotent{n}")), self.rng.fork());
            let producer = Producer::new(&self.hub, &rt, rng, 100 + n, largest);
            self.spawn(&rt, producer.idempotent(Rc::clone(&ids)));
        }
        for n in 0..self.rng.range(1, 3) {
            let (rt, rng) = (self.world.client(&format!("tail{n}")), self.rng.fork());
            self.spawn(&rt, Consumer::new(&self.hub, &rt, rng).tail());
        }
        let (rt, rng) = (self.world.client("reader"), self.rng.fork());
        self.spawn(&rt, Consumer::new(&self.hub, &rt, rng).random());
        let (rt, rng) = (self.world.client("admin"), self.rng.fork());
        self.spawn(&rt, Admin::new(&self.hub, &rt, rng).run());
    }

    fn spawn_members(&mut self) {
        let retention_ms = self.settings.offsets_retention_ms();
        self.hub.oracle.retain_offsets(retention_ms);
        self.hub.oracle.groups_may_end(retention_ms.is_some());
        self.hub.offsets_expire.set(retention_ms.is_some());
        let mut number = 0;
        for group in 0..self.rng.range(1, 4) {
            let plan = GroupPlan::draw(group, &mut self.rng);
            for nth in 0..self.rng.range(1, 4) {
                number += 1;
                let (rt, rng) = (self.world.client(&format!("member{number}")), self.rng.fork());
                let member = Member::new(&self.hub, &rt, rng, number, &plan, nth == 0);
                let hub = Rc::clone(&self.hub);
                hub.members_running.set(hub.members_running.get() + 1);
                rt.spawn(Class::Data, async move {
                    member.run().await;
                    hub.members_running.set(hub.members_running.get() - 1);
                })
                .detach();
            }
        }
    }

    /// Faults are over: within a bounded time every member has its part, and keeps it.
    fn settle_groups(&mut self) -> Result<(), String> {
        self.hub.settling.set(true);
        let hub = Rc::clone(&self.hub);
        if let Err(stuck) =
            self.until("groups come to rest", move || hub.at_rest().is_ok(), REST_LIMIT)
        {
            return Err(match self.hub.at_rest() {
                Err(why) => format!("{stuck}: {why}"),
                Ok(()) => stuck,
            });
        }
        self.hub.members_done.set(true);
        let hub = Rc::clone(&self.hub);
        self.until("members finish", move || hub.members_running.get() == 0, WORK_LIMIT)?;
        Ok(())
    }

    fn spawn(&self, rt: &Runtime, work: impl Future<Output = ()> + 'static) {
        let hub = Rc::clone(&self.hub);
        hub.running.set(hub.running.get() + 1);
        rt.spawn(Class::Data, async move {
            work.await;
            hub.running.set(hub.running.get() - 1);
        })
        .detach();
    }

    /// Runs until `done`, a violation, or the broker's death. True: it was `done`.
    fn until(&self, what: &str, done: impl Fn() -> bool, limit: Duration) -> Result<bool, String> {
        let over = || self.hub.oracle.violated() || !self.world.is_running(NODE) || done();
        let ran = self.world.run_until(over, limit);
        if let Some(violation) = self.hub.oracle.violation() {
            let refused = self.life.iter().flat_map(|life| life.refused());
            let refused: Vec<String> = refused.map(|why| format!("; refused: {why}")).collect();
            return Err(violation + &refused.concat());
        }
        ran.map_err(|stuck| format!("{what}: {stuck}"))?;
        if self.world.is_running(NODE) {
            return Ok(true);
        }
        let death = self.world.death(NODE);
        match death {
            Some(why) if self.eio && why.starts_with("fatal") && why.contains("failed") => {
                Ok(false)
            }
            Some(why) if self.eio && why.starts_with("fatal: start") => Ok(false),
            Some(why) => Err(format!("{what}: the broker died: {why}")),
            None => Ok(false),
        }
    }

    fn start(&mut self) -> Rc<Life> {
        let life = start(&self.world, &self.settings, self.cores);
        self.hub.life.set(self.hub.life.get() + 1);
        self.hub.oracle.life_began(self.hub.life.get());
        self.hub.cores.set(self.cores);
        self.life = Some(Rc::clone(&life));
        let cores = self.cores;
        self.say(|| format!("life with {cores} cores"));
        if self.full {
            self.coverage.full_starts += 1;
        }
        life
    }

    fn wait_ready(&self, life: &Life) -> Result<bool, String> {
        self.until("start", || life.ready(), START_LIMIT)
    }

    fn end(&mut self, life: &Life, end: End) -> Result<(), String> {
        self.say(|| format!("{end:?}"));
        self.coverage.store.add(&life.counters());
        match end {
            End::Kill => {
                self.world.kill(NODE);
                self.coverage.kills += 1;
            }
            End::PowerCut => {
                self.world.power_cut(NODE);
                self.coverage.power_cuts += 1;
            }
            End::Clean => {
                life.stop();
                self.until("clean stop", || false, START_LIMIT)?;
                self.coverage.clean_stops += 1;
                if let Some(Err(e)) =
                    life.handle.take().and_then(|all| all.into_iter().find(Result::is_err))
                {
                    return Err(format!("clean stop: {e}"));
                }
            }
        }
        life.forget();
        Ok(())
    }

    /// The broker died by itself, of an error that was asked for.
    fn buried(&mut self, life: &Life) {
        self.coverage.eio_deaths += 1;
        life.forget();
        self.say(|| format!("died: {:?}", self.world.death(NODE)));
        self.calm();
        if self.rng.percent(50) {
            self.world.power_cut(NODE);
            self.coverage.power_cuts += 1;
        }
    }

    /// No more faults.
    fn calm(&mut self) {
        self.eio = false;
        self.world.set_faults(Faults::default());
    }

    fn free(&mut self) {
        if std::mem::take(&mut self.full) {
            self.say(|| "the disk is freed".to_owned());
            self.world.disk(NODE).set_capacity(ROOMY);
        }
    }

    fn one_life(&mut self, operations: u64) -> Result<(), String> {
        if !self.full && self.rng.percent(30) {
            let cores = self.rng.range(1, 4) as usize;
            self.coverage.core_changes += u64::from(cores != self.cores);
            self.cores = cores;
        }
        let before_faults = self.rng.percent(20);
        if before_faults {
            self.draw_faults();
        }
        let twice = !before_faults && self.rng.percent(20);
        self.hub.paused.set(twice);
        if twice {
            // Until every client has given up what it had under way: a request in the backlog would be served
            // between the two looks, and its frame, in flight at the kill, rightly be there at the second.
            self.world.run_for(Duration::from_millis(2_500));
        }
        let mut life = self.start();
        // A crash in the middle of recovery, or soon after it.
        while self.rng.percent(30) {
            self.world.run_for(Duration::from_micros(self.rng.range(0, 40_000)));
            if let Some(violation) = self.hub.oracle.violation() {
                return Err(violation);
            }
            if !self.world.is_running(NODE) {
                break;
            }
            self.coverage.recovery_crashes += u64::from(!life.ready());
            let end = if self.rng.percent(50) { End::Kill } else { End::PowerCut };
            self.end(&life, end)?;
            life = self.start();
        }
        if !self.wait_ready(&life)? {
            self.buried(&life);
            return Ok(());
        }
        if twice {
            life = match self.once_more(life)? {
                Some(life) => life,
                None => return Ok(()),
            };
        }
        self.draw_faults();
        if !self.full && self.rng.percent(15) {
            let used = ROOMY - self.world.disk(NODE).available();
            let room = self.rng.range(0, 3 << 20);
            self.say(|| format!("the disk has {room} bytes left"));
            self.world.disk(NODE).set_capacity(used + room);
            self.full = true;
        } else if self.rng.percent(70) {
            self.free();
        }
        if !self.work(&life, operations)? {
            self.buried(&life);
            return Ok(());
        }
        let end = *self.rng.pick(&[
            End::Kill,
            End::Kill,
            End::PowerCut,
            End::PowerCut,
            End::PowerCut,
            End::Clean,
        ]);
        if end == End::Clean {
            self.calm();
        }
        self.end(&life, end)
    }

    /// Recovered twice is the same: killed as soon as it serves, it comes back with the same state.
    fn once_more(&mut self, life: Rc<Life>) -> Result<Option<Rc<Life>>, String> {
        let first = life.flushed();
        let end = if self.rng.percent(50) { End::Kill } else { End::PowerCut };
        self.end(&life, end)?;
        let life = self.start();
        if !self.wait_ready(&life)? {
            self.buried(&life);
            self.hub.paused.set(false);
            return Ok(None);
        }
        let second = life.flushed();
        self.coverage.recovered_twice += 1;
        let other = first.iter().zip(&second).find(|(a, b)| a != b);
        if let Some((a, b)) = other {
            return Err(format!("recovered twice: {a}; then {b}"));
        }
        if first.len() != second.len() {
            return Err(format!(
                "recovered twice: {} partitions, then {}",
                first.len(),
                second.len()
            ));
        }
        self.hub.paused.set(false);
        Ok(Some(life))
    }

    fn draw_faults(&mut self) {
        let rng = &mut self.rng;
        let ms = Duration::from_millis;
        let slow = rng.percent(20);
        let mut faults = Faults {
            flush_delay: if slow { ms(rng.range(50, 400)) } else { Duration::from_micros(600) },
            syncfs_delay: ms(*rng.pick(&[3, 3, 30, 300])),
            late_writes: ms(*rng.pick(&[0, 5, 2_000])),
            net_delay: Duration::from_micros(*rng.pick(&[50, 200, 2_000])),
            reset_chance: if rng.percent(20) { 0.01 } else { 0.0 },
            ..Default::default()
        };
        self.hub.patience.set(if slow { ms(rng.range(20, 300)) } else { ms(2_000) });
        self.eio = rng.percent(12);
        if self.eio {
            let nth = Some(rng.range(1, 60));
            match rng.range(0, 4) {
                0 => faults.eio_on_write = nth,
                1 => faults.eio_on_flush = nth,
                2 => faults.eio_on_syncfs = Some(rng.range(1, 4)),
                _ => faults.short_write = nth,
            }
        }
        self.world.set_faults(faults);
    }

    /// Lets the clients work up to so many operations, or up to a moment that is worth a crash.
    fn work(&mut self, life: &Rc<Life>, operations: u64) -> Result<bool, String> {
        let hub = Rc::clone(&self.hub);
        let was = life.counters();
        let moment = self.rng.range(0, 8);
        let within = Rc::clone(life);
        let target = operations.max(hub.operations.get() + 20);
        let reached = move || hub.operations.get() >= target;
        if !self.until("work", reached, WORK_LIMIT)? {
            return Ok(false);
        }
        let hub = Rc::clone(&self.hub);
        let enough = hub.operations.get() + 60;
        let worth = move || {
            let now = within.counters();
            let it = match moment {
                0 | 1 => now.checkpoints > was.checkpoints,
                2 => now.seals > was.seals || now.cleanings > was.cleanings,
                3 => now.rolls > was.rolls || now.segments_replaced > was.segments_replaced,
                4 => now.laps > was.laps,
                5 => now.duplicates > was.duplicates,
                _ => true,
            };
            it || hub.operations.get() >= enough
        };
        if !self.until("work", worth, WORK_LIMIT)? {
            return Ok(false);
        }
        let more = self.rng.range(0, 3_000);
        self.world.run_for(Duration::from_micros(more));
        self.until("work", || true, WORK_LIMIT)
    }

    /// Nothing fails any more: everything must be there.
    fn last_life(&mut self) -> Result<(), String> {
        self.calm();
        self.free();
        self.hub.patience.set(Duration::from_secs(10));
        self.hub.paused.set(false);
        let life = self.start();
        self.wait_ready(&life)?;
        let more = self.hub.operations.get() + 50;
        let hub = Rc::clone(&self.hub);
        self.until("the last life", move || hub.operations.get() >= more, WORK_LIMIT)?;
        self.hub.done.set(true);
        let hub = Rc::clone(&self.hub);
        self.until("clients finish", move || hub.running.get() == 0, WORK_LIMIT)?;
        self.settle_groups()?;
        // Once more, without a cleaner: what is read must be of one moment.
        self.end(&life, End::PowerCut)?;
        self.settings.cleaner_backoff = None;
        let life = self.start();
        self.wait_ready(&life)?;
        if self.hub.offsets_expire.get() {
            // All members are missed, and what they have committed gets too old.
            self.world.run_for(EXPIRY);
        }
        let (rt, rng) = (self.world.client("verifier"), self.rng.fork());
        self.spawn(&rt, Consumer::new(&self.hub, &rt, rng).read_everything());
        let (rt, rng) = (self.world.client("reader of offsets"), self.rng.fork());
        self.spawn(&rt, read_all_offsets(Rc::clone(&self.hub), rt.clone(), rng));
        let hub = Rc::clone(&self.hub);
        self.until("everything is read", move || hub.running.get() == 0, WORK_LIMIT)?;
        self.end(&life, End::Clean)?;
        let seen = *self.hub.seen.borrow();
        let c = &mut self.coverage;
        c.operations = self.hub.operations.get();
        c.acknowledged = self.hub.oracle.batches_acknowledged() as u64;
        c.deletes = seen.deletes;
        c.recreations = seen.recreations;
        c.retries = seen.retries;
        c.disk_full_answers = seen.disk_full;
        c.offset_commits = self.hub.oracle.commits_acknowledged() as u64;
        c.offsets_expired = self.hub.oracle.offsets_expired();
        c.rebalances = seen.generations;
        c.assignments = seen.parts;
        c.fenced_commits = seen.fenced;
        c.members_after_restart = seen.survived;
        c.groups_not_available = seen.groups_not_available;
        assert!(
            c.operations >= OPERATIONS_MIN,
            "{} operations are too few to mean anything",
            c.operations
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_exactly() {
        for seed in 1..=3 {
            let traces = [0, 1].map(|_| run(seed, None, false).map(|report| report.trace));
            assert!(traces[0].is_ok() && traces[0] == traces[1], "seed {seed}: {traces:?}");
        }
    }
}
