//! `rillbench consume`: reads partitions as fast as the broker sends, from the head or from the start, once or round
//! and round.
//!
//! One connection per partition or one for all; one request in flight each, as Kafka's own consumer does. Batches are
//! walked by their headers for the next offset; records are looked at by nobody, checksums only when asked.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use rillway_client::{Address, Pipe};
use rillway_io::{Class, Instant, Runtime};
use rillway_wire::ErrorCode;
use rillway_wire::api::fetch;
use rillway_wire::batch::{BatchError, batches};
use serde::Serialize;

use crate::cluster::{Broker, Cluster};
use crate::error::{Error, Result};
use crate::latency_figures::{Quantiles, Times};
use crate::meter::{Meter, Window};
use crate::node::{self, Own};
use crate::progress::Progress;
use crate::report::{self, Table};

/// Read a topic as fast as the broker sends, and report rate and the broker's CPU.
///
/// The topic is filled beforehand (rillbench produce --bytes). By default each partition is read from its start to
/// its end again and again: what fits into the broker's memory comes from there. With --once it is read one time.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rillbench consume --topic rillbench                   from memory, if it fits
  rillbench consume --topic big --once                  a catch-up; drop the page cache before
  rillbench consume --topic big --readers 2 --duration 30
  rillbench consume --topic rillbench --broker-pid $(pidof rillway) --json")]
pub(crate) struct Args {
    #[command(flatten)]
    broker: Broker,
    #[command(flatten)]
    own: Own,
    /// What to read.
    #[arg(long, default_value = "rillbench")]
    topic: String,
    /// Independent readers of everything, each with connections of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    readers: u32,
    /// Most bytes of one partition in an answer (`max.partition.fetch.bytes`).
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = node::bytes)]
    partition_bytes: u64,
    /// Read everything one time and stop.
    #[arg(long)]
    once: bool,
    /// Start so many bytes before the end, about, instead of at the start.
    #[arg(long, value_name = "BYTES", value_parser = node::bytes)]
    last: Option<u64>,
    /// Compare every batch's checksum with its bytes.
    #[arg(long)]
    check: bool,
    /// Seconds before anything counts; none with --once.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = node::seconds)]
    warmup: Duration,
    /// Seconds that count, or most seconds with --once.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = node::seconds)]
    duration: Duration,
}

/// The result as JSON.
#[derive(Debug, Serialize)]
struct Figures {
    requests: u64,
    /// Of batches, as they came.
    bytes: u64,
    records: u64,
    requests_per_s: f64,
    mib_per_s: f64,
    /// With --once: everything was read in time.
    complete: bool,
    latency_us: Quantiles,
    window: Window,
}

struct Shared {
    rt: Runtime,
    opens: Instant,
    closes: Instant,
    requests: Cell<u64>,
    bytes: Cell<u64>,
    records: Cell<u64>,
    last_answer: Cell<Instant>,
    reading: Cell<usize>,
    times: RefCell<Times>,
    failure: RefCell<Option<Error>>,
}

/// One partition as one reader sees it.
#[derive(Clone, Debug)]
struct Place {
    partition: i32,
    start: i64,
    end: i64,
    next: i64,
}

pub(crate) fn run(args: Args) -> Result<()> {
    node::run(&args.own.clone(), args, consume)
}

async fn consume(rt: Runtime, args: Args) -> Result<()> {
    let progress = Progress::new(args.own.json);
    progress.phase("preparing");
    let cluster = args.broker.cluster(&rt);
    let topic = cluster.topic(&args.topic, None, &[]).await?;
    let mut nodes: Vec<(Address, Vec<Place>)> = Vec::new();
    for (node, partitions) in &topic.nodes {
        let mut places = Vec::new();
        for &partition in partitions {
            let (start, end) = cluster.range(&topic.name, partition, node).await?;
            if start < end {
                places.push(Place { partition, start, end, next: start });
            }
        }
        nodes.push((node.clone(), places));
    }
    nodes.retain(|(_, places)| !places.is_empty());
    if nodes.is_empty() {
        let (_, partitions) = &topic.nodes[0];
        return Err(Error::Empty { topic: topic.name, partition: partitions[0], start: 0, end: 0 });
    }
    let opens = rt.now() + if args.once { Duration::ZERO } else { args.warmup };
    let shared = Rc::new(Shared {
        rt: rt.clone(),
        opens,
        closes: opens + args.duration,
        requests: Cell::new(0),
        bytes: Cell::new(0),
        records: Cell::new(0),
        last_answer: Cell::new(rt.now()),
        reading: Cell::new(0),
        times: RefCell::new(Times::new()),
        failure: RefCell::new(None),
    });
    let meter = Cell::new(None);
    if args.once {
        let pid = args.broker.broker_pid;
        meter.set(Some(Meter::start(pid, args.broker.tracepoints, args.duration)?));
    }
    for (node, places) in nodes.iter().cycle().take(nodes.len() * args.readers as usize) {
        shared.reading.set(shared.reading.get() + 1);
        let reader = Reader {
            shared: Rc::clone(&shared),
            topic: topic.name.clone(),
            places: places.clone(),
            partition_bytes: i32::try_from(args.partition_bytes).unwrap_or(i32::MAX),
            once: args.once,
            check: args.check,
        };
        let (cluster, node) = (cluster.clone(), node.clone());
        rt.spawn(Class::Data, reader.run(cluster, node, args.last)).detach();
    }
    let window = watch(&shared, &args, meter.take(), &progress).await?;
    progress.done();
    let seconds = window.seconds.max(1e-9);
    let bytes = shared.bytes.get();
    let figures = Figures {
        requests: shared.requests.get(),
        bytes,
        records: shared.records.get(),
        requests_per_s: shared.requests.get() as f64 / seconds,
        mib_per_s: bytes as f64 / f64::from(1 << 20) / seconds,
        complete: args.once && shared.reading.get() == 0,
        latency_us: shared.times.borrow().quantiles(),
        window,
    };
    if args.own.json { report::json(&figures) } else { print(&figures) }
}

/// Follows the run: the window is from `opens` to `closes`, or to the end of what is read once.
async fn watch(
    shared: &Shared,
    args: &Args,
    mut meter: Option<Meter>,
    progress: &Progress,
) -> Result<Window> {
    let (rt, tick) = (&shared.rt, Duration::from_millis(if args.once { 2 } else { 50 }));
    loop {
        let now = rt.now();
        if meter.is_none() && now >= shared.opens {
            progress.phase("measuring (bytes)");
            let pid = args.broker.broker_pid;
            meter = Some(Meter::start(pid, args.broker.tracepoints, args.duration)?);
        }
        if let Some(error) = shared.failure.borrow_mut().take() {
            return Err(error);
        }
        if now.since(shared.last_answer.get()) > Duration::from_secs(args.broker.timeout.max(1)) {
            return Err(Error::Silence(args.broker.timeout));
        }
        if now >= shared.closes || shared.reading.get() == 0 {
            return meter.expect("it starts before").stop();
        }
        progress.requests(shared.bytes.get());
        let until = if meter.is_none() { shared.opens } else { shared.closes };
        rt.sleep(tick.min(until.since(now)).max(Duration::from_micros(100))).await;
    }
}

struct Reader {
    shared: Rc<Shared>,
    topic: String,
    places: Vec<Place>,
    partition_bytes: i32,
    once: bool,
    check: bool,
}

impl Reader {
    async fn run(mut self, cluster: Cluster, node: Address, last: Option<u64>) {
        let read = self.read(&cluster, &node, last).await;
        let shared = &self.shared;
        if let Err(error) = read {
            shared.failure.borrow_mut().get_or_insert(error);
        }
        shared.reading.set(shared.reading.get() - 1);
    }

    async fn read(&mut self, cluster: &Cluster, node: &Address, last: Option<u64>) -> Result<()> {
        let pipe: Pipe<Instant> = cluster.open(node).await?;
        if let Some(last) = last {
            self.skip_to(last, &pipe).await?;
        }
        let mut answers = Vec::new();
        while !self.places.is_empty() && self.shared.rt.now() < self.shared.closes {
            let request = pipe.prepare(&self.request(self.partition_bytes))?;
            let mut bytes = Vec::with_capacity(request.len());
            pipe.queue(&request, self.shared.rt.now(), &mut bytes);
            pipe.send(bytes).await?;
            while answers.is_empty() {
                pipe.receive(&mut answers).await?;
                // A large answer over a slow path is no silence.
                self.shared.last_answer.set(self.shared.rt.now());
            }
            let answer = answers.remove(0);
            let asked = *answer.purpose();
            self.answered(&answer.decode::<fetch::Response<'_>>()?, asked)?;
        }
        Ok(())
    }

    /// All places in turn: the first of the request rotates, so that none starves when the answer is full.
    fn request(&self, partition_bytes: i32) -> fetch::Request<'_> {
        let partition = |place: &Place| fetch::Partition {
            partition: place.partition,
            fetch_offset: place.next,
            partition_max_bytes: partition_bytes,
            ..Default::default()
        };
        let topic = fetch::Topic {
            topic: &self.topic,
            partitions: self.places.iter().map(partition).collect(),
            ..Default::default()
        };
        fetch::Request {
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 50 << 20,
            topics: [topic].into_iter().collect(),
            ..Default::default()
        }
    }

    fn answered(&mut self, answer: &fetch::Response<'_>, asked: Instant) -> Result<()> {
        let now = self.shared.rt.now();
        let (mut bytes, mut records) = (0, 0);
        let partitions =
            answer.responses.iter().flat_map(|t| t.partitions.iter().collect::<Vec<_>>());
        for part in partitions {
            let partition = part.partition_index;
            let code = part.error_code;
            if code != ErrorCode::None {
                return Err(Error::Refused { topic: self.topic.clone(), partition, code });
            }
            let Some(place) = self.places.iter_mut().find(|p| p.partition == partition) else {
                continue;
            };
            for batch in batches(part.records.bytes()) {
                let batch = match batch {
                    Ok(batch) => batch,
                    // The end of an answer may cut a batch off.
                    Err(BatchError::Truncated { .. }) => break,
                    Err(source) => return Err(damaged(&self.topic, place, source)),
                };
                if self.check && !batch.check_crc() {
                    let source = BatchError::Crc { claimed: batch.crc(), computed: 0 };
                    return Err(damaged(&self.topic, place, source));
                }
                bytes += batch.total_len() as u64;
                records += u64::from(batch.record_count().unsigned_abs());
                place.next = batch.next_offset().max(place.next);
            }
        }
        for place in self.places.iter_mut().filter(|p| p.next >= p.end && !self.once) {
            place.next = place.start;
        }
        self.places.retain(|place| place.next < place.end);
        let turn = usize::from(self.places.len() > 1);
        self.places.rotate_left(turn);
        let shared = &self.shared;
        if now >= shared.opens && now < shared.closes {
            shared.requests.set(shared.requests.get() + 1);
            shared.bytes.set(shared.bytes.get() + bytes);
            shared.records.set(shared.records.get() + records);
            shared.times.borrow_mut().record(now.since(asked));
        }
        Ok(())
    }

    /// Moves the start of each place to `last` bytes before its end, by the size of its first batch.
    async fn skip_to(&mut self, last: u64, pipe: &Pipe<Instant>) -> Result<()> {
        let share = last / self.places.len() as u64;
        let answer = pipe.ask(&self.request(1), self.shared.rt.now()).await?;
        let answer = answer.decode::<fetch::Response<'_>>()?;
        for part in answer.responses.iter().flat_map(|t| t.partitions.iter().collect::<Vec<_>>()) {
            let place = self.places.iter_mut().find(|p| p.partition == part.partition_index);
            let first = batches(part.records.bytes()).next().and_then(std::result::Result::ok);
            let (Some(place), Some(first)) = (place, first) else {
                continue;
            };
            let records = share as f64 / first.total_len() as f64 * f64::from(first.record_count());
            place.start = place.start.max(place.end - records as i64);
            place.next = place.start;
        }
        Ok(())
    }
}

fn damaged(topic: &str, place: &Place, source: BatchError) -> Error {
    let (topic, partition, offset) = (topic.to_string(), place.partition, place.next);
    Error::Client(rillway_client::Error::Batch { topic, partition, offset, source })
}

fn print(f: &Figures) -> Result<()> {
    let mut table = Table::default();
    table.row("requests", format!("{} ({:.0}/s)", f.requests, f.requests_per_s));
    table.row("records", f.records.to_string());
    table.row("batches", format!("{:.1} MiB/s", f.mib_per_s));
    table.quantiles("an answer took", &f.latency_us);
    table.window(&f.window, f.requests, f.bytes);
    table.print()
}
