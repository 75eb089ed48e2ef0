//! `rillbench commit`: how many commits a second, and how long each takes, with so many members in one group.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use rillway_io::{Class, Instant, Runtime};
use rillway_wire::ErrorCode;
use serde::Serialize;

use super::{Member, refused};
use crate::cluster::Broker;
use crate::error::{Error, Result};
use crate::latency_figures::{Quantiles, Times};
use crate::meter::{Meter, Window};
use crate::node::{self, Own};
use crate::progress::Progress;
use crate::report::{self, Table};

/// Members of one consumer group commit offsets as fast as answers come: commits per second and their latency.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rillbench commit                                      64 members, one commit each in flight
  rillbench commit --members 8 --broker-pid $(pidof rillway)")]
pub(crate) struct Args {
    #[command(flatten)]
    broker: Broker,
    #[command(flatten)]
    own: Own,
    #[arg(long, default_value = "rillbench-commit")]
    group: String,
    /// What is committed for; made with a partition for each member if it does not exist.
    #[arg(long, default_value = "rillbench-commit")]
    topic: String,
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(i32).range(1..=10_000))]
    members: i32,
    /// Seconds before anything counts.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = node::seconds)]
    warmup: Duration,
    /// Seconds that count.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = node::seconds)]
    duration: Duration,
}

/// The result as JSON. Latencies in microseconds.
#[derive(Debug, Serialize)]
struct Figures {
    members: i32,
    commits: u64,
    commits_per_s: f64,
    latency_us: Quantiles,
    window: Window,
}

struct Shared {
    rt: Runtime,
    topic: String,
    opens: Instant,
    closes: Instant,
    commits: Cell<u64>,
    latency: RefCell<Times>,
    running: Cell<usize>,
    failure: RefCell<Option<Error>>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let own = args.own.clone();
    node::run(&own, args, measure)
}

async fn measure(rt: Runtime, args: Args) -> Result<()> {
    let progress = Progress::new(args.own.json);
    progress.phase("joining");
    let cluster = args.broker.cluster(&rt);
    cluster.topic(&args.topic, Some(args.members), &[]).await?;
    let mut members = Vec::new();
    for _ in 0..args.members {
        members.push(Member::connect(&cluster, &args.group).await?);
    }
    settle_together(&rt, &mut members).await?;
    let opens = rt.now() + args.warmup;
    let shared = Rc::new(Shared {
        rt: rt.clone(),
        topic: args.topic.clone(),
        opens,
        closes: opens + args.duration,
        commits: Cell::new(0),
        latency: RefCell::new(Times::new()),
        running: Cell::new(members.len()),
        failure: RefCell::new(None),
    });
    for (partition, member) in (0..).zip(members) {
        let shared = Rc::clone(&shared);
        let committing = async move {
            if let Err(error) = keep_committing(&shared, &member, partition).await {
                shared.failure.borrow_mut().get_or_insert(error);
            }
            shared.running.set(shared.running.get() - 1);
        };
        rt.spawn(Class::Data, committing).detach();
    }
    rt.sleep_until(shared.opens).await;
    progress.phase("measuring");
    let meter = Meter::start(args.broker.broker_pid, args.broker.tracepoints, args.duration)?;
    while rt.now() < shared.closes && shared.failure.borrow().is_none() {
        rt.sleep(Duration::from_millis(50)).await;
        progress.requests(shared.commits.get());
    }
    let window = meter.stop()?;
    while shared.running.get() > 0 && shared.failure.borrow().is_none() {
        rt.sleep(Duration::from_millis(5)).await;
    }
    if let Some(error) = shared.failure.borrow_mut().take() {
        return Err(error);
    }
    progress.done();
    let commits = shared.commits.get();
    let figures = Figures {
        members: args.members,
        commits,
        commits_per_s: commits as f64 / window.seconds.max(1e-9),
        latency_us: shared.latency.borrow().quantiles(),
        window,
    };
    if args.own.json { report::json(&figures) } else { print(&figures) }
}

/// All of them join at once: one after the other, each would be a rebalance.
async fn settle_together(rt: &Runtime, members: &mut Vec<Member>) -> Result<()> {
    let settling: Vec<_> = members
        .drain(..)
        .map(|mut member| {
            rt.spawn(Class::Data, async move { member.settle().await.map(|()| member) })
        })
        .collect();
    for settled in settling {
        let member = settled.await.expect("nobody cancels it")?;
        members.push(member);
    }
    Ok(())
}

async fn keep_committing(shared: &Shared, member: &Member, partition: i32) -> Result<()> {
    for offset in 0.. {
        let began = shared.rt.now();
        if began >= shared.closes {
            return Ok(());
        }
        let code = member.commit(&shared.topic, partition, offset).await?;
        let ended = shared.rt.now();
        if code != ErrorCode::None {
            return Err(refused(&member.group, code));
        }
        if ended >= shared.opens && ended < shared.closes {
            shared.commits.set(shared.commits.get() + 1);
        }
        if began >= shared.opens {
            shared.latency.borrow_mut().record(ended.since(began));
        }
    }
    Ok(())
}

fn print(f: &Figures) -> Result<()> {
    let mut table = Table::default();
    table.row("commits", format!("{} ({:.0}/s)", f.commits, f.commits_per_s));
    table.row("members", f.members.to_string());
    table.quantiles("latency", &f.latency_us);
    table.window(&f.window, f.commits, 0);
    table.print()
}
