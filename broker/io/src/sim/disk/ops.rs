//! What operations do to the file system when they complete, with the faults that may befall them; and the
//! calls on names of `Disk`.

use std::io;
use std::path::Path;
use std::rc::Rc;

use super::crash::put_some;
use super::fs::{Handle, eio};
use super::{
    Action, Bytes, Change, Descriptor, DirectFile, Disk, FileLock, Fs, Ino, Kind, Naming,
    SyncAnchor, Write,
};
use crate::disk::{DirEntry, FsStat, OpenOptions};
use crate::error::{Error, Result};
use crate::sync::{Gate, oneshot};

fn concerns(fs: &Fs, path: &str) -> bool {
    fs.faults.only_paths.as_ref().is_none_or(|part| path.contains(part.as_str()))
}

/// Completes a write.
pub(super) fn finish_write(fs: &mut Fs, write: Write) {
    let path = fs.handles.get(&write.handle).map(|h| h.path.clone()).unwrap_or_default();
    let result = write_result(fs, &write, &path);
    // Nobody waits any more if the future was dropped.
    let _ = write.done.send(result);
}

fn write_result(fs: &mut Fs, write: &Write, path: &str) -> io::Result<()> {
    let len = write.bytes.get().len();
    if fs.down {
        return Err(eio());
    }
    if concerns(fs, path) {
        fs.counts.writes += 1;
        let nth = Some(fs.counts.writes);
        let chance = fs.faults.eio_write_chance;
        if fs.faults.eio_on_write == nth || fs.rng.chance(chance) {
            damage(fs, write)?;
            return Err(eio());
        }
        if fs.faults.short_write == nth {
            let part = fs.rng.index(len / 512) * 512;
            let bytes = Bytes::Vec(write.bytes.get()[..part].to_vec());
            fs.complete(write.ino, Change::Write { pos: write.pos, bytes }, false)?;
            return Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!("wrote {part} of {len} bytes"),
            ));
        }
        if write.dsync {
            fs.counts.flushes += 1;
            let nth = Some(fs.counts.flushes);
            let chance = fs.faults.eio_flush_chance;
            if fs.faults.eio_on_flush == nth || fs.rng.chance(chance) {
                damage(fs, write)?;
                return Err(eio());
            }
        }
    }
    // Space was there when it was issued, but another write may have taken it.
    fs.check_space(write.ino, write.pos, len as u64)?;
    let change = Change::Write { pos: write.pos, bytes: write.bytes.clone() };
    fs.complete(write.ino, change, write.dsync)
}

/// A write that failed has written some of its sectors.
fn damage(fs: &mut Fs, write: &Write) -> io::Result<()> {
    let bytes = write.bytes.get();
    let mut rng = fs.rng.clone();
    let mut mixed = super::content::Content::default();
    let old = fs.file(write.ino)?.now.read(write.pos, bytes.len());
    mixed.write(0, &old);
    put_some(&mut rng, &mut mixed, 0, bytes);
    mixed.size = mixed.size.max(bytes.len() as u64);
    let bytes = Bytes::Vec(mixed.read(0, bytes.len()));
    fs.rng = rng;
    fs.complete(write.ino, Change::Write { pos: write.pos, bytes }, false)
}

/// A piece of a write of a dead life lands.
pub(super) fn land(fs: &mut Fs, ino: Ino, pos: u64, bytes: &[u8], dsync: bool) {
    if fs.check_space(ino, pos, bytes.len() as u64).is_ok() {
        let change = Change::Write { pos, bytes: Bytes::Vec(bytes.to_vec()) };
        // A file that is gone takes the piece with it.
        let _ = fs.complete(ino, change, dsync);
    }
}

/// A flush of one file, issued at `mark`, completes.
pub(super) fn flush(fs: &mut Fs, ino: Ino, path: &str, mark: u64) -> io::Result<()> {
    if fs.down {
        return Err(eio());
    }
    if concerns(fs, path) {
        fs.counts.flushes += 1;
        let nth = Some(fs.counts.flushes);
        let chance = fs.faults.eio_flush_chance;
        if fs.faults.eio_on_flush == nth || fs.rng.chance(chance) {
            fs.file(ino)?.flush_failed(mark);
            return Err(eio());
        }
    }
    fs.file(ino)?.flushed(mark);
    Ok(())
}

/// Flips a bit of what was read, if that is due.
pub(super) fn maybe_flip(fs: &mut Fs, path: &str, bytes: &mut [u8]) {
    if !concerns(fs, path) || bytes.is_empty() {
        return;
    }
    fs.counts.reads += 1;
    let nth = Some(fs.counts.reads);
    let chance = fs.faults.bit_flip_chance;
    if fs.faults.bit_flip_on_read == nth || fs.rng.chance(chance) {
        let at = fs.rng.index(bytes.len());
        bytes[at] ^= 1 << fs.rng.below(8);
    }
}

/// Finds or makes the file of an `open`.
fn open_file(fs: &mut Fs, path: &Path, o: OpenOptions) -> io::Result<Ino> {
    match fs.lookup(path) {
        Ok(_) if o.create_new => Err(io::ErrorKind::AlreadyExists.into()),
        Ok(ino) => {
            fs.file(ino)?;
            if o.truncate {
                fs.complete(ino, Change::Size(0), false)?;
            }
            Ok(ino)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound && (o.create || o.create_new) => {
            let (dir, name) = fs.parent(path)?;
            let ino = fs.new_file();
            fs.name(Naming::Set { dir, name, ino })?;
            Ok(ino)
        }
        Err(e) => Err(e),
    }
}

fn rename(fs: &mut Fs, old: &Path, new: &Path) -> io::Result<()> {
    let ino = fs.lookup(old)?;
    let from = fs.parent(old)?;
    let to = fs.parent(new)?;
    let target = fs.dir(to.0)?.get(&to.1).copied();
    match target {
        Some(target) if target == ino => return Ok(()),
        Some(target) if fs.is_dir(target) && !fs.is_dir(ino) => {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Some(target) if fs.is_dir(target) && !fs.dir(target)?.is_empty() => {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        Some(_) | None => {}
    }
    fs.name(Naming::Rename { from, to, ino })
}

fn remove_tree(fs: &mut Fs, dir: Ino, name: &str) -> io::Result<()> {
    let ino = *fs.dir(dir)?.get(name).ok_or(io::ErrorKind::NotFound)?;
    if fs.is_dir(ino) {
        let names: Vec<String> = fs.dir(ino)?.keys().cloned().collect();
        for name in names {
            remove_tree(fs, ino, &name)?;
        }
    }
    fs.name(Naming::Remove { dir, name: name.to_string() })
}

impl Disk {
    /// Runs a call on names: as long as it takes, after earlier ones on the same paths.
    async fn name<T: 'static>(
        &self,
        op: &'static str,
        paths: &[&Path],
        effect: impl FnOnce(&mut Fs) -> io::Result<T> + 'static,
    ) -> Result<T> {
        let (sender, done) = oneshot();
        let executor = Rc::clone(&self.device.executor);
        let run = Box::new(move |fs: &mut Fs| {
            if let Err(unwanted) = sender.send(effect(fs)) {
                // The future was dropped. The result may be a descriptor, whose end needs the file system.
                super::later(&executor, unwanted);
            }
        });
        let device = &self.device;
        let now = device.executor.now();
        let mut at = now + device.delay(|f| f.name_delay);
        {
            let busy = &mut device.fs.borrow_mut().busy;
            busy.retain(|_, until| *until >= now);
            for path in paths {
                let until = busy.get(path.to_string_lossy().as_ref()).copied().unwrap_or(0);
                at = at.max(until + 1);
            }
            for path in paths {
                busy.insert(path.to_string_lossy().into_owned(), at);
            }
        }
        device.start(&self.life, at - now, Action::Name(run));
        match done.await {
            Some(Ok(value)) => Ok(value),
            Some(Err(source)) => Err(Error::at(op, paths[0], source)),
            None => Err(Error::at(op, paths[0], io::ErrorKind::Interrupted.into())),
        }
    }

    async fn descriptor(&self, path: &Path, o: OpenOptions) -> Result<Descriptor> {
        let id = self.device.executor.id();
        let (disk, owned) = (self.clone(), path.to_path_buf());
        self.name("open", &[path], move |fs| {
            let ino = open_file(fs, &owned, o)?;
            let handle =
                Handle { ino, life: disk.life.id, path: owned.to_string_lossy().into_owned() };
            fs.open_handle(id, handle);
            Ok(Descriptor { disk, id, ino })
        })
        .await
    }

    pub(crate) async fn open(&self, path: &Path, o: OpenOptions) -> Result<DirectFile> {
        let descriptor = self.descriptor(path, o).await?;
        Ok(DirectFile {
            descriptor: Rc::new(descriptor),
            path: path.to_path_buf(),
            writable: o.write || o.create || o.create_new,
            dsync: o.dsync,
            flights: Gate::new(),
        })
    }

    pub(crate) async fn create_dir_all(&self, path: &Path) -> Result<()> {
        let owned = path.to_path_buf();
        self.name("create_dir_all", &[path], move |fs| {
            let mut dir = super::fs::ROOT;
            for name in super::fs::names(&owned)? {
                let found = fs.dir(dir)?.get(&name).copied();
                dir = match found {
                    Some(ino) => ino,
                    None => {
                        let ino = fs.new_dir();
                        fs.name(Naming::Set { dir, name, ino })?;
                        ino
                    }
                };
            }
            fs.dir(dir).map(|_| ())
        })
        .await
    }

    pub(crate) async fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>> {
        let owned = path.to_path_buf();
        self.name("read_dir", &[path], move |fs| {
            let ino = fs.lookup(&owned)?;
            let names = fs.dir(ino)?.clone();
            Ok(names
                .into_iter()
                .map(|(name, ino)| {
                    let len = fs.file(ino).ok().map(|file| file.now.size);
                    DirEntry { name, is_dir: len.is_none(), len: len.unwrap_or(0) }
                })
                .collect())
        })
        .await
    }

    pub(crate) async fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (old, new) = (from.to_path_buf(), to.to_path_buf());
        self.name("rename", &[from, to], move |fs| rename(fs, &old, &new))
            .await
            .map_err(|e| e.with_detail(format!("to {}", to.display())))
    }

    pub(crate) async fn rename_if(
        &self,
        from: &Path,
        to: &Path,
        witness: &Path,
        content: &[u8],
    ) -> Result<bool> {
        let (old, new) = (from.to_path_buf(), to.to_path_buf());
        let (witness, content) = (witness.to_path_buf(), content.to_vec());
        self.name("rename", &[from, to], move |fs| {
            let found = fs.lookup(&witness).and_then(|ino| {
                let now = &fs.file(ino)?.now;
                Ok(now.read(0, now.size as usize))
            });
            match found {
                Ok(found) if found == content => rename(fs, &old, &new).map(|()| true),
                Ok(_) => Ok(false),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(e) => Err(e),
            }
        })
        .await
        .map_err(|e| e.with_detail(format!("to {}", to.display())))
    }

    pub(crate) async fn remove_file(&self, path: &Path) -> Result<()> {
        let owned = path.to_path_buf();
        self.name("unlink", &[path], move |fs| {
            let ino = fs.lookup(&owned)?;
            fs.file(ino)?;
            let (dir, name) = fs.parent(&owned)?;
            fs.name(Naming::Remove { dir, name })
        })
        .await
    }

    pub(crate) async fn remove_dir_all(&self, path: &Path) -> Result<()> {
        let owned = path.to_path_buf();
        self.name("remove_dir_all", &[path], move |fs| {
            let ino = fs.lookup(&owned)?;
            fs.dir(ino)?;
            let (dir, name) = fs.parent(&owned)?;
            remove_tree(fs, dir, &name)
        })
        .await
    }

    pub(crate) async fn sync_dir(&self, path: &Path) -> Result<()> {
        // Covers what completed before now; the delay comes after.
        let mark = self.device.fs.borrow().mark();
        let owned = path.to_path_buf();
        self.name("sync_dir", &[path], move |fs| {
            let ino = fs.lookup(&owned)?;
            fs.dir(ino)?;
            let (text, chance) = (owned.to_string_lossy().into_owned(), fs.faults.eio_flush_chance);
            if concerns(fs, &text) && fs.rng.chance(chance) {
                return Err(eio());
            }
            fs.dir_synced(ino, mark);
            Ok(())
        })
        .await
    }

    pub(crate) async fn exists(&self, path: &Path) -> Result<bool> {
        let owned = path.to_path_buf();
        self.name("stat", &[path], move |fs| match fs.lookup(&owned) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        })
        .await
    }

    pub(crate) async fn read_file(&self, path: &Path, max: usize) -> Result<Vec<u8>> {
        let owned = path.to_path_buf();
        self.name("read_file", &[path], move |fs| {
            let ino = fs.lookup(&owned)?;
            let file = fs.file(ino)?;
            if file.now.size > max as u64 {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            let mut bytes = file.now.read(0, max);
            maybe_flip(fs, &owned.to_string_lossy(), &mut bytes);
            Ok(bytes)
        })
        .await
        .map_err(|e| e.with_detail(format!("at most {max} bytes expected")))
    }

    /// Three steps, as in Linux: a crash may come between them.
    pub(crate) async fn write_file(&self, path: &Path, bytes: &[u8], flush: bool) -> Result<()> {
        let o = OpenOptions::new().create(true).truncate(true);
        let (disk, owned, bytes) = (self.clone(), path.to_path_buf(), bytes.to_vec());
        let (sender, done) = oneshot();
        // A task of its own: the three steps go on if the caller does not.
        let whole = async move {
            let steps = async {
                let file = disk.open(&owned, o).await?;
                file.run("write", 20_000, true, move |fs, ino| fs.put(ino, bytes)).await?;
                if flush { file.fdatasync().await } else { Ok(()) }
            };
            let _ = sender.send(steps.await);
        };
        self.device.executor.spawn(&self.life, 0, Box::pin(whole));
        let gone = || Error::at("write_file", path, io::ErrorKind::Interrupted.into());
        done.await.ok_or_else(gone)?
    }

    pub(crate) async fn stat_fs(&self, dir: &Path) -> Result<FsStat> {
        let owned = dir.to_path_buf();
        self.name("stat_fs", &[dir], move |fs| {
            fs.lookup(&owned)?;
            let (total, available) = fs.space();
            Ok(FsStat {
                total,
                available,
                read_only: false,
                kind: "ext4".to_string(),
                options: "rw,relatime".to_string(),
            })
        })
        .await
    }

    pub(crate) async fn try_lock(&self, path: &Path) -> Result<Option<FileLock>> {
        let descriptor = self.descriptor(path, OpenOptions::new().create(true)).await?;
        let mut fs = self.device.fs.borrow_mut();
        let file = fs.file(descriptor.ino).map_err(|source| Error::at("flock", path, source))?;
        if file.lock.is_some() {
            drop(fs);
            return Ok(None);
        }
        file.lock = Some(descriptor.id);
        drop(fs);
        Ok(Some(FileLock { _descriptor: descriptor }))
    }

    pub(crate) async fn anchor(&self, dir: &Path) -> Result<SyncAnchor> {
        if !self.exists(dir).await? {
            return Err(Error::at("anchor", dir, io::ErrorKind::NotFound.into()));
        }
        Ok(SyncAnchor { disk: self.clone() })
    }
}

impl SyncAnchor {
    pub(crate) async fn syncfs(&self) -> Result<()> {
        let device = &self.disk.device;
        let delay = device.delay(|f| f.syncfs_delay);
        let mark = device.fs.borrow().mark();
        let (sender, done) = oneshot();
        let run = Box::new(move |fs: &mut Fs| {
            let _ = sender.send(sync_all(fs, mark));
        });
        device.start(&self.disk.life, delay, Action::Other(run));
        match done.await {
            Some(result) => result.map_err(|source| Error::new("syncfs", source)),
            None => Err(Error::new("syncfs", io::ErrorKind::Interrupted.into())),
        }
    }
}

/// A `syncfs`, issued at `mark`, completes.
fn sync_all(fs: &mut Fs, mark: u64) -> io::Result<()> {
    fs.counts.syncfs += 1;
    let nth = Some(fs.counts.syncfs);
    let chance = fs.faults.eio_flush_chance;
    if fs.faults.syncfs_lies == nth {
        fs.down = true;
    }
    if fs.down {
        fs.sync_failed(mark);
        return Ok(());
    }
    if fs.faults.eio_on_syncfs == nth || fs.rng.chance(chance) {
        fs.sync_failed(mark);
        return Err(eio());
    }
    fs.all_synced(mark);
    Ok(())
}

/// What is in the tree, with paths.
pub(crate) fn walk(fs: &Fs, dir: Ino, prefix: &Path, into: &mut Vec<std::path::PathBuf>) {
    if let Some(Kind::Dir { now, .. }) = fs.inodes.get(&dir).map(|i| &i.kind) {
        for (name, ino) in now {
            let path = prefix.join(name);
            if fs.is_dir(*ino) {
                walk(fs, *ino, &path, into);
            } else {
                into.push(path);
            }
        }
    }
}
