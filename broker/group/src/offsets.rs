//! What groups have committed: the live view of the offsets in `__consumer_offsets`.
//!
//! Owned by the coordinator of the core that leads the partition. The caller writes a commit to the log and puts it here
//! when it is kept, with the offset of its record; acknowledgements may overtake each other, so the later record wins,
//! not the later call. Absent on purpose: whether a commit is allowed (the coordinator says), and the log.

use std::collections::BTreeMap;

/// One partition of a topic, by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: String,
    pub partition: i32,
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    pub offset: i64,
    /// -1: not said.
    pub leader_epoch: i32,
    pub metadata: String,
    /// Wall clock of the commit.
    pub commit_ms: i64,
    /// Wall clock at which it expires; only OffsetCommit 2 to 4 say so, all others follow offsets.retention.minutes.
    pub expire_ms: Option<i64>,
    /// Zero: not known.
    pub topic_id: [u8; 16],
}

/// The newest record of a partition; `committed` is none for a tombstone.
#[derive(Debug)]
struct Entry {
    position: i64,
    committed: Option<Committed>,
    /// A tombstone that the last sweep has seen; the next one drops it.
    swept: bool,
}

#[derive(Debug, Default)]
struct OfGroup {
    entries: BTreeMap<TopicPartition, Entry>,
    /// Entries that are no tombstones.
    live: usize,
}

/// The offsets of all groups of a coordinator.
#[derive(Debug, Default)]
pub struct Offsets {
    groups: BTreeMap<String, OfGroup>,
}

impl Offsets {
    /// Takes over the record at `position` of the log; `None` is a tombstone. One that is older than what is here
    /// changes nothing.
    pub fn put(
        &mut self,
        group: &str,
        partition: TopicPartition,
        position: i64,
        committed: Option<Committed>,
    ) {
        let of_group = match self.groups.get_mut(group) {
            Some(of_group) => of_group,
            None => self.groups.entry(group.to_owned()).or_default(),
        };
        let live = committed.is_some();
        let entry = Entry { position, committed, swept: false };
        match of_group.entries.get_mut(&partition) {
            Some(old) if old.position > position => return,
            Some(old) => {
                of_group.live -= usize::from(old.committed.is_some());
                *old = entry;
            }
            None => {
                of_group.entries.insert(partition, entry);
            }
        }
        of_group.live += usize::from(live);
    }

    /// What `group` has committed for a partition.
    #[must_use]
    pub fn get(&self, group: &str, partition: &TopicPartition) -> Option<&Committed> {
        self.groups.get(group)?.entries.get(partition)?.committed.as_ref()
    }

    /// Everything that a group has committed, by topic and partition.
    pub fn of_group<'a>(
        &'a self,
        group: &str,
    ) -> impl Iterator<Item = (&'a TopicPartition, &'a Committed)> + use<'a> {
        let entries = self.groups.get(group).map(|of_group| of_group.entries.iter());
        entries
            .into_iter()
            .flatten()
            .filter_map(|(partition, entry)| Some((partition, entry.committed.as_ref()?)))
    }

    /// Groups that have committed something.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups
            .iter()
            .filter(|(_, of_group)| of_group.live > 0)
            .map(|(group, _)| group.as_str())
    }

    /// Whether the group has committed anything.
    #[must_use]
    pub fn has_group(&self, group: &str) -> bool {
        self.groups.get(group).is_some_and(|of_group| of_group.live > 0)
    }

    /// What all groups have committed for a topic: to be dropped when the topic is (field case commit-2), or a topic of
    /// the same name would be read from where the old one was left.
    #[must_use]
    pub fn of_topic(&self, topic: &str) -> Vec<(String, TopicPartition)> {
        let mut found = Vec::new();
        let first = TopicPartition { topic: topic.to_owned(), partition: i32::MIN };
        for (group, of_group) in &self.groups {
            let of_topic = of_group.entries.range(&first..);
            for (partition, entry) in of_topic.take_while(|(found, _)| found.topic == topic) {
                if entry.committed.is_some() {
                    found.push((group.clone(), partition.clone()));
                }
            }
        }
        found
    }

    /// Committed offsets of all groups.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.values().map(|of_group| of_group.live).sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops tombstones that have been here since the sweep before: acknowledgements overtake each other by
    /// milliseconds, sweeps are minutes apart.
    pub(crate) fn sweep(&mut self) {
        self.groups.retain(|_, of_group| {
            of_group.entries.retain(|_, entry| {
                let drop = entry.committed.is_none() && entry.swept;
                entry.swept = entry.committed.is_none();
                !drop
            });
            !of_group.entries.is_empty()
        });
    }
}
