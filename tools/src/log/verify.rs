//! `rillctl log verify`: every checksum and every relation between the files of a data directory.
//!
//! What is known is what the newest checkpoints say, and the frames behind them. A file is compared with that up to
//! where it is durable; what lies behind is not acknowledged, or stands in a ring, whose frames have checksums of their
//! own. Partitions that the frames behind a checkpoint cut, compact or delete are not compared with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rillway_log::inspect::{self, Checkpoint};
use rillway_log::{Entry, PartitionId, PartitionState, RingRef, SegmentStatus};
use serde_json::{Value, json};

use super::names::{Kind, Segment, kind};
use super::ring::{self, End};
use super::root::{self, Root};
use super::segment::{self, Expected};
use super::{entries, name, read};
use crate::error::{Error, Result};
use crate::output::{Output, print, print_json};

/// Check every file of a data directory, or one of them. Exits with 5 when something is damaged.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// A data directory, or a file or folder in one.
    #[arg(value_name = "DIR|FILE")]
    path: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    damages: Vec<Damage>,
    notes: Vec<(PathBuf, u64, String)>,
    files: BTreeSet<PathBuf>,
}

#[derive(Debug)]
struct Damage {
    path: PathBuf,
    position: u64,
    what: String,
    got: String,
    expected: String,
}

impl Findings {
    /// Something is wrong.
    pub(super) fn damage(&mut self, path: &Path, at: u64, what: &str, got: &str, expected: &str) {
        self.damages.push(Damage {
            path: path.to_path_buf(),
            position: at,
            what: what.to_string(),
            got: got.to_string(),
            expected: expected.to_string(),
        });
    }

    /// Something that a crash leaves, or a broker that runs.
    pub(super) fn note(&mut self, path: &Path, at: u64, what: &str) {
        self.notes.push((path.to_path_buf(), at, what.to_string()));
    }

    fn log_error(&mut self, path: &Path, error: rillway_log::Error) {
        match error {
            rillway_log::Error::Corrupt { position, what, got, expected, .. } => {
                self.damage(path, position, what, &got, &expected);
            }
            other => self.damage(path, 0, "file", &other.to_string(), "one that can be read"),
        }
    }

    /// The bytes of a file; that it cannot be read is a finding.
    fn read(&mut self, path: &Path) -> Option<Vec<u8>> {
        self.files.insert(path.to_path_buf());
        match read(path) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                self.damage(path, 0, "file", &error.to_string(), "one that can be read");
                None
            }
        }
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    let dir = root::find(&args.path)?;
    let only = args.path.canonicalize().unwrap_or_else(|_| args.path.clone());
    let mut findings = verify(&dir)?;
    findings.damages.retain(|d| d.path.starts_with(&only));
    findings.notes.retain(|(path, ..)| path.starts_with(&only));
    findings.files.retain(|path| path.starts_with(&only));
    show(&args.output, &findings)?;
    match findings.damages.len() {
        0 => Ok(()),
        found => Err(Error::Damaged { path: args.path.clone(), found }),
    }
}

fn show(output: &Output, findings: &Findings) -> Result<()> {
    if output.json {
        let damages = findings.damages.iter().map(|d| {
            json!({
                "file": d.path,
                "position": d.position,
                "what": d.what,
                "got": d.got,
                "expected": d.expected,
            })
        });
        let note = |(path, at, what): &(PathBuf, u64, String)| json!({"file": path, "position": at, "what": what});
        return print_json(&json!({
            "files": findings.files.len(),
            "damages": damages.collect::<Value>(),
            "notes": findings.notes.iter().map(note).collect::<Value>(),
        }));
    }
    let notes = findings.notes.iter();
    let notes =
        notes.map(|(path, at, what)| format!("note: {} at byte {at}: {what}", path.display()));
    let damages = findings.damages.iter().map(|d| {
        let (path, at) = (d.path.display(), d.position);
        format!("damaged: {path} at byte {at}: {}: got {}, expected {}", d.what, d.got, d.expected)
    });
    let (files, found) = (findings.files.len(), findings.damages.len());
    let sum = format!("{files} files checked, {found} damages");
    print(notes.chain(damages).chain([sum]))
}

/// Checks a data directory.
fn verify(dir: &Path) -> Result<Findings> {
    let mut findings = Findings::default();
    let root = match Root::open(dir) {
        Ok(root) => root,
        Err(Error::Log(error)) => {
            // Without identity and salts nothing else can be read.
            let path = match &error {
                rillway_log::Error::Corrupt { path, .. }
                | rillway_log::Error::Version { path, .. } => path.clone(),
                _ => dir.join("storage"),
            };
            findings.files.insert(path.clone());
            findings.log_error(&path, error);
            return Ok(findings);
        }
        Err(error) => return Err(error),
    };
    findings.files.extend([dir.join("storage"), dir.join("rings").join("current")]);
    let mut known = Known::default();
    for ring in &root.rings {
        check_ring(&root, ring, &mut known, &mut findings);
    }
    for path in entries(dir)? {
        match kind(&path) {
            Kind::Lock | Kind::Reserve => {
                findings.files.insert(path);
            }
            Kind::Storage | Kind::Temporary => {}
            _ if path.is_dir() && name(&path) == "rings" => {
                check_rings_folder(&root, &path, &mut findings)?
            }
            _ if path.is_dir() => check_partition(&root, &path, &known, &mut findings)?,
            _ => findings.note(&path, 0, "not one of ours"),
        }
    }
    Ok(findings)
}

/// What the rings say.
#[derive(Default)]
struct Known {
    /// By the name of the folder.
    partitions: BTreeMap<String, (PartitionState, Vec<Vec<u8>>)>,
    /// Changed behind the checkpoint in a way that its files show.
    changed: BTreeSet<PartitionId>,
}

impl Known {
    /// Of two states of one partition the higher generation wins.
    fn add(&mut self, state: &PartitionState, tails: &[&[u8]]) {
        let folder = format!("{}-{}", state.topic, state.id.index);
        let newer =
            self.partitions.get(&folder).is_none_or(|(p, _)| p.generation < state.generation);
        if newer {
            let tails = tails.iter().map(|t| t.to_vec()).collect();
            self.partitions.insert(folder, (state.clone(), tails));
        }
    }
}

fn check_ring(root: &Root, ring: &RingRef, known: &mut Known, findings: &mut Findings) {
    let path = ring::path(ring);
    let Some(bytes) = findings.read(&path) else { return };
    if bytes.len() as u64 != ring.bytes {
        let got = bytes.len().to_string();
        findings.damage(
            &path,
            bytes.len() as u64,
            "length of a ring",
            &got,
            &ring.bytes.to_string(),
        );
    }
    if ring.storage != root.storage {
        let current = root.dir.join("rings").join("current");
        findings.damage(&current, 0, "storage id", "another one", "that of the file storage");
    }
    if let Err(error) = inspect::ring_header(&path, ring, &bytes) {
        findings.log_error(&path, error);
    }
    let paths = ring::checkpoint_paths(ring);
    let read: Vec<Option<Vec<u8>>> = paths.iter().map(|path| findings.read(path)).collect();
    let mut valid: Vec<Checkpoint<'_>> = Vec::new();
    let mut invalid = Vec::new();
    for (path, bytes) in paths.iter().zip(&read) {
        let Some(bytes) = bytes else { continue };
        match inspect::checkpoint(path, ring, bytes) {
            Ok(Ok(checkpoint)) => valid.push(checkpoint),
            Ok(Err(problem)) => invalid.push((path, problem)),
            Err(error) => findings.log_error(path, error),
        }
    }
    valid.sort_by_key(|c| c.number);
    let newest = valid.last();
    for (path, problem) in invalid {
        // One that is torn by a crash is the one that was being written, and then the other is not of a clean stop.
        let may_be_torn = newest.is_some_and(|c| !c.clean);
        if may_be_torn {
            let what = format!(
                "{}: got {}, expected {}: torn by a crash, or damaged; the other checkpoint holds",
                problem.what, problem.got, problem.expected
            );
            findings.note(path, problem.position, &what);
        } else {
            findings.damage(path, problem.position, problem.what, &problem.got, &problem.expected);
        }
    }
    let Some(newest) = newest else { return };
    for p in &newest.partitions {
        known.add(&p.state, &p.tails);
    }
    let (frames, position, end) = ring::frames(ring, &bytes, newest);
    for frame in &frames {
        match &frame.entries {
            Ok(entries) => entries.iter().for_each(|e| note_change(e, known)),
            Err(p) => {
                findings.damage(&path, frame.position + p.position, p.what, &p.got, &p.expected)
            }
        }
    }
    match end {
        End::Whole => {}
        End::Torn => {
            findings.note(&path, position, "a frame that was begun and never acknowledged")
        }
        End::Damaged { later, at } => {
            let sequence = newest.replay_sequence.0 + frames.len() as u64;
            let got = format!("bytes that do not fit, and frame {} at byte {at}", later.0);
            findings.damage(&path, position, "frame", &got, &format!("frame {sequence}"));
        }
    }
}

fn note_change(entry: &Entry<'_>, known: &mut Known) {
    let partition = match entry {
        Entry::Replace { partition, .. }
        | Entry::LogStart { partition, .. }
        | Entry::Truncate { partition, .. }
        | Entry::Create { partition, .. }
        | Entry::Delete { partition }
        | Entry::Move { partition, .. } => partition,
        Entry::Append { .. }
        | Entry::Extent(_)
        | Entry::Roll { .. }
        | Entry::Seal { .. }
        | Entry::Epoch { .. }
        | Entry::ProducerIds { .. } => return,
    };
    known.changed.insert(partition.id);
}

fn check_rings_folder(root: &Root, dir: &Path, findings: &mut Findings) -> Result<()> {
    for path in entries(dir)? {
        match kind(&path) {
            Kind::Ring(id) | Kind::Checkpoint(id) if root.ring(id).is_none() => {
                findings.note(&path, 0, "of a ring that is not in use; removed at the next start");
            }
            Kind::Ring(_) | Kind::Checkpoint(_) | Kind::CurrentRings | Kind::Temporary => {}
            _ => findings.note(&path, 0, "not one of ours"),
        }
    }
    Ok(())
}

fn check_partition(root: &Root, dir: &Path, known: &Known, findings: &mut Findings) -> Result<()> {
    let partition = known.partitions.get(name(dir)).filter(|(p, _)| !known.changed.contains(&p.id));
    let mut present = BTreeSet::new();
    for path in entries(dir)? {
        match kind(&path) {
            Kind::PartitionMetadata => {
                let Some(bytes) = findings.read(&path) else { continue };
                check_identity(&path, &bytes, partition.map(|(p, _)| p), findings);
            }
            Kind::Snapshot => {
                let Some(bytes) = findings.read(&path) else { continue };
                if let Err(error) = inspect::checked_text(&path, &bytes) {
                    findings.log_error(&path, error);
                }
            }
            Kind::Log(s) => {
                present.insert(s);
                check_log(&path, s, partition, findings);
            }
            Kind::Meta(s) => check_meta(root, &path, s, partition, findings),
            Kind::Temporary => {}
            _ => findings.note(&path, 0, "not one of ours"),
        }
    }
    let Some((state, _)) = partition else { return Ok(()) };
    for row in &state.segments {
        let want = Segment { base: row.base, compaction: row.compaction, deleted: false };
        if row.durable > 0 && row.end > state.log_start && !present.contains(&want) {
            let path = dir.join(format!("{:020}.log", row.base));
            findings.damage(&path, 0, "segment", "no file", &format!("{} bytes", row.durable));
        }
    }
    Ok(())
}

fn check_identity(
    path: &Path,
    bytes: &[u8],
    state: Option<&PartitionState>,
    findings: &mut Findings,
) {
    let text = String::from_utf8_lossy(bytes);
    let id = text.lines().find_map(|l| l.strip_prefix("topic_id: "));
    if !text.starts_with("version: 0\n") || id.is_none_or(|id| id.len() != 22) {
        findings.damage(
            path,
            0,
            "lines",
            text.trim_end(),
            "version: 0 and a topic_id of 22 letters",
        );
    } else if let (Some(id), Some(state)) = (id, state)
        && id != state.id.topic.base64()
    {
        findings.damage(path, 0, "topic id", id, &state.id.topic.base64());
    }
}

fn check_log(
    path: &Path,
    file: Segment,
    partition: Option<&(PartitionState, Vec<Vec<u8>>)>,
    findings: &mut Findings,
) {
    let Some(mut bytes) = findings.read(path) else { return };
    let mut expected = Expected {
        base: file.base,
        compacted: file.compaction > 0,
        end: None,
        // A file that is to be deleted, or that nobody knows anything about, may be of any state.
        open: true,
    };
    let row = partition.and_then(|(state, tails)| {
        let at = state
            .segments
            .iter()
            .position(|s| s.base == file.base && s.compaction == file.compaction)?;
        Some((state.segments.get(at)?, tails.get(at)?))
    });
    if let Some((row, tail)) = row.filter(|_| !file.deleted) {
        let sealed = row.status == SegmentStatus::Sealed;
        let durable = usize::try_from(row.durable).unwrap_or(usize::MAX);
        if bytes.len() < durable || (sealed && bytes.len() != durable) {
            let got = bytes.len().to_string();
            findings.damage(path, bytes.len() as u64, "length", &got, &row.durable.to_string());
        }
        // Behind what is durable stands what a ring has too; the checkpoint has it as well.
        bytes.truncate(durable);
        bytes.extend_from_slice(tail);
        expected.end = Some(row.end);
        expected.open = false;
    }
    segment::check(path, &bytes, expected, findings);
}

fn check_meta(
    root: &Root,
    path: &Path,
    file: Segment,
    partition: Option<&(PartitionState, Vec<Vec<u8>>)>,
    findings: &mut Findings,
) {
    let Some(bytes) = findings.read(path) else { return };
    let meta = match inspect::meta(path, &root.storage, &bytes) {
        Ok(meta) => meta,
        Err(error) => return findings.log_error(path, error),
    };
    if meta.base != file.base {
        findings.damage(path, 56, "base offset", &meta.base.to_string(), &file.base.to_string());
    }
    let row = partition.and_then(|(state, _)| state.segments.iter().find(|s| s.base == file.base));
    if let Some(row) = row
        && !file.deleted
        && row.status == SegmentStatus::Sealed
        && row.compaction == file.compaction
    {
        let crc = inspect::meta_crc(&bytes);
        if crc != row.meta_crc {
            let (got, want) = (format!("{crc:08x}"), format!("{:08x}", row.meta_crc));
            findings.damage(path, 0, "CRC of the whole file", &got, &want);
        }
        if meta.end != row.end {
            findings.damage(path, 64, "end offset", &meta.end.to_string(), &row.end.to_string());
        }
    }
    let log = name(path).replace(".meta", ".log");
    let log = path.with_file_name(log);
    if let Ok(bytes) = read(&log) {
        // What is wrong with the segment itself is told where that is checked.
        let mut ignored = Findings::default();
        let compacted = file.compaction > 0;
        let expected = Expected { base: meta.base, compacted, end: None, open: true };
        let starts = segment::check(&log, &bytes, expected, &mut ignored);
        segment::check_meta(path, &meta, &starts, bytes.len() as u64, findings);
    }
}
