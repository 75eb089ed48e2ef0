//! `rillctl topic list`: one name a line, so that a script needs no table.

use rillway_io::Runtime;
use serde_json::json;

use crate::error::Result;
use crate::node::{self, Connection};
use crate::output::{Output, print, print_json};

/// List the topics, one a line.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,
    /// With internal topics.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(args: Args) -> Result<()> {
    node::run(args, list)
}

async fn list(rt: Runtime, args: Args) -> Result<()> {
    let topics = args.connection.client(&rt).topics(None).await?;
    let shown = topics.into_iter().filter(|t| args.all || !t.internal);
    if args.output.json {
        let topic = |t: rillway_client::TopicInfo| {
            json!({
                "topic": t.name,
                "id": t.id.to_string(),
                "internal": t.internal,
                "partitions": t.partitions.len(),
            })
        };
        return print_json(&shown.map(topic).collect());
    }
    print(shown.map(|t| t.name))
}
