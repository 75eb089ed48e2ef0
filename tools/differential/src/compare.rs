//! Two trees, field by field.

use std::collections::BTreeSet;

use crate::rules::identity;
use crate::tree::Tree;

/// A field that is not the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Difference {
    /// Step of the script, and the way to the field: `create/topics[orders].error_code`.
    pub path: String,
    pub kafka: String,
    pub rillway: String,
}

/// Adds where `kafka` and `rillway` differ below `path`.
pub(crate) fn compare(path: &str, kafka: &Tree, rillway: &Tree, into: &mut Vec<Difference>) {
    match (kafka, rillway) {
        (Tree::Struct(ours), Tree::Struct(theirs)) if names(ours).eq(names(theirs)) => {
            for ((name, k), (_, r)) in ours.iter().zip(theirs) {
                let separator = if path.ends_with('/') { "" } else { "." };
                compare(&format!("{path}{separator}{name}"), k, r, into);
            }
        }
        (Tree::List(k), Tree::List(r)) => compare_lists(path, k, r, into),
        _ if kafka == rillway => {}
        _ => into.push(Difference {
            path: path.to_owned(),
            kafka: short(kafka),
            rillway: short(rillway),
        }),
    }
}

fn names(fields: &[(String, Tree)]) -> impl Iterator<Item = &str> {
    fields.iter().map(|(n, _)| n.as_str())
}

fn compare_lists(path: &str, kafka: &[Tree], rillway: &[Tree], into: &mut Vec<Difference>) {
    let (k, r) = (labels(kafka), labels(rillway));
    let all: BTreeSet<&String> = k.iter().chain(&r).collect();
    let find = |labels: &[String], trees: &[Tree], label: &String| {
        labels.iter().position(|l| l == label).map(|at| trees[at].clone())
    };
    for label in all {
        let path = format!("{path}[{label}]");
        match (find(&k, kafka, label), find(&r, rillway, label)) {
            (Some(k), Some(r)) => compare(&path, &k, &r, into),
            (k, r) => {
                let there = |t: Option<Tree>| t.map_or("missing".to_owned(), |t| short(&t));
                into.push(Difference { path, kafka: there(k), rillway: there(r) });
            }
        }
    }
}

/// What elements are called: by name, or by place; a name that comes again gets its count.
fn labels(list: &[Tree]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for (at, tree) in list.iter().enumerate() {
        let name = identity(tree).unwrap_or_else(|| at.to_string());
        let before = |labels: &[String], label: &String| labels.contains(label);
        let mut label = name.clone();
        let mut count = 1;
        while before(&labels, &label) {
            count += 1;
            label = format!("{name}#{count}");
        }
        labels.push(label);
    }
    labels
}

fn short(tree: &Tree) -> String {
    let text = format!("{tree:?}");
    match text.char_indices().nth(160) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rillway_wire::ErrorCode;
    use rillway_wire::api::delete_topics::{Response, TopicResponse};

    fn paths(
        kafka: &[(&'static str, ErrorCode)],
        rillway: &[(&'static str, ErrorCode)],
    ) -> Vec<String> {
        let tree = |topics: &[(&'static str, ErrorCode)]| {
            let topic = |(name, error_code): &(&'static str, ErrorCode)| TopicResponse {
                name: Some(name),
                error_code: *error_code,
                ..Default::default()
            };
            Tree::of(&Response {
                responses: topics.iter().map(topic).collect(),
                ..Default::default()
            })
        };
        let mut found = Vec::new();
        compare("delete/", &tree(kafka), &tree(rillway), &mut found);
        found.into_iter().map(|d| d.path).collect()
    }

    #[test]
    fn a_difference_has_the_path_of_its_field() {
        let (fine, bad) = (ErrorCode::None, ErrorCode::InvalidRequest);
        assert!(paths(&[("a", fine), ("b", bad)], &[("a", fine), ("b", bad)]).is_empty());
        assert_eq!(paths(&[("a", fine)], &[("a", bad)]), ["delete/responses[a].error_code"]);
        assert_eq!(paths(&[("a", fine), ("a", fine)], &[("a", fine)]), ["delete/responses[a#2]"]);
    }
}
