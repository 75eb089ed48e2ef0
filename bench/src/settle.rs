//! `rillbench settle`: what it takes a broker to make a topic smaller. Compaction, above all.
//!
//! Sizes are asked for with DescribeLogDirs, so this works with any broker, and nobody's own words are believed. Absent on
//! purpose: what the active segment holds cannot be told from outside, so it counts as part of the topic.

use std::time::Duration;

use rillway_client::{Client, Pipe};
use rillway_io::{Instant, Runtime};
use rillway_wire::ErrorCode;
use rillway_wire::api::describe_log_dirs;
use serde::Serialize;

use crate::cluster::{Broker, Topic};
use crate::error::{Error, Result};
use crate::node::{self, Own};
use crate::process::Usage;
use crate::progress::Progress;
use crate::report::{self, Table};

/// Between two questions: often enough for a cleaning of seconds, and no load.
const POLL: Duration = Duration::from_millis(50);

/// Change settings of a topic, wait until its size has changed and settled, and report how long that took.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rillbench settle --topic kept --config min.cleanable.dirty.ratio=0.01 --broker-pid $(pidof rillway)
  rillbench settle --topic old --config retention.ms=1")]
pub(crate) struct Args {
    #[command(flatten)]
    broker: Broker,
    #[command(flatten)]
    own: Own,
    #[arg(long)]
    topic: String,
    /// A setting that is changed first, which lets the cleaner go; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = node::setting)]
    config: Vec<(String, String)>,
    /// Seconds without a change after which a size is settled: more than one segment takes.
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = node::seconds)]
    quiet: Duration,
}

/// The result as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Figures {
    /// By DescribeLogDirs.
    bytes_before: i64,
    bytes_after: i64,
    /// When the settings were changed, in ms since 1970.
    started_at_ms: i64,
    /// From the change of settings to the first and to the last change of the size.
    first_s: f64,
    seconds: f64,
    /// What was there before, by the time until it had settled.
    mib_per_s: f64,
    /// Of the broker's process until then.
    broker: Option<Usage>,
}

/// The sizes that were seen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sizes<T> {
    before: i64,
    last: i64,
    first_change: Option<T>,
    last_change: Option<T>,
}

impl<T: Copy> Sizes<T> {
    fn new(before: i64) -> Self {
        Self { before, last: before, first_change: None, last_change: None }
    }

    /// Whether this is another size than the one before.
    fn see(&mut self, size: i64, now: T) -> bool {
        let changed = size != self.last;
        if changed {
            self.last = size;
            self.first_change.get_or_insert(now);
            self.last_change = Some(now);
        }
        changed
    }
}

pub(crate) fn run(args: Args) -> Result<()> {
    let own = args.own.clone();
    node::run(&own, args, settle)
}

async fn settle(rt: Runtime, args: Args) -> Result<()> {
    let progress = Progress::new(args.own.json);
    let cluster = args.broker.cluster(&rt);
    let topic = cluster.topic(&args.topic, None, &[]).await?;
    let mut pipes = Vec::new();
    for (node, _) in &topic.nodes {
        pipes.push(cluster.open::<()>(node).await?);
    }
    let used = || args.broker.broker_pid.map(Usage::of).transpose();
    let mut sizes = Sizes::new(size(&pipes, &topic).await?);
    let (usage_before, mut usage) = (used()?, None);
    progress.phase("waiting for the first change");
    let (started, started_at_ms) = (rt.now(), rt.wall_ms());
    if !args.config.is_empty() {
        let client = Client::new(&rt, cluster.config.clone());
        let changes = args.config.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
        client.alter_topic(args.topic.clone(), changes.collect()).await?;
        client.close();
    }
    loop {
        rt.sleep(POLL).await;
        let now = rt.now();
        if sizes.see(size(&pipes, &topic).await?, now) {
            usage = used()?;
            progress.phase("waiting for the last change");
        }
        let patience = cluster.config.call_timeout;
        match sizes.last_change {
            Some(at) if now.since(at) >= args.quiet => break,
            None if now.since(started) >= patience => {
                return Err(Error::Unchanged { topic: args.topic, seconds: patience.as_secs() });
            }
            Some(_) | None => {}
        }
    }
    progress.done();
    let broker = usage.zip(usage_before).map(|(after, before)| &after - &before);
    let figures = figures(&sizes, (started, started_at_ms), broker);
    if args.own.json { report::json(&figures) } else { print(&figures) }
}

fn figures(
    sizes: &Sizes<Instant>,
    (started, started_at_ms): (Instant, i64),
    broker: Option<Usage>,
) -> Figures {
    let after = |at: Option<Instant>| at.map_or(0.0, |at| at.since(started).as_secs_f64());
    let seconds = after(sizes.last_change);
    Figures {
        bytes_before: sizes.before,
        bytes_after: sizes.last,
        started_at_ms,
        first_s: after(sizes.first_change),
        seconds,
        mib_per_s: sizes.before as f64 / f64::from(1 << 20) / seconds.max(1e-9),
        broker,
    }
}

fn print(f: &Figures) -> Result<()> {
    let mib = |bytes: i64| bytes as f64 / f64::from(1 << 20);
    let mut table = Table::default();
    table.row("before", format!("{:.1} MiB", mib(f.bytes_before)));
    table.row("after", format!("{:.1} MiB", mib(f.bytes_after)));
    table.row("first change", format!("after {:.2} s", f.first_s));
    table.row("settled", format!("after {:.2} s, {:.1} MiB/s", f.seconds, f.mib_per_s));
    if let Some(broker) = &f.broker {
        let (cpu, bytes) = (broker.cpu_s(), f.bytes_before.max(1) as f64);
        let per_gib = cpu / (bytes / f64::from(1 << 30));
        table.row("broker", format!("{cpu:.2} s of CPU; {per_gib:.3} s per GiB"));
        table.row("broker wrote", format!("{:.3} x what was there", broker.written / bytes));
    }
    table.print()
}

/// Bytes of the topic's partitions on all nodes.
async fn size(pipes: &[Pipe<()>], topic: &Topic) -> Result<i64> {
    let mut sum = 0i64;
    for (pipe, (_, partitions)) in pipes.iter().zip(&topic.nodes) {
        let asked = describe_log_dirs::Topic {
            topic: &topic.name,
            partitions: partitions.iter().copied().collect(),
        };
        let request = describe_log_dirs::Request { topics: Some([asked].into_iter().collect()) };
        let answer = pipe.ask(&request, ()).await?;
        let answer = answer.decode::<describe_log_dirs::Response<'_>>()?;
        for dir in answer.results.iter() {
            if dir.error_code != ErrorCode::None {
                let (topic, code) = (topic.name.clone(), dir.error_code);
                return Err(Error::Refused { topic, partition: -1, code });
            }
            for topic in dir.topics.iter() {
                let sizes = topic.partitions.iter().map(|p| p.partition_size);
                sum = sizes.fold(sum, i64::saturating_add);
            }
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_change_are_told_apart_and_sameness_is_no_change() {
        let mut sizes = Sizes::new(100);
        assert!(!sizes.see(100, 1));
        assert_eq!((sizes.first_change, sizes.last_change), (None, None));
        assert!(sizes.see(60, 2));
        assert!(!sizes.see(60, 3));
        assert!(sizes.see(40, 4));
        assert!(!sizes.see(40, 5));
        assert_eq!(
            sizes,
            Sizes { before: 100, last: 40, first_change: Some(2), last_change: Some(4) }
        );
    }
}
