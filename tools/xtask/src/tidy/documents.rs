//! Rules for every text file: references into `kernel-notes/` resolve, and nothing names a machine
//! or a package registry.

use super::Finding;

/// Folders that exist on somebody's machine only. Put together at compile time, so that this file
/// does not break its own rule.
const MACHINE: &[&str] =
    &[concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/"), concat!("/", "Users/")];

/// Hosts that serve packages: a build takes them from its own tool's configuration.
const REGISTRIES: &[&str] = &[
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("py", "pi.org"),
    concat!("files.", "pythonhosted.org"),
    concat!("registry.", "npmjs.org"),
    concat!("repo1.", "maven.org"),
    concat!("repo.", "maven.apache.org"),
    concat!("proxy.", "golang.org"),
    concat!("deb.", "debian.org"),
    concat!("archive.", "ubuntu.com"),
];

/// `exists` answers for a path relative to the root.
pub(crate) fn check(name: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut find = |what: String, mend: &str| {
            let (file, line) = (name.to_owned(), index + 1);
            findings.push(Finding { file, line, what, mend: mend.to_owned() });
        };
        for note in notes(line) {
            if !exists(note) {
                let mend = "write the note with its probe and figures, or correct the reference";
                find(format!("`{note}` does not exist"), mend);
            }
        }
        for folder in MACHINE.iter().filter(|f| names_folder(line, f)) {
            let mend = "make it relative to the clone, or take it from the environment";
            find(format!("a path of one machine (`{folder}...`)"), mend);
        }
        for host in REGISTRIES.iter().filter(|h| line.contains(**h)) {
            let mend = "leave it to the package tool's own configuration";
            find(format!("a package registry's host (`{host}`)"), mend);
        }
    }
    findings
}

/// References into the folder of notes that name a file.
fn notes(line: &str) -> impl Iterator<Item = &str> {
    let folder = concat!("kernel-", "notes/");
    line.match_indices(folder).filter_map(move |(at, _)| {
        let tail = &line[at + folder.len()..];
        let file = tail
            .find(|c: char| !(c.is_ascii_alphanumeric() || "-_./".contains(c)))
            .map_or(tail, |end| &tail[..end]);
        let file = file.trim_end_matches('.');
        (!file.is_empty()).then(|| &line[at..at + folder.len() + file.len()])
    })
}

/// True where the folder starts a path: after a blank, quote, bracket, `=` or `:`, not inside a
/// longer path or an address.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-}*/$)".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(line: &str) -> Vec<String> {
        let exists = |p: &str| p == concat!("kernel-", "notes/flush.md");
        check("a.md", line, &exists).into_iter().map(|f| f.what).collect()
    }

    #[test]
    fn a_reference_to_a_note_must_resolve() {
        let folder = concat!("kernel-", "notes/");
        assert!(whats(&format!("see {folder}flush.md.")).is_empty());
        assert!(whats(&format!("(../{folder}flush.md#one)")).is_empty());
        assert!(whats(&format!("the folder `{folder}` holds them")).is_empty());
        assert_eq!(whats(&format!("see {folder}gone.md")).len(), 1);
    }

    #[test]
    fn machine_paths_are_found_and_longer_paths_are_not() {
        assert_eq!(whats(&format!("DIR={}x/y", concat!("/", "home/"))).len(), 1);
        assert_eq!(whats(&format!("'{}main'", concat!("/", "work/"))).len(), 1);
        assert!(whats(&format!("target{}x", concat!("/", "root/"))).is_empty());
    }

    #[test]
    fn registry_hosts_are_found() {
        assert_eq!(whats(concat!("pip -i https://py", "pi.org/simple")).len(), 1);
        assert!(whats("registry+https://github.com/rust-lang/crates.io-index").is_empty());
    }
}
