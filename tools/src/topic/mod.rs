//! `rillctl topic`: the topics of a cluster.

mod alter;
mod create;
mod delete;
mod describe;
mod list;

use crate::error::Result;
use crate::output::print;

/// Create, alter, delete, list and describe topics.
#[derive(clap::Subcommand, Clone, Debug)]
pub(crate) enum Command {
    Create(create::Args),
    Alter(alter::Args),
    Delete(delete::Args),
    List(list::Args),
    Describe(describe::Args),
}

pub(crate) fn run(command: Command) -> Result<()> {
    match command {
        Command::Create(args) => create::run(args),
        Command::Alter(args) => alter::run(args),
        Command::Delete(args) => delete::run(args),
        Command::List(args) => list::run(args),
        Command::Describe(args) => describe::run(args),
    }
}

/// `NAME=VALUE`.
pub(crate) fn parse_config(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_string(), value.to_string()))
}

/// Settings behind a sentence.
fn list_configs(configs: &[(String, String)]) -> String {
    configs.iter().map(|(name, value)| format!(", {name}={value}")).collect()
}
