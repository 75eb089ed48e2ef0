//! `rillctl topic list`: one name a line.

use rillway_io::Runtime;

use crate::error::Result;
use crate::node::{self, Connection};

/// List the topics, one a line.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,
    /// With internal topics.
    #[arg(long)]
    all: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    node::run(args, list)
}

async fn list(rt: Runtime, args: Args) -> Result<()> {
    let topics = args.connection.client(&rt).topics(None).await?;
    let shown = topics.into_iter().filter(|t| args.all || !t.internal);
    super::print(shown.map(|t| t.name))
}
