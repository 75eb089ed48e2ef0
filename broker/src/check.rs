//! `rillway check`: whether this machine and this place can keep the promises, and what to do where they cannot.
//!
//! Each line was tried, not looked up, where it can be tried: a ring is set up, a file is written.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rillway::placement::{Placement, existing, judge};
use rillway_io::kernel::{KernelOptions, start};
use rillway_io::{BLOCK, Chunk, OpenOptions, Runtime};
use serde::Serialize;

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warning,
    Failed,
}

#[derive(Serialize)]
struct Line {
    what: &'static str,
    verdict: Verdict,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

fn line(what: &'static str, verdict: Verdict, found: impl Into<String>, remedy: &str) -> Line {
    let remedy = (verdict != Verdict::Ok && !remedy.is_empty()).then(|| remedy.to_owned());
    Line { what, verdict, found: found.into(), remedy }
}

/// Runs all checks; an error means that the broker should not be started here.
pub(crate) fn check(data_dir: &Path, cores: &[usize], json: bool) -> Result<(), String> {
    let mut lines = vec![kernel()];
    lines.push(io_uring_switch());
    lines.push(open_files());
    lines.push(cpus(cores));
    let dir = existing(data_dir);
    lines.extend(on_runtime(dir, cores.len()));
    let failed = lines.iter().filter(|l| l.verdict == Verdict::Failed).count();
    print(&lines, json)?;
    if failed == 0 {
        Ok(())
    } else {
        Err(format!("{failed} of {} checks failed; the lines above say what to do", lines.len()))
    }
}

fn print(lines: &[Line], json: bool) -> Result<(), String> {
    use std::io::Write as _;
    let mut out = String::new();
    if json {
        out = serde_json::to_string_pretty(lines).map_err(|e| e.to_string())?;
        out.push('\n');
    } else {
        for l in lines {
            let mark = match l.verdict {
                Verdict::Ok => "ok     ",
                Verdict::Warning => "warning",
                Verdict::Failed => "FAILED ",
            };
            out.push_str(&format!("{mark}  {:<18} {}\n", l.what, l.found));
            if let Some(remedy) = &l.remedy {
                out.push_str(&format!("{:28} -> {remedy}\n", ""));
            }
        }
    }
    std::io::stdout().write_all(out.as_bytes()).map_err(|e| e.to_string())
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn kernel() -> Line {
    let release = read("/proc/sys/kernel/osrelease");
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let verdict = if version >= (6, 1) { Verdict::Ok } else { Verdict::Failed };
    line(
        "kernel",
        verdict,
        format!("{release}, 6.1 is needed"),
        "install a newer kernel; before 5.17 syncfs drops errors",
    )
}

fn io_uring_switch() -> Line {
    let disabled = read("/proc/sys/kernel/io_uring_disabled");
    match disabled.as_str() {
        "" | "0" => line("io_uring sysctl", Verdict::Ok, "io_uring is not switched off", ""),
        "1" => line(
            "io_uring sysctl",
            Verdict::Warning,
            "kernel.io_uring_disabled = 1: only for privileged processes",
            "sysctl kernel.io_uring_disabled=0, or run as a member of kernel.io_uring_group",
        ),
        other => line(
            "io_uring sysctl",
            Verdict::Failed,
            format!("kernel.io_uring_disabled = {other}"),
            "sysctl kernel.io_uring_disabled=0, and look in /etc/sysctl.d for who set it",
        ),
    }
}

/// Those of the wanted CPUs that this machine does not have.
pub(crate) fn missing_cpus(cores: &[usize]) -> Vec<usize> {
    let is_missing = |c: &usize| !Path::new(&format!("/sys/devices/system/cpu/cpu{c}")).is_dir();
    cores.iter().copied().filter(is_missing).collect()
}

/// Which of the wanted CPUs there are.
fn cpus(cores: &[usize]) -> Line {
    let missing = missing_cpus(cores);
    let online = read("/sys/devices/system/cpu/online");
    if missing.is_empty() {
        return line("CPUs", Verdict::Ok, format!("{cores:?} of {online}"), "");
    }
    let remedy = format!(
        "threads for them would run unpinned and share the others; choose --cores from {online}"
    );
    line(
        "CPUs",
        Verdict::Warning,
        format!("{missing:?} do not exist here; there are {online}"),
        &remedy,
    )
}

fn soft_limit(name: &str) -> Option<u64> {
    let limits = read("/proc/self/limits");
    let row = limits.lines().find(|l| l.starts_with(name))?;
    let soft = row[name.len()..].split_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

fn open_files() -> Line {
    let limit = soft_limit("Max open files").unwrap_or(0);
    // A descriptor for each partition that is written or read, each connection, and some for the rings.
    let verdict = if limit >= 65_536 { Verdict::Ok } else { Verdict::Warning };
    let shown = if limit == u64::MAX { "unlimited".to_owned() } else { limit.to_string() };
    line(
        "open files",
        verdict,
        format!("{shown}; one for each partition in use and each connection"),
        "raise it before you use many: ulimit -n 1000000, or LimitNOFILE=1000000 in the unit",
    )
}

fn on_runtime(dir: PathBuf, cores: usize) -> Vec<Line> {
    let options = KernelOptions { cpus: vec![0], ..Default::default() };
    let pinned = 3 * options.io_memory * cores.max(1);
    let node = start(options, move |rt: Runtime| try_things(rt, dir.clone(), pinned));
    match node {
        Ok(node) => node.join().into_iter().flatten().collect(),
        Err(e) => vec![line(
            "io_uring",
            Verdict::Failed,
            e.to_string(),
            "in a container: a seccomp profile that allows io_uring_setup, io_uring_enter and io_uring_register; \
             a MemLockLimit error: raise ulimit -l or LimitMEMLOCK; else the sysctl above, or a kernel with CONFIG_IO_URING. \
             The checks of the disk need a ring and were not run",
        )],
    }
}

async fn try_things(rt: Runtime, dir: PathBuf, pinned: usize) -> Vec<Line> {
    let mut lines =
        vec![line("io_uring", Verdict::Ok, "rings can be set up", ""), memlock(&rt, pinned)];
    match rt.disk().stat_fs(&dir).await {
        Err(e) => lines.push(line(
            "file system",
            Verdict::Failed,
            e.to_string(),
            "choose a directory that can be read",
        )),
        Ok(stat) => {
            let found = format!("{} at {} ({})", stat.kind, dir.display(), stat.options);
            lines.push(match judge(&stat) {
                Placement::Good => line("file system", Verdict::Ok, found, ""),
                Placement::Warned(why) => line("file system", Verdict::Warning, found, &why),
                Placement::NeedsOverride(why) | Placement::Refused(why) => {
                    line("file system", Verdict::Failed, found, &why)
                }
            });
        }
    }
    lines.push(write_cache(&dir));
    let file = dir.join(format!(".rillway-check-{}", std::process::id()));
    lines.extend(try_file(&rt, &file).await);
    let _ = rt.disk().remove_file(&file).await;
    lines
}

fn memlock(rt: &Runtime, pinned: usize) -> Line {
    let limit = soft_limit("Max locked memory").unwrap_or(0);
    let shown =
        if limit == u64::MAX { "unlimited".to_owned() } else { format!("{} KiB", limit >> 10) };
    let registered = if rt.buffers_registered() { "registered" } else { "not registered" };
    let found = format!(
        "limit {shown}; all cores together would pin {} KiB; here buffers were {registered}",
        pinned >> 10
    );
    let verdict = if rt.buffers_registered() { Verdict::Ok } else { Verdict::Warning };
    line(
        "locked memory",
        verdict,
        found,
        "works without, a little slower; LimitMEMLOCK=infinity in the unit, ulimit -l unlimited, or CAP_IPC_LOCK",
    )
}

fn write_cache(dir: &Path) -> Line {
    use std::os::unix::fs::MetadataExt as _;
    let mode = std::fs::metadata(dir).ok().and_then(|m| {
        let device = m.dev();
        // The kernel's encoding of major and minor.
        let major = device >> 8 & 0xfff | device >> 32 & !0xfff;
        let minor = device & 0xff | device >> 12 & !0xff;
        let base = format!("/sys/dev/block/{major}:{minor}");
        let own = read(&format!("{base}/queue/write_cache"));
        let of_disk = read(&format!("{base}/../queue/write_cache"));
        [own, of_disk].into_iter().find(|m| !m.is_empty())
    });
    match mode {
        Some(mode) => {
            line("write cache", Verdict::Ok, format!("{mode}; flushes are sent to the device"), "")
        }
        None => line(
            "write cache",
            Verdict::Warning,
            "the device under this directory does not say",
            "make sure that it honours flushes, or has a battery",
        ),
    }
}

/// Direct IO, and whether writes below i_size stay out of the kernel's worker threads.
async fn try_file(rt: &Runtime, path: &Path) -> Vec<Line> {
    const WRITES: u64 = 32;
    let tried = async {
        let options =
            OpenOptions { write: true, create: true, truncate: true, ..Default::default() };
        let file = rt.disk().open(path, options).await?;
        file.allocate(0, WRITES * BLOCK as u64).await?;
        let before = workers();
        let chunk = Chunk::copy_from(&[0x5a; BLOCK]);
        let begun = rt.now();
        for i in 0..WRITES {
            file.write_at(chunk.clone(), i * BLOCK as u64).await?;
        }
        let each = (rt.now() - begun) / WRITES as u32;
        let punted = workers() > before;
        let begun = rt.now();
        file.fdatasync().await?;
        Ok::<_, rillway_io::Error>((punted, each, rt.now() - begun))
    };
    match tried.await {
        Err(e) => vec![line(
            "direct IO",
            Verdict::Failed,
            e.to_string(),
            "use ext4 or XFS on a local disk, and a directory that can be written",
        )],
        Ok((punted, each, flush)) => vec![
            line(
                "direct IO",
                Verdict::Ok,
                format!("works; 4 KiB in {}, a flush in {}", micros(each), micros(flush)),
                "",
            ),
            line(
                "append punting",
                if punted { Verdict::Warning } else { Verdict::Ok },
                if punted {
                    "writes below i_size go to worker threads"
                } else {
                    "writes below i_size are submitted inline"
                },
                "expect more CPU per commit; ext4 does not do this, XFS seldom",
            ),
        ],
    }
}

fn micros(d: Duration) -> String {
    format!("{} us", d.as_micros())
}

/// io_uring's worker threads of this process.
fn workers() -> usize {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let is_worker = |t: &std::fs::DirEntry| {
        std::fs::read_to_string(t.path().join("comm")).is_ok_and(|comm| comm.starts_with("iou-wrk"))
    };
    tasks.flatten().filter(is_worker).count()
}
