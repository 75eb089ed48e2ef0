//! rdkafka (rust-rdkafka on the librdkafka that its crate brings) with its default settings; commands as
//! in ci/clients/adapter.py.

mod member;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use shared::{Cannot, Client, Error, PATIENCE, Record};

struct Rdkafka {
    bootstrap: String,
}

fn main() -> Result<(), Error> {
    let bootstrap = std::env::args().nth(1).ok_or("needs an address")?;
    if let Some(wish) = shared::wish()? {
        return member::join(&bootstrap, &wish);
    }
    shared::serve(Rdkafka { bootstrap })
}

/// Collects what the broker acknowledged.
#[derive(Clone, Default)]
struct Acknowledged(Arc<Mutex<Vec<Result<(i32, i64), KafkaError>>>>);

impl ClientContext for Acknowledged {}

impl ProducerContext for Acknowledged {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let outcome = match result {
            Ok(message) => Ok((message.partition(), message.offset())),
            Err((why, _)) => Err(why.clone()),
        };
        self.0.lock().expect("no holder of the lock panics").push(outcome);
    }
}

impl Rdkafka {
    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        config
    }

    /// A consumer must name a group, though it joins none when partitions are assigned.
    fn consumer(&self, settings: &[(&str, &str)]) -> Result<BaseConsumer, Error> {
        let mut config = self.config();
        config.set("group.id", "unused").set("enable.auto.commit", "false");
        for (name, value) in settings {
            config.set(*name, *value);
        }
        Ok(config.create()?)
    }
}

impl Client for Rdkafka {
    fn version(&self) -> String {
        // The crate does not tell its own; the manifest pins it exactly.
        let pinned = include_str!("../Cargo.toml")
            .split("version = \"=")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        format!("{} (librdkafka {})", pinned.unwrap_or("?"), rdkafka::util::get_rdkafka_version().1)
    }

    fn create(&mut self, _: &str, _: i32) -> Result<(), Error> {
        Err(Cannot("its admin client needs an async runtime; the first use creates the topic")
            .into())
    }

    fn write(
        &mut self,
        topic: &str,
        codec: &str,
        records: Vec<Record>,
    ) -> Result<Vec<(i32, i64)>, Error> {
        let context = Acknowledged::default();
        let producer: BaseProducer<Acknowledged> =
            self.config().set("compression.type", codec).create_with_context(context.clone())?;
        for r in &records {
            let headers = r.headers.iter().fold(OwnedHeaders::new(), |all, (name, value)| {
                all.insert(Header { key: name, value: value.as_ref() })
            });
            let mut record =
                BaseRecord::<[u8], [u8]>::to(topic).partition(r.partition).timestamp(r.timestamp);
            if !r.headers.is_empty() {
                record = record.headers(headers);
            }
            record.key = r.key.as_deref();
            record.payload = r.value.as_deref();
            while let Err((why, again)) = producer.send(record) {
                if why.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                    return Err(why.into());
                }
                producer.poll(Duration::from_millis(100));
                record = again;
            }
            producer.poll(Duration::ZERO);
        }
        producer.flush(PATIENCE)?;
        let outcomes =
            std::mem::take(&mut *context.0.lock().expect("no holder of the lock panics"));
        Ok(outcomes.into_iter().collect::<Result<_, _>>()?)
    }

    fn read(
        &mut self,
        topic: &str,
        mut wanted: BTreeMap<i32, Range<i64>>,
    ) -> Result<Vec<Record>, Error> {
        let consumer = self.consumer(&[])?;
        let mut places = TopicPartitionList::new();
        for (partition, range) in &wanted {
            places.add_partition_offset(topic, *partition, Offset::Offset(range.start))?;
        }
        consumer.assign(&places)?;
        let (mut got, started) = (Vec::new(), Instant::now());
        while !wanted.is_empty() {
            if started.elapsed() > PATIENCE {
                return Err(format!("still waiting for {wanted:?} after {PATIENCE:?}").into());
            }
            let Some(m) = consumer.poll(Duration::from_millis(200)).transpose()? else { continue };
            let Some(range) = wanted.get(&m.partition()).filter(|range| m.offset() < range.end)
            else {
                continue;
            };
            let headers = m.headers().map(|all| {
                all.iter().map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec))).collect()
            });
            got.push(Record {
                partition: m.partition(),
                offset: m.offset(),
                timestamp: m.timestamp().to_millis().ok_or("a record without a timestamp")?,
                key: m.key().map(<[u8]>::to_vec),
                value: m.payload().map(<[u8]>::to_vec),
                headers: headers.unwrap_or_default(),
            });
            if m.offset() + 1 == range.end {
                wanted.remove(&m.partition());
            }
        }
        Ok(got)
    }

    fn offset_for(
        &mut self,
        topic: &str,
        partition: i32,
        timestamp: i64,
    ) -> Result<Option<i64>, Error> {
        let mut asked = TopicPartitionList::new();
        asked.add_partition_offset(topic, partition, Offset::Offset(timestamp))?;
        let found = self.consumer(&[])?.offsets_for_times(asked, PATIENCE)?;
        let place = found.find_partition(topic, partition).ok_or("no answer for the partition")?;
        place.error()?;
        Ok(match place.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        })
    }

    fn bounds(&mut self, topic: &str, partition: i32) -> Result<(i64, i64), Error> {
        Ok(self.consumer(&[])?.fetch_watermarks(topic, partition, PATIENCE)?)
    }

    fn out_of_range(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        reset: &str,
    ) -> Result<String, Error> {
        if reset == "latest" {
            return Err(Cannot("rdkafka does not tell the offset at the end of a partition").into());
        }
        let reset = if reset == "none" { "error" } else { reset };
        let consumer = self.consumer(&[("auto.offset.reset", reset)])?;
        let mut place = TopicPartitionList::new();
        place.add_partition_offset(topic, partition, Offset::Offset(offset))?;
        consumer.assign(&place)?;
        match consumer.poll(PATIENCE) {
            Some(Ok(m)) => Ok(m.offset().to_string()),
            Some(Err(why))
                if why.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) =>
            {
                Ok("OFFSET_OUT_OF_RANGE".to_owned())
            }
            Some(Err(why)) => Err(why.into()),
            None => Err(format!("neither a record nor an error in {PATIENCE:?}").into()),
        }
    }

    fn transactional(&mut self, timeout_s: u64) -> Result<String, Error> {
        let producer: BaseProducer = self.config().set("transactional.id", "t").create()?;
        match producer.init_transactions(Duration::from_secs(timeout_s)) {
            Ok(()) => Ok("accepted".to_owned()),
            Err(why) if why.rdkafka_error_code() == Some(RDKafkaErrorCode::OperationTimedOut) => {
                Err(why.into())
            }
            Err(why) => Ok(why.to_string()),
        }
    }
}
