//! The newest offset of each key that the dirty part of a log holds, within a fixed memory.
//!
//! Keys are kept as 128-bit hashes, seeded with random bytes of the pass: two keys of one hash would cost one of them
//! its record, and nobody who does not know the seed can make such a pair. Pure: bytes and numbers. Absent on purpose:
//! growing. What does not fit is left for the next pass, as in Kafka.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

/// A hash and an offset.
pub(crate) const ENTRY_BYTES: usize = 16 + 8;

/// Slots that may be taken, of ten (Kafka: log.cleaner.io.buffer.load.factor, 0.9). Longer chains cost more than they
/// hold.
const LOAD_OF_TEN: usize = 9;

/// See the module.
pub(crate) struct OffsetMap {
    seeds: [u64; 2],
    hashes: Vec<u128>,
    /// Offset + 1; 0 where a slot is free, so that the kernel's zero pages stay untouched until they are needed.
    offsets: Vec<u64>,
    len: usize,
    /// Offset behind the newest record that was put.
    end: i64,
}

impl OffsetMap {
    /// A map that takes at most `bytes`, for at most `records` records from `start` on.
    pub(crate) fn new(bytes: usize, records: u64, start: i64, seeds: [u64; 2]) -> OffsetMap {
        let most = (bytes / ENTRY_BYTES).max(2);
        let wanted = usize::try_from(records.saturating_mul(10) / LOAD_OF_TEN as u64 + 2);
        let slots = wanted.map_or(most, |wanted| wanted.min(most));
        OffsetMap { seeds, hashes: vec![0; slots], offsets: vec![0; slots], len: 0, end: start }
    }

    fn hash(&self, key: &[u8]) -> u128 {
        let half = |seed: u64| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(seed);
            hasher.write(key);
            u128::from(hasher.finish())
        };
        half(self.seeds[0]) << 64 | half(self.seeds[1])
    }

    /// The slot of a hash, or the free one where it would be.
    fn slot(&self, hash: u128) -> usize {
        let slots = self.hashes.len();
        let mut at = (hash % slots as u128) as usize;
        while self.offsets[at] != 0 && self.hashes[at] != hash {
            at = if at + 1 == slots { 0 } else { at + 1 };
        }
        at
    }

    /// Takes a record, the next one of the log. False if its key is new and there is no room: then the map ends before
    /// it, for good.
    pub(crate) fn put(&mut self, key: &[u8], offset: i64) -> bool {
        assert!(offset >= self.end, "records come in order: {offset} after {}", self.end);
        let hash = self.hash(key);
        let at = self.slot(hash);
        if self.offsets[at] == 0 {
            if (self.len + 1) * 10 > self.hashes.len() * LOAD_OF_TEN {
                return false;
            }
            self.hashes[at] = hash;
            self.len += 1;
        }
        self.offsets[at] = offset as u64 + 1;
        self.end = offset + 1;
        true
    }

    /// Everything up to here was looked at, whether it had keys or not.
    pub(crate) fn seen(&mut self, end: i64) {
        self.end = self.end.max(end);
    }

    /// Offset of the newest record of a key; `None` if the dirty part has none.
    pub(crate) fn newest(&self, key: &[u8]) -> Option<i64> {
        let at = self.slot(self.hash(key));
        (self.offsets[at] != 0).then(|| self.offsets[at] as i64 - 1)
    }

    /// Offset behind what the map knows.
    pub(crate) fn end(&self) -> i64 {
        self.end
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_full_map_still_takes_newer_records_of_the_keys_that_it_has() {
        let mut map = OffsetMap::new(10 * ENTRY_BYTES, u64::MAX, 5, [1, 2]);
        let mut offset = 5;
        while map.put(&i64::to_be_bytes(offset), offset) {
            offset += 1;
        }
        assert_eq!((map.len(), map.end()), (9, 14), "nine slots of ten");
        assert!(map.put(&i64::to_be_bytes(7), offset));
        assert_eq!(map.newest(&i64::to_be_bytes(7)), Some(offset));
        assert_eq!(map.newest(&i64::to_be_bytes(99)), None);
    }

    #[test]
    fn the_memory_follows_the_records_and_never_passes_the_limit() {
        for (bytes, records, most) in
            [(1 << 20, 10, 14), (1 << 20, u64::MAX, (1 << 20) / 24), (0, 0, 2)]
        {
            let map = OffsetMap::new(bytes, records, 0, [0, 0]);
            assert!(map.hashes.len() <= most, "{bytes} {records}: {}", map.hashes.len());
        }
    }

    proptest! {
        #[test]
        fn it_knows_what_a_plain_map_knows_up_to_its_end(
            keys in prop::collection::vec(0u8..40, 0..200),
            slots in 2usize..60,
            seeds: [u64; 2],
        ) {
            let mut map = OffsetMap::new(slots * ENTRY_BYTES, keys.len() as u64, 0, seeds);
            let mut model = BTreeMap::new();
            for (offset, key) in keys.iter().enumerate() {
                if !map.put(&[*key; 3], offset as i64) {
                    break;
                }
                model.insert(*key, offset as i64);
                prop_assert_eq!(map.end(), offset as i64 + 1);
            }
            prop_assert_eq!(map.len(), model.len());
            for key in 0..40 {
                prop_assert_eq!(map.newest(&[key; 3]), model.get(&key).copied());
            }
            // Fewer records than slots: there is always room.
            if keys.len() * 10 <= slots * LOAD_OF_TEN {
                prop_assert_eq!(map.end(), keys.len() as i64);
            }
        }
    }
}
