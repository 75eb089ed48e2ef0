//! Effects and timers: answers go out, states are kept through the metadata store, one at a time for each group.

use rillway_group::{Clock, Coordinator, Effect};
use rillway_io::Class;
use rillway_log::Mutant;

use crate::error::{CoordinatorError, TopicError};
use crate::groups::{Kept, Waiting};
use crate::shard::{CONTROLLER, Shard};

/// What keys of groups begin with in the metadata store.
pub(super) const GROUP_KEY: &str = "/group/";

impl Shard {
    /// Asks this core's groups something, and carries out what follows.
    pub(super) fn ask_groups<T>(
        &self,
        ask: impl FnOnce(&mut Coordinator, Clock, &mut Vec<Effect>) -> T,
    ) -> T {
        let mut effects = Vec::new();
        let clock = self.group_clock();
        let groups = &self.inner.groups;
        let (answer, sooner) = {
            let mut coordinator = groups.coordinator.borrow_mut();
            let before = coordinator.deadline();
            let answer = ask(&mut coordinator, clock, &mut effects);
            let after = coordinator.deadline();
            // A timer that moved back finds nothing to do and goes on: most events are heartbeats and commits.
            (answer, after.is_some_and(|after| before.is_none_or(|before| after < before)))
        };
        for effect in effects {
            self.carry_out(effect);
        }
        if sooner {
            groups.timer.notify_all();
        }
        answer
    }

    pub(super) fn group_clock(&self) -> Clock {
        let rt = self.runtime();
        Clock { mono_ms: rt.now().as_nanos() / 1_000_000, wall_ms: rt.wall_ms() }
    }

    fn carry_out(&self, effect: Effect) {
        let groups = &self.inner.groups;
        match effect {
            // A member that does not wait any more has gone, or the node is stopping.
            Effect::Joined(ticket, joined) => {
                if let Some(Waiting::Join(answer)) = groups.waiting.borrow_mut().remove(&ticket) {
                    answer.send(joined.map_err(CoordinatorError::from));
                }
            }
            Effect::Synced(ticket, synced) => {
                if let Some(Waiting::Sync(answer)) = groups.waiting.borrow_mut().remove(&ticket) {
                    answer.send(synced.map_err(CoordinatorError::from));
                }
            }
            Effect::Persist { group, revision, state } => {
                self.keep(group, Kept { revision, state })
            }
        }
    }

    fn keep(&self, group: String, kept: Kept) {
        let mut keeping = self.inner.groups.keeping.borrow_mut();
        if let Some(next) = keeping.get_mut(&group) {
            *next = Some(kept);
            return;
        }
        keeping.insert(group.clone(), None);
        let keeper = self.clone().keep_on(group, kept);
        drop(self.runtime().spawn(Class::Data, keeper));
    }

    async fn keep_on(self, group: String, mut kept: Kept) {
        loop {
            let revision = kept.revision;
            let report = |ok| {
                self.ask_groups(|groups, clock, effects| {
                    groups.persisted(clock, &group, revision, ok, effects);
                });
            };
            let early = self.inner.store.runs(Mutant::GroupToldEarly);
            if early {
                report(true);
            }
            let done = match self.inner.store.runs(Mutant::GroupNotKept) {
                true => Ok(()),
                false => self.put_group(&group, kept.state.take()).await,
            };
            if let Err(e) = &done {
                tracing::warn!(group, "the state of the group could not be kept: {e}");
            }
            if !early {
                report(done.is_ok());
            }
            let groups = &self.inner.groups;
            let mut keeping = groups.keeping.borrow_mut();
            let next = keeping.get_mut(&group).expect("here until its keeper ends").take();
            let Some(next) = next else {
                keeping.remove(&group);
                groups.kept.notify_all();
                return;
            };
            kept = next;
        }
    }

    async fn put_group(&self, group: &str, state: Option<Vec<u8>>) -> Result<(), TopicError> {
        let key = format!("{GROUP_KEY}{group}");
        self.on(CONTROLLER, move |shard: Shard| async move {
            let put = shard.controller().put_value(&key, state.as_deref()).await;
            put.map_err(TopicError::from)
        })
        .await?
    }

    /// Waits until nothing of a group's state is under way.
    pub(super) async fn until_kept(&self, group: &str) {
        let groups = &self.inner.groups;
        loop {
            let kept = groups.kept.notified();
            if !groups.keeping.borrow().contains_key(group) {
                return;
            }
            kept.await;
        }
    }

    /// The timers of this core's groups: sessions, rebalances, retention of offsets.
    pub(super) fn spawn_group_timers(&self) {
        let (timers, expiry) = (self.clone().run_group_timers(), self.clone().expire_offsets());
        let rt = self.runtime();
        let tasks = [rt.spawn(Class::Data, timers), rt.spawn(Class::Background, expiry)];
        self.inner.tasks.borrow_mut().extend(tasks);
    }

    async fn run_group_timers(self) {
        let rt = self.runtime().clone();
        loop {
            let moved = self.inner.groups.timer.notified();
            let deadline = self.inner.groups.coordinator.borrow().deadline();
            let now = self.group_clock().mono_ms;
            match deadline {
                None => moved.await,
                Some(at) if at > now => {
                    let _ = rt.timeout(std::time::Duration::from_millis(at - now), moved).await;
                }
                Some(_) => {
                    self.ask_groups(|groups, clock, effects| groups.tick(clock, effects));
                    // A timer that stays due would keep this core busy for ever.
                    rt.yield_now().await;
                }
            }
        }
    }
}
