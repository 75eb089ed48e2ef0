//! `cargo xtask tidy`: the rules of the workspace that a compiler does not know.
//!
//! Each rule is a function from the tree to findings. A finding names file and line and says how to
//! mend it. A rule with exceptions lists them beside it, each with its reason.

mod documents;
mod layers;
mod sources;

use crate::workspace;
use std::fmt;

/// Something that is not as the rules want it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) file: String,
    /// From 1; 0 for the file as a whole.
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) mend: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}\n    mend: {}", self.file, self.line.max(1), self.what, self.mend)
    }
}

/// Judges the tree. `Ok(false)`: at least one rule is broken. Long files are told, never failed.
pub(crate) fn run() -> Result<bool, String> {
    let root = workspace::root();
    let packages = workspace::packages(&root)?;
    let files = workspace::files(&root)?;
    let manifest = |folder: &str| {
        let path = format!("{folder}/Cargo.toml");
        files.iter().find(|(n, _)| *n == path).map_or("", |(_, t)| t.as_str())
    };

    let mut findings = layers::check(&packages, &manifest);
    let mut long = Vec::new();
    for (name, text) in &files {
        findings.extend(sources::check(name, text));
        let exists = |path: &str| root.join(path).exists();
        findings.extend(documents::check(name, text, &exists));
        long.extend(sources::long_file(name, text));
    }
    for note in &long {
        println!("note: {note}");
    }
    for finding in &findings {
        println!("{finding}");
    }
    let (n, crates) = (files.len(), packages.len());
    println!(
        "tidy: {crates} crates, {n} files, {} broken rules, {} notes",
        findings.len(),
        long.len()
    );
    Ok(findings.is_empty())
}
