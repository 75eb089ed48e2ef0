//! `rillctl log dump`: what a file of a data directory holds, or which files a folder has.

use std::path::{Path, PathBuf};

use rillway_log::inspect::{self, Replaying};
use rillway_log::{BLOCK, Entry, SegmentStatus};
use rillway_wire::batch::{BatchError, BatchView, RecordView, decompress, records};
use serde_json::{Value, json};

use super::batches::{is_zero, walk};
use super::files::{Disk, Files};
use super::findings::Findings;
use super::known::known;
use super::names::{Kind, Segment, kind};
use super::partition::behind_file;
use super::ring;
use super::root::{self, Root};
use super::{entries, failed, offsets, read};
use crate::error::{Error, Result};
use crate::output::{Output, Table, print, print_json, size, time};

/// Most bytes of one batch when decompressed.
const MAX_BATCH: usize = 256 << 20;

/// Print what a file of a data directory holds; of a folder, which files there are. Shows and does not judge: `verify` does.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// A file or folder of a data directory.
    #[arg(value_name = "FILE|DIR")]
    path: PathBuf,
    /// With the records of a segment's batches.
    #[arg(long)]
    records: bool,
    /// With the records of a segment of `__consumer_offsets`, decoded.
    #[arg(long, conflicts_with = "records")]
    offsets: bool,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let path = &args.path;
    if path.is_dir() {
        return folder(path, args.output);
    }
    match kind(path) {
        Kind::Storage | Kind::CurrentRings | Kind::PartitionMetadata | Kind::Snapshot => {
            let bytes = read(path)?;
            print([String::from_utf8_lossy(&bytes).trim_end().to_string()])
        }
        Kind::Lock => print(["empty: the broker that runs has it locked".to_string()]),
        Kind::Reserve => print([format!("room for a full disk, {} bytes", read(path)?.len())]),
        Kind::Log(file) => segment(path, file, args),
        Kind::Meta(_) => meta(path, args.output),
        Kind::Ring(id) => frames(path, id, args.output),
        Kind::Checkpoint(id) => checkpoint(path, id, args.output),
        Kind::Temporary | Kind::Unknown => Err(Error::UnknownFile(path.clone())),
    }
}

fn folder(dir: &Path, output: Output) -> Result<()> {
    let mut files = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder)? {
            // A file may go while others are looked at.
            let Ok(about) = path.symlink_metadata() else { continue };
            match about.is_dir() {
                true => folders.push(path),
                false => files.push((path, about.len())),
            }
        }
    }
    files.sort();
    if output.json {
        let file = |(path, bytes): &(PathBuf, u64)| json!({"file": path, "bytes": bytes, "kind": kind(path).words()});
        return print_json(&files.iter().map(file).collect());
    }
    let mut table = Table::new(&["FILE", ">SIZE", "KIND"]);
    for (path, bytes) in files {
        let shown = path.strip_prefix(dir).unwrap_or(&path).display().to_string();
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        table.row([shown, size(bytes), kind(&path).words().to_string()]);
    }
    print(table.lines())
}

/// The bytes of a segment: of one that is not sealed the last ones stand in a ring.
fn segment_bytes(path: &Path, file: Segment) -> Result<Vec<u8>> {
    let mut bytes = read(path)?;
    if file.deleted || path.with_extension("meta").exists() {
        return Ok(bytes);
    }
    let dir = root::find(path).ok();
    let known = dir.and_then(|dir| known(&Disk, &dir, &mut Findings::default()));
    let path = path.canonicalize().map_err(failed(path))?;
    if let Some((durable, tail)) = known.as_ref().and_then(|k| behind_file(k, &path, file))
        && let Ok(durable) = usize::try_from(durable)
        && durable <= bytes.len()
    {
        bytes.truncate(durable);
        bytes.extend_from_slice(tail);
    }
    Ok(bytes)
}

fn segment(path: &Path, file: Segment, args: &Args) -> Result<()> {
    let bytes = segment_bytes(path, file)?;
    let mut table = Table::new(&[
        ">POSITION",
        ">BYTES",
        ">BASE",
        ">LAST",
        ">RECORDS",
        "CODEC",
        "TIMES",
        ">PRODUCER",
        ">EPOCH",
        ">SEQUENCE",
        ">LEADER EPOCH",
        "CRC",
    ]);
    let shown = args.records || args.offsets;
    let (mut all, mut lines, mut end) = (Vec::new(), Vec::new(), None);
    for (at, batch) in walk(&bytes) {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => {
                let rest =
                    usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                end = Some(match is_zero(rest) {
                    true => format!("from byte {at} on: zeros, room taken ahead"),
                    false => format!("from byte {at} on: no whole batch ({error})"),
                });
                break;
            }
        };
        let codec =
            batch.codec().map_or("unknown".to_string(), |c| format!("{c:?}").to_lowercase());
        let fits = batch.check_crc();
        let crc = if fits { "ok" } else { "WRONG" };
        if args.output.json {
            all.push(json!({
                "position": at,
                "bytes": batch.total_len(),
                "base_offset": batch.base_offset(),
                "last_offset": batch.last_offset(),
                "records": batch.record_count(),
                "codec": codec,
                "base_timestamp_ms": batch.base_timestamp(),
                "max_timestamp_ms": batch.max_timestamp(),
                "producer_id": batch.producer_id(),
                "producer_epoch": batch.producer_epoch(),
                "base_sequence": batch.base_sequence(),
                "leader_epoch": batch.leader_epoch(),
                "crc": format!("{:08x}", batch.crc()),
                "crc_fits": fits,
                "content": shown.then(|| contents(&batch, args.offsets)),
            }));
            continue;
        }
        table.row([
            at.to_string(),
            batch.total_len().to_string(),
            batch.base_offset().to_string(),
            batch.last_offset().to_string(),
            batch.record_count().to_string(),
            codec,
            format!("{} {}", time(batch.base_timestamp()), time(batch.max_timestamp())),
            batch.producer_id().to_string(),
            batch.producer_epoch().to_string(),
            batch.base_sequence().to_string(),
            batch.leader_epoch().to_string(),
            crc.to_string(),
        ]);
        if shown {
            lines.extend(
                contents(&batch, args.offsets)
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(Value::to_string),
            );
        }
    }
    if args.output.json {
        print_json(&json!({"batches": all, "end": end}))?;
    } else {
        print(table.lines().into_iter().chain(lines).chain(end))?;
    }
    Ok(())
}

/// The records of a batch, those of committed offsets decoded; other bytes that are no text are shown with replacement
/// characters.
fn contents(batch: &BatchView<'_>, as_offsets: bool) -> Value {
    let unpacked =
        match batch.codec().and_then(|codec| decompress(codec, batch.records(), MAX_BATCH)) {
            Ok(unpacked) => unpacked,
            Err(error) => return json!([{"error": error.to_string()}]),
        };
    let text = |bytes: Option<&[u8]>| json!(bytes.map(String::from_utf8_lossy));
    let record = |record: Result<RecordView<'_>, BatchError>| match record {
        Ok(r) => {
            let (key, value) = match as_offsets {
                true => offsets::decoded(r.key, r.value),
                false => (text(r.key), text(r.value)),
            };
            json!({
                "offset": batch.base_offset().saturating_add(i64::from(r.offset_delta)),
                "timestamp_ms": batch.base_timestamp().saturating_add(r.timestamp_delta),
                "key": key,
                "value": value,
            })
        }
        Err(error) => json!({"error": error.to_string()}),
    };
    records(&unpacked).map(record).collect()
}

fn meta(path: &Path, output: Output) -> Result<()> {
    let root = Root::open(&root::find(path)?)?;
    let meta = inspect::meta(path, &root.storage, &read(path)?)?;
    let entry = |e: &rillway_log::IndexEntry| json!({"position": e.position, "base_offset": e.base_offset, "max_timestamp_ms": e.max_timestamp});
    if output.json {
        return print_json(&json!({
            "partition": meta.partition.id.to_string(),
            "base_offset": meta.base,
            "end_offset": meta.end,
            "bytes": meta.length,
            "index": meta.index.iter().map(entry).collect::<Value>(),
            "producers": meta.producers.len(),
        }));
    }
    let head = format!(
        "partition {}, offsets {} to {}, {} bytes, {} producers",
        meta.partition.id,
        meta.base,
        meta.end,
        meta.length,
        meta.producers.len()
    );
    let mut table = Table::new(&[">POSITION", ">BASE", "LARGEST TIME BEFORE"]);
    for e in &meta.index {
        table.row([e.position.to_string(), e.base_offset.to_string(), time(e.max_timestamp)]);
    }
    print([head].into_iter().chain(table.lines()))
}

/// The frames behind the newest checkpoint of a ring.
fn frames(path: &Path, id: u64, output: Output) -> Result<()> {
    let root = Root::open(&root::find(path)?)?;
    let ring = root.ring(id).ok_or_else(|| Error::UnknownFile(path.to_path_buf()))?;
    inspect::ring_header(path, ring, &Disk.read_at(path, 0, BLOCK).map_err(failed(path))?)?;
    let slots = ring::checkpoints(&Disk, ring);
    let Some((slot, number)) = ring::newest(&slots) else {
        return Err(Error::Damaged { path: path.to_path_buf(), found: slots.len() });
    };
    let mut replaying = Replaying::new(&slot.path, ring, &slot.bytes)?;
    let mut all = Vec::new();
    let mut table = Table::new(&[">POSITION", ">SEQUENCE", ">BYTES", "TIME", "ENTRIES"]);
    let (position, end, _) = ring::replay(&Disk, ring, &mut replaying, |f| {
        let entries = match f.entries {
            Ok(entries) => entries.iter().map(entry).collect::<Vec<_>>(),
            Err(p) => vec![format!("{}: got {}, expected {}", p.what, p.got, p.expected)],
        };
        if output.json {
            all.push(json!({
                "position": f.position,
                "sequence": f.header.sequence.0,
                "bytes": f.header.frame_len(),
                "time_ms": f.header.wall_ms,
                "mark": f.header.mark,
                "checkpoint": f.header.checkpoint,
                "entries": entries,
            }));
            return;
        }
        let entries = if f.header.mark { "mark".to_string() } else { entries.join("; ") };
        let (sequence, len) = (f.header.sequence.0.to_string(), f.header.frame_len().to_string());
        table.row([f.position.to_string(), sequence, len, time(f.header.wall_ms), entries]);
    });
    if output.json {
        let end = json!({"position": position, "kind": end.word()});
        return print_json(&json!({"checkpoint": number, "frames": all, "end": end}));
    }
    let head = format!("ring {id}, frames behind checkpoint {number}");
    let end = format!("ends at byte {position}: {}", end.word());
    print([head].into_iter().chain(table.lines()).chain([end]))
}

/// An entry in a few words.
fn entry(entry: &Entry<'_>) -> String {
    match entry {
        Entry::Append { partition, segment, position, base_offset, batches } => {
            let at = partition.id;
            format!(
                "append {at} segment {segment} byte {position} offset {base_offset}, {} bytes",
                batches.len()
            )
        }
        Entry::Extent(e) => {
            let at = e.partition.id;
            format!(
                "extent {at} segment {} byte {} offset {}, {} bytes",
                e.segment, e.position, e.base_offset, e.length
            )
        }
        Entry::Roll { partition, ended, next, .. } => {
            format!("roll {} segment {ended} to {next}", partition.id)
        }
        Entry::Seal { partition, segment, length, .. } => {
            format!("seal {} segment {segment}, {length} bytes", partition.id)
        }
        Entry::Replace { partition, clean_end, old, new } => format!(
            "replace {} {} segments by {}, clean to {clean_end}",
            partition.id,
            old.len(),
            new.len()
        ),
        Entry::LogStart { partition, offset } => format!("log start {} {offset}", partition.id),
        Entry::Epoch { partition, epoch, start } => {
            format!("epoch {} {epoch} from {start}", partition.id)
        }
        Entry::ProducerIds { next } => format!("producer ids to {next}"),
        Entry::Truncate { partition, end, .. } => format!("truncate {} to {end}", partition.id),
        Entry::Create { partition, topic, .. } => format!("create {} topic {topic}", partition.id),
        Entry::Delete { partition } => format!("delete {}", partition.id),
        Entry::Move { partition, target } => format!("move {} to ring {target}", partition.id),
    }
}

fn checkpoint(path: &Path, id: u64, output: Output) -> Result<()> {
    let root = Root::open(&root::find(path)?)?;
    let ring = root.ring(id).ok_or_else(|| Error::UnknownFile(path.to_path_buf()))?;
    let bytes = read(path)?;
    let c = match inspect::checkpoint(path, ring, &bytes)? {
        Ok(checkpoint) => checkpoint,
        Err(p) => {
            let (position, what, got, expected) = (p.position, p.what, p.got, p.expected);
            let path = path.to_path_buf();
            return Err(Error::Log(rillway_log::Error::Corrupt {
                path,
                position,
                what,
                got,
                expected,
            }));
        }
    };
    let mut all = Vec::new();
    let mut table = Table::new(&[
        "PARTITION",
        ">START",
        ">END",
        ">SEGMENT",
        ">SEGMENT END",
        ">BYTES",
        ">DURABLE",
        "STATE",
    ]);
    for p in &c.partitions {
        let s = &p.state;
        for row in &s.segments {
            let status = match row.status {
                SegmentStatus::Active => "active",
                SegmentStatus::Rolled => "rolled",
                SegmentStatus::Sealed => "sealed",
            };
            all.push(json!({
                "topic": s.topic,
                "partition": s.id.index,
                "log_start_offset": s.log_start,
                "end_offset": s.end,
                "segment": row.base,
                "segment_end": row.end,
                "compaction": row.compaction,
                "bytes": row.length,
                "durable": row.durable,
                "state": status,
            }));
            table.row([
                format!("{}-{}", s.topic, s.id.index),
                s.log_start.to_string(),
                s.end.to_string(),
                row.base.to_string(),
                row.end.to_string(),
                row.length.to_string(),
                row.durable.to_string(),
                status.to_string(),
            ]);
        }
    }
    if output.json {
        return print_json(&json!({
            "number": c.number,
            "clean": c.clean,
            "time_ms": c.wall_ms,
            "replay_position": c.replay_position,
            "replay_sequence": c.replay_sequence.0,
            "next_producer_id": c.next_producer_id,
            "segments": all,
            "deletions": c.deletions,
        }));
    }
    let head = format!(
        "checkpoint {} of ring {id}, {}, {}; replay from byte {}, frame {}",
        c.number,
        time(c.wall_ms),
        if c.clean { "clean stop" } else { "running" },
        c.replay_position,
        c.replay_sequence.0
    );
    let deletions = c.deletions.iter().map(|d| format!("being deleted: {d}"));
    print([head].into_iter().chain(table.lines()).chain(deletions))
}
