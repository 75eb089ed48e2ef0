//! One connection: the handshake, the numbers of requests, and the answers that are due.
//!
//! A broker answers the requests of a connection in their order, so the oldest request in flight is the only one whose
//! answer is accepted. Anything else means that the two sides disagree on what was said, and ends the connection.
//!
//! `P` is what the owner wants to be told with the answer. Bounded by its owner, who counts [`Link::in_flight`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rillway_wire::api::api_versions;
use rillway_wire::{
    ApiKey, DecodeError, ErrorCode, Frame, Message, RequestMessage, ResponseHeader,
};

use super::frames::Frames;
use super::versions::Versions;
use crate::Address;
use crate::error::{Error, Result};

/// The first question; newer versions would tell nothing that is used here.
const VERSIONS_FIRST: i16 = 3;

/// A connection, from the moment it is asked for.
#[derive(Debug)]
pub(crate) struct Link<P> {
    address: Address,
    client_id: Arc<str>,
    max_frame: usize,
    state: State,
    versions: Versions,
    next_correlation: i32,
    in_flight: VecDeque<InFlight<P>>,
    frames: Frames,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// No connection yet, or no answer to ApiVersions.
    Opening {
        deadline: Duration,
    },
    Ready,
}

#[derive(Debug)]
struct InFlight<P> {
    correlation_id: i32,
    api: ApiKey,
    version: i16,
    deadline: Duration,
    /// `None` for the handshake.
    purpose: Option<P>,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer<P> {
    pub(crate) version: i16,
    /// The whole frame without its length; `body` starts behind the header.
    pub(crate) frame: Bytes,
    pub(crate) body: usize,
    pub(crate) purpose: P,
}

/// What came of a frame.
#[derive(Debug)]
pub(crate) enum Received<P> {
    /// The handshake goes on: send this.
    Again(Frame),
    /// The handshake is over: requests may be sent.
    Ready,
    Answer(Answer<P>),
}

impl<P> Link<P> {
    /// A connection that shall be ready at `deadline`, handshake included.
    pub(crate) fn new(
        address: Address,
        client_id: Arc<str>,
        max_frame: usize,
        deadline: Duration,
    ) -> Self {
        Self {
            address,
            client_id,
            max_frame,
            state: State::Opening { deadline },
            versions: Versions::default(),
            next_correlation: 0,
            in_flight: VecDeque::new(),
            frames: Frames::default(),
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// What the requests without an answer were for, oldest first.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = &P> {
        self.in_flight.iter().filter_map(|f| f.purpose.as_ref())
    }

    /// The same, when the connection has ended.
    pub(super) fn into_in_flight(self) -> impl Iterator<Item = P> {
        self.in_flight.into_iter().filter_map(|f| f.purpose)
    }

    /// When the connection has taken too long.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        match self.state {
            State::Opening { deadline } => Some(deadline),
            State::Ready => self.in_flight.front().map(|f| f.deadline),
        }
    }

    /// The connection is open: the first request.
    pub(crate) fn opened(&mut self) -> Frame {
        self.ask_versions(VERSIONS_FIRST)
    }

    fn ask_versions(&mut self, version: i16) -> Frame {
        let request = api_versions::Request {
            client_software_name: "rillway",
            client_software_version: env!("CARGO_PKG_VERSION"),
        };
        self.enqueue(&request, version, Duration::MAX, None)
    }

    /// The version in which this broker is asked.
    ///
    /// # Errors
    /// When there is no common one.
    pub(crate) fn version(&self, api: ApiKey) -> Result<i16> {
        self.versions.pick(api)
    }

    /// Encodes a request and expects its answer until `deadline`.
    pub(super) fn request<'a, R: RequestMessage<'a>>(
        &mut self,
        request: &R,
        version: i16,
        deadline: Duration,
        purpose: P,
    ) -> Frame {
        self.enqueue(request, version, deadline, Some(purpose))
    }

    /// Expects the answer to a request that was encoded before; returns the number to put into it.
    pub(crate) fn expect(
        &mut self,
        api: ApiKey,
        version: i16,
        deadline: Duration,
        purpose: P,
    ) -> i32 {
        let correlation_id = self.next_correlation;
        self.next_correlation = correlation_id.wrapping_add(1);
        let purpose = Some(purpose);
        self.in_flight.push_back(InFlight { correlation_id, api, version, deadline, purpose });
        correlation_id
    }

    fn enqueue<'a, R: RequestMessage<'a>>(
        &mut self,
        request: &R,
        version: i16,
        deadline: Duration,
        purpose: Option<P>,
    ) -> Frame {
        let correlation_id = self.next_correlation;
        self.next_correlation = correlation_id.wrapping_add(1);
        self.in_flight.push_back(InFlight {
            correlation_id,
            api: R::API,
            version,
            deadline,
            purpose,
        });
        request.request_frame(version, correlation_id, Some(&self.client_id))
    }

    /// Lends the vector to append to.
    pub(crate) fn lend(&mut self) -> Vec<u8> {
        self.frames.lend()
    }

    /// Takes bytes as they came.
    pub(crate) fn extend(&mut self, bytes: Vec<u8>) {
        self.frames.extend(bytes);
    }

    /// How many bytes to read next.
    pub(crate) fn want(&self) -> usize {
        self.frames.want(self.max_frame)
    }

    /// The next thing that the received bytes say.
    ///
    /// # Errors
    /// Every error ends the connection.
    pub(crate) fn next(&mut self) -> Result<Option<Received<P>>> {
        let frame = self.frames.next(self.max_frame);
        let Some(frame) = frame.map_err(|e| self.decode_error("a request", e))? else {
            return Ok(None);
        };
        let Some(due) = self.in_flight.pop_front() else {
            let got = correlation_id(&frame);
            return Err(self.correlation_error(got, None));
        };
        let answered = self.open(&due, &frame);
        let body = match answered {
            Ok(body) => body,
            Err(error) => {
                // The owner still has to learn that this request failed with the others.
                self.in_flight.push_front(due);
                return Err(error);
            }
        };
        let Some(purpose) = due.purpose else {
            return self.versions_answered(&frame[body..], due.version).map(Some);
        };
        Ok(Some(Received::Answer(Answer { version: due.version, frame, body, purpose })))
    }

    /// Where the body starts.
    fn open(&self, due: &InFlight<P>, frame: &Bytes) -> Result<usize> {
        let (header, body) = ResponseHeader::decode(frame, due.api, due.version)
            .map_err(|e| self.decode_error(due.api.name(), e))?;
        if header.correlation_id != due.correlation_id {
            return Err(self.correlation_error(header.correlation_id, Some(due.correlation_id)));
        }
        Ok(frame.len() - body.len())
    }

    fn versions_answered(&mut self, body: &[u8], version: i16) -> Result<Received<P>> {
        let answer = api_versions::Response::decode_answer(body, version)
            .map_err(|e| self.decode_error(ApiKey::ApiVersions.name(), e))?;
        match answer.error_code {
            ErrorCode::None => {
                self.versions = Versions::new(&answer);
                self.state = State::Ready;
                Ok(Received::Ready)
            }
            // The answer names the range that would have done, but brokers older than 2.4 leave it out; every broker
            // knows version 0, and it says all that is needed.
            ErrorCode::UnsupportedVersion if version > 0 => {
                Ok(Received::Again(self.ask_versions(0)))
            }
            code => Err(Error::Broker {
                doing: format!("asking {} for its versions", self.address),
                code,
                message: None,
            }),
        }
    }

    /// For answers that the owner could not decode.
    pub(crate) fn decode_error(&self, api: &'static str, source: DecodeError) -> Error {
        Error::Decode { address: self.address.clone(), api, source }
    }

    fn correlation_error(&self, got: i32, expected: Option<i32>) -> Error {
        Error::Correlation { address: self.address.clone(), got, expected }
    }
}

/// The number in front of an answer that nobody asked for; -1 when there is none.
fn correlation_id(frame: &[u8]) -> i32 {
    frame.first_chunk::<4>().map_or(-1, |bytes| i32::from_be_bytes(*bytes))
}

impl<P> Answer<P> {
    /// Decodes the body.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn decode<'a, R: Message<'a>>(&'a self) -> Result<R, DecodeError> {
        R::decode_body(&self.frame[self.body..], self.version)
    }
}
