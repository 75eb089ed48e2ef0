//! Bytes from memory or a file through a TCP connection on loopback to a thread that throws them away: the least that
//! a fetch can cost. The receiver touches nothing, as a consumer that only counts.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::aligned::{Aligned, file_error, open_direct, pin, thread_cpu_s};
use crate::error::{Error, Result};
use crate::node;
use crate::report::{self, Table};

/// Bytes per call; the best or close to it for each path.
const PIECE: usize = 256 << 10;
/// Bytes per direct read, which is slower in small pieces.
const DIRECT_PIECE: usize = 1 << 20;
/// Memory that is sent from, beyond what a processor's cache holds.
const WORKING_SET: usize = 256 << 20;

/// Send bytes to a thread that drops them, and report rate and CPU of both ends.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  rillbench floor pump --sender-cpu 0 --receiver-cpu 1
  rillbench floor pump --mode sendfile --file segment.log --cold")]
pub(crate) struct Args {
    #[arg(long, value_enum, default_value_t = Mode::Send)]
    mode: Mode,
    /// What to send, in every mode but `send`.
    #[arg(long, value_name = "PATH", required_if_eq_any([("mode", "sendfile"), ("mode", "direct"), ("mode", "read")]))]
    file: Option<PathBuf>,
    /// Drop the file from the page cache first.
    #[arg(long, requires = "file")]
    cold: bool,
    #[arg(long, value_name = "N")]
    sender_cpu: Option<usize>,
    #[arg(long, value_name = "N")]
    receiver_cpu: Option<usize>,
    /// Most seconds to measure. With --cold the file is sent once.
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = node::seconds)]
    duration: Duration,
    /// Print one line of JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// send(2) from memory.
    Send,
    /// sendfile(2), from the page cache or through it.
    Sendfile,
    /// Direct reads, past the page cache, then send(2).
    Direct,
    /// Reads through the page cache, then send(2).
    Read,
}

#[derive(Debug, Serialize)]
struct Figures {
    bytes: u64,
    seconds: f64,
    mib_per_s: f64,
    sender_cpu_s_per_gib: f64,
    receiver_cpu_s_per_gib: f64,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let os = |doing: &str| {
        let doing = doing.to_string();
        move |source| Error::Os { doing, source }
    };
    let listener = TcpListener::bind("127.0.0.1:0").map_err(os("listening on 127.0.0.1"))?;
    let address = listener.local_addr().map_err(os("listening on 127.0.0.1"))?;
    let receiver_cpu = args.receiver_cpu;
    let receiver = std::thread::spawn(move || receive(&listener, receiver_cpu));
    pin(args.sender_cpu)?;
    let mut to = TcpStream::connect(address).map_err(os("connecting to itself"))?;
    let (begun, cpu) = (Instant::now(), thread_cpu_s());
    let bytes = send(&args, &mut to)?;
    let sender_cpu = thread_cpu_s() - cpu;
    drop(to);
    let receiver_cpu = receiver.join().expect("it does not panic").map_err(os("receiving"))?;
    let seconds = begun.elapsed().as_secs_f64();
    let gib = bytes as f64 / f64::from(1 << 30);
    let figures = Figures {
        bytes,
        seconds,
        mib_per_s: gib * 1024.0 / seconds,
        sender_cpu_s_per_gib: sender_cpu / gib,
        receiver_cpu_s_per_gib: receiver_cpu / gib,
    };
    if args.json {
        return report::json(&figures);
    }
    let mut table = Table::default();
    table.row("rate", format!("{:.0} MiB/s", figures.mib_per_s));
    table.row("sender", format!("{:.3} CPU-s/GiB", figures.sender_cpu_s_per_gib));
    table.row("receiver", format!("{:.3} CPU-s/GiB", figures.receiver_cpu_s_per_gib));
    table.print()
}

/// Returns its CPU seconds.
fn receive(listener: &TcpListener, cpu: Option<usize>) -> std::io::Result<f64> {
    pin(cpu).map_err(|e| std::io::Error::other(e.to_string()))?;
    let (mut from, _) = listener.accept()?;
    let mut buffer = vec![1; PIECE];
    let before = thread_cpu_s();
    while from.read(&mut buffer)? > 0 {}
    Ok(thread_cpu_s() - before)
}

fn send(args: &Args, to: &mut TcpStream) -> Result<u64> {
    let until = Instant::now() + args.duration;
    let sent = |source| Error::Os { doing: "sending to itself".to_string(), source };
    let Some(path) = args.file.as_deref().filter(|_| args.mode != Mode::Send) else {
        let memory = vec![0xA5u8; WORKING_SET];
        let mut bytes = 0;
        for piece in memory.chunks(PIECE).cycle().take_while(|_| Instant::now() < until) {
            to.write_all(piece).map_err(sent)?;
            bytes += piece.len() as u64;
        }
        return Ok(bytes);
    };
    let error = |e| file_error(path, e);
    let file = match args.mode {
        Mode::Direct => open_direct(path, false, false)?,
        Mode::Send | Mode::Sendfile | Mode::Read => File::open(path).map_err(error)?,
    };
    let len = file.metadata().map_err(error)?.len();
    if args.cold {
        drop_cache(path)?;
    }
    let mut buffer = Aligned::new(if args.mode == Mode::Direct { DIRECT_PIECE } else { PIECE });
    let (mut bytes, mut at) = (0, 0);
    while Instant::now() < until {
        if at >= len {
            if args.cold || len == 0 {
                break;
            }
            at = 0;
        }
        let n = if args.mode == Mode::Sendfile {
            let mut from = at;
            rustix::fs::sendfile(&*to, &file, Some(&mut from), PIECE).map_err(|e| sent(e.into()))?
        } else {
            let n = file.read_at(buffer.get_mut(), at).map_err(error)?;
            to.write_all(&buffer.get()[..n]).map_err(sent)?;
            n
        };
        if n == 0 {
            break;
        }
        (bytes, at) = (bytes + n as u64, at + n as u64);
    }
    Ok(bytes)
}

/// Forgets a file's pages; those that are dirty stay, so it is flushed first.
fn drop_cache(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(|e| file_error(path, e))?;
    file.sync_all().map_err(|e| file_error(path, e))?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
        .map_err(|e| file_error(path, e.into()))
}
