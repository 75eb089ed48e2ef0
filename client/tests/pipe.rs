//! A pipe: requests that were encoded once come back with what they were for, in order, however many are in flight.

mod fake;

use std::rc::Rc;
use std::time::Duration;

use fake::{Chances, Fake, NODES, TOPIC, port};
use rillway_client::{Address, Config, Error, Pipe};
use rillway_io::Runtime;
use rillway_io::sim::World;
use rillway_wire::Records;
use rillway_wire::api::produce;
use rillway_wire::batch::{BatchBuilder, Codec};

fn setup(seed: u64) -> (World, Rc<Fake>, Runtime, Config, Address) {
    let world = World::new(seed);
    let fake = Fake::start(&world.client("broker"), 1);
    let address = Address { host: "10.0.0.1".to_string(), port: port(NODES[0]) };
    let config = Config::new(vec![address.clone()]);
    let rt = world.client("application");
    (world, fake, rt, config, address)
}

fn batch(value: &[u8]) -> Vec<u8> {
    let mut batch = BatchBuilder::new(Codec::None);
    batch.push(1, None, Some(value), &[]);
    batch.build().expect("no codec")
}

fn request(batch: &[u8]) -> produce::Request<'_> {
    let partition = produce::Partition { index: 0, records: Records::Bytes(batch) };
    let topic = produce::Topic {
        name: TOPIC,
        partition_data: [partition].into_iter().collect(),
        ..Default::default()
    };
    produce::Request {
        acks: -1,
        timeout_ms: 1_000,
        topic_data: [topic].into_iter().collect(),
        ..Default::default()
    }
}

#[test]
fn a_prepared_request_is_sent_many_times_and_answers_keep_their_order() {
    const COUNT: usize = 100;
    let (world, fake, rt, config, address) = setup(1);
    world.block_on(async move {
        let pipe: Pipe<usize> = Pipe::open(&rt, &config, &address).await.expect("a broker");
        let batch = batch(b"again");
        let prepared = pipe.prepare(&request(&batch)).expect("a common version");
        let mut bytes = Vec::new();
        for number in 0..COUNT {
            pipe.queue(&prepared, number, &mut bytes);
        }
        assert_eq!(bytes.len(), COUNT * prepared.len());
        pipe.send(bytes).await.expect("sent");
        let mut answers = Vec::new();
        while answers.len() < COUNT {
            pipe.receive(&mut answers).await.expect("answers");
        }
        for (number, answer) in answers.iter().enumerate() {
            assert_eq!(*answer.purpose(), number);
            let answer = answer.decode::<produce::Response<'_>>().expect("an answer");
            let part = answer.responses.first().and_then(|t| t.partition_responses.first());
            assert_eq!(part.map(|p| p.base_offset), Some(number as i64));
        }
    });
    assert_eq!(fake.values(0).len(), COUNT);
    // The fake serves version 0 of ApiVersions only: the handshake went through a refusal.
    assert_eq!(fake.seen.versions_refused.get(), 1);
}

#[test]
fn an_answer_to_another_request_ends_the_pipe_and_is_not_taken_for_the_oldest_one_s() {
    let (world, fake, rt, config, address) = setup(2);
    fake.chances.set(Chances { swap_answers: 100, ..Chances::default() });
    let error = world.block_on(async move {
        let pipe: Pipe<()> = Pipe::open(&rt, &config, &address).await.expect("a broker");
        let batch = batch(b"swapped");
        let prepared = pipe.prepare(&request(&batch)).expect("a common version");
        let mut bytes = Vec::new();
        pipe.queue(&prepared, (), &mut bytes);
        pipe.queue(&prepared, (), &mut bytes);
        pipe.send(bytes).await.expect("sent");
        let mut answers = Vec::new();
        loop {
            if let Err(error) = pipe.receive(&mut answers).await {
                assert!(answers.is_empty(), "an answer was taken");
                return error;
            }
        }
    });
    assert!(matches!(error, Error::Correlation { got: 3, expected: Some(2), .. }), "{error}");
}

#[test]
fn nobody_there_is_an_error_with_the_address_and_not_a_wait() {
    let (world, _fake, rt, config, _) = setup(3);
    let address: Address = "10.0.0.9:1".parse().expect("an address");
    let config = Config { connect_timeout: Duration::from_secs(2), ..config };
    let asked = address.clone();
    let error = world.block_on(async move {
        Pipe::<()>::open(&rt, &config, &asked).await.expect_err("nobody listens")
    });
    let Error::Connect { address: at, .. } = error else { panic!("{error}") };
    assert_eq!(at, address);
}
