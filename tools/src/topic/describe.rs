//! `rillctl topic describe`: who leads each partition, who follows, where its log starts and ends, and the settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use rillway_client::{Client, ConfigInfo, PartitionInfo, TopicInfo, TopicPartition};
use rillway_io::Runtime;
use rillway_wire::api::describe_configs::SOURCE_TOPIC;
use rillway_wire::api::list_offsets::{EARLIEST, LATEST};
use serde_json::{Value, json};

use crate::config;
use crate::error::{Error, Result};
use crate::node::{self, Connection, find_topic};
use crate::output::{Output, Table, print, print_json};

/// Describe a topic: leaders, replicas and offsets of its partitions, and its settings.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,
    #[arg(long)]
    topic: String,
    #[command(flatten)]
    output: Output,
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

    let settings = settings(&client, &args.topic).await?;
    if args.output.json {
        return print_json(&as_json(&topic, &starts, &ends, &settings));
    }
    let offset = |of: &BTreeMap<i32, i64>, p: &PartitionInfo| {
        of.get(&p.index).map_or(String::new(), i64::to_string)
    };
    let mut table =
        Table::new(&[">PARTITION", ">LEADER", ">EPOCH", ">START", ">END", "REPLICAS", "ISR"]);
    for p in &topic.partitions {
        table.row([
            p.index.to_string(),
            p.leader.to_string(),
            p.leader_epoch.to_string(),
            offset(&starts, p),
            offset(&ends, p),
            nodes(&p.replicas),
            nodes(&p.isr),
        ]);
    }
    let head =
        format!("topic {} id {} partitions {}", topic.name, topic.id, topic.partitions.len());
    let mut lines = vec![head, String::new()];
    lines.extend(table.lines());
    if !settings.is_empty() {
        lines.push(String::new());
        lines.extend(config::table(settings).lines());
    }
    print(lines)
}

fn as_json(
    topic: &TopicInfo,
    starts: &BTreeMap<i32, i64>,
    ends: &BTreeMap<i32, i64>,
    settings: &[ConfigInfo],
) -> Value {
    let partition = |p: &PartitionInfo| {
        json!({
            "partition": p.index,
            "leader": p.leader,
            "leader_epoch": p.leader_epoch,
            "start_offset": starts.get(&p.index),
            "end_offset": ends.get(&p.index),
            "replicas": p.replicas,
            "isr": p.isr,
        })
    };
    json!({
        "topic": topic.name,
        "id": topic.id.to_string(),
        "internal": topic.internal,
        "partitions": topic.partitions.iter().map(partition).collect::<Value>(),
        "settings": settings.iter().map(config::as_json).collect::<Value>(),
    })
}

/// The settings, those first that were given to the topic.
async fn settings(client: &Client, topic: &str) -> Result<Vec<ConfigInfo>> {
    let mut configs = match client.describe_topic(topic.to_string()).await {
        Ok(configs) => configs,
        // Older brokers describe no settings; the rest is worth showing all the same.
        Err(rillway_client::Error::Unsupported { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    configs.sort_by_key(|c| (c.source != SOURCE_TOPIC, c.name.clone()));
    Ok(configs)
}

/// Node ids, separated by commas.
fn nodes(ids: &[i32]) -> String {
    if ids.is_empty() {
        return String::new();
    }
    let ids: Vec<String> = ids.iter().map(i32::to_string).collect();
    ids.join(",")
}
