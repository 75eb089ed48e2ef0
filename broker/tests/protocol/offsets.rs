//! ListOffsets: ends, times, and the largest timestamp.

use rillway_wire::ErrorCode;
use rillway_wire::api::list_offsets::{
    EARLIEST, LATEST, MAX_TIMESTAMP, Partition, Request, Response, Topic,
};
use rillway_wire::batch::{BatchBuilder, Codec};

use crate::client::{Client, decode, scenario};

fn at_times(codec: Codec, times: &[i64]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    for time in times {
        builder.push(*time, None, Some(b"v"), &[]);
    }
    builder.build().expect("a batch")
}

async fn ask(client: &mut Client, timestamp: i64, version: i16) -> (ErrorCode, i64, i64) {
    let partition = Partition { timestamp, ..Default::default() };
    let topic = Topic { name: "t", partitions: vec![partition].into() };
    let body = client
        .call(
            &Request { replica_id: -1, topics: vec![topic].into(), ..Default::default() },
            version,
        )
        .await;
    let response: Response<'_> = decode(&body, version);
    let p = response.topics.first().unwrap().partitions.first().unwrap();
    (p.error_code, p.offset, p.timestamp)
}

#[test]
fn an_empty_partition_has_ends_and_no_record_at_any_time() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        assert_eq!(ask(&mut client, EARLIEST, 7).await, (ErrorCode::None, 0, -1));
        assert_eq!(ask(&mut client, LATEST, 7).await, (ErrorCode::None, 0, -1));
        assert_eq!(ask(&mut client, MAX_TIMESTAMP, 7).await, (ErrorCode::None, -1, -1));
        assert_eq!(ask(&mut client, 0, 7).await, (ErrorCode::None, -1, -1));
    });
}

#[test]
fn a_search_by_time_finds_the_first_record_inside_a_batch_whatever_its_codec() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
        for (i, codec) in codecs.into_iter().enumerate() {
            let from = 1_000 * (i as i64 + 1);
            client.produce("t", 0, &at_times(codec, &[from, from + 10, from + 20])).await;
        }
        for i in 0..5 {
            let from = 1_000 * (i + 1);
            assert_eq!(
                ask(&mut client, from + 5, 7).await,
                (ErrorCode::None, i * 3 + 1, from + 10)
            );
            assert_eq!(ask(&mut client, from, 7).await, (ErrorCode::None, i * 3, from));
        }
        assert_eq!(ask(&mut client, 9_000, 7).await, (ErrorCode::None, -1, -1));
    });
}

#[test]
fn a_search_by_time_never_lands_on_records_without_one() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        client.produce("t", 0, &at_times(Codec::None, &[-1, -1])).await;
        client.produce("t", 0, &at_times(Codec::None, &[0, 70])).await;
        assert_eq!(ask(&mut client, 0, 7).await, (ErrorCode::None, 2, 0));
        assert_eq!(ask(&mut client, 1, 7).await, (ErrorCode::None, 3, 70));
    });
}
