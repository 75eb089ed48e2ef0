//! `rillbench produce` and `rillbench latency`: the same load, once for its rate and CPU, once for its latency.

use std::time::Duration;

use rillway_io::Runtime;
use serde::Serialize;

use crate::cluster::Broker;
use crate::error::{Error, Result};
use crate::keys::KeyArgs;
use crate::latency_figures::Quantiles;
use crate::load::{self, Outcome, Plan};
use crate::meter::Window;
use crate::node::{self, Own};
use crate::progress::Progress;
use crate::report::{self, Table};
use crate::schedule::Arrivals;

/// Send records as fast as answers come, or at a rate, and report rate, latency and the broker's CPU.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rillbench produce                                     one connection, batches of 1 MB
  rillbench produce --batch-bytes 16k --partitions 16   small batches over 16 partitions
  rillbench produce --batch-bytes 1k --connections 16 --in-flight 64
  rillbench produce --rate 1000 --batch-bytes 1k        at a rate: latency from the intended times
  rillbench produce --broker-pid $(pidof rillway)       with the broker's CPU
  rillbench produce --bytes 4G --topic big              fills a topic and stops
  rillbench produce --keys 100000 --config cleanup.policy=compact --topic kept")]
pub(crate) struct Args {
    #[command(flatten)]
    broker: Broker,
    #[command(flatten)]
    own: Own,
    #[command(flatten)]
    load: Load,
    /// Requests on their way, per connection.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    in_flight: u32,
    /// Size of a batch, about: it holds as many records as fit, at least one.
    #[arg(long, value_name = "BYTES", default_value = "1000k", value_parser = node::bytes)]
    batch_bytes: u64,
    /// Batches in one request, each for another partition.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batches_per_request: u32,
    /// Requests per second over all connections (open loop). Without it: closed loop.
    #[arg(long, value_name = "N", value_parser = node::rate)]
    rate: Option<f64>,
    /// Stop after so many bytes of records instead of after a time; nothing is warmed up.
    #[arg(long, value_name = "BYTES", value_parser = node::bytes)]
    bytes: Option<u64>,
}

/// Send single records at a rate and report how long each took, from the time it was meant to be sent.
///
/// When the broker stalls, the records behind the stall are late too, and count so. If this generator itself falls
/// behind (`late by`), the result says more about it than about the broker.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rillbench latency                                     1,000 records of 1 KiB per second
  rillbench latency --rate 13600 --partitions 100 --connections 50
  rillbench consume --topic big --readers 2 --once &    two readers of old data, and what
  rillbench latency                                     they do to it")]
pub(crate) struct LatencyArgs {
    #[command(flatten)]
    broker: Broker,
    #[command(flatten)]
    own: Own,
    #[command(flatten)]
    load: Load,
    /// Requests per second over all connections.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = node::rate)]
    rate: f64,
}

/// What both have.
#[derive(clap::Args, Clone, Debug)]
struct Load {
    /// Where to write; it is made if it does not exist.
    #[arg(long, default_value = "rillbench")]
    topic: String,
    /// With so many partitions. An existing topic must have as many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// A setting for the topic when it is made; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = node::setting)]
    config: Vec<(String, String)>,
    /// Connections to the broker, at least one per node.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    connections: u32,
    /// Size of a record's value.
    #[arg(long, value_name = "BYTES", default_value = "1k", value_parser = node::bytes)]
    record_bytes: u64,
    #[command(flatten)]
    keys: KeyArgs,
    #[arg(long, value_enum, default_value_t = Acks::All)]
    acks: Acks,
    /// How requests follow each other at a rate.
    #[arg(long, value_enum, default_value_t = Arrivals::Constant)]
    arrivals: Arrivals,
    /// Seconds before anything counts.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = node::seconds)]
    warmup: Duration,
    /// Seconds that count.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = node::seconds)]
    duration: Duration,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Acks {
    /// Every in-sync replica has it.
    All,
    /// The leader has it.
    #[value(name = "1")]
    One,
}

/// The result as JSON. CPU in seconds, latencies in microseconds.
#[derive(Debug, Serialize)]
struct Figures {
    requests: u64,
    batches: u64,
    records: u64,
    /// Of the records' values, without keys.
    bytes: u64,
    requests_per_s: f64,
    mib_per_s: f64,
    /// Until every partition had taken a first batch, and when that was, in ms since 1970.
    primed_s: f64,
    primed_at_ms: i64,
    latency_us: Quantiles,
    delay_us: Quantiles,
    /// At a rate, the generator itself was so late that the tail is partly its own.
    generator_late: bool,
    window: Window,
}

/// Later than this at p99, a generator is short of CPU.
const LATE_US: f64 = 1_000.0;

pub(crate) fn run(args: Args) -> Result<()> {
    let records = (args.batch_bytes / args.load.record_bytes.max(1)).max(1);
    let records = usize::try_from(records).unwrap_or(usize::MAX);
    let request = args.load.record_bytes * records as u64 * u64::from(args.batches_per_request);
    let mut plan = plan(&args.broker, &args.load, args.rate);
    plan.in_flight = args.in_flight as usize;
    plan.batches_per_request = args.batches_per_request as usize;
    plan.records_per_batch = records;
    if let Some(bytes) = args.bytes {
        plan.requests = Some(bytes.div_ceil(request.max(1)));
        (plan.warmup, plan.duration) = (Duration::ZERO, Duration::from_secs(86_400));
    }
    let own = args.own.clone();
    node::run(&own.clone(), args, move |rt, args| {
        measure(rt, args.broker, args.load, plan.clone(), own.clone())
    })
}

pub(crate) fn latency(args: LatencyArgs) -> Result<()> {
    let plan = plan(&args.broker, &args.load, Some(args.rate));
    let own = args.own.clone();
    node::run(&own.clone(), args, move |rt, args| {
        measure(rt, args.broker, args.load, plan.clone(), own.clone())
    })
}

fn plan(broker: &Broker, load: &Load, rate: Option<f64>) -> Plan {
    Plan {
        connections: load.connections as usize,
        in_flight: 100_000,
        batches_per_request: 1,
        records_per_batch: 1,
        record_bytes: usize::try_from(load.record_bytes).unwrap_or(usize::MAX),
        keys: load.keys.keys(),
        acks: match load.acks {
            Acks::All => -1,
            Acks::One => 1,
        },
        rate: rate.map(|rate| (load.arrivals, rate)),
        warmup: load.warmup,
        duration: load.duration,
        requests: None,
        timeout: Duration::from_secs(broker.timeout.max(1)),
        broker_pid: broker.broker_pid,
        tracepoints: broker.tracepoints,
    }
}

async fn measure(rt: Runtime, broker: Broker, load: Load, plan: Plan, own: Own) -> Result<()> {
    if plan.records_per_batch.saturating_mul(plan.record_bytes) > 64 << 20 {
        return Err(Error::Arguments("a batch may have 64 MiB at most".to_string()));
    }
    let progress = Progress::new(own.json);
    progress.phase("preparing");
    let cluster = broker.cluster(&rt);
    let begun = rt.now();
    // Kafka's and ours alike: what an existing topic has, else one.
    let found = cluster.topic(&load.topic, load.partitions, &load.config).await;
    let topic = match found {
        Err(Error::NoTopic(_)) => cluster.topic(&load.topic, Some(1), &load.config).await?,
        found => found?,
    };
    cluster.prime(&topic, rt.wall_ms()).await?;
    let (primed_s, primed_at_ms) = (rt.now().since(begun).as_secs_f64(), rt.wall_ms());
    let outcome = load::run(&rt, &cluster, &topic, &plan, &progress).await?;
    progress.done();
    let figures = figures(&plan, outcome, primed_s, primed_at_ms);
    if own.json { report::json(&figures) } else { print(&figures) }
}

fn figures(plan: &Plan, outcome: Outcome, primed_s: f64, primed_at_ms: i64) -> Figures {
    let requests = outcome.requests;
    let batches = requests * plan.batches_per_request as u64;
    let records = batches * plan.records_per_batch as u64;
    let bytes = records * plan.record_bytes as u64;
    let seconds = outcome.window.seconds.max(1e-9);
    let delay_us = outcome.delay.quantiles();
    Figures {
        requests,
        batches,
        records,
        bytes,
        requests_per_s: requests as f64 / seconds,
        mib_per_s: bytes as f64 / f64::from(1 << 20) / seconds,
        primed_s,
        primed_at_ms,
        latency_us: outcome.latency.quantiles(),
        generator_late: plan.rate.is_some() && delay_us.p99 > LATE_US,
        delay_us,
        window: outcome.window,
    }
}

fn print(f: &Figures) -> Result<()> {
    let mut table = Table::default();
    table.row("requests", format!("{} ({:.0}/s)", f.requests, f.requests_per_s));
    table.row("records", format!("{} in {} batches", f.records, f.batches));
    table.row("payload", format!("{:.1} MiB/s", f.mib_per_s));
    table.quantiles("latency", &f.latency_us);
    table.quantiles("late by", &f.delay_us);
    if f.generator_late {
        let note = "the generator itself was late, so the tail is partly its own: pin it (--cpu), or lower the rate";
        table.row("note", note.to_string());
    }
    table.row("first batch", format!("every partition took one within {:.3} s", f.primed_s));
    table.window(&f.window, f.requests, f.bytes);
    table.print()
}
