//! Where a data directory may lie (storage.md section 12): what `serve` refuses and `check` explains.

use std::path::{Path, PathBuf};

use rillway_io::FsStat;

/// What a place is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    Good,
    /// Works, with a drawback.
    Warned(String),
    /// Not tried by us; taken if `storage.allow` names the file system.
    NeedsOverride(String),
    /// A flush means nothing there, or direct IO does not work.
    Refused(String),
}

/// Judges a file system by its kind and mount options.
pub fn judge(stat: &FsStat) -> Placement {
    let has = |option: &str| stat.options.split(',').any(|o| o == option);
    if stat.read_only {
        return Placement::Refused("it is read-only; mount it read-write".to_owned());
    }
    match stat.kind.as_str() {
        "ext4" if has("data=journal") => {
            Placement::Refused("ext4 with data=journal writes everything twice and gives up direct IO; mount it with data=ordered".to_owned())
        }
        "ext4" if has("nobarrier") || has("barrier=0") => {
            Placement::Refused("ext4 without barriers: a flush does not reach the disk; mount it without nobarrier".to_owned())
        }
        "ext4" if has("noload") || has("norecovery") => {
            Placement::Refused("ext4 without its journal; mount it without noload".to_owned())
        }
        "ext4" if has("test_dummy_encryption") || has("inlinecrypt") => {
            Placement::Refused("encrypted ext4 directories have no direct IO here; choose a plain directory".to_owned())
        }
        "xfs" if has("norecovery") || has("nobarrier") => {
            Placement::Refused("XFS without barriers or recovery; mount it with its defaults".to_owned())
        }
        "ext4" | "xfs" => Placement::Good,
        kind if ALLOWABLE.contains(&kind) => Placement::NeedsOverride(format!(
            "{} has not been tested for power cuts; use ext4 or XFS, or set storage.allow={} to go on",
            stat.kind, stat.kind
        )),
        "tmpfs" | "ramfs" => Placement::Refused(format!("{} is memory: nothing survives a power cut", stat.kind)),
        other => Placement::Refused(format!(
            "{other} does not promise that a flushed write survives a power cut; use ext4 or XFS on a local disk"
        )),
    }
}

/// The nearest directory that exists: the data directory may be made later, and on the same file system.
pub fn existing(dir: &Path) -> PathBuf {
    let mut dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
    while !dir.is_dir() {
        if !dir.pop() {
            return PathBuf::from("/");
        }
    }
    dir
}

/// Kinds that `storage.allow` can name.
const ALLOWABLE: [&str; 4] = ["btrfs", "zfs", "bcachefs", "overlay"];

/// Whether a kind may be named in `storage.allow`: one that is refused whatever is allowed must not look as if it were.
///
/// # Errors
/// A sentence that says which may.
pub fn check_allowed(kind: &str) -> Result<(), String> {
    if ALLOWABLE.contains(&kind) {
        return Ok(());
    }
    Err(format!(
        "storage.allow is `{kind}`, must be one of {}; {kind} needs no allowing or cannot be allowed, because a flush \
         means nothing there",
        ALLOWABLE.join(", ")
    ))
}

/// What `serve` does with it.
///
/// # Errors
/// The sentence to refuse with.
pub fn admit(stat: &FsStat, allowed: Option<&str>) -> Result<(), String> {
    match judge(stat) {
        Placement::Good => Ok(()),
        Placement::Warned(why) => {
            tracing::warn!("data directory: {why}");
            Ok(())
        }
        Placement::NeedsOverride(why) if allowed == Some(stat.kind.as_str()) => {
            tracing::warn!("data directory on {}, allowed by storage.allow: {why}", stat.kind);
            Ok(())
        }
        Placement::NeedsOverride(why) | Placement::Refused(why) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(kind: &str, options: &str) -> FsStat {
        FsStat {
            total: 1,
            available: 1,
            read_only: false,
            kind: kind.to_owned(),
            options: options.to_owned(),
        }
    }

    #[test]
    fn ext4_and_xfs_with_their_defaults_are_good() {
        assert_eq!(judge(&stat("ext4", "rw,relatime")), Placement::Good);
        assert_eq!(judge(&stat("xfs", "rw,noatime")), Placement::Good);
    }

    #[test]
    fn places_where_a_flush_means_nothing_are_refused_whatever_is_allowed() {
        for (kind, options) in [
            ("tmpfs", "rw"),
            ("nfs4", "rw"),
            ("fuse.sshfs", "rw"),
            ("9p", "rw"),
            ("ext4", "rw,data=journal"),
            ("ext4", "rw,nobarrier"),
        ] {
            assert!(admit(&stat(kind, options), Some(kind)).is_err(), "{kind} {options}");
        }
    }

    #[test]
    fn untested_file_systems_need_to_be_allowed_by_name() {
        assert!(admit(&stat("btrfs", "rw"), None).unwrap_err().contains("storage.allow=btrfs"));
        assert!(admit(&stat("btrfs", "rw"), Some("overlay")).is_err());
        assert_eq!(admit(&stat("btrfs", "rw"), Some("btrfs")), Ok(()));
    }
}
