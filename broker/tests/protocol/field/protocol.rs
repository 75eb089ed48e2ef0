//! Versions, tagged fields, and the shape of every answer.

use kafka_protocol::messages::{self as theirs, RequestHeader, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use rillway_wire::api::api_versions;
use rillway_wire::{ApiKey, ErrorCode};

use super::{create_with, produce_as};
use crate::client::{Client, batch, decode, scenario};

/// A frame from its content.
fn framed(content: &[u8]) -> Vec<u8> {
    [&(content.len() as i32).to_be_bytes(), content].concat()
}

/// Key, version, correlation id 77, no client id.
fn header(key: i16, version: i16) -> Vec<u8> {
    [&key.to_be_bytes()[..], &version.to_be_bytes(), &77i32.to_be_bytes(), &[0xff, 0xff]].concat()
}

/// What is advertised: key, first and last version.
async fn advertised(client: &mut Client) -> Vec<(i16, i16, i16)> {
    let body = client.call(&api_versions::Request::default(), 0).await;
    let response: api_versions::Response<'_> = decode(&body, 0);
    response.api_keys.iter().map(|k| (k.api_key, k.min_version, k.max_version)).collect()
}

/// proto-1: any other version of ApiVersions is answered in version 0 with the range; the connection lives.
#[test]
fn an_unknown_version_of_api_versions_gets_the_range_at_any_moment_of_a_session() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        for version in [5, 6, 127, i16::MAX, -1, i16::MIN] {
            for body in [&b""[..], &[0], &[0xff; 40], &[2, b'x', 2, b'y', 1, 200, 1, 3, 1, 2, 3]] {
                client.raw(&framed(&[&header(18, version), body].concat())).await;
                let content = client.frame().await.expect("an answer");
                assert_eq!(content[..4], 77i32.to_be_bytes());
                let response: api_versions::Response<'_> = decode(&content[4..], 0);
                assert_eq!(response.error_code, ErrorCode::UnsupportedVersion);
                let named: Vec<_> = response
                    .api_keys
                    .iter()
                    .map(|k| (k.api_key, k.min_version, k.max_version))
                    .collect();
                assert_eq!(named, [(18, 0, 4)]);
                // In the middle of a session too.
                let code = produce_as(&mut client, ("t", 0), &batch(&[b"x"]), 7).await.0;
                assert_eq!(code, ErrorCode::None);
            }
        }
    });
}

/// proto-1: one above and one below each range, and keys that nobody serves, close that connection and no other.
#[test]
fn versions_outside_the_range_of_every_api_close_that_connection_and_no_other() {
    scenario(1, |rt| async move {
        let mut other = Client::connect(&rt).await;
        let ranges = advertised(&mut other).await;
        assert!(ranges.len() >= 15);
        let mut outside: Vec<(i16, i16)> = Vec::new();
        for (key, min, max) in &ranges {
            if *key != 18 {
                outside.extend([(*key, max + 1), (*key, min - 1), (*key, i16::MAX)]);
            }
        }
        let served = |key: &i16| ranges.iter().any(|r| r.0 == *key);
        outside.extend((-2..100).filter(|key| !served(key)).map(|key| (key, 0)));
        outside.extend([(i16::MAX, 0), (i16::MIN, 0)]);
        for (key, version) in outside {
            let mut client = Client::connect(&rt).await;
            client.raw(&framed(&[&header(key, version)[..], &[0; 32]].concat())).await;
            assert!(client.is_closed().await, "key {key} version {version}");
        }
        assert_eq!(advertised(&mut other).await, ranges);
    });
}

/// proto-1: tagged fields that the broker does not know are skipped, in headers and in bodies.
#[test]
fn unknown_tagged_fields_are_skipped_in_the_header_and_in_the_body() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        let large: Vec<u8> = [&[1, 0x81, 0x80, 1, 0xc8, 1][..], &[9; 200]].concat();
        for tags in [&[0][..], &[1, 99, 3, 1, 2, 3], &[2, 7, 0, 200, 1, 1, 5], &large] {
            // DescribeCluster 0 is flexible: client id, tags of the header, one boolean, tags of the body.
            let content = [&header(60, 0), tags, &[0], tags].concat();
            client.raw(&framed(&content)).await;
            let content = client.frame().await.expect("an answer");
            assert_eq!(content[..5], [0, 0, 0, 77, 0]);
            assert!(content.len() > 20);
            // ApiVersions 3: two compact strings.
            let content = [&header(18, 3), tags, &[2, b'a', 2, b'1'], tags].concat();
            client.raw(&framed(&content)).await;
            let content = client.frame().await.expect("an answer");
            let response: api_versions::Response<'_> = decode(&content[4..], 3);
            assert_eq!(response.error_code, ErrorCode::None);
        }
    });
}

/// Asks in every advertised version with an encoder of somebody else's, and reads the answer with their decoder.
async fn ask<Q, A>(
    client: &mut Client,
    key: ApiKey,
    request: &Q,
    ranges: &[(i16, i16, i16)],
) -> usize
where
    Q: Encodable + HeaderVersion,
    A: Decodable + HeaderVersion,
{
    let (_, min, max) = *ranges.iter().find(|r| r.0 == key.code()).expect("advertised");
    let mut asked = 0;
    for version in min..=max {
        let mut content = bytes::BytesMut::new();
        let header = RequestHeader::default()
            .with_request_api_key(key.code())
            .with_request_api_version(version)
            .with_correlation_id(5)
            .with_client_id(Some(StrBytes::from_static_str("theirs")));
        header.encode(&mut content, Q::header_version(version)).expect("a header");
        // A field that the version does not have: asked in the others.
        if request.encode(&mut content, version).is_err() {
            continue;
        }
        client.raw(&framed(&content)).await;
        let answer = client.frame().await.expect("an answer");
        let mut from = bytes::Bytes::from(answer);
        let header = theirs::ResponseHeader::decode(&mut from, A::header_version(version))
            .expect("a header");
        assert_eq!(header.correlation_id, 5);
        A::decode(&mut from, version).unwrap_or_else(|e| panic!("{key} v{version}: {e}"));
        assert!(from.is_empty(), "{key} v{version}: {} bytes left", from.len());
        asked += 1;
    }
    asked
}

fn name(text: &'static str) -> TopicName {
    TopicName(StrBytes::from_static_str(text))
}

/// proto-2: every API in every version, where it succeeds, where nothing is asked, and where the topic does not exist.
#[test]
fn every_answer_of_every_version_is_read_to_the_last_byte_by_an_independent_decoder() {
    for cores in [1, 2] {
        scenario(cores, |rt| async move {
            let mut client = Client::connect(&rt).await;
            let ranges = advertised(&mut client).await;
            assert_eq!(create_with(&mut client, "t", 2, &[]).await, ErrorCode::None);
            client.produce("t", 0, &batch(&[b"a", b"b"])).await;
            let mut asked = std::collections::BTreeSet::new();
            macro_rules! ask {
                ($key:ident, $request:ty, $response:ty, $($one:expr),+ $(,)?) => {
                    for request in [$($one),+] {
                        let n = ask::<$request, $response>(
                            &mut client, ApiKey::$key, &request, &ranges,
                        )
                        .await;
                        assert!(n > 0, "{}", ApiKey::$key);
                    }
                    asked.insert(ApiKey::$key.code());
                };
            }
            let text = StrBytes::from_static_str;
            for topic in ["t", "nowhere", "bad name"] {
                use theirs::fetch_request::{FetchPartition, FetchTopic};
                let at = |offset| {
                    FetchPartition::default()
                        .with_fetch_offset(offset)
                        .with_partition_max_bytes(1 << 20)
                };
                let topics =
                    vec![FetchTopic::default().with_topic(name(topic)).with_partitions(vec![
                        at(0),
                        at(99).with_partition(1),
                        at(0).with_partition(7),
                    ])];
                ask!(
                    Fetch,
                    theirs::FetchRequest,
                    theirs::FetchResponse,
                    theirs::FetchRequest::default(),
                    theirs::FetchRequest::default().with_topics(topics).with_max_bytes(1 << 20),
                );
                use theirs::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
                let partitions = [-1, -2, -3, -9, 0, 5_000]
                    .map(|timestamp| ListOffsetsPartition::default().with_timestamp(timestamp));
                for p in partitions {
                    let topics =
                        vec![ListOffsetsTopic::default().with_name(name(topic)).with_partitions(
                            vec![
                                p.clone(),
                                p.clone().with_partition_index(1),
                                p.with_partition_index(9),
                            ],
                        )];
                    ask!(
                        ListOffsets,
                        theirs::ListOffsetsRequest,
                        theirs::ListOffsetsResponse,
                        theirs::ListOffsetsRequest::default(),
                        theirs::ListOffsetsRequest::default().with_topics(topics),
                    );
                }
                use theirs::metadata_request::MetadataRequestTopic;
                ask!(
                    Metadata,
                    theirs::MetadataRequest,
                    theirs::MetadataResponse,
                    theirs::MetadataRequest::default(),
                    theirs::MetadataRequest::default()
                        .with_allow_auto_topic_creation(false)
                        .with_topics(Some(vec![
                            MetadataRequestTopic::default().with_name(Some(name(topic)))
                        ])),
                );
                use theirs::produce_request::{PartitionProduceData, TopicProduceData};
                let records = bytes::Bytes::from(batch(&[b"c"]));
                let data = |records: Option<bytes::Bytes>| {
                    vec![TopicProduceData::default().with_name(name(topic)).with_partition_data(
                        vec![
                            PartitionProduceData::default().with_records(records.clone()),
                            PartitionProduceData::default().with_index(9).with_records(records),
                        ],
                    )]
                };
                let with = |records| {
                    theirs::ProduceRequest::default().with_acks(-1).with_topic_data(data(records))
                };
                ask!(
                    Produce,
                    theirs::ProduceRequest,
                    theirs::ProduceResponse,
                    with(Some(records.clone())),
                    with(None),
                    with(Some(bytes::Bytes::from_static(b"no batch"))),
                    with(Some(records.clone())).with_acks(7),
                    with(Some(records))
                        .with_transactional_id(Some(theirs::TransactionalId(text("tx")))),
                );
                use theirs::offset_for_leader_epoch_request as epochs;
                let partition = epochs::OffsetForLeaderPartition::default();
                let topics = vec![
                    epochs::OffsetForLeaderTopic::default()
                        .with_topic(name(topic))
                        .with_partitions(vec![
                            partition.clone().with_current_leader_epoch(-1),
                            partition.clone().with_current_leader_epoch(9).with_partition(1),
                            partition.with_leader_epoch(9).with_partition(9),
                        ]),
                ];
                ask!(
                    OffsetForLeaderEpoch,
                    theirs::OffsetForLeaderEpochRequest,
                    theirs::OffsetForLeaderEpochResponse,
                    theirs::OffsetForLeaderEpochRequest::default(),
                    theirs::OffsetForLeaderEpochRequest::default().with_topics(topics),
                );
                use theirs::describe_configs_request::DescribeConfigsResource;
                let resources =
                    [(2i8, topic), (4, "1000"), (4, "x"), (99, "?")].map(|(kind, name)| {
                        DescribeConfigsResource::default()
                            .with_resource_type(kind)
                            .with_resource_name(text(name))
                            .with_configuration_keys(None)
                    });
                ask!(
                    DescribeConfigs,
                    theirs::DescribeConfigsRequest,
                    theirs::DescribeConfigsResponse,
                    theirs::DescribeConfigsRequest::default(),
                    theirs::DescribeConfigsRequest::default()
                        .with_resources(resources.to_vec())
                        .with_include_synonyms(true),
                );
                use theirs::alter_configs_request::{AlterConfigsResource, AlterableConfig};
                let bad = AlterableConfig::default()
                    .with_name(text("retention.ms"))
                    .with_value(Some(text("soon")));
                let resource = AlterConfigsResource::default()
                    .with_resource_type(2)
                    .with_resource_name(text(topic))
                    .with_configs(vec![bad]);
                ask!(
                    AlterConfigs,
                    theirs::AlterConfigsRequest,
                    theirs::AlterConfigsResponse,
                    theirs::AlterConfigsRequest::default(),
                    theirs::AlterConfigsRequest::default().with_resources(vec![resource]),
                );
                use theirs::incremental_alter_configs_request as incremental;
                let bad = incremental::AlterableConfig::default()
                    .with_name(text("no.such.key"))
                    .with_config_operation(9)
                    .with_value(None);
                let resource = incremental::AlterConfigsResource::default()
                    .with_resource_type(2)
                    .with_resource_name(text(topic))
                    .with_configs(vec![bad]);
                ask!(
                    IncrementalAlterConfigs,
                    theirs::IncrementalAlterConfigsRequest,
                    theirs::IncrementalAlterConfigsResponse,
                    theirs::IncrementalAlterConfigsRequest::default(),
                    theirs::IncrementalAlterConfigsRequest::default()
                        .with_resources(vec![resource]),
                );
                use theirs::create_partitions_request::CreatePartitionsTopic;
                let growing =
                    CreatePartitionsTopic::default().with_name(name(topic)).with_assignments(None);
                ask!(
                    CreatePartitions,
                    theirs::CreatePartitionsRequest,
                    theirs::CreatePartitionsResponse,
                    theirs::CreatePartitionsRequest::default(),
                    theirs::CreatePartitionsRequest::default()
                        .with_topics(vec![growing.clone().with_count(1), growing.with_count(4)])
                        .with_validate_only(true),
                );
                use theirs::create_topics_request::CreatableTopic;
                let new = CreatableTopic::default().with_name(name(topic));
                let new = new.with_num_partitions(1).with_replication_factor(1);
                ask!(
                    CreateTopics,
                    theirs::CreateTopicsRequest,
                    theirs::CreateTopicsResponse,
                    theirs::CreateTopicsRequest::default(),
                    theirs::CreateTopicsRequest::default()
                        .with_topics(vec![new])
                        .with_validate_only(true),
                );
            }
            use theirs::delete_topics_request::DeleteTopicState;
            let names = vec![name("nowhere"), name("bad name")];
            let states =
                names.iter().map(|n| DeleteTopicState::default().with_name(Some(n.clone())));
            ask!(
                DeleteTopics,
                theirs::DeleteTopicsRequest,
                theirs::DeleteTopicsResponse,
                theirs::DeleteTopicsRequest::default(),
                theirs::DeleteTopicsRequest::default().with_topic_names(names.clone()),
                theirs::DeleteTopicsRequest::default().with_topics(states.collect()),
            );
            ask!(
                FindCoordinator,
                theirs::FindCoordinatorRequest,
                theirs::FindCoordinatorResponse,
                theirs::FindCoordinatorRequest::default(),
                theirs::FindCoordinatorRequest::default().with_key(text("g")),
                theirs::FindCoordinatorRequest::default()
                    .with_coordinator_keys(vec![text("g"), text("")]),
            );
            ask!(
                ApiVersions,
                theirs::ApiVersionsRequest,
                theirs::ApiVersionsResponse,
                theirs::ApiVersionsRequest::default(),
                theirs::ApiVersionsRequest::default().with_client_software_name(text("a b")),
            );
            ask!(
                InitProducerId,
                theirs::InitProducerIdRequest,
                theirs::InitProducerIdResponse,
                theirs::InitProducerIdRequest::default()
                    .with_transactional_id(Some(theirs::TransactionalId(text("tx")))),
            );
            use theirs::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
            let offsets = [0, 99].map(|o| DeleteRecordsPartition::default().with_offset(o));
            let trimmed = |topic: &'static str| {
                DeleteRecordsTopic::default()
                    .with_name(name(topic))
                    .with_partitions(offsets.to_vec())
            };
            ask!(
                DeleteRecords,
                theirs::DeleteRecordsRequest,
                theirs::DeleteRecordsResponse,
                theirs::DeleteRecordsRequest::default(),
                theirs::DeleteRecordsRequest::default()
                    .with_topics(vec![trimmed("t"), trimmed("nowhere")]),
            );
            use theirs::describe_topic_partitions_request as pages;
            let wanted =
                |topic: &'static str| pages::TopicRequest::default().with_name(name(topic));
            ask!(
                DescribeTopicPartitions,
                theirs::DescribeTopicPartitionsRequest,
                theirs::DescribeTopicPartitionsResponse,
                theirs::DescribeTopicPartitionsRequest::default(),
                theirs::DescribeTopicPartitionsRequest::default()
                    .with_topics(vec![wanted("t"), wanted("nowhere")])
                    .with_response_partition_limit(1),
                theirs::DescribeTopicPartitionsRequest::default().with_cursor(Some(
                    pages::Cursor::default().with_topic_name(name("t")).with_partition_index(1),
                )),
            );
            use theirs::describe_log_dirs_request::DescribableLogDirTopic;
            ask!(
                DescribeLogDirs,
                theirs::DescribeLogDirsRequest,
                theirs::DescribeLogDirsResponse,
                theirs::DescribeLogDirsRequest::default().with_topics(None),
                theirs::DescribeLogDirsRequest::default().with_topics(Some(vec![
                    DescribableLogDirTopic::default()
                        .with_topic(name("t"))
                        .with_partitions(vec![0, 7]),
                ])),
            );
            ask!(
                ListConfigResources,
                theirs::ListConfigResourcesRequest,
                theirs::ListConfigResourcesResponse,
                theirs::ListConfigResourcesRequest::default(),
                theirs::ListConfigResourcesRequest::default().with_resource_types(vec![2, 4, 99]),
            );
            ask!(
                DescribeCluster,
                theirs::DescribeClusterRequest,
                theirs::DescribeClusterResponse,
                theirs::DescribeClusterRequest::default(),
            );
            let group = |id: &'static str| theirs::GroupId(StrBytes::from_static_str(id));
            use theirs::join_group_request::JoinGroupRequestProtocol;
            let protocol = JoinGroupRequestProtocol::default()
                .with_name(text("range"))
                .with_metadata(bytes::Bytes::from_static(b"m"));
            let join = theirs::JoinGroupRequest::default()
                .with_group_id(group("g"))
                .with_session_timeout_ms(10_000)
                .with_rebalance_timeout_ms(100)
                .with_protocol_type(text("consumer"))
                .with_protocols(vec![protocol]);
            ask!(
                JoinGroup,
                theirs::JoinGroupRequest,
                theirs::JoinGroupResponse,
                theirs::JoinGroupRequest::default(),
                join.clone(),
                join.with_member_id(text("stranger")),
            );
            ask!(
                SyncGroup,
                theirs::SyncGroupRequest,
                theirs::SyncGroupResponse,
                theirs::SyncGroupRequest::default(),
                theirs::SyncGroupRequest::default().with_group_id(group("g")),
            );
            ask!(
                Heartbeat,
                theirs::HeartbeatRequest,
                theirs::HeartbeatResponse,
                theirs::HeartbeatRequest::default(),
                theirs::HeartbeatRequest::default().with_group_id(group("g")),
            );
            use theirs::leave_group_request::MemberIdentity;
            let member = MemberIdentity::default().with_member_id(text("stranger"));
            ask!(
                LeaveGroup,
                theirs::LeaveGroupRequest,
                theirs::LeaveGroupResponse,
                theirs::LeaveGroupRequest::default(),
                theirs::LeaveGroupRequest::default().with_group_id(group("g")),
                theirs::LeaveGroupRequest::default()
                    .with_group_id(group("g"))
                    .with_members(vec![member]),
            );
            use theirs::offset_commit_request::{
                OffsetCommitRequestPartition, OffsetCommitRequestTopic,
            };
            let offsets = [0, 9].map(|index| {
                OffsetCommitRequestPartition::default()
                    .with_partition_index(index)
                    .with_committed_offset(1)
                    .with_committed_metadata(Some(text("m")))
            });
            let committed = |topic: &'static str| {
                OffsetCommitRequestTopic::default()
                    .with_name(name(topic))
                    .with_partitions(offsets.to_vec())
            };
            ask!(
                OffsetCommit,
                theirs::OffsetCommitRequest,
                theirs::OffsetCommitResponse,
                theirs::OffsetCommitRequest::default(),
                theirs::OffsetCommitRequest::default()
                    .with_group_id(group("c"))
                    .with_topics(vec![committed("t"), committed("nowhere")]),
                theirs::OffsetCommitRequest::default()
                    .with_group_id(group("c"))
                    .with_topics(vec![OffsetCommitRequestTopic::default()]),
            );
            use theirs::offset_fetch_request::{
                OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
            };
            let wanted = OffsetFetchRequestTopic::default()
                .with_name(name("t"))
                .with_partition_indexes(vec![0, 7]);
            let some = OffsetFetchRequestTopics::default()
                .with_name(name("t"))
                .with_partition_indexes(vec![0, 7]);
            let one = OffsetFetchRequestGroup::default().with_group_id(group("c"));
            ask!(
                OffsetFetch,
                theirs::OffsetFetchRequest,
                theirs::OffsetFetchResponse,
                theirs::OffsetFetchRequest::default(),
                theirs::OffsetFetchRequest::default()
                    .with_group_id(group("c"))
                    .with_topics(Some(vec![wanted])),
                theirs::OffsetFetchRequest::default().with_groups(vec![
                    one.clone().with_topics(None),
                    one.with_topics(Some(vec![some])),
                ]),
            );
            ask!(
                DescribeGroups,
                theirs::DescribeGroupsRequest,
                theirs::DescribeGroupsResponse,
                theirs::DescribeGroupsRequest::default(),
                theirs::DescribeGroupsRequest::default().with_groups(vec![
                    group("g"),
                    group("c"),
                    group("none")
                ]),
            );
            ask!(
                ListGroups,
                theirs::ListGroupsRequest,
                theirs::ListGroupsResponse,
                theirs::ListGroupsRequest::default(),
                theirs::ListGroupsRequest::default().with_states_filter(vec![text("Stable")]),
            );
            use theirs::offset_delete_request as forget;
            let partitions = vec![forget::OffsetDeleteRequestPartition::default()];
            let topic = forget::OffsetDeleteRequestTopic::default()
                .with_name(name("t"))
                .with_partitions(partitions);
            ask!(
                OffsetDelete,
                theirs::OffsetDeleteRequest,
                theirs::OffsetDeleteResponse,
                theirs::OffsetDeleteRequest::default(),
                theirs::OffsetDeleteRequest::default()
                    .with_group_id(group("c"))
                    .with_topics(vec![topic]),
            );
            ask!(
                DeleteGroups,
                theirs::DeleteGroupsRequest,
                theirs::DeleteGroupsResponse,
                theirs::DeleteGroupsRequest::default(),
                theirs::DeleteGroupsRequest::default().with_groups_names(vec![
                    group("g"),
                    group("c"),
                    group("none")
                ]),
            );
            let all: std::collections::BTreeSet<i16> = ranges.iter().map(|r| r.0).collect();
            assert_eq!(asked, all, "every API was asked");
        });
    }
}
