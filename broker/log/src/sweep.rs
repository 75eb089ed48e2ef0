//! Files that nothing refers to any more: what was renamed for deletion in an earlier life, and what a crash kept from
//! being renamed. Runs in the background after a start; a leftover costs room and nothing else.

use std::path::Path;
use std::rc::Rc;

use rillway_io::{Class, Disk, Runtime};

use crate::log::Log;
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
                sweep_log(&disk, &log).await;
                store.inner.rt.yield_now().await;
            }
        });
        drop(task);
    }
}

async fn sweep_log(disk: &Disk, log: &Rc<Log>) {
    let Ok(entries) = disk.read_dir(log.directory()).await else {
        // It is made with the first append.
        return;
    };
    for entry in entries {
        let deleted = entry.name.ends_with(".deleted");
        if !deleted && !is_gone(log, &entry.name) {
            continue;
        }
        let path = log.directory().join(&entry.name);
        if let Err(e) = disk.remove_file(&path).await {
            tracing::warn!("{}: could not be removed: {e}", path.display());
        }
    }
}

/// A segment's file below the log start, of a segment that is in the table no more.
fn is_gone(log: &Log, name: &str) -> bool {
    let Some((base, rest)) = name.split_once('.') else { return false };
    if base.len() != 20 || !(rest.ends_with("log") || rest.ends_with("meta")) {
        return false;
    }
    let Ok(base) = base.parse::<i64>() else { return false };
    let state = log.state();
    base < state.flushed.log_start && state.flushed.segment(base).is_none()
}
