//! DescribeLogDirs, key 35, served 1-4: what this node's partitions take on the disk (KIP-113, KIP-827).
//!
//! - A node's answer covers the partitions of its core, or cores where several are shown as one node. There is one
//!   directory, and all nodes of a host share its volume.
//! - Partitions that are asked for and not here are left out, as in Kafka.
//! - No replica is behind: what counts is flushed, so every lag is 0; no copy is under way to another directory.

use std::collections::{BTreeMap, BTreeSet};

use rillway_shard::PartitionSize;
use rillway_wire::ErrorCode;
use rillway_wire::api::describe_log_dirs::{
    LogDir, Partition, Request as Body, Response, TopicResponse,
};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let wanted: Option<BTreeMap<String, BTreeSet<i32>>> = body.topics.as_ref().map(|topics| {
        let mut wanted = BTreeMap::<String, BTreeSet<i32>>::new();
        for topic in topics {
            wanted.entry(topic.topic.to_owned()).or_default().extend(topic.partitions.iter());
        }
        wanted
    });
    let is_wanted = move |p: &PartitionSize| match &wanted {
        None => true,
        Some(wanted) => wanted.get(&p.topic).is_some_and(|indexes| indexes.contains(&p.index)),
    };
    later(async move {
        let (shard, nodes) = (request.context.shard(), request.context.nodes());
        let mut topics = BTreeMap::<String, BTreeMap<i32, Partition>>::new();
        for core in (0..shard.cores()).filter(|c| nodes.id(*c) == nodes.id(shard.core())) {
            let sizes = match shard.partition_sizes(core).await {
                Ok(sizes) => sizes,
                Err(e) => {
                    let error_code = error_codes::topic(&e);
                    return list(&request, &Response { error_code, ..Default::default() });
                }
            };
            for p in sizes.into_iter().filter(&is_wanted) {
                let size = i64::try_from(p.bytes).unwrap_or(i64::MAX);
                let partition = Partition {
                    partition_index: p.index,
                    partition_size: size,
                    ..Default::default()
                };
                topics.entry(p.topic).or_default().insert(p.index, partition);
            }
        }
        let volume = shard.volume().await;
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let dir = LogDir {
            error_code: ErrorCode::None,
            log_dir: &volume.dir,
            topics: topics
                .iter()
                .map(|(name, partitions)| TopicResponse {
                    name,
                    partitions: partitions.values().cloned().collect(),
                })
                .collect(),
            total_bytes: volume.space.map_or(-1, |(total, _)| bytes(total)),
            usable_bytes: volume.space.map_or(-1, |(_, usable)| bytes(usable)),
        };
        list(&request, &Response { results: vec![dir].into(), ..Default::default() })
    })
}
