//! `Semaphore`: budgets of bytes, slots and requests of one core. See `sync` for what these types have in common.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A counting semaphore: budgets of bytes, slots, requests. First come, first served: a large request at
/// the head is not overtaken by small ones behind it.
#[derive(Clone)]
pub struct Semaphore {
    state: Rc<RefCell<SemaphoreState>>,
}

struct SemaphoreState {
    available: usize,
    waiters: VecDeque<Rc<Waiter>>,
}

struct Waiter {
    wants: usize,
    granted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Semaphore {
    /// With `units` available.
    pub fn new(units: usize) -> Semaphore {
        Semaphore {
            state: Rc::new(RefCell::new(SemaphoreState {
                available: units,
                waiters: VecDeque::new(),
            })),
        }
    }

    /// Units free now.
    pub fn available(&self) -> usize {
        self.state.borrow().available
    }

    /// Tasks that wait.
    pub fn waiting(&self) -> usize {
        self.state.borrow().waiters.len()
    }

    /// Adds units for good (a budget that grew).
    pub fn add(&self, units: usize) {
        self.release(units);
    }

    /// `n` units at once if they are free and nobody waits.
    pub fn try_acquire(&self, n: usize) -> Option<Permit> {
        let mut state = self.state.borrow_mut();
        if state.waiters.is_empty() && state.available >= n {
            state.available -= n;
            return Some(Permit { semaphore: self.clone(), units: n });
        }
        None
    }

    /// Waits for `n` units. More than there will ever be waits for ever: check against the budget first.
    pub fn acquire(&self, n: usize) -> Acquire {
        Acquire { semaphore: self.clone(), wants: n, waiter: None }
    }

    fn release(&self, units: usize) {
        let mut wake = Vec::new();
        {
            let mut state = self.state.borrow_mut();
            state.available += units;
            loop {
                let available = state.available;
                let Some(first) = state.waiters.pop_front_if(|w| w.wants <= available) else {
                    break;
                };
                state.available -= first.wants;
                first.granted.set(true);
                wake.extend(first.waker.borrow_mut().take());
            }
        }
        wake.into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Semaphore({} free, {} waiting)", self.available(), self.waiting())
    }
}

/// Future of [`Semaphore::acquire`]. Dropping it gives up the place in the queue.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire {
    semaphore: Semaphore,
    wants: usize,
    waiter: Option<Rc<Waiter>>,
}

impl Future for Acquire {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit> {
        if let Some(waiter) = &self.waiter {
            if !waiter.granted.get() {
                *waiter.waker.borrow_mut() = Some(cx.waker().clone());
                return Poll::Pending;
            }
            self.waiter = None;
            return Poll::Ready(Permit { semaphore: self.semaphore.clone(), units: self.wants });
        }
        if let Some(permit) = self.semaphore.try_acquire(self.wants) {
            return Poll::Ready(permit);
        }
        let waiter = Rc::new(Waiter {
            wants: self.wants,
            granted: Cell::new(false),
            waker: RefCell::new(Some(cx.waker().clone())),
        });
        self.semaphore.state.borrow_mut().waiters.push_back(Rc::clone(&waiter));
        self.waiter = Some(waiter);
        Poll::Pending
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else {
            return;
        };
        if waiter.granted.get() {
            self.semaphore.release(waiter.wants);
        } else {
            self.semaphore.state.borrow_mut().waiters.retain(|w| !Rc::ptr_eq(w, &waiter));
            // The one behind may fit now.
            self.semaphore.release(0);
        }
    }
}

/// Units of a [`Semaphore`], given back when dropped.
#[must_use = "a permit that is dropped is given back"]
pub struct Permit {
    semaphore: Semaphore,
    units: usize,
}

impl Permit {
    /// Units held.
    pub fn units(&self) -> usize {
        self.units
    }

    /// Takes `n` of the units into a permit of their own.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn split(&mut self, n: usize) -> Permit {
        assert!(n <= self.units, "split of {n} from a permit of {}", self.units);
        self.units -= n;
        Permit { semaphore: self.semaphore.clone(), units: n }
    }

    /// Adds the units of another permit of the same semaphore.
    ///
    /// # Panics
    /// If it is of another semaphore.
    pub fn merge(&mut self, mut other: Permit) {
        assert!(
            Rc::ptr_eq(&self.semaphore.state, &other.semaphore.state),
            "merge of permits of two semaphores"
        );
        self.units += std::mem::take(&mut other.units);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.units > 0 {
            self.semaphore.release(self.units);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({})", self.units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll<F: Future + Unpin>(f: &mut F) -> Poll<F::Output> {
        Pin::new(f).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_large_request_is_not_overtaken_by_a_small_one() {
        let s = Semaphore::new(3);
        let held = s.try_acquire(2).expect("free");
        let mut large = s.acquire(3);
        assert!(poll(&mut large).is_pending());
        assert!(s.try_acquire(1).is_none());
        let mut small = s.acquire(1);
        assert!(poll(&mut small).is_pending());
        drop(held);
        let Poll::Ready(permit) = poll(&mut large) else { panic!("three units are free") };
        assert!(poll(&mut small).is_pending());
        drop(permit);
        assert!(poll(&mut small).is_ready());
        assert_eq!(s.available(), 3);
    }

    #[test]
    fn a_dropped_waiter_gives_back_what_it_was_granted() {
        let s = Semaphore::new(1);
        let held = s.try_acquire(1).expect("free");
        let mut waiter = s.acquire(1);
        assert!(poll(&mut waiter).is_pending());
        drop(held);
        assert_eq!(s.available(), 0);
        drop(waiter);
        assert_eq!(s.available(), 1);
    }

    #[test]
    fn a_dropped_waiter_at_the_head_lets_the_next_one_pass() {
        let s = Semaphore::new(2);
        let _held = s.try_acquire(1).expect("free");
        let mut large = s.acquire(2);
        let mut small = s.acquire(1);
        assert!(poll(&mut large).is_pending());
        assert!(poll(&mut small).is_pending());
        drop(large);
        assert!(poll(&mut small).is_ready());
    }

    #[test]
    fn split_and_merged_permits_add_up() {
        let s = Semaphore::new(10);
        let mut a = s.try_acquire(8).expect("free");
        let b = a.split(3);
        assert_eq!((a.units(), b.units()), (5, 3));
        a.merge(b);
        assert_eq!(s.available(), 2);
        drop(a);
        assert_eq!(s.available(), 10);
    }
}
