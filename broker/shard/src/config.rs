//! Topic settings: Kafka's names, what they may be, and what they are to a log. One declaration per key.

use std::collections::BTreeMap;

use rillway_log::LogConfig;

/// What a topic has where nothing was given.
pub type Defaults = TopicSettings;

/// A topic's settings, effective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicSettings {
    pub log: LogConfig,
}

/// One key.
pub struct TopicConfig {
    pub name: &'static str,
    pub doc: &'static str,
    kind: Kind,
}

enum Kind {
    /// A whole number within bounds.
    Number { min: i64, max: i64, get: fn(&TopicSettings) -> i64, set: fn(&mut TopicSettings, i64) },
    /// Only what this broker does anyway is accepted, so that clients which spell defaults out work.
    Only(&'static [&'static str]),
}

/// All keys that can be given at creation.
pub const TOPIC_CONFIGS: &[TopicConfig] = &[
    TopicConfig {
        name: "retention.ms",
        doc: "Segments whose newest record is older than this are deleted; -1: never.",
        kind: Kind::Number {
            min: -1,
            max: i64::MAX,
            get: |s| s.log.retention_ms,
            set: |s, v| s.log.retention_ms = v,
        },
    },
    TopicConfig {
        name: "retention.bytes",
        doc: "Oldest segments are deleted while the partition is larger than this without them; -1: unlimited.",
        kind: Kind::Number {
            min: -1,
            max: i64::MAX,
            get: |s| s.log.retention_bytes,
            set: |s, v| s.log.retention_bytes = v,
        },
    },
    TopicConfig {
        name: "segment.bytes",
        doc: "Size of a segment file.",
        kind: Kind::Number {
            min: 1 << 20,
            max: i32::MAX as i64,
            get: |s| s.log.segment_bytes as i64,
            set: |s, v| s.log.segment_bytes = v.unsigned_abs(),
        },
    },
    TopicConfig {
        name: "segment.ms",
        doc: "A segment takes no more appends after this time.",
        kind: Kind::Number {
            min: 1,
            max: i64::MAX,
            get: |s| s.log.segment_ms,
            set: |s, v| s.log.segment_ms = v,
        },
    },
    TopicConfig {
        name: "max.message.bytes",
        doc: "Largest batch as it is stored, header included.",
        kind: Kind::Number {
            min: 0,
            max: i32::MAX as i64,
            get: |s| s.log.max_message_bytes as i64,
            set: |s, v| s.log.max_message_bytes = v.unsigned_abs() as usize,
        },
    },
    TopicConfig {
        name: "cleanup.policy",
        doc: "What happens to old segments.",
        kind: Kind::Only(&["delete"]),
    },
    TopicConfig {
        name: "compression.type",
        doc: "Batches are stored as the producer compressed them.",
        kind: Kind::Only(&["producer"]),
    },
    TopicConfig {
        name: "message.timestamp.type",
        doc: "Records keep the time that the producer gave them.",
        kind: Kind::Only(&["CreateTime"]),
    },
    TopicConfig {
        name: "min.insync.replicas",
        doc: "One node: the one replica is in sync.",
        kind: Kind::Only(&["1"]),
    },
];

impl TopicConfig {
    pub fn find(name: &str) -> Option<&'static TopicConfig> {
        TOPIC_CONFIGS.iter().find(|c| c.name == name)
    }

    /// The effective value, as text.
    pub fn value(&self, settings: &TopicSettings) -> String {
        match &self.kind {
            Kind::Number { get, .. } => get(settings).to_string(),
            Kind::Only(values) => values[0].to_owned(),
        }
    }

    /// Sets a value, or says what it may be.
    pub fn set(&self, settings: &mut TopicSettings, value: &str) -> Result<(), String> {
        match &self.kind {
            Kind::Number { min, max, set, .. } => match value.trim().parse::<i64>() {
                Ok(v) if (*min..=*max).contains(&v) => {
                    set(settings, v);
                    Ok(())
                }
                _ => Err(format!(
                    "Invalid value {value} for configuration {}: expected a whole number, {min} to {max}",
                    self.name
                )),
            },
            Kind::Only(values) if values.contains(&value) => Ok(()),
            Kind::Only(values) => Err(format!(
                "Invalid value {value} for configuration {}: this broker does only {}",
                self.name,
                values.join(", ")
            )),
        }
    }
}

impl TopicSettings {
    /// Effective settings of a topic. An unknown key is refused by name, never swallowed.
    pub fn with(self, configs: &BTreeMap<String, String>) -> Result<TopicSettings, String> {
        let mut settings = self;
        for (name, value) in configs {
            match TopicConfig::find(name) {
                Some(config) => config.set(&mut settings, value)?,
                None => return Err(format!("Unknown topic config name: {name}")),
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<TopicSettings, String> {
        TopicSettings::default().with(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn every_key_accepts_the_value_that_it_shows() {
        let defaults = TopicSettings::default();
        for config in TOPIC_CONFIGS {
            let shown = config.value(&defaults);
            assert_eq!(with(config.name, &shown), Ok(defaults), "{}", config.name);
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        assert!(with("retention.msec", "1").unwrap_err().contains("retention.msec"));
        assert!(with("cleanup.policy", "compactt").unwrap_err().contains("compactt"));
        assert!(with("segment.bytes", "12").unwrap_err().contains("1048576"));
        assert!(with("retention.ms", "soon").unwrap_err().contains("retention.ms"));
    }

    #[test]
    fn a_value_that_is_given_takes_effect() {
        assert_eq!(with("retention.ms", "5000").unwrap().log.retention_ms, 5_000);
        assert_eq!(with("max.message.bytes", "100000").unwrap().log.max_message_bytes, 100_000);
    }
}
