//! `rillctl config`: the settings of topics, and those of a broker to look at.

use rillway_client::{Client, ConfigInfo};
use rillway_io::Runtime;
use rillway_wire::ErrorCode;
use rillway_wire::api::describe_configs::{
    SOURCE_DEFAULT, SOURCE_DYNAMIC_BROKER, SOURCE_DYNAMIC_DEFAULT_BROKER, SOURCE_STATIC_BROKER,
    SOURCE_TOPIC,
};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::node::{self, Connection, find_topic};
use crate::output::{Output, Table, print, print_json};
use crate::topic::parse_config;

/// List, get, set and delete settings of topics; list and get those of a broker.
#[derive(clap::Subcommand, Clone, Debug)]
pub(crate) enum Command {
    List(ListArgs),
    Get(GetArgs),
    Set(SetArgs),
    Delete(DeleteArgs),
}

/// Whose settings.
#[derive(clap::Args, Clone, Debug)]
#[group(required = true, multiple = false)]
struct Of {
    /// A topic.
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,
    /// A node of the cluster, by its id (--broker=1000); the first one when left out.
    // With the `=`, or the name of a setting behind `get --broker` would be taken for an id.
    #[arg(
        long,
        value_name = "ID",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "-1"
    )]
    broker: Option<i32>,
}

/// List settings, those first that were given.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    of: Of,
    /// Only what differs from the default by somebody's wish.
    #[arg(long)]
    given: bool,
    #[command(flatten)]
    output: Output,
}

/// Print the value of a setting.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    of: Of,
    /// As in retention.ms.
    name: String,
    #[command(flatten)]
    output: Output,
}

/// Set settings of a topic: all of them, or none.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    of: Of,
    /// As in retention.ms=86400000.
    #[arg(value_name = "NAME=VALUE", required = true, value_parser = parse_config)]
    configs: Vec<(String, String)>,
}

/// Let settings of a topic go back to their defaults.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    of: Of,
    /// As in retention.ms.
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

pub(crate) fn run(command: Command) -> Result<()> {
    match command {
        Command::List(args) => node::run(args, list),
        Command::Get(args) => node::run(args, get),
        Command::Set(args) => node::run(args, set),
        Command::Delete(args) => node::run(args, delete),
    }
}

async fn list(rt: Runtime, args: ListArgs) -> Result<()> {
    let client = args.connection.client(&rt);
    let mut configs = args.of.describe(&client).await?;
    if args.given {
        configs.retain(|c| c.source != SOURCE_DEFAULT);
    }
    if args.output.json {
        return print_json(&configs.iter().map(as_json).collect());
    }
    print(table(configs).lines())
}

async fn get(rt: Runtime, args: GetArgs) -> Result<()> {
    let client = args.connection.client(&rt);
    let configs = args.of.describe(&client).await?;
    match configs.into_iter().find(|c| c.name == args.name) {
        Some(config) if args.output.json => print_json(&as_json(&config)),
        Some(config) => print([config.value.unwrap_or_else(|| "-".to_string())]),
        None => Err(Error::NoSetting(args.name)),
    }
}

async fn set(rt: Runtime, args: SetArgs) -> Result<()> {
    let topic = args.of.changeable()?;
    let client = args.connection.client(&rt);
    let changes = args.configs.iter().map(|(n, v)| (n.clone(), Some(v.clone()))).collect();
    alter(&client, &topic, changes).await?;
    print(args.configs.iter().map(|(name, value)| format!("topic {topic}: {name}={value}")))
}

async fn delete(rt: Runtime, args: DeleteArgs) -> Result<()> {
    let topic = args.of.changeable()?;
    let client = args.connection.client(&rt);
    let changes = args.names.iter().map(|name| (name.clone(), None)).collect();
    alter(&client, &topic, changes).await?;
    print(args.names.iter().map(|name| format!("topic {topic}: {name} as by default")))
}

async fn alter(client: &Client, topic: &str, changes: Vec<(String, Option<String>)>) -> Result<()> {
    match client.alter_topic(topic.to_string(), changes).await {
        Err(error) if error.code() == Some(ErrorCode::UnknownTopicOrPartition) => {
            Err(Error::NoTopic(topic.to_string()))
        }
        answer => Ok(answer?),
    }
}

impl Of {
    /// The settings, those first that were given, then by name.
    async fn describe(&self, client: &Client) -> Result<Vec<ConfigInfo>> {
        let mut configs = match (&self.topic, self.broker) {
            (Some(topic), _) => {
                if find_topic(client, topic).await?.is_none() {
                    return Err(Error::NoTopic(topic.clone()));
                }
                client.describe_topic(topic.clone()).await?
            }
            (None, node) => {
                let nodes = client.nodes().await?;
                let wanted = node.filter(|id| *id >= 0);
                let found = nodes.iter().find(|n| wanted.is_none_or(|id| id == n.id));
                let Some(found) = found else {
                    let have = nodes.iter().map(|n| n.id).collect();
                    return Err(Error::NoNode { node: wanted.unwrap_or(-1), have });
                };
                client.describe_broker(found.id).await?
            }
        };
        configs.sort_by_key(|c| {
            (c.source == SOURCE_DEFAULT, c.source != SOURCE_TOPIC, c.name.clone())
        });
        Ok(configs)
    }

    fn changeable(&self) -> Result<String> {
        self.topic.clone().ok_or(Error::BrokerSettings)
    }
}

/// The settings as a table.
pub(crate) fn table(configs: Vec<ConfigInfo>) -> Table {
    let mut table = Table::new(&["SETTING", "VALUE", "FROM"]);
    for c in configs {
        let from = source(c.source).to_string();
        table.row([c.name, c.value.unwrap_or_default(), from]);
    }
    table
}

/// A setting for scripts.
pub(crate) fn as_json(c: &ConfigInfo) -> Value {
    json!({
        "name": c.name,
        "value": c.value,
        "source": source(c.source),
        "read_only": c.read_only,
    })
}

fn source(source: i8) -> &'static str {
    match source {
        SOURCE_TOPIC => "topic",
        SOURCE_DEFAULT => "default",
        SOURCE_STATIC_BROKER | SOURCE_DYNAMIC_BROKER | SOURCE_DYNAMIC_DEFAULT_BROKER => "broker",
        _ => "-",
    }
}
