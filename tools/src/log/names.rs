//! What a file of a data directory is, by its name and the folder that it lies in (FORMAT.md 1).

use std::path::Path;

use super::name;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lock,
    Storage,
    Reserve,
    CurrentRings,
    /// With its number.
    Ring(u64),
    /// With the number of its ring.
    Checkpoint(u64),
    PartitionMetadata,
    /// The metadata image.
    Snapshot,
    Log(Segment),
    Meta(Segment),
    /// Written, and not yet renamed to its place.
    Temporary,
    Unknown,
}

/// A segment's file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Segment {
    pub(super) base: i64,
    pub(super) compaction: u32,
    /// Waits to be removed.
    pub(super) deleted: bool,
}

pub(super) fn kind(path: &Path) -> Kind {
    let file = name(path);
    let in_rings = path.parent().is_some_and(|p| name(p) == "rings");
    match file {
        "LOCK" => return Kind::Lock,
        "storage" => return Kind::Storage,
        "reserve" => return Kind::Reserve,
        "current" if in_rings => return Kind::CurrentRings,
        "partition.metadata" => return Kind::PartitionMetadata,
        "snapshot" => return Kind::Snapshot,
        _ => {}
    }
    if in_rings
        && let Some((id, end)) = file.split_once('.')
        && let Ok(id) = id.parse()
    {
        match end {
            "ring" => return Kind::Ring(id),
            "a" | "b" => return Kind::Checkpoint(id),
            _ => {}
        }
    }
    if file.ends_with(".tmp") {
        return Kind::Temporary;
    }
    segment(file).unwrap_or(Kind::Unknown)
}

fn segment(file: &str) -> Option<Kind> {
    let (file, deleted) = match file.strip_suffix(".deleted") {
        Some(file) => (file, true),
        None => (file, false),
    };
    let (stem, end) = file.rsplit_once('.')?;
    let (base, compaction) = match stem.split_once('.') {
        Some((base, n)) => (base, n.parse().ok()?),
        None => (stem, 0),
    };
    if base.len() != 20 {
        return None;
    }
    let segment = Segment { base: base.parse().ok()?, compaction, deleted };
    match end {
        "log" => Some(Kind::Log(segment)),
        "meta" => Some(Kind::Meta(segment)),
        _ => None,
    }
}

impl Kind {
    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Storage => "storage",
            Self::Reserve => "reserve",
            Self::CurrentRings => "list of rings",
            Self::Ring(_) => "ring",
            Self::Checkpoint(_) => "checkpoint",
            Self::PartitionMetadata => "partition metadata",
            Self::Snapshot => "metadata snapshot",
            Self::Log(s) if s.deleted => "segment to be deleted",
            Self::Log(s) if s.compaction > 0 => "compacted segment",
            Self::Log(_) => "segment",
            Self::Meta(s) if s.deleted => "segment's .meta to be deleted",
            Self::Meta(_) => "segment's .meta",
            Self::Temporary => "temporary file",
            Self::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_data_directory_is_known() {
        let kind = |name: &str| kind(Path::new(name));
        assert_eq!(kind("d/rings/7.ring"), Kind::Ring(7));
        assert_eq!(kind("d/rings/7.b"), Kind::Checkpoint(7));
        assert_eq!(kind("d/rings/current"), Kind::CurrentRings);
        let base = "d/t-0/00000000000000000042";
        let segment = |compaction, deleted| Segment { base: 42, compaction, deleted };
        assert_eq!(kind(&format!("{base}.log")), Kind::Log(segment(0, false)));
        assert_eq!(kind(&format!("{base}.3.log")), Kind::Log(segment(3, false)));
        assert_eq!(kind(&format!("{base}.3.meta.deleted")), Kind::Meta(segment(3, true)));
        for unknown in ["d/t-0/42.log", "d/7.ring", "d/t-0/00000000000000000042.txt"] {
            assert_eq!(kind(unknown), Kind::Unknown, "{unknown}");
        }
    }
}
