//! Headers of requests and responses, and the part of a request that can be read whatever else is wrong with it.
//!
//! | header | fields |
//! |---|---|
//! | request v0 | key, version, correlation id: ControlledShutdown v0 only |
//! | request v1 | and client id |
//! | request v2 | and tagged fields; the client id keeps its 16-bit length |
//! | response v0 | correlation id |
//! | response v1 | and tagged fields |
//!
//! The response of ApiVersions has header v0 in every version: a client that does not know the broker yet must be able
//! to read it (KIP-511).

use crate::codec::{Context, DecodeErrorKind, Reader, Wire, Writer};
use crate::{ApiKey, DecodeError};

/// The header of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// As sent; [`ApiKey::from_code`] says whether Kafka knows it.
    pub api_key: i16,
    pub api_version: i16,
    /// Chosen by the client, returned with the response.
    pub correlation_id: i32,
    pub client_id: Option<&'a str>,
}

/// The first eight bytes of every request, which have never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPeek {
    pub api_key: i16,
    pub api_version: i16,
    pub correlation_id: i32,
}

/// The versions of the two headers that go with a version of an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderVersion {
    pub request: i16,
    pub response: i16,
}

/// The header versions for an API and its version, also for versions that nobody serves.
#[must_use]
pub const fn header_version(api: ApiKey, version: i16) -> HeaderVersion {
    let flexible = api.is_flexible(version);
    let request = match api {
        ApiKey::ControlledShutdown if version == 0 => 0,
        _ if flexible => 2,
        _ => 1,
    };
    let response = match api {
        ApiKey::ApiVersions => 0,
        _ if flexible => 1,
        _ => 0,
    };
    HeaderVersion { request, response }
}

const PLAIN: Context = Context { version: 0, flexible: false };

impl RequestPeek {
    /// Reads key, version and correlation id: enough to answer `UNSUPPORTED_VERSION` to anything.
    ///
    /// # Errors
    /// Fewer than eight bytes.
    pub fn decode(content: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(content);
        peek(&mut from).map_err(|e| e.in_field("RequestHeader"))
    }
}

fn peek(from: &mut Reader<'_>) -> Result<RequestPeek, DecodeError> {
    Ok(RequestPeek {
        api_key: i16::from_be_bytes(from.fixed()?),
        api_version: i16::from_be_bytes(from.fixed()?),
        correlation_id: i32::from_be_bytes(from.fixed()?),
    })
}

impl<'a> RequestHeader<'a> {
    /// Decodes the header from the content of a frame (without its length) and returns the body behind it.
    ///
    /// # Errors
    /// A key that Kafka does not know, since the form of its header is unknown then; a header that is cut off or
    /// malformed. [`RequestPeek::decode`] still reads the correlation id of such a frame.
    pub fn decode(content: &'a [u8]) -> Result<(Self, &'a [u8]), DecodeError> {
        let mut from = Reader::new(content);
        let header = Self::read(&mut from).map_err(|e| e.in_field("RequestHeader"))?;
        Ok((header, from.rest()))
    }

    fn read(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let RequestPeek { api_key, api_version, correlation_id } = peek(from)?;
        let api = ApiKey::from_code(api_key).ok_or(DecodeErrorKind::ApiKey(api_key))?;
        let form = header_version(api, api_version).request;
        let client_id = if form >= 1 { Wire::decode(from, PLAIN)? } else { None };
        if form >= 2 {
            from.tags(|_, _| Ok(false))?;
        }
        Ok(Self { api_key, api_version, correlation_id, client_id })
    }

    /// Appends the header in the version that goes with its API and version.
    ///
    /// # Panics
    /// When Kafka has no such API key.
    pub fn encode(&self, to: &mut Writer) {
        let api =
            ApiKey::from_code(self.api_key).expect("requests are only encoded for APIs of Kafka");
        let form = header_version(api, self.api_version).request;
        self.api_key.encode(to, PLAIN);
        self.api_version.encode(to, PLAIN);
        self.correlation_id.encode(to, PLAIN);
        if form >= 1 {
            self.client_id.encode(to, PLAIN);
        }
        if form >= 2 {
            to.varint(0);
        }
    }
}

/// The header of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseHeader {
    /// That of the request.
    pub correlation_id: i32,
}

impl ResponseHeader {
    /// Decodes the header from the content of a frame (without its length) and returns the body behind it.
    ///
    /// # Errors
    /// A header that is cut off or malformed.
    pub fn decode(content: &[u8], api: ApiKey, version: i16) -> Result<(Self, &[u8]), DecodeError> {
        let mut from = Reader::new(content);
        let header =
            Self::read(&mut from, api, version).map_err(|e| e.in_field("ResponseHeader"))?;
        Ok((header, from.rest()))
    }

    fn read(from: &mut Reader<'_>, api: ApiKey, version: i16) -> Result<Self, DecodeError> {
        let correlation_id = i32::from_be_bytes(from.fixed()?);
        if header_version(api, version).response >= 1 {
            from.tags(|_, _| Ok(false))?;
        }
        Ok(Self { correlation_id })
    }

    /// Appends the header in the version that goes with the API and its version.
    pub fn encode(&self, to: &mut Writer, api: ApiKey, version: i16) {
        self.correlation_id.encode(to, PLAIN);
        if header_version(api, version).response >= 1 {
            to.varint(0);
        }
    }
}
