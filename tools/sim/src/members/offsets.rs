//! Commits and fetches of offsets, by members, by those of the past, and from outside.

use std::rc::Rc;
use std::time::Duration;

use rillway_io::Runtime;
use rillway_wire::ErrorCode;
use rillway_wire::api::{offset_commit, offset_fetch};

use super::Member;
use crate::client::{Client, Lost};
use crate::hub::Hub;
use crate::oracle::Ticket;
use crate::rng::Rng;

const COMMIT: i16 = 9;
const FETCH: i16 = 8;
/// Fetches that the last look at a group tries.
const TRIES: usize = 200;

impl Member {
    pub(super) async fn commit(&mut self) {
        let (id, generation) = (self.id.clone(), self.generation);
        if let Some(code) = self.commit_as(&id, generation).await {
            match code {
                ErrorCode::None => self.went_on(self.hub.life.get()),
                code => self.failed("commit", code),
            }
        }
    }

    /// As somebody that it was before: refused, if anybody was told a newer generation.
    pub(super) async fn commit_from_the_past(&mut self) {
        if self.past.is_empty() {
            return;
        }
        let (id, generation) = self.rng.pick(&self.past).clone();
        let fenced = matches!(
            self.commit_as(&id, generation).await,
            Some(
                ErrorCode::UnknownMemberId
                    | ErrorCode::FencedInstanceId
                    | ErrorCode::IllegalGeneration
            )
        );
        self.hub.seen.borrow_mut().fenced += u64::from(fenced);
    }

    /// As a tool does, which only a group without members takes.
    pub(super) async fn commit_from_outside(&mut self) {
        if !self.hub.offsets_expire.get() {
            let _ = self.commit_as("", -1).await;
        }
    }

    /// Commits offsets of some partitions of a topic. The last code that is an answer.
    async fn commit_as(&mut self, id: &str, generation: i32) -> Option<ErrorCode> {
        if self.connected().await.is_err() {
            self.client = None;
            return None;
        }
        let partitions = self.partitions();
        let (topic, _) = self.rng.pick(&partitions).clone();
        let mut picked: Vec<i32> = Vec::new();
        for (_, index) in partitions.iter().filter(|(name, _)| *name == topic) {
            if picked.is_empty() || self.rng.percent(50) {
                picked.push(*index);
            }
        }
        let life = self.hub.life.get();
        let hub = Rc::clone(&self.hub);
        let oracle = &hub.oracle;
        let tickets: Vec<Ticket> =
            picked.iter().filter_map(|index| oracle.ticket(&topic, *index)).collect();
        if tickets.is_empty() {
            return None;
        }
        let mut sent = Vec::new();
        for ticket in tickets {
            let offset = self.rng.range(0, 1 << 40) as i64;
            let wall_ms = self.rt.wall_ms();
            let commit = oracle.committing(&ticket, &self.group.name, offset, life, wall_ms);
            sent.push((ticket, offset, commit, commit.name()));
        }
        let parts = sent.iter().map(|(ticket, offset, _, name)| offset_commit::Partition {
            partition_index: ticket.index,
            committed_offset: *offset,
            committed_metadata: Some(name),
            ..Default::default()
        });
        let topic = offset_commit::Topic {
            name: &topic,
            partitions: parts.collect(),
            ..Default::default()
        };
        let request = offset_commit::Request {
            group_id: &self.group.name,
            generation_id_or_member_epoch: generation,
            member_id: id,
            group_instance_id: self.instance.as_deref().filter(|_| generation >= 0),
            topics: vec![topic].into(),
            ..Default::default()
        };
        let asked = oracle.asking(&self.group.name, id, generation, life);
        let client = self.client.as_mut()?;
        client.wait_longer(Duration::ZERO);
        let Ok(answer) = client.call(&request, COMMIT).await else {
            self.client = None;
            return None;
        };
        let body: offset_commit::Response<'_> = answer.body(COMMIT);
        let answered = body.topics.first().expect("one topic was sent");
        let mut last = None;
        for ((ticket, _, commit, name), p) in sent.iter().zip(answered.partitions.iter()) {
            assert_eq!(ticket.index, p.partition_index, "answers in the order of the question");
            match p.error_code {
                ErrorCode::None => {
                    if generation >= 0 {
                        oracle.accepted(&asked, name);
                    }
                    oracle.commit_acknowledged(*commit, ticket);
                }
                ErrorCode::UnknownTopicOrPartition => {
                    oracle.commit_refused(*commit);
                    if oracle.stable(ticket) {
                        oracle.complain(format!(
                            "{name}: {}-{} is unknown",
                            ticket.topic, ticket.index
                        ));
                    }
                    continue;
                }
                ErrorCode::UnknownMemberId
                | ErrorCode::FencedInstanceId
                | ErrorCode::IllegalGeneration
                | ErrorCode::RebalanceInProgress
                | ErrorCode::GroupIdNotFound
                | ErrorCode::CoordinatorLoadInProgress => oracle.commit_refused(*commit),
                // It may have been written.
                ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable => {}
                code => oracle.complain(format!("{name}: {code:?}")),
            }
            last = Some(p.error_code);
        }
        // Below generation 0 a group that is not there takes commits; a member of the past finds it gone.
        last.map(|code| match code {
            ErrorCode::GroupIdNotFound => ErrorCode::UnknownMemberId,
            code => code,
        })
    }

    /// Its partitions, or any if it has none.
    fn partitions(&mut self) -> Vec<(String, i32)> {
        if let Some(part) = self.part.as_ref().filter(|part| !part.is_empty())
            && !self.rng.percent(10)
        {
            return part.clone();
        }
        let topics = self.hub.oracle.settled();
        let all = topics.iter().flat_map(|(name, n)| (0..*n).map(|index| (name.clone(), index)));
        let all: Vec<_> = all.collect();
        if all.is_empty() { vec![("none".to_owned(), 0)] } else { all }
    }

    /// What the group has committed for everything.
    pub(super) async fn read_offsets(&mut self) {
        if self.connected().await.is_err() {
            self.client = None;
            return;
        }
        let topics = self.hub.oracle.settled();
        let all = topics.iter().flat_map(|(name, n)| (0..*n).map(move |index| (name, index)));
        let oracle = &self.hub.oracle;
        let tickets: Vec<Ticket> =
            all.filter_map(|(name, index)| oracle.ticket(name, index)).collect();
        let Some(client) = &mut self.client else { return };
        client.wait_longer(Duration::ZERO);
        match fetch(&self.hub, &self.rt, client, &self.group.name, &tickets).await {
            Ok(ErrorCode::None) => {}
            Ok(code) => self.failed("fetch of offsets", code),
            Err(Lost) => self.client = None,
        }
    }
}

/// OffsetFetch of one group, told to the oracle.
async fn fetch(
    hub: &Hub,
    rt: &Runtime,
    client: &mut Client,
    group: &str,
    tickets: &[Ticket],
) -> Result<ErrorCode, Lost> {
    let topics = tickets.chunk_by(|a, b| a.topic == b.topic).map(|of_topic| {
        let indexes: Vec<i32> = of_topic.iter().map(|ticket| ticket.index).collect();
        offset_fetch::GroupTopic {
            name: &of_topic[0].topic,
            partition_indexes: indexes.into(),
            ..Default::default()
        }
    });
    let topics: Vec<_> = topics.collect();
    let asked =
        offset_fetch::Group { group_id: group, topics: Some(topics.into()), ..Default::default() };
    let request = offset_fetch::Request { groups: vec![asked].into(), ..Default::default() };
    let read = hub.oracle.reading_offsets();
    let answer = client.call(&request, FETCH).await?;
    let body: offset_fetch::Response<'_> = answer.body(FETCH);
    let told = body.groups.first().expect("one group was asked for");
    if told.error_code != ErrorCode::None {
        return Ok(told.error_code);
    }
    let shown = told.topics.iter().flat_map(|topic| {
        let name = topic.name;
        topic.partitions.iter().map(move |p| (name, p)).collect::<Vec<_>>()
    });
    for (ticket, (topic, p)) in tickets.iter().zip(shown) {
        assert_eq!((ticket.topic.as_str(), ticket.index), (topic, p.partition_index));
        let metadata = p.metadata.unwrap_or_default();
        let committed = (p.committed_offset >= 0).then_some((p.committed_offset, metadata));
        hub.oracle.offset_shown(read, ticket, group, committed, rt.wall_ms());
    }
    Ok(ErrorCode::None)
}

/// When nothing happens any more: the offsets of all groups, once each.
pub(crate) async fn read_all_offsets(hub: Rc<Hub>, rt: Runtime, mut rng: Rng) {
    let known = hub.oracle.committed_partitions();
    for of_group in known.chunk_by(|a, b| a.0 == b.0) {
        let group = &of_group[0].0;
        let tickets = of_group.iter().filter_map(|(_, t, index)| hub.oracle.ticket(t, *index));
        let tickets: Vec<Ticket> = tickets.collect();
        let mut tries = 0;
        let mut read = false;
        while !read && tries < TRIES && !hub.oracle.violated() {
            tries += 1;
            let port = hub.any_port(&mut rng);
            if let Ok(client) = Client::connect(&hub, &rt, port).await {
                let mut client = client.of_member();
                let fetched = fetch(&hub, &rt, &mut client, group, &tickets).await;
                read = fetched == Ok(ErrorCode::None);
            }
            if !read {
                rt.sleep(Duration::from_millis(20)).await;
            }
        }
        if !read {
            hub.oracle.complain(format!("the offsets of {group} could not be read"));
        }
    }
}
