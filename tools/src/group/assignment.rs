//! What a consumer was given: ConsumerProtocolAssignment, versions 0 to 3, as the group's leader wrote it.
//!
//! A version, then topics with their partitions; what stands behind them is the assignor's own and not shown.

/// Topics and their partitions; `None` when the bytes are something else, or nothing.
pub(super) fn partitions(bytes: &[u8]) -> Option<Vec<(String, Vec<i32>)>> {
    let mut from = bytes;
    let version = i16::from_be_bytes(take(&mut from)?);
    if version < 0 {
        return None;
    }
    let topics = i32::from_be_bytes(take(&mut from)?);
    let mut all = Vec::new();
    for _ in 0..topics {
        let len = usize::try_from(i16::from_be_bytes(take(&mut from)?)).ok()?;
        let (name, rest) = from.split_at_checked(len)?;
        from = rest;
        let name = std::str::from_utf8(name).ok()?.to_string();
        let count = i32::from_be_bytes(take(&mut from)?);
        let mut partitions = Vec::new();
        for _ in 0..count {
            partitions.push(i32::from_be_bytes(take(&mut from)?));
        }
        partitions.sort_unstable();
        all.push((name, partitions));
    }
    all.sort();
    Some(all)
}

/// As in `orders 0-3,7; payments 1`.
pub(super) fn shown(partitions: &[(String, Vec<i32>)]) -> String {
    let topic = |(name, numbers): &(String, Vec<i32>)| format!("{name} {}", ranges(numbers));
    partitions.iter().map(topic).collect::<Vec<_>>().join("; ")
}

fn ranges(numbers: &[i32]) -> String {
    let mut all: Vec<(i32, i32)> = Vec::new();
    for n in numbers {
        match all.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*n) => *last = *n,
            _ => all.push((*n, *n)),
        }
    }
    let range = |(first, last): &(i32, i32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    all.iter().map(range).collect::<Vec<_>>().join(",")
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = from.split_first_chunk::<N>()?;
    *from = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_is_read_and_cut_bytes_are_no_assignment() {
        let mut bytes = vec![0, 1, 0, 0, 0, 1, 0, 2, b'a', b'b', 0, 0, 0, 4];
        for n in [7_i32, 1, 0, 2] {
            bytes.extend_from_slice(&n.to_be_bytes());
        }
        bytes.extend_from_slice(&[255; 4]);
        let read = partitions(&bytes).expect("it is whole");
        assert_eq!(shown(&read), "ab 0-2,7");
        for end in 0..bytes.len() - 4 {
            assert_eq!(partitions(&bytes[..end]), None, "{end} bytes");
        }
        assert_eq!(partitions(&[255; 40]), None);
    }
}
