//! `rillctl group delete`.

use rillway_io::Runtime;
use rillway_wire::ErrorCode;

use super::if_there;
use crate::error::{Error, Result};
use crate::node::{self, Connection};
use crate::output::print;

/// Delete a group without members, and the offsets that it has committed.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,
    /// The group.
    #[arg(value_name = "NAME")]
    group: String,
}

pub(super) fn run(args: Args) -> Result<()> {
    node::run(args, delete)
}

async fn delete(rt: Runtime, args: Args) -> Result<()> {
    match args.connection.client(&rt).delete_group(&args.group).await {
        Err(error) if error.code() == Some(ErrorCode::NonEmptyGroup) => {
            Err(Error::GroupHasMembers { group: args.group, doing: "deleted" })
        }
        answer => match if_there(answer)? {
            Some(()) => print([format!("deleted group {}", args.group)]),
            None => Err(Error::NoGroup(args.group)),
        },
    }
}
