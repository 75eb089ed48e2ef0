//! One of the two brokers: a connection to it, and what it has answered in this case.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rillway_wire::api::{api_versions, create_topics, delete_topics, list_offsets, metadata};
use rillway_wire::{ApiKey, ErrorCode, Message, RequestMessage, ResponseHeader, Uuid, frame_len};

use crate::rules::Rules;
use crate::tree::Tree;

/// Longest wait for an answer; the longest that a script asks for is a second.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at a peer that is not ready yet; without it they take the processor that it needs.
const POLL: Duration = Duration::from_millis(5);
/// Longest answer.
const FRAME_MAX: usize = 64 << 20;

/// A broker in one case.
pub(crate) struct Peer {
    port: u16,
    connection: Option<TcpStream>,
    correlation: i32,
    rules: Rules,
    /// Start of the names of this case's topics, so that cases and versions do not meet.
    prefix: String,
    /// The run's start in milliseconds since 1970, the same for both peers.
    pub now_ms: i64,
    pub steps: Vec<(String, Tree)>,
}

/// What came instead of an answer.
enum NoAnswer {
    Closed,
    Silent,
}

impl Peer {
    pub(crate) fn new(port: u16, now_ms: i64, prefix: String) -> Peer {
        let rules = Rules::new(port, now_ms, format!("{prefix}-"));
        Peer { port, connection: None, correlation: 0, rules, prefix, now_ms, steps: Vec::new() }
    }

    /// A topic name of this case. Leaked, as frames are: the messages borrow from them, and a run is short.
    pub(crate) fn name(&self, name: &str) -> &'static str {
        format!("{}-{name}", self.prefix).leak()
    }

    /// Sends a request and notes the answer, field by field. A peer that closes instead, or says nothing, has that
    /// noted, and the default is returned.
    pub(crate) fn call<'a, R>(&mut self, step: &str, request: &R, version: i16) -> R::Response
    where
        R: RequestMessage<'a>,
        R::Response: Message<'a> + Debug + Default,
    {
        let answer = self.ask(request, version);
        self.note(step, &answer);
        answer.unwrap_or_default()
    }

    /// As [`Peer::call`], again and again until the answer is as expected: Kafka answers before all of it knows. The
    /// last answer is noted whatever it is.
    pub(crate) fn call_until<'a, R>(
        &mut self,
        step: &str,
        request: &R,
        version: i16,
        expected: impl Fn(&R::Response) -> bool,
    ) -> R::Response
    where
        R: RequestMessage<'a>,
        R::Response: Message<'a> + Debug + Default,
    {
        let begun = Instant::now();
        loop {
            let answer = self.ask(request, version);
            let good = answer.as_ref().is_ok_and(&expected);
            if good || begun.elapsed() > PATIENCE {
                self.note(step, &answer);
                return answer.unwrap_or_default();
            }
            std::thread::sleep(POLL);
        }
    }

    /// As [`Peer::call_until`], with only what `shown` picks of the answer noted.
    pub(crate) fn call_showing<'a, R, T: Debug>(
        &mut self,
        step: &str,
        request: &R,
        version: i16,
        shown: impl Fn(&R::Response) -> T,
    ) where
        R: RequestMessage<'a>,
        R::Response: Message<'a> + Debug + Default,
    {
        let answer = self.ask(request, version).map(|a| shown(&a));
        self.note(step, &answer);
    }

    fn note(&mut self, step: &str, answer: &Result<impl Debug, String>) {
        let tree = match answer {
            Ok(answer) => self.rules.apply(Tree::of(answer)),
            Err(e) => Tree::word(e),
        };
        self.steps.push((step.to_owned(), tree));
    }

    /// Sends a request to which nothing comes back, asks something else, and notes whether that was answered.
    pub(crate) fn send_only<'a>(
        &mut self,
        step: &str,
        request: &impl RequestMessage<'a>,
        version: i16,
    ) {
        self.correlation += 1;
        let frame = request.request_frame(version, self.correlation, Some("differential"));
        let frame = frame.into_bytes().unwrap_or_else(|_| panic!("requests have no holes"));
        let sent = self.write(&frame);
        let next = sent.and_then(|()| {
            self.correlation += 1;
            let asked = api_versions::Request::default().request_frame(0, self.correlation, None);
            self.write(&asked.into_bytes().unwrap_or_else(|_| panic!("requests have no holes")))?;
            self.frame()
        });
        let after = match next {
            Ok(frame) if frame[..4] == self.correlation.to_be_bytes() => {
                "the next request is answered"
            }
            Ok(_) => "an answer",
            Err(NoAnswer::Closed) => "the connection is closed",
            Err(NoAnswer::Silent) => "silence",
        };
        if after != "the next request is answered" {
            self.connection = None;
        }
        self.steps.push((step.to_owned(), Tree::word(after)));
    }

    /// Sends the content of a frame as it is, and notes the answer's bytes behind the correlation id.
    pub(crate) fn raw(&mut self, step: &str, content: &[u8]) {
        let len = i32::try_from(content.len()).expect("a short frame");
        let frame = [&len.to_be_bytes(), content].concat();
        let tree = match self.write(&frame).and_then(|()| self.frame()) {
            Ok(answer) => Tree::word(format!("{:?}", &answer[4.min(answer.len())..])),
            Err(e) => Tree::word(self.failed(&e)),
        };
        self.steps.push((step.to_owned(), tree));
    }

    /// Asks, and notes nothing.
    pub(crate) fn ask<'a, R>(&mut self, request: &R, version: i16) -> Result<R::Response, String>
    where
        R: RequestMessage<'a>,
        R::Response: Message<'a>,
    {
        self.correlation += 1;
        let frame = request.request_frame(version, self.correlation, Some("differential"));
        let frame = frame.into_bytes().unwrap_or_else(|_| panic!("requests have no holes"));
        let content: &'static [u8] = match self.write(&frame).and_then(|()| self.frame()) {
            Ok(content) => content.leak(),
            Err(e) => return Err(self.failed(&e)),
        };
        let (header, body) =
            ResponseHeader::decode(content, R::API, version).map_err(|e| e.to_string())?;
        if header.correlation_id != self.correlation {
            return Err(format!(
                "answer {} to request {}",
                header.correlation_id, self.correlation
            ));
        }
        R::Response::decode_body(body, version).map_err(|e| format!("not decodable: {e}"))
    }

    fn failed(&mut self, e: &NoAnswer) -> String {
        self.connection = None;
        match e {
            NoAnswer::Closed => "the connection is closed".to_owned(),
            NoAnswer::Silent => "silence".to_owned(),
        }
    }

    fn write(&mut self, frame: &[u8]) -> Result<(), NoAnswer> {
        if self.connection.is_none() {
            let to = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
            let connection =
                TcpStream::connect_timeout(&to, PATIENCE).map_err(|_| NoAnswer::Closed)?;
            connection.set_read_timeout(Some(PATIENCE)).map_err(|_| NoAnswer::Closed)?;
            connection.set_nodelay(true).map_err(|_| NoAnswer::Closed)?;
            self.connection = Some(connection);
        }
        let connection = self.connection.as_mut().ok_or(NoAnswer::Closed)?;
        connection.write_all(frame).map_err(|_| NoAnswer::Closed)
    }

    fn frame(&mut self) -> Result<Vec<u8>, NoAnswer> {
        let connection = self.connection.as_mut().ok_or(NoAnswer::Closed)?;
        let why = |e: io::Error| match e.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => NoAnswer::Silent,
            _ => NoAnswer::Closed,
        };
        let mut prefix = [0; 4];
        connection.read_exact(&mut prefix).map_err(why)?;
        let mut content = vec![0; frame_len(prefix, FRAME_MAX).map_err(|_| NoAnswer::Closed)?];
        connection.read_exact(&mut content).map_err(why)?;
        Ok(content)
    }

    /// The versions that it serves, by key.
    pub(crate) fn served(&mut self) -> Result<Vec<(ApiKey, i16, i16)>, String> {
        let answer = self.ask(&api_versions::Request::default(), 0)?;
        let row = |v: api_versions::ApiVersion| {
            ApiKey::from_code(v.api_key).map(|key| (key, v.min_version, v.max_version))
        };
        Ok(answer.api_keys.iter().filter_map(row).collect())
    }

    /// Creates a topic of this case and waits until each partition can be asked something; nothing is noted.
    pub(crate) fn create(
        &mut self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> &'static str {
        let name = self.name(name);
        let config = |(name, value): &(&'static str, &'static str)| create_topics::Config {
            name,
            value: Some(value),
        };
        let configs: Vec<(&'static str, &'static str)> = configs
            .iter()
            .map(|(n, v)| (&*(*n).to_owned().leak(), &*(*v).to_owned().leak()))
            .collect();
        let topic = create_topics::Topic {
            name,
            num_partitions: partitions,
            replication_factor: 1,
            configs: configs.iter().map(config).collect(),
            ..Default::default()
        };
        let request = create_topics::Request { topics: vec![topic].into(), ..Default::default() };
        let answer = self.ask(&request, 5).unwrap_or_default();
        let code = answer.topics.first().map(|t| t.error_code);
        if code != Some(ErrorCode::None) {
            self.steps.push(("create".to_owned(), Tree::word(format!("{name} failed: {code:?}"))));
        }
        self.wait_for(name, 0..partitions);
        name
    }

    /// The id of a topic, zero if there is none; nothing is noted, but that this peer has this id.
    pub(crate) fn topic_id(&mut self, name: &'static str) -> Uuid {
        let asked = metadata::TopicRequest { name: Some(name), ..Default::default() };
        let request = metadata::Request {
            topics: Some(vec![asked].into()),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let answer = self.ask(&request, 12).unwrap_or_default();
        let id = answer.topics.first().map(|t| t.topic_id).unwrap_or_default();
        self.rules.know(id);
        id
    }

    /// Deletes a topic and waits until it is gone; nothing is noted.
    pub(crate) fn delete(&mut self, name: &'static str) {
        let request = delete_topics::Request {
            topic_names: vec![name].into(),
            timeout_ms: 10_000,
            ..Default::default()
        };
        let _ = self.ask(&request, 5);
        let begun = Instant::now();
        while !self.topic_id(name).is_zero() && begun.elapsed() < PATIENCE {
            std::thread::sleep(POLL);
        }
    }

    /// Waits until these partitions answer; nothing is noted.
    pub(crate) fn wait_for(&mut self, name: &'static str, partitions: std::ops::Range<i32>) {
        let partition = |partition_index| list_offsets::Partition {
            partition_index,
            timestamp: list_offsets::LATEST,
            ..Default::default()
        };
        let topic = list_offsets::Topic { name, partitions: partitions.map(partition).collect() };
        let request = list_offsets::Request {
            replica_id: -1,
            topics: vec![topic].into(),
            ..Default::default()
        };
        let begun = Instant::now();
        loop {
            let answer = self.ask(&request, 1).unwrap_or_default();
            let codes = answer
                .topics
                .iter()
                .flat_map(|t| t.partitions.iter().map(|p| p.error_code).collect::<Vec<_>>());
            let codes: Vec<ErrorCode> = codes.collect();
            if !codes.is_empty() && codes.iter().all(|c| *c == ErrorCode::None) {
                return;
            }
            if begun.elapsed() > PATIENCE {
                let step = Tree::word(format!("{name} is not served: {codes:?}"));
                self.steps.push(("create".to_owned(), step));
                return;
            }
            std::thread::sleep(POLL);
        }
    }
}
