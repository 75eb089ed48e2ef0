//! A native Kafka client: produce, fetch and a few admin calls, on one core of `rillway-io`.
//!
//! - [`core`]: the client without sockets and clocks. Bytes and time go in; bytes, timers and results come out.
//! - [`Client`]: the same on a [`rillway_io::Runtime`], real or simulated.
//! - [`Pipe`]: one connection with many prepared requests in flight, for whoever measures a broker.
//! - [`Config`], [`ProducerConfig`], [`FetcherConfig`]: every bound there is.
//!
//! Absent on purpose: membership of consumer groups (they can be looked at, reset and deleted), transactions, TLS and SASL, `acks=0`, and record-level futures (deliveries come
//! per batch, in the order of the records).

mod config;
pub mod core;
mod error;
mod groups;
mod pipe;
mod transport;

pub use config::{Acks, Address, AddressError, Config, FetcherConfig, ProducerConfig};
pub use core::{
    Call, CallAnswer, ConfigInfo, CreatedTopic, Delivery, Fetched, FetchedData, GroupCall,
    GroupInfo, GroupListing, GroupMember, GroupReport, GroupTransition, NewTopic, NodeInfo,
    PartitionInfo, PartitionLag, PartitionOutcomes, TopicInfo, TopicPartition,
};
pub use error::{Error, Result};
pub use pipe::{Answered, Pipe, Prepared};
pub use transport::Client;
