//! The topic that is measured: made if need be, its leaders found, every partition tried once.
//!
//! The first produce to a fresh partition costs a broker more than any later one (Kafka takes 25 s for 1,000 of them),
//! so each partition takes one small batch before anything is measured. How long that took is a figure of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use rillway_client::{Address, Client, Config, NewTopic, Pipe};
use rillway_io::Runtime;
use rillway_wire::api::{list_offsets, metadata, produce};
use rillway_wire::batch::{BatchBuilder, Codec};
use rillway_wire::{ErrorCode, Records};

use crate::error::{Error, Result};

/// Between two tries at what is not ready yet.
const AGAIN: Duration = Duration::from_millis(20);
/// Partitions in one request of [`Cluster::prime`].
const PRIMED_AT_ONCE: usize = 100;

/// A topic's partitions by the node that leads them.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) name: String,
    /// Ascending, and in each the partitions ascending.
    pub(crate) nodes: Vec<(Address, Vec<i32>)>,
}

impl Topic {
    pub(crate) fn partitions(&self) -> usize {
        self.nodes.iter().map(|(_, partitions)| partitions.len()).sum()
    }
}

/// Where the brokers are and how to talk to them.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    rt: Runtime,
    pub(crate) config: Config,
}

/// The arguments that every subcommand with a broker has.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Broker {
    /// A broker to ask for the others; several are separated by commas.
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "RILLBENCH_BOOTSTRAP",
        default_value = "127.0.0.1:9092",
        value_delimiter = ','
    )]
    bootstrap: Vec<Address>,
    /// The broker's process on this machine: its CPU, memory and bytes written are reported with the result.
    #[arg(long, value_name = "PID")]
    pub(crate) broker_pid: Option<u32>,
    /// Count the broker's system calls and io_uring punts with `perf stat` (needs root and perf).
    #[arg(long, requires = "broker_pid")]
    pub(crate) tracepoints: bool,
    /// How long to try before giving up on the broker.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) timeout: u64,
}

impl Broker {
    pub(crate) fn cluster(&self, rt: &Runtime) -> Cluster {
        let timeout = Duration::from_secs(self.timeout.max(1));
        let config = Config {
            client_id: "rillbench".to_string(),
            call_timeout: timeout,
            connect_timeout: timeout.min(Duration::from_secs(10)),
            backoff: AGAIN,
            max_backoff: Duration::from_millis(200),
            ..Config::new(self.bootstrap.clone())
        };
        Cluster { rt: rt.clone(), config }
    }
}

impl Cluster {
    /// Finds a topic, or makes it when `partitions` says with how many, and waits until all of them have a leader.
    pub(crate) async fn topic(
        &self,
        name: &str,
        partitions: Option<i32>,
        configs: &[(String, String)],
    ) -> Result<Topic> {
        let client = Client::new(&self.rt, self.config.clone());
        let found = client.topics(Some(vec![name.to_string()])).await?;
        let found = found.into_iter().find(|t| t.name == name);
        let found = found.filter(|t| t.error != ErrorCode::UnknownTopicOrPartition);
        match (found, partitions) {
            (None, None) => return Err(Error::NoTopic(name.to_string())),
            (None, Some(partitions)) => {
                let (name, configs) = (name.to_string(), configs.to_vec());
                client
                    .create_topic(NewTopic { name, partitions, replication_factor: -1, configs })
                    .await?;
            }
            (Some(found), Some(want)) if found.partitions.len() != want as usize => {
                let (topic, have) = (name.to_string(), found.partitions.len());
                return Err(Error::Partitions { topic, have, want: want as usize });
            }
            (Some(_), _) => {}
        }
        client.close();
        let until = self.rt.now() + self.config.call_timeout;
        loop {
            match self.leaders(name).await {
                Ok(topic) if partitions.is_none_or(|n| n as usize == topic.partitions()) => {
                    return Ok(topic);
                }
                Ok(_) if self.rt.now() < until => {}
                Err(Error::NoLeader { .. } | Error::NoTopic(_)) if self.rt.now() < until => {}
                Ok(topic) => {
                    let (have, want) = (topic.partitions(), partitions.unwrap_or(0) as usize);
                    return Err(Error::Partitions { topic: topic.name, have, want });
                }
                Err(error) => return Err(error),
            }
            self.rt.sleep(AGAIN).await;
        }
    }

    /// Waits a moment before something is tried again.
    pub(crate) async fn pause(&self) {
        self.rt.sleep(AGAIN).await;
    }

    /// Opens a connection, trying until the time for calls is up: the broker may be starting.
    pub(crate) async fn open<P>(&self, to: &Address) -> Result<Pipe<P>> {
        let until = self.rt.now() + self.config.call_timeout;
        loop {
            match Pipe::open(&self.rt, &self.config, to).await {
                Ok(pipe) => return Ok(pipe),
                Err(error) if self.rt.now() >= until => return Err(error.into()),
                Err(_) => self.rt.sleep(AGAIN).await,
            }
        }
    }

    async fn leaders(&self, name: &str) -> Result<Topic> {
        let first = self.config.bootstrap.first();
        let first = first.ok_or_else(|| Error::Arguments("--bootstrap is empty".to_string()))?;
        let pipe = self.open::<()>(first).await?;
        let asked = metadata::TopicRequest { name: Some(name), ..Default::default() };
        let request = metadata::Request {
            topics: Some([asked].into_iter().collect()),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let answer = pipe.ask(&request, ()).await?;
        let answer = answer.decode::<metadata::Response<'_>>()?;
        let brokers: BTreeMap<i32, Address> = answer
            .brokers
            .iter()
            .filter_map(|b| {
                let port = u16::try_from(b.port).ok()?;
                Some((b.node_id, Address { host: b.host.to_string(), port }))
            })
            .collect();
        let topic = answer.topics.iter().find(|t| t.name == Some(name));
        let topic = topic.ok_or_else(|| Error::NoTopic(name.to_string()))?;
        let mut nodes: BTreeMap<Address, Vec<i32>> = BTreeMap::new();
        for partition in topic.partitions.iter() {
            let index = partition.partition_index;
            let leader = brokers.get(&partition.leader_id);
            let leader = leader
                .ok_or_else(|| Error::NoLeader { topic: name.to_string(), partition: index })?;
            nodes.entry(leader.clone()).or_default().push(index);
        }
        nodes.values_mut().for_each(|partitions| partitions.sort_unstable());
        if nodes.is_empty() {
            return Err(Error::NoTopic(name.to_string()));
        }
        Ok(Topic { name: name.to_string(), nodes: nodes.into_iter().collect() })
    }

    /// Every partition takes one small batch, however often it has to be tried.
    pub(crate) async fn prime(&self, topic: &Topic, timestamp: i64) -> Result<()> {
        let mut batch = BatchBuilder::new(Codec::None);
        // With a key, since a compacted topic refuses records without.
        batch.push(timestamp, Some(b"prime"), Some(b"prime"), &[]);
        let batch = batch.build().expect("no codec");
        let until = self.rt.now() + self.config.call_timeout;
        for (node, partitions) in &topic.nodes {
            let pipe = self.open::<()>(node).await?;
            for some in partitions.chunks(PRIMED_AT_ONCE) {
                let mut left = some.to_vec();
                loop {
                    let request = produce_request(&topic.name, &left, &batch, -1);
                    let answer = pipe.ask(&request, ()).await?;
                    let answer = answer.decode::<produce::Response<'_>>()?;
                    let refused = refusals(&topic.name, &answer);
                    let Some((_, code)) = refused.first().copied() else {
                        break;
                    };
                    if !code.is_retriable() || self.rt.now() >= until {
                        let (topic, partition) = (topic.name.clone(), refused[0].0);
                        return Err(Error::Refused { topic, partition, code });
                    }
                    left = refused.into_iter().map(|(partition, _)| partition).collect();
                    self.rt.sleep(AGAIN).await;
                }
            }
        }
        Ok(())
    }

    /// Where the log of a partition starts and ends.
    pub(crate) async fn range(
        &self,
        topic: &str,
        partition: i32,
        leader: &Address,
    ) -> Result<(i64, i64)> {
        let pipe = self.open::<()>(leader).await?;
        let mut ends = [0; 2];
        for (end, timestamp) in ends.iter_mut().zip([list_offsets::EARLIEST, list_offsets::LATEST])
        {
            let asked = list_offsets::Partition {
                partition_index: partition,
                timestamp,
                ..Default::default()
            };
            let asked =
                list_offsets::Topic { name: topic, partitions: [asked].into_iter().collect() };
            let request = list_offsets::Request {
                topics: [asked].into_iter().collect(),
                ..Default::default()
            };
            let answer = pipe.ask(&request, ()).await?;
            let answer = answer.decode::<list_offsets::Response<'_>>()?;
            let answer = answer.topics.first().and_then(|t| t.partitions.first());
            let answer = answer.ok_or_else(|| Error::NoTopic(topic.to_string()))?;
            if answer.error_code != ErrorCode::None {
                let (topic, code) = (topic.to_string(), answer.error_code);
                return Err(Error::Refused { topic, partition, code });
            }
            *end = answer.offset;
        }
        Ok((ends[0], ends[1]))
    }
}

/// One batch for each of these partitions. `acks`: 1, or -1 for all.
pub(crate) fn produce_request<'a>(
    topic: &'a str,
    partitions: &[i32],
    batch: &'a [u8],
    acks: i16,
) -> produce::Request<'a> {
    let partition =
        |index: &i32| produce::Partition { index: *index, records: Records::Bytes(batch) };
    let partition_data = partitions.iter().map(partition).collect();
    let topic = produce::Topic { name: topic, partition_data, ..Default::default() };
    produce::Request {
        acks,
        timeout_ms: 30_000,
        topic_data: [topic].into_iter().collect(),
        ..Default::default()
    }
}

/// The partitions that took nothing.
pub(crate) fn refusals(topic: &str, answer: &produce::Response<'_>) -> Vec<(i32, ErrorCode)> {
    let topics = answer.responses.iter().filter(|t| t.name == topic);
    topics
        .flat_map(|t| t.partition_responses.iter().collect::<Vec<_>>())
        .filter(|p| p.error_code != ErrorCode::None)
        .map(|p| (p.index, p.error_code))
        .collect()
}
