//! An answer as a tree of named fields, whatever API it is of.
//!
//! Every table of rillway-wire derives `Debug`, and its text names each field: [`Tree::of`] reads that text, so an API
//! that is added to wire can be compared without a line here. Records become the batches and records inside them.

use std::fmt::{self, Debug};

use rillway_wire::batch::{BatchView, batches, decompress, records};

/// What a batch of an answer may unpack to; the scripts send less.
const UNPACKED_MAX: usize = 16 << 20;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tree {
    /// A number, `true`, `None`, the name of an error code, an id.
    Word(String),
    /// A text of the protocol.
    Text(String),
    List(Vec<Tree>),
    Struct(Vec<(String, Tree)>),
}

impl Tree {
    /// The tree of a message.
    ///
    /// # Panics
    /// When a `Debug` text is not of the form that `derive` writes: a type of wire has one by hand, to be read here.
    pub(crate) fn of(message: &impl Debug) -> Tree {
        let text = format!("{message:?}");
        let mut from = Text { rest: &text };
        let tree = from.value();
        assert!(from.rest.is_empty(), "left of a Debug text: {}", from.rest);
        tree
    }

    pub(crate) fn word(text: impl Into<String>) -> Tree {
        Tree::Word(text.into())
    }

    /// The field of a struct.
    pub(crate) fn field(&self, name: &str) -> Option<&Tree> {
        match self {
            Tree::Struct(fields) => fields.iter().find(|(n, _)| n == name).map(|(_, v)| v),
            Tree::Word(_) | Tree::Text(_) | Tree::List(_) => None,
        }
    }
}

/// Short enough for a line of a report.
impl Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tree::Word(word) => f.write_str(word),
            Tree::Text(text) => write!(f, "{text:?}"),
            Tree::List(items) => f.debug_list().entries(items).finish(),
            Tree::Struct(fields) => {
                f.debug_map().entries(fields.iter().map(|(n, v)| (Tree::word(n), v))).finish()
            }
        }
    }
}

/// What is left of a `Debug` text.
struct Text<'a> {
    rest: &'a str,
}

impl Text<'_> {
    fn value(&mut self) -> Tree {
        match self.rest.chars().next() {
            Some('"') => Tree::Text(self.quoted()),
            Some('[') => Tree::List(self.list('[', ']')),
            _ => self.named(),
        }
    }

    /// A word, and what stands behind it in brackets.
    fn named(&mut self) -> Tree {
        let end = self
            .rest
            .find(|c: char| c.is_whitespace() || ",{}()[]:".contains(c))
            .unwrap_or(self.rest.len());
        let name = self.rest[..end].to_owned();
        self.rest = &self.rest[end..];
        if self.rest.starts_with('(') {
            let mut inner = self.list('(', ')');
            let only = inner.pop().expect("a tuple of one");
            return if name == "Bytes" { batch_tree(&bytes(&only)) } else { only };
        }
        if let Some(rest) = self.rest.strip_prefix(" {") {
            self.rest = rest;
            return Tree::Struct(self.fields());
        }
        // No records at all, where Kafka could send none as well: the bytes differ, and so does the tree.
        Tree::Word(name)
    }

    fn fields(&mut self) -> Vec<(String, Tree)> {
        let mut fields = Vec::new();
        loop {
            self.skip(" ,");
            if let Some(rest) = self.rest.strip_prefix('}') {
                self.rest = rest;
                return fields;
            }
            let (name, rest) = self.rest.split_once(": ").expect("a field");
            self.rest = rest;
            fields.push((name.to_owned(), self.value()));
        }
    }

    fn list(&mut self, open: char, close: char) -> Vec<Tree> {
        self.rest = self.rest.strip_prefix(open).expect("looked at before");
        let mut items = Vec::new();
        loop {
            self.skip(" ,");
            if let Some(rest) = self.rest.strip_prefix(close) {
                self.rest = rest;
                return items;
            }
            items.push(self.value());
        }
    }

    fn quoted(&mut self) -> String {
        let mut escaped = false;
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                '"' if !escaped => {
                    let text = self.rest[1..at].to_owned();
                    self.rest = &self.rest[at + 1..];
                    return text;
                }
                _ => escaped = c == '\\' && !escaped,
            }
        }
        panic!("a quote that does not end: {}", self.rest)
    }

    fn skip(&mut self, of: &str) {
        self.rest = self.rest.trim_start_matches(|c| of.contains(c));
    }
}

fn bytes(list: &Tree) -> Vec<u8> {
    let Tree::List(items) = list else { return Vec::new() };
    let byte = |item: &Tree| match item {
        Tree::Word(word) => word.parse::<u8>().expect("a byte"),
        Tree::Text(_) | Tree::List(_) | Tree::Struct(_) => panic!("bytes are words"),
    };
    items.iter().map(byte).collect()
}

/// The batches of a Fetch answer.
fn batch_tree(bytes: &[u8]) -> Tree {
    let tree = |batch| match batch {
        Ok(batch) => one_batch(&batch),
        Err(e) => Tree::word(format!("no batch: {e}")),
    };
    Tree::List(batches(bytes).map(tree).collect())
}

fn one_batch(batch: &BatchView<'_>) -> Tree {
    let number = |n: &str, v: i64| (n.to_owned(), Tree::word(v.to_string()));
    Tree::Struct(vec![
        number("base_offset", batch.base_offset()),
        number("batch_leader_epoch", batch.leader_epoch().into()),
        number("attributes", batch.attributes().into()),
        number("last_offset_delta", batch.last_offset_delta().into()),
        number("base_timestamp", batch.base_timestamp()),
        number("max_timestamp", batch.max_timestamp()),
        number("producer_id", batch.producer_id()),
        number("producer_epoch", batch.producer_epoch().into()),
        number("base_sequence", batch.base_sequence().into()),
        number("record_count", batch.record_count().into()),
        number("total_len", batch.total_len() as i64),
        ("crc_right".to_owned(), Tree::word(batch.check_crc().to_string())),
        ("records".to_owned(), record_trees(batch)),
    ])
}

fn record_trees(batch: &BatchView<'_>) -> Tree {
    let broken = |e| Tree::word(format!("broken: {e}"));
    let payload = match batch.codec().and_then(|c| decompress(c, batch.records(), UNPACKED_MAX)) {
        Ok(payload) => payload,
        Err(e) => return broken(e),
    };
    let content = |bytes: Option<&[u8]>| match bytes {
        None => Tree::word("None"),
        Some(bytes) if bytes.len() > 40 => Tree::word(format!("{} bytes", bytes.len())),
        Some(bytes) => Tree::Text(String::from_utf8_lossy(bytes).into_owned()),
    };
    let tree = |record| match record {
        Err(e) => broken(e),
        Ok(rillway_wire::batch::RecordView {
            offset_delta,
            timestamp_delta,
            key,
            value,
            headers,
        }) => Tree::Struct(vec![
            ("offset_delta".to_owned(), Tree::word(offset_delta.to_string())),
            ("timestamp_delta".to_owned(), Tree::word(timestamp_delta.to_string())),
            ("key".to_owned(), content(key)),
            ("value".to_owned(), content(value)),
            (
                "headers".to_owned(),
                Tree::List(
                    headers
                        .map(|h| Tree::List(vec![content(Some(h.key)), content(h.value)]))
                        .collect(),
                ),
            ),
        ]),
    };
    Tree::List(records(&payload).map(tree).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rillway_wire::api::{create_topics, fetch};
    use rillway_wire::batch::{BatchBuilder, Codec};
    use rillway_wire::{ErrorCode, Records, Uuid};

    #[test]
    fn a_message_becomes_the_tree_of_its_fields() {
        let topic = create_topics::TopicResponse {
            name: "a \"quoted\\\" name, with { and ]",
            error_code: ErrorCode::InvalidConfig,
            topic_id: Uuid([0xff; 16]),
            error_message: Some("x"),
            configs: Some(vec![create_topics::ConfigResponse::default()].into()),
            ..Default::default()
        };
        let tree =
            Tree::of(&create_topics::Response { topics: vec![topic].into(), ..Default::default() });
        let Some(Tree::List(topics)) = tree.field("topics") else { panic!("{tree:?}") };
        assert_eq!(topics[0].field("error_code"), Some(&Tree::word("InvalidConfig")));
        assert_eq!(topics[0].field("error_message"), Some(&Tree::Text("x".to_owned())));
        assert_eq!(topics[0].field("topic_id"), Some(&Tree::word("_____________________w")));
        let Some(Tree::List(configs)) = topics[0].field("configs") else { panic!("{tree:?}") };
        assert_eq!(configs[0].field("value"), Some(&Tree::word("None")));
    }

    #[test]
    fn records_become_batches_and_what_is_cut_off_is_told() {
        let mut batch = BatchBuilder::new(Codec::Lz4);
        batch.push(5, Some(b"k"), None, &[("h", Some(b"1"))]);
        let mut bytes = batch.build().unwrap();
        bytes.extend_from_slice(&bytes.clone()[..30]);
        let partition =
            fetch::PartitionResponse { records: Records::Bytes(&bytes), ..Default::default() };
        let tree = Tree::of(&partition);
        let Some(Tree::List(batches)) = tree.field("records") else { panic!("{tree:?}") };
        assert_eq!(batches.len(), 2);
        assert_eq!(batches[0].field("record_count"), Some(&Tree::word("1")));
        let Some(Tree::List(records)) = batches[0].field("records") else { panic!("{tree:?}") };
        assert_eq!(records[0].field("key"), Some(&Tree::Text("k".to_owned())));
        assert!(format!("{:?}", batches[1]).contains("no batch"));
    }
}
