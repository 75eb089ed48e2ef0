//! `rillbench resume`: groups of one member each that read, until told by their broker's end; then how soon every one of
//! them reads again.
//!
//! The broker is ended and started again by somebody else (`kill -9` and its command). A member knows of it when its
//! connection breaks; the time runs from the first such moment until the last member has its group's word that it still
//! belongs to it (or has joined anew) and a record in its hands.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use rillway_client::Address;
use rillway_io::{Class, Instant, Runtime};
use rillway_wire::ErrorCode;
use rillway_wire::api::fetch;
use serde::Serialize;

use super::{Member, goes_on, refused};
use crate::cluster::{Broker, Cluster};
use crate::error::{Error, Result};
use crate::latency_figures::{Quantiles, Times};
use crate::node::{self, Own};
use crate::report::{self, Table};

/// Between two heartbeats while nothing happens.
const HEARTBEAT: Duration = Duration::from_millis(200);

/// Groups that read, and how soon all of them do again after their broker was ended and started by somebody else.
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "Example: rillbench resume --groups 100 & sleep 5; kill -9 BROKER; start it again"
)]
pub(crate) struct Args {
    #[command(flatten)]
    broker: Broker,
    #[command(flatten)]
    own: Own,
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    groups: u32,
    /// What they read; made with one partition if it does not exist.
    #[arg(long, default_value = "rillbench-resume")]
    topic: String,
}

/// The result as JSON, in microseconds from the first broken connection.
#[derive(Debug, Serialize)]
struct Figures {
    groups: u32,
    /// Members that had to join anew.
    rejoined: u64,
    all_after_us: f64,
    each_after_us: Quantiles,
}

struct Shared {
    rt: Runtime,
    cluster: Cluster,
    topic: String,
    leader: Address,
    ready: Cell<u32>,
    /// The first broken connection.
    broken: Cell<Option<Instant>>,
    again: Cell<u32>,
    rejoined: Cell<u64>,
    times: RefCell<Times>,
    failure: RefCell<Option<Error>>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let own = args.own.clone();
    node::run(&own, args, measure)
}

async fn measure(rt: Runtime, args: Args) -> Result<()> {
    let cluster = args.broker.cluster(&rt);
    let topic = cluster.topic(&args.topic, Some(1), &[]).await?;
    cluster.prime(&topic, rt.wall_ms()).await?;
    let shared = Rc::new(Shared {
        rt: rt.clone(),
        cluster,
        leader: topic.nodes[0].0.clone(),
        topic: args.topic,
        ready: Cell::new(0),
        broken: Cell::new(None),
        again: Cell::new(0),
        rejoined: Cell::new(0),
        times: RefCell::new(Times::new()),
        failure: RefCell::new(None),
    });
    for index in 0..args.groups {
        let shared = Rc::clone(&shared);
        let living = async move {
            if let Err(error) = live(&shared, &format!("rillbench-resume-{index}")).await {
                shared.failure.borrow_mut().get_or_insert(error);
            }
        };
        rt.spawn(Class::Data, living).detach();
    }
    let mut told = false;
    while shared.again.get() < args.groups {
        if let Some(error) = shared.failure.borrow_mut().take() {
            return Err(error);
        }
        if shared.ready.get() == args.groups && !told {
            told = true;
            eprintln!("{} groups read; end their broker and start it again", args.groups);
        }
        rt.sleep(Duration::from_millis(5)).await;
    }
    let each_after_us = shared.times.borrow().quantiles();
    let figures = Figures {
        groups: args.groups,
        rejoined: shared.rejoined.get(),
        all_after_us: each_after_us.max,
        each_after_us,
    };
    if args.own.json {
        return report::json(&figures);
    }
    let mut table = Table::default();
    table.row("groups", format!("{}, {} had to join anew", figures.groups, figures.rejoined));
    table.quantiles("reads again", &figures.each_after_us);
    table.print()
}

/// One member's life: joins, reads, loses its broker, reads again.
async fn live(shared: &Shared, group: &str) -> Result<()> {
    let mut member = Member::connect(&shared.cluster, group).await?;
    member.settle().await?;
    shared.ready.set(shared.ready.get() + 1);
    // Until the connection breaks.
    while let Ok(code) = member.heartbeat().await {
        if code != ErrorCode::None {
            return Err(refused(group, code));
        }
        shared.rt.sleep(HEARTBEAT).await;
    }
    let now = shared.rt.now();
    let since = shared.broken.get().unwrap_or(now);
    shared.broken.set(Some(since));
    loop {
        match come_back(shared, &mut member).await {
            Ok(()) => break,
            // It is starting, or something of it is.
            Err(Error::Client(_)) => shared.cluster.pause().await,
            Err(Error::Refused { code, .. }) if code.is_retriable() => shared.cluster.pause().await,
            Err(error) => return Err(error),
        }
    }
    shared.times.borrow_mut().record(shared.rt.now().since(since));
    shared.again.set(shared.again.get() + 1);
    Ok(())
}

async fn come_back(shared: &Shared, member: &mut Member) -> Result<()> {
    let again = Member::connect(&shared.cluster, &member.group).await?;
    member.pipe = again.pipe;
    match member.heartbeat().await? {
        ErrorCode::None => {}
        code if goes_on(code) => {
            shared.rejoined.set(shared.rejoined.get() + 1);
            member.settle().await?;
        }
        code => return Err(refused(&member.group, code)),
    }
    read(shared).await
}

/// A record of the topic.
async fn read(shared: &Shared) -> Result<()> {
    let pipe = shared.cluster.open::<()>(&shared.leader).await?;
    let partition = fetch::Partition { partition_max_bytes: 1 << 20, ..Default::default() };
    let topic = fetch::Topic {
        topic: &shared.topic,
        partitions: [partition].into_iter().collect(),
        ..Default::default()
    };
    let request = fetch::Request {
        replica_id: -1,
        max_wait_ms: 1_000,
        min_bytes: 1,
        max_bytes: 1 << 20,
        topics: [topic].into_iter().collect(),
        ..Default::default()
    };
    let answer = pipe.ask(&request, ()).await?;
    let answer = answer.decode::<fetch::Response<'_>>()?;
    let found = answer.responses.first().and_then(|t| t.partitions.first());
    match found.map_or(ErrorCode::UnknownServerError, |p| p.error_code) {
        ErrorCode::None => Ok(()),
        code => Err(Error::Refused { topic: shared.topic.clone(), partition: 0, code }),
    }
}
