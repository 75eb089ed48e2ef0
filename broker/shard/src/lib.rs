//! rillway-shard
