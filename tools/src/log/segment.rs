//! Checks a segment's bytes: every batch's checksum, the order of the offsets, the leader epochs, and what `.meta` says.

use std::path::Path;

use rillway_log::{EpochMap, SegmentMeta};

use super::batches::walk;
use super::findings::Findings;

/// Where the leader epoch stands in a batch. Like the base offset it is the broker's to set, so the batch's CRC does not
/// cover it.
const LEADER_EPOCH: u64 = 12;

/// What is known of a segment beside its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    pub(super) base: i64,
    /// Offset behind the last record.
    pub(super) end: i64,
    pub(super) compacted: bool,
    pub(super) epochs: &'a EpochMap,
}

/// Checks the batches; returns where each begins, and its base offset.
pub(super) fn check(
    path: &Path,
    bytes: &[u8],
    expected: Expected<'_>,
    findings: &mut Findings,
) -> Vec<(u64, i64)> {
    let mut starts = Vec::new();
    let mut next = expected.base;
    for (at, batch) in walk(bytes) {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => {
                findings.damage(path, at, "batch", &error.to_string(), "a whole batch");
                return starts;
            }
        };
        let (base, last) = (batch.base_offset(), batch.last_offset());
        if !batch.check_crc() {
            let what = format!("CRC of the batch with offsets {base} to {last}");
            let got = "bytes that do not fit it".to_string();
            findings.damage(path, at, &what, &got, &format!("{:08x}", batch.crc()));
        }
        let fits = base == next || (expected.compacted && base >= next);
        if !fits {
            let want =
                if expected.compacted { format!("{next} or more") } else { next.to_string() };
            findings.damage(path, at, "base offset", &base.to_string(), &want);
        } else if let Some(epoch) = expected.epochs.at(base)
            && epoch != batch.leader_epoch()
        {
            let got = batch.leader_epoch().to_string();
            findings.damage(path, at + LEADER_EPOCH, "leader epoch", &got, &epoch.to_string());
        }
        starts.push((at, base));
        next = batch.next_offset();
    }
    let fits = next == expected.end || (expected.compacted && next <= expected.end);
    if !fits {
        let at = bytes.len() as u64;
        findings.damage(path, at, "end offset", &next.to_string(), &expected.end.to_string());
    }
    starts
}

/// Checks the batches against the index of `.meta`, which has a checksum of its own: the segment is what is wrong. In a
/// compacted one nothing else covers a base offset.
pub(super) fn check_index(
    path: &Path,
    meta: &SegmentMeta,
    starts: &[(u64, i64)],
    findings: &mut Findings,
) {
    for entry in &meta.index {
        let found = starts.binary_search_by_key(&entry.position, |(at, _)| *at).ok();
        let base = found.and_then(|at| starts.get(at)).map(|(_, base)| *base);
        if base != Some(entry.base_offset) {
            let got = base.map_or("no batch that begins there".to_string(), |b| b.to_string());
            let (at, want) = (entry.position, entry.base_offset.to_string());
            findings.damage(path, at, "base offset by the index in .meta", &got, &want);
        }
    }
}
