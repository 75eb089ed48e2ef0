//! Kafka's protocol towards clients: connections, versions, and one file per API.
//!
//! Reading order: `connection` (a client's life), `versions` (what is served), `dispatch`, then `apis/`, one file each.
//! Protocol versions stop here: nothing below branches on one.
//!
//! Absent on purpose: files, segments, other cores; `shard` has the doors.

mod admission;
mod advertise;
mod apis;
mod broker_configs;
mod buffers;
mod connection;
mod context;
mod dispatch;
mod error_codes;
mod fetch_sessions;
mod frames;
mod listener;
mod versions;

pub use admission::Admission;
pub use advertise::{Advertised, Door, Nodes, Template};
pub use broker_configs::{BrokerConfig, BrokerConfigs};
pub use context::{Context, Limits};
pub use listener::{Listener, serve, watch_idle};
pub use versions::SERVED;
