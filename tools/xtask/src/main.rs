//! `cargo xtask`: what people and CI run over the whole workspace.
//!
//! It depends on none of our crates, so that it still builds when they do not. It judges the tree
//! (`tidy`) and starts other programs (`check`, `sim`, `mutants`); it holds no test of its own kind.

mod run;
mod source;
mod tidy;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask COMMAND
  tidy                            the rules of the workspace: layers, unsafe, clocks, references, paths
  check                           fmt, clippy, tidy, unit tests
  sim --seeds N [--start S]       the seeded simulator, release build
  mutants [--seeds N] [NAME...]   builds the known mistakes in and shows that a seed catches each";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["tidy"] => tidy::run(),
        ["check"] => run::check(),
        ["sim", rest @ ..] => run::sim(rest),
        ["mutants", rest @ ..] => run::mutants(rest),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}
