//! rdkafka as a member of a group; ci/clients/member.py says what a member does and prints.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use shared::{Error, HEARTBEAT_MS, METADATA_MS, Wish, say};

type Place = (String, i32);

/// What the member has, and what it has shown and not committed yet: where to go on.
#[derive(Default)]
struct State {
    held: BTreeSet<Place>,
    shown: BTreeMap<Place, i64>,
}

#[derive(Default)]
struct Membership(Mutex<State>);

impl ClientContext for Membership {}

impl ConsumerContext for Membership {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(places) = rebalance {
            self.commit(consumer);
            let mut state = self.state();
            for place in places.elements() {
                let place = (place.topic().to_owned(), place.partition());
                state.held.remove(&place);
                state.shown.remove(&place);
            }
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(places) = rebalance {
            let mut state = self.state();
            for place in places.elements() {
                state.held.insert((place.topic().to_owned(), place.partition()));
            }
            let all: String = state.held.iter().map(|(t, p)| format!(" {t}:{p}")).collect();
            say(format_args!("assigned{all}"));
        }
    }
}

impl Membership {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of the lock panics")
    }

    /// Without an answer, what was shown stays uncommitted and is tried again.
    fn commit(&self, consumer: &BaseConsumer<Self>) {
        let shown = self.state().shown.clone();
        if shown.is_empty() {
            return;
        }
        let mut offsets = TopicPartitionList::new();
        for ((topic, partition), offset) in &shown {
            let added = offsets.add_partition_offset(topic, *partition, Offset::Offset(*offset));
            added.expect("offsets of records are valid");
        }
        if let Err(why) = consumer.commit(&offsets, CommitMode::Sync) {
            eprintln!("commit: {why}");
            return;
        }
        for ((_, partition), offset) in shown {
            say(format_args!("committed {partition} {offset}"));
        }
        self.state().shown.clear();
    }
}

pub fn join(bootstrap: &str, wish: &Wish) -> Result<(), Error> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("group.id", &wish.group)
        .set("session.timeout.ms", wish.session_ms.to_string())
        .set("heartbeat.interval.ms", HEARTBEAT_MS.to_string())
        .set("topic.metadata.refresh.interval.ms", METADATA_MS.to_string())
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false");
    if let Some(assignor) = &wish.assignor {
        config.set("partition.assignment.strategy", assignor);
    }
    if let Some(instance) = &wish.instance {
        config.set("group.instance.id", instance);
    }
    let leave = shared::leave();
    let consumer: BaseConsumer<Membership> = config.create_with_context(Membership::default())?;
    consumer.subscribe(&wish.topics.iter().map(String::as_str).collect::<Vec<_>>())?;
    while !leave.load(Ordering::Relaxed) {
        let Some(polled) = consumer.poll(Duration::from_millis(100)) else { continue };
        match polled {
            Ok(m) => {
                let value = String::from_utf8_lossy(m.payload().unwrap_or_default());
                say(format_args!("{} {} {value}", m.partition(), m.offset()));
                let place = (m.topic().to_owned(), m.partition());
                consumer.context().state().shown.insert(place, m.offset() + 1);
            }
            Err(why) => eprintln!("{why}"),
        }
        consumer.context().commit(&consumer);
    }
    // Dropped, it leaves the group.
    Ok(())
}
