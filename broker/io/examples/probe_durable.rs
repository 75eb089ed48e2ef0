//! Probe of kernel-notes/02-what-a-flush-makes-durable.md: what is left after the power was cut?
//!
//! Makes an ext4 on a loop device, writes directly into a fallocated range, flushes in one way or another, shuts the
//! file system down without flushing its journal (which is what a power cut does to it), mounts it again and
//! looks. Needs root: `probe_durable DIR`, where DIR has 300 MiB of room.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rillway_io::kernel::{self, KernelOptions};
use rillway_io::{BLOCK, Chunk, DirectFile, OpenOptions, Runtime};

const B: u64 = BLOCK as u64;
/// `_IOR('X', 125, __u32)`, fs/ext4/ext4.h.
const EXT4_IOC_SHUTDOWN: libc::c_ulong = 0x8004_587D;
/// Stop at once; what the journal holds in memory is lost.
const NOLOGFLUSH: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Nothing,
    /// The ring was written before: its flush needs no transaction of the file system.
    FlushOfTheRing,
    DsyncWriteOfTheRing,
    /// A file whose range was only allocated: its flush commits the file system's journal.
    FlushOfAFreshFile,
    FlushOfTheFile,
    Syncfs,
    SyncfsThenMoreWrites,
}

const CASES: [How; 7] = [
    How::Nothing,
    How::FlushOfTheRing,
    How::DsyncWriteOfTheRing,
    How::FlushOfAFreshFile,
    How::FlushOfTheFile,
    How::Syncfs,
    How::SyncfsThenMoreWrites,
];

fn run(command: &str, args: &[&str]) {
    let status = Command::new(command).args(args).status().expect(command);
    assert!(status.success(), "{command} {args:?}");
}

/// Descriptors are closed by threads and rings that end a moment later.
fn unmount(mount: &str) {
    for _ in 0..100 {
        if Command::new("umount")
            .arg(mount)
            .stderr(Stdio::null())
            .status()
            .expect("umount")
            .success()
        {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    run("umount", &[mount]);
}

fn sevens(blocks: usize) -> Chunk {
    Chunk::copy_from(&vec![7; blocks * BLOCK])
}

async fn prepared(rt: &Runtime, path: &Path) -> DirectFile {
    let options = OpenOptions::new().create(true);
    let file = rt.disk().open(path, options).await.expect("open");
    file.allocate(0, 64 * B).await.expect("allocate");
    file.fdatasync().await.expect("fdatasync");
    file
}

async fn write(rt: Runtime, dir: PathBuf, how: How) {
    let disk = rt.disk();
    let anchor = disk.anchor(&dir).await.expect("anchor");
    let file = prepared(&rt, &dir.join("segment")).await;
    let fresh = prepared(&rt, &dir.join("fresh")).await;
    let ring = prepared(&rt, &dir.join("ring")).await;
    ring.write_at(Chunk::copy_from(&[1; 64 * BLOCK]), 0).await.expect("write");
    ring.fdatasync().await.expect("fdatasync");
    disk.sync_dir(&dir).await.expect("sync_dir");
    // From here on three files exist: two with 64 allocated blocks, and the ring with 64 written ones.
    file.write_at(sevens(16), 0).await.expect("write");
    let options = OpenOptions::new().create(true);
    let new = disk.open(&dir.join("new"), options).await.expect("open");
    new.write_at(sevens(1), 0).await.expect("write");
    match how {
        How::Nothing => {}
        How::FlushOfTheRing => {
            ring.write_at(sevens(1), 0).await.expect("write");
            ring.fdatasync().await.expect("fdatasync");
        }
        How::FlushOfAFreshFile => {
            fresh.write_at(sevens(1), 0).await.expect("write");
            fresh.fdatasync().await.expect("fdatasync");
        }
        How::DsyncWriteOfTheRing => {
            let options = OpenOptions::new().write(true).dsync(true);
            let dsync = disk.open(&dir.join("ring"), options).await.expect("open");
            dsync.write_at(sevens(1), 0).await.expect("write");
            dsync.close().await.expect("close");
        }
        How::FlushOfTheFile => file.fdatasync().await.expect("fdatasync"),
        How::Syncfs => anchor.syncfs().await.expect("syncfs"),
        How::SyncfsThenMoreWrites => {
            anchor.syncfs().await.expect("syncfs");
            file.write_at(sevens(16), 16 * B).await.expect("write");
        }
    }
    for file in [file, fresh, ring, new] {
        file.close().await.expect("close");
    }
}

fn shut_down(mount: &Path) {
    let dir = File::open(mount).expect("open");
    let flags = NOLOGFLUSH;
    // SAFETY: the request reads one u32, from a live value.
    let done = unsafe { libc::ioctl(dir.as_raw_fd(), EXT4_IOC_SHUTDOWN, &raw const flags) };
    assert_eq!(done, 0, "EXT4_IOC_SHUTDOWN: {}", std::io::Error::last_os_error());
}

/// How many blocks of a range hold the bytes that were written.
fn describe(mount: &Path, name: &str, from: usize, blocks: usize) -> String {
    let Ok(bytes) = std::fs::read(mount.join(name)) else {
        return "no such file".to_string();
    };
    let range = bytes.get(from * BLOCK..(from + blocks) * BLOCK).unwrap_or(&[]);
    let kept = range.chunks(BLOCK).filter(|b| b.iter().all(|b| *b == 7)).count();
    let zeros = range.chunks(BLOCK).filter(|b| b.iter().all(|b| *b == 0)).count();
    let old = range.len() / BLOCK - kept - zeros;
    format!("{kept} kept, {zeros} zeros, {old} old; {} bytes long", bytes.len())
}

fn main() {
    let dir = PathBuf::from(std::env::args().nth(1).expect("usage: probe_durable DIR"));
    let (image, mount) = (dir.join("probe.img"), dir.join("probe.mnt"));
    std::fs::create_dir_all(&mount).expect("mkdir");
    let (image_name, mount_name) = (image.display().to_string(), mount.display().to_string());
    for how in CASES {
        let file = File::create(&image).expect("create");
        file.set_len(256 << 20).expect("set_len");
        run("mkfs.ext4", &["-q", "-F", &image_name]);
        // A long commit interval, so that the journal's own five seconds do not decide.
        run("mount", &["-o", "loop,commit=300", &image_name, &mount_name]);
        let at = mount.clone();
        let main = move |rt| write(rt, at.clone(), how);
        kernel::start(KernelOptions::default(), main).expect("io_uring").join();
        shut_down(&mount);
        unmount(&mount_name);
        run("mount", &["-o", "loop", &image_name, &mount_name]);
        println!("{how:?}");
        println!("    segment, 16 blocks: {}", describe(&mount, "segment", 0, 16));
        if how == How::SyncfsThenMoreWrites {
            println!("    segment, the next 16: {}", describe(&mount, "segment", 16, 16));
        }
        println!("    ring, 1 block:      {}", describe(&mount, "ring", 0, 1));
        println!("    fresh, 1 block:     {}", describe(&mount, "fresh", 0, 1));
        println!("    new, 1 block:       {}", describe(&mount, "new", 0, 1));
        unmount(&mount_name);
    }
    std::fs::remove_file(&image).expect("rm");
    std::fs::remove_dir(&mount).expect("rmdir");
}
