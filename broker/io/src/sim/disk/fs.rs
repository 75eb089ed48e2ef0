//! The simulated file system: names, files, space, and what of it is durable.
//!
//! It knows the rule of storage.md section 1 and nothing kinder. Names are like bytes: every create, rename and
//! unlink is an entry in a list until `sync_dir` of its directory, or `syncfs`, makes it durable. One of these
//! per node name; it outlives the lives of the node. No time and no futures here: `mod.rs` has those.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Component, Path};

use super::super::faults::Faults;
use super::super::rng::Rng;
use super::file::{Bytes, Change, File};
use crate::chunk::BLOCK;

pub(crate) type Ino = u64;
pub(crate) type HandleId = u64;

/// The root directory, always durable.
pub(crate) const ROOT: Ino = 1;

pub(crate) enum Kind {
    Dir { now: BTreeMap<String, Ino>, durable: BTreeMap<String, Ino> },
    File(File),
}

pub(crate) struct Inode {
    pub(crate) kind: Kind,
    /// Names it has now.
    links: usize,
    handles: usize,
}

/// An open descriptor.
pub(crate) struct Handle {
    pub(crate) ino: Ino,
    pub(crate) life: u64,
    pub(crate) path: String,
}

/// A change of names.
#[derive(Clone, Debug)]
pub(crate) enum Naming {
    Set { dir: Ino, name: String, ino: Ino },
    Remove { dir: Ino, name: String },
    Rename { from: (Ino, String), to: (Ino, String), ino: Ino },
}

pub(crate) struct Named {
    at: u64,
    pub(crate) naming: Naming,
    /// Directories that must be synced before it is durable.
    unsynced: BTreeSet<Ino>,
}

impl Named {
    pub(crate) fn durable(&self) -> bool {
        self.unsynced.is_empty()
    }
}

/// Counts towards the "nth" faults.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) writes: u64,
    pub(crate) flushes: u64,
    pub(crate) syncfs: u64,
    pub(crate) reads: u64,
}

pub(crate) struct Fs {
    pub(crate) rng: Rng,
    pub(crate) inodes: BTreeMap<Ino, Inode>,
    pub(crate) named: VecDeque<Named>,
    pub(crate) handles: BTreeMap<HandleId, Handle>,
    pub(crate) faults: Faults,
    pub(crate) counts: Counts,
    /// Shut down: writes and flushes fail.
    pub(crate) down: bool,
    /// Power cuts so far; a late write of before one never lands.
    pub(crate) cuts: u64,
    next: u64,
    /// Counts completions; a flush covers what completed before it was issued.
    clock: u64,
    used: u64,
    /// In blocks.
    capacity: u64,
    /// When the last operation on a path will take effect: operations on one path keep their order.
    pub(crate) busy: BTreeMap<String, u64>,
}

fn err(kind: io::ErrorKind) -> io::Error {
    io::Error::from(kind)
}

pub(crate) fn eio() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

/// The names of a path from the root.
pub(crate) fn names(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => names
                .push(name.to_str().ok_or_else(|| err(io::ErrorKind::InvalidInput))?.to_string()),
            Component::ParentDir | Component::Prefix(_) => {
                return Err(err(io::ErrorKind::InvalidInput));
            }
        }
    }
    Ok(names)
}

impl Fs {
    pub(crate) fn new(rng: Rng) -> Fs {
        let root = Inode {
            kind: Kind::Dir { now: BTreeMap::new(), durable: BTreeMap::new() },
            links: 1,
            handles: 0,
        };
        Fs {
            rng,
            inodes: BTreeMap::from([(ROOT, root)]),
            named: VecDeque::new(),
            handles: BTreeMap::new(),
            faults: Faults::default(),
            counts: Counts::default(),
            down: false,
            cuts: 0,
            next: ROOT + 1,
            clock: 0,
            used: 0,
            capacity: u64::MAX / BLOCK as u64,
            busy: BTreeMap::new(),
        }
    }

    /// A place in the order of completions.
    pub(crate) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Everything completed so far: what a flush issued now covers.
    pub(crate) fn mark(&self) -> u64 {
        self.clock
    }

    pub(crate) fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes / BLOCK as u64;
    }

    /// Total and free space in bytes.
    pub(crate) fn space(&self) -> (u64, u64) {
        let b = BLOCK as u64;
        (self.capacity.saturating_mul(b), self.capacity.saturating_sub(self.used).saturating_mul(b))
    }

    pub(crate) fn file(&mut self, ino: Ino) -> io::Result<&mut File> {
        match self.inodes.get_mut(&ino).map(|inode| &mut inode.kind) {
            Some(Kind::File(file)) => Ok(file),
            Some(Kind::Dir { .. }) => Err(err(io::ErrorKind::IsADirectory)),
            None => Err(err(io::ErrorKind::NotFound)),
        }
    }

    pub(crate) fn dir(&mut self, ino: Ino) -> io::Result<&mut BTreeMap<String, Ino>> {
        match self.inodes.get_mut(&ino).map(|inode| &mut inode.kind) {
            Some(Kind::Dir { now, .. }) => Ok(now),
            Some(Kind::File(_)) => Err(err(io::ErrorKind::NotADirectory)),
            None => Err(err(io::ErrorKind::NotFound)),
        }
    }

    pub(crate) fn is_dir(&self, ino: Ino) -> bool {
        self.inodes.get(&ino).is_some_and(|i| matches!(i.kind, Kind::Dir { .. }))
    }

    pub(crate) fn lookup(&mut self, path: &Path) -> io::Result<Ino> {
        let mut ino = ROOT;
        for name in names(path)? {
            ino = *self.dir(ino)?.get(&name).ok_or_else(|| err(io::ErrorKind::NotFound))?;
        }
        Ok(ino)
    }

    /// The directory a path is in, and its last name.
    pub(crate) fn parent(&mut self, path: &Path) -> io::Result<(Ino, String)> {
        let mut names = names(path)?;
        let last = names.pop().ok_or_else(|| err(io::ErrorKind::InvalidInput))?;
        let mut ino = ROOT;
        for name in names {
            ino = *self.dir(ino)?.get(&name).ok_or_else(|| err(io::ErrorKind::NotFound))?;
        }
        self.dir(ino)?;
        Ok((ino, last))
    }

    fn counted(inode: &Inode) -> bool {
        inode.links > 0 || inode.handles > 0
    }

    /// Changes an inode's counts, and the space in use with them.
    fn count(&mut self, ino: Ino, links: isize, handles: isize) {
        let Some(inode) = self.inodes.get_mut(&ino) else {
            return;
        };
        let before = Fs::counted(inode);
        inode.links = inode.links.saturating_add_signed(links);
        inode.handles = inode.handles.saturating_add_signed(handles);
        let after = Fs::counted(inode);
        if let Kind::File(file) = &inode.kind
            && before != after
        {
            let blocks = file.space.blocks();
            self.used = if after { self.used + blocks } else { self.used - blocks };
        }
    }

    /// Does a change of names, now. It is durable later.
    pub(crate) fn name(&mut self, naming: Naming) -> io::Result<()> {
        let unsynced = match &naming {
            Naming::Set { dir, name, ino } => {
                if let Some(old) = self.dir(*dir)?.insert(name.clone(), *ino) {
                    self.count(old, -1, 0);
                }
                self.count(*ino, 1, 0);
                BTreeSet::from([*dir])
            }
            Naming::Remove { dir, name } => {
                let old = self.dir(*dir)?.remove(name);
                self.count(old.ok_or_else(|| err(io::ErrorKind::NotFound))?, -1, 0);
                BTreeSet::from([*dir])
            }
            Naming::Rename { from, to, ino } => {
                self.dir(from.0)?.remove(&from.1);
                if let Some(old) = self.dir(to.0)?.insert(to.1.clone(), *ino)
                    && old != *ino
                {
                    self.count(old, -1, 0);
                }
                BTreeSet::from([from.0, to.0])
            }
        };
        let at = self.tick();
        self.named.push_back(Named { at, naming, unsynced });
        Ok(())
    }

    pub(crate) fn new_file(&mut self) -> Ino {
        self.new_inode(Kind::File(File::default()))
    }

    pub(crate) fn new_dir(&mut self) -> Ino {
        self.new_inode(Kind::Dir { now: BTreeMap::new(), durable: BTreeMap::new() })
    }

    fn new_inode(&mut self, kind: Kind) -> Ino {
        let ino = self.next;
        self.next += 1;
        self.inodes.insert(ino, Inode { kind, links: 0, handles: 0 });
        ino
    }

    /// Completes a change of a file, charging the space it takes.
    pub(crate) fn complete(&mut self, ino: Ino, change: Change, durable: bool) -> io::Result<()> {
        let at = self.tick();
        let file = self.file(ino)?;
        let before = file.space.blocks();
        file.complete(at, change, durable);
        let after = file.space.blocks();
        self.used = self.used + after - before;
        Ok(())
    }

    /// Fails with ENOSPC if these bytes of a file do not fit.
    pub(crate) fn check_space(&mut self, ino: Ino, pos: u64, len: u64) -> io::Result<()> {
        let missing = self.file(ino)?.space.missing(pos, len);
        if missing > self.capacity.saturating_sub(self.used) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        Ok(())
    }

    /// Writes a whole small file's bytes.
    pub(crate) fn put(&mut self, ino: Ino, bytes: Vec<u8>) -> io::Result<()> {
        self.check_space(ino, 0, bytes.len() as u64)?;
        self.complete(ino, Change::Write { pos: 0, bytes: Bytes::Vec(bytes) }, false)
    }

    pub(crate) fn open_handle(&mut self, id: HandleId, handle: Handle) {
        self.count(handle.ino, 0, 1);
        self.handles.insert(id, handle);
    }

    /// Closes a descriptor and gives back its lock, unless late writes hold it.
    pub(crate) fn close_handle(&mut self, id: HandleId) {
        let Some(handle) = self.handles.remove(&id) else {
            return;
        };
        if let Ok(file) = self.file(handle.ino)
            && file.lock == Some(id)
            && file.late == 0
        {
            file.lock = None;
        }
        self.count(handle.ino, 0, -1);
    }

    /// `sync_dir` of a directory, issued at `mark`, has succeeded.
    pub(crate) fn dir_synced(&mut self, dir: Ino, mark: u64) {
        for named in self.named.iter_mut().take_while(|n| n.at <= mark) {
            named.unsynced.remove(&dir);
        }
        self.absorb_names();
    }

    /// `syncfs`, issued at `mark`, has succeeded.
    pub(crate) fn all_synced(&mut self, mark: u64) {
        for inode in self.inodes.values_mut() {
            if let Kind::File(file) = &mut inode.kind {
                file.flushed(mark);
            }
        }
        for named in self.named.iter_mut().take_while(|n| n.at <= mark) {
            named.unsynced.clear();
        }
        self.absorb_names();
    }

    /// `syncfs`, issued at `mark`, has failed.
    pub(crate) fn sync_failed(&mut self, mark: u64) {
        for inode in self.inodes.values_mut() {
            if let Kind::File(file) = &mut inode.kind {
                file.flush_failed(mark);
            }
        }
    }

    fn absorb_names(&mut self) {
        while let Some(named) = self.named.pop_front_if(|n| n.durable()) {
            self.name_durably(&named.naming);
        }
        self.forget_unreachable();
    }

    /// Does a change of names to the durable directories. A directory may be missing there, and a rename's
    /// old name too: what came before may have been lost.
    pub(crate) fn name_durably(&mut self, naming: &Naming) {
        match naming {
            Naming::Set { dir, name, ino } => {
                if let Some(names) = self.durable_dir(*dir) {
                    names.insert(name.clone(), *ino);
                }
            }
            Naming::Remove { dir, name } => {
                if let Some(names) = self.durable_dir(*dir) {
                    names.remove(name);
                }
            }
            Naming::Rename { from, to, ino } => {
                if let Some(names) = self.durable_dir(from.0)
                    && names.get(&from.1) == Some(ino)
                {
                    names.remove(&from.1);
                }
                if let Some(names) = self.durable_dir(to.0) {
                    names.insert(to.1.clone(), *ino);
                }
            }
        }
    }

    fn durable_dir(&mut self, ino: Ino) -> Option<&mut BTreeMap<String, Ino>> {
        match self.inodes.get_mut(&ino).map(|i| &mut i.kind) {
            Some(Kind::Dir { durable, .. }) => Some(durable),
            Some(Kind::File(_)) | None => None,
        }
    }

    /// Drops files that no name, now or after a crash, and no descriptor leads to.
    fn forget_unreachable(&mut self) {
        if self.inodes.values().all(|i| i.links > 0) {
            return;
        }
        let mut held: BTreeSet<Ino> = BTreeSet::from([ROOT]);
        held.extend(self.handles.values().map(|h| h.ino));
        for named in &self.named {
            match &named.naming {
                Naming::Set { ino, .. } | Naming::Rename { ino, .. } => held.insert(*ino),
                Naming::Remove { .. } => false,
            };
        }
        for inode in self.inodes.values() {
            if let Kind::Dir { now, durable } = &inode.kind {
                held.extend(now.values().chain(durable.values()));
            }
        }
        self.inodes.retain(|ino, inode| {
            held.contains(ino) || matches!(&inode.kind, Kind::File(f) if f.late > 0)
        });
    }

    /// After a crash: counts everything anew from what is there.
    pub(crate) fn recount(&mut self) {
        let mut reachable = BTreeSet::from([ROOT]);
        let mut todo = vec![ROOT];
        let mut links: BTreeMap<Ino, usize> = BTreeMap::from([(ROOT, 1)]);
        while let Some(dir) = todo.pop() {
            let Some(Kind::Dir { now, .. }) = self.inodes.get(&dir).map(|i| &i.kind) else {
                continue;
            };
            for ino in now.values() {
                *links.entry(*ino).or_default() += 1;
                if reachable.insert(*ino) {
                    todo.push(*ino);
                }
            }
        }
        self.inodes.retain(|ino, _| reachable.contains(ino));
        self.used = 0;
        for (ino, inode) in &mut self.inodes {
            inode.links = links.get(ino).copied().unwrap_or(0);
            inode.handles = 0;
            if let Kind::File(file) = &inode.kind {
                self.used += file.space.blocks();
            }
        }
    }
}
