//! `rillctl topic delete`.

use rillway_io::Runtime;

use crate::error::Result;
use crate::node::{self, Connection};

/// Delete a topic and everything in it.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,
    #[arg(long)]
    topic: String,
}

pub(super) fn run(args: Args) -> Result<()> {
    node::run(args, delete)
}

async fn delete(rt: Runtime, args: Args) -> Result<()> {
    args.connection.client(&rt).delete_topic(args.topic.clone()).await?;
    super::print(std::iter::once(format!("deleted topic {}", args.topic)))
}
