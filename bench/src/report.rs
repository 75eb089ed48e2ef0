//! How results are printed: a table for people, one line of JSON for programs, both on standard output.

use std::io::Write;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::latency_figures::Quantiles;
use crate::meter::Window;
use crate::process::Usage;

const GIB: f64 = (1u64 << 30) as f64;
const MIB: f64 = (1u64 << 20) as f64;

/// Prints one line of JSON.
pub(crate) fn json(figures: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(figures).expect("figures are numbers and names");
    write(&format!("{text}\n"))
}

fn write(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|source| Error::Os { doing: "writing the result".to_string(), source })
}

/// Names on the left, figures on the right.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<(String, String)>);

impl Table {
    pub(crate) fn row(&mut self, name: &str, figure: String) {
        self.0.push((name.to_string(), figure));
    }

    /// Nothing for no times.
    pub(crate) fn quantiles(&mut self, name: &str, q: &Quantiles) {
        if q.count > 0 {
            let (p50, p99, p999, max) = (us(q.p50), us(q.p99), us(q.p999), us(q.max));
            self.row(name, format!("p50 {p50}  p99 {p99}  p99.9 {p999}  max {max}"));
        }
    }

    /// What was used for so many requests and bytes.
    pub(crate) fn window(&mut self, window: &Window, requests: u64, bytes: u64) {
        if let Some(broker) = &window.broker {
            self.usage("broker", broker, window.seconds, requests, bytes);
            self.row("broker RSS", format!("{:.1} MiB", broker.rss / MIB));
            if bytes > 0 {
                let times = broker.written / bytes as f64;
                self.row("broker wrote", format!("{times:.3} x the payload"));
            }
        }
        self.usage("generator", &window.generator, window.seconds, requests, bytes);
        if let Some(events) = &window.events {
            let per_request = |n: f64| n * window.seconds / (requests as f64).max(1.0);
            let per_mib = |n: f64| n * window.seconds / (bytes as f64 / MIB).max(1e-9);
            self.row(
                "system calls",
                format!(
                    "{:.2} per request, {:.1} per MiB",
                    per_request(events.syscalls),
                    per_mib(events.syscalls)
                ),
            );
            let punts = per_request(events.punts) * 1000.0;
            self.row("io-wq punts", format!("{punts:.2} per 1000 requests, flushes left out"));
        }
    }

    fn usage(&mut self, who: &str, usage: &Usage, seconds: f64, requests: u64, bytes: u64) {
        let cpu = usage.cpu_s();
        let mut text = format!(
            "{cpu:.2} s of CPU ({:.2} user, {:.2} system), {:.0} % of one core",
            usage.cpu_user_s,
            usage.cpu_system_s,
            cpu / seconds.max(1e-9) * 100.0
        );
        if requests > 0 {
            text += &format!("; {:.2} us per request", cpu * 1e6 / requests as f64);
        }
        if bytes > 0 {
            text += &format!("; {:.3} s per GiB", cpu / (bytes as f64 / GIB));
        }
        self.row(who, text);
    }

    pub(crate) fn print(&self) -> Result<()> {
        write(&self.text())
    }

    fn text(&self) -> String {
        let width = self.0.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        self.0.iter().map(|(name, figure)| format!("{name:width$}  {figure}\n")).collect()
    }
}

/// Microseconds, in a unit that keeps them short.
fn us(us: f64) -> String {
    match us {
        us if us < 10_000.0 => format!("{us:.0} us"),
        us if us < 10_000_000.0 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_units_are_short() {
        let mut table = Table::default();
        table.row("a", us(812.4));
        table.row("longer", us(15_300.0));
        table.row("b", us(61e6));
        assert_eq!(table.text(), "a       812 us\nlonger  15.3 ms\nb       61.0 s\n");
    }

    #[test]
    fn cpu_is_told_per_request_and_per_gib() {
        let usage = Usage { cpu_user_s: 0.5, cpu_system_s: 1.5, ..Usage::default() };
        let mut table = Table::default();
        table.usage("broker", &usage, 4.0, 1_000_000, 2 << 30);
        let text = table.text();
        for part in ["50 % of one core", "2.00 us per request", "1.000 s per GiB"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
