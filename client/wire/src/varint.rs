//! Variable-length integers: seven bits a byte, the lowest first, the top bit says that more follow (KIP-482).
//!
//! Lengths and tags are unsigned; the fields of a record are signed and zigzagged, so that -1 takes one byte.

/// Reads an unsigned varint of at most 32 bits. Returns it with the number of bytes it took.
///
/// `None` when the bytes end too early, or go on for longer than five bytes or 32 bits.
#[must_use]
pub fn read_u32(bytes: &[u8]) -> Option<(u32, usize)> {
    // One byte is by far the most frequent form: every short string, every empty tag section.
    if let [first @ 0..=0x7f, ..] = bytes {
        return Some((u32::from(*first), 1));
    }
    let (value, len) = read_u64(bytes)?;
    Some((u32::try_from(value).ok()?, len))
}

/// Reads an unsigned varint of at most 64 bits. Returns it with the number of bytes it took.
///
/// `None` when the bytes end too early, or go on for longer than ten bytes or 64 bits.
#[must_use]
pub fn read_u64(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if index == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

/// Reads a zigzagged 32-bit integer.
#[must_use]
pub fn read_i32(bytes: &[u8]) -> Option<(i32, usize)> {
    let (value, len) = read_u32(bytes)?;
    Some(((value >> 1) as i32 ^ -((value & 1) as i32), len))
}

/// Reads a zigzagged 64-bit integer.
#[must_use]
pub fn read_i64(bytes: &[u8]) -> Option<(i64, usize)> {
    let (value, len) = read_u64(bytes)?;
    Some(((value >> 1) as i64 ^ -((value & 1) as i64), len))
}

/// Appends an unsigned varint; also for 32-bit values, whose form is the same.
pub fn write_u64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a zigzagged integer; also for 32-bit values, whose form is the same.
pub fn write_i64(out: &mut Vec<u8>, value: i64) {
    write_u64(out, zigzag(value));
}

/// Bytes that [`write_i64`] takes.
#[must_use]
pub fn len_i64(value: i64) -> usize {
    len_u64(zigzag(value))
}

/// Bytes that [`write_u64`] takes: one for each seven bits, and one for zero.
#[must_use]
pub fn len_u64(value: u64) -> usize {
    ((64 - (value | 1).leading_zeros()) as usize).div_ceil(7)
}

const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_integer_reads_back_as_it_was_written(value: i64, small: i32, unsigned: u64) {
            let mut out = Vec::new();
            write_i64(&mut out, value);
            prop_assert_eq!(read_i64(&out), Some((value, out.len())));
            prop_assert_eq!(len_i64(value), out.len());
            out.clear();
            write_i64(&mut out, i64::from(small));
            prop_assert_eq!(read_i32(&out), Some((small, out.len())));
            out.clear();
            write_u64(&mut out, unsigned);
            prop_assert_eq!(read_u64(&out), Some((unsigned, out.len())));
            prop_assert_eq!(len_u64(unsigned), out.len());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let longest = [read_u32(&bytes).map(|r| r.1), read_u64(&bytes).map(|r| r.1)];
            prop_assert!(longest.into_iter().flatten().all(|len| len <= bytes.len().min(10)));
        }
    }

    #[test]
    fn a_varint_that_is_cut_off_or_too_long_is_refused() {
        assert_eq!(read_u32(&[]), None);
        assert_eq!(read_u32(&[0x80]), None);
        assert_eq!(read_u32(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Some((u32::MAX, 5)));
        assert_eq!(read_u32(&[0xff, 0xff, 0xff, 0xff, 0x1f]), None);
        assert_eq!(read_u64(&[0x80; 11]), None);
        assert_eq!(read_u64(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), None);
    }
}
