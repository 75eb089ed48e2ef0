//! `rillctl produce`: a file or standard input into a topic.
//!
//! Two forms of records. Lines have no key. Chunks (`--record-bytes`) carry their number in the file as key, 8 bytes
//! big-endian from 0, so that `rillctl consume --output` can put them together again from any number of partitions.
//!
//! Records go to the partitions in turn, one batch's worth at a time, so that batches are full and the partitions
//! stay about equally far.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use rillway_client::{Acks, Client, Delivery, NewTopic, ProducerConfig, TopicPartition};
use rillway_io::Runtime;
use rillway_wire::batch::Codec;

use crate::error::{Error, Result};
use crate::figures::Figures;
use crate::node::{self, Connection, find_topic};
use crate::source::{self, Cut, records};

/// Records between two looks at what else is to be done.
const TURN: usize = 256;
/// The key of a chunk.
const KEY: usize = 8;

/// Stream a file into a topic, and print how fast that was.
///
/// Records are lines (the default), or chunks of --record-bytes whose key is their number in the file, 8 bytes
/// big-endian. `rillctl consume --output` writes the same file again from chunks, however many partitions there are.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,
    #[arg(long)]
    topic: String,
    /// What to send; - is standard input.
    #[arg(long, default_value = "-")]
    file: PathBuf,
    /// Create the topic with so many partitions if it does not exist.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Send chunks of this size. The last one may be shorter.
    #[arg(long, value_name = "N", conflicts_with = "lines", value_parser = clap::value_parser!(u32).range(1..=64 << 20))]
    record_bytes: Option<u32>,
    /// Send lines, without their newlines.
    #[arg(long)]
    lines: bool,
    #[arg(long, value_enum, default_value_t = CodecName::None)]
    codec: CodecName,
    /// `all`: idempotent, five batches per partition on their way. `1`: the leader alone, one batch per partition.
    #[arg(long, value_enum, default_value_t = AcksName::All)]
    acks: AcksName,
    /// Largest batch before compression. Brokers take 1,048,588 bytes by default.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(512..=64 << 20))]
    batch_bytes: u32,
    /// How long a batch waits for more records.
    #[arg(long, value_name = "MS", default_value_t = 5)]
    linger_ms: u64,
    /// Most bytes that are sent and not yet acknowledged.
    #[arg(long, value_name = "N", default_value_t = 32 << 20)]
    buffer_bytes: usize,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum CodecName {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum AcksName {
    All,
    #[value(name = "1")]
    One,
}

impl Args {
    fn producer(&self) -> ProducerConfig {
        ProducerConfig {
            acks: match self.acks {
                AcksName::All => Acks::All,
                AcksName::One => Acks::Leader,
            },
            codec: match self.codec {
                CodecName::None => Codec::None,
                CodecName::Gzip => Codec::Gzip,
                CodecName::Snappy => Codec::Snappy,
                CodecName::Lz4 => Codec::Lz4,
                CodecName::Zstd => Codec::Zstd,
            },
            batch_bytes: self.batch_bytes as usize,
            linger: Duration::from_millis(self.linger_ms),
            buffer_bytes: self.buffer_bytes,
            ..ProducerConfig::default()
        }
    }
}

pub(crate) fn run(args: Args) -> Result<()> {
    node::run(args, produce)
}

async fn produce(rt: Runtime, args: Args) -> Result<()> {
    let client = args.connection.client(&rt);
    let partitions = partitions(&rt, &client, &args).await?;
    let cut = args.record_bytes.map_or(Cut::Lines, |size| Cut::Every(size as usize));
    let mut source = source::open(&args.file, cut)?;
    client.start_producer(args.producer());
    let mut upload = Upload {
        figures: Figures::new(source.len, "ack"),
        client,
        key: if args.record_bytes.is_some() { KEY } else { 0 },
        failed: 0,
        first: None,
    };

    let mut turn = Turns::new(partitions, args.batch_bytes as usize);
    while let Some(block) = source.blocks.recv().await {
        let block = block?;
        let mut queue: VecDeque<_> = (block.first..).zip(records(&block.bytes, cut)).collect();
        while !queue.is_empty() && upload.failed == 0 {
            let now = rt.wall_ms();
            for _ in 0..TURN {
                let Some((index, record)) = queue.front() else {
                    break;
                };
                let at = turn.at(record.len());
                let key = index.to_be_bytes();
                let key = (upload.key > 0).then_some(&key[..]);
                match upload.client.try_send(at, now, key, Some(record)) {
                    Ok(true) => drop(queue.pop_front()),
                    Ok(false) => {
                        upload.wait().await?;
                        break;
                    }
                    // The failure of an earlier batch, which its delivery tells better.
                    Err(rillway_client::Error::Behind { .. }) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            upload.take();
            rt.yield_now().await;
        }
        if upload.failed > 0 {
            break;
        }
    }
    upload.client.start_flush();
    while upload.wait().await? {}
    upload.finish()
}

/// What was acknowledged and what was not.
struct Upload {
    client: Client,
    figures: Figures,
    /// Bytes of each record's key.
    key: usize,
    failed: u64,
    first: Option<rillway_client::Error>,
}

impl Upload {
    /// Waits for a delivery; false when there is none to come.
    async fn wait(&mut self) -> Result<bool> {
        let delivery = self.client.next_delivery().await?;
        let came = delivery.is_some();
        if let Some(delivery) = delivery {
            self.count(delivery);
        }
        self.take();
        Ok(came)
    }

    /// Takes the deliveries that are there.
    fn take(&mut self) {
        while let Some(delivery) = self.client.try_delivery() {
            self.count(delivery);
        }
        let in_flight = self.client.undelivered() as f64 / f64::from(1 << 20);
        self.figures.say(format!("in flight {in_flight:.1} MiB"));
    }

    fn count(&mut self, delivery: Delivery) {
        let records = u64::from(delivery.records);
        match delivery.result {
            Ok(_) => {
                let bytes = delivery.bytes - self.key * delivery.records as usize;
                let time = self.client.elapsed().saturating_sub(delivery.queued_at);
                self.figures.add(records, bytes as u64, Some(time));
            }
            Err(error) => {
                self.failed += records;
                self.first.get_or_insert(error);
            }
        }
    }

    fn finish(self) -> Result<()> {
        let records = self.figures.records() + self.failed;
        self.figures.finish();
        match self.first {
            None => Ok(()),
            Some(first) => Err(Error::Undelivered { failed: self.failed, records, first }),
        }
    }
}

/// The partitions in turn, one batch's worth of bytes each.
struct Turns {
    partitions: Vec<TopicPartition>,
    batch: usize,
    current: usize,
    used: usize,
}

impl Turns {
    fn new(partitions: Vec<TopicPartition>, batch: usize) -> Self {
        Self { partitions, batch, current: 0, used: 0 }
    }

    /// Where a record of `len` bytes goes. Asked again for the same record, it may be the next partition.
    fn at(&mut self, len: usize) -> &TopicPartition {
        // The producer counts 32 bytes besides for each record.
        self.used += len + 40;
        if self.used > self.batch {
            self.used = len + 40;
            self.current = (self.current + 1) % self.partitions.len();
        }
        &self.partitions[self.current]
    }
}

/// The partitions of the topic, which is created if need be.
async fn partitions(rt: &Runtime, client: &Client, args: &Args) -> Result<Vec<TopicPartition>> {
    let count = match find_topic(client, &args.topic).await? {
        Some(topic) => {
            let have = topic.partitions.len();
            let want = args.partitions.map(|n| n as usize);
            if let Some(want) = want.filter(|want| *want != have) {
                let topic = args.topic.clone();
                return Err(Error::Partitions { topic, have, want });
            }
            have
        }
        None => {
            let Some(partitions) = args.partitions else {
                return Err(Error::NoTopic(args.topic.clone()));
            };
            let topic = NewTopic {
                name: args.topic.clone(),
                partitions,
                replication_factor: -1,
                configs: Vec::new(),
            };
            client.create_topic(topic).await?;
            partitions as usize
        }
    };
    rt.yield_now().await;
    let name: std::sync::Arc<str> = args.topic.as_str().into();
    let partition = |i| TopicPartition::new(std::sync::Arc::clone(&name), i);
    Ok((0..).map(partition).take(count.max(1)).collect())
}
