//! `rillctl topic create`.

use rillway_client::NewTopic;
use rillway_io::Runtime;

use crate::error::Result;
use crate::node::{self, Connection};

/// Create a topic.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,
    #[arg(long)]
    topic: String,
    /// The broker's default when left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// The broker's default when left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    replication_factor: Option<i16>,
    /// A setting of the topic, as in retention.ms=86400000; may be given several times.
    #[arg(long = "config", value_name = "NAME=VALUE", value_parser = super::parse_config)]
    configs: Vec<(String, String)>,
}

pub(super) fn run(args: Args) -> Result<()> {
    node::run(args, create)
}

async fn create(rt: Runtime, args: Args) -> Result<()> {
    let (name, settings) = (args.topic.clone(), super::list_configs(&args.configs));
    let topic = NewTopic {
        name: args.topic,
        partitions: args.partitions.unwrap_or(-1),
        replication_factor: args.replication_factor.unwrap_or(-1),
        configs: args.configs,
    };
    let created = args.connection.client(&rt).create_topic(topic).await?;
    // Before version 5 of CreateTopics brokers do not say.
    let partitions = match created.partitions {
        -1 => String::new(),
        1 => ", 1 partition".to_string(),
        n => format!(", {n} partitions"),
    };
    super::print(std::iter::once(format!("created topic {name}{partitions}{settings}")))
}
