//! A distribution of times, in bounded memory, and what is printed of it.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest time that is told apart, in nanoseconds: a minute. Longer ones count as this.
const LONGEST: u64 = 60_000_000_000;

/// Times with three digits, from a microsecond to a minute.
#[derive(Clone, Debug)]
pub(crate) struct Times(Histogram<u64>);

/// In microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) p9999: f64,
    pub(crate) max: f64,
}

impl Times {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1_000, LONGEST, 3).expect("the bounds are constant"))
    }

    pub(crate) fn record(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanos.max(1_000));
    }

    pub(crate) fn quantiles(&self) -> Quantiles {
        let at = |q| self.0.value_at_quantile(q) as f64 / 1e3;
        Quantiles {
            count: self.0.len(),
            mean: self.0.mean() / 1e3,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: if self.0.is_empty() { 0.0 } else { self.0.max() as f64 / 1e3 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_microseconds_with_three_digits() {
        let mut times = Times::new();
        for us in 1..=1_000 {
            times.record(Duration::from_micros(us));
        }
        let got = times.quantiles();
        for (got, want) in [(got.p50, 500.0), (got.p99, 990.0), (got.max, 1_000.0)] {
            assert!((got - want).abs() / want < 0.002, "{got} {want}");
        }
        assert_eq!(got.count, 1_000);
    }

    #[test]
    fn an_hour_counts_as_a_minute_and_nothing_as_nothing() {
        let mut times = Times::new();
        assert_eq!(times.quantiles().max, 0.0);
        times.record(Duration::from_secs(3_600));
        assert!((times.quantiles().max / 60e6 - 1.0).abs() < 0.002);
    }
}
