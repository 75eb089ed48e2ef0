//! What clients rely on and have been burnt by, one scenario each: the whole broker in the simulated world, and a
//! client that sends raw requests. The traps are those of Kafka's own history and of other brokers.

mod client;

mod configs;
mod connections;
mod delete_records;
mod describe;
mod doors;
mod epochs;
mod fetch;
mod fetch_sessions;
mod field;
mod group_client;
mod groups;
mod kafka;
mod metadata;
mod offsets;
mod partitions;
mod produce;
mod topic_ids;
mod topics;
mod transfer;
mod versions;
