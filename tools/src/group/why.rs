//! `rillctl group why`: the last transitions of a group, each with its cause.

use rillway_client::{Error as ClientError, GroupTransition};
use rillway_io::Runtime;
use serde_json::{Value, json};

use super::if_there;
use crate::error::{Error, Result};
use crate::node::{self, Connection};
use crate::output::{Output, Table, print, print_json, time};

/// Say why a group rebalanced: its last changes of state, newest last, each with its cause.
///
/// The broker keeps them in memory, so they begin at its last start. Brokers other than Rillway do not tell.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,
    /// The group.
    #[arg(value_name = "NAME")]
    group: String,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(args: Args) -> Result<()> {
    node::run(args, why)
}

async fn why(rt: Runtime, args: Args) -> Result<()> {
    let client = args.connection.client(&rt);
    let report = match client.group_report(&args.group).await {
        Err(ClientError::Unsupported { .. }) => {
            return Err(Error::NotRillway { what: "why a group rebalanced" });
        }
        report => if_there(report)?,
    };
    let Some(report) = report else {
        return Err(Error::NoGroup(args.group));
    };
    if args.output.json {
        let transitions = report.transitions.iter().map(as_json).collect::<Value>();
        return print_json(&json!({"group": args.group, "transitions": transitions}));
    }
    if report.transitions.is_empty() {
        return print([format!("group {}: nothing happened since the broker started", args.group)]);
    }
    let mut table = Table::new(&["TIME", "FROM", "TO", ">GENERATION", ">MEMBERS", "CAUSE"]);
    for t in report.transitions {
        let (generation, members) = (t.generation.to_string(), t.members.to_string());
        table.row([time(t.time_ms), t.from, t.to, generation, members, t.cause]);
    }
    print(table.lines())
}

fn as_json(t: &GroupTransition) -> Value {
    json!({
        "time_ms": t.time_ms,
        "from": t.from,
        "to": t.to,
        "generation": t.generation,
        "members": t.members,
        "cause": t.cause,
    })
}
