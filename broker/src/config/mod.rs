//! The node's settings: what was given, and what the node is started with. `keys` declares each number and word once,
//! `groups` reads those of consumer groups, `listen` addresses, nodes and CPUs, `document` prints the file.
//!
//! Later sources win: defaults, file, `RILLWAY_*` variables, flags.

mod document;
mod groups;
mod keys;
mod listen;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rillway_api::{BrokerConfig, BrokerConfigs, Limits};
use rillway_log::{Mutant, Ratio, StorageOptions, StoreOptions, batch_bytes_max};
use rillway_shard::{ConfigType, ShardOptions};

use crate::node::{ListenOptions, NodeOptions, core_port};
use crate::placement;

pub use document::document;
pub use keys::{ALIASES, Alias, KEYS, Key};

/// The configuration, complete.
#[derive(Clone, Debug)]
pub struct Config {
    pub data_dir: Option<PathBuf>,
    pub listen: String,
    pub cores: Vec<usize>,
    /// A file system that is taken although it has not been tested (see `placement`).
    pub storage_allow: Option<String>,
    /// How many nodes clients see; `None`: as many as cores.
    nodes: Option<usize>,
    advertised: Option<String>,
    /// What was given, by the name under which it was.
    given: BTreeMap<&'static str, i64>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            data_dir: None,
            listen: "127.0.0.1:9092".to_owned(),
            cores: vec![0],
            storage_allow: None,
            nodes: None,
            advertised: None,
            given: BTreeMap::new(),
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
                listen::listeners(value, None)?;
                self.listen = value.to_owned();
            }
            "cores" => self.cores = listen::parse_cores(value)?,
            "nodes" => self.nodes = listen::parse_nodes(value)?,
            "advertised" => {
                for template in value.split(',') {
                    rillway_api::Template::parse(template.trim())?;
                }
                self.advertised = Some(value.to_owned());
            }
            "storage.allow" => {
                placement::check_allowed(value)?;
                self.storage_allow = Some(value.to_owned());
            }
            _ => self.set_key(name, value)?,
        }
        Ok(())
    }

    fn set_key(&mut self, name: &str, value: &str) -> Result<(), String> {
        if let Some(key) = keys::find(name) {
            self.given.insert(key.name, key.parse(value)?);
            return Ok(());
        }
        if let Some(alias) = ALIASES.iter().find(|a| a.name == name) {
            self.given.insert(alias.name, alias.parse(value)?);
            return Ok(());
        }
        let nearest = document::nearest(name);
        Err(format!("unknown setting `{name}`{nearest}; `rillway config` lists all of them"))
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

    /// A value that was given, under this name or a coarser one.
    fn given(&self, name: &str) -> Option<i64> {
        let by_alias = || {
            let mut aliases = ALIASES.iter().filter(|a| a.of == name);
            aliases.find_map(|a| self.given.get(a.name).copied())
        };
        self.given.get(name).copied().or_else(by_alias)
    }

    fn get(&self, name: &str) -> i64 {
        let default = || keys::find(name).expect("a name of the table").default;
        self.given(name).unwrap_or_else(default)
    }

    fn word(&self, name: &str) -> String {
        keys::find(name).expect("a name of the table").text(self.get(name))
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
            groups: self.groups()?,
            ..Default::default()
        };
        let backoff = self.ms("log.cleaner.backoff.ms");
        shard.cleaner_backoff = (self.get("log.cleaner.enable") == 1).then_some(backoff);
        let defaults = &mut shard.defaults;
        defaults.log_append_time = self.get("log.message.timestamp.type") == 1;
        defaults.timestamp_before_max_ms = self.get("log.message.timestamp.before.max.ms");
        defaults.timestamp_after_max_ms = self.get("log.message.timestamp.after.max.ms");
        defaults.min_insync_replicas = self.get("min.insync.replicas");
        let log = &mut defaults.log;
        log.retention_ms = self.get("log.retention.ms");
        log.retention_bytes = self.get("log.retention.bytes");
        log.segment_bytes = self.get("log.segment.bytes").unsigned_abs();
        log.segment_ms = self.get("log.roll.ms");
        log.max_message_bytes = self.size("message.max.bytes");
        log.file_delete_delay_ms = Some(self.get("log.segment.delete.delay.ms"));
        let policy = self.word("log.cleanup.policy");
        log.compact = policy.contains("compact");
        log.delete = policy.contains("delete");
        log.min_cleanable_ratio =
            Ratio::new(f64::from_bits(self.get("log.cleaner.min.cleanable.ratio") as u64))
                .expect("its bounds are those of a share");
        log.delete_retention_ms = self.get("log.cleaner.delete.retention.ms");
        log.min_compaction_lag_ms = self.get("log.cleaner.min.compaction.lag.ms");
        log.max_compaction_lag_ms = self.get("log.cleaner.max.compaction.lag.ms");
        if log.min_compaction_lag_ms > log.max_compaction_lag_ms {
            return Err(format!(
                "log.cleaner.min.compaction.lag.ms is {}, and log.cleaner.max.compaction.lag.ms only {}",
                log.min_compaction_lag_ms, log.max_compaction_lag_ms
            ));
        }
        let listeners = listen::listeners(&self.listen, self.advertised.as_deref())?;
        listen::check_reachable(&listeners, self.get("listen.without.authentication") == 1)?;
        let shown = self.nodes.unwrap_or(usize::MAX).min(self.cores.len());
        let folded = |l: &&ListenOptions| l.advertised.as_ref().is_some_and(|t| t.is_one_place());
        if shown > 1
            && let Some(l) = listeners.iter().find(folded)
        {
            return Err(format!(
                "advertised names one place for the {shown} nodes of {}, and clients would take them for one; \
                 use {{port}} or {{core}} in it, or nodes=host",
                l.addr
            ));
        }
        self.check_ports(&listeners, shown)?;
        Ok(NodeOptions {
            listeners,
            nodes: self.nodes,
            configs: self.shown(),
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
                extent_bytes: Some(self.get("extent.bytes").unsigned_abs()).filter(|&n| n > 0),
                cache_bytes: self.size("cache.bytes"),
                transfer_bytes: self.size("transfer.memory.bytes"),
                transfer: self.word("transfer").parse().expect("a word of the table"),
                producer_expiration_ms: self.get("producer.id.expiration.ms"),
                delete_delay: self.ms("log.segment.delete.delay.ms"),
                lock_wait: Duration::from_secs(10),
                dedupe_bytes: self.size("log.cleaner.dedupe.buffer.size"),
                mutant,
            },
            shard,
            limits: Limits {
                request_bytes_max: self.size("socket.request.max.bytes"),
                request_memory: self.size("request.memory.bytes"),
                fetch_bytes_max: self.size("fetch.max.bytes"),
                fetch_sessions_max: self.size("max.incremental.fetch.session.cache.slots"),
                connections_max: self.size("max.connections"),
                connections_per_ip_max: self.size("max.connections.per.ip"),
                idle: self.ms("connections.max.idle.ms"),
                ..Default::default()
            },
        })
    }

    /// No two sockets of this node on one port: the message of the second bind would send people looking for another
    /// program.
    fn check_ports(&self, listeners: &[ListenOptions], shown: usize) -> Result<(), String> {
        let mut taken: Vec<(SocketAddr, SocketAddr)> = Vec::new();
        for l in listeners {
            let own = (0..shown).map(|core| core_port(l.addr.port(), core, shown));
            let mut ports = own.chain([Ok(l.addr.port())]).collect::<Result<Vec<_>, _>>()?;
            ports.dedup();
            for port in ports {
                let socket = SocketAddr::new(l.addr.ip(), port);
                if let Some((_, other)) = taken.iter().find(|(t, _)| listen::overlap(*t, socket)) {
                    return Err(format!(
                        "listeners {other} and {} both need port {port} (a listener's own port, and listen port + 1000 + \
                         100 x core; 0.0.0.0 and [::] stand for every address, [::] for IPv4 too)",
                        l.addr
                    ));
                }
                taken.push((socket, l.addr));
            }
        }
        Ok(())
    }

    /// The settings as DescribeConfigs shows them.
    fn shown(&self) -> BrokerConfigs {
        let built_in = Config::default();
        let text = |name, value: String, default: String, doc| BrokerConfig {
            name,
            given: value != default,
            value,
            default,
            config_type: ConfigType::String,
            doc,
        };
        let dir =
            |c: &Config| c.data_dir.as_ref().map(|d| d.display().to_string()).unwrap_or_default();
        let nodes = |c: &Config| match c.nodes {
            None => "core".to_owned(),
            Some(1) => "host".to_owned(),
            Some(n) => n.to_string(),
        };
        let cores = |c: &Config| c.cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let mut all = vec![
            text("data.dir", dir(self), dir(&built_in), "Where everything is kept."),
            text(
                "listen",
                self.listen.clone(),
                built_in.listen.clone(),
                "Addresses that clients connect to.",
            ),
            text(
                "advertised",
                self.advertised.clone().unwrap_or_default(),
                String::new(),
                "Where clients are told that the nodes are; empty: at the address that they used.",
            ),
            text("nodes", nodes(self), nodes(&built_in), "How many nodes clients see."),
            text("cores", cores(self), cores(&built_in), "CPUs, one thread each."),
        ];
        // By Kafka's names as well: its tools and tests look for them. Always given, as in Kafka since 4.0.
        let kafka = |name, addresses: &str, doc| {
            let urls = addresses.split(',').map(|a| format!("PLAINTEXT://{}", a.trim()));
            let value = urls.collect::<Vec<_>>().join(",");
            BrokerConfig { given: true, ..text(name, value, String::new(), doc) }
        };
        let advertised = self.advertised.as_deref().unwrap_or(&self.listen);
        all.push(kafka("listeners", &self.listen, "`listen`, as Kafka writes it."));
        all.push(kafka("advertised.listeners", advertised, "`advertised`, as Kafka writes it."));
        all.extend(KEYS.iter().map(|k| BrokerConfig {
            name: k.name,
            value: k.text(self.get(k.name)),
            default: k.text(k.default),
            given: self.given(k.name).is_some(),
            config_type: k.config_type(),
            doc: k.doc,
        }));
        all.into()
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
        for key in KEYS {
            assert_eq!(config.get(key.name), key.default, "{}", key.name);
        }
    }

    #[test]
    fn a_wrong_name_is_refused_and_the_nearest_one_named() {
        let e = Config::default().set("num.partition", "3").unwrap_err();
        assert!(e.contains("did you mean `num.partitions`"), "{e}");
    }

    #[test]
    fn a_value_out_of_bounds_is_refused_with_the_bounds() {
        let e = Config::default().set("ring.bytes", "12").unwrap_err();
        assert!(e.contains(&rillway_log::RING_BYTES_MIN.to_string()), "{e}");
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
        config.set("ring.bytes", &rillway_log::RING_BYTES_MIN.to_string()).unwrap();
        config.set("message.max.bytes", "4000000").unwrap();
        let Err(e) = config.node(None) else { panic!("accepted") };
        assert!(e.contains("ring.bytes"), "{e}");
    }

    #[test]
    fn a_share_is_read_within_its_bounds_and_shown_as_it_is() {
        let mut config = Config { data_dir: Some(PathBuf::from("d")), ..Default::default() };
        assert_eq!(config.word("log.cleaner.min.cleanable.ratio"), "0.5");
        for (text, shown) in [("0.25", "0.25"), ("1", "1.0"), ("0", "0.0"), ("-0", "0.0")] {
            config.set("log.cleaner.min.cleanable.ratio", text).unwrap();
            assert_eq!(config.word("log.cleaner.min.cleanable.ratio"), shown);
        }
        for wrong in ["1.01", "-0.1", "NaN", "-NaN", "half", ""] {
            let e = config.set("log.cleaner.min.cleanable.ratio", wrong).unwrap_err();
            assert!(e.contains("0.0 to 1.0"), "{e}");
        }
        config.set("log.cleanup.policy", "delete,compact").unwrap();
        let node = config.node(None).unwrap();
        let log = node.shard.defaults.log;
        assert!(log.compact && log.delete && log.min_cleanable_ratio.get() == 0.0);
    }

    #[test]
    fn coarser_names_of_a_time_count_unless_a_finer_one_is_given() {
        let mut config = Config::default();
        config.set("log.retention.hours", "2").unwrap();
        assert_eq!(config.get("log.retention.ms"), 7_200_000);
        config.set("log.retention.minutes", "3").unwrap();
        assert_eq!(config.get("log.retention.ms"), 180_000);
        config.set("log.retention.ms", "5").unwrap();
        assert_eq!(config.get("log.retention.ms"), 5);
        config.set("log.roll.hours", "1").unwrap();
        assert_eq!(config.get("log.roll.ms"), 3_600_000);
        assert!(
            config.set("log.roll.hours", "0").is_err()
                && config.set("log.retention.hours", "x").is_err()
        );
        let mut forever = Config::default();
        forever.set("log.retention.hours", "-1").unwrap();
        assert_eq!(forever.get("log.retention.ms"), -1);
    }

    fn node(pairs: &[(&str, &str)]) -> Result<NodeOptions, String> {
        let mut config = Config { data_dir: Some(PathBuf::from("d")), ..Default::default() };
        pairs.iter().try_for_each(|(k, v)| config.set(k, v))?;
        config.node(None)
    }

    #[test]
    fn settings_of_nodes_that_no_client_could_use_are_refused() {
        let cores = ("cores", "0,1");
        assert!(node(&[cores, ("advertised", "h:9092")]).is_err());
        assert!(node(&[cores, ("advertised", "h:{port}")]).is_ok());
        assert!(node(&[cores, ("advertised", "h:9092"), ("nodes", "host")]).is_ok());
        assert!(node(&[cores, ("listen", "127.0.0.1:9092,127.0.0.1:10092")]).is_err());
        assert!(node(&[cores, ("listen", "127.0.0.1:9092,127.0.0.1:9093")]).is_ok());
        assert!(node(&[cores, ("listen", "127.0.0.1:65000")]).is_err());
        assert!(node(&[("listen", "0.0.0.0:9092")]).is_err());
        assert!(
            node(&[("listen", "0.0.0.0:9092"), ("listen.without.authentication", "true")]).is_ok()
        );
    }

    #[test]
    fn a_file_system_that_can_never_be_allowed_is_refused_when_it_is_named() {
        assert!(Config::default().set("storage.allow", "btrfs").is_ok());
        assert!(Config::default().set("storage.allow", "tmpfs").unwrap_err().contains("tmpfs"));
        assert!(Config::default().set("storage.allow", "ext5").is_err());
    }

    #[test]
    fn every_default_of_a_topic_setting_is_a_setting_of_the_broker_or_inert() {
        let shown: Vec<&str> = KEYS.iter().map(|k| k.name).collect();
        for config in rillway_shard::TOPIC_CONFIGS {
            assert!(config.is_inert() || shown.contains(&config.broker), "{}", config.broker);
        }
    }

    #[test]
    fn the_page_of_topic_settings_is_what_the_table_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("TOPIC-SETTINGS.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let table = rillway_shard::topic_config_document();
        assert!(page.ends_with(&table), "put this at the end of {}:\n{table}", path.display());
    }

    #[test]
    fn the_defaults_of_both_tables_agree() {
        let options = node(&[]).unwrap();
        let none = BTreeMap::new();
        for config in rillway_shard::TOPIC_CONFIGS {
            let (ours, built_in) =
                (config.value(&options.shard.defaults, &none), config.default_value());
            assert_eq!(ours, built_in, "{}", config.name);
        }
    }
}
