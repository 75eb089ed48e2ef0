//! Cases from the field: what users of Kafka brokers and clients ran into, one module per area, each case as the whole
//! kind of fault. `FIELD-CASES.md` has a line per case and names what has to wait for
//! transactions; the test below keeps the two together.

mod codecs;
mod commits;
mod compaction;
mod fetch;
mod groups;
mod idempotence;
mod network;
mod observe;
mod offsets;
mod produce;
mod protocol;
mod records;
mod retention;
mod scale;
mod store;
mod time;
mod topics;

use rillway_wire::api::{
    create_topics, delete_records, delete_topics, fetch as fetch_api, incremental_alter_configs,
    init_producer_id, list_offsets, produce as produce_api,
};
use rillway_wire::batch::{
    BatchBuilder, BatchView, Codec, TimestampType, batches, decompress, records as iterate,
    set_max_timestamp_and_type,
};
use rillway_wire::{ErrorCode, Uuid};

use crate::client::{Client, bytes, decode, produce_request};

pub(crate) const CODECS: [Codec; 5] =
    [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

/// Versions of Fetch that name topics; later ones have ids.
pub(crate) const FETCH: std::ops::RangeInclusive<i16> = 4..=12;

/// A batch of records with these times, and a value each.
pub(crate) fn timed(codec: Codec, times: &[i64]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    for time in times {
        builder.push(*time, None, Some(b"v"), &[]);
    }
    builder.build().expect("a batch")
}

/// The batch with another largest timestamp in its header, and the CRC that fits.
pub(crate) fn claiming(mut batch: Vec<u8>, max: i64) -> Vec<u8> {
    set_max_timestamp_and_type(&mut batch, max, TimestampType::CreateTime);
    batch
}

/// A batch whose records are `payload`, as it is, of `codec`.
pub(crate) fn with_payload(codec: Codec, count: i32, payload: &[u8]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None);
    for _ in 0..count {
        builder.push(1_000, None, None, &[]);
    }
    let mut batch = builder.build().expect("a batch")[..61].to_vec();
    batch.extend_from_slice(payload);
    let length = i32::try_from(batch.len() - 12).expect("below 2 GiB");
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch[22] = codec as u8;
    sealed(batch)
}

/// The batch with the CRC that fits its bytes.
pub(crate) fn sealed(mut batch: Vec<u8>) -> Vec<u8> {
    let view = BatchView::parse(&batch).expect("a batch");
    let (max, kind) = (view.max_timestamp(), view.timestamp_type());
    set_max_timestamp_and_type(&mut batch, max, kind);
    batch
}

/// A batch of `count` records of an idempotent producer.
pub(crate) fn sequenced(id: i64, sequence: i32, count: i32) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None).producer(id, 0, sequence);
    for n in 0..count {
        builder.push(1_000, None, Some(&(sequence + n).to_be_bytes()), &[]);
    }
    builder.build().expect("a batch")
}

pub(crate) async fn producer_id(client: &mut Client) -> i64 {
    let body = client.call(&init_producer_id::Request::default(), 4).await;
    let response: init_producer_id::Response = decode(&body, 4);
    assert_eq!((response.error_code, response.producer_epoch), (ErrorCode::None, 0));
    response.producer_id
}

/// A batch as a reader sees it: its base offset, and (offset, time) of each record.
#[derive(Debug, PartialEq)]
pub(crate) struct Read {
    pub base: i64,
    pub next: i64,
    pub max_timestamp: i64,
    pub records: Vec<(i64, i64)>,
}

/// All batches of an answer, whole, with right checksums and readable records.
pub(crate) fn read(answer: &[u8]) -> Vec<Read> {
    let one = |view: BatchView<'_>| {
        assert!(view.check_crc());
        let codec = view.codec().expect("a codec");
        let payload = decompress(codec, view.records(), 64 << 20).expect("readable");
        let records = iterate(&payload).map(|r| r.expect("a record")).map(|r| {
            let time = match view.timestamp_type() {
                TimestampType::LogAppendTime => view.max_timestamp(),
                TimestampType::CreateTime => view.base_timestamp() + r.timestamp_delta,
            };
            (view.base_offset() + i64::from(r.offset_delta), time)
        });
        Read {
            base: view.base_offset(),
            next: view.next_offset(),
            max_timestamp: view.max_timestamp(),
            records: records.collect(),
        }
    };
    batches(answer).map(|b| one(b.expect("no cut batch"))).collect()
}

/// A partition in the answer to a Fetch.
#[derive(Debug, PartialEq)]
pub(crate) struct Got {
    pub code: ErrorCode,
    pub end: i64,
    pub stable: i64,
    /// -1 below version 5.
    pub start: i64,
    pub records: Vec<u8>,
}

pub(crate) fn got(body: &[u8], version: i16) -> Vec<Got> {
    let response: fetch_api::Response<'_> = decode(body, version);
    assert_eq!((response.error_code, response.session_id), (ErrorCode::None, 0));
    let partitions =
        response.responses.iter().flat_map(|t| t.partitions.iter().collect::<Vec<_>>());
    let one = |p: fetch_api::PartitionResponse<'_>| Got {
        code: p.error_code,
        end: p.high_watermark,
        stable: p.last_stable_offset,
        start: p.log_start_offset,
        records: bytes(&p.records),
    };
    partitions.map(one).collect()
}

pub(crate) async fn fetch_as(
    client: &mut Client,
    request: &fetch_api::Request<'_>,
    version: i16,
) -> Vec<Got> {
    let body = client.call(request, version).await;
    got(&body, version)
}

/// Produces one batch; the partition's code and base offset.
pub(crate) async fn produce_as(
    client: &mut Client,
    (topic, index): (&str, i32),
    batch: &[u8],
    version: i16,
) -> (ErrorCode, i64) {
    let body = client.call(&produce_request(topic, index, batch, -1), version).await;
    produced(&body, version)[0]
}

/// Code and base offset of every partition, in the order of the answer.
pub(crate) fn produced(body: &[u8], version: i16) -> Vec<(ErrorCode, i64)> {
    let response: produce_api::Response<'_> = decode(body, version);
    let partitions =
        response.responses.iter().flat_map(|t| t.partition_responses.iter().collect::<Vec<_>>());
    partitions.map(|p| (p.error_code, p.base_offset)).collect()
}

/// ListOffsets of one partition: code, offset, time.
pub(crate) async fn list(
    client: &mut Client,
    (topic, index): (&str, i32),
    timestamp: i64,
    isolation_level: i8,
) -> (ErrorCode, i64, i64) {
    let partition =
        list_offsets::Partition { partition_index: index, timestamp, ..Default::default() };
    let topic = list_offsets::Topic { name: topic, partitions: vec![partition].into() };
    let request = list_offsets::Request {
        replica_id: -1,
        isolation_level,
        topics: vec![topic].into(),
        ..Default::default()
    };
    let body = client.call(&request, 7).await;
    let response: list_offsets::Response<'_> = decode(&body, 7);
    let p = response.topics.first().unwrap().partitions.first().unwrap();
    (p.error_code, p.offset, p.timestamp)
}

/// DeleteRecords of one partition: code and low watermark.
pub(crate) async fn trim(
    client: &mut Client,
    (name, partition_index): (&str, i32),
    offset: i64,
) -> (ErrorCode, i64) {
    let partition = delete_records::Partition { partition_index, offset };
    let topic = delete_records::Topic { name, partitions: vec![partition].into() };
    let request = delete_records::Request { topics: vec![topic].into(), timeout_ms: 1_000 };
    let body = client.call(&request, 2).await;
    let response: delete_records::Response<'_> = decode(&body, 2);
    let p = response.topics.first().unwrap().partitions.first().unwrap();
    assert_eq!(p.partition_index, partition_index);
    (p.error_code, p.low_watermark)
}

/// Start and end of a partition.
pub(crate) async fn ends(client: &mut Client, of: (&str, i32)) -> (i64, i64) {
    let start = list(client, of, list_offsets::EARLIEST, 0).await;
    let end = list(client, of, list_offsets::LATEST, 0).await;
    assert_eq!((start.0, end.0), (ErrorCode::None, ErrorCode::None));
    (start.1, end.1)
}

pub(crate) async fn create_with(
    client: &mut Client,
    name: &str,
    partitions: i32,
    configs: &[(&str, &str)],
) -> ErrorCode {
    let configs =
        configs.iter().map(|(name, value)| create_topics::Config { name, value: Some(value) });
    let topic = create_topics::Topic {
        name,
        num_partitions: partitions,
        replication_factor: 1,
        configs: configs.collect(),
        ..Default::default()
    };
    let request = create_topics::Request { topics: vec![topic].into(), ..Default::default() };
    let body = client.call(&request, 5).await;
    let response: create_topics::Response<'_> = decode(&body, 5);
    response.topics.first().unwrap().error_code
}

pub(crate) async fn delete(client: &mut Client, name: &str) -> ErrorCode {
    let topic = delete_topics::Topic { name: Some(name), topic_id: Uuid::default() };
    let request = delete_topics::Request { topics: vec![topic].into(), ..Default::default() };
    let body = client.call(&request, 6).await;
    let response: delete_topics::Response<'_> = decode(&body, 6);
    response.responses.first().unwrap().error_code
}

/// Sets one of a topic's settings.
pub(crate) async fn set(client: &mut Client, topic: &str, name: &str, value: &str) -> ErrorCode {
    let config = incremental_alter_configs::Config {
        name,
        config_operation: incremental_alter_configs::SET,
        value: Some(value),
    };
    let resource = incremental_alter_configs::Resource {
        resource_type: 2,
        resource_name: topic,
        configs: vec![config].into(),
    };
    let request = incremental_alter_configs::Request {
        resources: vec![resource].into(),
        validate_only: false,
    };
    let body = client.call(&request, 1).await;
    let response: incremental_alter_configs::Response<'_> = decode(&body, 1);
    response.responses.first().unwrap().error_code
}

/// Every case of the seventeen areas, under the module that has its scenarios.
const CASES: [(&str, &[&str], &str); 17] = [
    ("codecs", &["codec-1", "codec-2"], include_str!("codecs.rs")),
    ("commits", &["commit-1", "commit-2"], include_str!("commits.rs")),
    ("compaction", &["compact-1", "compact-2"], include_str!("compaction.rs")),
    ("fetch", &["fetch-1", "fetch-2", "fetch-3"], include_str!("fetch.rs")),
    ("groups", &["group-1", "group-2"], include_str!("groups.rs")),
    ("idempotence", &["idemp-1", "idemp-2"], include_str!("idempotence.rs")),
    ("network", &["net-1", "net-2", "net-3"], include_str!("network.rs")),
    ("observe", &["observe-1"], include_str!("observe.rs")),
    ("offsets", &["offsets-1", "offsets-2"], include_str!("offsets.rs")),
    ("produce", &["produce-1", "produce-2"], include_str!("produce.rs")),
    ("protocol", &["proto-1", "proto-2"], include_str!("protocol.rs")),
    ("records", &["record-1"], include_str!("records.rs")),
    ("retention", &["retain-1"], include_str!("retention.rs")),
    ("scale", &["scale-1", "scale-2"], include_str!("scale.rs")),
    ("store", &["store-1", "store-2", "store-3"], include_str!("store.rs")),
    ("time", &["time-1", "time-2"], include_str!("time.rs")),
    ("topics", &["topic-1", "topic-2", "topic-3"], include_str!("topics.rs")),
];

#[test]
fn every_case_has_scenarios_and_a_line_and_every_scenario_that_is_named_exists() {
    let page = include_str!("../../FIELD-CASES.md");
    let scenarios = |source: &str| -> Vec<String> {
        let after = source.split("#[test]\nfn ").skip(1);
        after.map(|rest| rest.split('(').next().unwrap_or("").to_owned()).collect()
    };
    for (module, ids, source) in CASES {
        for id in ids {
            assert!(source.contains(&format!("/// {id}: ")), "{module}.rs has no scenario of {id}");
            assert!(page.contains(&format!("\n| {id} |")), "FIELD-CASES.md has no line for {id}");
        }
        for name in scenarios(source) {
            assert!(page.contains(&format!("`{name}`")), "FIELD-CASES.md does not name {name}");
        }
    }
    // What stands in backticks with three words or more is a scenario, here or in a module that is named with it.
    let elsewhere = [
        include_str!("../configs.rs"),
        include_str!("../connections.rs"),
        include_str!("../delete_records.rs"),
        include_str!("../doors.rs"),
        include_str!("../epochs.rs"),
        include_str!("../fetch.rs"),
        include_str!("../groups.rs"),
        include_str!("../offsets.rs"),
        include_str!("../partitions.rs"),
        include_str!("../produce.rs"),
        include_str!("../topics.rs"),
        include_str!("../transfer.rs"),
        include_str!("../versions.rs"),
    ];
    let all: Vec<String> = CASES.iter().map(|c| c.2).chain(elsewhere).flat_map(scenarios).collect();
    for named in page.split('`').skip(1).step_by(2).filter(|n| n.matches('_').count() >= 3) {
        let name = named.rsplit("::").next().unwrap_or(named);
        assert!(all.iter().any(|n| n == name), "no scenario {named}");
    }
}
