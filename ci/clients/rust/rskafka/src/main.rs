//! rskafka: its client of one partition, with batches made here, since it makes none itself by default;
//! commands as in ci/clients/adapter.py.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use rskafka::client::ClientBuilder;
use rskafka::client::error::{Error as ClientError, ProtocolError};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::record::Record as Written;
use shared::{Cannot, Client, Error, PATIENCE, Record};

/// Batches stay below Kafka's default `max.message.bytes`, 1 MiB and a bit.
const BATCH_BYTES: usize = 900_000;

struct Rskafka {
    bootstrap: String,
    runtime: tokio::runtime::Runtime,
}

fn main() -> Result<(), Error> {
    let bootstrap = std::env::args().nth(1).ok_or("needs an address")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    shared::serve(Rskafka { bootstrap, runtime })
}

impl Rskafka {
    /// Runs a command to its end, or to the end of patience: the client itself retries without limit.
    fn run<T>(&self, command: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, command).await? })
    }

    async fn partition(&self, topic: &str, partition: i32) -> Result<Arc<PartitionClient>, Error> {
        let client = ClientBuilder::new(vec![self.bootstrap.clone()]).build().await?;
        Ok(Arc::new(client.partition_client(topic, partition, UnknownTopicHandling::Retry).await?))
    }
}

fn time(milliseconds: i64) -> Result<DateTime<Utc>, Error> {
    Ok(DateTime::from_timestamp_millis(milliseconds).ok_or("a time out of range")?)
}

impl Client for Rskafka {
    fn version(&self) -> String {
        // The crate does not tell; the manifest pins it exactly.
        include_str!("../Cargo.toml")
            .split("rskafka = \"=")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .unwrap_or("?")
            .to_owned()
    }

    fn create(&mut self, topic: &str, partitions: i32) -> Result<(), Error> {
        self.run(async {
            let client = ClientBuilder::new(vec![self.bootstrap.clone()]).build().await?;
            Ok(client.controller_client()?.create_topic(topic, partitions, 1, 30_000).await?)
        })
    }

    fn write(
        &mut self,
        topic: &str,
        codec: &str,
        records: Vec<Record>,
    ) -> Result<Vec<(i32, i64)>, Error> {
        let codec = match codec {
            "none" => Compression::NoCompression,
            "gzip" => Compression::Gzip,
            "snappy" => Compression::Snappy,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd,
            other => return Err(format!("no codec {other}").into()),
        };
        let mut parts: BTreeMap<i32, Vec<Written>> = BTreeMap::new();
        for r in records {
            parts.entry(r.partition).or_default().push(Written {
                key: r.key,
                value: r.value,
                headers: r
                    .headers
                    .into_iter()
                    .map(|(name, value)| (name, value.unwrap_or_default()))
                    .collect(),
                timestamp: time(r.timestamp)?,
            });
        }
        self.run(async {
            let mut acknowledged = Vec::new();
            for (partition, records) in parts {
                let client = self.partition(topic, partition).await?;
                let (mut batch, mut size) = (Vec::new(), 0);
                let mut batches = Vec::new();
                for record in records {
                    if size + record.approximate_size() > BATCH_BYTES && !batch.is_empty() {
                        batches.push(std::mem::take(&mut batch));
                        size = 0;
                    }
                    size += record.approximate_size();
                    batch.push(record);
                }
                batches.push(batch);
                for batch in batches {
                    let offsets = client.produce(batch, codec).await?;
                    acknowledged.extend(offsets.into_iter().map(|offset| (partition, offset)));
                }
            }
            Ok(acknowledged)
        })
    }

    fn read(
        &mut self,
        topic: &str,
        wanted: BTreeMap<i32, Range<i64>>,
    ) -> Result<Vec<Record>, Error> {
        self.run(async {
            let mut got = Vec::new();
            for (partition, range) in wanted {
                let client = self.partition(topic, partition).await?;
                let mut next = range.start;
                while next < range.end {
                    let (records, _) = client.fetch_records(next, 1..4_000_000, 500).await?;
                    for r in records.into_iter() {
                        // A fetch begins with the batch that holds the offset, so records before it come too.
                        if r.offset < next || r.offset >= range.end {
                            continue;
                        }
                        next = r.offset + 1;
                        got.push(Record {
                            partition,
                            offset: r.offset,
                            timestamp: r.record.timestamp.timestamp_millis(),
                            key: r.record.key,
                            value: r.record.value,
                            headers: r
                                .record
                                .headers
                                .into_iter()
                                .map(|(name, value)| (name, Some(value)))
                                .collect(),
                        });
                    }
                }
            }
            Ok(got)
        })
    }

    fn offset_for(
        &mut self,
        topic: &str,
        partition: i32,
        timestamp: i64,
    ) -> Result<Option<i64>, Error> {
        self.run(async {
            let client = self.partition(topic, partition).await?;
            let offset = client.get_offset(OffsetAt::Timestamp(time(timestamp)?)).await?;
            Ok((offset >= 0).then_some(offset))
        })
    }

    fn bounds(&mut self, topic: &str, partition: i32) -> Result<(i64, i64), Error> {
        self.run(async {
            let client = self.partition(topic, partition).await?;
            Ok((
                client.get_offset(OffsetAt::Earliest).await?,
                client.get_offset(OffsetAt::Latest).await?,
            ))
        })
    }

    fn out_of_range(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        reset: &str,
    ) -> Result<String, Error> {
        if reset != "none" {
            return Err(Cannot("rskafka's client of a partition does not reset an offset").into());
        }
        self.run(async {
            let client = self.partition(topic, partition).await?;
            match client.fetch_records(offset, 1..1_000_000, 500).await {
                Err(ClientError::ServerError {
                    protocol_error: ProtocolError::OffsetOutOfRange,
                    ..
                }) => Ok("OFFSET_OUT_OF_RANGE".to_owned()),
                Err(other) => Err(other.into()),
                Ok(_) => Err("the offset was taken".into()),
            }
        })
    }

    fn transactional(&mut self, _: u64) -> Result<String, Error> {
        Err(Cannot("rskafka has no transactions").into())
    }
}
