//! Requests and responses as frames: length, header, body.
//!
//! A frame on a connection is four bytes of length and then what this module calls a frame's content: the header,
//! whose version follows from the API and its version, and the body, which is a table in [`crate::api`].

use std::ops::RangeInclusive;

use crate::codec::{Context, DecodeErrorKind, Frame, Reader, Wire, Writer};
use crate::header::{RequestHeader, ResponseHeader};
use crate::{ApiKey, DecodeError};

/// Room for the answer to a small produce, commit or heartbeat, so that it does not grow a byte at a time.
const SMALL_RESPONSE: usize = 256;

/// The body of a request or a response.
pub trait Message<'a>: Wire<'a> {
    const API: ApiKey;
    /// The versions this crate can encode and decode; a broker may serve fewer.
    const VERSIONS: RangeInclusive<i16>;

    /// Decodes a body that fills `body` to the last byte.
    ///
    /// # Errors
    /// What is wrong, and in which field; a version outside [`Self::VERSIONS`]; bytes left over.
    fn decode_body(body: &'a [u8], version: i16) -> Result<Self, DecodeError> {
        let (message, rest) = Self::decode_prefix(body, version)?;
        Reader::new(rest).finish().map_err(|e| e.in_field(Self::API.name()))?;
        Ok(message)
    }

    /// Decodes a body from the front of `body`, and returns what stands behind it.
    ///
    /// # Errors
    /// As [`Self::decode_body`], but for bytes left over.
    fn decode_prefix(body: &'a [u8], version: i16) -> Result<(Self, &'a [u8]), DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            let kind = DecodeErrorKind::Version(version);
            return Err(DecodeError { kind, field: Self::API.name() });
        }
        let mut from = Reader::new(body);
        let message = Self::decode(&mut from, Self::context(version))?;
        Ok((message, from.rest()))
    }

    /// Appends the body.
    ///
    /// # Panics
    /// When this crate does not know the version: who encodes has chosen it.
    fn encode_body(&self, to: &mut Writer, version: i16) {
        assert!(Self::VERSIONS.contains(&version), "{} has no version {version}", Self::API);
        self.encode(to, Self::context(version));
    }

    /// What a version means to the fields.
    #[must_use]
    fn context(version: i16) -> Context {
        Context { version, flexible: Self::API.is_flexible(version) }
    }
}

/// The body of a request.
pub trait RequestMessage<'a>: Message<'a> {
    type Response;

    /// The whole frame of a request, length included.
    ///
    /// # Panics
    /// As [`Message::encode_body`].
    fn request_frame(&self, version: i16, correlation_id: i32, client_id: Option<&str>) -> Frame {
        let mut to = Writer::new(vec![0; 4]);
        let header = RequestHeader {
            api_key: Self::API.code(),
            api_version: version,
            correlation_id,
            client_id,
        };
        header.encode(&mut to);
        self.encode_body(&mut to, version);
        finish(to)
    }
}

/// The body of a response.
pub trait ResponseMessage<'a>: Message<'a> {
    /// The whole frame of a response, length included.
    ///
    /// # Panics
    /// As [`Message::encode_body`].
    fn response_frame(&self, version: i16, correlation_id: i32) -> Frame {
        let mut bytes = Vec::with_capacity(SMALL_RESPONSE);
        bytes.extend_from_slice(&[0; 4]);
        let mut to = Writer::new(bytes).cutting();
        ResponseHeader { correlation_id }.encode(&mut to, Self::API, version);
        self.encode_body(&mut to, version);
        finish(to)
    }
}

/// Reads the length in front of a frame, before any memory is taken for the frame.
///
/// # Errors
/// A negative length, or one above `limit` bytes (Kafka's `socket.request.max.bytes`: 100 MiB).
pub fn frame_len(prefix: [u8; 4], limit: usize) -> Result<usize, DecodeError> {
    let len = i32::from_be_bytes(prefix);
    let kind = match usize::try_from(len) {
        Ok(len) if len <= limit => return Ok(len),
        Ok(len) => DecodeErrorKind::Frame { len, limit },
        Err(_) => DecodeErrorKind::Length(i64::from(len)),
    };
    Err(DecodeError { kind, field: "frame length" })
}

fn finish(to: Writer) -> Frame {
    let mut frame = to.into_frame();
    frame.set_length();
    frame
}
