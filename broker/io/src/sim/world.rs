//! `World`: starts and ends nodes, and moves time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use super::core::{Core, Place};
use super::disk::Device;
use super::executor::{Executor, Life, Step};
use super::faults::Faults;
use super::net::Network;
use super::probe::DiskProbe;
use super::rng::Rng;
use crate::runtime::{Backend, Runtime};
use crate::sync::Notify;
use crate::task::{self, Class, Payload};
use crate::time::{Instant, nanos};

/// How long `block_on` lets a world run.
const BLOCK_ON_LIMIT: Duration = Duration::from_secs(3_600);

/// A world did not get where it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Stuck(pub String);

#[derive(Default)]
struct Node {
    life: Option<Rc<Life>>,
    death: Option<String>,
}

struct Inner {
    seed: u64,
    executor: Rc<Executor>,
    network: Rc<Network>,
    ids: Rc<RefCell<Rng>>,
    nodes: RefCell<BTreeMap<String, Node>>,
    devices: RefCell<BTreeMap<String, Rc<Device>>>,
    faults: RefCell<Faults>,
    /// Nodes whose main futures have all returned.
    finished: RefCell<Vec<Rc<Life>>>,
}

/// A simulated world. One thread, virtual time, everything from one seed.
pub struct World {
    inner: Rc<Inner>,
}

impl World {
    /// A world that follows from `seed`.
    pub fn new(seed: u64) -> World {
        let executor = Rc::new(Executor::new(seed));
        let network = Network::new(&executor, seed);
        let world = World {
            inner: Rc::new(Inner {
                seed,
                network,
                executor,
                ids: Rc::new(RefCell::new(Rng::stream(seed, "ids"))),
                nodes: RefCell::default(),
                devices: RefCell::default(),
                faults: RefCell::default(),
                finished: RefCell::default(),
            }),
        };
        world.set_faults(Faults::default());
        world
    }

    /// The seed it was made from.
    pub fn seed(&self) -> u64 {
        self.inner.seed
    }

    /// Time since it began.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.inner.executor.now())
    }

    /// Sets what may go wrong from now on, on every disk and link; the "nth" faults count anew.
    pub fn set_faults(&self, faults: Faults) {
        for device in self.inner.devices.borrow().values() {
            device.set_faults(&faults);
        }
        self.inner.network.configure(faults.net_delay, faults.reset_chance);
        *self.inner.faults.borrow_mut() = faults;
    }

    fn device(&self, node: &str) -> Rc<Device> {
        let mut devices = self.inner.devices.borrow_mut();
        let faults = self.inner.faults.borrow();
        let rng = Rng::stream(self.inner.seed, &format!("disk of {node}"));
        let new = || Device::new(&self.inner.executor, rng, &faults);
        Rc::clone(devices.entry(node.to_string()).or_insert_with(new))
    }

    fn runtime(&self, life: &Rc<Life>, device: Option<Rc<Device>>, cores: usize) -> Vec<Runtime> {
        let place = Rc::new(Place {
            executor: Rc::clone(&self.inner.executor),
            network: Rc::clone(&self.inner.network),
            life: Rc::clone(life),
            device,
            ids: Rc::clone(&self.inner.ids),
            cores,
        });
        (0..cores)
            .map(|index| {
                let core = Core { place: Rc::clone(&place), index };
                Runtime { backend: Backend::Sim(Rc::new(core)) }
            })
            .collect()
    }

    /// Starts a node: `main` once per core. The node of the same name before it must have ended; its disk is
    /// this one's. When every `main` has returned the process ends, with all its tasks.
    ///
    /// # Panics
    /// If a node of that name is running, or for zero cores.
    pub fn start_node<T, F, Fut>(&self, name: &str, cores: usize, main: F) -> NodeHandle<T>
    where
        T: 'static,
        F: Fn(Runtime) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
    {
        assert!(cores > 0, "a node has at least one core");
        assert!(!self.is_running(name), "node {name} is already running");
        let device = self.device(name);
        let life = self.life(name, false);
        let node = Node { life: Some(Rc::clone(&life)), death: None };
        self.inner.nodes.borrow_mut().insert(name.to_string(), node);
        let results = Rc::new(Results {
            slots: RefCell::new((0..cores).map(|_| None).collect()),
            changed: Notify::new(),
        });
        let main = Rc::new(main);
        let left = Rc::new(Cell::new(cores));
        for runtime in self.runtime(&life, Some(device), cores) {
            let (main, results, left) = (Rc::clone(&main), Rc::clone(&results), Rc::clone(&left));
            let (world, life) = (Rc::downgrade(&self.inner), Rc::clone(&life));
            let (own, core) = (runtime.clone(), runtime.core());
            let body = async move {
                let result = main(own).await;
                results.slots.borrow_mut()[core] = Some(result);
                left.set(left.get() - 1);
                if left.get() == 0
                    && let Some(world) = world.upgrade()
                {
                    world.finished.borrow_mut().push(life);
                }
                results.changed.notify_all();
            };
            runtime.spawn(Class::Data, body).detach();
        }
        NodeHandle { results }
    }

    fn life(&self, name: &str, client: bool) -> Rc<Life> {
        let id = self.inner.executor.id();
        Rc::new(Life { id, name: name.to_string(), client, alive: Cell::new(true) })
    }

    /// A runtime outside any node, for client tasks. It has no disk, and no kill reaches it. A panic of one of
    /// its tasks (but for `Class::Connection`) goes on to whoever runs the world: assertions may stand there.
    pub fn client(&self, name: &str) -> Runtime {
        let life = self.life(name, true);
        self.runtime(&life, None, 1).remove(0)
    }

    /// True while a node of that name runs.
    pub fn is_running(&self, name: &str) -> bool {
        self.inner.nodes.borrow().get(name).is_some_and(|n| n.life.is_some())
    }

    /// Moves on by one task or one moment. False: nothing can happen any more.
    fn step(&self) -> bool {
        let ran = match self.inner.executor.step() {
            Step::Ran => true,
            Step::Idle => false,
            Step::Panicked(life, payload) => {
                self.panicked(&life, payload);
                true
            }
        };
        let finished = std::mem::take(&mut *self.inner.finished.borrow_mut());
        for life in finished {
            self.end(&life.name, &life, false);
        }
        ran
    }

    fn panicked(&self, life: &Rc<Life>, payload: Payload) {
        if life.client {
            std::panic::resume_unwind(payload);
        }
        if life.alive.get() {
            self.end(&life.name, life, false);
            if let Some(node) = self.inner.nodes.borrow_mut().get_mut(&life.name) {
                node.death = Some(task::describe(&payload));
            }
        }
    }

    /// Runs until `done`, which is asked after every step, or until `limit` of virtual time has passed.
    pub fn run_until(&self, done: impl Fn() -> bool, limit: Duration) -> Result<(), Stuck> {
        let until = self.inner.executor.now().saturating_add(nanos(limit));
        loop {
            if done() {
                return Ok(());
            }
            if self.inner.executor.now() > until {
                return Err(self.stuck(&format!("not done after {limit:?}")));
            }
            if !self.step() && !done() {
                return Err(self.stuck("nothing can happen any more"));
            }
        }
    }

    /// Runs for that long.
    pub fn run_for(&self, d: Duration) {
        let until = self.inner.executor.now().saturating_add(nanos(d));
        // Something to happen at the end, or time would stop earlier.
        self.inner.executor.after(nanos(d), || {});
        while self.inner.executor.now() < until {
            self.step();
        }
    }

    fn stuck(&self, what: &str) -> Stuck {
        let deaths: Vec<String> = self
            .inner
            .nodes
            .borrow()
            .iter()
            .filter_map(|(name, node)| Some(format!("; {name} died: {}", node.death.as_ref()?)))
            .collect();
        Stuck(format!(
            "{what}: seed {}, at {:?}, {} tasks left{}",
            self.inner.seed,
            Duration::from_nanos(self.inner.executor.now()),
            self.inner.executor.task_count(),
            deaths.concat()
        ))
    }

    /// Runs the world until `future` has ended.
    ///
    /// # Panics
    /// If nothing can happen any more before that, or after an hour of virtual time.
    pub fn block_on<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        let result: Rc<RefCell<Option<T>>> = Rc::default();
        let slot = Rc::clone(&result);
        let body = async move {
            let value = future.await;
            *slot.borrow_mut() = Some(value);
        };
        self.client("block_on").spawn(Class::Control, body).detach();
        if let Err(stuck) = self.run_until(|| result.borrow().is_some(), BLOCK_ON_LIMIT) {
            panic!("{stuck}");
        }
        let value = result.borrow_mut().take();
        value.expect("it was there when the loop ended")
    }

    fn end(&self, name: &str, life: &Rc<Life>, power: bool) {
        // First of all: what is dropped from here on must not act for a living node.
        life.alive.set(false);
        if let Some(node) = self.inner.nodes.borrow_mut().get_mut(name) {
            node.life = None;
        }
        self.inner.executor.record(life.id);
        let device = self.device(name);
        if power {
            device.power_cut(Some(life.id));
        } else {
            device.kill(life.id);
        }
        self.inner.network.kill(life.id, power);
        self.inner.executor.drop_tasks(life.id, None);
    }

    fn running(&self, node: &str) -> Option<Rc<Life>> {
        self.inner.nodes.borrow().get(node).and_then(|n| n.life.clone())
    }

    /// `kill -9`: tasks are dropped, connections end or are reset, completed writes stay, and writes in flight
    /// may land late (storage.md section 11). Nothing if it does not run.
    pub fn kill(&self, node: &str) {
        if let Some(life) = self.running(node) {
            self.end(node, &life, false);
        }
    }

    /// The power of a machine is cut: as a kill, and its disk keeps what was durable and a random part of the
    /// rest. Also without a running node.
    pub fn power_cut(&self, node: &str) {
        match self.running(node) {
            Some(life) => self.end(node, &life, true),
            None => self.device(node).power_cut(None),
        }
    }

    /// Why a node died by itself: `fatal: ...` or `panic: ...`. `None` if it runs, was killed, or returned.
    pub fn death(&self, node: &str) -> Option<String> {
        self.inner.nodes.borrow().get(node).and_then(|n| n.death.clone())
    }

    /// Holds back everything between two nodes or clients, by name.
    pub fn cut_link(&self, a: &str, b: &str) {
        self.inner.network.cut(a, b);
    }

    /// Lets it through again.
    pub fn heal_link(&self, a: &str, b: &str) {
        self.inner.network.heal(a, b);
    }

    /// The disk of a node, from outside.
    pub fn disk(&self, node: &str) -> DiskProbe {
        DiskProbe::new(self.device(node))
    }

    /// A hash of every decision so far: equal for equal seeds and equal programs.
    pub fn trace_hash(&self) -> u64 {
        self.inner.executor.trace_hash()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("simulated world of seed {} failed at {:?}", self.inner.seed, self.now());
        }
        let lives: Vec<Rc<Life>> =
            self.inner.nodes.borrow().values().filter_map(|n| n.life.clone()).collect();
        for life in lives {
            life.alive.set(false);
        }
        self.inner.executor.clear();
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "World(seed {}, at {:?})", self.inner.seed, self.now())
    }
}

struct Results<T> {
    slots: RefCell<Vec<Option<T>>>,
    changed: Notify,
}

/// A started node's results.
pub struct NodeHandle<T> {
    results: Rc<Results<T>>,
}

impl<T> NodeHandle<T> {
    /// True when every core's `main` has returned.
    pub fn is_finished(&self) -> bool {
        self.results.slots.borrow().iter().all(Option::is_some)
    }

    /// The results, in the order of the cores, once all are there. A second call finds none.
    pub fn take(&self) -> Option<Vec<T>> {
        if !self.is_finished() {
            return None;
        }
        Some(self.results.slots.borrow_mut().drain(..).flatten().collect())
    }

    /// Waits for the results, on any runtime of the same world. Never ends if the node dies.
    pub async fn join(self) -> Vec<T> {
        loop {
            let changed = self.results.changed.notified();
            if let Some(results) = self.take() {
                return results;
            }
            changed.await;
        }
    }
}

impl<T> fmt::Debug for NodeHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeHandle(finished: {})", self.is_finished())
    }
}
