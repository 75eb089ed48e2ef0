//! `rillctl topic alter`: settings of a topic, and more partitions for it.

use rillway_io::Runtime;

use crate::error::{Error, Result};
use crate::node::{self, Connection, find_topic};

/// Change settings of a topic, or give it more partitions.
#[derive(clap::Args, Clone, Debug)]
#[group(id = "what", required = true, multiple = true, args = ["configs", "defaults", "partitions"])]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,
    #[arg(long)]
    topic: String,
    /// A setting to change, as in retention.ms=86400000; may be given several times.
    #[arg(long = "config", value_name = "NAME=VALUE", value_parser = super::parse_config)]
    configs: Vec<(String, String)>,
    /// A setting that goes back to its default; may be given several times.
    #[arg(long = "default", value_name = "NAME")]
    defaults: Vec<String>,
    /// Partitions in all; a topic only grows.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
}

pub(super) fn run(args: Args) -> Result<()> {
    node::run(args, alter)
}

async fn alter(rt: Runtime, args: Args) -> Result<()> {
    let client = args.connection.client(&rt);
    let Some(topic) = find_topic(&client, &args.topic).await? else {
        return Err(Error::NoTopic(args.topic));
    };
    let mut done = Vec::new();
    let set = args.configs.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
    let changes: Vec<_> =
        set.chain(args.defaults.iter().map(|name| (name.clone(), None))).collect();
    if !changes.is_empty() {
        client.alter_topic(args.topic.clone(), changes).await?;
        done.push(format!(
            "altered topic {}{}{}",
            args.topic,
            super::list_configs(&args.configs),
            args.defaults.iter().map(|name| format!(", {name} as by default")).collect::<String>()
        ));
    }
    if let Some(count) = args.partitions {
        client.grow_topic(args.topic.clone(), count).await?;
        let before = topic.partitions.len();
        done.push(format!("topic {} has {count} partitions, {before} before", args.topic));
    }
    super::print(done)
}
