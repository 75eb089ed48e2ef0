//! Every setting, declared once: name, what it does, unit, bounds, default. The file, the environment, `--set` and the
//! documentation follow from the table. Where Kafka has the setting, it has Kafka's name.
//!
//! Later sources win: defaults, file, `RILLWAY_*` variables, flags.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rillway_api::Limits;
use rillway_io::{TRANSFER_BYTES_MIN, TransferMode};
use rillway_log::{
    Mutant, RING_BYTES_DEFAULT, RING_BYTES_MIN, StorageOptions, StoreOptions, batch_bytes_max,
};
use rillway_shard::ShardOptions;

use crate::node::NodeOptions;

/// A number's setting.
pub struct Key {
    pub name: &'static str,
    pub doc: &'static str,
    pub unit: &'static str,
    pub default: i64,
    pub min: i64,
    pub max: i64,
    /// Whether Kafka has it, by this name and with this meaning.
    pub kafka: bool,
}

const MIB: i64 = 1 << 20;
const ANY: i64 = i64::MAX;

const fn key(
    name: &'static str,
    unit: &'static str,
    default: i64,
    min: i64,
    max: i64,
    kafka: bool,
    doc: &'static str,
) -> Key {
    Key { name, doc, unit, default, min, max, kafka }
}

/// All numeric keys. `--data-dir`, `--listen` and `--cores` are flags (and `data.dir`, `listen`, `cores` in the file).
pub const KEYS: &[Key] = &[
    key(
        "broker.id",
        "",
        1,
        0,
        2_000_000,
        true,
        "Id of this broker; core c is node broker.id x 1000 + c to clients.",
    ),
    key(
        "num.partitions",
        "",
        1,
        1,
        10_000,
        true,
        "Partitions of a topic that is created without a number.",
    ),
    key(
        "auto.create.topics.enable",
        "true or false",
        1,
        0,
        1,
        true,
        "Create topics that clients ask metadata for.",
    ),
    key(
        "log.retention.ms",
        "ms",
        604_800_000,
        -1,
        ANY,
        true,
        "Default of a topic's retention.ms; -1: for ever.",
    ),
    key(
        "log.retention.bytes",
        "bytes",
        -1,
        -1,
        ANY,
        true,
        "Default of a topic's retention.bytes; -1: unlimited.",
    ),
    key(
        "log.segment.bytes",
        "bytes",
        1024 * MIB,
        MIB,
        i32::MAX as i64,
        true,
        "Default of a topic's segment.bytes.",
    ),
    key("log.roll.ms", "ms", 604_800_000, 1, ANY, true, "Default of a topic's segment.ms."),
    key(
        "message.max.bytes",
        "bytes",
        1_048_588,
        0,
        i32::MAX as i64,
        true,
        "Default of a topic's max.message.bytes: largest batch as stored.",
    ),
    key(
        "log.retention.check.interval.ms",
        "ms",
        300_000,
        1,
        ANY,
        true,
        "How often retention is looked at.",
    ),
    key(
        "log.segment.delete.delay.ms",
        "ms",
        60_000,
        0,
        ANY,
        true,
        "How long a deleted file stays before its room is given back.",
    ),
    key(
        "producer.id.expiration.ms",
        "ms",
        86_400_000,
        1,
        ANY,
        true,
        "An idempotent producer that is idle longer is forgotten.",
    ),
    key(
        "socket.request.max.bytes",
        "bytes",
        100 * MIB,
        64 << 10,
        i32::MAX as i64,
        true,
        "Largest request.",
    ),
    key(
        "fetch.max.bytes",
        "bytes",
        55 * MIB,
        1024,
        i32::MAX as i64,
        true,
        "Largest fetch response, but for one batch.",
    ),
    key(
        "connections.max.idle.ms",
        "ms",
        600_000,
        1,
        ANY,
        true,
        "A connection without a request for this long is closed.",
    ),
    key("max.connections", "", 20_000, 1, 1_000_000, true, "Connections per core."),
    key(
        "ring.bytes",
        "bytes",
        RING_BYTES_DEFAULT as i64,
        RING_BYTES_MIN as i64,
        64 << 30,
        false,
        "Size of each core's journal; for rings that are made now.",
    ),
    key(
        "undestaged.bytes",
        "bytes",
        256 * MIB,
        4 * MIB,
        64 << 30,
        false,
        "Memory per core for records that are not in their segment yet.",
    ),
    key(
        "cache.bytes",
        "bytes",
        256 * MIB,
        MIB,
        1 << 40,
        false,
        "Memory per core for recent records, served to tail readers.",
    ),
    key(
        "request.memory.bytes",
        "bytes",
        256 * MIB,
        MIB,
        1 << 40,
        false,
        "Memory per core for large requests that are under way.",
    ),
    key(
        "transfer.memory.bytes",
        "bytes",
        64 * MIB,
        TRANSFER_BYTES_MIN as i64,
        1 << 40,
        false,
        "Memory per core for answers on their way from files (one half) and from other cores (the other) to clients.",
    ),
    key(
        "reserve.bytes",
        "bytes",
        16 * MIB,
        0,
        64 << 30,
        false,
        "Room kept for metadata when the disk is full.",
    ),
];

/// The configuration, complete.
#[derive(Clone, Debug)]
pub struct Config {
    pub data_dir: Option<PathBuf>,
    pub listen: String,
    pub cores: Vec<usize>,
    /// A file system that is taken although it has not been tested (see `placement`).
    pub storage_allow: Option<String>,
    /// Which way sealed segments take to clients; taken at the start.
    pub transfer: TransferMode,
    values: BTreeMap<&'static str, i64>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            data_dir: None,
            listen: "127.0.0.1:9092".to_owned(),
            cores: vec![0],
            storage_allow: None,
            transfer: TransferMode::default(),
            values: KEYS.iter().map(|k| (k.name, k.default)).collect(),
        }
    }
}

impl Config {
    /// Sets one key, from wherever it comes.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what would be right.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "data.dir" => self.data_dir = Some(PathBuf::from(value)),
            "listen" => {
                resolve(value)?;
                self.listen = value.to_owned();
            }
            "cores" => self.cores = parse_cores(value)?,
            "transfer" => self.transfer = value.parse()?,
            "storage.allow" => self.storage_allow = Some(value.to_owned()),
            _ => {
                let Some(key) = KEYS.iter().find(|k| k.name == name) else {
                    return Err(format!(
                        "unknown setting `{name}`{}; `rillway config` lists all of them",
                        nearest(name)
                    ));
                };
                self.values.insert(key.name, key.parse(value)?);
            }
        }
        Ok(())
    }

    /// Reads a TOML file; dotted keys and tables are the same (`num.partitions = 4`).
    ///
    /// # Errors
    /// As [`Config::set`], with the file named.
    pub fn read_file(&mut self, path: &Path) -> Result<(), String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let table: toml::Table = text.parse().map_err(|e| format!("{}: {e}", path.display()))?;
        let mut flat = Vec::new();
        flatten("", &table, &mut flat);
        for (name, value) in flat {
            self.set(&name, &value).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(())
    }

    /// Takes `RILLWAY_*` variables: `RILLWAY_NUM_PARTITIONS` is `num.partitions`.
    ///
    /// # Errors
    /// As [`Config::set`]; a variable that names no setting is an error, so that a typing mistake is found.
    pub fn read_environment(
        &mut self,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<(), String> {
        for (variable, value) in variables {
            let Some(rest) = variable.strip_prefix("RILLWAY_") else { continue };
            // Which mutant a test build runs, and which log lines are shown, are not settings of the broker.
            if ["MUTANT", "LOG"].contains(&rest) {
                continue;
            }
            self.set(&rest.to_lowercase().replace('_', "."), &value)
                .map_err(|e| format!("{variable}: {e}"))?;
        }
        Ok(())
    }

    fn get(&self, name: &str) -> i64 {
        self.values[name]
    }

    fn size(&self, name: &str) -> usize {
        usize::try_from(self.get(name)).unwrap_or(usize::MAX)
    }

    fn ms(&self, name: &str) -> Duration {
        Duration::from_millis(self.get(name).unsigned_abs())
    }

    /// What the node is started with. Relations between settings are checked here.
    ///
    /// # Errors
    /// A sentence that says which settings do not fit.
    pub fn node(&self, mutant: Option<Mutant>) -> Result<NodeOptions, String> {
        let dir = self.data_dir.clone().ok_or("no data directory; give --data-dir DIR")?;
        let ring = self.get("ring.bytes").unsigned_abs();
        let largest = batch_bytes_max(ring);
        if self.size("message.max.bytes") > largest {
            return Err(format!(
                "message.max.bytes is {}, but a ring of {ring} bytes takes batches of at most {largest}; \
                 raise ring.bytes or lower message.max.bytes",
                self.get("message.max.bytes")
            ));
        }
        if !ring.is_multiple_of(4096) {
            return Err(format!("ring.bytes is {ring}, must be a multiple of 4096"));
        }
        let mut shard = ShardOptions {
            num_partitions: self.size("num.partitions") as u32,
            auto_create_topics: self.get("auto.create.topics.enable") == 1,
            retention_check_interval: self.ms("log.retention.check.interval.ms"),
            ..Default::default()
        };
        let log = &mut shard.defaults.log;
        log.retention_ms = self.get("log.retention.ms");
        log.retention_bytes = self.get("log.retention.bytes");
        log.segment_bytes = self.get("log.segment.bytes").unsigned_abs();
        log.segment_ms = self.get("log.roll.ms");
        log.max_message_bytes = self.size("message.max.bytes");
        Ok(NodeOptions {
            listen: resolve(&self.listen)?,
            broker_id: self.size("broker.id") as u32,
            storage: StorageOptions {
                dir,
                rings: self.cores.len(),
                ring_bytes: ring,
                reserve_bytes: self.get("reserve.bytes").unsigned_abs(),
                lock_wait: Duration::from_secs(10),
            },
            store: StoreOptions {
                undestaged_bytes: self.get("undestaged.bytes").unsigned_abs(),
                cache_bytes: self.size("cache.bytes"),
                transfer_bytes: self.size("transfer.memory.bytes"),
                transfer: self.transfer,
                producer_expiration_ms: self.get("producer.id.expiration.ms"),
                delete_delay: self.ms("log.segment.delete.delay.ms"),
                lock_wait: Duration::from_secs(10),
                mutant,
            },
            shard,
            limits: Limits {
                request_bytes_max: self.size("socket.request.max.bytes"),
                request_memory: self.size("request.memory.bytes"),
                fetch_bytes_max: self.size("fetch.max.bytes"),
                connections_max: self.size("max.connections"),
                idle: self.ms("connections.max.idle.ms"),
                ..Default::default()
            },
        })
    }
}

impl Key {
    fn parse(&self, value: &str) -> Result<i64, String> {
        let value = value.trim();
        let parsed = match value {
            "true" if self.unit == "true or false" => Some(1),
            "false" if self.unit == "true or false" => Some(0),
            number => number.replace('_', "").parse::<i64>().ok(),
        };
        match parsed {
            Some(v) if (self.min..=self.max).contains(&v) => Ok(v),
            _ if self.unit == "true or false" => {
                Err(format!("{} is `{value}`, must be true or false", self.name))
            }
            _ => Err(format!(
                "{} is `{value}`, must be a whole number, {} to {}",
                self.name, self.min, self.max
            )),
        }
    }
}

fn flatten(prefix: &str, table: &toml::Table, out: &mut Vec<(String, String)>) {
    for (name, value) in table {
        let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            toml::Value::Table(inner) => flatten(&name, inner, out),
            toml::Value::String(s) => out.push((name, s.clone())),
            toml::Value::Array(items) => {
                let items: Vec<String> =
                    items.iter().map(|i| i.to_string().trim_matches('"').to_owned()).collect();
                out.push((name, items.join(",")));
            }
            other => out.push((name, other.to_string())),
        }
    }
}

/// An address to listen on; a name is looked up.
fn resolve(listen: &str) -> Result<SocketAddr, String> {
    let wrong = |why: String| {
        format!("listen address `{listen}`: {why}; expected HOST:PORT, such as 127.0.0.1:9092")
    };
    if listen.contains("://") {
        return Err(wrong("no PLAINTEXT:// or other protocol in front".to_owned()));
    }
    let mut found = listen.to_socket_addrs().map_err(|e| wrong(e.to_string()))?;
    found.next().ok_or_else(|| wrong("the name has no address".to_owned()))
}

/// `0,1` or `0-3`.
fn parse_cores(value: &str) -> Result<Vec<usize>, String> {
    let wrong = || format!("cores is `{value}`, must be CPU numbers such as 0,1 or 0-3");
    let mut cores = Vec::new();
    for part in value.split(',') {
        match part.trim().split_once('-') {
            None => cores.push(part.trim().parse().map_err(|_| wrong())?),
            Some((from, to)) => {
                let (from, to): (usize, usize) =
                    (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
                if from > to || to - from > 1000 {
                    return Err(wrong());
                }
                cores.extend(from..=to);
            }
        }
    }
    // Node ids are broker.id x 1000 + core.
    if cores.is_empty() || cores.len() > 1000 { Err(wrong()) } else { Ok(cores) }
}

/// Kafka's names that have another one here.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("log.dirs", "data.dir"),
    ("log.dir", "data.dir"),
    ("listeners", "listen"),
    ("log.retention.hours", "log.retention.ms"),
    ("log.retention.minutes", "log.retention.ms"),
    ("log.roll.hours", "log.roll.ms"),
    ("node.id", "broker.id"),
];

/// A setting whose name shares the most with a wrong one.
fn nearest(name: &str) -> String {
    if let Some((_, ours)) = OTHER_NAMES.iter().find(|(theirs, _)| *theirs == name) {
        return format!(" (here it is `{ours}`)");
    }
    if name == "advertised.listeners" {
        return " (clients are told the address that they used themselves)".to_owned();
    }
    let likeness = |k: &&Key| {
        let words = |s: &str| s.split(['.', '_', '-']).map(str::to_owned).collect::<Vec<_>>();
        let known = words(k.name);
        words(name).iter().filter(|w| known.contains(w)).count()
    };
    match KEYS.iter().max_by_key(likeness) {
        Some(k) if likeness(&k) > 0 => format!(" (did you mean `{}`?)", k.name),
        _ => String::new(),
    }
}

/// The documented TOML file, with every default.
pub fn document() -> String {
    let mut out = String::from(
        "# Rillway: every setting with its default. `rillway config` prints this file.\n\
         # The same names work as `--set name=value` and as RILLWAY_NAME_WITH_UNDERSCORES=value.\n\n\
         # Where everything is kept; one directory per broker. Flag: --data-dir\n# data.dir = \"/var/lib/rillway\"\n\n\
         # Address that clients connect to. Flag: --listen\n# listen = \"127.0.0.1:9092\"\n\n\
         # CPUs, one thread each. Flag: --cores\n# cores = \"0\"\n\n\
         # A file system without our tests to be used nevertheless: btrfs, zfs, bcachefs or overlay.\n# storage.allow = \"btrfs\"\n\n\
         # How sealed segments go to clients, taken at the start: copy (direct reads into memory), splice (from the page\n\
         # cache, by sendfile: for data that is read many times), or auto (what was measured to be better: copy).\n# transfer = \"auto\"\n",
    );
    for k in KEYS {
        let unit = if k.unit.is_empty() { String::new() } else { format!(", {}", k.unit) };
        let origin = if k.kafka { "Kafka's name" } else { "Rillway's own" };
        let max =
            if k.max == ANY { "no upper bound".to_owned() } else { format!("at most {}", k.max) };
        let bounds = if k.unit == "true or false" {
            String::new()
        } else {
            format!("; at least {}, {max}", k.min)
        };
        let default = match k.default {
            1 if k.unit == "true or false" => "true".to_owned(),
            n => n.to_string(),
        };
        let _ = write!(out, "\n# {}\n# {origin}{unit}{bounds}.\n# {} = {default}\n", k.doc, k.name);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_file_is_read_back_as_the_defaults() {
        let text: String = document()
            .lines()
            .map(|l| {
                format!("{}\n", l.strip_prefix("# ").filter(|l| l.contains(" = ")).unwrap_or(""))
            })
            .collect();
        let dir = std::env::temp_dir().join(format!("rillway-config-{}", std::process::id()));
        std::fs::write(&dir, text).unwrap();
        let mut config = Config::default();
        config.read_file(&dir).unwrap();
        std::fs::remove_file(&dir).unwrap();
        assert_eq!(config.values, Config::default().values);
    }

    #[test]
    fn a_wrong_name_is_refused_and_the_nearest_one_named() {
        let e = Config::default().set("num.partition", "3").unwrap_err();
        assert!(e.contains("num.partitions"), "{e}");
    }

    #[test]
    fn a_value_out_of_bounds_is_refused_with_the_bounds() {
        let e = Config::default().set("ring.bytes", "12").unwrap_err();
        assert!(e.contains(&RING_BYTES_MIN.to_string()), "{e}");
    }

    #[test]
    fn the_environment_uses_the_same_names_and_a_typing_mistake_is_found() {
        let mut config = Config::default();
        let set = |v: &str| [("RILLWAY_NUM_PARTITIONS".to_owned(), v.to_owned())].into_iter();
        config.read_environment(set("7")).unwrap();
        assert_eq!(config.get("num.partitions"), 7);
        assert!(config.read_environment(set("seven")).is_err());
        assert!(
            config
                .read_environment([("RILLWAY_NUM_PARTS".to_owned(), "1".to_owned())].into_iter())
                .is_err()
        );
    }

    #[test]
    fn batches_that_no_ring_takes_are_refused_at_the_start() {
        let mut config = Config { data_dir: Some(PathBuf::from("d")), ..Default::default() };
        config.set("ring.bytes", &RING_BYTES_MIN.to_string()).unwrap();
        config.set("message.max.bytes", "4000000").unwrap();
        let Err(e) = config.node(None) else { panic!("accepted") };
        assert!(e.contains("ring.bytes"), "{e}");
    }

    #[test]
    fn cores_are_lists_and_ranges() {
        assert_eq!(parse_cores("0,2-4").unwrap(), [0, 2, 3, 4]);
        assert!(parse_cores("4-2").is_err() && parse_cores("a").is_err());
    }
}
