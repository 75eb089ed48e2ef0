//! What cargo and git say about the workspace: its packages with their direct dependencies, and the
//! files that belong to the repository.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A member of the workspace.
pub(crate) struct Package {
    pub(crate) name: String,
    /// The folder below the root, with `/` between parts: `client/wire`.
    pub(crate) folder: String,
    /// Every direct dependency, of every kind (normal, dev, build).
    pub(crate) dependencies: Vec<Dependency>,
}

pub(crate) struct Dependency {
    /// The package's name in its registry, whatever it is renamed to.
    pub(crate) package: String,
    /// The name that stands in the manifest.
    pub(crate) key: String,
}

/// The root of the workspace: two folders above this crate, or the folder cargo was started in.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).filter(|r| r.join("Cargo.lock").exists()).map_or_else(
        || std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
        Path::to_path_buf,
    )
}

/// Asks `cargo metadata` for the members. Errors say what was run and what it printed.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(root);
    let json: Value = serde_json::from_str(&stdout(&mut command)?)
        .map_err(|e| format!("cargo metadata printed no JSON: {e}"))?;
    parse(&json, root)
}

/// Reads the members out of the answer of `cargo metadata`.
fn parse(json: &Value, root: &Path) -> Result<Vec<Package>, String> {
    let text = |v: &Value, key: &str| -> Result<String, String> {
        v[key].as_str().map(str::to_owned).ok_or(format!("cargo metadata: no `{key}` in {v}"))
    };
    let mut packages = Vec::new();
    for p in json["packages"].as_array().ok_or("cargo metadata: no packages")? {
        let manifest = PathBuf::from(text(p, "manifest_path")?);
        let folder = manifest.parent().unwrap_or(root);
        let folder = folder.strip_prefix(root).unwrap_or(folder);
        let mut dependencies = Vec::new();
        for d in p["dependencies"].as_array().into_iter().flatten() {
            let package = text(d, "name")?;
            let key = d["rename"].as_str().unwrap_or(&package).to_owned();
            dependencies.push(Dependency { package, key });
        }
        let folder = folder.to_string_lossy().replace('\\', "/");
        packages.push(Package { name: text(p, "name")?, folder, dependencies });
    }
    Ok(packages)
}

/// Every tracked file, and every new one that git does not ignore, with its text; files that are not
/// UTF-8 are left out. Paths are relative to the root.
pub(crate) fn files(root: &Path) -> Result<Vec<(String, String)>, String> {
    let mut command = Command::new("git");
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = stdout(command.current_dir(root))?;
    let mut names: Vec<&str> = listed.split('\0').filter(|n| !n.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    // A file that was deleted but not yet committed is listed and cannot be read: it is gone.
    let read = |n: &str| std::fs::read_to_string(root.join(n)).ok().map(|t| (n.to_owned(), t));
    Ok(names.into_iter().filter_map(read).collect())
}

fn stdout(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{command:?} did not start: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} failed, {}: {said}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("{command:?} printed no UTF-8: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_dependency_keeps_its_registry_name() {
        let json = serde_json::json!({"packages": [{
            "name": "rillway-io", "manifest_path": "/r/broker/io/Cargo.toml",
            "dependencies": [{"name": "glommio-ng", "rename": "glommio"}, {"name": "libc", "rename": null}],
        }]});
        let packages = parse(&json, Path::new("/r")).unwrap();
        assert_eq!(packages[0].folder, "broker/io");
        assert_eq!(packages[0].dependencies[0].package, "glommio-ng");
        assert_eq!(packages[0].dependencies[0].key, "glommio");
        assert_eq!(packages[0].dependencies[1].key, "libc");
    }

    #[test]
    fn metadata_without_packages_is_an_error_that_says_so() {
        assert!(parse(&serde_json::json!({}), Path::new("/r")).err().unwrap().contains("packages"));
    }
}
