//! The one client that creates and deletes topics, and looks at the metadata.
//!
//! An outcome that got lost is settled after the next crash, when nothing of the request can be under way any more.

use std::rc::Rc;
use std::time::Duration;

use rillway_io::Runtime;
use rillway_wire::ErrorCode;
use rillway_wire::api::{create_topics, delete_topics, metadata};

use crate::client::{Client, Lost};
use crate::hub::Hub;
use crate::rng::Rng;

const CREATE: i16 = 7;
const DELETE: i16 = 6;
const METADATA: i16 = 12;

/// Settings of a topic, which its next incarnation has too.
#[derive(Clone, Debug)]
struct Plan {
    name: String,
    partitions: i32,
    retention_bytes: i64,
    /// Further settings.
    configs: Vec<(&'static str, String)>,
}

/// A compacted topic, with or without retention; in small segments, and tombstones that soon go.
fn compacted(n: u64, partitions: i32, retention_bytes: i64, rng: &mut Rng) -> Plan {
    let policy = if retention_bytes < 0 { "compact" } else { "delete,compact" };
    let configs = vec![
        ("cleanup.policy", policy.to_owned()),
        ("segment.ms", rng.range(30, 400).to_string()),
        ("delete.retention.ms", rng.range(0, 300).to_string()),
        ("min.cleanable.dirty.ratio", rng.pick(&["0.0", "0.1", "0.5"]).to_string()),
    ];
    Plan { name: format!("c{n}"), partitions, retention_bytes, configs }
}

/// What a name's last request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Absent,
    Present,
    /// Lost in this life of the broker.
    Unknown(u64),
}

/// See the module.
pub(crate) struct Admin {
    hub: Rc<Hub>,
    rt: Runtime,
    rng: Rng,
    topics: Vec<(Plan, Fate)>,
    client: Option<Client>,
}

impl Admin {
    pub(crate) fn new(hub: &Rc<Hub>, rt: &Runtime, mut rng: Rng) -> Admin {
        let topics = (0..rng.range(2, 5))
            .map(|n| {
                let partitions = if rng.percent(50) { 1 } else { rng.range(1, 5) as i32 };
                let retention_bytes =
                    if rng.percent(50) { -1 } else { rng.range(1 << 20, 4 << 20) as i64 };
                let plan = if rng.percent(40) {
                    compacted(n, partitions, retention_bytes, &mut rng)
                } else {
                    let name = format!("t{n}");
                    Plan { name, partitions, retention_bytes, configs: Vec::new() }
                };
                (plan, Fate::Absent)
            })
            .collect();
        Admin { hub: Rc::clone(hub), rt: rt.clone(), rng, topics, client: None }
    }

    async fn client(&mut self) -> Result<&mut Client, Lost> {
        if self.client.is_none() {
            let port = self.hub.any_port(&mut self.rng);
            self.client = Some(Client::connect(&self.hub, &self.rt, port).await?);
        }
        self.client.as_mut().ok_or(Lost)
    }

    pub(crate) async fn run(mut self) {
        while self.hub.go_on(&self.rt, &mut self.rng).await {
            let at = self.rng.index(self.topics.len());
            let (plan, fate) = self.topics[at].clone();
            match fate {
                Fate::Absent => self.topics[at].1 = self.create(&plan).await,
                Fate::Present if self.rng.percent(8) => {
                    self.topics[at].1 = self.delete(&plan).await;
                }
                Fate::Present => self.look().await,
                Fate::Unknown(life) if life != self.hub.life.get() => self.settle(at).await,
                Fate::Unknown(_) => self.look().await,
            }
            self.rt.sleep(Duration::from_millis(self.rng.range(1, 40))).await;
        }
    }

    async fn create(&mut self, plan: &Plan) -> Fate {
        let life = self.hub.life.get();
        if self.client().await.is_err() {
            return Fate::Absent;
        }
        self.hub.oracle.changing(&plan.name);
        let retention = plan.retention_bytes.to_string();
        let config = |name, value| create_topics::Config { name, value: Some(value) };
        let mut configs =
            vec![config("segment.bytes", "1048576"), config("retention.bytes", retention.as_str())];
        configs.extend(plan.configs.iter().map(|(name, value)| config(name, value)));
        let topic = create_topics::Topic {
            name: &plan.name,
            num_partitions: plan.partitions,
            replication_factor: 1,
            configs: configs.into(),
            ..Default::default()
        };
        let request = create_topics::Request { topics: vec![topic].into(), ..Default::default() };
        let answer = match self.client().await {
            Ok(client) => client.call(&request, CREATE).await,
            Err(Lost) => Err(Lost),
        };
        let Ok(answer) = answer else {
            self.client = None;
            return Fate::Unknown(life);
        };
        let body: create_topics::Response<'_> = answer.body(CREATE);
        let t = body.topics.first().expect("one topic was asked for");
        match t.error_code {
            ErrorCode::None => {
                self.hub.say(&self.rt, || format!("created {} {:?}", plan.name, t.topic_id));
                if self.hub.oracle.changes(&plan.name) > 2 {
                    self.hub.seen.borrow_mut().recreations += 1;
                }
                self.hub.oracle.created(
                    &plan.name,
                    t.topic_id.0,
                    plan.partitions,
                    plan.retention_bytes,
                );
                Fate::Present
            }
            code => {
                let why = t.error_message.unwrap_or_default();
                self.refused("create", plan, code, why);
                Fate::Unknown(life)
            }
        }
    }

    async fn delete(&mut self, plan: &Plan) -> Fate {
        let life = self.hub.life.get();
        if self.client().await.is_err() {
            return Fate::Present;
        }
        self.hub.oracle.changing(&plan.name);
        let topic = delete_topics::Topic { name: Some(&plan.name), ..Default::default() };
        let request = delete_topics::Request { topics: vec![topic].into(), ..Default::default() };
        let answer = match self.client().await {
            Ok(client) => client.call(&request, DELETE).await,
            Err(Lost) => Err(Lost),
        };
        let Ok(answer) = answer else {
            self.client = None;
            return Fate::Unknown(life);
        };
        let body: delete_topics::Response<'_> = answer.body(DELETE);
        let t = body.responses.first().expect("one topic was asked for");
        match t.error_code {
            ErrorCode::None => {
                self.hub.say(&self.rt, || format!("deleted {}", plan.name));
                self.hub.seen.borrow_mut().deletes += 1;
                self.hub.oracle.gone(&plan.name);
                Fate::Absent
            }
            code => {
                let why = t.error_message.unwrap_or_default();
                self.refused("delete", plan, code, why);
                Fate::Unknown(life)
            }
        }
    }

    /// A refusal is fine on a full disk and while the broker stops.
    fn refused(&self, what: &str, plan: &Plan, code: ErrorCode, why: &str) {
        self.hub.say(&self.rt, || format!("{what} {}: {code:?} {why}", plan.name));
        match code {
            ErrorCode::KafkaStorageError => self.hub.seen.borrow_mut().disk_full += 1,
            ErrorCode::UnknownServerError
                if why.contains("stopping")
                    || why.contains("closed")
                    || why.contains("no room") => {}
            _ => self.hub.oracle.complain(format!("{what} {}: {code:?} {why}", plan.name)),
        }
    }

    /// After a crash: what became of a name.
    async fn settle(&mut self, at: usize) {
        let (plan, _) = self.topics[at].clone();
        let Some(found) = self.ask(&[plan.name.as_str()]).await else {
            return;
        };
        let Some((_, found)) = found.into_iter().next() else {
            return;
        };
        self.hub.say(&self.rt, || format!("settled {}: {found:?}", plan.name));
        match found {
            Some(id) => {
                self.hub.oracle.created(&plan.name, id, plan.partitions, plan.retention_bytes);
                self.topics[at].1 = Fate::Present;
            }
            None => {
                self.hub.oracle.gone(&plan.name);
                self.topics[at].1 = Fate::Absent;
            }
        }
    }

    /// Looks at all topics, and compares.
    async fn look(&mut self) {
        let names: Vec<String> = self.topics.iter().map(|(plan, _)| plan.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let changes: Vec<u64> = names.iter().map(|name| self.hub.oracle.changes(name)).collect();
        let Some(found) = self.ask(&names).await else {
            return;
        };
        for (changes, (name, id)) in changes.into_iter().zip(found) {
            self.hub.oracle.topic_shown(&name, changes, id);
        }
    }

    /// Metadata of these names: the id of each, if it exists.
    async fn ask(&mut self, names: &[&str]) -> Option<Vec<(String, Option<[u8; 16]>)>> {
        let topics: Vec<_> = names
            .iter()
            .map(|name| metadata::TopicRequest { name: Some(name), ..Default::default() })
            .collect();
        let request = metadata::Request {
            topics: Some(topics.into()),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let tickets: Vec<_> = names
            .iter()
            .flat_map(|name| (0..8).filter_map(|index| self.hub.oracle.ticket(name, index)))
            .collect();
        let Ok(client) = self.client().await else {
            return None;
        };
        let Ok(answer) = client.call(&request, METADATA).await else {
            self.client = None;
            return None;
        };
        let body: metadata::Response<'_> = answer.body(METADATA);
        let mut found = Vec::new();
        for topic in &body.topics {
            let name = topic.name.unwrap_or_default().to_owned();
            for p in &topic.partitions {
                let ticket =
                    tickets.iter().find(|t| t.topic == name && t.index == p.partition_index);
                if let Some(ticket) = ticket
                    && p.error_code == ErrorCode::None
                {
                    self.hub.oracle.epoch_shown(ticket, p.leader_epoch);
                }
                if p.error_code != ErrorCode::None
                    && ticket.is_some_and(|t| self.hub.oracle.stable(t))
                {
                    self.hub.oracle.complain(format!(
                        "metadata of {name}-{}: {:?}",
                        p.partition_index, p.error_code
                    ));
                }
            }
            found.push((name, (topic.error_code == ErrorCode::None).then_some(topic.topic_id.0)));
        }
        Some(found)
    }
}
