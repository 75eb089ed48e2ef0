//! The client against a broker that loses connections, answers and leaders: nothing is lost, doubled or out of order.

mod fake;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use fake::{Chances, Fake, NODES, TOPIC, port};
use rillway_client::{
    Acks, Address, Client, Config, Error, FetcherConfig, ProducerConfig, TopicPartition,
};
use rillway_io::sim::World;
use rillway_wire::ErrorCode;
use rillway_wire::api::list_offsets::{EARLIEST, LATEST};
use rillway_wire::batch::{batches, records};

const PARTITIONS: usize = 3;

fn setup(seed: u64) -> (World, Rc<Fake>, Client) {
    let world = World::new(seed);
    let fake = Fake::start(&world.client("broker"), PARTITIONS);
    let bootstrap = Address { host: "10.0.0.1".to_string(), port: port(NODES[0]) };
    let config = Config { request_timeout: Duration::from_secs(5), ..Config::new(vec![bootstrap]) };
    let client = Client::new(&world.client("application"), config);
    (world, fake, client)
}

fn value(partition: usize, index: usize) -> Vec<u8> {
    format!("{partition}/{index}").into_bytes()
}

fn small_batches(acks: Acks) -> ProducerConfig {
    ProducerConfig {
        acks,
        batch_bytes: 300,
        buffer_bytes: 20_000,
        request_bytes: 700,
        ..ProducerConfig::default()
    }
}

/// Produces `count` records to each partition and returns the offsets that were acknowledged, by partition.
async fn produce(client: &Client, count: usize) -> BTreeMap<i32, Vec<Option<i64>>> {
    let mut offsets: BTreeMap<i32, Vec<Option<i64>>> = BTreeMap::new();
    let mut take = |delivery: rillway_client::Delivery| {
        let base = delivery.result.expect("every batch is delivered in the end");
        let all = (0..i64::from(delivery.records)).map(|i| base.map(|base| base + i));
        offsets.entry(delivery.at.partition).or_default().extend(all);
    };
    for index in 0..count {
        for partition in 0..PARTITIONS {
            let at = TopicPartition::new(TOPIC, partition as i32);
            let value = value(partition, index);
            while !client.try_send(&at, 1, None, Some(&value)).expect("room or not") {
                take(client.next_delivery().await.expect("open").expect("a full buffer"));
            }
        }
    }
    client.start_flush();
    while let Some(delivery) = client.next_delivery().await.expect("open") {
        take(delivery);
    }
    offsets
}

/// Reads every partition from its start to its end.
async fn consume(client: &Client) -> Vec<Vec<Vec<u8>>> {
    let all: Vec<_> = (0..PARTITIONS as i32).map(|p| TopicPartition::new(TOPIC, p)).collect();
    let starts = client.list_offsets(all.clone(), EARLIEST).await.expect("starts");
    let ends: BTreeMap<_, _> =
        client.list_offsets(all, LATEST).await.expect("ends").into_iter().collect();
    client.start_fetcher(FetcherConfig { partition_bytes: 700, ..FetcherConfig::default() });
    for (at, start) in &starts {
        client.assign(at.clone(), *start);
    }
    let mut values = vec![Vec::new(); PARTITIONS];
    let mut left: Vec<TopicPartition> = starts.into_iter().map(|(at, _)| at).collect();
    while !left.is_empty() {
        let fetched = client.fetch().await.expect("open");
        let data = fetched.result.expect("no damage");
        for batch in batches(&data.batches) {
            for record in records(batch.expect("a whole batch").records()) {
                let value = record.expect("a record").value.expect("a value").to_vec();
                values[fetched.at.partition as usize].push(value);
            }
        }
        left.retain(|at| *at != fetched.at || data.next < ends[at]);
    }
    values
}

fn expected(partition: usize, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|index| value(partition, index)).collect()
}

/// Produces and consumes under faults; returns the fake broker for what it has seen.
fn everything_arrives_once_and_in_order(seed: u64, chances: Chances) -> Rc<Fake> {
    const COUNT: usize = 150;
    let (world, fake, client) = setup(seed);
    fake.chances.set(chances);
    client.start_producer(small_batches(Acks::All));
    let producing = client.clone();
    let offsets = world.block_on(async move { produce(&producing, COUNT).await });
    for partition in 0..PARTITIONS {
        assert_eq!(fake.values(partition), expected(partition, COUNT), "seed {seed}");
        let acknowledged = &offsets[&(partition as i32)];
        assert_eq!(acknowledged.len(), COUNT, "seed {seed}");
        for (offset, index) in acknowledged.iter().zip(0..) {
            assert!(
                offset.is_none_or(|o| o == index),
                "seed {seed}: {offset:?} for record {index}"
            );
        }
    }
    let values = world.block_on(async move { consume(&client).await });
    for (partition, values) in values.into_iter().enumerate() {
        assert_eq!(values, expected(partition, COUNT), "seed {seed}");
    }
    fake
}

#[test]
fn a_healthy_broker_gets_everything_after_the_fallback_to_version_0() {
    let fake = everything_arrives_once_and_in_order(1, Chances::default());
    assert!(fake.seen.versions_refused.get() > 0);
    assert_eq!((fake.seen.duplicates.get(), fake.seen.out_of_order.get()), (0, 0));
}

#[test]
fn lost_connections_double_and_lose_nothing() {
    let (mut dropped, mut duplicates) = (0, 0);
    for seed in 0..20 {
        let chances = Chances { drop_before: 5, drop_after: 5, ..Chances::default() };
        let fake = everything_arrives_once_and_in_order(seed, chances);
        dropped += fake.seen.dropped.get();
        duplicates += fake.seen.duplicates.get();
    }
    assert!(dropped > 0 && duplicates > 0, "{dropped} dropped, {duplicates} sent twice");
}

#[test]
fn leaders_that_move_are_followed() {
    let (mut not_leader, mut out_of_order) = (0, 0);
    for seed in 0..20 {
        let chances = Chances { move_leader: 10, ..Chances::default() };
        let fake = everything_arrives_once_and_in_order(seed, chances);
        not_leader += fake.seen.not_leader.get();
        out_of_order += fake.seen.out_of_order.get();
    }
    assert!(not_leader > 0, "leaders moved");
    assert!(
        out_of_order > 0,
        "batches behind a refused one were sent, and refused as out of order"
    );
}

#[test]
fn answers_out_of_order_and_nonsense_end_the_connection_and_nothing_else() {
    let (mut swapped, mut garbage) = (0, 0);
    for seed in 0..20 {
        let chances = Chances { swap_answers: 5, garbage: 3, ..Chances::default() };
        let fake = everything_arrives_once_and_in_order(seed, chances);
        swapped += fake.seen.swapped.get();
        garbage += fake.seen.garbage.get();
    }
    assert!(swapped > 0 && garbage > 0, "{swapped} swapped, {garbage} garbage");
}

#[test]
fn all_faults_at_once() {
    for seed in 100..130 {
        let chances =
            Chances { drop_before: 3, drop_after: 3, move_leader: 5, swap_answers: 3, garbage: 2 };
        everything_arrives_once_and_in_order(seed, chances);
    }
}

#[test]
fn acks_1_keeps_the_order_of_a_healthy_broker() {
    let (world, fake, client) = setup(3);
    client.start_producer(small_batches(Acks::Leader));
    world.block_on(async move { produce(&client, 50).await });
    for partition in 0..PARTITIONS {
        assert_eq!(fake.values(partition), expected(partition, 50));
    }
}

#[test]
fn a_batch_that_is_refused_for_good_fails_its_partition_and_what_stands_behind_it() {
    let (world, fake, client) = setup(4);
    fake.refuse.set(Some(ErrorCode::MessageTooLarge));
    client.start_producer(small_batches(Acks::All));
    world.block_on(async move {
        let at = TopicPartition::new(TOPIC, 0);
        for _ in 0..2 {
            client.send(&at, 1, None, Some(&[0; 200])).await.expect("room");
        }
        client.flush().await.expect("open");
        let first = client.next_delivery().await.expect("open").expect("a delivery");
        let error = first.result.expect_err("refused");
        assert_eq!(error.code(), Some(ErrorCode::MessageTooLarge));
        assert!(matches!(error, Error::Broker { .. }), "{error}");
        let second = client.next_delivery().await.expect("open").expect("a delivery");
        assert!(matches!(second.result, Err(Error::Behind { .. })));
        let refused = client.send(&at, 1, None, Some(b"more")).await;
        assert!(matches!(refused, Err(Error::Behind { .. })));
    });
}

#[test]
fn a_broker_that_is_not_there_is_told_after_the_time_out_with_the_reason() {
    let world = World::new(5);
    let rt = world.client("application");
    let bootstrap = "10.0.0.9:9092".parse().expect("an address");
    let client = Client::new(&rt, Config::new(vec![bootstrap]));
    let error =
        world.block_on(async move { client.topics(None).await.expect_err("nobody answers") });
    let Error::Timeout { last: Some(last), .. } = error else { panic!("{error}") };
    assert!(matches!(*last, Error::Connect { .. }), "{last}");
}
