//! Runs a subcommand on one core of `rillway-io`, and what arguments are made of.

use std::future::Future;
use std::time::Duration;

use rillway_io::Runtime;
use rillway_io::kernel::{KernelOptions, start};

use crate::error::Result;

/// A CPU that no machine has: the executor is left to the scheduler.
const ANY_CPU: usize = usize::MAX;

/// About this process itself.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Own {
    /// Pin this generator to a CPU: another one than the broker's, or both measure the scheduler.
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Print one line of JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs `main` to its end.
pub(crate) fn run<A, F, Fut>(own: &Own, args: A, main: F) -> Result<()>
where
    A: Clone + Send + 'static,
    F: Fn(Runtime, A) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = Result<()>> + 'static,
{
    let cpus = vec![own.cpu.unwrap_or(ANY_CPU)];
    let options = KernelOptions { cpus, ..KernelOptions::default() };
    let node = start(options, move |rt| main(rt, args.clone()))?;
    node.join().into_iter().collect()
}

/// `64`, `1k`, `4M`, `2G`: powers of 1024, except that `1000k` is 1,024,000 as it says.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no size, as in 512, 16k, 1M or 4G");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "k" | "K" | "KiB" => 10,
        "m" | "M" | "MiB" => 20,
        "g" | "G" | "GiB" => 30,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|n| *n > 0).ok_or_else(wrong)
}

/// A rate per second above 0.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| *rate > 0.0 && *rate <= 1e9);
    rate.ok_or_else(|| format!("{text:?} is no rate: a number above 0"))
}

/// A time in seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|s| *s >= 0.0 && *s <= 86_400.0);
    let seconds = seconds.ok_or_else(|| format!("{text:?} is no number of seconds up to a day"))?;
    Ok(Duration::from_secs_f64(seconds))
}

/// `NAME=VALUE`.
pub(crate) fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("{text:?} is not NAME=VALUE"))?;
    Ok((name.to_string(), value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024_and_nothing_is_guessed() {
        for (text, want) in [("512", 512), ("16k", 16 << 10), ("4G", 4 << 30), ("1MiB", 1 << 20)] {
            assert_eq!(bytes(text), Ok(want));
        }
        for text in ["", "k", "1x", "0", "-1", "1.5M", "99999999999G"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_and_times_are_bounded() {
        assert_eq!(rate("0.5"), Ok(0.5));
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        for text in ["0", "-1", "NaN", "inf", "x"] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert!(seconds("1e9").is_err() && seconds("NaN").is_err());
    }
}
