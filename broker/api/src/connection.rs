//! One client's connection: requests are taken in order, answers leave in order.
//!
//! Two tasks on one core. The reader takes a frame, gives its request a place (a produce gets its offsets here, before
//! the next request is looked at) and hands the answer-to-be to the writer; the writer waits for each and sends it. So
//! a client may pipeline, and up to `in_flight_max` requests wait. When the client goes, what waits is cancelled.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::task::Poll;

use rillway_io::{Class, Conn, Instant, IoList, Notify, Permit, Semaphore};
use rillway_wire::RequestPeek;

use crate::context::{Context, Request};
use crate::dispatch::dispatch;
use crate::frames::{End, Frames};

/// Answers that are ready together leave with one system call, up to about this many bytes of them.
const TOGETHER_BYTES: u64 = 64 << 10;

/// An answer that may still have to be waited for; `None`: there is none (acks=0).
pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Option<IoList>, Close>>>>;

/// The connection must be closed, for this reason.
#[derive(Debug)]
pub(crate) struct Close(pub String);

struct Waiting {
    answer: Answer,
    /// Memory of the request, given back when its answer is sent.
    _memory: Option<Permit>,
    _slot: Permit,
}

#[derive(Default)]
struct Queue {
    waiting: RefCell<VecDeque<Waiting>>,
    more: Notify,
    closed: Cell<bool>,
}

/// What the idle watch sees of a connection.
pub(crate) struct Life {
    conn: Conn,
    last: Cell<Instant>,
    /// Requests without an answer: a client that waits is not idle (apart from Kafka, which may close during a long
    /// join).
    waiting: Cell<usize>,
    /// A part of a request is here: the limit of its progress holds, not that of idleness.
    receiving: Rc<Cell<bool>>,
}

impl Life {
    /// Ends the connection, whatever it waits for.
    pub(crate) fn cut(&self) {
        self.conn.shutdown();
    }

    fn touch(&self, context: &Context) {
        self.last.set(context.shard().runtime().now());
    }
}

/// Closes connections that have been idle for `connections.max.idle.ms`, with a clean FIN.
pub(crate) async fn watch_idle(context: Context) {
    let rt = context.shard().runtime().clone();
    let idle = context.limits().idle;
    loop {
        rt.sleep(idle / 8).await;
        let now = rt.now();
        let mut lives = context.inner.lives.borrow_mut();
        lives.retain(|life| life.strong_count() > 0);
        for life in lives.iter().filter_map(Weak::upgrade) {
            let quiet = life.waiting.get() == 0 && !life.receiving.get();
            if quiet && now - life.last.get() >= idle {
                tracing::debug!(peer = %life.conn.peer_addr(), "closed after {idle:?} without a request");
                life.conn.shutdown();
            }
        }
    }
}

/// Serves a connection until either side closes it.
pub(crate) async fn serve(context: Context, conn: Conn, door: usize) {
    let Some(_pass) = context.inner.gate.enter() else {
        conn.shutdown();
        return;
    };
    let life = Rc::new(Life {
        conn: conn.clone(),
        last: Cell::new(context.shard().runtime().now()),
        waiting: Cell::new(0),
        receiving: Rc::default(),
    });
    context.inner.lives.borrow_mut().push(Rc::downgrade(&life));
    let queue = Rc::new(Queue::default());
    let rt = context.shard().runtime().clone();
    let writer =
        rt.spawn(Class::Connection, write(context.clone(), Rc::clone(&life), Rc::clone(&queue)));
    let stop = context.inner.stop.notified();
    let reading = read(&context, &life, &queue, door);
    let end = if context.inner.stopping.get() { None } else { first(reading, stop).await };
    if let Some(End::Bad(what)) = end {
        context.complain(conn.peer_addr(), &what);
    }
    queue.closed.set(true);
    // What was accepted is answered if the broker is stopping; a client that has gone needs no answer.
    if context.inner.stopping.get() {
        queue.more.notify_all();
        writer.await;
    } else {
        writer.cancel();
    }
    conn.shutdown();
}

/// Whichever is first; `None` if it is `stop`.
async fn first<T>(work: impl Future<Output = T>, stop: impl Future<Output = ()>) -> Option<T> {
    let (mut work, mut stop) = (std::pin::pin!(work), std::pin::pin!(stop));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(t) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(t));
        }
        stop.as_mut().poll(cx).map(|()| None)
    })
    .await
}

async fn read(context: &Context, life: &Rc<Life>, queue: &Rc<Queue>, door: usize) -> End {
    let conn = &life.conn;
    let mut frames = Frames::new(conn.clone(), Rc::clone(&life.receiving));
    let slots = Semaphore::new(context.limits().in_flight_max);
    loop {
        let slot = slots.acquire(1).await;
        let content = match frames.next(context).await {
            Ok(content) => content,
            Err(end) => return end,
        };
        life.touch(context);
        life.waiting.set(life.waiting.get() + 1);
        let bytes = frames.bytes(&content);
        let peek = match RequestPeek::decode(bytes) {
            Ok(peek) => peek,
            Err(e) => return End::Bad(e.to_string()),
        };
        let request = Request {
            context: context.clone(),
            version: peek.api_version,
            correlation_id: peek.correlation_id,
            local: conn.local_addr(),
            door,
            peer: conn.peer_addr(),
        };
        match dispatch(request, peek.api_key, bytes).await {
            Ok(answer) => {
                let waiting = Waiting { answer, _memory: content.permit, _slot: slot };
                queue.waiting.borrow_mut().push_back(waiting);
                queue.more.notify_all();
            }
            Err(Close(what)) => return End::Bad(what),
        }
        if queue.closed.get() {
            return End::Closed;
        }
    }
}

/// Sends an answer. A client may take its time, unless the answer holds memory that others wait for: then it has
/// `answer_progress` for all of it. (What can be read again when there is room holds none.)
async fn send(context: &Context, conn: &Conn, list: IoList) -> Result<(), Option<String>> {
    if !list.holds_memory() {
        return conn.send(list).await.map_err(|_| None);
    }
    let (rt, limit) = (context.shard().runtime(), context.limits().answer_progress);
    let mut sending = pin!(conn.send(list));
    loop {
        match rt.timeout(limit, sending.as_mut()).await {
            Some(sent) => return sent.map_err(|_| None),
            None if context.shard().store().transfer().held_is_short() => {
                return Err(Some(format!(
                    "an answer from another core was not taken within {limit:?}, and others wait for its memory"
                )));
            }
            None => {}
        }
    }
}

/// Answers that leave together.
#[derive(Default)]
struct Ready {
    list: IoList,
    /// The requests that they answer; their memory and places are given back when the list is sent.
    answered: Vec<Waiting>,
    /// Why the connection has to be closed behind them.
    close: Option<String>,
}

impl Ready {
    fn take(&mut self, waiting: Waiting, answer: Result<Option<IoList>, Close>) {
        match answer {
            Ok(list) => self.list.append(list.unwrap_or_default()),
            Err(Close(what)) => self.close = Some(what),
        }
        self.answered.push(waiting);
    }

    fn takes_more(&self) -> bool {
        self.close.is_none() && self.list.len() < TOGETHER_BYTES
    }
}

/// The oldest answer, waited for, and those behind it that are ready as well: a commit makes many of one connection
/// ready at once, and a system call for each was 45 % of the CPU of small produce requests.
async fn ready(queue: &Queue, mut first: Waiting) -> Ready {
    let mut ready = Ready::default();
    let answer = first.answer.as_mut().await;
    ready.take(first, answer);
    std::future::poll_fn(|cx| {
        while ready.takes_more() {
            let Some(mut next) = queue.waiting.borrow_mut().pop_front() else { break };
            match next.answer.as_mut().poll(cx) {
                Poll::Ready(answer) => ready.take(next, answer),
                Poll::Pending => {
                    queue.waiting.borrow_mut().push_front(next);
                    break;
                }
            }
        }
        Poll::Ready(())
    })
    .await;
    ready
}

async fn write(context: Context, life: Rc<Life>, queue: Rc<Queue>) {
    let conn = &life.conn;
    loop {
        let more = queue.more.notified();
        let next = queue.waiting.borrow_mut().pop_front();
        let Some(waiting) = next else {
            if queue.closed.get() {
                return;
            }
            more.await;
            continue;
        };
        let Ready { list, answered, close } = ready(&queue, waiting).await;
        let sent = if list.is_empty() { Ok(()) } else { send(&context, conn, list).await };
        let sent = sent.and_then(|()| close.map_or(Ok(()), |what| Err(Some(what))));
        if let Err(why) = sent {
            if let Some(what) = why {
                context.complain(conn.peer_addr(), &what);
            }
            // The reader notices, and nothing more is sent.
            queue.closed.set(true);
            queue.waiting.borrow_mut().clear();
            conn.shutdown();
            return;
        }
        life.touch(&context);
        life.waiting.set(life.waiting.get() - answered.len());
    }
}
