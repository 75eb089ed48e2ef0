//! What must never happen, judged by what left the coordinator and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use rillway_group::{Described, Joined, Synced};

#[derive(Default)]
pub(crate) struct Oracle {
    /// The place that a member id stands for: its instance if it is static, else itself.
    places: BTreeMap<String, String>,
    /// The highest generation that anybody was told.
    newest: i32,
    told: BTreeSet<(String, i32)>,
    /// Ids whose place was taken.
    gone: BTreeSet<String>,
    /// Ids that left since the coordinator started: that they did is not kept at once, as in Kafka.
    left: BTreeSet<String>,
    holders: BTreeMap<String, String>,
    /// Whom the leader of a generation was told, and generations in which a place was taken since.
    lists: BTreeMap<i32, (String, Vec<String>)>,
    changed: BTreeSet<i32>,
    owners: BTreeMap<(i32, u32), String>,
    /// The newest generation of which anybody was told an assignment, and those assignments, by place.
    assigned: (i32, BTreeMap<String, Vec<u8>>),
}

/// An assignment: the generation it was made for, and partitions.
pub(crate) fn assignment(generation: i32, partitions: &[u32]) -> Vec<u8> {
    let mut bytes = generation.to_be_bytes().to_vec();
    bytes.extend(partitions.iter().flat_map(|partition| partition.to_be_bytes()));
    bytes
}

pub(crate) fn parse(bytes: &[u8]) -> (i32, Vec<u32>) {
    let word = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four bytes"));
    let (first, rest) = bytes.split_at_checked(4).expect("nobody gets an empty assignment");
    (word(first) as i32, rest.chunks(4).map(word).collect())
}

impl Oracle {
    pub(crate) fn newest(&self) -> i32 {
        self.newest
    }

    pub(crate) fn joined(&mut self, joined: &Joined, instance: Option<&str>) {
        let Joined { generation, member, leader, members, .. } = joined;
        let (newest, generation) = (self.newest, *generation);
        assert!(generation >= newest, "{member} was told {generation} after {newest}");
        self.newest = generation;
        assert!(!self.is_gone(member), "{member} is gone and was let in");
        self.told.insert((member.clone(), generation));
        let place = instance.unwrap_or(member).to_owned();
        self.places.insert(member.clone(), place);
        if let Some(instance) = instance
            && let Some(old) = self.holders.insert(instance.to_owned(), member.clone())
            && old != *member
        {
            self.gone.insert(old);
            self.changed.insert(generation);
        }
        if members.is_empty() || joined.skip_assignment {
            return;
        }
        assert_eq!(leader, member, "only the leader is told the members");
        let list: Vec<String> = members.iter().map(|member| member.member.clone()).collect();
        assert!(list.contains(member), "the leader is a member");
        let first = self.lists.entry(generation).or_insert_with(|| (leader.clone(), list.clone()));
        if !self.changed.contains(&generation) {
            assert_eq!(
                first,
                &(leader.clone(), list),
                "generation {generation} was given out twice"
            );
        }
    }

    pub(crate) fn synced(&mut self, member: &str, generation: i32, synced: &Synced) {
        let (made_for, partitions) = parse(&synced.assignment);
        assert_eq!(made_for, generation, "{member} got an assignment of another generation");
        assert!(!self.is_gone(member), "{member} is gone and got an assignment");
        let place = self.places[member].clone();
        assert!(generation >= self.assigned.0, "{member} got an assignment of the past");
        if generation > self.assigned.0 {
            self.assigned = (generation, BTreeMap::new());
        }
        self.assigned.1.insert(place.clone(), synced.assignment.clone());
        for partition in partitions {
            let owner = self.owners.entry((generation, partition)).or_insert(place.clone());
            assert_eq!(*owner, place, "partition {partition} in generation {generation}");
        }
    }

    pub(crate) fn committed(&mut self, member: &str, generation: i32) {
        let told = self.told.contains(&(member.to_owned(), generation));
        // A static member that is away is in generations that it was not told; this one has guessed.
        let is_static = self.places.get(member).is_some_and(|place| place != member);
        assert!(told || is_static, "{member} commits at {generation}, which it was never told");
        let newest = self.newest;
        assert_eq!(generation, newest, "{member} commits at an old generation");
        assert!(!self.is_gone(member), "{member} is gone and commits");
    }

    pub(crate) fn left(&mut self, member: &str) {
        self.left.insert(member.to_owned());
    }

    /// What a coordinator restarts with must not fall behind what anybody was told.
    pub(crate) fn restarted(&mut self, group: Option<&Described>) {
        self.left.clear();
        let generation = group.map_or(0, |group| group.generation);
        assert!(generation >= self.newest, "generation {generation} goes back");
        let Some(group) = group.filter(|group| group.generation == self.assigned.0) else { return };
        for (place, told) in &self.assigned.1 {
            let mut members = group.members.iter();
            let member = members.find(|m| m.instance.as_ref().unwrap_or(&m.member) == place);
            let kept = member.map(|member| &member.assignment);
            assert_eq!(kept, Some(told), "{place} has lost its assignment");
        }
    }

    fn is_gone(&self, member: &str) -> bool {
        self.gone.contains(member) || self.left.contains(member)
    }

    /// Something that a stranger, or a member of the past, might say.
    pub(crate) fn past(&self, nth: u64) -> Option<(String, i32)> {
        let count = self.told.len() as u64;
        (count > 0).then(|| self.told.iter().nth((nth % count) as usize).expect("below").clone())
    }
}
