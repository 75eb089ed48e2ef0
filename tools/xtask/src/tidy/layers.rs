//! The order of layers, and who may name which foreign crate.

use super::Finding;
use crate::workspace::Package;

/// Rows, lowest first. A crate imports only from rows before its own; siblings never.
const ROWS: &[&[&str]] = &[
    &["client/wire", "broker/io"],
    &["broker/log", "broker/group"],
    &["broker/meta", "broker/replica"],
    &["broker/shard"],
    &["broker/api", "broker/admin"],
    &["broker"],
];

/// Crates beside the rows, each with all that it may import.
const BESIDE: &[(&str, &[&str])] = &[
    ("client", &["client/wire", "broker/io"]),
    // Log inspection (`rillctl log`) reads the files of a data directory, hence io and log.
    ("bench", &["client", "client/wire", "broker/io", "broker/log"]),
    ("tools", &["client", "client/wire", "broker/io", "broker/log"]),
    // Judges the broker from outside, so it shares nothing with it but the protocol.
    ("tools/differential", &["client/wire"]),
    // The simulator runs the whole broker as a library.
    (
        "tools/sim",
        &[
            "client",
            "client/wire",
            "broker/io",
            "broker/log",
            "broker/group",
            "broker/meta",
            "broker/replica",
            "broker/shard",
            "broker/api",
            "broker/admin",
            "broker",
        ],
    ),
    // Must build when nothing else does.
    ("tools/xtask", &[]),
];

/// Foreign crates that only one of ours may name.
const OWNED: &[(&str, &str, &str)] = &[
    ("glommio", "broker/io", "use the types of rillway-io; add what is missing there"),
    ("glommio-ng", "broker/io", "use the types of rillway-io; add what is missing there"),
    ("io-uring", "broker/io", "use the types of rillway-io; add what is missing there"),
    ("libc", "broker/io", "put the call behind a safe function of rillway-io"),
    ("etcd-client", "broker/meta", "ask the metadata store of rillway-meta"),
];

/// `manifest` gives the text of a folder's Cargo.toml, for line numbers.
pub(crate) fn check<'a>(packages: &[Package], manifest: &dyn Fn(&str) -> &'a str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let file = format!("{}/Cargo.toml", package.folder);
        let Some((allowed, place)) = allowed(&package.folder) else {
            findings.push(Finding {
                file,
                line: 1,
                what: format!("`{}` has no place in the order of layers", package.name),
                mend: "give its folder a row in tools/xtask/src/tidy/layers.rs, with a reason"
                    .into(),
            });
            continue;
        };
        for dependency in &package.dependencies {
            let line = line_of_key(manifest(&package.folder), &dependency.key);
            let ours = packages.iter().find(|p| p.name == dependency.package);
            if let Some(target) = ours.filter(|t| !allowed.contains(&t.folder.as_str())) {
                let what = format!("{} imports {}, {place}", package.folder, target.folder);
                let mend = "move the shared part to a lower layer, or pass it in as a value";
                findings.push(Finding { file: file.clone(), line, what, mend: mend.into() });
            }
            for (foreign, owner, mend) in OWNED {
                if dependency.package == *foreign && package.folder != *owner {
                    let what =
                        format!("{} names `{foreign}`, which only {owner} may", package.folder);
                    let mend = (*mend).to_owned();
                    findings.push(Finding { file: file.clone(), line, what, mend });
                }
            }
        }
    }
    findings
}

/// What a folder may import, and the rule in words.
fn allowed(folder: &str) -> Option<(Vec<&'static str>, &'static str)> {
    if let Some(row) = ROWS.iter().position(|r| r.contains(&folder)) {
        let below = ROWS[..row].iter().flat_map(|r| r.iter().copied()).collect();
        return Some((below, "which is not in a row below it"));
    }
    let beside = BESIDE.iter().find(|(f, _)| *f == folder)?;
    Some((beside.1.to_vec(), "which is not among the crates it may sit on"))
}

fn line_of_key(manifest: &str, key: &str) -> usize {
    let starts = |line: &str| {
        let rest = line.trim_start().strip_prefix(key).unwrap_or("x");
        rest.starts_with([' ', '=', '.'])
    };
    manifest.lines().position(starts).map_or(1, |i| i + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn package(name: &str, folder: &str, dependencies: &[&str]) -> Package {
        let dependency = |d: &&str| Dependency { package: (*d).into(), key: (*d).into() };
        let dependencies = dependencies.iter().map(dependency).collect();
        Package { name: name.into(), folder: folder.into(), dependencies }
    }

    fn findings(packages: &[Package]) -> Vec<Finding> {
        check(packages, &|_| "[dependencies]\nrillway-log = { workspace = true }\n")
    }

    #[test]
    fn a_crate_may_import_from_rows_below_it() {
        let tree = [
            package("rillway-io", "broker/io", &["glommio-ng", "libc"]),
            package("rillway-log", "broker/log", &["rillway-io"]),
            package("rillway-shard", "broker/shard", &["rillway-log", "rillway-io"]),
            package("sim", "tools/sim", &["rillway-shard"]),
        ];
        assert_eq!(findings(&tree), []);
    }

    #[test]
    fn siblings_and_rows_above_are_refused_with_the_line_of_the_manifest() {
        let tree = [
            package("rillway-io", "broker/io", &["rillway-log"]),
            package("rillway-log", "broker/log", &[]),
            package("rillway-group", "broker/group", &["rillway-log"]),
        ];
        let found = findings(&tree);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|f| f.line == 2), "{found:?}");
    }

    #[test]
    fn tools_and_xtask_have_lists_of_their_own() {
        let tree = [
            package("rillway-shard", "broker/shard", &[]),
            package("rillway-log", "broker/log", &[]),
            package("rillway-tools", "tools", &["rillway-log", "rillway-shard"]),
            package("xtask", "tools/xtask", &["rillway-log"]),
        ];
        let found = findings(&tree);
        assert_eq!(found.len(), 2);
        assert!(found[0].what.contains("tools imports broker/shard"), "{found:?}");
        assert!(found[1].what.contains("tools/xtask imports broker/log"), "{found:?}");
    }

    #[test]
    fn only_io_names_the_kernel_and_only_meta_names_etcd() {
        let tree = [
            package("rillway-shard", "broker/shard", &["io-uring", "etcd-client"]),
            package("rillway-meta", "broker/meta", &["etcd-client"]),
        ];
        assert_eq!(findings(&tree).len(), 2);
    }

    #[test]
    fn an_unknown_member_must_be_given_a_place() {
        assert!(findings(&[package("x", "misc/x", &[])])[0].what.contains("no place"));
    }
}
