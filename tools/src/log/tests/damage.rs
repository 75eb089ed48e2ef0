//! One wrong bit anywhere, and files that are cut: what the format protects is found, and what nothing protects is this
//! list and no more (FORMAT.md 9).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use proptest::prelude::*;
use rillway_log::inspect::{self, Replaying};
use rillway_log::{BLOCK, SegmentStatus};

use super::Memory;
use super::made::{DIR, End, made};
use crate::log::batches::walk;
use crate::log::findings::Findings;
use crate::log::known::known;
use crate::log::names::{Kind, kind};
use crate::log::ring;
use crate::log::verify::verify;

/// What becomes of a wrong bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Damage, told with file and position.
    Found,
    /// Told as what a crash may have left as well.
    Noted,
    /// Told, as one or the other.
    Told,
    /// Nothing protects it, and nobody reads it.
    Unread,
    /// Told, or so that it still fits its neighbours.
    Perhaps,
}

/// The fates of a file's bytes, by where each begins.
type Fates = BTreeMap<usize, Fate>;

struct Example {
    memory: Memory,
    fates: BTreeMap<PathBuf, Fates>,
}

fn clean_stop() -> &'static Example {
    static MADE: OnceLock<Example> = OnceLock::new();
    MADE.get_or_init(|| Example::new(made(7, 3, End::Clean)))
}

fn killed() -> &'static Example {
    static MADE: OnceLock<Example> = OnceLock::new();
    MADE.get_or_init(|| Example::new(made(8, 2, End::Kill)))
}

impl Example {
    fn new(memory: Memory) -> Example {
        let dir = Path::new(DIR);
        let mut findings = Findings::default();
        let known = known(&memory, dir, &mut findings).expect("a healthy directory");
        let mut fates: BTreeMap<PathBuf, Fates> = memory
            .files
            .keys()
            .map(|path| {
                let fate = match kind(path) {
                    Kind::Storage | Kind::CurrentRings | Kind::Snapshot => Fate::Found,
                    _ => Fate::Unread,
                };
                (path.clone(), Fates::from([(0, fate)]))
            })
            .collect();
        for reference in &known.root.rings {
            ring_fates(&memory, reference, &mut fates);
        }
        for (folder, p) in &known.partitions {
            let needed =
                p.state.segments.iter().any(|s| s.durable > 0 && s.end > p.state.log_start);
            if needed {
                fates.insert(
                    dir.join(folder).join("partition.metadata"),
                    Fates::from([(0, Fate::Found)]),
                );
            }
            for row in p.state.segments.iter().filter(|row| row.end > p.state.log_start) {
                let number = if row.compaction == 0 {
                    String::new()
                } else {
                    format!(".{}", row.compaction)
                };
                let log = dir.join(folder).join(format!("{:020}{number}.log", row.base));
                let Some(bytes) = memory.files.get(&log) else { continue };
                let durable = row.durable as usize;
                let mut of = Fates::from([(0, Fate::Found)]);
                for (at, batch) in walk(&bytes[..durable]) {
                    let Ok(batch) = batch else { break };
                    let at = at as usize;
                    if row.compaction > 0 {
                        // No CRC covers it, and batches are missing in between by right.
                        of.extend([(at, Fate::Perhaps), (at + 8, Fate::Found)]);
                    }
                    if p.state.epochs.at(batch.base_offset()).is_none() {
                        of.extend([(at + 12, Fate::Unread), (at + 16, Fate::Found)]);
                    }
                }
                of.insert(durable, Fate::Unread);
                fates.insert(log.clone(), of);
                if row.status == SegmentStatus::Sealed {
                    fates.insert(log.with_extension("meta"), Fates::from([(0, Fate::Found)]));
                }
            }
        }
        Example { memory, fates }
    }

    fn fate(&self, path: &Path, at: usize) -> Fate {
        *self.fates[path].range(..=at).next_back().expect("each begins at 0").1
    }

    fn verified(&self, change: impl FnOnce(&mut Memory)) -> Findings {
        let mut memory = self.memory.clone();
        change(&mut memory);
        verify(&memory, Path::new(DIR)).expect("a verdict")
    }

    /// Flips a bit, and compares what is told with the list.
    fn flip(&self, path: &Path, at: usize, bit: u8) -> Result<(), String> {
        let findings = self.verified(|memory| memory.flip(path, at, bit));
        let damage = findings.damages.iter().find(|d| d.path == path);
        let note = findings.notes.iter().any(|(noted, ..)| noted == path);
        let told = damage.is_some_and(|d| {
            let len = self.memory.files[path].len() as u64;
            d.position <= len && !d.what.is_empty() && d.got != d.expected && !d.expected.is_empty()
        });
        let all_here = findings.damages.iter().all(|d| d.path == path);
        let fate = self.fate(path, at);
        let fits = match fate {
            Fate::Found => told && all_here,
            Fate::Noted => damage.is_none() && note,
            Fate::Told => told || note,
            Fate::Unread => findings.damages.is_empty(),
            Fate::Perhaps => all_here,
        };
        match fits {
            true => Ok(()),
            false => Err(format!(
                "{} byte {at} bit {bit} is {fate:?}: {:?} {:?}",
                path.display(),
                findings.damages,
                findings.notes
            )),
        }
    }
}

fn ring_fates(
    memory: &Memory,
    reference: &rillway_log::RingRef,
    fates: &mut BTreeMap<PathBuf, Fates>,
) {
    let slots = ring::checkpoints(memory, reference);
    let (newest, _) = ring::newest(&slots).expect("a checkpoint");
    for slot in &slots {
        let header = 108;
        let Ok(Ok(read)) = inspect::checkpoint(&slot.path, reference, &slot.bytes) else {
            continue;
        };
        drop(read);
        let len = u64::from_le_bytes(slot.bytes[72..80].try_into().expect("8 bytes")) as usize;
        // Whether a crash tore it cannot be told from the file; version and storage no crash changes.
        fates.insert(
            slot.path.clone(),
            Fates::from([
                (0, Fate::Told),
                (header, Fate::Unread),
                (BLOCK, if len == 0 { Fate::Unread } else { Fate::Told }),
                (BLOCK + len, Fate::Unread),
            ]),
        );
    }
    let mut of = Fates::from([(0, Fate::Found), (52, Fate::Unread), (BLOCK, Fate::Unread)]);
    let mut replaying = Replaying::new(&newest.path, reference, &newest.bytes).expect("valid");
    let mut frames = Vec::new();
    ring::replay(memory, reference, &mut replaying, |f| {
        frames.push((f.position as usize, f.header.frame_len() as usize));
    });
    for (at, len) in &frames {
        of.extend([(*at, Fate::Found), (at + len, Fate::Unread)]);
    }
    if let Some((at, len)) = frames.last() {
        // It looks like one that was never acknowledged, or like none at all.
        of.extend([(*at, Fate::Unread), (at + 64, Fate::Noted), (at + len, Fate::Unread)]);
    }
    // Frames may stand one behind the other: where one begins, that counts.
    for (at, _) in frames.iter().rev().skip(1) {
        of.insert(*at, Fate::Found);
    }
    fates.insert(ring::path(reference), of);
}

#[test]
fn a_healthy_directory_has_every_kind_of_file_and_nothing_is_wrong_with_it() {
    for example in [clean_stop(), killed()] {
        let findings = example.verified(|_| {});
        assert!(findings.damages.is_empty(), "{:?}", findings.damages);
        assert!(findings.files.len() > 20, "{:?}", findings.files);
    }
    let has = |what: &str| clean_stop().memory.files.keys().any(|p| kind(p).words() == what);
    for what in [
        "lock",
        "storage",
        "reserve",
        "list of rings",
        "ring",
        "checkpoint",
        "partition metadata",
        "metadata snapshot",
        "segment",
        "compacted segment",
        "segment's .meta",
        "segment to be deleted",
    ] {
        assert!(has(what), "no {what} in {:?}", clean_stop().memory.files.keys());
    }
    let has =
        |part: &str| clean_stop().memory.files.keys().any(|p| p.to_string_lossy().contains(part));
    assert!(has("__consumer_offsets-7/") && has("-delete/"));
}

#[test]
fn a_wrong_bit_in_each_part_of_each_kind_of_file_has_the_fate_that_is_listed() {
    for example in [clean_stop(), killed()] {
        let mut seen = BTreeMap::<&str, usize>::new();
        for (path, fates) in &example.fates {
            // Of each kind some, and of each of these files the first and last byte of some parts.
            let number = seen.entry(kind(path).words()).or_default();
            *number += 1;
            if *number > 4 {
                continue;
            }
            let len = example.memory.files[path].len();
            let begins: Vec<usize> = fates.keys().copied().filter(|at| *at < len).collect();
            let some = begins.iter().take(6).chain(begins.iter().rev().take(4));
            let edges = some.flat_map(|at| [*at, at.wrapping_sub(1)]).chain([len.wrapping_sub(1)]);
            for at in edges.filter(|at| *at < len) {
                example.flip(path, at, (at % 8) as u8).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_wrong_bit_anywhere_has_the_fate_that_is_listed(
        file in any::<prop::sample::Index>(),
        part in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
        clean in any::<bool>(),
    ) {
        let example = if clean { clean_stop() } else { killed() };
        let files: Vec<_> = example.memory.files.iter().filter(|(_, b)| !b.is_empty()).collect();
        let (path, bytes) = *file.get(&files);
        // A ring is mostly what nobody reads: its parts are as likely as each other.
        let begins: Vec<usize> =
            example.fates[path].keys().copied().filter(|at| *at < bytes.len()).collect();
        let number = part.index(begins.len());
        let end = begins.get(number + 1).copied().unwrap_or(bytes.len());
        let at = begins[number] + at.index(end - begins[number]);
        prop_assert_eq!(example.flip(path, at, bit), Ok(()));
    }

    #[test]
    fn a_file_that_is_cut_anywhere_is_found_where_it_is_needed(
        file in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
        clean in any::<bool>(),
    ) {
        let example = if clean { clean_stop() } else { killed() };
        let files: Vec<_> = example.memory.files.iter().filter(|(_, b)| !b.is_empty()).collect();
        let (path, bytes) = *file.get(&files);
        let to = to.index(bytes.len());
        let findings = example.verified(|memory| memory.change(path).truncate(to));
        // From the first byte on that somebody reads it is damaged, but for a checkpoint, whose other one holds.
        let read = (to..bytes.len()).map(|at| example.fate(path, at)).any(|f| f != Fate::Unread);
        let told = findings.damages.iter().any(|d| d.path == *path);
        let noted = findings.notes.iter().any(|(noted, ..)| noted == path);
        let whole_ring = matches!(kind(path), Kind::Ring(_));
        prop_assert_eq!(told || (noted && matches!(kind(path), Kind::Checkpoint(_))), read || whole_ring,
            "{} cut to {} of {}: {:?} {:?}", path.display(), to, bytes.len(), &findings.damages, &findings.notes);
    }
}

#[test]
fn files_that_are_gone_are_found_where_they_are_needed() {
    let example = clean_stop();
    for (path, fates) in &example.fates {
        let needed = fates.values().any(|fate| *fate == Fate::Found);
        if matches!(kind(path), Kind::Snapshot | Kind::Storage) {
            continue;
        }
        let findings = example.verified(|memory| {
            memory.files.remove(path);
        });
        let told = findings.damages.iter().any(|d| d.path == *path);
        let checkpoint = matches!(kind(path), Kind::Checkpoint(_));
        assert_eq!(told, needed || checkpoint, "{}: {:?}", path.display(), findings.damages);
    }
}

#[test]
fn a_torn_end_of_a_ring_is_no_damage() {
    let example = killed();
    let mut torn = 0;
    for (path, fates) in &example.fates {
        for (at, fate) in fates {
            if *fate == Fate::Noted {
                // The end of the last frame never came.
                let findings =
                    example.verified(|memory| memory.change(path)[at + 64..at + 512].fill(0xa5));
                assert!(findings.damages.is_empty(), "{:?}", findings.damages);
                torn += findings.notes.iter().filter(|(noted, ..)| noted == path).count();
            }
        }
    }
    assert!(torn > 0, "no ring had a frame");
}
