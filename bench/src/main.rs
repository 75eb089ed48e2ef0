//! `rillbench`: how fast is a Kafka-protocol broker, and what does it cost?
//!
//! One file per subcommand; `load` and `reader` make the traffic, `meter` watches the processes, `floor` is what the
//! machine could do at best. The generator is one thread of `rillway-io`.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong arguments, 4 no broker could be reached.

mod cluster;
mod consume;
mod error;
mod floor;
mod groups;
mod keys;
mod latency_figures;
mod load;
mod meter;
mod node;
mod process;
mod produce;
mod progress;
mod report;
mod schedule;
mod settle;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Load, latency and cost of a Kafka-protocol broker, and the floors of the machine it runs on.
#[derive(Debug, Parser)]
#[command(name = "rillbench", version, about, after_help = AFTER)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Start with `rillbench produce` against a broker on 127.0.0.1:9092. Everything is measured after a warm-up; --json \
prints all figures.
Exit codes: 0 done, 1 failed, 2 wrong arguments, 4 no broker could be reached.";

#[derive(Debug, Subcommand)]
enum Command {
    Produce(produce::Args),
    Consume(consume::Args),
    Latency(produce::LatencyArgs),
    Commit(groups::CommitArgs),
    Resume(groups::ResumeArgs),
    Settle(settle::Args),
    Watch(watch::Args),
    #[command(subcommand)]
    Floor(floor::Command),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Produce(args) => produce::run(args),
        Command::Consume(args) => consume::run(args),
        Command::Latency(args) => produce::latency(args),
        Command::Commit(args) => groups::commit(args),
        Command::Resume(args) => groups::resume(args),
        Command::Settle(args) => settle::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Floor(command) => floor::run(command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rillbench: {error}");
            if let Some(advice) = error.advice() {
                eprintln!("           {advice}");
            }
            ExitCode::from(error.exit_code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_holds_together() {
        // Names that two flattened groups share are only found when a subcommand is built.
        Cli::command().debug_assert();
    }
}
