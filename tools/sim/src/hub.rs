//! What the driver and the clients share: the oracle, the state of the broker as the driver knows it, and counts.

use std::cell::{Cell, RefCell};
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
