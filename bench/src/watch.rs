//! `rillbench watch`: what a process uses while nobody of ours does anything to it. Idle cost, above all.

use std::time::Duration;

use crate::error::Result;
use crate::meter::Meter;
use crate::node;
use crate::report::{self, Table};

/// Watch a process for a while: CPU, memory, wake-ups, bytes written.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example: rillbench watch --pid $(pidof rillway) --duration 10")]
pub(crate) struct Args {
    #[arg(long, value_name = "PID")]
    pid: u32,
    /// Seconds to watch.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = node::seconds)]
    duration: Duration,
    /// Count system calls and io_uring punts with `perf stat` (needs root and perf).
    #[arg(long)]
    tracepoints: bool,
    /// Print one line of JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let meter = Meter::start(Some(args.pid), args.tracepoints, args.duration)?;
    std::thread::sleep(args.duration);
    let window = meter.stop()?;
    if args.json {
        return report::json(&window);
    }
    let mut table = Table::default();
    if let Some(usage) = &window.broker {
        let per_second = 1.0 / window.seconds.max(1e-9);
        table.row("CPU", format!("{:.2} ms per second", usage.cpu_exact_s * 1e3 * per_second));
        table.row("context switches", format!("{:.0}/s", usage.context_switches * per_second));
        table.row("written", format!("{:.0} bytes/s", usage.written * per_second));
        table.row("RSS", format!("{:.1} MiB", usage.rss / f64::from(1 << 20)));
        table.row("threads", format!("{:.0}", usage.threads));
    }
    table.print()
}
