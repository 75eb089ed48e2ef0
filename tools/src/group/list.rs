//! `rillctl group list`: the groups of every node.

use rillway_io::Runtime;
use serde_json::json;

use crate::error::Result;
use crate::node::{self, Connection};
use crate::output::{Output, Table, print, print_json};

/// List the groups of all nodes.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(args: Args) -> Result<()> {
    node::run(args, list)
}

async fn list(rt: Runtime, args: Args) -> Result<()> {
    let groups = args.connection.client(&rt).groups().await?;
    if args.output.json {
        let group = |g: &rillway_client::GroupListing| {
            json!({
                "group": g.group,
                "state": g.state,
                "type": g.kind,
                "protocol_type": g.protocol_type,
                "coordinator": g.coordinator,
            })
        };
        return print_json(&groups.iter().map(group).collect());
    }
    let mut table = Table::new(&["GROUP", "STATE", "TYPE", "PROTOCOL", ">COORDINATOR"]);
    for g in groups {
        table.row([g.group, g.state, g.kind, g.protocol_type, g.coordinator.to_string()]);
    }
    print(table.lines())
}
