//! The disk of a node from outside, for tests: look at it, damage it.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::disk::{Change, Device, Kind, Naming, ROOT, walk};

/// A disk seen from outside. What it changes is changed on the medium itself: now, and after a power cut.
pub struct DiskProbe {
    device: Rc<Device>,
}

impl DiskProbe {
    pub(crate) fn new(device: Rc<Device>) -> DiskProbe {
        DiskProbe { device }
    }

    /// Paths of all files, from the root, sorted.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        walk(&self.device.fs.borrow(), ROOT, Path::new("/"), &mut files);
        files.sort();
        files
    }

    /// What is in a file now, durable or not; `None` if there is no such file.
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let mut fs = self.device.fs.borrow_mut();
        let ino = fs.lookup(path).ok()?;
        let file = fs.file(ino).ok()?;
        Some(file.now.read(0, usize::try_from(file.now.size).ok()?))
    }

    /// Changes the content of a file, now and durably.
    ///
    /// # Panics
    /// If there is no such file: a test that damages nothing tests nothing.
    fn damage(&self, path: &Path, change: impl Fn(&mut super::disk::Content)) {
        let mut fs = self.device.fs.borrow_mut();
        let ino = fs.lookup(path).unwrap_or_else(|e| panic!("damage {}: {e}", path.display()));
        if let Some(Kind::File(file)) = fs.inodes.get_mut(&ino).map(|i| &mut i.kind) {
            change(&mut file.now);
            change(&mut file.durable);
        }
    }

    /// Flips one bit.
    pub fn flip(&self, path: &Path, byte: u64, bit: u8) {
        self.damage(path, |content| content.flip(byte, bit));
    }

    /// Overwrites bytes.
    pub fn write(&self, path: &Path, pos: u64, bytes: &[u8]) {
        self.damage(path, |content| content.write(pos, bytes));
    }

    /// Sets the length.
    pub fn truncate(&self, path: &Path, len: u64) {
        self.damage(path, |content| content.set_size(len));
    }

    /// Removes a file.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn remove(&self, path: &Path) {
        let mut fs = self.device.fs.borrow_mut();
        let (dir, name) =
            fs.parent(path).unwrap_or_else(|e| panic!("remove {}: {e}", path.display()));
        let naming = Naming::Remove { dir, name };
        fs.name(naming.clone()).unwrap_or_else(|e| panic!("remove {}: {e}", path.display()));
        fs.name_durably(&naming);
    }

    /// Creates or replaces a file with these bytes, durably.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut fs = self.device.fs.borrow_mut();
        let (dir, name) = fs.parent(path).unwrap_or_else(|e| panic!("put {}: {e}", path.display()));
        let ino = fs.new_file();
        fs.put(ino, bytes.to_vec()).unwrap_or_else(|e| panic!("put {}: {e}", path.display()));
        let naming = Naming::Set { dir, name, ino };
        fs.name(naming.clone()).unwrap_or_else(|e| panic!("put {}: {e}", path.display()));
        let mark = fs.mark();
        if let Ok(file) = fs.file(ino) {
            file.flushed(mark);
        }
        fs.name_durably(&naming);
    }

    /// What would certainly be left of a file's bytes if the power were cut now.
    pub fn durable(&self, path: &Path) -> Option<Vec<u8>> {
        let mut fs = self.device.fs.borrow_mut();
        let ino = fs.lookup(path).ok()?;
        let file = fs.file(ino).ok()?;
        let mut content = file.durable.clone();
        for done in file.done.iter().filter(|d| d.durable) {
            match &done.change {
                change @ (Change::Write { .. } | Change::Size(_) | Change::Allocate { .. }) => {
                    change.apply(&mut content);
                }
            }
        }
        Some(content.read(0, usize::try_from(content.size).ok()?))
    }

    /// Sets the capacity in bytes.
    pub fn set_capacity(&self, bytes: u64) {
        self.device.fs.borrow_mut().set_capacity(bytes);
    }

    /// Free space in bytes.
    pub fn available(&self) -> u64 {
        self.device.fs.borrow().space().1
    }
}
