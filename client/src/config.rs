//! Every bound and every waiting time, with the reason for its default. Kafka's name of a setting is given where it
//! differs.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rillway_wire::batch::Codec;

/// Where a broker listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// A name, or an address without brackets.
    pub host: String,
    pub port: u16,
}

/// A text that is not `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not HOST:PORT, as in localhost:9092 or [::1]:9092")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = || AddressError(text.chars().take(300).collect());
        let (host, port) = text.rsplit_once(':').ok_or_else(error)?;
        let bracketed = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let host = bracketed.unwrap_or(host);
        if host.is_empty() || (bracketed.is_none() && host.contains(':')) {
            return Err(error());
        }
        let port = port.parse().map_err(|_| error())?;
        Ok(Self { host: host.to_string(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// What holds for every connection.
#[derive(Clone, Debug)]
pub struct Config {
    /// Asked first, one after the other, until one tells the others.
    pub bootstrap: Vec<Address>,
    /// Shown in the broker's logs and quotas.
    pub client_id: String,
    /// For opening a connection, names and handshake included.
    pub connect_timeout: Duration,
    /// An answer that takes longer ends its connection, since nothing behind it could be told apart from it.
    pub request_timeout: Duration,
    /// Before a retry; doubles with every failure in a row up to `max_backoff`.
    pub backoff: Duration,
    pub max_backoff: Duration,
    /// Metadata older than this is fetched anew, to learn of brokers and leaders before an error tells of them.
    pub metadata_max_age: Duration,
    /// For calls ([`Call`](crate::Call)), all their retries included.
    pub call_timeout: Duration,
    /// Largest answer that is accepted, in bytes. A claim beyond it ends the connection before memory is taken for it.
    pub max_frame: usize,
}

impl Config {
    /// The defaults.
    #[must_use]
    pub fn new(bootstrap: Vec<Address>) -> Self {
        Self {
            bootstrap,
            client_id: "rillway".to_string(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(1),
            metadata_max_age: Duration::from_secs(300),
            call_timeout: Duration::from_secs(15),
            // A whole batch comes even when it is larger than what was asked for; Kafka's own limit on a request is 100 MiB.
            max_frame: 100 << 20,
        }
    }
}

/// When a batch counts as delivered. `acks=0` is absent on purpose: nothing could be promised for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// The leader has it. Not idempotent here, so one batch per partition is on its way at a time, which keeps the
    /// order; a retry may write a batch twice.
    Leader,
    /// Every in-sync replica has it. Idempotent: five batches per partition on their way, no duplicates, in order.
    All,
}

/// How to produce.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    pub acks: Acks,
    pub codec: Codec,
    /// A batch is closed when a record would take it beyond this many bytes before compression (`batch.size`). Kafka's
    /// `message.max.bytes` is 1,048,588, which this must not exceed with incompressible records.
    pub batch_bytes: usize,
    /// How long a batch waits for more records (`linger.ms`). It waits longer when five others are on their way.
    pub linger: Duration,
    /// Most bytes of records that are not delivered yet (`buffer.memory`); beyond it, sending waits.
    pub buffer_bytes: usize,
    /// A request takes batches until it is larger than this (`max.request.size`).
    pub request_bytes: usize,
    /// Produce requests on their way to one node (`max.in.flight.requests.per.connection`). A node is a core.
    pub requests_per_node: usize,
    /// From the first record of a batch to its failure, all retries included (`delivery.timeout.ms`).
    pub delivery_timeout: Duration,
    /// How long the broker may wait for its replicas (`request.timeout.ms` in the request).
    pub replica_timeout: Duration,
}

impl Default for ProducerConfig {
    fn default() -> Self {
        Self {
            acks: Acks::All,
            codec: Codec::None,
            batch_bytes: 1_000_000,
            linger: Duration::from_millis(5),
            buffer_bytes: 64 << 20,
            request_bytes: 4 << 20,
            requests_per_node: 5,
            delivery_timeout: Duration::from_secs(120),
            replica_timeout: Duration::from_secs(30),
        }
    }
}

/// How to fetch.
#[derive(Clone, Debug)]
pub struct FetcherConfig {
    /// How long a broker may wait for `min_bytes`.
    pub max_wait: Duration,
    pub min_bytes: i32,
    /// Most bytes of one answer; its first batch comes whole whatever its size.
    pub max_bytes: i32,
    /// Most bytes of one partition in an answer.
    pub partition_bytes: i32,
    /// No further request is sent while this many fetched bytes wait to be taken. What is on its way comes on top:
    /// `max_bytes` per node.
    pub buffer_bytes: usize,
    /// Compare the checksum of every batch with its bytes.
    pub check_crcs: bool,
}

impl Default for FetcherConfig {
    fn default() -> Self {
        Self {
            max_wait: Duration::from_millis(500),
            min_bytes: 1,
            max_bytes: 8 << 20,
            partition_bytes: 4 << 20,
            buffer_bytes: 32 << 20,
            check_crcs: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_host_and_port_and_nothing_else() {
        for good in ["localhost:9092", "127.0.0.1:1", "[::1]:9092"] {
            assert_eq!(good.parse::<Address>().map(|a| a.to_string()), Ok(good.to_string()));
        }
        for bad in ["", "localhost", ":9092", "::1:9092", "host:", "host:70000", "[]:1"] {
            assert!(bad.parse::<Address>().is_err(), "{bad:?}");
        }
    }
}
