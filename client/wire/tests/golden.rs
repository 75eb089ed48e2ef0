//! Frames that real clients and a real broker exchanged, recorded by `golden/record.py`.
//!
//! Each decodes to its last byte, and encodes again to the same bytes: what clients write is canonical.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rillway_wire::codec::Writer;
use rillway_wire::{ApiKey, Message, RequestHeader, ResponseHeader, api};

/// A recorded frame, from its file's name: `<api>-v<version>-<kind>.hex`.
struct Golden {
    path: PathBuf,
    api: String,
    version: i16,
    is_request: bool,
    content: Vec<u8>,
}

fn golden_frames() -> Vec<Golden> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let entries = |path: &Path| -> Vec<PathBuf> {
        let mut entries: Vec<_> = fs::read_dir(path)
            .expect("the folder can be read")
            .map(|entry| entry.expect("the folder can be read").path())
            .collect();
        entries.sort();
        entries
    };
    let clients = entries(&root).into_iter().filter(|path| path.is_dir());
    clients.flat_map(|client| entries(&client)).map(read).collect()
}

fn read(path: PathBuf) -> Golden {
    let name =
        path.file_stem().and_then(|name| name.to_str()).expect("a name in ASCII").to_string();
    let parts: Vec<_> = name.split('-').collect();
    let [api, version, kind] = parts[..] else { panic!("{name} is not <api>-v<version>-<kind>") };
    let version = version.strip_prefix('v').and_then(|v| v.parse().ok()).expect("a version");
    let text: String = fs::read_to_string(&path).expect("a text").split_whitespace().collect();
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
    Golden {
        api: api.to_string(),
        version,
        is_request: match kind {
            "request" => true,
            "response" => false,
            _ => panic!("{name} is neither request nor response"),
        },
        content: (0..text.len()).step_by(2).map(digits).collect(),
        path,
    }
}

/// Decodes a frame and encodes it again.
fn again<'a, M: Message<'a>>(golden: &'a Golden) -> Vec<u8> {
    let mut to = Writer::default();
    let fail =
        |error: &dyn std::fmt::Display| -> ! { panic!("{}: {error}", golden.path.display()) };
    let body = if golden.is_request {
        let (header, body) = RequestHeader::decode(&golden.content).unwrap_or_else(|e| fail(&e));
        assert_eq!(ApiKey::from_code(header.api_key), Some(M::API), "{}", golden.path.display());
        assert_eq!(header.api_version, golden.version, "{}", golden.path.display());
        header.encode(&mut to);
        body
    } else {
        let (header, body) = ResponseHeader::decode(&golden.content, M::API, golden.version)
            .unwrap_or_else(|e| fail(&e));
        header.encode(&mut to, M::API, golden.version);
        body
    };
    let message = M::decode_body(body, golden.version).unwrap_or_else(|e| fail(&e));
    message.encode_body(&mut to, golden.version);
    to.into_frame().as_bytes().expect("decoded records are bytes").to_vec()
}

macro_rules! dispatch {
    ($golden:expr, $($api:ident)*) => {
        match ($golden.api.as_str(), $golden.is_request) {
            $((stringify!($api), true) => again::<api::$api::Request>($golden),)*
            $((stringify!($api), false) => again::<api::$api::Response>($golden),)*
            (other, _) => panic!("{}: no API {other}", $golden.path.display()),
        }
    };
}

#[test]
fn every_recorded_frame_decodes_and_encodes_to_the_same_bytes() {
    let mut apis = BTreeSet::new();
    for golden in &golden_frames() {
        let bytes = dispatch!(golden,
            alter_configs api_versions create_partitions create_topics delete_groups delete_records
            delete_topics describe_cluster describe_configs describe_groups describe_log_dirs
            describe_topic_partitions fetch find_coordinator heartbeat incremental_alter_configs
            init_producer_id join_group leave_group list_config_resources list_groups list_offsets metadata
            offset_commit offset_delete offset_fetch offset_for_leader_epoch produce sync_group
        );
        assert_eq!(bytes, golden.content, "{}", golden.path.display());
        apis.insert((golden.api.clone(), golden.is_request));
    }
    // The APIs that every client uses; a folder that lost its files is noticed here.
    for api in ["api_versions", "metadata", "produce", "fetch", "list_offsets"] {
        for is_request in [true, false] {
            assert!(apis.contains(&(api.to_string(), is_request)), "no recorded frame of {api}");
        }
    }
}

#[test]
fn recorded_records_are_whole_batches_with_valid_checksums() {
    use rillway_wire::batch::{BatchView, batches, decompress, records};
    let mut seen = 0;
    for golden in &golden_frames() {
        let mut check = |bytes: &[u8]| {
            for batch in batches(bytes) {
                let batch: BatchView<'_> =
                    batch.unwrap_or_else(|e| panic!("{}: {e}", golden.path.display()));
                assert!(batch.check_crc(), "{}", golden.path.display());
                let codec = batch.codec().expect("a codec that exists");
                let payload = decompress(codec, batch.records(), 1 << 20).expect("its own codec");
                let count =
                    records(&payload).collect::<Result<Vec<_>, _>>().expect("whole records").len();
                assert_eq!(count, batch.record_count() as usize);
                seen += 1;
            }
        };
        match (golden.api.as_str(), golden.is_request) {
            ("produce", true) => {
                let (_, body) =
                    RequestHeader::decode(&golden.content).expect("checked by the other test");
                let request = api::produce::Request::decode_body(body, golden.version)
                    .expect("checked by the other test");
                for topic in &request.topic_data {
                    for partition in &topic.partition_data {
                        let records = partition.records.bytes();
                        BatchView::validate_produce(records)
                            .expect("clients send what brokers accept");
                        check(records);
                    }
                }
            }
            ("fetch", false) => {
                let (_, body) =
                    ResponseHeader::decode(&golden.content, ApiKey::Fetch, golden.version)
                        .expect("checked by the other test");
                let response = api::fetch::Response::decode_body(body, golden.version)
                    .expect("checked by the other test");
                for topic in &response.responses {
                    for partition in &topic.partitions {
                        check(partition.records.bytes());
                    }
                }
            }
            _ => {}
        }
    }
    assert!(seen > 0, "no recorded batch");
}
