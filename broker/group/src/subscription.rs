//! The topics that a member of protocol type `consumer` asks for (`ConsumerProtocolSubscription`).
//!
//! Every version begins with what version 0 has, by the promise of Kafka's schema, so that is all that is read: newer
//! versions need nothing here. Pure; allocates at most the names that the bytes hold.

use std::collections::BTreeSet;

use rillway_wire::codec::{Context, Reader, Wire};

const V0: Context = Context { version: 0, flexible: false };

/// The subscribed topics, or `None` when the bytes are no subscription.
#[must_use]
pub fn subscribed_topics(metadata: &[u8]) -> Option<BTreeSet<String>> {
    let mut from = Reader::new(metadata);
    let version = i16::decode(&mut from, V0).ok()?;
    if version < 0 {
        return None;
    }
    let count = from.long_len().ok()??;
    let mut topics = BTreeSet::new();
    for _ in 0..count {
        topics.insert(<&str>::decode(&mut from, V0).ok()?.to_owned());
    }
    Some(topics)
}
