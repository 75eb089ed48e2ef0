//! `rillctl group describe`: who is in a group, and how far behind it is in each partition.
//!
//! Rillway says all of it at once. From another broker it is put together from what the Kafka protocol has: there is
//! lag in records then, and none in bytes and time.

use std::collections::BTreeMap;

use rillway_client::{
    Client, Error as ClientError, GroupInfo, GroupMember, PartitionLag, TopicPartition,
};
use rillway_io::Runtime;
use rillway_wire::ErrorCode;
use rillway_wire::api::list_offsets::{EARLIEST, LATEST};
use serde_json::{Value, json};

use super::{assignment, if_there, state};
use crate::error::{Error, Result};
use crate::node::{self, Connection};
use crate::output::{Output, Table, duration, print, print_json, size, time};

/// Describe a group: its state, its members, and its lag per partition in records, bytes and time.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,
    /// The group.
    #[arg(value_name = "NAME")]
    group: String,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(args: Args) -> Result<()> {
    node::run(args, describe)
}

/// What is shown; `None` where the broker does not say.
struct Group {
    generation: Option<i32>,
    info: GroupInfo,
    partitions: Vec<Lag>,
}

struct Lag {
    at: TopicPartition,
    committed: i64,
    log_start: Option<i64>,
    end: Option<i64>,
    records: Option<i64>,
    bytes: Option<i64>,
    age_ms: Option<i64>,
    commit_time_ms: Option<i64>,
    metadata: Option<String>,
}

impl From<PartitionLag> for Lag {
    fn from(lag: PartitionLag) -> Self {
        Self {
            at: lag.at,
            committed: lag.committed,
            log_start: Some(lag.log_start),
            end: Some(lag.end),
            records: Some(lag.records),
            bytes: Some(lag.bytes),
            age_ms: Some(lag.age_ms),
            commit_time_ms: Some(lag.commit_time_ms),
            metadata: Some(lag.metadata),
        }
    }
}

async fn describe(rt: Runtime, args: Args) -> Result<()> {
    let client = args.connection.client(&rt);
    let found = match client.group_report(&args.group).await {
        Err(ClientError::Unsupported { .. }) => by_kafka(&client, &args.group).await?,
        report => if_there(report)?.map(|report| Group {
            generation: Some(report.generation),
            info: report.info,
            partitions: report.partitions.into_iter().map(Lag::from).collect(),
        }),
    };
    let Some(group) = found else {
        return Err(Error::NoGroup(args.group));
    };
    let owners = owners(&group.info.members);
    if args.output.json {
        return print_json(&as_json(&args.group, &group, &owners));
    }
    print(lines(&args.group, &group, &owners))
}

/// From DescribeGroups, OffsetFetch and ListOffsets.
async fn by_kafka(client: &Client, name: &str) -> Result<Option<Group>> {
    let Some(info) = if_there(client.describe_group(name).await)? else {
        return Ok(None);
    };
    let offsets = client.group_offsets(name).await?;
    if info.state == "Dead" && offsets.is_empty() {
        return Ok(None);
    }
    let mut partitions = Vec::new();
    for (at, committed) in offsets {
        let start = end_of(client, &at, EARLIEST).await?;
        let end = end_of(client, &at, LATEST).await?;
        let records = end.map(|end| (end - committed.max(start.unwrap_or(0))).max(0));
        partitions.push(Lag {
            at,
            committed,
            log_start: start,
            end,
            records,
            bytes: None,
            age_ms: None,
            commit_time_ms: None,
            metadata: None,
        });
    }
    Ok(Some(Group { generation: None, info, partitions }))
}

/// `None`: the partition is gone, and what the group committed for it is left.
async fn end_of(client: &Client, at: &TopicPartition, which: i64) -> Result<Option<i64>> {
    match client.list_offsets(vec![at.clone()], which).await {
        Ok(offsets) => Ok(offsets.first().map(|(_, offset)| *offset)),
        Err(error) if error.code() == Some(ErrorCode::UnknownTopicOrPartition) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Which member each partition belongs to.
fn owners(members: &[GroupMember]) -> BTreeMap<(String, i32), &GroupMember> {
    let mut owners = BTreeMap::new();
    for member in members {
        for (topic, numbers) in assignment::partitions(&member.assignment).unwrap_or_default() {
            owners.extend(numbers.into_iter().map(|n| ((topic.clone(), n), member)));
        }
    }
    owners
}

type Owners<'a> = BTreeMap<(String, i32), &'a GroupMember>;

fn owner<'a>(owners: &Owners<'a>, at: &TopicPartition) -> Option<&'a GroupMember> {
    owners.get(&(at.topic.to_string(), at.partition)).copied()
}

fn as_json(name: &str, group: &Group, owners: &Owners<'_>) -> Value {
    let member = |m: &GroupMember| {
        let assigned = assignment::partitions(&m.assignment).unwrap_or_default();
        let assigned = assigned.into_iter().map(|(t, p)| json!({"topic": t, "partitions": p}));
        json!({
            "member_id": m.member,
            "instance_id": m.instance,
            "client_id": m.client_id,
            "host": m.host,
            "assignment": assigned.collect::<Value>(),
        })
    };
    let lag = |l: &Lag| {
        json!({
            "topic": &*l.at.topic,
            "partition": l.at.partition,
            "committed_offset": l.committed,
            "metadata": l.metadata,
            "commit_time_ms": l.commit_time_ms,
            "log_start_offset": l.log_start,
            "end_offset": l.end,
            "lag_records": l.records,
            "lag_bytes": l.bytes,
            "lag_ms": l.age_ms,
            "member_id": owner(owners, &l.at).map(|m| &m.member),
        })
    };
    json!({
        "group": name,
        "state": state(&group.info.state),
        "generation": group.generation,
        "protocol_type": group.info.protocol_type,
        "protocol": group.info.protocol,
        "members": group.info.members.iter().map(member).collect::<Value>(),
        "partitions": group.partitions.iter().map(lag).collect::<Value>(),
    })
}

fn lines(name: &str, group: &Group, owners: &Owners<'_>) -> Vec<String> {
    let info = &group.info;
    let mut all = vec![format!("group {name}: {}{}", state(&info.state), {
        let generation = group.generation.filter(|g| *g >= 0);
        let generation = generation.map_or(String::new(), |g| format!(", generation {g}"));
        let protocol = Some(&*info.protocol).filter(|p| !p.is_empty());
        format!("{generation}{}", protocol.map_or(String::new(), |p| format!(", assignor {p}")))
    })];
    let sum = |of: fn(&Lag) -> Option<i64>| -> Option<i64> {
        group.partitions.iter().map(of).try_fold(0_i64, |sum, lag| Some(sum.saturating_add(lag?)))
    };
    let records = sum(|l| l.records).filter(|_| !group.partitions.is_empty());
    if let Some(records) = records {
        let bytes = sum(|l| l.bytes).map_or(String::new(), |b| format!(", {}", size(b)));
        let oldest = group.partitions.iter().filter_map(|l| l.age_ms).max();
        let oldest = oldest.map_or(String::new(), |ms| format!(", up to {} behind", duration(ms)));
        all.push(format!("lag: {records} records{bytes}{oldest}"));
    }
    if !info.members.is_empty() {
        let mut table = Table::new(&["MEMBER", "INSTANCE", "CLIENT", "HOST", "ASSIGNMENT"]);
        for m in &info.members {
            let assigned = assignment::partitions(&m.assignment).unwrap_or_default();
            table.row([
                m.member.clone(),
                m.instance.clone().unwrap_or_default(),
                m.client_id.clone(),
                m.host.clone(),
                assignment::shown(&assigned),
            ]);
        }
        all.push(String::new());
        all.extend(table.lines());
    }
    all.push(String::new());
    if group.partitions.is_empty() {
        all.push("no offsets are committed".to_string());
        return all;
    }
    let mut table = Table::new(&[
        "TOPIC",
        ">PARTITION",
        ">COMMITTED",
        ">START",
        ">END",
        ">LAG",
        ">LAG BYTES",
        ">LAG TIME",
        "COMMITTED AT",
        "CLIENT",
    ]);
    let number = |n: Option<i64>| n.map_or(String::new(), |n| n.to_string());
    for l in &group.partitions {
        table.row([
            l.at.topic.to_string(),
            l.at.partition.to_string(),
            l.committed.to_string(),
            number(l.log_start),
            number(l.end),
            number(l.records),
            l.bytes.map_or(String::new(), size),
            l.age_ms.map_or(String::new(), duration),
            l.commit_time_ms.map_or(String::new(), time),
            owner(owners, &l.at).map_or(String::new(), |m| m.client_id.clone()),
        ]);
    }
    all.extend(table.lines());
    all
}
