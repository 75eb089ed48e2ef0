//! What a process has used, from `/proc`: CPU in user and kernel apart, memory, context switches, bytes to the device.
//!
//! io_uring's workers are threads of the process, so their time is in its sum. What the kernel does for a process on
//! threads of its own (writeback, interrupts) is in nobody's sum; [`Machine`] has all that both CPUs did.

use std::fs;
use std::ops::Sub;

use serde::Serialize;

use crate::error::{Error, Result};

/// Counters of a process since its start. CPU in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Usage {
    pub(crate) cpu_user_s: f64,
    pub(crate) cpu_system_s: f64,
    /// The sum of both by the scheduler's clock, in nanoseconds' resolution; threads that have ended are missing.
    pub(crate) cpu_exact_s: f64,
    pub(crate) context_switches: f64,
    /// Bytes that went to the device on its account: buffered ones count when they dirty a page.
    pub(crate) written: f64,
    pub(crate) read: f64,
    /// Resident, at the moment; no difference.
    pub(crate) rss: f64,
    pub(crate) threads: f64,
}

impl Usage {
    /// What a process has used until now.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let file = |name: &str| {
            fs::read_to_string(format!("/proc/{pid}/{name}"))
                .map_err(|e| Error::Process { pid, what: format!("/proc/{pid}/{name}: {e}") })
        };
        let garbled = |name: &str| Error::Process { pid, what: format!("{name} makes no sense") };
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let (user, system) = cpu_ticks(&file("stat")?).ok_or_else(|| garbled("stat"))?;
        let status = file("status")?;
        let io = file("io").unwrap_or_default();
        let mut usage = Self {
            cpu_user_s: user as f64 / ticks,
            cpu_system_s: system as f64 / ticks,
            written: field(&io, "write_bytes:").unwrap_or(0.0),
            read: field(&io, "read_bytes:").unwrap_or(0.0),
            rss: field(&status, "VmRSS:").unwrap_or(0.0) * 1024.0,
            threads: field(&status, "Threads:").unwrap_or(0.0),
            ..Self::default()
        };
        let tasks = fs::read_dir(format!("/proc/{pid}/task"))
            .map_err(|e| Error::Process { pid, what: format!("its threads: {e}") })?;
        for task in tasks.flatten() {
            // A thread may end between the listing and here.
            let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let ran = read("schedstat").split(' ').next().and_then(|n| n.parse::<f64>().ok());
            usage.cpu_exact_s += ran.unwrap_or(0.0) / 1e9;
            let status = read("status");
            for name in ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"] {
                usage.context_switches += field(&status, name).unwrap_or(0.0);
            }
        }
        Ok(usage)
    }

    /// User and system together.
    pub(crate) fn cpu_s(&self) -> f64 {
        self.cpu_user_s + self.cpu_system_s
    }
}

impl Sub for &Usage {
    type Output = Usage;

    fn sub(self, earlier: &Usage) -> Usage {
        Usage {
            cpu_user_s: self.cpu_user_s - earlier.cpu_user_s,
            cpu_system_s: self.cpu_system_s - earlier.cpu_system_s,
            cpu_exact_s: self.cpu_exact_s - earlier.cpu_exact_s,
            context_switches: self.context_switches - earlier.context_switches,
            written: self.written - earlier.written,
            read: self.read - earlier.read,
            rss: self.rss,
            threads: self.threads,
        }
    }
}

/// Seconds that the machine's CPUs were busy since boot, by what.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Machine {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    /// Hard and soft interrupts.
    pub(crate) interrupts_s: f64,
    /// Taken by the hypervisor.
    pub(crate) steal_s: f64,
}

impl Machine {
    pub(crate) fn now() -> Result<Self> {
        let path = "/proc/stat";
        let text =
            fs::read_to_string(path).map_err(|source| Error::File { path: path.into(), source })?;
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        Ok(machine(&text, ticks))
    }
}

impl Sub for &Machine {
    type Output = Machine;

    fn sub(self, earlier: &Machine) -> Machine {
        Machine {
            user_s: self.user_s - earlier.user_s,
            system_s: self.system_s - earlier.system_s,
            interrupts_s: self.interrupts_s - earlier.interrupts_s,
            steal_s: self.steal_s - earlier.steal_s,
        }
    }
}

/// The first line of `/proc/stat`: user nice system idle iowait irq softirq steal.
fn machine(text: &str, ticks: f64) -> Machine {
    let line = text.lines().next().unwrap_or_default();
    let fields: Vec<f64> = line.split_whitespace().skip(1).map_while(|f| f.parse().ok()).collect();
    let at = |i: usize| fields.get(i).copied().unwrap_or(0.0) / ticks;
    Machine { user_s: at(0) + at(1), system_s: at(2), interrupts_s: at(5) + at(6), steal_s: at(7) }
}

/// User and system ticks of `/proc/PID/stat`. The name in it may hold anything, so counting starts behind it.
fn cpu_ticks(stat: &str) -> Option<(u64, u64)> {
    let behind = &stat[stat.rfind(')')? + 1..];
    let mut fields = behind.split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The number behind a name at the start of a line.
fn field(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 31 0 0 20 0 3 0 99 1 2";
        assert_eq!(cpu_ticks(stat), Some((250, 31)));
        assert_eq!(cpu_ticks("7 (cut off"), None);
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let io = "rchar: 5\nwrite_bytes: 4096\ncancelled_write_bytes: 1\n";
        assert_eq!(field(io, "write_bytes:"), Some(4096.0));
        assert_eq!(field(io, "read_bytes:"), None);
    }

    #[test]
    fn the_machine_s_line_may_be_short() {
        let line = "cpu  100 0 50 9 9 3 4\ncpu0 1 1 1\n";
        let got = machine(line, 100.0);
        assert_eq!((got.user_s, got.system_s, got.steal_s), (1.0, 0.5, 0.0));
        assert!((got.interrupts_s - 0.07).abs() < 1e-9);
    }

    #[test]
    fn this_process_has_used_something() {
        let before = Usage::of(std::process::id()).expect("its own files");
        assert!(before.rss > 0.0 && before.threads >= 1.0);
        let after = Usage::of(std::process::id()).expect("its own files");
        assert!((&after - &before).cpu_exact_s >= 0.0);
    }
}
