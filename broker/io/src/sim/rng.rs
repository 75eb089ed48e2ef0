//! The seeded random streams of a world, and the hash of what was drawn from them.
//!
//! One stream per concern, so that one more disk operation does not change every scheduling decision after
//! it. SplitMix64 (Steele, Lea, Flood 2014): small, good enough for choices, the same on every machine.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    state: u64,
}

impl Rng {
    /// A stream that follows from the same seed and the name of its concern.
    pub(crate) fn stream(seed: u64, name: &str) -> Rng {
        let mut hash = Trace::default();
        hash.bytes(name.as_bytes());
        let mut rng = Rng { state: seed ^ hash.get() };
        rng.next();
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in `0..n`; 0 if `n` is 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { ((u128::from(self.next()) * u128::from(n)) >> 64) as u64 }
    }

    /// Uniform in `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// An index into something of that length.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// True with that probability. Draws nothing for 0, so an unused fault changes no stream.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && ((self.next() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
    }
}

/// A running hash (FNV-1a over words) of every decision: equal for equal seeds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trace(u64);

impl Default for Trace {
    fn default() -> Trace {
        Trace(0xCBF2_9CE4_8422_2325)
    }
}

impl Trace {
    pub(crate) fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01B3);
        self.0 ^= self.0 >> 29;
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.word(u64::from_le_bytes(word));
        }
    }

    pub(crate) fn get(self) -> u64 {
        self.0
    }
}
