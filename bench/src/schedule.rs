//! When requests are meant to be sent, fixed before the run: latency is counted from these times, never from when the
//! generator got round to sending, so a stalled broker cannot make its own stall invisible (coordinated omission).

use std::time::Duration;

/// The form of an open loop.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrivals {
    /// One after the other at equal distances.
    Constant,
    /// As independent senders do: exponentially distributed distances, by a fixed seed.
    Poisson,
}

/// An endless row of times since the start, never falling.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    arrivals: Arrivals,
    rate: f64,
    sent: u64,
    last: f64,
    random: Random,
}

impl Schedule {
    /// `rate` is per second, above 0.
    pub(crate) fn new(arrivals: Arrivals, rate: f64, seed: u64) -> Self {
        assert!(rate > 0.0 && rate.is_finite(), "a rate of {rate} per second");
        Self { arrivals, rate, sent: 0, last: 0.0, random: Random::new(seed) }
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let at = match self.arrivals {
            // From the number, not from the last time: no error adds up.
            Arrivals::Constant => self.sent as f64 / self.rate,
            Arrivals::Poisson => self.last - (1.0 - self.random.unit()).ln() / self.rate,
        };
        self.sent += 1;
        self.last = at;
        Some(Duration::from_secs_f64(at))
    }
}

/// xorshift64*: payloads and distances need no better randomness, only the same one in each run.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Zero is the one state that the generator never leaves.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// At least 0, below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Bytes that no codec makes smaller.
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes());
        words.take(len).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_constant_rate_is_kept_over_a_million_requests() {
        let mut schedule = Schedule::new(Arrivals::Constant, 3_000.0, 1);
        assert_eq!(schedule.next(), Some(Duration::ZERO));
        let last = schedule.nth(2_999_999 - 1).expect("it is endless");
        assert!((last.as_secs_f64() - 2_999_999.0 / 3_000.0).abs() < 1e-6, "{last:?}");
    }

    #[test]
    fn independent_arrivals_keep_the_rate_on_average_and_bunch_up() {
        let times: Vec<f64> = Schedule::new(Arrivals::Poisson, 1_000.0, 7)
            .take(100_000)
            .map(|t| t.as_secs_f64())
            .collect();
        assert!((times[99_999] - 100.0).abs() < 2.0, "{}", times[99_999]);
        // A tenth of the mean distance: 1 - exp(-0.1) of them are closer.
        let close = times.windows(2).filter(|w| w[1] - w[0] < 0.000_1).count() as f64 / 100_000.0;
        assert!((close - 0.0952).abs() < 0.01, "{close}");
    }

    proptest! {
        #[test]
        fn times_never_fall_and_a_seed_repeats_them(seed: u64, rate in 0.1f64..1e6) {
            for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
                let row = || Schedule::new(arrivals, rate, seed).take(200).collect::<Vec<_>>();
                prop_assert!(row().is_sorted());
                prop_assert_eq!(row(), row());
            }
        }
    }
}
