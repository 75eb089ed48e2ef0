//! DescribeConfigs, AlterConfigs and IncrementalAlterConfigs.

use rillway_wire::api::describe_configs::{BROKER, Request, Resource, Response, TOPIC};
use rillway_wire::api::{alter_configs as alter, incremental_alter_configs as change};
use rillway_wire::{ApiKey, Array};

use super::{Case, case, case_from};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case(ApiKey::DescribeConfigs, "a topic without settings of its own", plain),
    case(ApiKey::DescribeConfigs, "a topic with settings of its own", given),
    case(ApiKey::DescribeConfigs, "every setting that both have", every),
    case(ApiKey::DescribeConfigs, "resources that there are not", missing),
    case(ApiKey::DescribeConfigs, "some keys of a broker", broker),
    case_from(ApiKey::DescribeConfigs, 3, "documentation", documentation),
    case(ApiKey::AlterConfigs, "settings are replaced", replaced),
    case(ApiKey::AlterConfigs, "bad values and bad resources", alter_bad),
    case(ApiKey::IncrementalAlterConfigs, "set and delete", set_and_delete),
    case(ApiKey::IncrementalAlterConfigs, "bad values, keys and operations", change_bad),
    case(ApiKey::IncrementalAlterConfigs, "lists", lists),
    case(ApiKey::IncrementalAlterConfigs, "resources that there are not", change_missing),
    case(ApiKey::IncrementalAlterConfigs, "only checked", change_checked),
    case(ApiKey::IncrementalAlterConfigs, "a resource or a key twice", change_twice),
];

/// Versions of DescribeConfigs that look at what another API did.
const LOOK: i16 = 4;
const KEYS: &[&str] = &["retention.ms", "segment.bytes", "max.message.bytes", "cleanup.policy"];

fn resource(
    resource_type: i8,
    resource_name: &'static str,
    keys: Option<&[&'static str]>,
) -> Resource<'static> {
    let configuration_keys = keys.map(|k| k.to_vec().into());
    Resource { resource_type, resource_name, configuration_keys }
}

fn describe(resources: Vec<Resource<'static>>, include_synonyms: bool) -> Request<'static> {
    Request { resources: resources.into(), include_synonyms, include_documentation: false }
}

fn plain(peer: &mut Peer, version: i16) {
    let name = peer.create("plain", 1, &[]);
    for synonyms in [false, true] {
        let request = describe(vec![resource(TOPIC, name, Some(KEYS))], synonyms);
        peer.call(&format!("some keys, synonyms {synonyms}"), &request, version);
    }
    let request =
        describe(vec![resource(TOPIC, name, Some(&["retention.ms", "no.such.key"]))], true);
    peer.call("a key that there is not", &request, version);
    let request = describe(vec![resource(TOPIC, name, Some(&["no.such.key"]))], true);
    peer.call("only such a key", &request, version);
    let request = describe(vec![resource(TOPIC, name, Some(&[]))], false);
    peer.call_showing("an empty list of keys", &request, version, how_many);
}

/// Whether there are settings at all; which ones is another case's affair.
fn how_many(answer: &Response<'_>) -> Vec<bool> {
    answer.results.iter().map(|r| r.configs.len() > 10).collect()
}

fn given(peer: &mut Peer, version: i16) {
    let configs =
        [("retention.ms", "3600000"), ("cleanup.policy", "delete"), ("preallocate", "TRUE")];
    let name = peer.create("given", 1, &configs);
    for synonyms in [false, true] {
        let keys = ["retention.ms", "cleanup.policy", "segment.bytes", "preallocate"];
        let request = describe(vec![resource(TOPIC, name, Some(&keys))], synonyms);
        peer.call(&format!("synonyms {synonyms}"), &request, version);
    }
    let twice = vec![resource(TOPIC, name, Some(KEYS)), resource(TOPIC, name, Some(KEYS))];
    peer.call("a resource twice", &describe(twice, false), version);
}

fn every(peer: &mut Peer, version: i16) {
    let name = peer.create("every", 1, &[]);
    peer.call("all", &describe(vec![resource(TOPIC, name, None)], true), version);
}

fn missing(peer: &mut Peer, version: i16) {
    let (name, there) = (peer.name("missing"), peer.create("there", 1, &[]));
    for (step, resource) in [
        ("no such topic", resource(TOPIC, name, None)),
        ("a name that no topic may have", resource(TOPIC, "a/b", None)),
        ("no name", resource(TOPIC, "", None)),
        ("no such broker", resource(BROKER, "77", None)),
        ("a broker that is no number", resource(BROKER, "one", None)),
        ("no such type", resource(1, "x", None)),
        ("a type from the future", resource(99, "x", None)),
    ] {
        peer.call(step, &describe(vec![resource], false), version);
    }
    let both = vec![resource(TOPIC, name, Some(KEYS)), resource(TOPIC, there, Some(KEYS))];
    peer.call("one of two", &describe(both, false), version);
    peer.call("nothing", &describe(vec![], false), version);
}

fn broker(peer: &mut Peer, version: i16) {
    let keys = ["num.partitions", "message.max.bytes", "auto.create.topics.enable"];
    for synonyms in [false, true] {
        let request = describe(vec![resource(BROKER, "1000", Some(&keys))], synonyms);
        peer.call(&format!("synonyms {synonyms}"), &request, version);
    }
    peer.call("what was set for all", &describe(vec![resource(BROKER, "", None)], true), version);
}

fn documentation(peer: &mut Peer, version: i16) {
    let name = peer.create("plain", 1, &[]);
    let request = Request {
        include_documentation: true,
        ..describe(vec![resource(TOPIC, name, Some(KEYS))], false)
    };
    peer.call("of a topic", &request, version);
}

/// Notes what a topic's keys are now, when the one that was altered last has come through to the broker.
fn look(peer: &mut Peer, step: &str, topic: &'static str, settled: (&str, Option<&str>)) {
    let keys = ["retention.ms", "segment.ms", "max.message.bytes", "cleanup.policy", "preallocate"];
    let request = describe(vec![resource(TOPIC, topic, Some(&keys))], true);
    let (key, value) = settled;
    peer.call_until(step, &request, LOOK, |answer| {
        let found = answer.results.first();
        let config = found.and_then(|r| r.configs.iter().find(|c| c.name == key));
        config.is_some_and(|c| match value {
            Some(value) => c.value == Some(value) && c.config_source == 1,
            None => c.config_source != 1,
        })
    });
}

fn replace(
    peer: &mut Peer,
    step: &str,
    (resource_type, resource_name): (i8, &'static str),
    configs: &[(&'static str, Option<&'static str>)],
    validate_only: bool,
    version: i16,
) {
    let config = |(name, value): &(&'static str, Option<&'static str>)| alter::Config {
        name,
        value: *value,
    };
    let configs: Array<'_, _> = configs.iter().map(config).collect();
    let resource = alter::Resource { resource_type, resource_name, configs };
    let request = alter::Request { resources: vec![resource].into(), validate_only };
    peer.call(step, &request, version);
}

fn replaced(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[("retention.ms", "3600000"), ("segment.ms", "1000")]);
    let at = (TOPIC, name);
    replace(peer, "only checked", at, &[("segment.ms", Some("2000"))], true, version);
    look(peer, "nothing has changed", name, ("segment.ms", Some("1000")));
    replace(peer, "one key", at, &[("segment.ms", Some("2000"))], false, version);
    look(peer, "the other is its default", name, ("segment.ms", Some("2000")));
    replace(peer, "nothing", at, &[], false, version);
    look(peer, "all defaults", name, ("segment.ms", None));
}

fn alter_bad(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[("segment.ms", "1000")]);
    let missing = peer.name("missing");
    let good: &[(&'static str, Option<&'static str>)] = &[("segment.ms", Some("2000"))];
    for (step, at, configs) in [
        ("a bad value", (TOPIC, name), &[("retention.ms", Some("soon"))][..]),
        ("a null", (TOPIC, name), &[("retention.ms", None)][..]),
        ("no such key", (TOPIC, name), &[("no.such.key", Some("1"))][..]),
        (
            "one of two bad",
            (TOPIC, name),
            &[("segment.ms", Some("5")), ("preallocate", Some("x"))][..],
        ),
        ("a key twice", (TOPIC, name), &[("segment.ms", Some("5")), ("segment.ms", Some("6"))][..]),
        ("no such topic", (TOPIC, missing), good),
        ("a name that no topic may have", (TOPIC, "a/b"), good),
        ("no name", (TOPIC, ""), good),
        ("no such type", (99, "x"), good),
        ("no such broker", (BROKER, "77"), &[("num.partitions", Some("2"))][..]),
        ("a key of a broker that is fixed", (BROKER, "1000"), &[("num.partitions", Some("2"))][..]),
    ] {
        replace(peer, step, at, configs, false, version);
    }
    look(peer, "nothing has changed", name, ("segment.ms", Some("1000")));
}

/// Key, operation, value.
type Changes = &'static [(&'static str, i8, Option<&'static str>)];

fn changing(
    resource_type: i8,
    resource_name: &'static str,
    changes: Changes,
) -> change::Resource<'static> {
    let config = |(name, config_operation, value): &(&'static str, i8, Option<&'static str>)| {
        change::Config { name, config_operation: *config_operation, value: *value }
    };
    let configs = changes.iter().map(config).collect();
    change::Resource { resource_type, resource_name, configs }
}

fn alter(
    peer: &mut Peer,
    step: &str,
    resources: Vec<change::Resource<'static>>,
    validate_only: bool,
    version: i16,
) {
    peer.call(step, &change::Request { resources: resources.into(), validate_only }, version);
}

fn change_one(peer: &mut Peer, step: &str, topic: &'static str, changes: Changes, version: i16) {
    alter(peer, step, vec![changing(TOPIC, topic, changes)], false, version);
}

fn set_and_delete(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[("retention.ms", "3600000")]);
    change_one(peer, "set", name, &[("segment.ms", 0, Some("1000"))], version);
    look(peer, "both are there", name, ("segment.ms", Some("1000")));
    let both: Changes = &[("segment.ms", 0, Some("2000")), ("retention.ms", 1, None)];
    change_one(peer, "set one, delete the other", name, both, version);
    look(peer, "one is there", name, ("segment.ms", Some("2000")));
    change_one(peer, "delete what is not set", name, &[("retention.ms", 1, None)], version);
    change_one(peer, "delete with a value", name, &[("segment.ms", 1, Some("x"))], version);
    look(peer, "none is there", name, ("segment.ms", None));
    change_one(peer, "nothing", name, &[], version);
}

fn change_bad(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[("segment.ms", "1000")]);
    let steps: &[(&str, Changes)] = &[
        ("a word for a number", &[("retention.ms", 0, Some("soon"))]),
        ("a word for a boolean", &[("preallocate", 0, Some("maybe"))]),
        ("no such policy", &[("cleanup.policy", 0, Some("compactt"))]),
        ("below the smallest", &[("retention.ms", 0, Some("-2"))]),
        ("no such key", &[("no.such.key", 0, Some("1"))]),
        ("deleting no such key", &[("no.such.key", 1, None)]),
        ("appending to no such key", &[("no.such.key", 2, Some("1"))]),
        ("a null", &[("retention.ms", 0, None)]),
        ("a null to append", &[("cleanup.policy", 2, None)]),
        ("no such operation", &[("retention.ms", 9, Some("1"))]),
        ("appending to a number", &[("retention.ms", 2, Some("1"))]),
        ("taking out of a number", &[("retention.ms", 3, Some("1"))]),
        ("one of two bad", &[("segment.ms", 0, Some("5")), ("preallocate", 0, Some("x"))]),
        ("an empty number", &[("retention.ms", 0, Some(""))]),
    ];
    for (step, changes) in steps {
        change_one(peer, step, name, changes, version);
    }
    look(peer, "nothing has changed", name, ("segment.ms", Some("1000")));
}

fn lists(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[]);
    change_one(
        peer,
        "append what is there",
        name,
        &[("cleanup.policy", 2, Some("delete"))],
        version,
    );
    change_one(peer, "append no policy", name, &[("cleanup.policy", 2, Some("compactt"))], version);
    change_one(
        peer,
        "take out what is not there",
        name,
        &[("cleanup.policy", 3, Some("compact"))],
        version,
    );
    change_one(peer, "set once more", name, &[("cleanup.policy", 0, Some("delete"))], version);
    change_one(peer, "and another", name, &[("segment.ms", 0, Some("1000"))], version);
    look(peer, "after that", name, ("segment.ms", Some("1000")));
}

fn change_missing(peer: &mut Peer, version: i16) {
    let missing = peer.name("missing");
    let good: Changes = &[("segment.ms", 0, Some("2000"))];
    for (step, resource_type, resource_name) in [
        ("no such topic", TOPIC, missing),
        ("a name that no topic may have", TOPIC, "a/b"),
        ("no name", TOPIC, ""),
        ("no such type", 99, "x"),
    ] {
        alter(peer, step, vec![changing(resource_type, resource_name, good)], false, version);
    }
    let fixed: Changes = &[("num.partitions", 0, Some("2"))];
    alter(peer, "no such broker", vec![changing(BROKER, "77", fixed)], false, version);
    alter(peer, "a broker that is no number", vec![changing(BROKER, "one", fixed)], false, version);
    alter(
        peer,
        "a key of a broker that is fixed",
        vec![changing(BROKER, "1000", fixed)],
        false,
        version,
    );
    let there = peer.create("there", 1, &[]);
    let two = vec![changing(TOPIC, missing, good), changing(TOPIC, there, good)];
    alter(peer, "one of two", two, false, version);
    look(peer, "the other is altered", there, ("segment.ms", Some("2000")));
    alter(peer, "no resources", vec![], false, version);
}

fn change_checked(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[("segment.ms", "1000")]);
    let missing = peer.name("missing");
    let good: Changes = &[("segment.ms", 0, Some("2000"))];
    let bad: Changes = &[("segment.ms", 0, Some("0"))];
    alter(peer, "a good one", vec![changing(TOPIC, name, good)], true, version);
    alter(peer, "a bad one", vec![changing(TOPIC, name, bad)], true, version);
    alter(peer, "no such topic", vec![changing(TOPIC, missing, good)], true, version);
    look(peer, "nothing has changed", name, ("segment.ms", Some("1000")));
}

fn change_twice(peer: &mut Peer, version: i16) {
    let name = peer.create("t", 1, &[("segment.ms", "1000")]);
    let twice: Changes = &[("segment.ms", 0, Some("5")), ("segment.ms", 0, Some("6"))];
    change_one(peer, "a key", name, twice, version);
    let good: Changes = &[("segment.ms", 0, Some("2000"))];
    let resources = vec![changing(TOPIC, name, good), changing(TOPIC, name, good)];
    alter(peer, "a resource", resources, false, version);
    look(peer, "nothing has changed", name, ("segment.ms", Some("1000")));
}
