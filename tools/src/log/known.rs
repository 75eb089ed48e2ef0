//! What a start would believe: the identity of a data directory, and what its rings say of every partition.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rillway_log::inspect::{self, Replayed, ReplayedPartition, Replaying};
use rillway_log::{Error as LogError, RingRef};

use super::files::Files;
use super::findings::Findings;
use super::ring::{self, End, Judged, Slot};
use super::root::Root;

/// How often a ring is read anew because the broker wrote a checkpoint meanwhile. Each reading takes milliseconds, and a
/// broker needs a quarter of its ring for a checkpoint.
const READINGS: usize = 8;

/// See the module.
pub(super) struct Known {
    pub(super) root: Root,
    /// By the name of the folder.
    pub(super) partitions: BTreeMap<String, ReplayedPartition>,
    /// Folders of partitions that are being deleted.
    pub(super) deletions: BTreeSet<String>,
    /// All rings were read to their ends. Otherwise nothing is known of what is not in here.
    pub(super) whole: bool,
}

/// Reads identity and rings; `None` when nothing else can be read without what is damaged.
pub(super) fn known(files: &impl Files, dir: &Path, findings: &mut Findings) -> Option<Known> {
    let root = match Root::read(files, dir) {
        Ok(root) => root,
        Err((path, error)) => {
            findings.looked_at(&path);
            match error {
                Ok(error) => findings.log_error(&path, &error),
                Err(why) => findings.unreadable(&path, &why.to_string()),
            }
            return None;
        }
    };
    findings.looked_at(&dir.join("storage"));
    let current = dir.join("rings").join("current");
    findings.looked_at(&current);
    if root.rings.iter().any(|ring| ring.storage != root.storage) {
        findings.damage(&current, 0, "storage id", "another one", "that of the file storage");
    }
    let mut known = Known {
        partitions: BTreeMap::new(),
        deletions: BTreeSet::new(),
        whole: true,
        root: root.clone(),
    };
    for ring in &root.rings {
        match read_ring(files, ring, findings) {
            Some(replayed) => known.add(replayed),
            None => known.whole = false,
        }
    }
    Some(known)
}

impl Known {
    /// Of two states of one partition the higher generation wins.
    fn add(&mut self, replayed: Replayed) {
        for p in replayed.partitions {
            let folder = format!("{}-{}", p.state.topic, p.state.id.index);
            let newer = self
                .partitions
                .get(&folder)
                .is_none_or(|known| known.state.generation < p.state.generation);
            if newer {
                self.partitions.insert(folder, p);
            }
        }
        self.deletions.extend(replayed.deletions);
    }
}

/// What a ring says; `None` when that is damaged, or written faster than it can be read.
fn read_ring(files: &impl Files, ring: &RingRef, findings: &mut Findings) -> Option<Replayed> {
    let path = ring::path(ring);
    findings.looked_at(&path);
    ring::checkpoint_paths(ring).iter().for_each(|path| findings.looked_at(path));
    match files.read_at(&path, 0, rillway_log::BLOCK) {
        Ok(block) => {
            if let Err(error) = inspect::ring_header(&path, ring, &block) {
                findings.log_error(&path, &error);
            }
        }
        Err(why) => findings.unreadable(&path, &why.to_string()),
    }
    if let Some(stamp) = files.stamp(&path)
        && stamp.bytes != ring.bytes
    {
        let (got, want) = (stamp.bytes.to_string(), ring.bytes.to_string());
        findings.damage(&path, stamp.bytes.min(ring.bytes), "length of a ring", &got, &want);
    }
    let mut slots = ring::checkpoints(files, ring);
    for _ in 0..READINGS {
        let Some((slot, number)) = ring::newest(&slots) else {
            findings_of_slots(&slots, true, findings);
            return None;
        };
        let read = Replaying::new(&slot.path, ring, &slot.bytes);
        let mut replaying = match read {
            Ok(replaying) => replaying,
            Err(error) => {
                findings.log_error(&slot.path, &error);
                return None;
            }
        };
        let (position, end, flushed) = ring::replay(files, ring, &mut replaying, |_| {});
        // What is missing or does not fit may be in a checkpoint that was written meanwhile.
        let suspect = matches!(end, End::Missing { .. } | End::Refused(_)) || flushed > number;
        if suspect {
            let again = ring::checkpoints(files, ring);
            if ring::newest(&again).is_some_and(|(_, newer)| newer > number) {
                slots = again;
                continue;
            }
        }
        // That a frame says it was flushed proves that no crash tore it.
        findings_of_slots(&slots, flushed > number, findings);
        if flushed > number && slots.iter().all(|slot| valid(slot).is_some()) {
            let got = number.to_string();
            findings.damage(
                &slot.path,
                40,
                "number of the newest checkpoint",
                &got,
                &flushed.to_string(),
            );
        }
        return judge_end(&path, position, end, replaying, findings);
    }
    findings.note(
        &path,
        0,
        "the broker writes it faster than it can be read; its partitions were not compared with it",
    );
    None
}

fn valid(slot: &Slot) -> Option<u64> {
    match slot.judged {
        Judged::Valid { number } => Some(number),
        Judged::New | Judged::Invalid(_) | Judged::Refused(_) | Judged::Unreadable(_) => None,
    }
}

/// `proven`: one that is not valid cannot be a write that a crash ended.
fn findings_of_slots(slots: &[Slot; 2], proven: bool, findings: &mut Findings) {
    let any = slots.iter().any(|slot| valid(slot).is_some());
    for slot in slots {
        match &slot.judged {
            Judged::Valid { .. } => {}
            Judged::New if any && !proven => {}
            Judged::New => {
                findings.damage(
                    &slot.path,
                    0,
                    "checkpoint",
                    "one that was never written",
                    "a valid one",
                );
            }
            Judged::Invalid(problem) if proven => findings.problem(&slot.path, problem),
            Judged::Invalid(problem) => {
                let what = format!(
                    "{}: got {}, expected {}: torn by a crash, or damaged; the other checkpoint holds",
                    problem.what, problem.got, problem.expected
                );
                findings.note(&slot.path, problem.position, &what);
            }
            Judged::Refused(error) => findings.log_error(&slot.path, error),
            Judged::Unreadable(why) => findings.unreadable(&slot.path, &why.to_string()),
        }
    }
}

fn judge_end(
    path: &Path,
    position: u64,
    end: End,
    replaying: Replaying,
    findings: &mut Findings,
) -> Option<Replayed> {
    match end {
        End::Whole | End::Written => {}
        End::Torn => findings.note(
            path,
            position,
            "a frame that was begun and never acknowledged, or the last one is damaged",
        ),
        End::Missing { sequence, later, at } => {
            let got = format!("bytes that do not fit, and frame {} at byte {at}", later.0);
            findings.damage(path, position, "frame", &got, &format!("frame {}", sequence.0));
            return None;
        }
        End::Refused(error) => {
            findings.log_error(path, &error);
            return None;
        }
        End::Unreadable(why) => {
            findings.unreadable(path, &why.to_string());
            return None;
        }
    }
    match replaying.finish() {
        Ok(replayed) => Some(replayed),
        Err(error) => {
            findings.log_error(path, &error);
            None
        }
    }
}

/// Why a root cannot be read: the file, and what its reader or the system says.
pub(super) type RootError = (PathBuf, Result<LogError, std::io::Error>);
