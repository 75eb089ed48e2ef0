//! `rillctl log`: the files of a data directory, read as they are on disk. Nothing is written or locked, so the broker
//! may run meanwhile.

mod batches;
mod dump;
mod files;
mod findings;
mod known;
mod names;
mod offsets;
mod partition;
mod ring;
mod root;
mod segment;
#[cfg(test)]
mod tests;
mod verify;

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Print or check the files of a data directory; the broker may run or not.
#[derive(clap::Subcommand, Clone, Debug)]
pub(crate) enum Command {
    Dump(dump::Args),
    Verify(verify::Args),
}

pub(crate) fn run(command: Command) -> Result<()> {
    match command {
        Command::Dump(args) => dump::run(&args),
        Command::Verify(args) => verify::run(&args),
    }
}

/// The bytes of a file.
fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(failed(path))
}

/// What the system says of a file, as an error.
fn failed(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::File { path: path.to_path_buf(), source }
}

/// What lies in a directory, by name; nothing when it is gone.
fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let failed = |source| Error::File { path: dir.to_path_buf(), source };
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        all.push(entry.map_err(failed)?.path());
    }
    all.sort();
    Ok(all)
}

/// The last part of a path.
fn name(path: &Path) -> &str {
    path.file_name().and_then(|n| n.to_str()).unwrap_or_default()
}
