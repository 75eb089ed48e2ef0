//! What the broker, the generator and the machine used during a window of time.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::{Error, Result};
use crate::process::{Machine, Usage};

/// The kernel's events that are counted, by the names of perf. Flushes are always punted (opcode 3) and left out.
const EVENTS: [(&str, Option<&str>); 3] = [
    ("raw_syscalls:sys_enter", None),
    ("io_uring:io_uring_submit_req", None),
    ("io_uring:io_uring_queue_async_work", Some("opcode != 3")),
];

/// Counters at the start of a window.
#[derive(Debug)]
pub(crate) struct Meter {
    at: Instant,
    broker: Option<(u32, Usage)>,
    own: Usage,
    machine: Machine,
    events: Option<(Child, Duration)>,
}

/// Differences over a window.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Window {
    pub(crate) seconds: f64,
    pub(crate) broker: Option<Usage>,
    pub(crate) generator: Usage,
    pub(crate) machine: Machine,
    pub(crate) events: Option<Events>,
}

/// Per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Events {
    pub(crate) syscalls: f64,
    pub(crate) ring_operations: f64,
    /// Operations handed to a kernel worker, flushes left out.
    pub(crate) punts: f64,
}

impl Meter {
    /// Events are counted over most of `planned`, since perf needs a moment to attach.
    pub(crate) fn start(pid: Option<u32>, tracepoints: bool, planned: Duration) -> Result<Self> {
        let events = match pid.filter(|_| tracepoints) {
            Some(pid) => {
                let counted = planned.mul_f64(0.7);
                Some((perf(pid, counted)?, counted))
            }
            None => None,
        };
        Ok(Self {
            broker: pid.map(|pid| Ok::<_, Error>((pid, Usage::of(pid)?))).transpose()?,
            own: Usage::of(std::process::id())?,
            machine: Machine::now()?,
            at: Instant::now(),
            events,
        })
    }

    /// The end of the window. Waits for perf.
    pub(crate) fn stop(self) -> Result<Window> {
        let seconds = self.at.elapsed().as_secs_f64();
        let broker = match &self.broker {
            Some((pid, before)) => Some(&Usage::of(*pid)? - before),
            None => None,
        };
        let generator = &Usage::of(std::process::id())? - &self.own;
        let machine = &Machine::now()? - &self.machine;
        let events = self.events.map(|(child, counted)| read(child, counted)).transpose()?;
        Ok(Window { seconds, broker, generator, machine, events })
    }
}

fn perf(pid: u32, counted: Duration) -> Result<Child> {
    let mut command = Command::new("perf");
    command.args(["stat", "-x", ",", "-p", &pid.to_string()]);
    for (event, filter) in EVENTS {
        command.args(["-e", event]);
        if let Some(filter) = filter {
            command.args(["--filter", filter]);
        }
    }
    command.args(["--", "sleep", &counted.as_secs_f64().to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().map_err(|source| Error::Os { doing: "starting perf".to_string(), source })
}

fn read(child: Child, counted: Duration) -> Result<Events> {
    let failed = |source| Error::Os { doing: "waiting for perf".to_string(), source };
    let output = child.wait_with_output().map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stderr);
    parse(&text, counted).ok_or_else(|| {
        let said = text.lines().last().unwrap_or("nothing");
        Error::Os { doing: format!("perf said {said:?}"), source: std::io::ErrorKind::Other.into() }
    })
}

/// Lines of `perf stat -x,`: the count, a unit, the event.
fn parse(text: &str, counted: Duration) -> Option<Events> {
    let per_second = |(event, _): (&str, Option<&str>)| {
        let line = text.lines().find(|line| line.split(',').nth(2) == Some(event))?;
        let count: f64 = line.split(',').next()?.parse().ok()?;
        Some(count / counted.as_secs_f64())
    };
    Some(Events {
        syscalls: per_second(EVENTS[0])?,
        ring_operations: per_second(EVENTS[1])?,
        punts: per_second(EVENTS[2])?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_rates_and_a_missing_event_is_no_zero() {
        let text = "300,,raw_syscalls:sys_enter,1,100.00,,\n20,,io_uring:io_uring_submit_req,1,100.00,,\n\
                    0,,io_uring:io_uring_queue_async_work,1,100.00,,\n";
        let got = parse(text, Duration::from_secs(2));
        assert_eq!(got, Some(Events { syscalls: 150.0, ring_operations: 10.0, punts: 0.0 }));
        let without = text.replace("300,", "<not counted>,");
        assert_eq!(parse(&without, Duration::from_secs(2)), None);
    }
}
