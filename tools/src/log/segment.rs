//! Checks a segment: every batch's checksum, the order of the offsets, and what `.meta` says of it.

use std::path::Path;

use rillway_log::SegmentMeta;
use rillway_wire::batch::BatchView;

use super::batches::{is_zero, walk};
use super::verify::Findings;

/// What is known of a segment beside its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) base: i64,
    pub(super) compacted: bool,
    /// Offset behind the last record, where it is known.
    pub(super) end: Option<i64>,
    /// The bytes may go on with what is not theirs yet: zeros, or a write that was never acknowledged.
    pub(super) open: bool,
}

/// Checks the batches; returns where each begins, and its base offset.
pub(super) fn check(
    path: &Path,
    bytes: &[u8],
    expected: Expected,
    findings: &mut Findings,
) -> Vec<(u64, i64)> {
    let mut starts = Vec::new();
    let mut next = expected.base;
    for (at, batch) in walk(bytes) {
        let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
        let batch = match batch {
            Ok(batch) => batch,
            Err(_) if expected.open && is_zero(rest) => break,
            Err(error) if expected.open => {
                let what = format!(
                    "no batch behind the last whole one ({error}): torn, never acknowledged, or damaged"
                );
                findings.note(path, at, &what);
                break;
            }
            Err(error) => {
                findings.damage(path, at, "batch", &error.to_string(), "a whole batch");
                return starts;
            }
        };
        if !batch.check_crc() {
            let (first, last) = (batch.base_offset(), batch.last_offset());
            // The last block of what was written last may stand in the ring only. Where another batch goes on, it
            // shares that block.
            let behind = rest.get(batch.total_len()..).unwrap_or_default();
            let goes_on = BatchView::parse_header(behind)
                .is_ok_and(|next| next.base_offset() == batch.next_offset());
            if expected.open && !goes_on {
                let what = format!(
                    "CRC of the last batch, offsets {first} to {last}, does not fit: its end stands in a ring, or damaged"
                );
                findings.note(path, at, &what);
                break;
            }
            let what = format!("CRC of the batch with offsets {first} to {last}");
            let got = "bytes that do not fit it".to_string();
            findings.damage(path, at, &what, &got, &format!("{:08x}", batch.crc()));
        }
        let dense = batch.base_offset() == next;
        let later = expected.compacted && batch.base_offset() >= next;
        if !dense && !later {
            let want =
                if expected.compacted { format!("{next} or more") } else { next.to_string() };
            findings.damage(path, at, "base offset", &batch.base_offset().to_string(), &want);
        }
        starts.push((at, batch.base_offset()));
        next = batch.next_offset();
    }
    if let Some(end) = expected.end {
        let fits = next == end || (expected.compacted && next <= end);
        if !fits {
            let at = bytes.len() as u64;
            findings.damage(path, at, "end offset", &next.to_string(), &end.to_string());
        }
    }
    starts
}

/// Checks `.meta` against the batches of its segment.
pub(super) fn check_meta(
    path: &Path,
    meta: &SegmentMeta,
    starts: &[(u64, i64)],
    length: u64,
    findings: &mut Findings,
) {
    if meta.length != length {
        let (got, want) = (meta.length.to_string(), length.to_string());
        findings.damage(path, 72, "segment length", &got, &want);
    }
    for entry in &meta.index {
        let found = starts.binary_search_by_key(&entry.position, |(at, _)| *at).ok();
        let base = found.and_then(|at| starts.get(at)).map(|(_, base)| *base);
        if base != Some(entry.base_offset) {
            let what = format!("index entry for position {}", entry.position);
            let want =
                base.map_or("a position where a batch begins".to_string(), |b| b.to_string());
            findings.damage(path, 0, &what, &format!("base offset {}", entry.base_offset), &want);
        }
    }
}
