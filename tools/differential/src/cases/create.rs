//! CreateTopics: names, numbers, settings and assignments.

use rillway_wire::ApiKey;
use rillway_wire::api::create_topics::{Assignment, Config, Request, Topic};

use super::{Case, case};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case(ApiKey::CreateTopics, "good topics, and what the answer says of them", good),
    case(ApiKey::CreateTopics, "names at the edge", names),
    case(ApiKey::CreateTopics, "numbers of partitions and replicas", numbers),
    case(ApiKey::CreateTopics, "a topic that is there already, or comes twice", twice),
    case(ApiKey::CreateTopics, "only checked", validate_only),
    case(ApiKey::CreateTopics, "settings", settings),
    case(ApiKey::CreateTopics, "assignments by hand", assignments),
    case(ApiKey::CreateTopics, "nothing to create", nothing),
];

pub(super) fn topic(name: &str, num_partitions: i32) -> Topic<'_> {
    Topic { name, num_partitions, replication_factor: 1, ..Default::default() }
}

fn create(peer: &mut Peer, step: &str, topics: Vec<Topic<'static>>, version: i16) {
    peer.call(step, &Request { topics: topics.into(), ..Default::default() }, version);
}

fn good(peer: &mut Peer, version: i16) {
    let (a, b) = (peer.name("a"), peer.name("b"));
    create(peer, "two", vec![topic(a, 1), topic(b, 3)], version);
    let set = peer.name("set");
    let config = |name, value| Config { name, value: Some(value) };
    let configs = vec![config("retention.ms", "3600000"), config("max.message.bytes", "2000000")];
    create(
        peer,
        "with settings",
        vec![Topic { configs: configs.into(), ..topic(set, 1) }],
        version,
    );
}

fn names(peer: &mut Peer, version: i16) {
    let fill = |peer: &Peer, len: usize| -> &'static str {
        let name = peer.name("");
        format!("{name}{}", "x".repeat(len - name.len())).leak()
    };
    let (longest, too_long, longer) = (fill(peer, 249), fill(peer, 250), fill(peer, 255));
    for (step, name) in [
        ("empty", ""),
        ("a dot", "."),
        ("two dots", ".."),
        ("a slash", "a/b"),
        ("a space", "a b"),
        ("letters of elsewhere", "ä"),
        ("249 bytes", longest),
        ("250 bytes", too_long),
        ("255 bytes", longer),
    ] {
        create(peer, step, vec![topic(name, 1)], version);
    }
    let (dot, underscore, upper) = (peer.name("a.b"), peer.name("a_b"), peer.name("A.b"));
    create(peer, "a dot inside", vec![topic(dot, 1)], version);
    create(peer, "an underscore that collides", vec![topic(underscore, 1)], version);
    create(peer, "another case", vec![topic(upper, 1)], version);
    let (x, y) = (peer.name("x.y"), peer.name("x_y"));
    create(peer, "two that collide in one request", vec![topic(x, 1), topic(y, 1)], version);
}

fn numbers(peer: &mut Peer, version: i16) {
    for (step, num_partitions, replication_factor) in [
        ("no partitions", 0, 1),
        ("fewer than none", -2, 1),
        ("three replicas of one broker", 1, 3),
        ("no replicas", 1, 0),
        ("fewer replicas than none", 1, -2),
        ("both wrong", 0, 3),
    ] {
        let name = peer.name("bad");
        let topic = Topic { num_partitions, replication_factor, ..topic(name, 1) };
        create(peer, step, vec![topic], version);
    }
    // -1 is the broker's default from version 4 on, by the clients' word; brokers look at nothing.
    for (step, num_partitions, replication_factor) in
        [("default partitions", -1, 1), ("default replicas", 2, -1), ("all defaults", -1, -1)]
    {
        let name = peer.name(&step.replace(' ', "-"));
        let topic = Topic { num_partitions, replication_factor, ..topic(name, 1) };
        create(peer, step, vec![topic], version);
    }
}

fn twice(peer: &mut Peer, version: i16) {
    let there = peer.create("there", 1, &[]);
    create(peer, "there already", vec![topic(there, 1)], version);
    let bad = Topic { replication_factor: 3, ..topic(there, 0) };
    create(peer, "there already, and wrong", vec![bad], version);
    let (a, other) = (peer.name("a"), peer.name("other"));
    create(peer, "twice in one request", vec![topic(a, 1), topic(a, 2), topic(other, 1)], version);
}

fn validate_only(peer: &mut Peer, version: i16) {
    let there = peer.create("there", 1, &[]);
    let fresh = peer.name("fresh");
    for step in ["a good one", "and again: it was not created"] {
        let request = Request {
            topics: vec![topic(fresh, 2)].into(),
            validate_only: true,
            ..Default::default()
        };
        peer.call(step, &request, version);
    }
    for (step, topic) in [
        ("there already", topic(there, 1)),
        ("no partitions", topic(fresh, 0)),
        ("three replicas", Topic { replication_factor: 3, ..topic(fresh, 1) }),
    ] {
        let request =
            Request { topics: vec![topic].into(), validate_only: true, ..Default::default() };
        peer.call(step, &request, version);
    }
}

fn settings(peer: &mut Peer, version: i16) {
    for (step, name, value) in [
        ("a word for a list", "cleanup.policy", Some("compactt")),
        ("a word for a boolean", "preallocate", Some("maybe")),
        ("a word for a number", "retention.ms", Some("soon")),
        ("below the smallest", "retention.ms", Some("-2")),
        ("beyond a number", "max.message.bytes", Some("2147483648")),
        ("empty", "retention.ms", Some("")),
        ("a null", "retention.ms", None),
        ("no such key", "no.such.key", Some("1")),
        ("a broker's key", "log.retention.ms", Some("1000")),
        ("no such type of timestamps", "message.timestamp.type", Some("logappendtime")),
        ("a codec that there is not", "compression.type", Some("zip")),
        ("no replicas in sync", "min.insync.replicas", Some("0")),
        ("a segment that is too small", "segment.bytes", Some("13")),
    ] {
        let name_of_topic = peer.name("bad");
        let configs = vec![Config { name, value }].into();
        create(peer, step, vec![Topic { configs, ..topic(name_of_topic, 1) }], version);
    }
    for (step, name, value) in [
        ("spaces around", "retention.ms", " 3600000 "),
        ("unlimited", "retention.ms", "-1"),
        ("capitals in a boolean", "preallocate", "TRUE"),
        ("more replicas in sync than there are", "min.insync.replicas", "2"),
    ] {
        let name_of_topic = peer.name(&step.replace(' ', "-"));
        let configs = vec![Config { name, value: Some(value) }].into();
        create(peer, step, vec![Topic { configs, ..topic(name_of_topic, 1) }], version);
    }
    let name = peer.name("key-twice");
    let config = |value| Config { name: "retention.ms", value: Some(value) };
    let configs = vec![config("3600000"), config("7200000")].into();
    create(peer, "a key twice", vec![Topic { configs, ..topic(name, 1) }], version);
}

/// A topic whose partitions are given to brokers.
fn assigned(name: &'static str, partitions: &[(i32, &[i32])]) -> Topic<'static> {
    let assignment = |(partition_index, brokers): &(i32, &[i32])| Assignment {
        partition_index: *partition_index,
        broker_ids: brokers.to_vec().into(),
    };
    Topic {
        num_partitions: -1,
        replication_factor: -1,
        assignments: partitions.iter().map(assignment).collect(),
        ..topic(name, -1)
    }
}

fn assignments(peer: &mut Peer, version: i16) {
    let name = peer.name("bad");
    for (step, topic) in [
        ("a gap", assigned(name, &[(0, &[1000]), (2, &[1000])])),
        ("from 1 on", assigned(name, &[(1, &[1000])])),
        ("a negative partition", assigned(name, &[(-1, &[1000])])),
        ("a partition twice", assigned(name, &[(0, &[1000]), (0, &[1000])])),
        ("no replica", assigned(name, &[(0, &[])])),
        ("a broker that there is not", assigned(name, &[(0, &[7])])),
        ("a broker twice", assigned(name, &[(0, &[1000, 1000])])),
        ("partitions as well", Topic { num_partitions: 1, ..assigned(name, &[(0, &[1000])]) }),
        ("replicas as well", Topic { replication_factor: 1, ..assigned(name, &[(0, &[1000])]) }),
    ] {
        create(peer, step, vec![topic], version);
    }
    let good = peer.name("good");
    create(peer, "good", vec![assigned(good, &[(1, &[1000]), (0, &[1000])])], version);
}

fn nothing(peer: &mut Peer, version: i16) {
    create(peer, "no topics", vec![], version);
}
