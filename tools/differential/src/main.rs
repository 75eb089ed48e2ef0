//! The same requests to Apache Kafka and to Rillway, the answers compared field by field.
//!
//! - `cases`: the scripts, each at every version of its API that both serve.
//! - `peer`: a connection to one broker. `tree`: an answer as named fields. `rules`: what has to differ between any two
//!   runs. `compare`: two trees. `accepted`: differences that are meant to be.
//!
//! It shares nothing with the broker but the protocol's tables, and what it gets must decode to the last byte. Started
//! by ci/differential/run, which starts the two brokers.
//!
//! Exit codes: 0 the same but for what is accepted, 1 not, 2 wrong arguments.

mod accepted;
mod cases;
mod compare;
mod peer;
mod rules;
mod tree;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;

use accepted::AllAccepted;
use cases::{Case, all_cases};
use compare::{Difference, compare};
use peer::Peer;
use rillway_wire::api::{find_coordinator, init_producer_id};
use rillway_wire::{ApiKey, ErrorCode};
use tree::Tree;

/// Compare a broker with Apache Kafka, request by request.
#[derive(Debug, Parser)]
struct Args {
    /// Port of Apache Kafka on 127.0.0.1.
    #[arg(long)]
    kafka: u16,
    /// Port of Rillway on 127.0.0.1.
    #[arg(long)]
    rillway: u16,
    /// Accepted differences, with their reasons.
    #[arg(long)]
    accepted: PathBuf,
    /// Only cases with one of these words in their name or API.
    words: Vec<String>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("differential: {e}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Default)]
struct Totals {
    cases: usize,
    versions: usize,
    differences: usize,
    accepted: usize,
}

fn run(args: &Args) -> Result<bool, String> {
    let text = std::fs::read_to_string(&args.accepted)
        .map_err(|e| format!("{}: {e}", args.accepted.display()))?;
    let accepted =
        AllAccepted::parse(&text).map_err(|e| format!("{}: {e}", args.accepted.display()))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|e| e.to_string())?;
    let now_ms = i64::try_from(now.as_millis()).map_err(|e| e.to_string())?;
    let both = both_serve(args, now_ms)?;
    warm_up(Peer::new(args.kafka, now_ms, String::new()));
    let cases = all_cases();
    let mut complete = true;
    for (api, (min, max)) in &both {
        if !cases.iter().any(|c| c.api == *api) {
            println!("no case for {api}, which both serve in versions {min} to {max}");
            complete = false;
        }
    }
    let mut totals = Totals::default();
    let wanted = |c: &&Case| {
        let name = format!("{} {}", c.api, c.name).to_lowercase();
        args.words.is_empty() || args.words.iter().any(|w| name.contains(&w.to_lowercase()))
    };
    for case in cases.iter().filter(wanted) {
        let Some(&(min, max)) = both.get(&case.api) else {
            println!("{}: not served by both, but there is a case for it", case.api);
            complete = false;
            continue;
        };
        run_case(args, now_ms, case, (min, max), &accepted, &mut totals);
    }
    // A part of the cases matches a part of the entries.
    if args.words.is_empty() {
        for a in accepted.unused() {
            println!("accepted, but no such difference: {} {} ({})", a.api, a.path, a.reason);
            complete = false;
        }
    }
    println!(
        "{} cases at {} versions, {} differences, {} accepted",
        totals.cases, totals.versions, totals.differences, totals.accepted
    );
    Ok(complete && totals.differences == 0 && totals.cases > 0)
}

/// Kafka makes its internal topics when it is first asked for a coordinator, and says so by errors for a while.
fn warm_up(mut kafka: Peer) {
    for key_type in [find_coordinator::GROUP, find_coordinator::TRANSACTION] {
        let request =
            find_coordinator::Request { key: "differential", key_type, ..Default::default() };
        kafka.call_until("warm up", &request, 1, |a| a.error_code == ErrorCode::None);
    }
    let request = init_producer_id::Request {
        transactional_id: Some("differential"),
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    kafka.call_until("warm up", &request, 1, |a| a.error_code == ErrorCode::None);
}

/// For each API of Rillway the versions that both serve.
fn both_serve(args: &Args, now_ms: i64) -> Result<BTreeMap<ApiKey, (i16, i16)>, String> {
    let served = |port, who: &str| {
        let mut peer = Peer::new(port, now_ms, String::new());
        peer.served().map_err(|e| format!("{who} on port {port}: {e}"))
    };
    let kafka = served(args.kafka, "Kafka")?;
    let mut both = BTreeMap::new();
    for (key, min, max) in served(args.rillway, "Rillway")? {
        let Some((_, from, to)) = kafka.iter().find(|(k, ..)| *k == key) else {
            return Err(format!("Rillway serves {key}, and Kafka does not"));
        };
        if min < *from || max > *to {
            return Err(format!("Rillway serves {key} {min} to {max}, Kafka {from} to {to}"));
        }
        both.insert(key, (min, max));
    }
    Ok(both)
}

/// Runs a case at each version against both, and prints what came of it.
fn run_case(
    args: &Args,
    now_ms: i64,
    case: &Case,
    (min, max): (i16, i16),
    accepted: &AllAccepted,
    totals: &mut Totals,
) {
    let mut differences: BTreeMap<Difference, Vec<i16>> = BTreeMap::new();
    let mut excused = 0;
    totals.cases += 1;
    for version in min.max(case.from)..=max {
        totals.versions += 1;
        let steps = |port| {
            // A run on brokers that have seen another needs names of its own.
            let prefix = format!("{}-v{version}-{:x}", case.slug(), now_ms & 0xff_ffff);
            let mut peer = Peer::new(port, now_ms, prefix);
            (case.script)(&mut peer, version);
            peer.steps
        };
        let (kafka, rillway) = (steps(args.kafka), steps(args.rillway));
        for d in compare_steps(&kafka, &rillway) {
            match accepted.reason(case.api.name(), case.name, version, &d) {
                Some(_) => excused += 1,
                None => differences.entry(d).or_default().push(version),
            }
        }
    }
    totals.accepted += excused;
    totals.differences += differences.values().map(Vec::len).sum::<usize>();
    let verdict = if differences.is_empty() { "ok" } else { "DIFFERENT" };
    let note = if excused > 0 { format!(" ({excused} accepted)") } else { String::new() };
    let range = format!("{} {}-{max}", case.api, min.max(case.from));
    println!("{verdict:<9} {range}: {}{note}", case.name);
    for (d, versions) in differences {
        println!("          {versions:?} {}: kafka {}, rillway {}", d.path, d.kafka, d.rillway);
    }
}

fn compare_steps(kafka: &[(String, Tree)], rillway: &[(String, Tree)]) -> Vec<Difference> {
    let mut found = Vec::new();
    let missing = |found: &mut Vec<Difference>, step: &str, k: &str, r: &str| {
        let (path, kafka, rillway) = (step.to_owned(), k.to_owned(), r.to_owned());
        found.push(Difference { path, kafka, rillway });
    };
    for at in 0..kafka.len().max(rillway.len()) {
        match (kafka.get(at), rillway.get(at)) {
            (Some((k, ours)), Some((r, theirs))) if k == r => {
                compare(&format!("{k}/"), ours, theirs, &mut found);
            }
            (Some((k, _)), _) => missing(&mut found, k, "was here", "elsewhere in the script"),
            (None, Some((r, _))) => missing(&mut found, r, "has ended", "was here"),
            (None, None) => {}
        }
    }
    found
}
