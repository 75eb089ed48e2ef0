//! The commands that only start other programs: `check`, `sim`, `mutants`.

use crate::{tidy, workspace};
use std::process::{Command, Stdio};

/// What the simulator must catch, each built in behind the feature `mutants`.
const MUTANTS: &[&str] = &[
    "ack-before-flush",
    "ring-flush-trusted-for-segments",
    "region-released-before-syncfs",
    "recovery-without-syncfs",
    "duplicate-acknowledged-early",
    "replace-before-syncfs",
    "old-files-gone-before-replace",
    "commit-answered-early",
    "group-not-kept",
    "group-told-early",
    "old-generation-commits",
];

/// Exit code of `sim` when its oracle caught a violation; anything else is a crash of the harness
/// or a build without the mutant, and proves nothing.
const CAUGHT: i32 = 10;

/// Seeds a mutant gets unless told otherwise.
const MUTANT_SEEDS: &str = "200";

/// fmt, clippy, tidy, unit tests; stops at the first that fails.
pub(crate) fn check() -> Result<bool, String> {
    let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    Ok(cargo(&["fmt", "--all", "--check"])?
        && cargo(&clippy)?
        && tidy::run()?
        && cargo(&["test", "--workspace", "--lib", "--bins", "--quiet"])?)
}

/// `sim --seeds N [--start S]`: all options go to the simulator as they are.
pub(crate) fn sim(options: &[&str]) -> Result<bool, String> {
    if !options.contains(&"--seeds") {
        return Err("cargo xtask sim --seeds N [--start S]".to_owned());
    }
    let mut args = vec!["run", "--quiet", "--release", "--package", "sim", "--"];
    args.extend(options);
    cargo(&args)
}

/// Builds the simulator with the mutants in it and runs each until a seed catches it.
/// `Ok(false)`: at least one survived.
pub(crate) fn mutants(options: &[&str]) -> Result<bool, String> {
    let (seeds, names) = match options {
        ["--seeds", n, names @ ..] => (*n, names),
        names => (MUTANT_SEEDS, names),
    };
    if let Some(unknown) = names.iter().find(|n| !MUTANTS.contains(*n)) {
        return Err(format!("no mutant `{unknown}`; there are: {}", MUTANTS.join(", ")));
    }
    let feature = ["--release", "--package", "sim", "--features", "mutants"];
    let mut build = vec!["build", "--quiet"];
    build.extend(feature);
    if !cargo(&build)? {
        return Err("the simulator does not build with `--features mutants`".to_owned());
    }
    let mut survived = 0;
    for name in MUTANTS.iter().filter(|m| names.is_empty() || names.contains(m)) {
        let mut args = vec!["run", "--quiet"];
        args.extend(feature);
        args.extend(["--", "--mutant", name, "--seeds", seeds]);
        let output = cargo_command(&args)
            .stderr(Stdio::piped())
            .output()
            .map_err(|e| format!("cargo did not start: {e}"))?;
        let said = [output.stdout, output.stderr].concat();
        let verdict = verdict(output.status.code(), &String::from_utf8_lossy(&said), seeds);
        println!("{name}: {}", verdict.as_ref().unwrap_or_else(|e| e));
        survived += usize::from(verdict.is_err());
    }
    Ok(survived == 0)
}

/// What a run of a mutant means: caught (by which seed, and what was seen), or not.
fn verdict(code: Option<i32>, said: &str, seeds: &str) -> Result<String, String> {
    // `seed 42: what`, and not the summary's `0 seeds from 1 are fine`.
    let named = |l: &&str| {
        l.strip_prefix("seed ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let line = said.lines().find(named);
    match (code, line) {
        (Some(CAUGHT), Some(line)) => {
            let (seed, what) = seed_and_rest(line);
            Ok(format!("caught by seed {seed}: {what}"))
        }
        (Some(CAUGHT), None) => Err("NOT PROVED: caught, but no line names the seed".to_owned()),
        (Some(0), _) => Err(format!("SURVIVED {seeds} seeds")),
        (code, _) => {
            let last = said.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("nothing");
            Err(format!("NOT PROVED: exit code {code:?}, last line: {last}"))
        }
    }
}

/// Splits `... seed 42: what` into `42` and `what`.
fn seed_and_rest(line: &str) -> (&str, &str) {
    let after = line.split_once("seed").map_or("", |s| s.1).trim_start_matches([' ', '=', ':']);
    let end = after.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(after.len());
    (&after[..end], after[end..].trim_start_matches([' ', ':', ',']))
}

fn cargo_command(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.args(args).current_dir(workspace::root());
    command
}

fn cargo(args: &[&str]) -> Result<bool, String> {
    let mut command = cargo_command(args);
    let status = command.status().map_err(|e| format!("{command:?} did not start: {e}"))?;
    if !status.success() {
        eprintln!("failed: cargo {}", args.join(" "));
    }
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_counts_as_caught_only_by_the_oracle_and_with_its_seed() {
        let said = "0 seeds from 1 are fine, 0 crashes\nseed 42: offset 7 acknowledged, gone after crash 2\nreplay: sim --seed 42\n";
        let caught = verdict(Some(CAUGHT), said, "9").unwrap();
        assert_eq!(caught, "caught by seed 42: offset 7 acknowledged, gone after crash 2");
        assert!(verdict(Some(CAUGHT), "3 seeds from 1 are fine", "9").is_err());
        assert_eq!(verdict(Some(0), "seed 1 ok", "9").unwrap_err(), "SURVIVED 9 seeds");
        assert!(verdict(Some(101), "panicked\n", "9").unwrap_err().contains("panicked"));
        assert!(verdict(None, "", "9").is_err());
    }

    #[test]
    fn an_unknown_mutant_is_refused_before_anything_is_built() {
        assert!(mutants(&["no-such"]).unwrap_err().contains("ack-before-flush"));
    }
}
