//! The data directory as a whole: its lock, its identity, the set of rings, and a change of that set.
//!
//! Opened once, before any core adopts a ring; afterwards it only holds the lock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rillway_io::{Disk, FileLock, Runtime};

use crate::checkpoint::{begin_record, end_record, put_deletion};
use crate::directory::{CurrentFile, RingLine, StorageFile, read_optional, replace_file};
use crate::error::{Error, Result};
use crate::ids::{Generation, PartitionId, RingId, Sequence, TopicId};
use crate::replay::{Recovered, RecoveredPartition};
use crate::rings::{CheckpointBody, checkpoint_path, create_ring, ring_path};
use crate::store::{Store, StoreOptions};

/// How the directory is opened.
#[derive(Clone, Debug)]
pub struct StorageOptions {
    pub dir: PathBuf,
    /// How many rings there should be: one per core that adopts one.
    pub rings: usize,
    /// Size of rings that are made now; those that exist keep theirs.
    pub ring_bytes: u64,
    /// Room kept for metadata when the disk is full.
    pub reserve_bytes: u64,
    /// How long another broker's lock is waited for: a killed one's requests in flight hold it for a moment.
    pub lock_wait: Duration,
}

/// A ring that one core may adopt. `Send`: it is handed to that core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingRef {
    pub dir: PathBuf,
    pub storage: [u8; 16],
    pub generation: Generation,
    pub id: RingId,
    pub salt: u64,
    pub bytes: u64,
}

/// The open directory. Dropping it gives the lock up.
pub struct Storage {
    pub id: [u8; 16],
    rings: Vec<RingRef>,
    _lock: FileLock,
}

/// A broker that ends may hold the lock a little longer; whoever waits for it is told, or a second broker on the same
/// directory would be silent for all of `wait`.
async fn take_lock(disk: &Disk, dir: &Path, wait: Duration) -> Result<FileLock> {
    let path = dir.join("LOCK");
    let is_held = |e: &rillway_io::Error| e.kind() == std::io::ErrorKind::WouldBlock;
    let lock = match disk.lock(&path, Duration::ZERO).await {
        Err(e) if is_held(&e) && !wait.is_zero() => {
            tracing::info!(dir = %dir.display(), "another broker holds the directory's LOCK; waiting up to {wait:?}");
            disk.lock(&path, wait).await
        }
        first => first,
    };
    lock.map_err(|e| match is_held(&e) {
        true => Error::InUse { path: dir.to_path_buf() },
        false => e.into(),
    })
}

impl Storage {
    /// Locks the directory, makes what is missing, and brings the number of rings to what is asked for.
    pub async fn open(
        rt: &Runtime,
        options: &StorageOptions,
        store: &StoreOptions,
    ) -> Result<Storage> {
        let disk = rt.disk();
        let dir = &options.dir;
        disk.create_dir_all(dir).await?;
        let lock = take_lock(&disk, dir, options.lock_wait).await?;
        let storage_path = dir.join("storage");
        let id = match read_optional(&disk, &storage_path).await? {
            Some(bytes) => StorageFile::decode(&storage_path, &bytes)?.id,
            None => Storage::initialise(rt, options).await?,
        };
        keep_reserve(&disk, dir, options.reserve_bytes).await;
        let current_path = dir.join("rings").join("current");
        let Some(bytes) = read_optional(&disk, &current_path).await? else {
            return Err(Error::corrupt(
                &current_path,
                0,
                "file",
                "missing",
                "the list of live rings",
            ));
        };
        let mut current = CurrentFile::decode(&current_path, &bytes)?;
        if current.storage != id {
            return Err(Error::ForeignStorage {
                path: current_path,
                got: crate::directory::hex(&current.storage),
                expected: crate::directory::hex(&id),
            });
        }
        remove_unlisted(&disk, dir, &current).await?;
        crate::sweep::deleted_directories(rt, dir);
        if current.rings.len() != options.rings {
            let to = options.rings;
            match change_rings(rt, options, store, &current).await {
                Ok(changed) => {
                    tracing::info!(
                        rings = to,
                        before = current.rings.len(),
                        "the number of cores has changed: partitions are shared out anew, as few as possible move"
                    );
                    current = changed;
                }
                // Without room for new rings, cores adopt the old ones.
                Err(Error::NoSpace { path, what }) => tracing::warn!(
                    "{}: no room to go from {} rings to {to} ({what}); the old ones stay",
                    path.display(),
                    current.rings.len()
                ),
                Err(e) => return Err(e),
            }
        }
        Ok(Storage { id, rings: refs(dir, &current), _lock: lock })
    }

    /// The live rings; fewer or more than asked for only if there was no room to change.
    pub fn rings(&self) -> &[RingRef] {
        &self.rings
    }

    /// A directory becomes a storage: rings first, `storage` last, because its presence says that all is there.
    async fn initialise(rt: &Runtime, options: &StorageOptions) -> Result<[u8; 16]> {
        let disk = rt.disk();
        let dir = &options.dir;
        for entry in disk.read_dir(dir).await? {
            let ours = ["LOCK", "reserve", "rings", "storage.tmp", "lost+found"]
                .contains(&entry.name.as_str());
            if !ours {
                return Err(Error::Config {
                    what: "--data-dir",
                    got: format!(
                        "{}, which holds `{}` and no `storage` file",
                        dir.display(),
                        entry.name
                    ),
                    expected: "an empty directory, or one that this broker made".to_owned(),
                });
            }
        }
        let rings_dir = dir.join("rings");
        disk.remove_dir_all(&rings_dir)
            .await
            .or_else(|e| if e.is_not_found() { Ok(()) } else { Err(e) })?;
        disk.create_dir_all(&rings_dir).await?;
        let id = rt.random_bytes::<16>();
        let current = CurrentFile {
            storage: id,
            generation: 1,
            next: 1 + options.rings as u64,
            rings: (0..options.rings)
                .map(|i| RingLine {
                    id: RingId(1 + i as u64),
                    salt: rt.random_u64(),
                    bytes: options.ring_bytes,
                })
                .collect(),
        };
        for ring in refs(dir, &current) {
            create_ring(&disk, &ring, CheckpointBody::default(), rt.wall_ms()).await?;
        }
        replace_file(&disk, &rings_dir.join("current"), current.encode().as_bytes()).await?;
        // The directory of the rings must not be lost behind a `storage` that is kept.
        disk.sync_dir(dir).await?;
        replace_file(&disk, &dir.join("storage"), StorageFile { id }.encode().as_bytes()).await?;
        // The directory itself may be new.
        if let Some(parent) = dir.parent() {
            disk.sync_dir(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
                .await?;
        }
        Ok(id)
    }
}

fn refs(dir: &Path, current: &CurrentFile) -> Vec<RingRef> {
    let make = |r: &RingLine| RingRef {
        dir: dir.to_path_buf(),
        storage: current.storage,
        generation: Generation(current.generation),
        id: r.id,
        salt: r.salt,
        bytes: r.bytes,
    };
    current.rings.iter().map(make).collect()
}

/// Rings and checkpoints that `rings/current` does not list do not exist (an interrupted change of rings).
async fn remove_unlisted(disk: &Disk, dir: &Path, current: &CurrentFile) -> Result<()> {
    for entry in disk.read_dir(&dir.join("rings")).await? {
        let id = entry.name.split('.').next().and_then(|id| id.parse::<u64>().ok());
        if id.is_some_and(|id| current.rings.iter().all(|r| r.id != RingId(id))) {
            disk.remove_file(&dir.join("rings").join(&entry.name)).await?;
        }
    }
    Ok(())
}

/// `DIR/reserve`, best effort: on a full disk there is nothing to keep.
async fn keep_reserve(disk: &Disk, dir: &Path, bytes: u64) {
    let path = dir.join("reserve");
    if bytes == 0 || disk.exists(&path).await.unwrap_or(true) {
        return;
    }
    let options = rillway_io::OpenOptions { write: true, create: true, ..Default::default() };
    let made = async {
        let file = disk.open(&path, options).await?;
        file.allocate(0, bytes).await?;
        file.close().await
    };
    if let Err(e) = made.await {
        tracing::warn!("{}: the reserve for a full disk could not be made: {e}", path.display());
        let _ = disk.remove_file(&path).await;
    }
}

/// All old rings are recovered; their state becomes checkpoints of new rings at generation + 1; `rings/current` is the
/// switch.
async fn change_rings(
    rt: &Runtime,
    options: &StorageOptions,
    store: &StoreOptions,
    current: &CurrentFile,
) -> Result<CurrentFile> {
    let disk = rt.disk();
    let dir = &options.dir;
    let mut merged = Recovered::default();
    for (core, ring) in refs(dir, current).iter().enumerate() {
        let recovered = Store::recover_for_move(rt, ring, store).await?;
        merged.absorb(recovered, core);
    }
    let next = CurrentFile {
        storage: current.storage,
        generation: current.generation + 1,
        next: current.next + options.rings as u64,
        rings: (0..options.rings as u64)
            .map(|i| RingLine {
                id: RingId(current.next + i),
                salt: rt.random_u64(),
                bytes: options.ring_bytes,
            })
            .collect(),
    };
    let made = make_rings(rt, &refs(dir, &next), merged).await;
    if let Err(e) = made {
        remove_unlisted(&disk, dir, current).await?;
        return Err(e);
    }
    replace_file(&disk, &dir.join("rings").join("current"), next.encode().as_bytes()).await?;
    for old in &current.rings {
        disk.remove_file(&ring_path(dir, old.id)).await?;
        for slot in 0..2 {
            disk.remove_file(&checkpoint_path(dir, old.id, slot)).await?;
        }
    }
    Ok(next)
}

async fn make_rings(rt: &Runtime, rings: &[RingRef], merged: Recovered) -> Result<()> {
    let shares = share_out(merged.partitions, rings.len());
    let mut deletions = Some(merged.deletions);
    for (ring, share) in rings.iter().zip(shares) {
        let mut body =
            CheckpointBody { next_producer_id: merged.next_producer_id, ..Default::default() };
        for mut p in share {
            p.state.generation = ring.generation;
            p.state.applied = Sequence(0);
            let start = begin_record(&mut body.bytes);
            p.put(&mut body.bytes);
            end_record(&mut body.bytes, start);
            body.partitions += 1;
        }
        for d in deletions.take().unwrap_or_default() {
            put_deletion(&d, &mut body.bytes);
            body.deletions += 1;
        }
        create_ring(&rt.disk(), ring, body, rt.wall_ms()).await?;
    }
    Ok(())
}

fn share_out(
    partitions: BTreeMap<PartitionId, (usize, RecoveredPartition)>,
    rings: usize,
) -> Vec<Vec<RecoveredPartition>> {
    let from: Vec<(PartitionId, usize)> =
        partitions.iter().map(|(id, (from, _))| (*id, *from)).collect();
    let mut shares: Vec<Vec<RecoveredPartition>> = (0..rings).map(|_| Vec::new()).collect();
    for ((_, p), ring) in partitions.into_values().zip(places(&from, rings)) {
        shares[ring].push(p);
    }
    shares
}

/// Which ring gets which partition, given where each was. It stays if that ring still exists, up to an even share of
/// all partitions and of its topic's; the rest goes where its topic has the fewest, and of those to the emptiest. The
/// metadata log is always the first ring's.
fn places(from: &[(PartitionId, usize)], rings: usize) -> Vec<usize> {
    let even = from.len().div_ceil(rings);
    let mut sizes: BTreeMap<TopicId, usize> = BTreeMap::new();
    for (id, _) in from {
        *sizes.entry(id.topic).or_default() += 1;
    }
    let mut all = vec![0; rings];
    let mut of_topic: BTreeMap<(TopicId, usize), usize> = BTreeMap::new();
    let mut out: Vec<Option<usize>> = Vec::new();
    for (id, ring) in from {
        let ring = if id.topic == TopicId::METADATA { 0 } else { *ring };
        let topic_even = sizes[&id.topic].div_ceil(rings);
        let held = of_topic.get(&(id.topic, ring)).copied().unwrap_or(0);
        let stays =
            id.topic == TopicId::METADATA || ring < rings && all[ring] < even && held < topic_even;
        if stays {
            all[ring] += 1;
            of_topic.insert((id.topic, ring), held + 1);
        }
        out.push(stays.then_some(ring));
    }
    let homeless = out.iter_mut().zip(from).filter(|(ring, _)| ring.is_none());
    for (slot, (id, _)) in homeless {
        let load =
            |ring: &usize| (of_topic.get(&(id.topic, *ring)).copied().unwrap_or(0), all[*ring]);
        let ring = (0..rings).min_by_key(load).expect("there is a ring");
        all[ring] += 1;
        *of_topic.entry((id.topic, ring)).or_default() += 1;
        *slot = Some(ring);
    }
    out.into_iter().map(|ring| ring.expect("every partition has a place")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(topic: u8, index: u32) -> PartitionId {
        PartitionId { topic: TopicId([topic; 16]), index }
    }

    #[test]
    fn a_second_core_takes_half_of_every_topic() {
        let from: Vec<_> = (1..=3).flat_map(|t| (0..4).map(move |i| (of(t, i), 0))).collect();
        let places = places(&from, 2);
        for topic in 0..3 {
            assert_eq!(places[4 * topic..4 * topic + 4].iter().sum::<usize>(), 2, "{places:?}");
        }
    }

    #[test]
    fn topics_of_one_partition_are_shared_out_too() {
        let from: Vec<_> = (1..=10).map(|t| (of(t, 0), 0)).collect();
        assert_eq!(places(&from, 2).iter().sum::<usize>(), 5);
    }

    proptest! {
        #[test]
        fn every_topic_is_even_and_the_metadata_is_the_first_rings(
            topics in prop::collection::vec((1u32..12, any::<u64>()), 0..12),
            (before, rings) in (1usize..6, 1usize..6),
        ) {
            let mut from = vec![(PartitionId { topic: TopicId::METADATA, index: 0 }, 0)];
            for (t, (partitions, seed)) in topics.iter().enumerate() {
                for i in 0..*partitions {
                    from.push((of(t as u8 + 1, i), (seed >> i) as usize % before));
                }
            }
            let places = places(&from, rings);
            prop_assert_eq!(places[0], 0);
            for (t, (partitions, _)) in topics.iter().enumerate() {
                let mut held = vec![0usize; rings];
                for ((id, _), ring) in from.iter().zip(&places) {
                    if *id == of(t as u8 + 1, id.index) {
                        held[*ring] += 1;
                    }
                }
                prop_assert!(held.iter().all(|h| *h <= (*partitions as usize).div_ceil(rings)), "{held:?}");
            }
        }

        #[test]
        fn nothing_moves_when_everything_is_even_already(partitions in 1u32..20, rings in 1usize..6) {
            let from: Vec<_> = (0..partitions).map(|i| (of(1, i), i as usize % rings)).collect();
            let stay: Vec<_> = from.iter().map(|(_, ring)| *ring).collect();
            prop_assert_eq!(places(&from, rings), stay);
        }
    }
}
