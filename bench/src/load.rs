//! The generator of produce load: connections that send prepared requests, in a closed or an open loop.
//!
//! Requests are encoded once and sent again and again, so that the generator costs little beside the kernel's copies.
//! With keys there are as many different ones as it takes for nearly all keys to come, within `PREPARED`.
//! Per connection one task sends and one receives. What is in flight per connection is bounded by the plan. Absent on
//! purpose: idempotence and retries, which are the producer's of `rillway-client`; here a refusal in the measured time
//! ends the run.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use rillway_client::{Answered, Pipe, Prepared};
use rillway_io::{Class, Instant, Notify, Runtime};
use rillway_wire::api::produce;
use rillway_wire::batch::{BatchBuilder, Codec};

use crate::cluster::{Cluster, Topic, produce_request, refusals};
use crate::error::{Error, Result};
use crate::keys::{self, Keys};
use crate::latency_figures::Times;
use crate::meter::{Meter, Window};
use crate::progress::Progress;
use crate::schedule::{Arrivals, Random, Schedule};

/// Bytes handed to the kernel in one call, unless one request alone is larger.
const SEND: usize = 256 << 10;
/// Memory for prepared requests.
const PREPARED: usize = 512 << 20;

/// What to send.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    /// Requests without an answer, per connection.
    pub(crate) in_flight: usize,
    /// Each for another partition.
    pub(crate) batches_per_request: usize,
    pub(crate) records_per_batch: usize,
    pub(crate) record_bytes: usize,
    pub(crate) keys: Option<Keys>,
    pub(crate) acks: i16,
    /// Requests per second over all connections; `None`: as fast as answers come.
    pub(crate) rate: Option<(Arrivals, f64)>,
    /// Before the window opens.
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
    /// Ends the run after so many requests.
    pub(crate) requests: Option<u64>,
    /// Longest time without an answer.
    pub(crate) timeout: Duration,
    pub(crate) broker_pid: Option<u32>,
    pub(crate) tracepoints: bool,
}

/// What came of it, in the window only.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    /// From the intended time to the answer.
    pub(crate) latency: Times,
    /// From the intended time to the send: how late the generator was.
    pub(crate) delay: Times,
    pub(crate) window: Window,
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    intended: Instant,
    at: Instant,
}

struct Shared {
    rt: Runtime,
    topic: String,
    opens: Instant,
    closes: Instant,
    /// Requests that may still be sent.
    left: Cell<u64>,
    answered: Cell<u64>,
    measured: Cell<u64>,
    last_answer: Cell<Instant>,
    unanswered: Cell<u64>,
    latency: RefCell<Times>,
    delay: RefCell<Times>,
    failure: RefCell<Option<Error>>,
}

/// One connection.
struct Lane {
    pipe: Pipe<Sent>,
    requests: Vec<Prepared>,
    next: Cell<usize>,
    in_flight: Cell<usize>,
    answered: Notify,
}

/// Runs the plan against a topic whose partitions are ready.
pub(crate) async fn run(
    rt: &Runtime,
    cluster: &Cluster,
    topic: &Topic,
    plan: &Plan,
    progress: &Progress,
) -> Result<Outcome> {
    let lanes = lanes(rt, cluster, topic, plan).await?;
    let opens = rt.now() + plan.warmup;
    let shared = Rc::new(Shared {
        rt: rt.clone(),
        topic: topic.name.clone(),
        opens,
        closes: opens + plan.duration,
        left: Cell::new(plan.requests.unwrap_or(u64::MAX)),
        answered: Cell::new(0),
        measured: Cell::new(0),
        last_answer: Cell::new(rt.now()),
        unanswered: Cell::new(0),
        latency: RefCell::new(Times::new()),
        delay: RefCell::new(Times::new()),
        failure: RefCell::new(None),
    });
    let count = lanes.len();
    for (index, lane) in lanes.iter().enumerate() {
        let schedule = plan.rate.map(|(arrivals, rate)| {
            let mut schedule = Schedule::new(arrivals, rate / count as f64, index as u64 + 1);
            // Spread over one distance, or all connections would send in the same moment.
            let shift = Duration::from_secs_f64(index as f64 / rate);
            let start = rt.now() + shift;
            Box::new(std::iter::from_fn(move || schedule.next().map(|t| start + t)))
                as Box<dyn Iterator<Item = Instant>>
        });
        let sender = send(Rc::clone(lane), Rc::clone(&shared), plan.in_flight, schedule);
        rt.spawn(Class::Data, watched(Rc::clone(&shared), sender)).detach();
        let receiver = receive(Rc::clone(lane), Rc::clone(&shared));
        rt.spawn(Class::Data, watched(Rc::clone(&shared), receiver)).detach();
    }
    let window = watch(&shared, plan, progress).await;
    lanes.iter().for_each(|lane| lane.pipe.close());
    let window = window?;
    let latency = shared.latency.replace(Times::new());
    let delay = shared.delay.replace(Times::new());
    Ok(Outcome { requests: shared.measured.get(), latency, delay, window })
}

/// Keeps the first error.
async fn watched(shared: Rc<Shared>, task: impl Future<Output = Result<()>>) {
    if let Err(error) = task.await {
        shared.failure.borrow_mut().get_or_insert(error);
    }
}

/// Follows the run: opens the window, closes it, waits for what is in flight.
async fn watch(shared: &Shared, plan: &Plan, progress: &Progress) -> Result<Window> {
    let rt = &shared.rt;
    let tick = Duration::from_millis(50);
    progress.phase("warming up");
    while rt.now() < shared.opens {
        rt.sleep(tick.min(shared.opens.since(rt.now()))).await;
        check(shared, plan)?;
    }
    let meter = Meter::start(plan.broker_pid, plan.tracepoints, plan.duration)?;
    progress.phase("measuring");
    loop {
        let over = rt.now() >= shared.closes;
        if over || (shared.left.get() == 0 && shared.unanswered.get() == 0) {
            break;
        }
        rt.sleep(tick.min(shared.closes.since(rt.now()))).await;
        check(shared, plan)?;
        progress.requests(shared.measured.get());
    }
    let window = meter.stop()?;
    // Latencies of what was meant to be sent in the window count, however late the answers are.
    while shared.unanswered.get() > 0 {
        rt.sleep(Duration::from_millis(5)).await;
        check(shared, plan)?;
    }
    Ok(window)
}

fn check(shared: &Shared, plan: &Plan) -> Result<()> {
    if let Some(error) = shared.failure.borrow_mut().take() {
        return Err(error);
    }
    let silent = shared.rt.now().since(shared.last_answer.get());
    if shared.unanswered.get() > 0 && silent > plan.timeout {
        return Err(Error::Silence(plan.timeout.as_secs()));
    }
    Ok(())
}

async fn send(
    lane: Rc<Lane>,
    shared: Rc<Shared>,
    in_flight: usize,
    mut schedule: Option<Box<dyn Iterator<Item = Instant>>>,
) -> Result<()> {
    let mut due = schedule.as_mut().and_then(Iterator::next);
    loop {
        let answered = lane.answered.notified();
        let now = shared.rt.now();
        if now >= shared.closes || shared.left.get() == 0 {
            return Ok(());
        }
        let mut bytes = Vec::new();
        while lane.in_flight.get() < in_flight && bytes.len() < SEND && shared.left.get() > 0 {
            let intended = match due {
                None => now,
                Some(at) if at <= now => {
                    due = schedule.as_mut().and_then(Iterator::next);
                    at
                }
                Some(_) => break,
            };
            lane.queue(Sent { intended, at: now }, &mut bytes);
            shared.left.set(shared.left.get() - 1);
            if shared.unanswered.get() == 0 {
                // Nothing was owed: silence begins now.
                shared.last_answer.set(now);
            }
            shared.unanswered.set(shared.unanswered.get() + 1);
        }
        if !bytes.is_empty() {
            lane.pipe.send(bytes).await?;
        } else if lane.in_flight.get() >= in_flight {
            answered.await;
        } else if let Some(at) = due {
            shared.rt.sleep_until(at.min(shared.closes)).await;
        }
    }
}

async fn receive(lane: Rc<Lane>, shared: Rc<Shared>) -> Result<()> {
    let mut answers: Vec<Answered<Sent>> = Vec::new();
    loop {
        if let Err(error) = lane.pipe.receive(&mut answers).await {
            // The end of the run closes connections that wait for nothing.
            let over = lane.in_flight.get() == 0 && shared.rt.now() >= shared.opens;
            return if over { Ok(()) } else { Err(error.into()) };
        }
        let now = shared.rt.now();
        let count = answers.len();
        for answer in answers.drain(..) {
            shared.count(&answer, now)?;
        }
        lane.in_flight.set(lane.in_flight.get() - count);
        lane.answered.notify_all();
    }
}

impl Shared {
    fn count(&self, answer: &Answered<Sent>, now: Instant) -> Result<()> {
        let decoded = answer.decode::<produce::Response<'_>>()?;
        self.answered.set(self.answered.get() + 1);
        self.unanswered.set(self.unanswered.get() - 1);
        self.last_answer.set(now);
        let refused = decoded
            .responses
            .iter()
            .any(|t| t.partition_responses.iter().any(|p| p.error_code.code() != 0));
        let refusal = refused.then(|| refusals(&self.topic, &decoded).first().copied()).flatten();
        if let Some((partition, code)) = refusal
            // Leaders may still be settling, but not any more when it counts.
            && (now >= self.opens || !code.is_retriable())
        {
            return Err(Error::Refused { topic: self.topic.clone(), partition, code });
        }
        if now >= self.opens && now < self.closes {
            self.measured.set(self.measured.get() + 1);
        }
        let Sent { intended, at } = *answer.purpose();
        if intended >= self.opens && intended < self.closes {
            self.latency.borrow_mut().record(now.since(intended));
            self.delay.borrow_mut().record(at.since(intended));
        }
        Ok(())
    }
}

impl Lane {
    fn queue(&self, sent: Sent, to: &mut Vec<u8>) {
        let next = self.next.get();
        self.pipe.queue(&self.requests[next], sent, to);
        self.next.set((next + 1) % self.requests.len());
        self.in_flight.set(self.in_flight.get() + 1);
    }
}

/// The connections, spread over the nodes, each with its share of prepared requests.
async fn lanes(
    rt: &Runtime,
    cluster: &Cluster,
    topic: &Topic,
    plan: &Plan,
) -> Result<Vec<Rc<Lane>>> {
    let values = values(plan);
    let timestamp = rt.wall_ms();
    let plain = batch(&values, timestamp, || None::<String>);
    let count = plan.connections.max(topic.nodes.len());
    let mut lanes = Vec::with_capacity(count);
    for index in 0..count {
        let (node, partitions) = &topic.nodes[index % topic.nodes.len()];
        let on_node = count / topic.nodes.len()
            + usize::from(index % topic.nodes.len() < count % topic.nodes.len());
        let mine = share(partitions, index / topic.nodes.len(), on_node);
        let groups = groups(&mine, plan.batches_per_request)?;
        let bytes = groups.iter().map(Vec::len).sum::<usize>().saturating_mul(plain.len());
        if bytes.saturating_mul(count) > PREPARED {
            return Err(Error::Arguments(format!(
                "prepared requests of {} MiB on each of {count} connections take too much memory; \
                 use fewer partitions or smaller batches",
                bytes >> 20
            )));
        }
        let pipe = cluster.open(node).await?;
        let prepare = |group: &[i32], batch: &[u8]| {
            pipe.prepare(&produce_request(&topic.name, group, batch, plan.acks))
        };
        let mut requests: Vec<Prepared> = Vec::new();
        match &plan.keys {
            None => {
                for group in &groups {
                    requests.push(prepare(group, &plain)?);
                }
            }
            Some(keys) => {
                let most = PREPARED / bytes.saturating_mul(count).max(1);
                let mut rows: Vec<_> = groups.iter().map(|g| keys.row(index, g[0])).collect();
                for _ in 0..keys::batches(keys, plan.records_per_batch, most)? {
                    for (group, row) in groups.iter().zip(&mut rows) {
                        let batch = batch(&values, timestamp, || Some(row.next()));
                        requests.push(prepare(group, &batch)?);
                    }
                }
            }
        }
        lanes.push(Rc::new(Lane {
            pipe,
            requests,
            next: Cell::new(0),
            in_flight: Cell::new(0),
            answered: Notify::new(),
        }));
    }
    Ok(lanes)
}

/// The partitions of one of `of` connections. With fewer partitions than connections, each has one of them.
fn share(partitions: &[i32], index: usize, of: usize) -> Vec<i32> {
    if partitions.len() < of {
        return vec![partitions[index % partitions.len()]];
    }
    partitions.iter().skip(index).step_by(of).copied().collect()
}

/// The partitions of each request: `size` different ones, in turn.
fn groups(partitions: &[i32], size: usize) -> Result<Vec<Vec<i32>>> {
    if size > partitions.len() {
        return Err(Error::Arguments(format!(
            "--batches-per-request {size} needs as many partitions on each connection, and there are {}",
            partitions.len()
        )));
    }
    Ok(partitions.chunks_exact(size).map(<[i32]>::to_vec).collect())
}

/// The values of a batch, which no codec makes smaller.
fn values(plan: &Plan) -> Vec<Vec<u8>> {
    let mut random = Random::new(42);
    (0..plan.records_per_batch).map(|_| random.bytes(plan.record_bytes)).collect()
}

/// A batch of them, each with the next key.
fn batch<K: AsRef<[u8]>>(
    values: &[Vec<u8>],
    timestamp: i64,
    mut key: impl FnMut() -> Option<K>,
) -> Vec<u8> {
    let mut batch = BatchBuilder::new(Codec::None);
    for value in values {
        batch.push(timestamp, key().as_ref().map(AsRef::as_ref), Some(value), &[]);
    }
    batch.build().expect("no codec")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rillway_wire::batch::{BatchError, BatchView, RecordView, records};

    proptest! {
        #[test]
        fn connections_share_the_partitions_and_leave_none_out(n in 1usize..50, of in 1usize..50) {
            let partitions: Vec<i32> = (0..n as i32).collect();
            let shares: Vec<_> = (0..of).map(|i| share(&partitions, i, of)).collect();
            prop_assert!(shares.iter().all(|s| !s.is_empty()));
            let mut all: Vec<i32> = shares.concat();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(all, partitions);
            if n >= of {
                let sizes = shares.iter().map(Vec::len);
                prop_assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
            }
        }
    }

    #[test]
    fn a_request_takes_different_partitions_or_none() {
        assert_eq!(groups(&[1, 2, 3, 4], 2).unwrap(), [[1, 2], [3, 4]]);
        assert_eq!(groups(&[1, 2, 3], 2).unwrap(), [[1, 2]]);
        assert!(groups(&[1], 2).is_err());
    }

    #[test]
    fn a_record_has_the_key_it_was_given_or_none() {
        let values = [b"a".to_vec(), b"b".to_vec()];
        let keys_of = |bytes: &[u8]| -> Vec<Option<Vec<u8>>> {
            let batch = BatchView::validate_produce(bytes).unwrap();
            let key = |r: Result<RecordView<'_>, BatchError>| r.unwrap().key.map(<[u8]>::to_vec);
            records(batch.records()).map(key).collect()
        };
        assert_eq!(keys_of(&batch(&values, 1, || None::<String>)), [None, None]);
        let mut next = ["x", "y"].into_iter();
        let keyed = batch(&values, 1, || next.next());
        assert_eq!(keys_of(&keyed), [Some(b"x".to_vec()), Some(b"y".to_vec())]);
    }
}
