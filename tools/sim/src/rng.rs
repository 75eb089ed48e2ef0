//! The workload's own random numbers (splitmix64): they must not depend on how often the world draws.

#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed ^ 0xD1B5_4A32_D192_ED03)
    }

    /// A stream of its own for a part of the workload.
    pub(crate) fn fork(&mut self) -> Rng {
        Rng::new(self.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// `low <= n < high`.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        assert!(low < high, "an empty range");
        low + self.next() % (high - low)
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.range(0, len as u64) as usize
    }

    /// True with `percent` in a hundred.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }
}
