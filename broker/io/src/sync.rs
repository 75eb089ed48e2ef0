//! Coordination between tasks of one core: `Notify`, `Gate`, `oneshot`, and `Semaphore` beside them.
//!
//! The same code on both backends: `Rc` and `Cell`, no locks, no executor. Wakers are taken out of the shared
//! state before they are called, so waking never re-enters a borrow. Absent on purpose: a mutex. State of one
//! core is changed between two awaits, not across them.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Runs futures of one task side by side, each to its end; results in the order of the futures.
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|f| Some(Box::pin(f))).collect();
    let mut results: Vec<_> = running.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        for (slot, result) in running.iter_mut().zip(&mut results) {
            if let Some(future) = slot
                && let Poll::Ready(value) = future.as_mut().poll(cx)
            {
                *result = Some(value);
                *slot = None;
            }
        }
        if running.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    results.into_iter().map(|r| r.expect("every future ended")).collect()
}

/// Wakes everybody who waits. A notification between the creation of a `notified()` future and its first
/// poll counts, so: create the future, check the condition, then await.
#[derive(Clone, Default)]
pub struct Notify {
    state: Rc<RefCell<NotifyState>>,
}

#[derive(Default)]
struct NotifyState {
    /// Notifications so far.
    round: u64,
    next: u64,
    waiters: Vec<(u64, Waker)>,
}

impl Notify {
    /// Nobody waits yet.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Completes every `notified()` future that exists.
    pub fn notify_all(&self) {
        let waiters = {
            let mut state = self.state.borrow_mut();
            state.round += 1;
            std::mem::take(&mut state.waiters)
        };
        for (_, waker) in waiters {
            waker.wake();
        }
    }

    /// Completes at the next `notify_all` after this call.
    pub fn notified(&self) -> Notified {
        let mut state = self.state.borrow_mut();
        state.next += 1;
        Notified { state: Rc::clone(&self.state), round: state.round, id: state.next }
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notify({} waiting)", self.state.borrow().waiters.len())
    }
}

/// Future of [`Notify::notified`].
#[must_use = "a future does nothing unless it is awaited"]
pub struct Notified {
    state: Rc<RefCell<NotifyState>>,
    round: u64,
    id: u64,
}

impl Future for Notified {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.borrow_mut();
        if state.round != self.round {
            return Poll::Ready(());
        }
        match state.waiters.iter_mut().find(|(id, _)| *id == self.id) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => state.waiters.push((self.id, cx.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Notified {
    fn drop(&mut self) {
        self.state.borrow_mut().waiters.retain(|(id, _)| *id != self.id);
    }
}

/// Counts who is inside, lets nobody in after it was closed, and tells when the last one has left.
#[derive(Clone, Default)]
pub struct Gate {
    state: Rc<GateState>,
}

#[derive(Default)]
struct GateState {
    inside: Cell<usize>,
    closed: Cell<bool>,
    left: Notify,
}

impl Gate {
    /// Open, and empty.
    pub fn new() -> Gate {
        Gate::default()
    }

    /// A pass, or `None` once closed.
    pub fn enter(&self) -> Option<Pass> {
        if self.state.closed.get() {
            return None;
        }
        self.state.inside.set(self.state.inside.get() + 1);
        Some(Pass { state: Rc::clone(&self.state) })
    }

    /// Passes held.
    pub fn inside(&self) -> usize {
        self.state.inside.get()
    }

    /// True once `close` was polled.
    pub fn is_closed(&self) -> bool {
        self.state.closed.get()
    }

    /// Lets nobody in any more and waits until all passes are gone. May be called more than once.
    pub async fn close(&self) {
        self.state.closed.set(true);
        self.empty().await;
    }

    /// Waits for a moment at which nobody is inside. Others may enter meanwhile.
    pub async fn empty(&self) {
        loop {
            let left = self.state.left.notified();
            if self.state.inside.get() == 0 {
                return;
            }
            left.await;
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gate({} inside, closed: {})", self.inside(), self.is_closed())
    }
}

/// Permission to be inside a [`Gate`], until dropped.
#[must_use = "a pass that is dropped has left the gate"]
pub struct Pass {
    state: Rc<GateState>,
}

impl Clone for Pass {
    fn clone(&self) -> Pass {
        self.state.inside.set(self.state.inside.get() + 1);
        Pass { state: Rc::clone(&self.state) }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.state.inside.set(self.state.inside.get() - 1);
        if self.state.inside.get() == 0 {
            self.state.left.notify_all();
        }
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pass")
    }
}

/// Waits for the first of two futures; `None` if it is the second.
pub(crate) async fn first<T>(a: impl Future<Output = T>, b: impl Future<Output = ()>) -> Option<T> {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(value) = a.as_mut().poll(cx) {
            return Poll::Ready(Some(value));
        }
        b.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// A value handed over once, within one core.
pub fn oneshot<T>() -> (OneshotSender<T>, Oneshot<T>) {
    let state = Rc::new(OneshotState {
        value: Cell::new(None),
        closed: Cell::new(false),
        dropped: Cell::new(false),
        waker: Cell::new(None),
    });
    (OneshotSender { state: Rc::clone(&state) }, Oneshot { state })
}

struct OneshotState<T> {
    value: Cell<Option<T>>,
    /// The sender is gone.
    closed: Cell<bool>,
    /// The receiver is gone.
    dropped: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl<T> OneshotState<T> {
    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The giving end of [`oneshot`].
pub struct OneshotSender<T> {
    state: Rc<OneshotState<T>>,
}

impl<T> OneshotSender<T> {
    /// Hands the value over; given back if nobody waits any more.
    pub fn send(self, value: T) -> Result<(), T> {
        if self.state.dropped.get() {
            return Err(value);
        }
        self.state.value.set(Some(value));
        // Dropping `self` wakes the receiver.
        Ok(())
    }

    /// True if the receiving end is gone.
    pub fn is_closed(&self) -> bool {
        self.state.dropped.get()
    }
}

impl<T> Drop for OneshotSender<T> {
    fn drop(&mut self) {
        self.state.closed.set(true);
        self.state.wake();
    }
}

/// The waiting end of [`oneshot`]: the value, or `None` if the sender was dropped.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Oneshot<T> {
    state: Rc<OneshotState<T>>,
}

impl<T> Future for Oneshot<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(value) = self.state.value.take() {
            return Poll::Ready(Some(value));
        }
        if self.state.closed.get() {
            return Poll::Ready(None);
        }
        self.state.waker.set(Some(cx.waker().clone()));
        Poll::Pending
    }
}

impl<T> Drop for Oneshot<T> {
    fn drop(&mut self) {
        self.state.dropped.set(true);
    }
}

impl<T> fmt::Debug for OneshotSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OneshotSender")
    }
}

impl<T> fmt::Debug for Oneshot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Oneshot")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll<F: Future + Unpin>(f: &mut F) -> Poll<F::Output> {
        Pin::new(f).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_notification_before_the_first_poll_is_not_lost() {
        let n = Notify::new();
        let mut early = n.notified();
        n.notify_all();
        let mut late = n.notified();
        assert!(poll(&mut early).is_ready());
        assert!(poll(&mut late).is_pending());
    }

    #[test]
    fn a_gate_closes_when_the_last_pass_is_gone() {
        let gate = Gate::new();
        let pass = gate.enter().expect("open");
        let second = pass.clone();
        let mut closing = Box::pin(gate.close());
        assert!(poll(&mut closing).is_pending());
        assert!(gate.enter().is_none());
        drop(pass);
        assert!(poll(&mut closing).is_pending());
        drop(second);
        assert!(poll(&mut closing).is_ready());
    }

    #[test]
    fn a_oneshot_tells_of_its_dropped_sender() {
        let (tx, mut rx) = oneshot::<u8>();
        assert!(poll(&mut rx).is_pending());
        drop(tx);
        assert_eq!(poll(&mut rx), Poll::Ready(None));
        let (tx, rx) = oneshot::<u8>();
        drop(rx);
        assert_eq!(tx.send(7), Err(7));
    }
}
