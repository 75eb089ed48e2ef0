//! Partitions that are placed by hand, at creation and when a topic grows.

use rillway_shard::TopicError;

use crate::context::Request;

/// Checks the replicas of one partition: one node of this host. Its core is a hint that nobody promised to follow.
pub(super) fn on_one_host(
    request: &Request,
    partition: i32,
    brokers: &[i32],
) -> Result<(), TopicError> {
    let why = match brokers {
        [] => format!("partition {partition} has no replica"),
        [one] if request.context.nodes().is_here(*one) => return Ok(()),
        [one] => format!("there is no broker {one}"),
        [..] => {
            format!("partition {partition}: nodes {brokers:?} are cores of one host, not replicas")
        }
    };
    Err(TopicError::InvalidAssignment(why))
}
