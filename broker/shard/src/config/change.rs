//! What an alteration makes of a topic's settings: replace all of them (AlterConfigs), or change some (KIP-339).

use std::collections::BTreeMap;

use super::{ConfigType, TopicConfig, TopicSettings, unknown};

/// What is done to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigOperation {
    Set,
    /// Back to the default.
    Delete,
    /// Add to a list.
    Append,
    /// Take out of a list.
    Subtract,
}

/// One change. [`ConfigOperation::Delete`] ignores the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    pub name: String,
    pub operation: ConfigOperation,
    pub value: String,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicAlteration {
    /// These, and nothing else.
    Replace(BTreeMap<String, String>),
    Change(Vec<ConfigChange>),
}

impl TopicAlteration {
    /// The settings after it. Whether they are good is for [`TopicSettings::with`] to say.
    ///
    /// # Errors
    /// A sentence for the client.
    pub fn apply(
        self,
        configs: &BTreeMap<String, String>,
        defaults: &TopicSettings,
    ) -> Result<BTreeMap<String, String>, String> {
        let changes = match self {
            TopicAlteration::Replace(configs) => return Ok(configs),
            TopicAlteration::Change(changes) => changes,
        };
        let mut configs = configs.clone();
        for ConfigChange { name, operation, value } in changes {
            match operation {
                ConfigOperation::Set => {
                    configs.insert(name, value);
                }
                ConfigOperation::Delete => {
                    // Whatever its name: what is not set is at its default, and so Kafka sees it too.
                    configs.remove(&name);
                }
                ConfigOperation::Append | ConfigOperation::Subtract => {
                    let Some(config) = TopicConfig::find(&name) else { return Err(unknown(&name)) };
                    if config.config_type != ConfigType::List {
                        return Err(format!(
                            "Can't {} key {name} because its type is not LIST",
                            if operation == ConfigOperation::Append {
                                "APPEND to"
                            } else {
                                "SUBTRACT from"
                            }
                        ));
                    }
                    let now = configs
                        .get(&name)
                        .cloned()
                        .unwrap_or_else(|| config.value(defaults, &BTreeMap::new()));
                    configs.insert(name, changed_list(&now, operation, &value));
                }
            }
        }
        Ok(configs)
    }
}

fn changed_list(now: &str, operation: ConfigOperation, value: &str) -> String {
    let items = |text: &str| -> Vec<String> {
        text.split(',').map(|i| i.trim().to_owned()).filter(|i| !i.is_empty()).collect()
    };
    let (mut list, value) = (items(now), items(value));
    if operation == ConfigOperation::Append {
        for item in value {
            if !list.contains(&item) {
                list.push(item);
            }
        }
    } else {
        list.retain(|item| !value.contains(item));
    }
    list.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(
        have: &[(&str, &str)],
        name: &str,
        operation: ConfigOperation,
        value: &str,
    ) -> Result<BTreeMap<String, String>, String> {
        let have = have.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let change = ConfigChange { name: name.to_owned(), operation, value: value.to_owned() };
        TopicAlteration::Change(vec![change]).apply(&have, &TopicSettings::default())
    }

    #[test]
    fn a_change_leaves_the_other_settings_and_a_replacement_does_not() {
        let have = [("retention.ms", "1"), ("segment.ms", "2")];
        let set = change(&have, "retention.ms", ConfigOperation::Set, "9").unwrap();
        assert_eq!((set["retention.ms"].as_str(), set["segment.ms"].as_str()), ("9", "2"));
        let deleted = change(&have, "retention.ms", ConfigOperation::Delete, "").unwrap();
        assert_eq!(deleted.keys().collect::<Vec<_>>(), ["segment.ms"]);
        let replaced =
            TopicAlteration::Replace(BTreeMap::new()).apply(&set, &TopicSettings::default());
        assert_eq!(replaced, Ok(BTreeMap::new()));
    }

    #[test]
    fn lists_grow_and_shrink_by_items_and_nothing_else_does() {
        let policy =
            |op, value| change(&[], "cleanup.policy", op, value).unwrap()["cleanup.policy"].clone();
        assert_eq!(policy(ConfigOperation::Append, "compact"), "delete,compact");
        assert_eq!(policy(ConfigOperation::Append, "delete"), "delete");
        assert_eq!(policy(ConfigOperation::Subtract, "delete"), "");
        let e = change(&[], "retention.ms", ConfigOperation::Append, "1").unwrap_err();
        assert!(e.contains("not LIST"), "{e}");
    }

    #[test]
    fn unknown_names_are_refused_unless_they_are_deleted() {
        for op in [ConfigOperation::Append, ConfigOperation::Subtract] {
            assert!(change(&[], "no.such", op, "1").unwrap_err().contains("no.such"));
        }
        assert_eq!(change(&[], "no.such", ConfigOperation::Delete, "1"), Ok(BTreeMap::new()));
        assert!(
            change(
                &[("from.a.later.build", "1")],
                "from.a.later.build",
                ConfigOperation::Delete,
                ""
            )
            .is_ok()
        );
    }
}
