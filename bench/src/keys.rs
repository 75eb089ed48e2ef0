//! Keys of records, drawn before anything is sent: which ones, and how often each.
//!
//! The same seed gives the same keys in the same order, whatever the broker. Absent on purpose: a partitioner. Every
//! partition draws from all keys, since compaction looks at each partition by itself.

use crate::error::{Error, Result};
use crate::schedule::Random;

/// Digits of a key: text, so that tools show it, and of one length, so that all batches are of about one size.
const DIGITS: usize = 10;
/// How often each key comes on average in what is prepared: a uniform draw then leaves out 2 % of them.
const DRAWS: u64 = 4;

/// The arguments.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct KeyArgs {
    /// Give each record one of so many keys, drawn uniformly for each partition. Without it records have no key.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    keys: Option<u32>,
    /// Draw them by Zipf's law with this exponent instead: the most frequent key comes 2^S times as often as the second.
    #[arg(long, value_name = "S", requires = "keys", value_parser = exponent)]
    zipf: Option<f64>,
    /// Another row of keys: the same seed always gives the same one.
    #[arg(long, value_name = "N", requires = "keys", default_value_t = 1)]
    seed: u64,
}

impl KeyArgs {
    pub(crate) fn keys(&self) -> Option<Keys> {
        self.keys.map(|count| Keys::new(count, self.zipf, self.seed))
    }
}

/// An exponent above 0; at 10 nearly every record has the first key.
fn exponent(text: &str) -> Result<f64, String> {
    let exponent = text.parse::<f64>().ok().filter(|s| *s > 0.0 && *s <= 10.0);
    exponent.ok_or_else(|| format!("{text:?} is no exponent: a number above 0, 10 at most"))
}

/// Which keys there are.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    count: u32,
    seed: u64,
    /// For Zipf's law: the sum of the weights up to each key. Empty: all weigh the same.
    sums: Vec<f64>,
}

impl Keys {
    fn new(count: u32, zipf: Option<f64>, seed: u64) -> Self {
        let mut sum = 0.0;
        let weights = zipf.map(|s| (1..=count).map(move |rank| f64::from(rank).powf(-s)));
        let sums = weights.into_iter().flatten().map(|weight| {
            sum += weight;
            sum
        });
        Self { count, seed, sums: sums.collect() }
    }

    /// An endless row for one partition of one connection.
    pub(crate) fn row(&self, connection: usize, partition: i32) -> Row<'_> {
        // Any odd factors that keep apart what is numbered from 0 on.
        let own = (connection as u64).wrapping_mul(0xA24B_AED4_963E_E407)
            ^ u64::from(partition.cast_unsigned()).wrapping_mul(0x9FB2_1C65_1E98_DF25);
        Row { keys: self, random: Random::new(self.seed ^ own) }
    }

    /// Records that must be prepared for each partition, so that (nearly) all keys come.
    pub(crate) fn draws(&self) -> u64 {
        u64::from(self.count) * DRAWS
    }
}

/// Keys of one partition, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Row<'a> {
    keys: &'a Keys,
    random: Random,
}

impl Row<'_> {
    /// The next key's number, from 0 on; with Zipf's law 0 is the most frequent one.
    fn number(&mut self) -> u32 {
        let unit = self.random.unit();
        let Some(all) = self.keys.sums.last() else {
            return ((unit * f64::from(self.keys.count)) as u32).min(self.keys.count - 1);
        };
        let below = self.keys.sums.partition_point(|sum| *sum <= unit * all);
        u32::try_from(below).unwrap_or(u32::MAX).min(self.keys.count - 1)
    }

    /// The next key.
    pub(crate) fn next(&mut self) -> String {
        format!("{:0DIGITS$}", self.number())
    }
}

/// How many batches of how many records one partition needs, when `most` fit into memory.
pub(crate) fn batches(keys: &Keys, records_per_batch: usize, most: usize) -> Result<usize> {
    let wanted = keys.draws().div_ceil(records_per_batch.max(1) as u64);
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).min(most);
    if (wanted * records_per_batch) < keys.count as usize {
        return Err(Error::Arguments(format!(
            "{} keys do not fit into what is prepared: {} records for each partition; \
             use fewer keys, connections or partitions, or smaller records",
            keys.count,
            wanted * records_per_batch
        )));
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn drawn(keys: &Keys, partition: i32, count: usize) -> BTreeMap<String, usize> {
        let mut row = keys.row(0, partition);
        let mut out = BTreeMap::new();
        (0..count).for_each(|_| *out.entry(row.next()).or_default() += 1);
        out
    }

    #[test]
    fn uniform_keys_come_equally_often_and_nearly_all_of_them() {
        let keys = Keys::new(1_000, None, 7);
        let drawn = drawn(&keys, 0, 100_000);
        assert_eq!(drawn.len(), 1_000);
        let (least, most) = (drawn.values().min().unwrap(), drawn.values().max().unwrap());
        assert!(*least > 50 && *most < 160, "{least} to {most} of 100 each");
        let prepared = self::drawn(&keys, 3, keys.draws() as usize);
        assert!((970..=1_000).contains(&prepared.len()), "{}", prepared.len());
    }

    #[test]
    fn by_zipfs_law_the_first_key_comes_twice_as_often_as_the_second() {
        let drawn = drawn(&Keys::new(100, Some(1.0), 7), 0, 100_000);
        let of = |key: &str| drawn[key] as f64;
        let second = of("0000000000") / of("0000000001");
        assert!((second - 2.0).abs() < 0.1, "{second}");
        let tenth = of("0000000000") / of("0000000009");
        assert!((tenth - 10.0).abs() < 1.0, "{tenth}");
    }

    #[test]
    fn keys_that_memory_has_no_records_for_are_refused() {
        let keys = Keys::new(1_000, None, 1);
        assert_eq!(batches(&keys, 100, 1_000).unwrap(), 40);
        assert_eq!(batches(&keys, 100, 10).unwrap(), 10, "each once on average");
        assert!(batches(&keys, 100, 9).is_err());
    }

    proptest! {
        #[test]
        fn a_seed_repeats_its_keys_and_none_is_out_of_range(
            count in 1u32..5_000, zipf in prop::option::of(0.1f64..3.0), seed: u64, partition in 0i32..9,
        ) {
            let keys = Keys::new(count, zipf, seed);
            let take = || { let mut row = keys.row(1, partition); (0..200).map(|_| row.next()).collect::<Vec<_>>() };
            prop_assert_eq!(take(), take());
            for key in take() {
                prop_assert_eq!(key.len(), DIGITS);
                prop_assert!(key.parse::<u32>().unwrap() < count);
            }
        }

        #[test]
        fn partitions_and_connections_have_rows_of_their_own(seed: u64) {
            let keys = Keys::new(1_000_000, None, seed);
            let take = |connection, partition| {
                let mut row = keys.row(connection, partition);
                (0..8).map(|_| row.next()).collect::<Vec<_>>()
            };
            prop_assert_ne!(take(0, 0), take(0, 1));
            prop_assert_ne!(take(0, 0), take(1, 0));
        }
    }
}
