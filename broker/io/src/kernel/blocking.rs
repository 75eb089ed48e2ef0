//! Calls that block (names, small files, truncate, allocate), on a few threads of one node.
//!
//! Calls on one path keep their order; calls on different paths do not wait for each other, so that a slow
//! unlink of a gigabyte does not delay the rename of a seal. glommio's own blocking thread, one per executor,
//! would serialise them all. A call may also take its turn and hold it beyond the thread (`turn`): that is how
//! opens through the ring keep their place in the order. Absent on purpose: cancelling. What was asked is done.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::mailbox::reply;

type Call = Box<dyn FnOnce(Turn) + Send>;

struct Waiting {
    paths: Vec<PathBuf>,
    call: Call,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Waiting>,
    /// Paths whose turn somebody has.
    busy: BTreeSet<PathBuf>,
    closing: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Calls run without the lock; nothing under it panics.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The exclusive right to some paths, given back when dropped.
pub(super) struct Turn {
    shared: Arc<Shared>,
    paths: Vec<PathBuf>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        for path in &self.paths {
            state.busy.remove(path);
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

/// The threads. They end when this is dropped and the queue is empty.
pub(crate) struct Blocking {
    shared: Arc<Shared>,
}

impl Blocking {
    pub(super) fn start(name: &str, threads: usize) -> Result<Arc<Blocking>> {
        let shared = Arc::new(Shared::default());
        let blocking = Arc::new(Blocking { shared: Arc::clone(&shared) });
        for n in 0..threads {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(format!("{name}-{n}"))
                .spawn(move || work(&shared))
                .map_err(|e| Error::new("start", e).with_detail("a thread for blocking calls"))?;
        }
        Ok(blocking)
    }

    /// Runs `call` on a thread when it is the turn of these paths. It runs whether it is awaited or not, once
    /// this future was polled.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        paths: &[&Path],
        call: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.submit(paths, move |turn| {
            let result = call();
            drop(turn);
            result
        })
        .await
    }

    /// Waits for the turn of these paths.
    pub(super) async fn turn(&self, paths: &[&Path]) -> Turn {
        self.submit(paths, |turn| turn).await
    }

    async fn submit<T: Send + 'static>(
        &self,
        paths: &[&Path],
        call: impl FnOnce(Turn) -> T + Send + 'static,
    ) -> T {
        let (sender, answer) = reply();
        let mut paths: Vec<PathBuf> = paths.iter().map(|p| p.to_path_buf()).collect();
        paths.sort();
        paths.dedup();
        let call: Call = Box::new(move |turn| {
            sender.send(call(turn));
        });
        self.shared.lock().queue.push_back(Waiting { paths, call });
        self.shared.changed.notify_one();
        answer.await.expect("a blocking call panicked: its thread has said why")
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_all();
    }
}

/// The first call none of whose paths is busy, or wanted by an earlier one.
fn next(state: &mut State) -> Option<Waiting> {
    let mut wanted: BTreeSet<&PathBuf> = BTreeSet::new();
    let at = state.queue.iter().position(|waiting| {
        let free = waiting.paths.iter().all(|p| !state.busy.contains(p) && !wanted.contains(p));
        wanted.extend(&waiting.paths);
        free
    })?;
    let waiting = state.queue.remove(at)?;
    state.busy.extend(waiting.paths.iter().cloned());
    Some(waiting)
}

fn work(shared: &Arc<Shared>) {
    let mut state = shared.lock();
    loop {
        if let Some(Waiting { paths, call }) = next(&mut state) {
            let more = !state.queue.is_empty();
            drop(state);
            if more {
                shared.changed.notify_one();
            }
            call(Turn { shared: Arc::clone(shared), paths });
            state = shared.lock();
        } else if state.closing && state.queue.is_empty() {
            return;
        } else {
            state = shared.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(paths: &[&str]) -> Waiting {
        Waiting { paths: paths.iter().map(PathBuf::from).collect(), call: Box::new(|_| {}) }
    }

    #[test]
    fn calls_on_one_path_keep_their_order_and_others_pass() {
        let mut state = State::default();
        for paths in [&["a"][..], &["a", "b"], &["b"], &["c"]] {
            state.queue.push_back(waiting(paths));
        }
        let paths = |w: Option<Waiting>| w.map(|w| w.paths);
        assert_eq!(paths(next(&mut state)), Some(vec![PathBuf::from("a")]));
        // "a, b" waits for "a", and "b" for "a, b": only "c" may go.
        assert_eq!(paths(next(&mut state)), Some(vec![PathBuf::from("c")]));
        assert_eq!(paths(next(&mut state)), None);
        state.busy.remove(Path::new("a"));
        let both = vec![PathBuf::from("a"), PathBuf::from("b")];
        assert_eq!(paths(next(&mut state)), Some(both));
    }
}
