//! The whole broker in a simulated world: `sim --seeds N [--start S]`, `sim --seed X` (one, told at length),
//! `--mutant NAME` (a build with `--features mutants`).
//!
//! Exit codes: 0, 10 (the oracle caught something: a line `seed N: what`), 11 (a kind of event was never reached),
//! 1 (the simulator itself failed), 2 (usage).

mod admin;
mod client;
mod consumers;
mod coverage;
mod hub;
mod members;
mod node;
mod oracle;
mod producers;
mod rng;
mod run;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use coverage::Coverage;
use rillway_log::Mutant;
use run::Report;

const CAUGHT: u8 = 10;
const NOT_REACHED: u8 = 11;
/// A run of so many seeds must reach every kind of event.
const COMPLETE: u64 = 200;

struct Arguments {
    start: u64,
    seeds: u64,
    jobs: usize,
    verbose: bool,
    mutant: Option<Mutant>,
}

fn arguments() -> Result<Arguments, String> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut out = Arguments { start: 1, seeds: 1, jobs, verbose: false, mutant: None };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let value = given.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number =
            || value.parse::<u64>().map_err(|_| format!("{name} {value}: a number is expected"));
        match name.as_str() {
            "--seeds" => out.seeds = number()?,
            "--start" => out.start = number()?,
            "--jobs" => out.jobs = number()?.max(1) as usize,
            "--seed" => (out.start, out.seeds, out.verbose) = (number()?, 1, true),
            "--mutant" => {
                if !cfg!(feature = "mutants") {
                    return Err(
                        "this build has no mutants: cargo run -p sim --features mutants".to_owned()
                    );
                }
                out.mutant =
                    Some(Mutant::by_name(&value).ok_or_else(|| format!("no mutant {value}"))?);
            }
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(out)
}

/// A seed's outcome: a report, a violation, or a failure of the simulator itself.
enum Outcome {
    Fine(Box<Report>),
    Caught(String),
    Broken(String),
}

fn one(seed: u64, a: &Arguments) -> Outcome {
    match catch_unwind(AssertUnwindSafe(|| run::run(seed, a.mutant, a.verbose))) {
        Ok(Ok(report)) => Outcome::Fine(Box::new(report)),
        Ok(Err(what)) => Outcome::Caught(what),
        Err(payload) => {
            let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
            let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
            Outcome::Broken(text.unwrap_or_else(|| "a panic without words".to_owned()))
        }
    }
}

fn main() -> ExitCode {
    let a = match arguments() {
        Ok(a) => a,
        Err(e) => {
            eprintln!(
                "sim: {e}\nusage: sim --seeds N [--start S] | --seed X  [--mutant NAME] [--jobs N]"
            );
            return ExitCode::from(2);
        }
    };
    if !a.verbose {
        // Deaths of simulated brokers are outcomes; they are told in the line of their seed.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let next = AtomicU64::new(a.start);
    let total = Mutex::new((Coverage::default(), 0u64));
    let failure: Mutex<Option<(u64, Outcome)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..a.jobs.min(a.seeds.max(1) as usize) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let stop = failure
                        .lock()
                        .is_ok_and(|f| f.as_ref().is_some_and(|(failed, _)| *failed < seed));
                    if seed >= a.start + a.seeds || stop {
                        return;
                    }
                    match one(seed, &a) {
                        Outcome::Fine(report) => {
                            if a.verbose {
                                println!("seed {seed} is fine: trace {:016x}", report.trace);
                            }
                            if let Ok(mut total) = total.lock() {
                                total.0.add(&report.coverage);
                                total.1 += 1;
                            }
                        }
                        bad => {
                            if let Ok(mut failure) = failure.lock()
                                && failure.as_ref().is_none_or(|(failed, _)| *failed > seed)
                            {
                                *failure = Some((seed, bad));
                            }
                        }
                    }
                }
            });
        }
    });
    let (coverage, ran) = total.into_inner().unwrap_or_default();
    println!("{ran} seeds from {} are fine, {} crashes", a.start, coverage.crashes());
    for (kind, n) in coverage.kinds() {
        println!("  {n:>10} {kind}");
    }
    match failure.into_inner().ok().flatten() {
        Some((seed, Outcome::Caught(what))) => {
            println!("seed {seed}: {what}");
            println!("replay: cargo run --release -p sim -- --seed {seed}");
            ExitCode::from(CAUGHT)
        }
        Some((seed, Outcome::Broken(what))) => {
            println!("seed {seed}: the simulator failed: {what}");
            println!("replay: cargo run --release -p sim -- --seed {seed}");
            ExitCode::FAILURE
        }
        Some((_, Outcome::Fine(_))) | None => {
            let missing = coverage.missing();
            if ran >= COMPLETE && !missing.is_empty() {
                println!("never reached: {}", missing.join(", "));
                return ExitCode::from(NOT_REACHED);
            }
            ExitCode::SUCCESS
        }
    }
}
