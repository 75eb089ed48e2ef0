//! Tasks: what `Runtime::spawn` returns, and what happens to a task that panics or is cancelled.
//!
//! Shared by both backends: an executor only ever sees a pinned future without result. Runs on the core that
//! spawned it. Absent on purpose: aborting on drop. A dropped `Task` is detached, one rule for everybody.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What a task is for: the share of the core it gets, and what its panic means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Messages between cores, timers, leases: little work, wanted soon.
    Control,
    /// Commits, appends, fetches: the partitions themselves.
    Data,
    /// One client connection. The only class whose panic is survived: it ends the task and nothing else.
    Connection,
    /// Destage, retention, compaction: yields to the rest.
    Background,
}

impl Class {
    /// All of them, in the order of their numbers.
    pub const ALL: [Class; 4] = [Class::Control, Class::Data, Class::Connection, Class::Background];
}

pub(crate) type BoxFuture = Pin<Box<dyn Future<Output = ()>>>;

/// What a caught panic carries.
pub(crate) type Payload = Box<dyn Any + Send>;

/// The payload of `Runtime::fatal` in the simulator. Private, so that nothing else can look like it.
pub(crate) struct Fatal(pub(crate) String);

/// The words of a panic.
pub(crate) fn describe(payload: &Payload) -> String {
    if let Some(fatal) = payload.downcast_ref::<Fatal>() {
        return format!("fatal: {}", fatal.0);
    }
    let text = payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    format!("panic: {}", text.unwrap_or_else(|| "without a message".to_string()))
}

struct Shared<T> {
    /// The future, until it has ended. Borrowed while it is polled.
    future: RefCell<Option<Pin<Box<dyn Future<Output = T>>>>>,
    cancelled: Cell<bool>,
    /// `Some(None)`: ended without a result.
    result: Cell<Option<Option<T>>>,
    /// Of the task itself, to end it after a cancel.
    body: Cell<Option<Waker>>,
    /// Of whoever awaits it.
    joiner: Cell<Option<Waker>>,
}

impl<T> Shared<T> {
    fn finish(&self, result: Option<T>) {
        self.result.set(Some(result));
        if let Some(joiner) = self.joiner.take() {
            joiner.wake();
        }
    }
}

/// A spawned task. Await it for its result; drop it to let it run on alone.
#[must_use = "dropping a task detaches it: say so with `detach`"]
pub struct Task<T> {
    shared: Rc<Shared<T>>,
}

impl<T> Task<T> {
    /// Lets it run on alone.
    pub fn detach(self) {}

    /// Stops it: its future is dropped now, or, if the task cancels itself, at its next await.
    /// Operations it started run to completion (design section 3).
    pub fn cancel(&self) {
        if self.is_finished() {
            return;
        }
        self.shared.cancelled.set(true);
        // Out of the cell first: the future's destructors may look at this very task.
        let future = self.shared.future.try_borrow_mut().ok().and_then(|mut f| f.take());
        drop(future);
        if let Some(body) = self.shared.body.take() {
            body.wake();
        }
    }

    /// True once it has ended, in whatever way.
    pub fn is_finished(&self) -> bool {
        let result = self.shared.result.take();
        let finished = result.is_some();
        self.shared.result.set(result);
        finished
    }
}

impl<T> Future for Task<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        match self.shared.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                self.shared.joiner.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task(finished: {})", self.is_finished())
    }
}

/// Splits a future into a task handle and the body an executor runs. `on_panic` decides over a panic of any
/// class but `Connection`; it does not return.
pub(crate) fn split<T: 'static>(
    class: Class,
    future: impl Future<Output = T> + 'static,
    on_panic: impl Fn(Payload) + 'static,
) -> (Task<T>, BoxFuture) {
    let shared = Rc::new(Shared {
        future: RefCell::new(Some(Box::pin(future) as Pin<Box<dyn Future<Output = T>>>)),
        cancelled: Cell::new(false),
        result: Cell::new(None),
        body: Cell::new(None),
        joiner: Cell::new(None),
    });
    let body = Body { class, shared: Rc::clone(&shared), on_panic };
    (Task { shared }, Box::pin(body))
}

struct Body<T, P> {
    class: Class,
    shared: Rc<Shared<T>>,
    on_panic: P,
}

impl<T, P: Fn(Payload)> Body<T, P> {
    fn drop_future(&self) {
        let future = self.shared.future.borrow_mut().take();
        drop(future);
    }
}

impl<T, P: Fn(Payload)> Future for Body<T, P> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let shared = &self.shared;
        let polled = {
            let mut slot = shared.future.borrow_mut();
            let Some(future) = slot.as_mut().filter(|_| !shared.cancelled.get()) else {
                drop(slot);
                self.drop_future();
                shared.finish(None);
                return Poll::Ready(());
            };
            shared.body.set(Some(cx.waker().clone()));
            catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)))
        };
        match polled {
            Ok(Poll::Ready(value)) => {
                self.drop_future();
                shared.finish(Some(value));
                Poll::Ready(())
            }
            Ok(Poll::Pending) if !shared.cancelled.get() => Poll::Pending,
            Ok(Poll::Pending) => {
                self.drop_future();
                shared.finish(None);
                Poll::Ready(())
            }
            Err(payload) => {
                let fatal = payload.is::<Fatal>();
                if self.class == Class::Connection && !fatal {
                    tracing::error!("a connection's task ended: {}", describe(&payload));
                    self.drop_future();
                    shared.finish(None);
                } else {
                    (self.on_panic)(payload);
                }
                Poll::Ready(())
            }
        }
    }
}

impl<T, P> Drop for Body<T, P> {
    fn drop(&mut self) {
        // The executor let go of it: its node died, or ended. A `Task` elsewhere must not keep it alive.
        let future = self.shared.future.try_borrow_mut().ok().and_then(|mut f| f.take());
        drop(future);
    }
}
