//! The simulated disk of one node name: operations that take time, over `Fs`, which knows none.
//!
//! An operation is entered into a table when it is first polled and takes effect when its event fires, whatever
//! became of its future. A kill or a power cut finds there what was in flight.

mod content;
mod crash;
mod file;
mod fs;
mod ops;
mod sealed;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

pub(crate) use content::Content;
pub(crate) use file::{Bytes, Change};
pub(crate) use fs::{Fs, HandleId, Ino, Kind, Naming, ROOT};
pub(crate) use ops::walk;
pub(crate) use sealed::SealedFile;

use super::executor::{Executor, Life};
use super::faults::Faults;
use super::rng::Rng;
use crate::chunk::Chunk;
use crate::error::{Error, Result};
use crate::sync::{Gate, OneshotSender, oneshot};
use crate::time::nanos;

/// What an operation in flight will do.
enum Action {
    /// A change of names, sizes or allocations: at a crash it has happened or not.
    Name(Box<dyn FnOnce(&mut Fs)>),
    /// A read or a flush: at a crash it is nothing.
    Other(Box<dyn FnOnce(&mut Fs)>),
    Write(Write),
}

/// A write in flight.
struct Write {
    handle: HandleId,
    ino: Ino,
    pos: u64,
    bytes: Bytes,
    dsync: bool,
    done: OneshotSender<io::Result<()>>,
}

struct InFlight {
    life: u64,
    action: Action,
}

/// The disk of a node, across its lives.
pub(crate) struct Device {
    executor: Rc<Executor>,
    pub(crate) fs: RefCell<Fs>,
    in_flight: RefCell<BTreeMap<u64, InFlight>>,
}

impl Device {
    pub(crate) fn new(executor: &Rc<Executor>, rng: Rng, faults: &Faults) -> Rc<Device> {
        let device = Device {
            executor: Rc::clone(executor),
            fs: RefCell::new(Fs::new(rng)),
            in_flight: RefCell::default(),
        };
        device.set_faults(faults);
        Rc::new(device)
    }

    pub(crate) fn set_faults(&self, faults: &Faults) {
        let mut fs = self.fs.borrow_mut();
        fs.faults = faults.clone();
        fs.counts = fs::Counts::default();
        fs.down = false;
        if let Some(bytes) = faults.capacity {
            fs.set_capacity(bytes);
        }
    }

    /// Time an operation takes, at most what the faults say.
    fn delay(&self, longest: impl Fn(&Faults) -> Duration) -> u64 {
        let mut fs = self.fs.borrow_mut();
        let longest = nanos(longest(&fs.faults));
        fs.rng.between(longest / 8, longest)
    }

    /// Enters an operation that takes effect in `delay`.
    fn start(self: &Rc<Self>, life: &Life, delay: u64, action: Action) {
        let id = self.executor.id();
        self.executor.record(id ^ (delay << 20));
        self.in_flight.borrow_mut().insert(id, InFlight { life: life.id, action });
        let device = Rc::clone(self);
        self.executor.after(delay, move || device.finish(id));
    }

    fn finish(&self, id: u64) {
        // Gone if its life ended: then the crash has decided about it.
        let Some(operation) = self.in_flight.borrow_mut().remove(&id) else {
            return;
        };
        let mut fs = self.fs.borrow_mut();
        match operation.action {
            Action::Name(run) | Action::Other(run) => run(&mut fs),
            Action::Write(write) => ops::finish_write(&mut fs, write),
        }
    }

    fn take_in_flight(&self, life: u64) -> Vec<Action> {
        let mut all = self.in_flight.borrow_mut();
        let ids: Vec<u64> =
            all.iter().filter(|(_, op)| op.life == life).map(|(id, _)| *id).collect();
        ids.into_iter().filter_map(|id| all.remove(&id)).map(|op| op.action).collect()
    }

    /// The process of `life` is gone, the machine is not.
    pub(crate) fn kill(self: &Rc<Self>, life: u64) {
        let actions = self.take_in_flight(life);
        let mut landing: Vec<(u64, Write)> = Vec::new();
        let mut fs = self.fs.borrow_mut();
        for action in actions {
            match action {
                Action::Name(run) => {
                    if fs.rng.coin() {
                        run(&mut fs);
                    }
                }
                Action::Other(_) => {}
                Action::Write(write) => {
                    // One in four was never submitted.
                    if fs.rng.below(4) > 0 {
                        let latest = nanos(fs.faults.late_writes);
                        landing.push((latest, write));
                    }
                }
            }
        }
        for (latest, write) in landing {
            self.land_late(&mut fs, latest, write);
        }
        let closed: Vec<HandleId> =
            fs.handles.iter().filter(|(_, h)| h.life == life).map(|(id, _)| *id).collect();
        for handle in closed {
            fs.close_handle(handle);
        }
    }

    /// Lets a write of a dead life land in pieces, each at a time of its own.
    fn land_late(self: &Rc<Self>, fs: &mut Fs, latest: u64, write: Write) {
        let len = write.bytes.get().len();
        let grain = [512, 4096, len.max(512).next_multiple_of(512)][fs.rng.index(3)];
        let whole_at_once = fs.rng.coin();
        let first = fs.rng.between(0, latest);
        let cuts = fs.cuts;
        let bytes = Rc::new(write.bytes);
        for (at, n) in crash::pieces(write.pos, len, grain) {
            let when = if whole_at_once { first } else { fs.rng.between(0, latest) };
            let Ok(file) = fs.file(write.ino) else { return };
            let locked = file.lock == Some(write.handle);
            if when == 0 {
                ops::land(
                    fs,
                    write.ino,
                    write.pos + at as u64,
                    &bytes.get()[at..at + n],
                    write.dsync,
                );
                continue;
            }
            if locked {
                file.late += 1;
            }
            let device = Rc::clone(self);
            let bytes = Rc::clone(&bytes);
            let (ino, pos, dsync) = (write.ino, write.pos + at as u64, write.dsync);
            self.executor.after(when, move || {
                let mut fs = device.fs.borrow_mut();
                if fs.cuts != cuts {
                    return;
                }
                ops::land(&mut fs, ino, pos, &bytes.get()[at..at + n], dsync);
                if locked && let Ok(file) = fs.file(ino) {
                    file.late -= 1;
                    if file.late == 0 {
                        file.lock = None;
                    }
                }
            });
        }
    }

    /// The power is cut while `life` runs (or none does).
    pub(crate) fn power_cut(&self, life: Option<u64>) {
        let actions = life.map(|life| self.take_in_flight(life)).unwrap_or_default();
        let mut fs = self.fs.borrow_mut();
        let mut writes: Vec<(Ino, Change)> = Vec::new();
        for action in actions {
            match action {
                Action::Name(run) => {
                    if fs.rng.coin() {
                        run(&mut fs);
                    }
                }
                Action::Other(_) => {}
                Action::Write(Write { ino, pos, bytes, .. }) => {
                    writes.push((ino, Change::Write { pos, bytes }));
                }
            }
        }
        fs.power_cut(&writes);
    }
}

/// The disk as one core of one life sees it.
#[derive(Clone)]
pub(crate) struct Disk {
    device: Rc<Device>,
    life: Rc<Life>,
}

impl Disk {
    pub(crate) fn new(device: Rc<Device>, life: Rc<Life>) -> Disk {
        Disk { device, life }
    }
}

/// An open descriptor, closed when dropped.
struct Descriptor {
    disk: Disk,
    id: HandleId,
    ino: Ino,
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // The descriptors of a dead life were closed by its death.
        if self.disk.life.alive.get() {
            self.disk.device.fs.borrow_mut().close_handle(self.id);
        }
    }
}

/// A lock file, unlocked when dropped.
pub(crate) struct FileLock {
    _descriptor: Descriptor,
}

/// See `crate::SyncAnchor`.
pub(crate) struct SyncAnchor {
    disk: Disk,
}

/// See `crate::DirectFile`.
pub(crate) struct DirectFile {
    descriptor: Rc<Descriptor>,
    path: PathBuf,
    writable: bool,
    dsync: bool,
    flights: Gate,
}

impl DirectFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) async fn quiesce(&self) {
        self.flights.empty().await;
    }

    /// Runs an operation on this file, which stays open until it has ended.
    async fn run<T: 'static>(
        &self,
        op: &'static str,
        delay: u64,
        name: bool,
        effect: impl FnOnce(&mut Fs, Ino) -> io::Result<T> + 'static,
    ) -> Result<T> {
        let (sender, done) = oneshot();
        let descriptor = Rc::clone(&self.descriptor);
        let pass = self.flights.enter();
        let run = Box::new(move |fs: &mut Fs| {
            let result = effect(fs, descriptor.ino);
            // Nobody waits any more if the future was dropped.
            let _ = sender.send(result);
            drop(pass);
            later(&descriptor.disk.device.executor.clone(), descriptor);
        });
        let action = if name { Action::Name(run) } else { Action::Other(run) };
        let disk = &self.descriptor.disk;
        disk.device.start(&disk.life, delay, action);
        self.answer(op, done.await)
    }

    fn check_writable(&self, op: &'static str) -> Result<()> {
        if self.writable {
            return Ok(());
        }
        Err(Error::at(op, &self.path, io::Error::from_raw_os_error(libc::EBADF)))
    }

    fn answer<T>(&self, op: &'static str, answer: Option<io::Result<T>>) -> Result<T> {
        match answer {
            Some(Ok(value)) => Ok(value),
            Some(Err(source)) => Err(Error::at(op, &self.path, source)),
            None => Err(Error::at(op, &self.path, io::ErrorKind::Interrupted.into())),
        }
    }

    pub(crate) async fn write_at(&self, chunk: Chunk, pos: u64) -> Result<()> {
        let disk = &self.descriptor.disk;
        let len = chunk.len() as u64;
        let device = &disk.device;
        self.check_writable("write")?;
        device.fs.borrow_mut().check_space(self.descriptor.ino, pos, len).map_err(|source| {
            Error::at("write", &self.path, source).with_detail(format!("{len} bytes at {pos}"))
        })?;
        let mut delay = device.delay(|f| f.write_delay);
        if self.dsync {
            delay += device.delay(|f| f.flush_delay);
        }
        let (sender, done) = oneshot();
        let write = Write {
            handle: self.descriptor.id,
            ino: self.descriptor.ino,
            pos,
            bytes: Bytes::Chunk(chunk),
            dsync: self.dsync,
            done: sender,
        };
        let keep = (self.flights.enter(), Rc::clone(&self.descriptor));
        device.start(&disk.life, delay, Action::Write(write));
        // Held past the completion, by an event of its own: the future may be dropped before.
        device.executor.after(delay, move || drop(keep));
        self.answer("write", done.await).map_err(|e| {
            let detail = format!("{len} bytes at {pos}");
            if e.detail.is_empty() { e.with_detail(detail) } else { e }
        })
    }

    pub(crate) async fn read_at(&self, pos: u64, len: usize) -> Result<Chunk> {
        let device = &self.descriptor.disk.device;
        let delay = device.delay(|f| f.read_delay);
        let path = self.path.to_string_lossy().into_owned();
        self.run("read", delay, false, move |fs, ino| {
            let mut bytes = fs.file(ino)?.now.read(pos, len);
            ops::maybe_flip(fs, &path, &mut bytes);
            Ok(Chunk::copy_from(&bytes))
        })
        .await
    }

    pub(crate) async fn fdatasync(&self) -> Result<()> {
        let device = &self.descriptor.disk.device;
        let delay = device.delay(|f| f.flush_delay);
        let mark = device.fs.borrow().mark();
        let path = self.path.to_string_lossy().into_owned();
        self.run("fdatasync", delay, false, move |fs, ino| ops::flush(fs, ino, &path, mark)).await
    }

    pub(crate) async fn allocate(&self, pos: u64, len: u64) -> Result<()> {
        self.check_writable("fallocate")?;
        let device = &self.descriptor.disk.device;
        let delay = device.delay(|f| f.name_delay);
        if pos.checked_add(len).is_none() {
            let invalid = io::ErrorKind::InvalidInput.into();
            return Err(Error::at("fallocate", &self.path, invalid));
        }
        self.run("fallocate", delay, true, move |fs, ino| {
            fs.check_space(ino, pos, len)?;
            fs.complete(ino, Change::Allocate { pos, len }, false)
        })
        .await
        .map_err(|e| e.with_detail(format!("{len} bytes at {pos}")))
    }

    pub(crate) async fn truncate(&self, len: u64) -> Result<()> {
        self.check_writable("truncate")?;
        let device = &self.descriptor.disk.device;
        let delay = device.delay(|f| f.name_delay);
        self.run("truncate", delay, true, move |fs, ino| fs.complete(ino, Change::Size(len), false))
            .await
            .map_err(|e| e.with_detail(format!("to {len} bytes")))
    }

    pub(crate) async fn len(&self) -> Result<u64> {
        self.run("stat", 1_000, false, |fs, ino| Ok(fs.file(ino)?.now.size)).await
    }

    pub(crate) fn try_lock(&self) -> Result<bool> {
        let mut fs = self.descriptor.disk.device.fs.borrow_mut();
        let id = self.descriptor.id;
        let locked = fs.file(self.descriptor.ino).map(|file| match file.lock {
            Some(holder) => holder == id,
            None => {
                file.lock = Some(id);
                true
            }
        });
        locked.map_err(|source| Error::at("flock", &self.path, source))
    }
}

/// Drops `value` in an event of its own, when nothing of the file system is borrowed.
fn later<T: 'static>(executor: &Rc<Executor>, value: T) {
    executor.after(0, move || drop(value));
}
