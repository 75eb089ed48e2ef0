//! A server that speaks just enough Kafka to be measured by `rillbench produce` and `latency`: it answers every
//! produce request, after one durable write for all that came together, or after none. No topics, no index, no reads.
//!
//! One thread, blocking disk, poll(2): nothing is cheaper to write and little is cheaper to run, so what a broker
//! needs beyond this is the broker's own. It stops when its parent closes its standard input.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rillway_wire::api::{api_versions, create_topics, metadata, produce};
use rillway_wire::batch::BatchView;
use rillway_wire::{ApiKey, ErrorCode, Message, RequestHeader, ResponseMessage, frame_len};
use rustix::event::{PollFd, PollFlags, poll};

use super::aligned::{Aligned, BLOCK, file_error, pin, written_file};
use crate::error::{Error, Result};

/// Largest frame, and what one write takes at most.
const FRAME: usize = 16 << 20;
const RING: u64 = 256 << 20;
const VERSIONS: [(ApiKey, i16, i16); 4] = [
    (ApiKey::Produce, 3, 9),
    (ApiKey::Metadata, 1, 9),
    (ApiKey::ApiVersions, 0, 3),
    (ApiKey::CreateTopics, 2, 5),
];

/// Serve as the least broker there could be, to be measured in place of one.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example, in two terminals:
  rillbench floor serve --listen 127.0.0.1:9999 --dir . --cpu 0
  rillbench latency --bootstrap 127.0.0.1:9999 --cpu 1")]
pub(crate) struct Args {
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9999")]
    listen: SocketAddr,
    /// Write and flush what comes to a file in this folder before answering. Without it: answer at once.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Partitions that it pretends to have.
    #[arg(long, value_name = "N", default_value_t = 1)]
    partitions: i32,
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
}

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    answers: Vec<u8>,
    ended: bool,
}

struct Server {
    args: Args,
    ring: Option<(PathBuf, File, u64)>,
    /// What the next durable write takes.
    gathered: Aligned,
    gathered_len: usize,
    /// The topics that were asked for.
    topics: BTreeMap<String, i32>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    pin(args.cpu)?;
    let ring = match &args.dir {
        Some(dir) => {
            let path = dir.join(format!("rillbench-serve-{}", std::process::id()));
            let file = written_file(&path, RING, true)?;
            // Nobody else needs its name, and so nobody has to remove it.
            std::fs::remove_file(&path).map_err(|e| file_error(&path, e))?;
            Some((path, file, 0))
        }
        None => None,
    };
    let os = |doing: String| move |source| Error::Os { doing, source };
    let listener = TcpListener::bind(args.listen)
        .and_then(|l| l.set_nonblocking(true).map(|()| l))
        .map_err(os(format!("listening on {}", args.listen)))?;
    println!("ready on {}, process {}", args.listen, std::process::id());
    let gathered = Aligned::new(FRAME + BLOCK);
    let mut server = Server { args, ring, gathered, gathered_len: 0, topics: BTreeMap::new() };
    let mut connections: Vec<Connection> = Vec::new();
    let stdin = std::io::stdin();
    loop {
        let ready = {
            let mut polled = vec![
                PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
            ];
            let streams = connections.iter().map(|c| c.stream.as_fd());
            polled.extend(streams.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            match poll(&mut polled, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(os("waiting".to_string())(e.into())),
            }
            polled.iter().map(|p| !p.revents().is_empty()).collect::<Vec<bool>>()
        };
        if ready[1] && std::io::stdin().lock().read(&mut [0; 64]).is_ok_and(|n| n == 0) {
            return Ok(());
        }
        for (connection, _) in connections.iter_mut().zip(&ready[2..]).filter(|(_, r)| **r) {
            if let Err(error) = server.take(connection) {
                eprintln!("rillbench: {error}");
                connection.ended = true;
            }
        }
        server.flush()?;
        for connection in &mut connections {
            connection.answer();
        }
        connections.retain(|c| !c.ended);
        while let Ok((stream, _)) = listener.accept() {
            let set = stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true));
            set.map_err(os("accepting".to_string()))?;
            let (received, answers) = (Vec::new(), Vec::new());
            connections.push(Connection { stream, received, answers, ended: false });
        }
    }
}

impl Connection {
    /// Blocks for a moment when the peer reads nothing; answers are small.
    fn answer(&mut self) {
        let answers = std::mem::take(&mut self.answers);
        let mut left = answers.as_slice();
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(n) => left = &left[n..],
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(_) => {
                    self.ended = true;
                    return;
                }
            }
        }
    }
}

impl Server {
    /// Reads what is there and prepares the answers.
    fn take(&mut self, from: &mut Connection) -> Result<()> {
        let start = from.received.len();
        from.received.resize(start + (256 << 10), 0);
        let got = from.stream.read(&mut from.received[start..]);
        from.received.truncate(start + got.as_ref().map_or(0, |n| *n));
        match got {
            Ok(0) => from.ended = true,
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => from.ended = true,
        }
        let received = std::mem::take(&mut from.received);
        let mut at = 0;
        while let Some((prefix, rest)) = received[at..].split_first_chunk::<4>() {
            let len = frame_len(*prefix, FRAME)?;
            if rest.len() < len {
                break;
            }
            self.request(&rest[..len], &mut from.answers)?;
            at += 4 + len;
        }
        from.received = received[at..].to_vec();
        Ok(())
    }

    fn request(&mut self, content: &[u8], answers: &mut Vec<u8>) -> Result<()> {
        let (header, body) = RequestHeader::decode(content)?;
        let (version, id) = (header.api_version, header.correlation_id);
        let frame = match ApiKey::from_code(header.api_key) {
            Some(ApiKey::Produce) => {
                let request = produce::Request::decode_body(body, version)?;
                self.gather(&request)?;
                produced(&request).response_frame(version, id)
            }
            Some(ApiKey::Metadata) => {
                let request = metadata::Request::decode_body(body, version)?;
                self.metadata(&request).response_frame(version, id)
            }
            Some(ApiKey::CreateTopics) => {
                let request = create_topics::Request::decode_body(body, version)?;
                for topic in request.topics.iter() {
                    self.topics.insert(topic.name.to_string(), topic.num_partitions);
                }
                let created = |t: create_topics::Topic<'_>| t.name.to_string();
                let names: Vec<String> = request.topics.iter().map(created).collect();
                let response = create_topics::Response {
                    topics: names
                        .iter()
                        .map(|name| create_topics::TopicResponse { name, ..Default::default() })
                        .collect(),
                    ..Default::default()
                };
                response.response_frame(version, id)
            }
            _ => {
                let served = |(api, min_version, max_version): (ApiKey, i16, i16)| {
                    let api_key = api.code();
                    api_versions::ApiVersion { api_key, min_version, max_version }
                };
                let api_keys = VERSIONS.into_iter().map(served).collect();
                let response = api_versions::Response { api_keys, ..Default::default() };
                response.response_frame(version.clamp(0, 3), id)
            }
        };
        answers.extend(frame.into_bytes().expect("no records in an answer"));
        Ok(())
    }

    /// What every broker has to do with a batch: look at its header and checksum, and keep its bytes.
    fn gather(&mut self, request: &produce::Request<'_>) -> Result<()> {
        for topic in request.topic_data.iter() {
            for part in topic.partition_data.iter() {
                let bytes = part.records.bytes();
                if BatchView::validate_produce(bytes).is_err() {
                    let (topic, partition) = (topic.name.to_string(), part.index);
                    let code = ErrorCode::CorruptMessage;
                    return Err(Error::Refused { topic, partition, code });
                }
                if self.ring.is_some() {
                    if self.gathered_len + bytes.len() > FRAME {
                        self.flush()?;
                    }
                    let end = self.gathered_len + bytes.len();
                    self.gathered.get_mut()[self.gathered_len..end].copy_from_slice(bytes);
                    self.gathered_len = end;
                }
            }
        }
        Ok(())
    }

    /// One durable write for all that has gathered.
    fn flush(&mut self) -> Result<()> {
        let len = self.gathered_len.div_ceil(BLOCK) * BLOCK;
        let Some((path, file, at)) = self.ring.as_mut().filter(|_| len > 0) else {
            return Ok(());
        };
        if *at + len as u64 > RING {
            *at = 0;
        }
        file.write_all_at(&self.gathered.get()[..len], *at).map_err(|e| file_error(path, e))?;
        *at += len as u64;
        self.gathered_len = 0;
        Ok(())
    }

    fn metadata<'a>(&'a self, request: &metadata::Request<'a>) -> metadata::Response<'a> {
        let host = match self.args.listen {
            SocketAddr::V4(_) => "127.0.0.1",
            SocketAddr::V6(_) => "::1",
        };
        let port = i32::from(self.args.listen.port());
        let broker = metadata::Broker { node_id: 1, host, port, ..Default::default() };
        let partition = |partition_index| metadata::Partition {
            partition_index,
            leader_id: 1,
            ..Default::default()
        };
        let names = request
            .topics
            .iter()
            .flat_map(|topics| topics.iter().filter_map(|t| t.name).collect::<Vec<_>>());
        let topic = |name: &'a str| {
            let known = self.topics.get(name).copied();
            metadata::Topic {
                error_code: match known {
                    Some(_) => ErrorCode::None,
                    None => ErrorCode::UnknownTopicOrPartition,
                },
                name: Some(name),
                partitions: (0..known.unwrap_or(0)).map(partition).collect(),
                ..Default::default()
            }
        };
        metadata::Response {
            brokers: [broker].into_iter().collect(),
            controller_id: 1,
            topics: names.map(topic).collect(),
            ..Default::default()
        }
    }
}

fn produced<'a>(request: &produce::Request<'a>) -> produce::Response<'a> {
    let partition = |p: produce::Partition<'a>| produce::PartitionResponse {
        index: p.index,
        error_code: ErrorCode::None,
        ..Default::default()
    };
    let topic = |t: produce::Topic<'a>| produce::TopicResponse {
        name: t.name,
        partition_responses: t.partition_data.iter().map(partition).collect(),
        ..Default::default()
    };
    let responses = request.topic_data.iter().map(topic).collect();
    produce::Response { responses, ..Default::default() }
}
