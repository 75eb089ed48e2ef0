//! A connection that speaks Kafka's protocol: frames out, frames in, each within the client's patience.

use std::rc::Rc;
use std::time::Duration;

use rillway_io::{Conn, IoList, Runtime};
use rillway_wire::{Message, RequestMessage, ResponseHeader};

use crate::hub::Hub;

/// The outcome is unknown: the connection broke, or the answer did not come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

/// See the module. Once something is lost, nothing more is asked on it.
pub(crate) struct Client {
    hub: Rc<Hub>,
    rt: Runtime,
    conn: Conn,
    input: Vec<u8>,
    next: i32,
    /// Answers count as operations of the run.
    counted: bool,
    /// How much longer than others it waits for an answer.
    more: Duration,
}

/// The content of a response frame.
pub(crate) struct Answer {
    correlation: i32,
    content: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(hub: &Rc<Hub>, rt: &Runtime, port: u16) -> Result<Client, Lost> {
        let to = std::net::SocketAddr::from(([10, 200, 0, 1], port));
        let connected = rt.timeout(hub.patience.get(), rt.connect(to)).await;
        let conn = connected.ok_or(Lost)?.map_err(|_| Lost)?;
        Ok(Client {
            hub: Rc::clone(hub),
            rt: rt.clone(),
            conn,
            input: Vec::new(),
            next: 1,
            counted: true,
            more: Duration::ZERO,
        })
    }

    /// A member's: its answers are no operations.
    pub(crate) fn of_member(self) -> Client {
        Client { counted: false, ..self }
    }

    /// From now on it waits for answers that much longer than the patience of all.
    pub(crate) fn wait_longer(&mut self, more: Duration) {
        self.more = more;
    }

    /// Sends a request; the answer has this correlation id.
    pub(crate) async fn send<'a>(
        &mut self,
        request: &impl RequestMessage<'a>,
        version: i16,
    ) -> Result<i32, Lost> {
        let correlation = self.next;
        self.next += 1;
        let frame = request.request_frame(version, correlation, Some("sim"));
        let mut list = IoList::new();
        list.push_bytes(frame.into_bytes().map_err(|_| Lost)?);
        let sent = self.rt.timeout(self.hub.patience.get(), self.conn.send(list)).await;
        sent.ok_or(Lost)?.map_err(|_| Lost)?;
        Ok(correlation)
    }

    /// The next answer.
    pub(crate) async fn receive(&mut self, expected: i32) -> Result<Answer, Lost> {
        let deadline = self.rt.now() + self.hub.patience.get() + self.more;
        loop {
            if let Some(prefix) = self.input.first_chunk::<4>() {
                let end = 4 + u32::from_be_bytes(*prefix) as usize;
                if self.input.len() >= end {
                    let content = self.input[4..end].to_vec();
                    self.input.drain(..end);
                    if self.counted {
                        self.hub.operation();
                    }
                    return Ok(Answer { correlation: expected, content });
                }
            }
            let left = deadline - self.rt.now();
            let received = self.rt.timeout(left, self.conn.recv(&mut self.input, 1 << 20)).await;
            if received.ok_or(Lost)?.map_err(|_| Lost)? == 0 {
                return Err(Lost);
            }
        }
    }

    /// One request and its answer.
    pub(crate) async fn call<'a>(
        &mut self,
        request: &impl RequestMessage<'a>,
        version: i16,
    ) -> Result<Answer, Lost> {
        let correlation = self.send(request, version).await?;
        self.receive(correlation).await
    }
}

impl Answer {
    /// The body. A response that does not decode is a violation and not an outcome.
    ///
    /// # Panics
    /// If it does not decode, or answers another request.
    pub(crate) fn body<'a, R: Message<'a>>(&'a self, version: i16) -> R {
        let (header, body) =
            ResponseHeader::decode(&self.content, R::API, version).expect("a response header");
        assert_eq!(
            header.correlation_id, self.correlation,
            "answers come in the order of the requests"
        );
        R::decode_body(body, version).expect("a response")
    }
}
