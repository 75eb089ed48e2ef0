//! What kind of file system a directory is on, with which options, and how full it is.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::disk::FsStat;

pub(super) struct Space {
    pub(super) total: u64,
    pub(super) available: u64,
    pub(super) read_only: bool,
}

/// The space of the file system an open file is on.
pub(super) fn space(file: &File) -> io::Result<Space> {
    let mut stat = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the descriptor is open, and the pointer is to memory of the right size that is ours.
    if unsafe { libc::fstatvfs(file.as_raw_fd(), stat.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed memory is a valid value of this struct of integers, and the call has filled it.
    let stat = unsafe { stat.assume_init() };
    Ok(Space {
        total: stat.f_blocks.saturating_mul(stat.f_frsize),
        available: stat.f_bavail.saturating_mul(stat.f_frsize),
        read_only: stat.f_flag & libc::ST_RDONLY != 0,
    })
}

/// Blocks: call it on a thread for that.
pub(super) fn stat_fs(dir: &Path) -> io::Result<FsStat> {
    let space = space(&File::open(dir)?)?;
    let real = dir.canonicalize()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let (kind, options) = find(&mounts, &real)
        .ok_or_else(|| io::Error::other(format!("no mount contains {}", real.display())))?;
    Ok(FsStat {
        total: space.total,
        available: space.available,
        read_only: space.read_only,
        kind,
        options,
    })
}

/// Type and options of the mount that holds `path`: the longest mount point above it, the last one mounted
/// there. Options are those of the mount, then those of the file system.
fn find(mountinfo: &str, path: &Path) -> Option<(String, String)> {
    let mut best: Option<(usize, String, String)> = None;
    for line in mountinfo.lines() {
        // "36 35 98:0 /root /mnt rw,noatime master:1 - ext4 /dev/sda rw,errors=continue" (proc(5))
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(4);
        let (point, options) = (unescape(mount.next()?), mount.next()?);
        let mut system = system.split(' ');
        let (kind, _source) = (system.next()?, system.next()?);
        let more = system.next().unwrap_or("");
        if path.starts_with(&point) && best.as_ref().is_none_or(|(len, ..)| point.len() >= *len) {
            best = Some((point.len(), kind.to_string(), format!("{options},{more}")));
        }
    }
    best.map(|(_, kind, options)| (kind, options))
}

/// Spaces and such are written as three octal digits.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or("").to_string();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(&part[3..]);
            }
            None => {
                plain.push('\\');
                plain.push_str(part);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,errors=remount-ro
30 22 0:20 / /tmp rw,nosuid shared:1 - tmpfs tmpfs rw,size=100k
31 22 7:0 / /data\\040one rw - xfs /dev/loop0 rw,attr2
32 22 7:1 / /data\\040one ro - ext4 /dev/loop1 rw,data=journal
";

    #[test]
    fn the_longest_and_latest_mount_point_wins() {
        let kind = |path: &str| find(MOUNTS, Path::new(path)).expect("mounted");
        assert_eq!(kind("/tmp/x").0, "tmpfs");
        assert_eq!(kind("/tmpfoo").0, "ext4");
        let (fs, options) = kind("/data one/rings");
        assert_eq!((fs.as_str(), options.as_str()), ("ext4", "ro,rw,data=journal"));
    }
}
