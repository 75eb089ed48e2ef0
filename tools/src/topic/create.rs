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
    #[arg(long = "config", value_name = "NAME=VALUE", value_parser = parse_config)]
    configs: Vec<(String, String)>,
}

fn parse_config(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_string(), value.to_string()))
}

pub(super) fn run(args: Args) -> Result<()> {
    node::run(args, create)
}

async fn create(rt: Runtime, args: Args) -> Result<()> {
    let topic = NewTopic {
        name: args.topic,
        partitions: args.partitions.unwrap_or(-1),
        replication_factor: args.replication_factor.unwrap_or(-1),
        configs: args.configs,
    };
    Ok(args.connection.client(&rt).create_topic(topic).await?)
}
