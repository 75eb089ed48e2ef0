//! `rillctl consume`: a topic into a file or to standard output.
//!
//! Every batch's checksum is verified. Chunks of `rillctl produce --record-bytes` are written in the order of their
//! keys, so the output is the file that was sent; lines are written with a newline each, in order within a partition.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use rillway_client::{Client, FetchedData, FetcherConfig, TopicPartition};
use rillway_io::Runtime;
use rillway_wire::api::list_offsets::{EARLIEST, LATEST};
use rillway_wire::batch::{BatchError, BatchView, Codec, batches, decompress, records};

use crate::error::{Error, Result};
use crate::figures::Figures;
use crate::node::{self, Connection, find_topic};
use crate::reorder::Reorder;
use crate::sink::Sink;

/// Most bytes of one batch when decompressed.
const MAX_BATCH: usize = 256 << 20;

/// Read all partitions of a topic, and print how fast that was.
///
/// Without --output records are only counted and checked. Chunks that `rillctl produce --record-bytes` sent are
/// written in the order of their keys: the output is the file. Other records are written as lines.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,
    #[arg(long)]
    topic: String,
    /// Where to write the records; - is standard output.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Where to start: earliest, latest, or an offset, which holds for every partition.
    #[arg(long, default_value = "earliest", value_parser = parse_from)]
    from: From,
    /// Stop at what is the end of each partition now.
    #[arg(long)]
    until_end: bool,
    /// Stop after so many records.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// `auto` takes records for chunks when the first one has a key of 8 bytes.
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    format: Format,
    /// Most bytes of chunks that wait for an earlier one. Partitions that are ahead wait when half of it is used.
    #[arg(long, value_name = "N", default_value_t = 256 << 20)]
    reorder_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
enum From {
    At(i64),
    Offset(i64),
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Auto,
    Chunks,
    Lines,
}

fn parse_from(text: &str) -> Result<From, String> {
    match text {
        "earliest" => Ok(From::At(EARLIEST)),
        "latest" => Ok(From::At(LATEST)),
        offset => match offset.parse() {
            Ok(offset) if offset >= 0 => Ok(From::Offset(offset)),
            _ => Err("expected earliest, latest, or an offset".to_string()),
        },
    }
}

pub(crate) fn run(args: Args) -> Result<()> {
    node::run(args, consume)
}

async fn consume(rt: Runtime, args: Args) -> Result<()> {
    let client = args.connection.client(&rt);
    let Some(topic) = find_topic(&client, &args.topic).await? else {
        return Err(Error::NoTopic(args.topic.clone()));
    };
    let name: std::sync::Arc<str> = args.topic.as_str().into();
    let all: Vec<TopicPartition> = topic
        .partitions
        .iter()
        .map(|p| TopicPartition::new(std::sync::Arc::clone(&name), p.index))
        .collect();
    let starts = match args.from {
        From::At(time) => client.list_offsets(all.clone(), time).await?,
        From::Offset(offset) => all.iter().map(|at| (at.clone(), offset)).collect(),
    };
    let ends: BTreeMap<TopicPartition, i64> = if args.until_end {
        let ends = client.list_offsets(all.clone(), LATEST).await?;
        ends.into_iter().collect()
    } else {
        BTreeMap::new()
    };

    if let From::Offset(offset) = args.from {
        tell_of_starts_beyond(offset, &ends);
    }

    let sink = match &args.output {
        Some(path) => Some(Sink::create(path)?),
        None => None,
    };
    client.start_fetcher(FetcherConfig::default());
    let mut download = Download {
        figures: Figures::new(None, "age"),
        reorder: Reorder::new(args.reorder_bytes, all.into_iter()),
        positions: BTreeMap::new(),
        ends,
        sink,
        format: args.format,
        left: args.count.unwrap_or(u64::MAX),
        rt,
        client,
    };
    for (at, start) in starts {
        download.start(&at, start);
    }
    let done = download.run().await;
    download.finish(done).await
}

/// With --until-end, an offset behind the end reads nothing; whoever wrote it probably meant another one.
fn tell_of_starts_beyond(offset: i64, ends: &BTreeMap<TopicPartition, i64>) {
    for (at, end) in ends.iter().filter(|(_, end)| offset > **end) {
        eprintln!("rillctl: {at} ends at offset {end}; nothing is read from {offset} on");
    }
}

struct Download {
    rt: Runtime,
    client: Client,
    figures: Figures,
    reorder: Reorder,
    /// The partitions that are still read, with the offset of the next record.
    positions: BTreeMap<TopicPartition, i64>,
    /// Empty when there is no end.
    ends: BTreeMap<TopicPartition, i64>,
    sink: Option<Sink>,
    format: Format,
    /// Records still wanted.
    left: u64,
}

impl Download {
    fn start(&mut self, at: &TopicPartition, offset: i64) {
        self.positions.insert(at.clone(), offset);
        if !self.end(at, offset) {
            self.client.assign(at.clone(), offset);
        }
    }

    /// Whether `next` is the end of a partition; then it is read no more.
    fn end(&mut self, at: &TopicPartition, next: i64) -> bool {
        let ended = self.ends.get(at).is_some_and(|end| next >= *end);
        if ended {
            self.positions.remove(at);
            self.client.unassign(at);
            self.reorder.end(at);
        }
        ended
    }

    async fn run(&mut self) -> Result<()> {
        while !self.positions.is_empty() && self.left > 0 {
            let fetched = self.client.fetch().await?;
            let data = fetched.result?;
            self.take(&fetched.at, &data).await?;
            self.positions.insert(fetched.at.clone(), data.next);
            self.end(&fetched.at, data.next);
            for at in self.reorder.resume() {
                if let Some(next) = self.positions.get(&at) {
                    self.client.assign(at, *next);
                }
            }
            for at in self.reorder.pause()? {
                self.client.unassign(&at);
            }
            if let Some(sink) = &mut self.sink {
                sink.hand_over().await;
                if sink.has_failed() {
                    return Ok(());
                }
            }
            let waiting = self.reorder.buffered() as f64 / f64::from(1 << 20);
            self.figures.say(format!("out of order {waiting:.1} MiB"));
            self.rt.yield_now().await;
        }
        Ok(())
    }

    async fn take(&mut self, at: &TopicPartition, data: &FetchedData) -> Result<()> {
        for batch in batches(&data.batches) {
            let batch = batch.map_err(|source| failed(at, data.from, source))?;
            // Markers of transactions are not records.
            if !batch.is_control() && self.left > 0 {
                self.take_batch(at, data, &batch).await?;
            }
        }
        Ok(())
    }

    async fn take_batch(
        &mut self,
        at: &TopicPartition,
        data: &FetchedData,
        batch: &BatchView<'_>,
    ) -> Result<()> {
        let broken = |source| failed(at, batch.base_offset(), source);
        let codec = batch.codec().map_err(broken)?;
        let payload = match codec {
            Codec::None => data.batches.slice_ref(batch.records()),
            _ => Bytes::from(
                decompress(codec, batch.records(), MAX_BATCH).map_err(broken)?.into_owned(),
            ),
        };
        let (mut seen, mut count, mut bytes) = (0, 0, 0);
        for record in records(&payload) {
            let record = record.map_err(broken)?;
            seen += 1;
            let offset = batch.base_offset() + i64::from(record.offset_delta);
            if offset < data.from || self.left == 0 {
                continue;
            }
            let value = record.value.map_or_else(Bytes::new, |value| slice(&payload, value));
            self.left -= 1;
            count += 1;
            bytes += value.len() as u64;
            self.write(at, offset, record.key, value).await?;
        }
        if seen != batch.record_count() {
            let (count, delta) = (seen, batch.last_offset_delta());
            return Err(broken(BatchError::Count { count, delta }));
        }
        let age = self.rt.wall_ms().saturating_sub(batch.max_timestamp());
        let age = Duration::from_millis(u64::try_from(age).unwrap_or(0));
        self.figures.add(count, bytes, Some(age));
        Ok(())
    }

    async fn write(
        &mut self,
        at: &TopicPartition,
        offset: i64,
        key: Option<&[u8]>,
        value: Bytes,
    ) -> Result<()> {
        let Some(sink) = &mut self.sink else {
            return Ok(());
        };
        let index = key.and_then(|key| key.try_into().ok()).map(u64::from_be_bytes);
        if self.format == Format::Auto {
            self.format = if index.is_some() { Format::Chunks } else { Format::Lines };
        }
        if self.format == Format::Lines {
            sink.write(value).await;
            sink.write(Bytes::from_static(b"\n")).await;
            return Ok(());
        }
        let Some(index) = index else {
            return Err(Error::NoChunk {
                topic: at.topic.to_string(),
                partition: at.partition,
                offset,
            });
        };
        self.reorder.push(at, index, value)?;
        while let Some(chunk) = self.reorder.pop() {
            sink.write(chunk).await;
        }
        Ok(())
    }

    /// Writes what is left, prints the figures, and says what went wrong first.
    async fn finish(self, done: Result<()>) -> Result<()> {
        let written = match self.sink {
            Some(sink) => sink.finish().await,
            None => Ok(()),
        };
        self.figures.finish();
        written.and(done)?;
        self.reorder.finish()
    }
}

/// A value, as a part of the payload that owns it.
fn slice(payload: &Bytes, value: &[u8]) -> Bytes {
    if value.is_empty() { Bytes::new() } else { payload.slice_ref(value) }
}

fn failed(at: &TopicPartition, offset: i64, source: BatchError) -> Error {
    Error::Batch { topic: at.topic.to_string(), partition: at.partition, offset, source }
}
