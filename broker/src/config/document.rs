//! The documented configuration file, and help with names that are wrong.

use std::fmt::Write as _;

use rillway_shard::topic_config_document;

use super::keys::{ALIASES, KEYS, Key};

/// Kafka's names that have another one here.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("log.dirs", "data.dir"),
    ("log.dir", "data.dir"),
    ("listeners", "listen"),
    ("node.id", "broker.id"),
];

/// A setting whose name shares the most with a wrong one.
pub(super) fn nearest(name: &str) -> String {
    if let Some((_, ours)) = OTHER_NAMES.iter().find(|(theirs, _)| *theirs == name) {
        return format!(" (here it is `{ours}`)");
    }
    if name == "advertised.listeners" {
        return " (clients are told the address that they used themselves; `advertised` changes that)".to_owned();
    }
    // By words that both have; then by the same beginning: a letter that is missing is the usual mistake.
    let likeness = |k: &&Key| {
        let words = |s: &str| s.split(['.', '_', '-']).map(str::to_owned).collect::<Vec<_>>();
        let known = words(k.name);
        let shared = words(name).iter().filter(|w| known.contains(w)).count();
        let start = name.bytes().zip(k.name.bytes()).take_while(|(a, b)| a == b).count();
        (shared, start, std::cmp::Reverse(k.name.len().abs_diff(name.len())))
    };
    match KEYS.iter().max_by_key(likeness) {
        Some(k) if likeness(&k).0 > 0 => format!(" (did you mean `{}`?)", k.name),
        _ => String::new(),
    }
}

/// TOML takes `a.b` for a part of `a`: a name that begins with another's needs quotes.
fn toml_key(name: &str) -> String {
    let mut others = KEYS.iter().map(|k| k.name).chain(["listen", "nodes", "advertised", "cores"]);
    if others.any(|other| name.strip_prefix(other).is_some_and(|rest| rest.starts_with('.'))) {
        format!("\"{name}\"")
    } else {
        name.to_owned()
    }
}

/// The documented TOML file, with every default.
pub fn document() -> String {
    let mut out = String::from(
        "# Rillway: every setting with its default. `rillway config` prints this file.\n\
         # The same names work as `--set name=value` and as RILLWAY_NAME_WITH_UNDERSCORES=value.\n\n\
         # Where everything is kept; one directory per broker. Flag: --data-dir\n# data.dir = \"/var/lib/rillway\"\n\n\
         # Addresses that clients connect to, separated by commas; IPv6 in brackets; a name stands for all its addresses.\n\
         # Flag: --listen\n# listen = \"127.0.0.1:9092\"\n\n\
         # How many nodes clients see: core (each core, on a port of its own: listen port + 1000 + 100 x core), host (one\n\
         # node on the listen port, for NAT and port forwarding), or a number (so many of the cores).\n# nodes = \"core\"\n\n\
         # Where clients are told that the nodes are, HOST:PORT with {host} (the address that the client used), {port} (the\n\
         # node's port), {core} (its number) or {node} (its id) in it; one for all listeners, or one for each, separated by\n\
         # commas. Left out, clients are told the address that they used themselves.\n\
         # advertised = \"broker-{core}.example.com:{port}\"\n\n\
         # CPUs, one thread each. Flag: --cores\n# cores = \"0\"\n\n\
         # A file system without our tests to be used nevertheless: btrfs, zfs, bcachefs or overlay.\n# storage.allow = \"btrfs\"\n",
    );
    for k in KEYS {
        let unit = if k.unit.is_empty() { String::new() } else { format!(", {}", k.unit) };
        let origin = if k.kafka { "Kafka's name" } else { "Rillway's own" };
        let value = k.text(k.default);
        let value = if k.choices.is_empty() || ["true", "false"].contains(&value.as_str()) {
            value
        } else {
            format!("\"{value}\"")
        };
        let aliases: Vec<&str> =
            ALIASES.iter().filter(|a| a.of == k.name).map(|a| a.name).collect();
        let also = if aliases.is_empty() {
            String::new()
        } else {
            format!(" Also {}.", aliases.join(", "))
        };
        let _ = write!(
            out,
            "\n# {}{also}\n# {origin}{unit}; {}.\n# {} = {value}\n",
            k.doc,
            k.bounds(),
            toml_key(k.name)
        );
    }
    out.push_str("\n# Settings of topics: at creation, or altered later (rillctl topic alter, kafka-configs).\n");
    for line in topic_config_document().lines() {
        let _ = writeln!(out, "# {line}");
    }
    out
}
