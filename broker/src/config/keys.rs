//! The table of settings: each declared once, with name, what it does, unit, bounds, default. The file, the environment,
//! `--set`, DescribeConfigs and the documentation follow from it. Where Kafka has the setting, it has Kafka's name.

use rillway_io::TRANSFER_BYTES_MIN;
use rillway_log::{
    DEDUPE_BYTES_DEFAULT, DEDUPE_BYTES_MIN, EXTENT_BYTES_DEFAULT, RING_BYTES_DEFAULT,
    RING_BYTES_MIN,
};
use rillway_shard::ConfigType;

/// One setting: a number, a share, or one of some words.
pub struct Key {
    pub name: &'static str,
    pub doc: &'static str,
    pub unit: &'static str,
    pub default: i64,
    pub min: i64,
    pub max: i64,
    /// If not empty, the value is one of these, and the number is its place.
    pub choices: &'static [&'static str],
    /// The number is the bits of a double; those that are not negative are ordered as their bits are.
    pub double: bool,
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
    Key { name, doc, unit, default, min, max, choices: &[], double: false, kafka }
}

/// One of some words; the default is a place among them.
const fn choice(
    name: &'static str,
    choices: &'static [&'static str],
    default: i64,
    kafka: bool,
    doc: &'static str,
) -> Key {
    let max = choices.len() as i64 - 1;
    Key { name, doc, unit: "", default, min: 0, max, choices, double: false, kafka }
}

/// A share, from 0 to 1.
const fn share(name: &'static str, default: f64, kafka: bool, doc: &'static str) -> Key {
    Key {
        name,
        doc,
        unit: "",
        default: default.to_bits() as i64,
        min: 0,
        max: 1.0f64.to_bits() as i64,
        choices: &[],
        double: true,
        kafka,
    }
}

const BOOLEAN: &[&str] = &["false", "true"];

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
    choice(
        "auto.create.topics.enable",
        BOOLEAN,
        1,
        true,
        "Create topics that clients ask metadata for.",
    ),
    key(
        "default.replication.factor",
        "",
        1,
        1,
        1,
        true,
        "Replicas of a topic that is created without a number; there is one broker.",
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
    choice(
        "log.message.timestamp.type",
        &["CreateTime", "LogAppendTime"],
        0,
        true,
        "Default of a topic's message.timestamp.type.",
    ),
    key(
        "log.message.timestamp.before.max.ms",
        "ms",
        ANY,
        0,
        ANY,
        true,
        "Default of a topic's message.timestamp.before.max.ms.",
    ),
    key(
        "log.message.timestamp.after.max.ms",
        "ms",
        3_600_000,
        0,
        ANY,
        true,
        "Default of a topic's message.timestamp.after.max.ms.",
    ),
    choice(
        "compression.type",
        &["producer"],
        0,
        true,
        "Default of a topic's compression.type: batches are stored as the producer compressed them.",
    ),
    choice(
        "log.cleanup.policy",
        &["delete", "compact", "compact,delete", "delete,compact"],
        0,
        true,
        "Default of a topic's cleanup.policy.",
    ),
    choice(
        "log.cleaner.enable",
        BOOLEAN,
        1,
        true,
        "Compact the topics whose cleanup.policy says so; false: they only grow.",
    ),
    key(
        "log.cleaner.backoff.ms",
        "ms",
        15_000,
        0,
        ANY,
        true,
        "How long the cleaner rests when nothing is to be compacted.",
    ),
    key(
        "log.cleaner.dedupe.buffer.size",
        "bytes",
        DEDUPE_BYTES_DEFAULT as i64,
        DEDUPE_BYTES_MIN as i64,
        64 << 30,
        true,
        "Memory per core for the keys of a cleaning, 24 bytes each, while it runs; what does not fit is cleaned in the next.",
    ),
    share(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        true,
        "Default of a topic's min.cleanable.dirty.ratio.",
    ),
    key(
        "log.cleaner.delete.retention.ms",
        "ms",
        86_400_000,
        0,
        ANY,
        true,
        "Default of a topic's delete.retention.ms.",
    ),
    key(
        "log.cleaner.min.compaction.lag.ms",
        "ms",
        0,
        0,
        ANY,
        true,
        "Default of a topic's min.compaction.lag.ms.",
    ),
    key(
        "log.cleaner.max.compaction.lag.ms",
        "ms",
        ANY,
        1,
        ANY,
        true,
        "Default of a topic's max.compaction.lag.ms.",
    ),
    key(
        "min.insync.replicas",
        "",
        1,
        1,
        i32::MAX as i64,
        true,
        "Default of a topic's min.insync.replicas; never more than the replicas that there are, and there is one broker.",
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
        "How long a deleted file stays before its room is given back; default of a topic's file.delete.delay.ms.",
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
        "group.min.session.timeout.ms",
        "ms",
        6_000,
        1,
        i32::MAX as i64,
        true,
        "Shortest session timeout that a member may ask for.",
    ),
    key(
        "group.max.session.timeout.ms",
        "ms",
        1_800_000,
        1,
        i32::MAX as i64,
        true,
        "Longest session timeout that a member may ask for.",
    ),
    key(
        "group.initial.rebalance.delay.ms",
        "ms",
        3_000,
        0,
        i32::MAX as i64,
        true,
        "How long the first rebalance of an empty group waits for more members.",
    ),
    key("group.max.size", "", i32::MAX as i64, 1, i32::MAX as i64, true, "Members of a group."),
    key(
        "offset.metadata.max.bytes",
        "bytes",
        4_096,
        0,
        i16::MAX as i64,
        true,
        "Largest text beside a committed offset; answers to old clients have no room for more than 32,767 bytes.",
    ),
    key(
        "offsets.retention.minutes",
        "min",
        10_080,
        1,
        i32::MAX as i64,
        true,
        "Offsets of a group that has been empty for so long are removed.",
    ),
    key(
        "offsets.retention.check.interval.ms",
        "ms",
        600_000,
        1,
        ANY,
        true,
        "How often the retention of offsets is looked at.",
    ),
    key(
        "offsets.topic.num.partitions",
        "",
        50,
        1,
        10_000,
        true,
        "Partitions of __consumer_offsets, when it is created.",
    ),
    key(
        "offsets.topic.segment.bytes",
        "bytes",
        100 * MIB,
        MIB,
        i32::MAX as i64,
        true,
        "segment.bytes of __consumer_offsets, when it is created.",
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
        "max.incremental.fetch.session.cache.slots",
        "",
        1000,
        0,
        1_000_000,
        true,
        "Fetch sessions that each core keeps; 0: none, readers name everything in every request.",
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
    key(
        "max.connections",
        "",
        100_000,
        1,
        1_000_000,
        true,
        "Connections of all cores together; beyond it a new one is closed.",
    ),
    key(
        "max.connections.per.ip",
        "",
        i32::MAX as i64,
        1,
        i32::MAX as i64,
        true,
        "Connections of one address, on all cores together.",
    ),
    choice(
        "listen.without.authentication",
        BOOLEAN,
        0,
        false,
        "Listen on addresses that other machines reach, although there is no authentication. Flag: --listen-without-authentication",
    ),
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
        "extent.bytes",
        "bytes",
        EXTENT_BYTES_DEFAULT as i64,
        0,
        i32::MAX as i64,
        false,
        "A batch of at least this size is written once, straight to its segment; 0: all go through the journal.",
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
    choice(
        "transfer",
        &["auto", "splice", "copy"],
        0,
        false,
        "How sealed segments go to clients: copy (direct reads into memory), splice (from the page cache, by sendfile: for data that is read many times), or auto (what was measured to be better: copy).",
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

/// Kafka's coarser names of a setting. The finest that is given holds, as in Kafka; -1 stays -1.
pub const ALIASES: &[Alias] = &[
    Alias { name: "log.retention.minutes", of: "log.retention.ms", factor: 60_000 },
    Alias { name: "log.retention.hours", of: "log.retention.ms", factor: 3_600_000 },
    Alias { name: "log.roll.hours", of: "log.roll.ms", factor: 3_600_000 },
];

/// A setting in another unit.
pub struct Alias {
    pub name: &'static str,
    pub of: &'static str,
    pub factor: i64,
}

impl Alias {
    /// A value in the unit of the setting itself.
    pub(super) fn parse(&self, value: &str) -> Result<i64, String> {
        let key = find(self.of).expect("an alias is of a setting");
        let number = value.trim().replace('_', "").parse::<i64>().ok();
        let scaled = number.and_then(|n| if n < 0 { Some(n) } else { n.checked_mul(self.factor) });
        scaled.filter(|v| (key.min..=key.max).contains(v)).ok_or_else(|| {
            format!(
                "{} is `{value}`, must be a whole number; in {} it is {} to {}",
                self.name, key.name, key.min, key.max
            )
        })
    }
}

pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|k| k.name == name)
}

impl Key {
    pub(super) fn parse(&self, value: &str) -> Result<i64, String> {
        let value = value.trim();
        if !self.choices.is_empty() {
            let at = self.choices.iter().position(|c| *c == value);
            return at.and_then(|at| i64::try_from(at).ok()).ok_or_else(|| {
                format!("{} is `{value}`, must be {}", self.name, self.choices.join(" or "))
            });
        }
        let parsed = if self.double {
            // -0.0 is 0.0.
            value.parse::<f64>().ok().map(|v| (v + 0.0).to_bits() as i64)
        } else {
            value.replace('_', "").parse::<i64>().ok()
        };
        parsed.filter(|v| (self.min..=self.max).contains(v)).ok_or_else(|| {
            let kind = if self.double { "a number" } else { "a whole number" };
            let (min, max) = (self.text(self.min), self.text(self.max));
            format!("{} is `{value}`, must be {kind}, {min} to {max}", self.name)
        })
    }

    /// A value as people write it.
    pub(super) fn text(&self, value: i64) -> String {
        if self.double {
            // As Java writes a double: 1.0, not 1.
            return format!("{:?}", f64::from_bits(value as u64));
        }
        match usize::try_from(value).ok().and_then(|at| self.choices.get(at)) {
            Some(word) => (*word).to_owned(),
            None => value.to_string(),
        }
    }

    /// What it may be, for people.
    pub(super) fn bounds(&self) -> String {
        if !self.choices.is_empty() {
            return self.choices.join(" or ");
        }
        if self.double {
            return format!("{} to {}", self.text(self.min), self.text(self.max));
        }
        let max = if self.max == ANY {
            "no upper bound".to_owned()
        } else {
            format!("at most {}", self.max)
        };
        format!("at least {}, {max}", self.min)
    }

    pub(super) fn config_type(&self) -> ConfigType {
        if self.choices == BOOLEAN {
            ConfigType::Boolean
        } else if self.double {
            ConfigType::Double
        } else if self.choices.iter().any(|c| c.contains(',')) {
            ConfigType::List
        } else if !self.choices.is_empty() {
            ConfigType::String
        } else if self.max > i64::from(i32::MAX) {
            ConfigType::Long
        } else {
            ConfigType::Int
        }
    }
}
