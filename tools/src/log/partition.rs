//! Checks the folder of one partition against what the rings say of it.
//!
//! A segment's bytes are its file up to where it is durable, then what the ring holds. What lies behind in the file is
//! not acknowledged, or stands in the ring, whose frames have checksums of their own. Files that the segment table does
//! not name are leftovers, or new ones that no frame names yet; nobody reads them, so they are not judged.

use std::path::{Path, PathBuf};

use rillway_log::inspect::{self, ReplayedPartition};
use rillway_log::{PartitionState, SegmentMeta, SegmentState, SegmentStatus};

use super::files::{Files, is_gone};
use super::findings::Findings;
use super::known::Known;
use super::name;
use super::names::{Kind, Segment, kind};
use super::segment::{self, Expected};

/// Checks the folder `dir`, which need not be there.
pub(super) fn check(files: &impl Files, known: &Known, dir: &Path, findings: &mut Findings) {
    let entries = match files.list(dir) {
        Ok(entries) => entries,
        Err(why) if is_gone(&why) => Vec::new(),
        Err(why) => return findings.unreadable(dir, &why.to_string()),
    };
    let partition = known.partitions.get(name(dir));
    for (path, is_folder) in &entries {
        let what = kind(path);
        match what {
            _ if *is_folder => findings.note(path, 0, "not one of ours"),
            Kind::Snapshot => snapshot(files, path, findings),
            Kind::Temporary | Kind::PartitionMetadata => {}
            Kind::Log(s) | Kind::Meta(s) if s.deleted => {
                findings.note(path, 0, "waits to be removed; not checked");
            }
            Kind::Log(s) | Kind::Meta(s) => match partition {
                Some(p) if row_of(&p.state, s).is_some() => {}
                Some(_) => findings.note(path, 0, "of no segment that the rings name; not checked"),
                None => {}
            },
            _ => findings.note(path, 0, "not one of ours"),
        }
    }
    let Some(partition) = partition else {
        let what = match known.whole {
            _ if known.deletions.contains(name(dir)) => {
                "of a partition that is being deleted; not checked"
            }
            true => "of no partition that the rings know; not checked",
            false => "of a partition of a ring that cannot be read; not checked",
        };
        return findings.note(dir, 0, what);
    };
    let needed = partition.state.segments.iter().any(|row| is_needed(&partition.state, row));
    if !identity(files, dir, &partition.state, needed, findings) {
        return;
    }
    for (row, tail) in partition.state.segments.iter().zip(&partition.tails) {
        check_segment(files, known, dir, partition, row, tail, findings);
    }
}

/// Whether a segment's file must be there (FORMAT.md 5).
fn is_needed(state: &PartitionState, row: &SegmentState) -> bool {
    row.durable > 0 && row.end > state.log_start
}

fn row_of(state: &PartitionState, file: Segment) -> Option<&SegmentState> {
    state.segment(file.base).filter(|row| row.compaction == file.compaction)
}

/// Of a segment's file: up to where it is durable, and the bytes behind that which the ring holds.
pub(super) fn behind_file<'a>(
    known: &'a Known,
    path: &Path,
    file: Segment,
) -> Option<(u64, &'a [u8])> {
    let p = known.partitions.get(name(path.parent()?))?;
    let mut rows = p.state.segments.iter().zip(&p.tails);
    let (row, tail) =
        rows.find(|(row, _)| row.base == file.base && row.compaction == file.compaction)?;
    Some((row.durable, tail))
}

fn snapshot(files: &impl Files, path: &Path, findings: &mut Findings) {
    findings.looked_at(path);
    match files.read(path) {
        Ok(bytes) => {
            if let Err(error) = inspect::checked_text(path, &bytes) {
                findings.log_error(path, &error);
            }
        }
        Err(why) if is_gone(&why) => {}
        Err(why) => findings.unreadable(path, &why.to_string()),
    }
}

/// Checks `partition.metadata`; false when the folder is that of another topic.
fn identity(
    files: &impl Files,
    dir: &Path,
    state: &PartitionState,
    needed: bool,
    findings: &mut Findings,
) -> bool {
    let path = dir.join("partition.metadata");
    findings.looked_at(&path);
    let want = format!("version: 0\ntopic_id: {}\n", state.id.topic.base64());
    let got = match files.read(&path) {
        Ok(bytes) if bytes == want.as_bytes() => return true,
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(why) if is_gone(&why) => "no file".to_string(),
        Err(why) => why.to_string(),
    };
    if needed {
        findings.damage(&path, 0, "lines", got.trim_end(), want.trim_end());
        return true;
    }
    // Nothing in the folder was ever durable: it is of an earlier topic of this name, or a crash tore its identity.
    if got != "no file" {
        findings.note(
            &path,
            0,
            "of another topic, or torn by a crash; nothing here is durable yet",
        );
    }
    false
}

fn check_segment(
    files: &impl Files,
    known: &Known,
    dir: &Path,
    partition: &ReplayedPartition,
    row: &SegmentState,
    tail: &[u8],
    findings: &mut Findings,
) {
    let state = &partition.state;
    let [log, meta] = paths(dir, row);
    findings.looked_at(&log);
    let durable = usize::try_from(row.durable).unwrap_or(usize::MAX);
    let sealed = row.status == SegmentStatus::Sealed;
    let mut bytes = match files.read(&log) {
        Ok(bytes) => bytes,
        Err(why) if is_gone(&why) && is_needed(state, row) => {
            let want = format!("{} bytes", row.durable);
            return findings.damage(&log, 0, "segment", "no file", &want);
        }
        // What is in it stands in the ring, or below the log start.
        Err(why) if is_gone(&why) => Vec::new(),
        Err(why) => return findings.unreadable(&log, &why.to_string()),
    };
    if row.end <= state.log_start {
        return;
    }
    if bytes.len() < durable || (sealed && bytes.len() != durable) {
        let got = bytes.len().to_string();
        findings.damage(
            &log,
            bytes.len().min(durable) as u64,
            "length",
            &got,
            &row.durable.to_string(),
        );
    }
    if bytes.len() < durable {
        return;
    }
    bytes.truncate(durable);
    bytes.extend_from_slice(tail);
    let expected = Expected {
        base: row.base,
        end: row.end,
        compacted: row.compaction > 0,
        epochs: &state.epochs,
    };
    let before = findings.damages.len();
    let starts = segment::check(&log, &bytes, expected, findings);
    let sound = findings.damages.len() == before;
    if sealed
        && let Some(meta) = check_meta(files, known, &meta, state, row, findings)
        && sound
    {
        segment::check_index(&log, &meta, &starts, findings);
    }
}

/// The segment's file and its `.meta`.
fn paths(dir: &Path, row: &SegmentState) -> [PathBuf; 2] {
    ["log", "meta"].map(|end| match row.compaction {
        0 => dir.join(format!("{:020}.{end}", row.base)),
        n => dir.join(format!("{:020}.{n}.{end}", row.base)),
    })
}

fn check_meta(
    files: &impl Files,
    known: &Known,
    path: &Path,
    state: &PartitionState,
    row: &SegmentState,
    findings: &mut Findings,
) -> Option<SegmentMeta> {
    findings.looked_at(path);
    let bytes = match files.read(path) {
        Ok(bytes) => bytes,
        Err(why) if is_gone(&why) => {
            findings.damage(path, 0, ".meta of a sealed segment", "no file", "a file");
            return None;
        }
        Err(why) => {
            findings.unreadable(path, &why.to_string());
            return None;
        }
    };
    let meta = match inspect::meta(path, &known.root.storage, &bytes) {
        Ok(meta) => meta,
        Err(error) => {
            findings.log_error(path, &error);
            return None;
        }
    };
    let crc = inspect::meta_crc(&bytes);
    if crc != row.meta_crc {
        let (got, want) = (format!("{crc:08x}"), format!("{:08x}", row.meta_crc));
        findings.damage(path, 0, "CRC of the whole file", &got, &want);
    }
    let mut same = |at, what, got: String, want: String| {
        if got != want {
            findings.damage(path, at, what, &got, &want);
        }
    };
    same(32, "partition", meta.partition.id.to_string(), state.id.to_string());
    same(56, "base offset", meta.base.to_string(), row.base.to_string());
    same(64, "end offset", meta.end.to_string(), row.end.to_string());
    same(72, "segment length", meta.length.to_string(), row.length.to_string());
    Some(meta)
}
