//! DescribeTopicPartitions, DescribeLogDirs and ListConfigResources. The topics of other cases are there as well, so only
//! those of a case are asked for.

use rillway_wire::ApiKey;
use rillway_wire::api::{
    describe_log_dirs as dirs, describe_topic_partitions as pages, list_config_resources,
};

use super::produce::{batch, to};
use super::{Case, case, case_from};
use crate::peer::Peer;

pub(super) const CASES: &[Case] = &[
    case(ApiKey::DescribeTopicPartitions, "in pages", in_pages),
    case(ApiKey::DescribeTopicPartitions, "topics and cursors that do not fit", do_not_fit),
    case(ApiKey::DescribeLogDirs, "of some partitions", of_some),
    case(ApiKey::ListConfigResources, "what there is none of", nothing),
    case_from(ApiKey::ListConfigResources, 1, "brokers, and types that there are not", types),
];

fn ask(
    peer: &mut Peer,
    step: &str,
    topics: &[&'static str],
    response_partition_limit: i32,
    cursor: Option<(&'static str, i32)>,
) -> Option<(&'static str, i32)> {
    let request = pages::Request {
        topics: topics.iter().map(|name| pages::Topic { name }).collect(),
        response_partition_limit,
        cursor: cursor
            .map(|(topic_name, partition_index)| pages::Cursor { topic_name, partition_index }),
    };
    let answer = peer.call(step, &request, 0);
    answer.next_cursor.map(|c| (c.topic_name, c.partition_index))
}

fn in_pages(peer: &mut Peer, _: i16) {
    let (a, b, c) = (peer.create("a", 1, &[]), peer.create("b", 3, &[]), peer.create("c", 2, &[]));
    for limit in [1, 2, 3, 4, 6, 2000, i32::MAX] {
        let mut cursor = None;
        for n in 0..10 {
            cursor = ask(peer, &format!("by {limit}, page {n}"), &[c, a, b], limit, cursor);
            if cursor.is_none() {
                break;
            }
        }
    }
    ask(peer, "a topic twice", &[a, a], 2000, None);
}

fn do_not_fit(peer: &mut Peer, _: i16) {
    let (a, missing) = (peer.create("a", 3, &[]), peer.name("missing"));
    ask(peer, "no such topic", &[missing, a], 2000, None);
    ask(peer, "no such topic in a small page", &[missing, a], 3, None);
    ask(peer, "names that there cannot be", &["", "bad name"], 2000, None);
    ask(peer, "no limit", &[a], 0, None);
    ask(peer, "a negative limit", &[a], -1, None);
    ask(peer, "a cursor behind the partitions", &[a], 2000, Some((a, 3)));
    ask(peer, "a cursor far behind the partitions", &[a], 2000, Some((a, 1000)));
    ask(peer, "a cursor of a topic that there is not", &[a, missing], 2000, Some((missing, 1)));
    ask(peer, "a cursor that is not asked for", &[a], 2000, Some((missing, 0)));
    ask(peer, "a negative cursor", &[a], 2000, Some((a, -1)));
}

/// Topics with the partitions that are asked for.
type Asked = Vec<(&'static str, Vec<i32>)>;

fn of_some(peer: &mut Peer, version: i16) {
    let (a, b) = (peer.create("a", 2, &[]), peer.create("b", 1, &[]));
    let missing = peer.name("missing");
    let bytes = batch(peer, &["a", "b"]);
    peer.ask(&to(a, 0, &bytes, -1), 7).expect("produced");
    let topics: [(&str, Asked); 6] = [
        ("all of them", vec![(a, vec![0, 1]), (b, vec![0])]),
        ("some of them", vec![(a, vec![0])]),
        ("what there is not", vec![(missing, vec![0]), (a, vec![5, -1])]),
        ("twice", vec![(b, vec![0, 0]), (b, vec![0])]),
        ("no partitions", vec![(a, vec![])]),
        ("no topics", vec![]),
    ];
    for (step, topics) in topics {
        let topics = topics
            .into_iter()
            .map(|(topic, partitions)| dirs::Topic { topic, partitions: partitions.into() });
        let request = dirs::Request { topics: Some(topics.collect()) };
        // Kafka tells of every topic, those without a partition that was asked for too.
        peer.call_showing(step, &request, version, |answer| {
            let mut answer = answer.clone();
            let results = answer.results.iter().map(|dir| dirs::LogDir {
                topics: dir.topics.iter().filter(|t| !t.partitions.is_empty()).collect(),
                ..dir
            });
            answer.results = results.collect();
            answer
        });
    }
}

fn list(peer: &mut Peer, step: &str, types: &[i8], version: i16) {
    let request = list_config_resources::Request { resource_types: types.to_vec().into() };
    peer.call(step, &request, version);
}

fn nothing(peer: &mut Peer, version: i16) {
    if version == 0 {
        list(peer, "no types", &[], version);
    } else {
        list(peer, "subscriptions to metrics", &[16], version);
        list(peer, "groups", &[32], version);
    }
}

fn types(peer: &mut Peer, version: i16) {
    list(peer, "brokers", &[4], version);
    list(peer, "brokers twice, and subscriptions", &[4, 4, 16], version);
    list(peer, "loggers", &[8], version);
    for unknown in [0, 1, 3, 64, -1] {
        list(peer, &format!("type {unknown}"), &[unknown], version);
    }
    list(peer, "one of them unknown", &[4, 3], version);
}
