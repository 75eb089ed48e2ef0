//! How work reaches another core: a mailbox per core, and calls that run there.
//!
//! Work carries only what is `Send`; record bytes are copied. Calls from one core arrive in order. An ordered call is
//! finished before the next one begins (appends, whose offsets must follow the order of the requests); any other runs
//! as a task of its own.

use std::future::Future;
use std::pin::Pin;

use rillway_io::{Class, Inbox, Mailbox, mailbox, reply};

use crate::shard::Shard;

type Work = Box<dyn FnOnce(Shard) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

pub(crate) enum Call {
    Ordered(Work),
    Spawned(Work),
}

/// Depth of a mailbox. A sender waits when it is full: backpressure, never growth.
const DEPTH: usize = 1024;

/// One core's end.
pub struct Port {
    pub(crate) inbox: Inbox<Call>,
    pub(crate) mesh: Mesh,
}

/// All cores' mailboxes. Clone, Send.
#[derive(Clone)]
pub struct Mesh {
    boxes: Vec<Mailbox<Call>>,
}

/// A mesh for `cores` cores: one port for each.
pub fn mesh(cores: usize) -> Vec<Port> {
    let (boxes, inboxes): (Vec<_>, Vec<_>) = (0..cores).map(|_| mailbox(DEPTH)).unzip();
    let mesh = Mesh { boxes };
    inboxes.into_iter().map(|inbox| Port { inbox, mesh: mesh.clone() }).collect()
}

impl Mesh {
    pub fn cores(&self) -> usize {
        self.boxes.len()
    }

    async fn send(&self, core: usize, call: Call) -> bool {
        self.boxes[core].send(call).await.is_ok()
    }

    /// Runs `work` on `core` and gives its answer; `None` if that core is stopping.
    pub(crate) async fn call<T, F, Fut>(&self, core: usize, work: F) -> Option<T>
    where
        T: Send + 'static,
        F: FnOnce(Shard) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
    {
        let (answer, answered) = reply();
        let work: Work = Box::new(move |shard| {
            Box::pin(async move {
                answer.send(work(shard).await);
            })
        });
        if !self.send(core, Call::Spawned(work)).await {
            return None;
        }
        answered.await
    }

    /// As [`Mesh::call`], but in order with other ordered calls, and answered by `work` itself whenever it likes.
    pub(crate) async fn call_in_order<F, Fut>(&self, core: usize, work: F) -> bool
    where
        F: FnOnce(Shard) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let work: Work = Box::new(move |shard| Box::pin(work(shard)));
        self.send(core, Call::Ordered(work)).await
    }
}

/// Serves a core's inbox until the mesh goes away or the shard stops.
pub(crate) async fn serve(shard: Shard, mut inbox: Inbox<Call>) {
    let mut batch = Vec::new();
    while inbox.recv_batch(&mut batch, 64).await {
        for call in batch.drain(..) {
            match call {
                Call::Ordered(work) => work(shard.clone()).await,
                Call::Spawned(work) => {
                    let task = shard.runtime().spawn(Class::Data, work(shard.clone()));
                    drop(task);
                }
            }
        }
    }
}
