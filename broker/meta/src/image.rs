//! The image of the cluster: immutable once published.

use std::collections::BTreeMap;
use std::sync::Arc;

use rillway_log::TopicId;
use serde::{Deserialize, Serialize};

/// Where a topic is in its life. Only a created one is shown to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopicState {
    /// Some of its partitions may have no state in a ring yet.
    Creating,
    Created,
    /// Some of its partitions may still have state in a ring.
    Deleting,
}

/// One topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topic {
    pub name: String,
    #[serde(with = "id")]
    pub id: TopicId,
    pub partitions: u32,
    pub state: TopicState,
    /// Settings that were given, under Kafka's names. What is absent has the broker's default.
    pub configs: BTreeMap<String, String>,
    /// It is growing to so many partitions; those beyond `partitions` may have no state in a ring yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growing: Option<u32>,
}

/// Everything, at one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Offset after the last record that it contains.
    pub version: i64,
    pub topics: BTreeMap<String, Arc<Topic>>,
}

impl Image {
    /// A topic that clients may see.
    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(name).filter(|t| t.state == TopicState::Created)
    }

    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.topics.values().find(|t| t.id == id && t.state == TopicState::Created)
    }

    /// Topics that clients may see, by name.
    pub fn created(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.topics.values().filter(|t| t.state == TopicState::Created)
    }
}

mod id {
    use rillway_log::TopicId;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(id: &TopicId, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&id.hex())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<TopicId, D::Error> {
        let text = String::deserialize(d)?;
        let mut out = [0; 16];
        if text.len() != 32 || !text.is_ascii() {
            return Err(D::Error::custom("a topic id is 32 hex digits"));
        }
        for (i, b) in out.iter_mut().enumerate() {
            *b = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(D::Error::custom)?;
        }
        Ok(TopicId(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic() -> Topic {
        Topic {
            name: "t".to_owned(),
            id: TopicId([7; 16]),
            partitions: 3,
            state: TopicState::Created,
            configs: BTreeMap::from([("retention.ms".to_owned(), "5".to_owned())]),
            growing: None,
        }
    }

    #[test]
    fn records_from_before_topics_could_grow_are_read_and_written_as_they_were() {
        let old = r#"{"name":"t","id":"07070707070707070707070707070707","partitions":3,"state":"created","configs":{"retention.ms":"5"}}"#;
        assert_eq!(serde_json::from_str::<Topic>(old).unwrap(), topic());
        assert_eq!(serde_json::to_string(&topic()).unwrap(), old);
    }

    #[test]
    fn a_topic_that_grows_reads_back() {
        let growing = Topic { growing: Some(9), ..topic() };
        let text = serde_json::to_string(&growing).unwrap();
        assert_eq!(serde_json::from_str::<Topic>(&text).unwrap(), growing);
    }
}
