//! `rillctl log verify`: every checksum and every relation between the files of a data directory.
//!
//! What is known is what a start would believe: the newest checkpoints and the frames behind them, applied by the code
//! of recovery. Each segment is compared with that.
//!
//! A broker may be writing all of it. Nothing is locked: what looks damaged is read again, together with the rings, until
//! it is sound, or until nothing has changed since the reading before, or five times. Then it is damaged if it looked the
//! same each time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::files::{Disk, Files, Stamp, is_gone};
use super::findings::Findings;
use super::known::{Known, known};
use super::names::{Kind, kind};
use super::root;
use super::{name, partition};
use crate::error::{Error, Result};
use crate::output::{Output, print, print_json};

/// How long a broker that runs is left alone between two readings of what looks damaged, in ms. The first is above the
/// tick by which file systems tell the time of a write (10 ms at most).
const PAUSES: [u64; 4] = [100, 200, 400, 800];

/// Check every file of a data directory, or one of them. Exits with 5 when something is damaged.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// A data directory, or a file or folder in one.
    #[arg(value_name = "DIR|FILE")]
    path: PathBuf,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let dir = root::find(&args.path)?;
    let only = args.path.canonicalize().unwrap_or_else(|_| args.path.clone());
    let mut findings = verify(&Disk, &dir)?;
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
pub(super) fn verify(files: &impl Files, dir: &Path) -> Result<Findings> {
    let (known, mut findings) = settled(files, dir, |_| {
        let mut findings = Findings::default();
        (known(files, dir, &mut findings), findings)
    });
    // Without identity and salts nothing else can be read.
    let Some(known) = known else { return Ok(findings) };
    let mut folders: BTreeSet<PathBuf> = known.partitions.keys().map(|f| dir.join(f)).collect();
    for (path, is_folder) in list(files, dir)? {
        match kind(&path) {
            Kind::Lock | Kind::Reserve => findings.looked_at(&path),
            Kind::Storage | Kind::Temporary => {}
            _ if is_folder && name(&path) == "rings" => {
                rings_folder(files, &known, &path, &mut findings)?
            }
            _ if is_folder && name(&path).ends_with("-delete") => {
                findings.note(&path, 0, "of a deleted partition, waits to be removed; not checked");
            }
            _ if is_folder => {
                folders.insert(path);
            }
            _ => findings.note(&path, 0, "not one of ours"),
        }
    }
    for folder in folders {
        let ((), found) = settled(files, dir, |again| {
            let mut findings = Findings::default();
            let newer = again.then(|| self::known(files, dir, &mut Findings::default())).flatten();
            partition::check(files, newer.as_ref().unwrap_or(&known), &folder, &mut findings);
            ((), findings)
        });
        findings.add(found);
    }
    Ok(findings)
}

/// Runs a check until what it finds can be believed; see the module. The check is told whether it runs again.
fn settled<T>(
    files: &impl Files,
    dir: &Path,
    mut check: impl FnMut(bool) -> (T, Findings),
) -> (T, Findings) {
    let (mut value, mut found) = check(false);
    let mut always = found.damages.clone();
    let mut before = stamps(files, dir, &found);
    for pause in PAUSES {
        if found.damages.is_empty() {
            return (value, found);
        }
        files.pause(Duration::from_millis(pause));
        (value, found) = check(true);
        always.retain(|damage| found.damages.contains(damage));
        let after = stamps(files, dir, &found);
        if after == before {
            return (value, found);
        }
        before = after;
    }
    let (damages, changing): (Vec<_>, Vec<_>) =
        std::mem::take(&mut found.damages).into_iter().partition(|d| always.contains(d));
    found.damages = damages;
    for d in changing {
        let what = format!(
            "{}: got {}, expected {}: looked otherwise each time it was read; the broker writes it",
            d.what, d.got, d.expected
        );
        found.note(&d.path, d.position, &what);
    }
    (value, found)
}

/// Of everything that what was found depends on: the files themselves, and the rings with their checkpoints.
fn stamps(files: &impl Files, dir: &Path, found: &Findings) -> Vec<(PathBuf, Option<Stamp>)> {
    let rings =
        files.list(&dir.join("rings")).unwrap_or_default().into_iter().map(|(path, _)| path);
    let damaged = found.damages.iter().map(|d| d.path.clone());
    let all: BTreeSet<PathBuf> = rings.chain(damaged).collect();
    all.into_iter().map(|path| (path.clone(), files.stamp(&path))).collect()
}

fn list(files: &impl Files, dir: &Path) -> Result<Vec<(PathBuf, bool)>> {
    match files.list(dir) {
        Ok(entries) => Ok(entries),
        Err(why) if is_gone(&why) => Ok(Vec::new()),
        Err(source) => Err(Error::File { path: dir.to_path_buf(), source }),
    }
}

fn rings_folder(
    files: &impl Files,
    known: &Known,
    dir: &Path,
    findings: &mut Findings,
) -> Result<()> {
    for (path, _) in list(files, dir)? {
        match kind(&path) {
            Kind::Ring(id) | Kind::Checkpoint(id) if known.root.ring(id).is_none() => {
                findings.note(&path, 0, "of a ring that is not in use; removed at the next start");
            }
            Kind::Ring(_) | Kind::Checkpoint(_) | Kind::CurrentRings | Kind::Temporary => {}
            _ => findings.note(&path, 0, "not one of ours"),
        }
    }
    Ok(())
}
