//! Topic settings: Kafka's names, what they may be, and what they are to a log.
//!
//! `table` declares each key once; here is what a key can do, and the effective settings of a topic. Runs on any core,
//! no state.
//!
//! Absent on purpose: where a value is kept (metadata), and how it is shown to clients (api).

mod change;
mod table;

use std::collections::BTreeMap;

use rillway_log::{LogConfig, Ratio};

pub use change::{ConfigChange, ConfigOperation, TopicAlteration};
pub use table::TOPIC_CONFIGS;

/// What a topic has where nothing was given.
pub type Defaults = TopicSettings;

/// A topic's settings, effective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicSettings {
    pub log: LogConfig,
    /// message.timestamp.type: records get the broker's time.
    pub log_append_time: bool,
    /// message.timestamp.before.max.ms
    pub timestamp_before_max_ms: i64,
    /// message.timestamp.after.max.ms
    pub timestamp_after_max_ms: i64,
    pub min_insync_replicas: i64,
}

impl Default for TopicSettings {
    fn default() -> Self {
        TopicSettings {
            log: LogConfig::default(),
            log_append_time: false,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            min_insync_replicas: 1,
        }
    }
}

/// Kafka's types of configurations, with the numbers that DescribeConfigs uses (KIP-569).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigType {
    Boolean = 1,
    String = 2,
    Int = 3,
    Long = 5,
    Double = 6,
    List = 7,
}

/// One key.
pub struct TopicConfig {
    pub name: &'static str,
    /// The broker's setting that is its default.
    pub broker: &'static str,
    pub doc: &'static str,
    pub config_type: ConfigType,
    kind: Kind,
}

enum Kind {
    /// A whole number within bounds.
    Number { min: i64, max: i64, get: fn(&TopicSettings) -> i64, set: fn(&mut TopicSettings, i64) },
    /// One of what this broker does. `later` are Kafka's other values, refused with what is done instead.
    Choice {
        does: &'static [&'static str],
        later: &'static [&'static str],
        get: fn(&TopicSettings) -> usize,
        set: fn(&mut TopicSettings, usize),
    },
    /// A share, from 0 to 1.
    Share { get: fn(&TopicSettings) -> Ratio, set: fn(&mut TopicSettings, Ratio) },
    /// A list of some of these words, in any order, and not none of them.
    Set {
        of: &'static [&'static str],
        get: fn(&TopicSettings, usize) -> bool,
        set: fn(&mut TopicSettings, usize, bool),
    },
    /// Means nothing here; taken, checked and shown, so that tools which set it work. A boolean is 0 to 1.
    Inert { min: i64, max: i64, default: i64 },
}

impl TopicConfig {
    pub fn find(name: &str) -> Option<&'static TopicConfig> {
        TOPIC_CONFIGS.iter().find(|c| c.name == name)
    }

    /// Whether it is taken and shown, and changes nothing.
    pub fn is_inert(&self) -> bool {
        matches!(self.kind, Kind::Inert { .. })
    }

    /// The effective value of a topic to which `given` was given, as text.
    pub fn value(&self, settings: &TopicSettings, given: &BTreeMap<String, String>) -> String {
        match &self.kind {
            Kind::Number { get, .. } => get(settings).to_string(),
            Kind::Choice { does, get, .. } => does[get(settings)].to_owned(),
            // As Java writes a double: 1.0, not 1.
            Kind::Share { get, .. } => format!("{:?}", get(settings).get()),
            Kind::Set { of, get, .. } => match given.get(self.name) {
                // In the order in which it was given.
                Some(value) => items(value).collect::<Vec<_>>().join(","),
                None => {
                    let on = of.iter().enumerate().filter(|(at, _)| get(settings, *at));
                    on.map(|(_, word)| *word).collect::<Vec<_>>().join(",")
                }
            },
            Kind::Inert { default, .. } => match given.get(self.name) {
                // As it was understood, not as it was written: TRUE is true.
                Some(value) if self.config_type == ConfigType::Boolean => {
                    value.trim().to_ascii_lowercase()
                }
                Some(value) => value.trim().to_owned(),
                None => self.text(*default),
            },
        }
    }

    /// The value that is built in.
    pub fn default_value(&self) -> String {
        self.value(&TopicSettings::default(), &BTreeMap::new())
    }

    /// What it may be, for people.
    pub fn bounds(&self) -> String {
        match &self.kind {
            Kind::Choice { does, .. } => does.join(" or "),
            Kind::Share { .. } => "0 to 1".to_owned(),
            Kind::Set { of, .. } => format!("{}, or both", of.join(", ")),
            Kind::Inert { .. } if self.config_type == ConfigType::Boolean => {
                "true or false".to_owned()
            }
            Kind::Number { min, max: i64::MAX, .. } | Kind::Inert { min, max: i64::MAX, .. } => {
                format!("{min} or more")
            }
            Kind::Number { min, max, .. } | Kind::Inert { min, max, .. } => {
                format!("{min} to {max}")
            }
        }
    }

    fn text(&self, number: i64) -> String {
        match self.config_type {
            ConfigType::Boolean => (number == 1).to_string(),
            ConfigType::String
            | ConfigType::Int
            | ConfigType::Long
            | ConfigType::Double
            | ConfigType::List => number.to_string(),
        }
    }

    fn number(&self, value: &str, min: i64, max: i64) -> Result<i64, String> {
        let value = value.trim();
        let parsed = match self.config_type {
            ConfigType::Boolean if value.eq_ignore_ascii_case("true") => Some(1),
            ConfigType::Boolean if value.eq_ignore_ascii_case("false") => Some(0),
            ConfigType::Boolean => None,
            ConfigType::String
            | ConfigType::Int
            | ConfigType::Long
            | ConfigType::Double
            | ConfigType::List => value.parse().ok(),
        };
        parsed.filter(|v| (min..=max).contains(v)).ok_or_else(|| {
            let expected = match self.config_type {
                ConfigType::Boolean => "true or false".to_owned(),
                _ => format!("a whole number, {}", self.bounds()),
            };
            format!("Invalid value {value} for configuration {}: expected {expected}", self.name)
        })
    }

    /// Sets a value, or says what it may be.
    ///
    /// # Errors
    /// A sentence for the client.
    pub fn set(&self, settings: &mut TopicSettings, value: &str) -> Result<(), String> {
        match &self.kind {
            Kind::Number { min, max, set, .. } => {
                set(settings, self.number(value, *min, *max)?);
                Ok(())
            }
            Kind::Inert { min, max, .. } => self.number(value, *min, *max).map(|_| ()),
            Kind::Share { set, .. } => {
                let ratio = value.trim().parse().ok().and_then(Ratio::new).ok_or_else(|| {
                    let name = self.name;
                    format!(
                        "Invalid value {value} for configuration {name}: expected a number, 0 to 1"
                    )
                })?;
                set(settings, ratio);
                Ok(())
            }
            Kind::Set { of, set, .. } => {
                let list: Vec<&str> = items(value).collect();
                if list.is_empty() || !list.iter().all(|item| of.contains(item)) {
                    return Err(format!(
                        "Invalid value {value} for configuration {}: expected {}",
                        self.name,
                        self.bounds()
                    ));
                }
                for (at, word) in of.iter().enumerate() {
                    set(settings, at, list.contains(word));
                }
                Ok(())
            }
            Kind::Choice { does, later, set, .. } => {
                if let Some(at) = does.iter().position(|v| *v == value.trim()) {
                    set(settings, at);
                    return Ok(());
                }
                let known = |v: &str| does.contains(&v.trim()) || later.contains(&v.trim());
                let why = if !value.is_empty() && value.split(',').all(known) {
                    "not supported yet, this broker does"
                } else {
                    "expected"
                };
                Err(format!(
                    "Invalid value {value} for configuration {}: {why} {}",
                    self.name,
                    does.join(" or ")
                ))
            }
        }
    }
}

/// The items of a list.
fn items(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn unknown(name: &str) -> String {
    if table::NOT_YET.contains(&name) {
        let supported: Vec<&str> = TOPIC_CONFIGS.iter().map(|c| c.name).collect();
        return format!(
            "Topic config {name} is not supported yet; supported are {}",
            supported.join(", ")
        );
    }
    format!("Unknown topic config name: {name}")
}

impl TopicSettings {
    /// Effective settings of a topic. An unknown key is refused by name, never swallowed.
    ///
    /// # Errors
    /// A sentence for the client.
    pub fn with(self, configs: &BTreeMap<String, String>) -> Result<TopicSettings, String> {
        let mut settings = self;
        for (name, value) in configs {
            match TopicConfig::find(name) {
                Some(config) => config.set(&mut settings, value)?,
                None => return Err(unknown(name)),
            }
        }
        let (least, most) =
            (settings.log.min_compaction_lag_ms, settings.log.max_compaction_lag_ms);
        if least > most {
            return Err(format!(
                "conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
            ));
        }
        Ok(settings)
    }

    /// As [`TopicSettings::with`], for what another build may have written: what is not understood is left out, and
    /// the first such thing is told.
    pub fn with_known(self, configs: &BTreeMap<String, String>) -> (TopicSettings, Option<String>) {
        let (mut settings, mut wrong) = (self, None);
        for (name, value) in configs {
            let set = match TopicConfig::find(name) {
                Some(config) => config.set(&mut settings, value),
                None => Err(unknown(name)),
            };
            wrong = wrong.or(set.err());
        }
        (settings, wrong)
    }
}

/// The settings of topics, as a table in Markdown.
pub fn topic_config_document() -> String {
    let mut out = String::from("| topic setting | default | may be | |\n|---|---|---|---|\n");
    for c in TOPIC_CONFIGS {
        let inert = if c.is_inert() { "No effect. " } else { "" };
        out.push_str(&format!(
            "| {} | {} | {} | {inert}{} |\n",
            c.name,
            c.default_value(),
            c.bounds(),
            c.doc
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(name: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_owned(), value.to_owned())])
    }

    fn with(name: &str, value: &str) -> Result<TopicSettings, String> {
        TopicSettings::default().with(&one(name, value))
    }

    #[test]
    fn every_key_accepts_the_value_that_it_shows() {
        for config in TOPIC_CONFIGS {
            let shown = config.default_value();
            let settings = with(config.name, &shown).unwrap();
            assert_eq!(
                config.value(&settings, &one(config.name, &shown)),
                shown,
                "{}",
                config.name
            );
        }
    }

    #[test]
    fn the_table_is_in_order_and_names_nothing_twice() {
        let names: Vec<_> = TOPIC_CONFIGS.iter().map(|c| c.name).collect();
        assert!(names.windows(2).all(|w| w[0] < w[1]), "{names:?}");
        assert!(table::NOT_YET.iter().all(|n| TopicConfig::find(n).is_none()));
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        assert!(with("retention.msec", "1").unwrap_err().contains("retention.msec"));
        assert!(with("cleanup.policy", "compactt").unwrap_err().contains("compactt"));
        assert!(with("segment.bytes", "12").unwrap_err().contains("1048576"));
        assert!(with("retention.ms", "soon").unwrap_err().contains("retention.ms"));
        assert!(with("preallocate", "maybe").unwrap_err().contains("true or false"));
    }

    #[test]
    fn what_kafka_has_and_we_do_not_is_refused_with_what_is_supported() {
        assert!(with("compression.type", "zstd").unwrap_err().contains("does producer"));
        assert!(
            with("segment.jitter.ms", "1").unwrap_err().contains("supported are cleanup.policy")
        );
    }

    #[test]
    fn the_policy_is_a_list_in_any_order_and_shown_as_it_was_given() {
        let policy = TopicConfig::find("cleanup.policy").unwrap();
        for (text, compact, delete) in [
            ("delete", false, true),
            ("compact", true, false),
            ("compact,delete", true, true),
            ("delete,compact", true, true),
        ] {
            let settings = with("cleanup.policy", text).unwrap();
            assert_eq!((settings.log.compact, settings.log.delete), (compact, delete), "{text}");
            assert_eq!(policy.value(&settings, &one("cleanup.policy", text)), text);
        }
        for wrong in ["", ",", "compact,", "Compact", "compact;delete"] {
            let taken = with("cleanup.policy", wrong).is_ok();
            assert_eq!(taken, wrong == "compact,", "`{wrong}`");
        }
    }

    #[test]
    fn the_ratio_is_a_share_and_shown_as_java_shows_it() {
        let ratio = TopicConfig::find("min.cleanable.dirty.ratio").unwrap();
        assert_eq!(ratio.default_value(), "0.5");
        for (text, shown) in
            [("0", "0.0"), ("1", "1.0"), ("0.25", "0.25"), ("1.0", "1.0"), ("1e-2", "0.01")]
        {
            let settings = with("min.cleanable.dirty.ratio", text).unwrap();
            assert_eq!(ratio.value(&settings, &BTreeMap::new()), shown);
        }
        for wrong in ["1.1", "-0.1", "NaN", "inf", "half", ""] {
            assert!(
                with("min.cleanable.dirty.ratio", wrong).unwrap_err().contains("0 to 1"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_least_lag_above_the_most_is_a_conflict() {
        let mut lags = one("min.compaction.lag.ms", "10");
        lags.insert("max.compaction.lag.ms".to_owned(), "9".to_owned());
        assert!(TopicSettings::default().with(&lags).unwrap_err().contains("conflict"));
        lags.insert("max.compaction.lag.ms".to_owned(), "10".to_owned());
        assert!(TopicSettings::default().with(&lags).is_ok());
    }

    #[test]
    fn a_value_that_is_given_takes_effect() {
        assert_eq!(with("retention.ms", "5000").unwrap().log.retention_ms, 5_000);
        assert_eq!(with("max.message.bytes", "100000").unwrap().log.max_message_bytes, 100_000);
        assert!(with("message.timestamp.type", "LogAppendTime").unwrap().log_append_time);
        assert_eq!(with("min.insync.replicas", "2").unwrap().min_insync_replicas, 2);
    }

    #[test]
    fn of_settings_that_another_build_wrote_the_known_ones_count() {
        let mut configs = one("retention.ms", "5000");
        configs.insert("a.later.key".to_owned(), "1".to_owned());
        let (settings, wrong) = TopicSettings::default().with_known(&configs);
        assert_eq!(settings.log.retention_ms, 5_000);
        assert!(wrong.unwrap().contains("a.later.key"));
    }

    proptest! {
        #[test]
        fn any_number_is_taken_and_shown_as_given_or_refused_and_the_rest_stays(
            key in 0..TOPIC_CONFIGS.len(),
            value in prop_oneof![any::<i64>(), -3_i64..10, Just(i64::MAX), Just(i64::from(i32::MAX))],
        ) {
            let config = &TOPIC_CONFIGS[key];
            let text = value.to_string();
            let mut settings = TopicSettings::default();
            match config.set(&mut settings, &text) {
                // A share is shown as one: 1.0.
                Ok(()) if config.config_type == ConfigType::Double => {
                    prop_assert_eq!(config.value(&settings, &BTreeMap::new()), format!("{text}.0"));
                }
                Ok(()) => prop_assert_eq!(config.value(&settings, &one(config.name, &text)), text),
                Err(why) => {
                    prop_assert_eq!(settings, TopicSettings::default());
                    prop_assert!(why.contains(config.name));
                }
            }
        }

        #[test]
        fn no_text_panics(key in 0..TOPIC_CONFIGS.len(), value in ".*") {
            let _ = TOPIC_CONFIGS[key].set(&mut TopicSettings::default(), &value);
        }
    }
}
