//! The one thread of a world: virtual time, events, and tasks polled one at a time.
//!
//! Which ready task is polled next is drawn from the scheduling stream, whatever core or node it belongs to;
//! time stands still while a task runs and then moves a little, so that loops end. When nothing is ready, time
//! jumps to the next event. Nothing here is borrowed while a task or an event runs: both may call back in.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use super::rng::{Rng, Trace};
use crate::task::{BoxFuture, Payload};

/// One life of a node, from start to death, or a client's only one.
pub(crate) struct Life {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) client: bool,
    pub(crate) alive: Cell<bool>,
}

pub(crate) type TaskId = u64;

struct Slot {
    life: Rc<Life>,
    core: usize,
    /// Taken out while it is polled.
    body: Option<BoxFuture>,
    waker: Arc<TaskWaker>,
}

struct TaskWaker {
    id: TaskId,
    queued: AtomicBool,
    ready: Arc<Mutex<Vec<TaskId>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ready.lock().expect("nothing panics while it is held").push(self.id);
        }
    }
}

enum Event {
    Wake(Waker),
    Run(Box<dyn FnOnce()>),
}

/// The name of an event, by which it can be taken back.
pub(crate) type EventId = (u64, u64);

/// What one step did.
pub(crate) enum Step {
    /// Something.
    Ran,
    /// Nothing is left that could ever happen.
    Idle,
    /// A task panicked.
    Panicked(Rc<Life>, Payload),
}

pub(crate) struct Executor {
    now: Cell<u64>,
    next: Cell<u64>,
    events: RefCell<BTreeMap<EventId, Event>>,
    tasks: RefCell<BTreeMap<TaskId, Slot>>,
    ready: Arc<Mutex<Vec<TaskId>>>,
    choices: RefCell<Rng>,
    trace: Cell<Trace>,
}

impl Executor {
    pub(crate) fn new(seed: u64) -> Executor {
        Executor {
            now: Cell::new(0),
            next: Cell::new(1),
            events: RefCell::default(),
            tasks: RefCell::default(),
            ready: Arc::default(),
            choices: RefCell::new(Rng::stream(seed, "scheduling")),
            trace: Cell::default(),
        }
    }

    /// Nanoseconds since the world began.
    pub(crate) fn now(&self) -> u64 {
        self.now.get()
    }

    /// A number never given before.
    pub(crate) fn id(&self) -> u64 {
        let id = self.next.get();
        self.next.set(id + 1);
        id
    }

    pub(crate) fn record(&self, word: u64) {
        let mut trace = self.trace.get();
        trace.word(word);
        self.trace.set(trace);
    }

    pub(crate) fn trace_hash(&self) -> u64 {
        let mut trace = self.trace.get();
        trace.word(self.now());
        trace.get()
    }

    /// Runs `event` in `delay` nanoseconds.
    pub(crate) fn after(&self, delay: u64, event: impl FnOnce() + 'static) {
        let key = (self.now().saturating_add(delay), self.id());
        self.events.borrow_mut().insert(key, Event::Run(Box::new(event)));
    }

    fn wake_at(&self, at: u64, waker: Waker) -> EventId {
        let key = (at, self.id());
        self.events.borrow_mut().insert(key, Event::Wake(waker));
        key
    }

    /// A future that ends in `delay` nanoseconds, or up to 50 us later, as timers do.
    pub(crate) fn sleep(self: &Rc<Self>, delay: u64) -> Sleep {
        let late = self.choices.borrow_mut().below(50_000);
        let at = self.now().saturating_add(delay).saturating_add(late);
        Sleep { executor: Rc::clone(self), at, event: None }
    }

    pub(crate) fn spawn(&self, life: &Rc<Life>, core: usize, body: BoxFuture) {
        let id = self.id();
        let waker = Arc::new(TaskWaker {
            id,
            queued: AtomicBool::new(false),
            ready: Arc::clone(&self.ready),
        });
        let slot =
            Slot { life: Rc::clone(life), core, body: Some(body), waker: Arc::clone(&waker) };
        self.tasks.borrow_mut().insert(id, slot);
        waker.wake();
    }

    pub(crate) fn task_count(&self) -> usize {
        self.tasks.borrow().len()
    }

    /// Lets go of the tasks of a life, or of one core of it. Their destructors run here, with nothing borrowed.
    pub(crate) fn drop_tasks(&self, life: u64, core: Option<usize>) {
        let gone: Vec<Slot> = {
            let mut tasks = self.tasks.borrow_mut();
            let ids: Vec<TaskId> = tasks
                .iter()
                .filter(|(_, s)| s.life.id == life && core.is_none_or(|c| c == s.core))
                .map(|(id, _)| *id)
                .collect();
            ids.into_iter().filter_map(|id| tasks.remove(&id)).collect()
        };
        drop(gone);
    }

    /// Lets go of everything, to break the cycles between tasks and the world.
    pub(crate) fn clear(&self) {
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        drop(tasks);
        let events = std::mem::take(&mut *self.events.borrow_mut());
        drop(events);
    }

    fn due(&self) -> Option<Event> {
        let mut events = self.events.borrow_mut();
        let first = events.first_entry()?;
        if first.key().0 > self.now() {
            return None;
        }
        let ((at, id), event) = first.remove_entry();
        drop(events);
        self.record(at ^ id.rotate_left(32));
        Some(event)
    }

    fn choose(&self) -> Option<TaskId> {
        let mut ready = self.ready.lock().expect("nothing panics while it is held");
        if ready.is_empty() {
            return None;
        }
        let at = self.choices.borrow_mut().index(ready.len());
        Some(ready.swap_remove(at))
    }

    /// Runs what is due, then one ready task; or moves time to the next event.
    pub(crate) fn step(&self) -> Step {
        while let Some(event) = self.due() {
            match event {
                Event::Wake(waker) => waker.wake(),
                Event::Run(run) => run(),
            }
        }
        if let Some(id) = self.choose() {
            return self.poll(id);
        }
        let next = self.events.borrow().first_key_value().map(|((at, _), _)| *at);
        match next {
            Some(at) => {
                self.now.set(at.max(self.now()));
                Step::Ran
            }
            None => Step::Idle,
        }
    }

    fn poll(&self, id: TaskId) -> Step {
        let (mut body, waker, life) = {
            let mut tasks = self.tasks.borrow_mut();
            // A task that ended, or whose node died, may still have been woken.
            let Some(slot) = tasks.get_mut(&id) else {
                return Step::Ran;
            };
            slot.waker.queued.store(false, Ordering::Release);
            let Some(body) = slot.body.take() else {
                return Step::Ran;
            };
            (body, Arc::clone(&slot.waker), Rc::clone(&slot.life))
        };
        self.record(id);
        self.now.set(self.now() + self.choices.borrow_mut().between(100, 1_000));
        let waker = Waker::from(waker);
        let polled =
            catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(&mut Context::from_waker(&waker))));
        match polled {
            Ok(Poll::Pending) => {
                if let Some(slot) = self.tasks.borrow_mut().get_mut(&id) {
                    slot.body = Some(body);
                    return Step::Ran;
                }
                // Its node was killed from within this very poll; `body` is dropped with nothing borrowed.
                drop(body);
                Step::Ran
            }
            Ok(Poll::Ready(())) => {
                self.tasks.borrow_mut().remove(&id);
                drop(body);
                Step::Ran
            }
            Err(payload) => {
                self.tasks.borrow_mut().remove(&id);
                // Not before the life is marked dead: its destructors must not act for a living node.
                self.after(0, move || drop(body));
                Step::Panicked(life, payload)
            }
        }
    }
}

/// Future of [`Executor::sleep`]. Takes its event back when dropped.
pub(crate) struct Sleep {
    executor: Rc<Executor>,
    at: u64,
    event: Option<EventId>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.executor.now() >= self.at {
            return Poll::Ready(());
        }
        if let Some(event) = self.event.take() {
            self.executor.events.borrow_mut().remove(&event);
        }
        self.event = Some(self.executor.wake_at(self.at, cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(event) = self.event.take() {
            self.executor.events.borrow_mut().remove(&event);
        }
    }
}
