//! `rillctl topic describe`: who leads each partition, who follows, where its log starts and ends, and the settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use rillway_client::{Client, ConfigInfo, PartitionInfo, TopicPartition};
use rillway_io::Runtime;
use rillway_wire::api::describe_configs::{
    SOURCE_DEFAULT, SOURCE_DYNAMIC_BROKER, SOURCE_DYNAMIC_DEFAULT_BROKER, SOURCE_STATIC_BROKER,
    SOURCE_TOPIC,
};
use rillway_wire::api::list_offsets::{EARLIEST, LATEST};

use crate::error::{Error, Result};
use crate::node::{self, Connection, find_topic};

/// Describe a topic: leaders, replicas and offsets of its partitions, and its settings.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,
    #[arg(long)]
    topic: String,
}

pub(super) fn run(args: Args) -> Result<()> {
    node::run(args, describe)
}

async fn describe(rt: Runtime, args: Args) -> Result<()> {
    let client = args.connection.client(&rt);
    let Some(topic) = find_topic(&client, &args.topic).await? else {
        return Err(Error::NoTopic(args.topic));
    };
    let name: Arc<str> = topic.name.as_str().into();
    // A partition without a leader has nobody to ask, and must not keep the others from being shown.
    let led = topic.partitions.iter().filter(|p| p.leader >= 0);
    let led: Vec<TopicPartition> =
        led.map(|p| TopicPartition::new(Arc::clone(&name), p.index)).collect();
    let by_partition = |offsets: Vec<(TopicPartition, i64)>| -> BTreeMap<i32, i64> {
        offsets.into_iter().map(|(at, offset)| (at.partition, offset)).collect()
    };
    let starts = by_partition(client.list_offsets(led.clone(), EARLIEST).await?);
    let ends = by_partition(client.list_offsets(led, LATEST).await?);

    let head = [
        format!("topic {} id {} partitions {}", topic.name, topic.id, topic.partitions.len()),
        "partition leader epoch start end replicas isr".to_string(),
    ];
    let offset = |of: &BTreeMap<i32, i64>, p: &PartitionInfo| {
        of.get(&p.index).map_or("-".to_string(), i64::to_string)
    };
    let line = |p: &PartitionInfo| {
        let (start, end) = (offset(&starts, p), offset(&ends, p));
        let (replicas, isr) = (nodes(&p.replicas), nodes(&p.isr));
        format!("{} {} {} {start} {end} {replicas} {isr}", p.index, p.leader, p.leader_epoch)
    };
    let partitions = topic.partitions.iter().map(line);
    super::print(head.into_iter().chain(partitions).chain(settings(&client, &args.topic).await?))
}

/// The settings, those first that were given to the topic.
async fn settings(client: &Client, topic: &str) -> Result<Vec<String>> {
    let mut configs = match client.describe_topic(topic.to_string()).await {
        Ok(configs) => configs,
        // Older brokers describe no settings; the rest is worth showing all the same.
        Err(rillway_client::Error::Unsupported { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    configs.sort_by_key(|c| (c.source != SOURCE_TOPIC, c.name.clone()));
    let line = |c: ConfigInfo| {
        let source = match c.source {
            SOURCE_TOPIC => "topic",
            SOURCE_DEFAULT => "default",
            SOURCE_STATIC_BROKER | SOURCE_DYNAMIC_BROKER | SOURCE_DYNAMIC_DEFAULT_BROKER => {
                "broker"
            }
            _ => "-",
        };
        format!("{} {} {source}", c.name, c.value.as_deref().unwrap_or("-"))
    };
    Ok(std::iter::once("setting value from".to_string())
        .chain(configs.into_iter().map(line))
        .collect())
}

/// Node ids, separated by commas; `-` for none.
fn nodes(ids: &[i32]) -> String {
    if ids.is_empty() {
        return "-".to_string();
    }
    let ids: Vec<String> = ids.iter().map(i32::to_string).collect();
    ids.join(",")
}
