//! GroupReport, key 20000, served 0, shown to our own client only: lag and the black box of a group.

use rillway_shard::{GroupReport, PartitionLag};
use rillway_wire::ErrorCode;
use rillway_wire::api::group_report::{Member, Partition, Request as Body, Response, Transition};

use crate::apis::{later, list};
use crate::connection::{Answer, Close};
use crate::context::Request;
use crate::error_codes;

pub(crate) async fn handle(request: Request, body: &Body<'_>) -> Result<Answer, Close> {
    let group = body.group_id.to_owned();
    later(async move {
        let failed = |error_code, why: &str| {
            let error_message = Some(why);
            list(&request, &Response { error_code, error_message, ..Default::default() })
        };
        match request.context.shard().group_report(&group).await {
            Ok(Some(report)) => {
                let causes: Vec<String> =
                    report.history.iter().map(|t| t.cause.to_string()).collect();
                list(&request, &response(&report, &causes))
            }
            Ok(None) => failed(ErrorCode::GroupIdNotFound, "no such group"),
            Err(e) => failed(error_codes::coordinator(&e), &e.to_string()),
        }
    })
}

fn response<'a>(report: &'a GroupReport, causes: &'a [String]) -> Response<'a> {
    let partitions = report.partitions.iter().map(partition);
    let transitions = report.history.iter().zip(causes).map(|(t, cause)| Transition {
        time_ms: t.wall_ms,
        from: t.from.name(),
        to: t.to.name(),
        generation_id: t.generation,
        member_count: i32::try_from(t.members).unwrap_or(i32::MAX),
        cause,
    });
    let response = Response {
        partitions: partitions.collect(),
        transitions: transitions.collect(),
        ..Default::default()
    };
    let Some(d) = &report.described else { return response };
    let members = d.members.iter().map(|m| Member {
        member_id: &m.member,
        group_instance_id: m.instance.as_deref(),
        client_id: &m.client_id,
        client_host: &m.client_host,
        assignment: &m.assignment,
    });
    Response {
        group_state: d.phase.name(),
        generation_id: d.generation,
        protocol_type: &d.protocol_type,
        protocol_name: &d.protocol,
        members: members.collect(),
        ..response
    }
}

fn partition(lag: &PartitionLag) -> Partition<'_> {
    Partition {
        topic: &lag.at.topic,
        partition_index: lag.at.partition,
        committed_offset: lag.committed.offset,
        metadata: &lag.committed.metadata,
        commit_time_ms: lag.committed.commit_ms,
        log_start_offset: lag.log_start,
        end_offset: lag.end,
        lag_records: lag.records,
        lag_bytes: i64::try_from(lag.bytes).unwrap_or(i64::MAX),
        lag_ms: lag.age_ms,
    }
}
