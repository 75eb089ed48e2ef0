//! What a check found: damages, and notes of what a crash leaves or a broker that runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rillway_log::inspect::Problem;

/// What was found.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    pub(super) damages: Vec<Damage>,
    pub(super) notes: Vec<(PathBuf, u64, String)>,
    /// Every file that was looked at.
    pub(super) files: BTreeSet<PathBuf>,
}

/// Something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) path: PathBuf,
    /// In bytes.
    pub(super) position: u64,
    pub(super) what: String,
    pub(super) got: String,
    pub(super) expected: String,
}

impl Findings {
    /// Something is wrong.
    pub(super) fn damage(&mut self, path: &Path, at: u64, what: &str, got: &str, expected: &str) {
        self.damages.push(Damage {
            path: path.to_path_buf(),
            position: at,
            what: what.to_string(),
            got: got.to_string(),
            expected: expected.to_string(),
        });
    }

    /// Something that a crash leaves, or a broker that runs.
    pub(super) fn note(&mut self, path: &Path, at: u64, what: &str) {
        self.notes.push((path.to_path_buf(), at, what.to_string()));
    }

    /// A file was looked at.
    pub(super) fn looked_at(&mut self, path: &Path) {
        self.files.insert(path.to_path_buf());
    }

    /// Bytes that do not parse.
    pub(super) fn problem(&mut self, path: &Path, problem: &Problem) {
        self.damage(path, problem.position, problem.what, &problem.got, &problem.expected);
    }

    /// What the readers of recovery say of a file.
    pub(super) fn log_error(&mut self, path: &Path, error: &rillway_log::Error) {
        match error {
            rillway_log::Error::Corrupt { path, position, what, got, expected } => {
                self.damage(path, *position, what, got, expected);
            }
            other => self.unreadable(path, &other.to_string()),
        }
    }

    /// A file cannot be read, or not as what it should be.
    pub(super) fn unreadable(&mut self, path: &Path, why: &str) {
        self.damage(path, 0, "file", why, "one that can be read");
    }

    /// Adds what another check found.
    pub(super) fn add(&mut self, other: Findings) {
        self.damages.extend(other.damages);
        self.notes.extend(other.notes);
        self.files.extend(other.files);
    }
}
