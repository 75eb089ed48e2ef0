//! The price of one durable write, nothing else: the least that an acknowledgement can cost on this disk.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::aligned::{Aligned, BLOCK, file_error, pin, thread_cpu_s, written_file};
use crate::error::Result;
use crate::latency_figures::{Quantiles, Times};
use crate::node;
use crate::report::{self, Table};

/// Bytes of the file that is written round and round.
const RING: u64 = 64 << 20;

/// Write and flush one piece after the other, directly, into a file that was written before.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: rillbench floor commit --dir /var/lib/rillway --bytes 4k")]
pub(crate) struct Args {
    /// A folder on the disk in question; a file of 64 MiB is made there and removed.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Bytes per write: whole blocks of 4 KiB.
    #[arg(long, value_name = "BYTES", default_value = "4k", value_parser = node::bytes)]
    bytes: u64,
    /// A write and an fdatasync instead of one write that is durable itself (O_DSYNC).
    #[arg(long)]
    fdatasync: bool,
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Seconds to measure.
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = node::seconds)]
    duration: Duration,
    /// Print one line of JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Figures {
    commits_per_s: f64,
    cpu_us_per_commit: f64,
    latency_us: Quantiles,
}

pub(crate) fn run(args: Args) -> Result<()> {
    pin(args.cpu)?;
    let path = args.dir.join(format!("rillbench-floor-{}", std::process::id()));
    let result = measure(&args, &path);
    let _ = std::fs::remove_file(&path);
    let figures = result?;
    if args.json {
        return report::json(&figures);
    }
    let mut table = Table::default();
    table.row("commits", format!("{:.0}/s", figures.commits_per_s));
    table.quantiles("each", &figures.latency_us);
    table.row("CPU", format!("{:.1} us each", figures.cpu_us_per_commit));
    table.print()
}

fn measure(args: &Args, path: &std::path::Path) -> Result<Figures> {
    let bytes = usize::try_from(args.bytes).unwrap_or(usize::MAX).min(RING as usize / 2);
    let bytes = bytes.div_ceil(BLOCK) * BLOCK;
    let file = written_file(path, RING, !args.fdatasync)?;
    let memory = Aligned::new(bytes);
    let (mut times, mut at, mut count) = (Times::new(), 0, 0u64);
    let (begun, cpu) = (Instant::now(), thread_cpu_s());
    while begun.elapsed() < args.duration {
        let start = Instant::now();
        file.write_all_at(memory.get(), at).map_err(|e| file_error(path, e))?;
        if args.fdatasync {
            file.sync_data().map_err(|e| file_error(path, e))?;
        }
        times.record(start.elapsed());
        count += 1;
        at += bytes as u64;
        if at + bytes as u64 > RING {
            at = 0;
        }
    }
    Ok(Figures {
        commits_per_s: count as f64 / begun.elapsed().as_secs_f64(),
        cpu_us_per_commit: (thread_cpu_s() - cpu) * 1e6 / count.max(1) as f64,
        latency_us: times.quantiles(),
    })
}
