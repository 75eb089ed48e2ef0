//! The table: every topic setting that Kafka has and this broker takes, once. Creation, altering, describing, checks and
//! the printed documentation follow from it.

use super::{ConfigType, Kind, TopicConfig};

const ANY: i64 = i64::MAX;
const INT: i64 = i32::MAX as i64;

/// All keys, by name.
pub const TOPIC_CONFIGS: &[TopicConfig] = &[
    TopicConfig {
        name: "cleanup.policy",
        broker: "log.cleanup.policy",
        doc: "What happens to old records: delete whole segments by age and size, compact to the newest record of each key, or both.",
        config_type: ConfigType::List,
        kind: Kind::Set {
            of: &["compact", "delete"],
            get: |s, item| if item == 0 { s.log.compact } else { s.log.delete },
            set: |s, item, on| {
                *(if item == 0 { &mut s.log.compact } else { &mut s.log.delete }) = on
            },
        },
    },
    TopicConfig {
        name: "compression.type",
        broker: "compression.type",
        doc: "Batches are stored as the producer compressed them.",
        config_type: ConfigType::String,
        kind: Kind::Choice {
            does: &["producer"],
            later: &["uncompressed", "gzip", "snappy", "lz4", "zstd"],
            get: |_| 0,
            set: |_, _| {},
        },
    },
    TopicConfig {
        name: "delete.retention.ms",
        broker: "log.cleaner.delete.retention.ms",
        doc: "How long a tombstone stays in a compacted topic once it is all that is left of its key.",
        config_type: ConfigType::Long,
        kind: Kind::Number {
            min: 0,
            max: ANY,
            get: |s| s.log.delete_retention_ms,
            set: |s, v| s.log.delete_retention_ms = v,
        },
    },
    TopicConfig {
        name: "file.delete.delay.ms",
        broker: "log.segment.delete.delay.ms",
        doc: "How long a deleted file stays before its room is given back.",
        config_type: ConfigType::Long,
        kind: Kind::Number {
            min: 0,
            max: ANY,
            get: |s| s.log.file_delete_delay_ms.unwrap_or(60_000),
            set: |s, v| s.log.file_delete_delay_ms = Some(v),
        },
    },
    TopicConfig {
        name: "flush.messages",
        broker: "log.flush.interval.messages",
        doc: "Every acknowledged record is flushed already.",
        config_type: ConfigType::Long,
        kind: Kind::Inert { min: 1, max: ANY, default: ANY },
    },
    TopicConfig {
        name: "flush.ms",
        broker: "log.flush.interval.ms",
        doc: "Every acknowledged record is flushed already.",
        config_type: ConfigType::Long,
        kind: Kind::Inert { min: 0, max: ANY, default: ANY },
    },
    TopicConfig {
        name: "index.interval.bytes",
        broker: "log.index.interval.bytes",
        doc: "The distance between index entries is fixed.",
        config_type: ConfigType::Int,
        kind: Kind::Inert { min: 0, max: INT, default: 4096 },
    },
    TopicConfig {
        name: "max.compaction.lag.ms",
        broker: "log.cleaner.max.compaction.lag.ms",
        doc: "A record of a compacted topic is compacted once it is older, whatever the ratio; its segment is rolled for it.",
        config_type: ConfigType::Long,
        kind: Kind::Number {
            min: 1,
            max: ANY,
            get: |s| s.log.max_compaction_lag_ms,
            set: |s, v| s.log.max_compaction_lag_ms = v,
        },
    },
    TopicConfig {
        name: "max.message.bytes",
        broker: "message.max.bytes",
        doc: "Largest batch as it is stored: header included, after compression.",
        config_type: ConfigType::Int,
        kind: Kind::Number {
            min: 0,
            max: INT,
            get: |s| i64::try_from(s.log.max_message_bytes).unwrap_or(INT),
            set: |s, v| s.log.max_message_bytes = usize::try_from(v).unwrap_or(0),
        },
    },
    TopicConfig {
        name: "message.timestamp.after.max.ms",
        broker: "log.message.timestamp.after.max.ms",
        doc: "A batch whose largest time is further ahead of the broker's clock is refused; with CreateTime.",
        config_type: ConfigType::Long,
        kind: Kind::Number {
            min: 0,
            max: ANY,
            get: |s| s.timestamp_after_max_ms,
            set: |s, v| s.timestamp_after_max_ms = v,
        },
    },
    TopicConfig {
        name: "message.timestamp.before.max.ms",
        broker: "log.message.timestamp.before.max.ms",
        doc: "A batch whose first time is further behind the broker's clock is refused; with CreateTime.",
        config_type: ConfigType::Long,
        kind: Kind::Number {
            min: 0,
            max: ANY,
            get: |s| s.timestamp_before_max_ms,
            set: |s, v| s.timestamp_before_max_ms = v,
        },
    },
    TopicConfig {
        name: "message.timestamp.type",
        broker: "log.message.timestamp.type",
        doc: "Whether records keep the producer's time or get the broker's.",
        config_type: ConfigType::String,
        kind: Kind::Choice {
            does: &["CreateTime", "LogAppendTime"],
            later: &[],
            get: |s| usize::from(s.log_append_time),
            set: |s, i| s.log_append_time = i == 1,
        },
    },
    TopicConfig {
        name: "min.cleanable.dirty.ratio",
        broker: "log.cleaner.min.cleanable.ratio",
        doc: "A partition of a compacted topic is cleaned when more than this share of its bytes was not cleaned yet.",
        config_type: ConfigType::Double,
        kind: Kind::Share {
            get: |s| s.log.min_cleanable_ratio,
            set: |s, v| s.log.min_cleanable_ratio = v,
        },
    },
    TopicConfig {
        name: "min.compaction.lag.ms",
        broker: "log.cleaner.min.compaction.lag.ms",
        doc: "A record of a compacted topic is not compacted before it is so old.",
        config_type: ConfigType::Long,
        kind: Kind::Number {
            min: 0,
            max: ANY,
            get: |s| s.log.min_compaction_lag_ms,
            set: |s, v| s.log.min_compaction_lag_ms = v,
        },
    },
    TopicConfig {
        name: "min.insync.replicas",
        broker: "min.insync.replicas",
        doc: "Replicas that must have a record before acks=all is answered; there is one.",
        config_type: ConfigType::Int,
        kind: Kind::Number {
            min: 1,
            max: INT,
            get: |s| s.min_insync_replicas,
            set: |s, v| s.min_insync_replicas = v,
        },
    },
    TopicConfig {
        name: "preallocate",
        broker: "log.preallocate",
        doc: "Segment files are always allocated ahead of the write.",
        config_type: ConfigType::Boolean,
        kind: Kind::Inert { min: 0, max: 1, default: 0 },
    },
    TopicConfig {
        name: "retention.bytes",
        broker: "log.retention.bytes",
        doc: "Oldest segments are deleted while the partition is larger than this without them; -1: unlimited.",
        config_type: ConfigType::Long,
        kind: Kind::Number {
            min: -1,
            max: ANY,
            get: |s| s.log.retention_bytes,
            set: |s, v| s.log.retention_bytes = v,
        },
    },
    TopicConfig {
        name: "retention.ms",
        broker: "log.retention.ms",
        doc: "Segments whose newest record is older than this are deleted; -1: never.",
        config_type: ConfigType::Long,
        kind: Kind::Number {
            min: -1,
            max: ANY,
            get: |s| s.log.retention_ms,
            set: |s, v| s.log.retention_ms = v,
        },
    },
    TopicConfig {
        name: "segment.bytes",
        broker: "log.segment.bytes",
        doc: "Size of a segment file.",
        config_type: ConfigType::Int,
        kind: Kind::Number {
            min: 1 << 20,
            max: INT,
            get: |s| i64::try_from(s.log.segment_bytes).unwrap_or(INT),
            set: |s, v| s.log.segment_bytes = v.unsigned_abs(),
        },
    },
    TopicConfig {
        name: "segment.index.bytes",
        broker: "log.index.size.max.bytes",
        doc: "Indexes take the room that they need.",
        config_type: ConfigType::Int,
        kind: Kind::Inert { min: 4, max: INT, default: 10 << 20 },
    },
    TopicConfig {
        name: "segment.ms",
        broker: "log.roll.ms",
        doc: "A segment takes no more appends after this time.",
        config_type: ConfigType::Long,
        kind: Kind::Number {
            min: 1,
            max: ANY,
            get: |s| s.log.segment_ms,
            set: |s, v| s.log.segment_ms = v,
        },
    },
    TopicConfig {
        name: "unclean.leader.election.enable",
        broker: "unclean.leader.election.enable",
        doc: "There is one replica, and it leads.",
        config_type: ConfigType::Boolean,
        kind: Kind::Inert { min: 0, max: 1, default: 0 },
    },
];

/// Kafka's other keys, refused by name: what they ask for is not done, and a value that is swallowed would be a lie.
pub(super) const NOT_YET: &[&str] = &[
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "message.downconversion.enable",
    "message.format.version",
    "message.timestamp.difference.max.ms",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "segment.jitter.ms",
];
