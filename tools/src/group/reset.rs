//! `rillctl group reset`: where a group without members reads on.
//!
//! Shows what would change and changes nothing, unless it is told to: a reset cannot be undone, since nobody keeps what
//! was committed before.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rillway_client::{Client, TopicPartition};
use rillway_io::Runtime;
use rillway_wire::ErrorCode;
use rillway_wire::api::list_offsets::{EARLIEST, LATEST};
use serde_json::{Value, json};

use super::if_there;
use crate::error::{Error, Result};
use crate::node::{self, Connection, find_topic};
use crate::output::{Output, Table, parse_duration, parse_time, print, print_json};

/// Move the committed offsets of a group without members. Shows what would change unless --execute is given.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    connection: Connection,
    /// The group.
    #[arg(value_name = "NAME")]
    group: String,
    #[arg(long)]
    topic: String,
    /// Only these partitions, separated by commas; all of the topic when left out.
    #[arg(long = "partition", value_name = "N", value_delimiter = ',')]
    partitions: Vec<i32>,
    /// earliest, latest, an offset, a time (2026-11-30T21:00:00Z, in UTC) or how long ago (-90s, -30m, -2h, -7d).
    #[arg(long, value_name = "WHERE", value_parser = parse_to, allow_hyphen_values = true)]
    to: To,
    /// Do it.
    #[arg(long)]
    execute: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Earliest,
    Latest,
    Offset(i64),
    /// Milliseconds since 1970.
    Time(i64),
    /// Milliseconds.
    Ago(i64),
}

fn parse_to(text: &str) -> Result<To, String> {
    let expected = "expected earliest, latest, an offset, a time as in 2026-11-30T21:00:00Z, or how long ago as in -2h";
    let to = match text {
        "earliest" => Some(To::Earliest),
        "latest" => Some(To::Latest),
        _ => match text.strip_prefix('-') {
            Some(ago) => parse_duration(ago).map(To::Ago),
            None => match text.parse() {
                Ok(offset) => Some(To::Offset(offset)),
                Err(_) => parse_time(text).map(To::Time),
            },
        },
    };
    to.ok_or(expected.to_string())
}

pub(super) fn run(args: Args) -> Result<()> {
    node::run(args, reset)
}

/// What happens to a partition.
struct Move {
    at: TopicPartition,
    from: Option<i64>,
    to: i64,
    /// What was asked for lies outside of the log, or behind its last record.
    note: &'static str,
}

async fn reset(rt: Runtime, args: Args) -> Result<()> {
    let client = args.connection.client(&rt);
    let Some(topic) = find_topic(&client, &args.topic).await? else {
        return Err(Error::NoTopic(args.topic));
    };
    let name: Arc<str> = topic.name.as_str().into();
    let count = topic.partitions.len();
    if let Some(partition) =
        args.partitions.iter().find(|n| usize::try_from(**n).map_or(true, |n| n >= count))
    {
        return Err(Error::NoPartition { topic: args.topic, partition: *partition, count });
    }
    let wanted = topic.partitions.iter().map(|p| p.index);
    let wanted = wanted.filter(|n| args.partitions.is_empty() || args.partitions.contains(n));
    let wanted: Vec<_> = wanted.map(|n| TopicPartition::new(Arc::clone(&name), n)).collect();

    let members =
        if_there(client.describe_group(&args.group).await)?.map_or(0, |g| g.members.len());
    if members > 0 && args.execute {
        return Err(Error::GroupHasMembers { group: args.group, doing: "reset" });
    }
    let committed = if_there(client.group_offsets(&args.group).await)?.unwrap_or_default();
    let targets = targets(&client, wanted, args.to).await?;
    let from = |at: &TopicPartition| committed.iter().find(|(a, _)| a == at).map(|(_, o)| *o);
    let moves: Vec<Move> =
        targets.into_iter().map(|(at, to, note)| Move { from: from(&at), at, to, note }).collect();

    let mut refused = Vec::new();
    if args.execute {
        let offsets = moves.iter().map(|m| (m.at.clone(), m.to)).collect();
        match client.commit_offsets(&args.group, offsets).await {
            Ok(outcomes) => {
                refused =
                    outcomes.into_iter().filter(|(_, code)| *code != ErrorCode::None).collect();
            }
            Err(error) => return Err(error.into()),
        }
    }
    // A member may have come between the look and the commit.
    let came = |code: &ErrorCode| {
        matches!(code, ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration)
    };
    if refused.iter().any(|(_, code)| came(code)) {
        return Err(Error::GroupHasMembers { group: args.group, doing: "reset" });
    }
    if let Some((at, code)) = refused.first() {
        return Err(Error::NotReset { at: at.to_string(), code: *code });
    }
    show(&args, &moves, members)
}

/// The offset that each partition is set to.
async fn targets(
    client: &Client,
    partitions: Vec<TopicPartition>,
    to: To,
) -> Result<Vec<(TopicPartition, i64, &'static str)>> {
    let starts = client.list_offsets(partitions.clone(), EARLIEST).await?;
    let ends = client.list_offsets(partitions.clone(), LATEST).await?;
    let by_time = match to {
        To::Time(at) => Some(at),
        To::Ago(ms) => Some((now_ms() - ms).max(0)),
        To::Earliest | To::Latest | To::Offset(_) => None,
    };
    let found = match by_time {
        Some(at) => client.list_offsets(partitions, at).await?,
        None => Vec::new(),
    };
    let mut all = Vec::new();
    for (n, ((at, start), (_, end))) in starts.into_iter().zip(ends).enumerate() {
        let (offset, note) = match to {
            To::Earliest => (start, ""),
            To::Latest => (end, ""),
            To::Offset(offset) if offset < start => (start, "the log starts there"),
            To::Offset(offset) if offset > end => (end, "the log ends there"),
            To::Offset(offset) => (offset, ""),
            To::Time(_) | To::Ago(_) => match found.get(n).map(|(_, offset)| *offset) {
                Some(offset) if offset >= 0 => (offset, ""),
                _ => (end, "no record is that young"),
            },
        };
        all.push((at, offset, note));
    }
    Ok(all)
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn show(args: &Args, moves: &[Move], members: usize) -> Result<()> {
    if args.output.json {
        let line = |m: &Move| {
            json!({
                "topic": &*m.at.topic,
                "partition": m.at.partition,
                "from_offset": m.from,
                "to_offset": m.to,
                "note": m.note,
            })
        };
        let partitions: Value = moves.iter().map(line).collect();
        let (group, executed) = (&args.group, args.execute);
        return print_json(
            &json!({"group": group, "executed": executed, "partitions": partitions}),
        );
    }
    let mut table = Table::new(&["TOPIC", ">PARTITION", ">FROM", ">TO", "NOTE"]);
    for m in moves {
        table.row([
            m.at.topic.to_string(),
            m.at.partition.to_string(),
            m.from.map_or(String::new(), |o| o.to_string()),
            m.to.to_string(),
            m.note.to_string(),
        ]);
    }
    let mut lines = table.lines();
    lines.push(match (args.execute, members) {
        (true, _) => format!("group {} was reset", args.group),
        (false, 0) => "nothing was changed; --execute does it".to_string(),
        (false, n) => format!(
            "nothing was changed; the group has {n} members: stop them first, then --execute"
        ),
    });
    print(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_to_reset_to_is_an_end_an_offset_a_time_or_how_long_ago() {
        let good = [
            ("earliest", To::Earliest),
            ("latest", To::Latest),
            ("17", To::Offset(17)),
            ("1970-01-01T00:00:01Z", To::Time(1000)),
            ("-2h", To::Ago(7_200_000)),
        ];
        for (text, to) in good {
            assert_eq!(parse_to(text), Ok(to), "{text}");
        }
        for text in ["", "-", "-5", "newest", "2h"] {
            assert!(parse_to(text).is_err(), "{text}");
        }
    }
}
