//! OffsetDelete, key 47, served 0 (KIP-496): forget what a group has committed for some partitions. Those of topics that
//! its members read are refused, GROUP_SUBSCRIBED_TO_TOPIC.

use rillway_group::{GroupError, TopicPartition};
use rillway_shard::CoordinatorError;
use rillway_wire::ErrorCode;
use rillway_wire::api::offset_delete::{
    PartitionResponse, Request as Body, Response, TopicResponse,
};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let group = body.group_id.to_owned();
    let topics: Vec<(String, Vec<i32>)> = body
        .topics
        .iter()
        .map(|t| (t.name.to_owned(), t.partitions.iter().map(|p| p.partition_index).collect()))
        .collect();
    later(async move {
        // A group without a name may commit, and that is all that Kafka lets it do.
        if group.is_empty() {
            let error_code = ErrorCode::InvalidGroupId;
            return list(&request, &Response { error_code, ..Default::default() });
        }
        let view = request.context.shard().view();
        let known = |topic: &str, index: i32| view.partition(topic, index).is_some();
        let all = topics.iter().flat_map(|(name, indexes)| {
            indexes
                .iter()
                .map(|partition| TopicPartition { topic: name.clone(), partition: *partition })
        });
        let there = all.filter(|at| known(&at.topic, at.partition)).collect();
        let deleted = match request.context.shard().delete_offsets(&group, there).await {
            Ok(deleted) => deleted,
            Err(e) => {
                let error_code = error_codes::coordinator(&e);
                return list(&request, &Response { error_code, ..Default::default() });
            }
        };
        let mut deleted = deleted.iter();
        let mut answers = Vec::new();
        for (name, indexes) in &topics {
            let partition = |partition_index: &i32| {
                let error_code = if known(name, *partition_index) {
                    code(deleted.next().expect("one answer for each partition"))
                } else {
                    ErrorCode::UnknownTopicOrPartition
                };
                PartitionResponse { partition_index: *partition_index, error_code }
            };
            answers
                .push(TopicResponse { name, partitions: indexes.iter().map(partition).collect() });
        }
        list(&request, &Response { topics: answers.into_iter().collect(), ..Default::default() })
    })
}

fn code(deleted: &Result<(), GroupError>) -> ErrorCode {
    match deleted {
        Ok(()) => ErrorCode::None,
        Err(e) => error_codes::coordinator(&CoordinatorError::Group(e.clone())),
    }
}
