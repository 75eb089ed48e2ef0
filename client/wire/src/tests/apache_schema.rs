//! Every table against the schemas that Apache Kafka carries, taken from its jar by `tests/schema/Dump.java`:
//! names, types, order, tags and nulls of every field in every version.

use std::collections::HashMap;

use super::{Describe, every_api};
use crate::{Message, api};

/// Schema by message, as in `Produce request`, and version.
fn apache() -> HashMap<(String, i16), &'static str> {
    let text = include_str!("../../tests/schema/kafka.txt");
    let mut schemas = HashMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<_> = line.splitn(4, ' ').collect();
        let [api, kind, versions, schema] = parts[..] else { panic!("no schema: {line}") };
        let (first, last) = versions.split_once('-').expect("a range");
        let bound = |text: &str| text.parse::<i16>().expect("a version");
        for version in bound(first)..=bound(last) {
            schemas.insert((format!("{api} {kind}"), version), schema);
        }
    }
    schemas
}

#[test]
fn every_table_is_the_schema_of_apache_kafka() {
    let apache = apache();
    macro_rules! check {
        ($($api:ident $request:ident $response:ident,)*) => {$(
            check!(@message api::$api::Request, "request");
            check!(@message api::$api::Response, "response");
        )*};
        (@message $message:ty, $kind:literal) => {
            for version in <$message>::VERSIONS {
                let what = format!("{} {}", <$message>::API, $kind);
                let Some(schema) = apache.get(&(what.clone(), version)) else {
                    // Kafka 4 advertises them, refuses them, and has no schema for them any more.
                    let gone = what.starts_with("Produce") && version < 3;
                    assert!(gone, "Apache Kafka has no {what} v{version}");
                    continue;
                };
                // That a struct may be null is not in the schemas that Kafka 4.2 generates.
                let ours = <$message>::describe(<$message>::context(version)).replace("}+?", "}+");
                assert_eq!(ours, *schema, "{what} v{version}");
            }
        };
    }
    every_api!(check);
}
