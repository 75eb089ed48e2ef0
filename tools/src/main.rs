//! `rillctl`: work with a Kafka-protocol broker from a shell.
//!
//! One file per subcommand. All of them talk through `rillway-client`, on one core that is not pinned.
//!
//! Exit codes, so that scripts can tell what to do: 0 done, 1 failed, 2 wrong arguments (clap's), 4 no broker could
//! be reached, 5 what was read is damaged or incomplete.

mod config;
mod consume;
mod error;
mod figures;
mod group;
mod log;
mod node;
mod output;
mod produce;
mod reorder;
mod sink;
mod source;
mod topic;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Work with a Kafka-protocol broker: files into topics and out again, topics, groups and settings, and the files of
/// a data directory.
#[derive(Debug, Parser)]
#[command(name = "rillctl", version, about, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong arguments, 4 no broker could be reached, 5 damaged or incomplete data.";

#[derive(Debug, Subcommand)]
enum Command {
    Produce(produce::Args),
    Consume(consume::Args),
    #[command(subcommand)]
    Topic(topic::Command),
    #[command(subcommand)]
    Group(group::Command),
    #[command(subcommand)]
    Config(config::Command),
    #[command(subcommand)]
    Log(log::Command),
    /// Print a script that completes rillctl's arguments, for your shell to read.
    Completion {
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Produce(args) => produce::run(args),
        Command::Consume(args) => consume::run(args),
        Command::Topic(command) => topic::run(command),
        Command::Group(command) => group::run(command),
        Command::Config(command) => config::run(command),
        Command::Log(command) => log::run(command),
        Command::Completion { shell } => completion(shell),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rillctl: {error}");
            if let Some(advice) = error.advice() {
                eprintln!("         {advice}");
            }
            ExitCode::from(error.exit_code())
        }
    }
}

fn completion(shell: clap_complete::Shell) -> error::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "rillctl", &mut script);
    output::print([String::from_utf8_lossy(&script).trim_end().to_string()])
}
