//! The life of topics' names: created, deleted, of unknown fate, and what is known of a partition at a moment.

use super::{Incarnation, Oracle, Partition, Ticket};

impl Oracle {
    /// Topics that exist for certain: name and number of partitions.
    pub(crate) fn settled(&self) -> Vec<(String, i32)> {
        let state = self.state.borrow();
        let settled = state.topics.iter().filter(|(_, t)| !t.unsettled);
        settled
            .filter_map(|(name, t)| Some((name.clone(), t.now.as_ref()?.partitions.len() as i32)))
            .collect()
    }

    /// A topic's name is about to be created or deleted.
    pub(crate) fn changing(&self, name: &str) {
        let mut state = self.state.borrow_mut();
        let topic = state.topics.entry(name.to_owned()).or_default();
        topic.changes += 1;
        topic.unsettled = true;
    }

    pub(crate) fn created(&self, name: &str, id: [u8; 16], partitions: i32, retention_bytes: i64) {
        let mut state = self.state.borrow_mut();
        let topic = state.topics.entry(name.to_owned()).or_default();
        if topic.now.as_ref().is_some_and(|i| i.id == id) {
            // Its deletion, of unknown outcome, turned out not to have happened.
            topic.changes += 1;
            topic.unsettled = false;
            return;
        }
        let dead = topic.dead.contains(&id) || topic.now.is_some();
        let born = topic.changes;
        topic.changes += 1;
        topic.unsettled = false;
        topic.now = Some(Incarnation {
            id,
            born,
            retention_bytes,
            partitions: (0..partitions)
                .map(|_| Partition { epoch: -1, ..Default::default() })
                .collect(),
        });
        if dead {
            state.violation.get_or_insert(format!(
                "topic {name}: an id that was deleted, or another id, is back"
            ));
        }
    }

    /// It is not there, for certain.
    pub(crate) fn gone(&self, name: &str) {
        let mut state = self.state.borrow_mut();
        let topic = state.topics.entry(name.to_owned()).or_default();
        topic.changes += 1;
        topic.unsettled = false;
        if let Some(was) = topic.now.take() {
            topic.dead.push(was.id);
        }
    }

    /// What is known of a partition now; `None` if it does not exist for certain.
    pub(crate) fn ticket(&self, topic: &str, index: i32) -> Option<Ticket> {
        let state = self.state.borrow();
        let known = state.topics.get(topic)?;
        let p = known.now.as_ref()?.partitions.get(usize::try_from(index).ok()?)?;
        Some(Ticket {
            topic: topic.to_owned(),
            index,
            changes: known.changes,
            settled: !known.unsettled,
            end: p.end,
            start: p.start,
            epoch: p.epoch,
        })
    }

    /// Whether nothing happened to the topic's name since the ticket was taken.
    pub(crate) fn stable(&self, ticket: &Ticket) -> bool {
        let state = self.state.borrow();
        ticket.settled
            && state.topics.get(&ticket.topic).is_some_and(|t| t.changes == ticket.changes)
    }

    /// Metadata of a name: its id, or that it is not there. `changes`: from [`Oracle::changes`] before the request.
    pub(crate) fn topic_shown(&self, name: &str, changes: u64, id: Option<[u8; 16]>) {
        let mut state = self.state.borrow_mut();
        let Some(topic) = state.topics.get(name) else {
            return;
        };
        let what = match (id, &topic.now) {
            (Some(id), _) if topic.dead.contains(&id) => Some("was deleted and is back".to_owned()),
            _ if topic.unsettled || topic.changes != changes => None,
            (None, None) => None,
            (Some(_), None) => Some("is not there for certain, and is shown".to_owned()),
            (None, Some(_)) => Some("exists for certain, and is not shown".to_owned()),
            (Some(id), Some(now)) if id == now.id => None,
            (Some(_), Some(_)) => Some("has another id".to_owned()),
        };
        if let Some(what) = what {
            state.violation.get_or_insert(format!("topic {name} {what}"));
        }
    }

    pub(crate) fn changes(&self, name: &str) -> u64 {
        self.state.borrow().topics.get(name).map_or(0, |t| t.changes)
    }
}
