//! One connection with many requests in flight and no policy: no batching, no retries, no metadata.
//!
//! For whoever measures a broker: a request is encoded once and sent many times with another number in it, and what
//! it was for comes back with its answer. Lives on the core that opened it; one task may send while another receives.
//! How much is in flight is up to the caller, who counts. Absent on purpose: everything that [`Client`](crate::Client)
//! does.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use rillway_io::{Conn, IoList, Runtime};
use rillway_wire::{ApiKey, DecodeError, Frame, Message, RequestMessage};

use crate::Address;
use crate::config::Config;
use crate::core::link::{Answer, Link, Received};
use crate::error::{Error, Result};
use crate::transport::link::connect;

/// Where the number of a request stands in its frame: behind length, key and version.
const CORRELATION: std::ops::Range<usize> = 8..12;

/// A connection whose handshake is over. `P` is what comes back with an answer.
pub struct Pipe<P> {
    conn: Conn,
    link: RefCell<Link<P>>,
    address: Address,
    client_id: Arc<str>,
}

/// A request that was encoded once, to be sent any number of times.
#[derive(Clone, Debug)]
pub struct Prepared {
    api: ApiKey,
    version: i16,
    frame: Vec<u8>,
}

impl Prepared {
    /// Bytes on the wire.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frame.len()
    }

    /// Never: a request has a header.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frame.is_empty()
    }
}

/// The answer to one request.
#[derive(Debug)]
pub struct Answered<P>(Answer<P>);

impl<P> Answered<P> {
    /// What the request was for.
    pub fn purpose(&self) -> &P {
        &self.0.purpose
    }

    /// Decodes the answer.
    ///
    /// # Errors
    /// Bytes that are no such answer.
    pub fn decode<'a, R: Message<'a>>(&'a self) -> Result<R, DecodeError> {
        self.0.decode()
    }
}

impl<P> Pipe<P> {
    /// Connects and agrees on versions, within `config.connect_timeout`.
    ///
    /// # Errors
    /// No connection, no common language, or none in time.
    pub async fn open(rt: &Runtime, config: &Config, address: &Address) -> Result<Self> {
        let opened = rt.timeout(config.connect_timeout, Self::handshake(rt, config, address)).await;
        opened.unwrap_or_else(|| {
            let detail = format!("no answer within {:?}", config.connect_timeout);
            Err(Error::Connect { address: address.clone(), detail })
        })
    }

    async fn handshake(rt: &Runtime, config: &Config, address: &Address) -> Result<Self> {
        let conn = connect(rt, address)
            .await
            .map_err(|detail| Error::Connect { address: address.clone(), detail })?;
        let client_id: Arc<str> = config.client_id.as_str().into();
        let link =
            Link::new(address.clone(), Arc::clone(&client_id), config.max_frame, Duration::MAX);
        let pipe = Self { conn, link: RefCell::new(link), address: address.clone(), client_id };
        let first = pipe.link.borrow_mut().opened();
        pipe.send(bytes_of(first)).await?;
        loop {
            pipe.read().await?;
            let next = pipe.link.borrow_mut().next()?;
            match next {
                Some(Received::Again(frame)) => pipe.send(bytes_of(frame)).await?,
                Some(Received::Ready) => return Ok(pipe),
                Some(Received::Answer(_)) => unreachable!("nothing else was asked"),
                None => {}
            }
        }
    }

    /// Encodes a request in the highest common version.
    ///
    /// # Errors
    /// When there is none.
    pub fn prepare<'a, R: RequestMessage<'a>>(&self, request: &R) -> Result<Prepared> {
        let version = self.link.borrow().version(R::API)?;
        let frame = request.request_frame(version, 0, Some(&self.client_id));
        Ok(Prepared { api: R::API, version, frame: bytes_of(frame) })
    }

    /// Appends a request to what [`Self::send`] will send next, in this order.
    pub fn queue(&self, request: &Prepared, purpose: P, to: &mut Vec<u8>) {
        let mut link = self.link.borrow_mut();
        let number = link.expect(request.api, request.version, Duration::MAX, purpose);
        let start = to.len();
        to.extend_from_slice(&request.frame);
        to[start..][CORRELATION].copy_from_slice(&number.to_be_bytes());
    }

    /// Sends what was queued. Waits until the kernel has all of it.
    ///
    /// # Errors
    /// The connection ended.
    pub async fn send(&self, bytes: Vec<u8>) -> Result<()> {
        let mut list = IoList::new();
        list.push_bytes(bytes);
        self.conn.send(list).await.map_err(|e| self.ended(e.to_string()))
    }

    /// Waits for one read and appends the answers that are whole with it; there may be none.
    ///
    /// # Errors
    /// The connection ended, or its answers make no sense.
    pub async fn receive(&self, answers: &mut Vec<Answered<P>>) -> Result<()> {
        self.read().await?;
        let mut link = self.link.borrow_mut();
        while let Some(received) = link.next()? {
            match received {
                Received::Answer(answer) => answers.push(Answered(answer)),
                Received::Again(_) | Received::Ready => unreachable!("the handshake is over"),
            }
        }
        Ok(())
    }

    /// Asks one question and waits for its answer, with nothing else in flight.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub async fn ask<'a, R: RequestMessage<'a>>(
        &self,
        request: &R,
        purpose: P,
    ) -> Result<Answered<P>> {
        let prepared = self.prepare(request)?;
        let mut bytes = Vec::with_capacity(prepared.len());
        self.queue(&prepared, purpose, &mut bytes);
        self.send(bytes).await?;
        let mut answers = Vec::new();
        loop {
            self.receive(&mut answers).await?;
            if let Some(answer) = answers.pop() {
                return Ok(answer);
            }
        }
    }

    async fn read(&self) -> Result<()> {
        let (mut bytes, want) = {
            let mut link = self.link.borrow_mut();
            // In this order: what is lent says how much is missing.
            let want = link.want();
            (link.lend(), want)
        };
        let got = self.conn.recv(&mut bytes, want).await;
        self.link.borrow_mut().extend(bytes);
        match got {
            Ok(0) => Err(self.ended("the broker closed it".to_string())),
            Ok(_) => Ok(()),
            Err(error) => Err(self.ended(error.to_string())),
        }
    }

    fn ended(&self, detail: String) -> Error {
        Error::Disconnected { address: self.address.clone(), detail }
    }

    /// Ends the connection; who waits on it gets an error.
    pub fn close(&self) {
        self.conn.shutdown();
    }
}

impl<P> std::fmt::Debug for Pipe<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pipe({})", self.address)
    }
}

fn bytes_of(frame: Frame) -> Vec<u8> {
    frame.into_bytes().expect("a request carries its records")
}
