//! One simulated core: the backend of `Runtime` in a world.

use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::disk::{Device, Disk};
use super::executor::{Executor, Life};
use super::net::{Acceptor, Conn, Network};
use super::rng::Rng;
use crate::error::Result;
use crate::net::BindOptions;
use crate::task::{self, Class, Task};
use crate::time::{Instant, nanos};

/// The wall clock at the beginning of every world: 2023-11-14T22:13:20Z.
const EPOCH_MS: i64 = 1_700_000_000_000;

/// What the cores of one life share.
pub(crate) struct Place {
    pub(crate) executor: Rc<Executor>,
    pub(crate) network: Rc<Network>,
    pub(crate) life: Rc<Life>,
    pub(crate) device: Option<Rc<Device>>,
    pub(crate) ids: Rc<RefCell<Rng>>,
    pub(crate) cores: usize,
}

/// See the module.
pub(crate) struct Core {
    pub(crate) place: Rc<Place>,
    pub(crate) index: usize,
}

impl Core {
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn cores(&self) -> usize {
        self.place.cores
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.place.executor.now())
    }

    pub(crate) fn wall_ms(&self) -> i64 {
        let ms = self.place.executor.now() / 1_000_000;
        EPOCH_MS.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    pub(crate) fn random(&self, bytes: &mut [u8]) {
        self.place.ids.borrow_mut().fill(bytes);
    }

    pub(crate) fn spawn<T: 'static>(
        &self,
        class: Class,
        future: impl Future<Output = T> + 'static,
    ) -> Task<T> {
        // Thrown on to the executor, which knows whose death it is.
        let (task, body) = task::split(class, future, |payload| std::panic::resume_unwind(payload));
        if self.place.life.alive.get() {
            self.place.executor.spawn(&self.place.life, self.index, body);
        }
        task
    }

    pub(crate) async fn sleep(&self, d: Duration) {
        self.place.executor.sleep(nanos(d)).await;
    }

    pub(crate) async fn yield_now(&self) {
        Yield { yielded: false }.await;
    }

    pub(crate) fn disk(&self) -> Disk {
        let device = self.place.device.as_ref();
        let device = device.expect("a simulated client has no disk: start a node for that");
        Disk::new(Rc::clone(device), Rc::clone(&self.place.life))
    }

    pub(crate) fn bind(&self, addr: SocketAddr, options: BindOptions) -> Result<Acceptor> {
        self.place.network.bind(&self.place.life, addr, options)
    }

    pub(crate) async fn connect(&self, addr: SocketAddr) -> Result<Conn> {
        self.place.network.connect(&self.place.life, addr).await
    }
}

/// Lets every other ready task have its chance. On a simulated core the slice is always used up, so that each
/// place that may yield is an interleaving to be tried.
struct Yield {
    yielded: bool,
}

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Ends the node this task runs on. Not a panic with a message on stderr: it is an outcome, not a failure.
pub(crate) fn fatal(why: &str) -> ! {
    std::panic::resume_unwind(Box::new(task::Fatal(why.to_string())))
}
