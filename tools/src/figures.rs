//! What was done: counted while it is, shown on a terminal, and printed at the end.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Counts and times, with a line on the terminal that follows them. Nothing is drawn when standard error is no
/// terminal.
pub(crate) struct Figures {
    bar: ProgressBar,
    begun: Instant,
    records: u64,
    bytes: u64,
    /// In microseconds, up to an hour; what is beyond counts as an hour.
    times: Histogram<u64>,
    /// What the times are.
    what: &'static str,
}

const HOUR_US: u64 = 3_600_000_000;

impl Figures {
    /// `total`: bytes to come, when they are known. `what`: what the times are that will be told.
    pub(crate) fn new(total: Option<u64>, what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(10));
        let template = match total {
            Some(_) => {
                "{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} eta {eta} {msg}"
            }
            None => "{spinner} {binary_bytes} {binary_bytes_per_sec} {elapsed} {msg}",
        };
        bar.set_style(ProgressStyle::with_template(template).expect("the templates are constant"));
        Self {
            bar,
            begun: Instant::now(),
            records: 0,
            bytes: 0,
            times: Histogram::new_with_bounds(1, HOUR_US, 3).expect("the bounds are constant"),
            what,
        }
    }

    /// Some records are done.
    pub(crate) fn add(&mut self, records: u64, bytes: u64, time: Option<Duration>) {
        self.records += records;
        self.bytes += bytes;
        if let Some(time) = time {
            let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            self.times.saturating_record_n(us.max(1), records);
        }
        self.bar.set_position(self.bytes);
    }

    /// What stands at the end of the line.
    pub(crate) fn say(&self, message: String) {
        self.bar.set_message(message);
    }

    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Takes the line off the terminal and prints the figures to standard error, one `name value` pair after the
    /// other, on one line.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
        let seconds = self.begun.elapsed().as_secs_f64();
        let mib = self.bytes as f64 / f64::from(1 << 20);
        let ms = |q| self.times.value_at_quantile(q) as f64 / 1000.0;
        eprintln!(
            "records {} bytes {} seconds {seconds:.3} MiB/s {:.1} {what}-p50-ms {:.2} {what}-p99-ms {:.2} {what}-max-ms {:.2}",
            self.records,
            self.bytes,
            mib / seconds.max(1e-9),
            ms(0.5),
            ms(0.99),
            self.times.max() as f64 / 1000.0,
            what = self.what,
        );
    }
}
