//! `rillbench floor`: what this machine can do at best, so that a broker is compared with that and not with hopes.

mod aligned;
mod commit;
mod pump;
mod serve;

use crate::error::Result;

/// What the machine itself can do: pumps without a broker, and a broker without anything.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Command {
    Pump(pump::Args),
    Commit(commit::Args),
    Serve(serve::Args),
}

pub(crate) fn run(command: Command) -> Result<()> {
    match command {
        Command::Pump(args) => pump::run(args),
        Command::Commit(args) => commit::run(args),
        Command::Serve(args) => serve::run(args),
    }
}
