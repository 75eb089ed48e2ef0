//! Files that nothing refers to any more: what was renamed for deletion in an earlier life, and what a crash kept from
//! being renamed. Runs in the background after a start; a leftover costs room and nothing else.

use std::path::Path;
use std::rc::Rc;

use rillway_io::{Class, Disk, Runtime};

use crate::log::Log;
use crate::state::SegmentKey;
use crate::store::Store;

/// Removes the directories of deleted partitions, in the background.
pub(crate) fn deleted_directories(rt: &Runtime, dir: &Path) {
    let (rt_inner, dir) = (rt.clone(), dir.to_path_buf());
    let task = rt.spawn(Class::Background, async move {
        let disk = rt_inner.disk();
        let entries = match disk.read_dir(&dir).await {
            Ok(entries) => entries,
            Err(e) => return tracing::warn!("{}: {e}", dir.display()),
        };
        // No partition's directory can end so: it ends with its number.
        for entry in entries.iter().filter(|e| e.is_dir && e.name.ends_with("-delete")) {
            if let Err(e) = disk.remove_dir_all(&dir.join(&entry.name)).await {
                tracing::warn!("{}: could not be removed: {e}", entry.name);
            }
        }
    });
    drop(task);
}

impl Store {
    /// Removes what is left of deleted segments, in the background.
    pub(crate) fn sweep(&self) {
        let store = self.clone();
        let task = self.inner.rt.spawn(Class::Background, async move {
            let disk = store.inner.rt.disk();
            for log in store.logs() {
                if store.inner.closing.get() {
                    return;
                }
                sweep_log(&disk, &store, &log).await;
                log.cleaning.swept.set(true);
                store.inner.rt.yield_now().await;
            }
        });
        drop(task);
    }
}

async fn sweep_log(disk: &Disk, store: &Store, log: &Rc<Log>) {
    let Ok(entries) = disk.read_dir(log.directory()).await else {
        // It is made with the first append.
        return;
    };
    for entry in entries {
        // A delete renames the directory under this turn, and a partition of the same name may make another in its place.
        let _files = log.files_turn.acquire(1).await;
        if log.is_deleted() {
            return;
        }
        let deleted = entry.name.ends_with(".deleted");
        let gone = if deleted { Gone::Old } else { is_gone(log, &entry.name) };
        if gone == Gone::No {
            continue;
        }
        if gone == Gone::Unfinished {
            store.inner.count(|c| c.interrupted_cleanings += 1);
        }
        let path = log.directory().join(&entry.name);
        if let Err(e) = disk.remove_file(&path).await {
            tracing::warn!("{}: could not be removed: {e}", path.display());
        }
    }
}

/// What a file of a partition's directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    No,
    /// Of a segment that is in the table no more, or in another form.
    Old,
    /// Of a cleaning that no REPLACE finished.
    Unfinished,
}

fn is_gone(log: &Log, name: &str) -> Gone {
    let Some(key) = parse(name) else { return Gone::No };
    let state = log.state();
    let p = &state.flushed;
    if p.has(key) {
        return Gone::No;
    }
    match p.segment(key.base) {
        Some(s) if key.compaction < s.compaction => Gone::Old,
        Some(_) => Gone::Unfinished,
        // The next active segment has a file before the table knows of it.
        None if key.base >= p.active().base => Gone::No,
        None => Gone::Old,
    }
}

/// Which segment a file belongs to by its name, `<base>[.<n>].log` or `.meta`.
fn parse(name: &str) -> Option<SegmentKey> {
    let (base, rest) = name.split_at_checked(20)?;
    let rest = rest.strip_prefix('.')?;
    let compaction = match rest.split_once('.') {
        Some((n, "log" | "meta")) => n.parse().ok()?,
        None if ["log", "meta"].contains(&rest) => 0,
        _ => return None,
    };
    Some(SegmentKey { base: base.parse().ok()?, compaction })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_segments_are_taken_for_segments() {
        let key = |base, compaction| Some(SegmentKey { base, compaction });
        assert_eq!(parse("00000000000000000012.log"), key(12, 0));
        assert_eq!(parse("00000000000000000012.3.meta"), key(12, 3));
        for other in [
            "partition.metadata",
            "12.log",
            "00000000000000000012.3.log.deleted",
            "00000000000000000012.x.log",
            "",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
