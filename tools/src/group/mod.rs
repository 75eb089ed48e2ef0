//! `rillctl group`: consumer groups: which there are, how far behind they are, why they rebalanced, and where they read
//! on.

mod assignment;
mod delete;
mod describe;
mod list;
mod reset;
mod why;

use rillway_client::Error as ClientError;
use rillway_wire::ErrorCode;

use crate::error::{Error, Result};

/// List, describe, reset and delete consumer groups, and say why one rebalanced.
#[derive(clap::Subcommand, Clone, Debug)]
pub(crate) enum Command {
    List(list::Args),
    Describe(describe::Args),
    Why(why::Args),
    Reset(reset::Args),
    Delete(delete::Args),
}

pub(crate) fn run(command: Command) -> Result<()> {
    match command {
        Command::List(args) => list::run(args),
        Command::Describe(args) => describe::run(args),
        Command::Why(args) => why::run(args),
        Command::Reset(args) => reset::run(args),
        Command::Delete(args) => delete::run(args),
    }
}

/// An answer about a group, `None` where there is no such group.
fn if_there<T>(answer: Result<T, ClientError>) -> Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.code() == Some(ErrorCode::GroupIdNotFound) => Ok(None),
        Err(error) => Err(Error::Client(error)),
    }
}

/// A state as it is shown: a group that never had members has none of its own, and is empty.
fn state(state: &str) -> &str {
    if state.is_empty() { "Empty" } else { state }
}
