//! What is made alike before two answers are compared, since it has to differ between two runs of any broker. Each
//! rule names its reason; everything else has to be equal, or an accepted difference.

use std::collections::BTreeMap;

use crate::tree::Tree;

/// Times within this of the run's start are "now".
const NOW_MS: i64 = 3_600_000 / 2;

/// What is known of one peer during one case.
pub(crate) struct Rules {
    /// Where this peer listens.
    port: u16,
    /// The run's start, the same for both.
    now_ms: i64,
    /// Start of the names of the case's topics.
    prefix: String,
    /// Ids in the order in which they were first seen.
    ids: BTreeMap<String, usize>,
    producers: BTreeMap<String, usize>,
    members: BTreeMap<String, usize>,
}

impl Rules {
    pub(crate) fn new(port: u16, now_ms: i64, prefix: String) -> Rules {
        Rules {
            port,
            now_ms,
            prefix,
            ids: BTreeMap::new(),
            producers: BTreeMap::new(),
            members: BTreeMap::new(),
        }
    }

    /// A tree with what must differ replaced, and lists in the order of what they name.
    pub(crate) fn apply(&mut self, tree: Tree) -> Tree {
        let sorted = sort("", self.known("", tree));
        self.replace("", sorted)
    }

    /// From now on this id of a topic is known, so that topics that are named by it can be put in order.
    pub(crate) fn know(&mut self, id: rillway_wire::Uuid) {
        if !id.is_zero() {
            numbered(&mut self.ids, "id", id.to_string());
        }
    }

    /// A tree with the ids that are known replaced.
    fn known(&self, field: &str, tree: Tree) -> Tree {
        match tree {
            Tree::Struct(fields) => Tree::Struct(
                fields
                    .into_iter()
                    .map(|(n, v)| {
                        let v = self.known(&n, v);
                        (n, v)
                    })
                    .collect(),
            ),
            Tree::List(items) => {
                Tree::List(items.into_iter().map(|i| self.known(field, i)).collect())
            }
            Tree::Word(word) if field == "topic_id" => match self.ids.get(&word) {
                Some(number) => Tree::Word(format!("id {number}")),
                None => Tree::Word(word),
            },
            other @ (Tree::Word(_) | Tree::Text(_)) => other,
        }
    }

    fn replace(&mut self, field: &str, tree: Tree) -> Tree {
        match tree {
            Tree::Struct(fields) => Tree::Struct(
                fields
                    .into_iter()
                    .map(|(n, v)| {
                        let v = self.replace(&n, v);
                        (n, v)
                    })
                    .collect(),
            ),
            Tree::List(items) => {
                Tree::List(items.into_iter().map(|i| self.replace(field, i)).collect())
            }
            Tree::Text(text) => self.replace_text(field, text),
            Tree::Word(word) => self.replace_word(field, word),
        }
    }

    fn replace_word(&mut self, field: &str, word: String) -> Tree {
        let number = word.parse::<i64>().ok();
        Tree::Word(match (field, number) {
            // Each peer has a port of its own.
            ("port", Some(port)) if port == i64::from(self.port) => "its port".to_owned(),
            // Ids are random (KIP-516): the same topic has to keep the one that it was first seen with.
            ("topic_id", _)
                if !word.starts_with("id ") && !rillway_wire::Uuid::ZERO.to_string().eq(&word) =>
            {
                numbered(&mut self.ids, "id", word)
            }
            // Kafka hands them out in blocks per broker.
            ("producer_id", Some(0..)) => numbered(&mut self.producers, "producer", word),
            // Random, so that nobody goes on with another's.
            ("session_id", Some(1..)) => "its session".to_owned(),
            // Two folders on one disk, which others write to.
            ("total_bytes" | "usable_bytes", Some(1..)) => "some".to_owned(),
            // Two clocks, two runs.
            (_, Some(at)) if field.contains("time") && (at - self.now_ms).abs() < NOW_MS => {
                "now".to_owned()
            }
            _ => word,
        })
    }

    fn replace_text(&mut self, field: &str, text: String) -> Tree {
        match field {
            // For people; clients look at the code. Whether there is one is compared.
            "error_message" | "batch_index_error_message" | "documentation" if !text.is_empty() => {
                Tree::word("a text")
            }
            // Random, made at the first start.
            "cluster_id" if !text.is_empty() => Tree::word("its id"),
            // A random part behind the name of the client or of the instance.
            "member_id" | "leader" if text.len() > 36 => {
                Tree::Word(numbered(&mut self.members, "member", text))
            }
            "log_dir" if text.starts_with('/') => Tree::word("its directory"),
            // So that a difference has one line for all versions.
            _ => match text.strip_prefix(&self.prefix) {
                Some(name) if !self.prefix.is_empty() => Tree::Text(name.to_owned()),
                Some(_) | None => Tree::Text(text),
            },
        }
    }
}

fn numbered(seen: &mut BTreeMap<String, usize>, what: &str, word: String) -> String {
    let next = seen.len() + 1;
    format!("{what} {}", seen.entry(word).or_insert(next))
}

/// Kafka answers topics, partitions and settings in the order of its hash tables: no client can count on it.
fn sort(field: &str, tree: Tree) -> Tree {
    match tree {
        Tree::Struct(fields) => Tree::Struct(
            fields
                .into_iter()
                .map(|(n, v)| {
                    let v = sort(&n, v);
                    (n, v)
                })
                .collect(),
        ),
        Tree::List(items) => {
            let mut items: Vec<Tree> = items.into_iter().map(|i| sort(field, i)).collect();
            // Synonyms come with the one in force first, batches in the order of their offsets.
            if field != "synonyms" {
                items.sort_by_key(identity);
            }
            Tree::List(items)
        }
        other @ (Tree::Word(_) | Tree::Text(_)) => other,
    }
}

/// Fields that say which one of a list an element is.
const NAMES: &[&str] = &[
    "name",
    "topic",
    "topic_id",
    "resource_name",
    "key",
    "group_id",
    "partition_index",
    "index",
    "partition",
    "api_key",
    "node_id",
    "broker_id",
];

/// What an element of a list is called in paths.
pub(crate) fn identity(tree: &Tree) -> Option<String> {
    // A record has a key too, and its place is its offset's.
    if tree.field("offset_delta").is_some() {
        return None;
    }
    NAMES.iter().find_map(|name| match tree.field(name) {
        // Where ids name topics, there is no name.
        Some(Tree::Text(text)) if text.is_empty() && tree.field("topic_id").is_some() => None,
        Some(Tree::Text(text)) => Some(text.clone()),
        Some(Tree::Word(word)) => Some(word.clone()),
        Some(Tree::List(_) | Tree::Struct(_)) | None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rillway_wire::Uuid;
    use rillway_wire::api::metadata::{Broker, Response, Topic};

    #[test]
    fn two_runs_of_one_broker_are_alike() {
        let answer = |port: u16, id: u8, topics: [&'static str; 2]| {
            let topic = |name| Topic {
                name: Some(name),
                topic_id: Uuid([name.as_bytes()[0] + id; 16]),
                ..Default::default()
            };
            let response = Response {
                brokers: vec![Broker { port: port.into(), ..Default::default() }].into(),
                topics: topics.map(topic).to_vec().into(),
                ..Default::default()
            };
            Rules::new(port, 0, String::new()).apply(Tree::of(&response))
        };
        assert_eq!(answer(1, 0, ["a", "b"]), answer(2, 7, ["b", "a"]));
        assert_ne!(answer(1, 0, ["a", "b"]), answer(2, 7, ["a", "c"]));
    }
}
