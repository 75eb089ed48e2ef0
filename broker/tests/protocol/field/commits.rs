//! Committed offsets: odd fields, and topics that go while they are read.

use rillway_io::Runtime;
use rillway_wire::api::{describe_groups, join_group, offset_commit, offset_fetch};
use rillway_wire::{ErrorCode, Uuid};

use super::delete;
use crate::client::{Client, ENDS, Lives, batch, decode, options, scenario};
use crate::group_client::{Member, commit, committed, settled_by_versions};

async fn ready(rt: &Runtime, topics: &[&str]) -> Client {
    let mut client = Client::connect(rt).await;
    for topic in topics {
        client.create(topic, 2).await;
    }
    Member::connect(rt, "warm").await.settle().await;
    client
}

/// What a group has committed for partition 0 of topics that are named by id: code and offset.
async fn committed_by_id(client: &mut Client, group: &str, ids: &[Uuid]) -> Vec<(ErrorCode, i64)> {
    let topics = ids.iter().map(|id| offset_fetch::GroupTopic {
        topic_id: *id,
        partition_indexes: vec![0].into(),
        ..Default::default()
    });
    let group = offset_fetch::Group {
        group_id: group,
        topics: Some(topics.collect()),
        ..Default::default()
    };
    let request = offset_fetch::Request { groups: vec![group].into(), ..Default::default() };
    let body = client.call(&request, 10).await;
    let answer: offset_fetch::Response<'_> = decode(&body, 10);
    let found = answer.groups.first().expect("a group");
    assert_eq!(found.error_code, ErrorCode::None);
    let one = |t: offset_fetch::GroupTopicResponse<'_>| {
        let partition = t.partitions.first().expect("a partition");
        (partition.error_code, partition.committed_offset)
    };
    found.topics.iter().map(one).collect()
}

/// commit-1: null metadata, 4,096 and 4,097 bytes of it, and a group without a name, by every version.
#[test]
fn odd_fields_of_a_commit_have_their_answers_and_the_connection_stays() {
    for cores in [1, 2] {
        scenario(cores, move |rt| async move {
            let mut client = ready(&rt, &["t", "u"]).await;
            let (fits, long) = ("m".repeat(4_096), "m".repeat(4_097));
            for version in 2..=9 {
                for group in ["g", ""] {
                    let by = (group, "", -1);
                    let at = i64::from(version);
                    let codes = commit(&mut client, by, &[("t", 0, at, None)], version).await;
                    assert_eq!(codes, [ErrorCode::None], "version {version}, group {group:?}");
                    let found = committed(&mut client, group, "t", 0).await;
                    assert_eq!(found, (at, String::new()), "version {version}, group {group:?}");
                    let offsets = [
                        ("t", 0, at + 100, Some(long.as_str())),
                        ("u", 1, at + 100, Some(fits.as_str())),
                    ];
                    let codes = commit(&mut client, by, &offsets, version).await;
                    assert_eq!(codes, [ErrorCode::OffsetMetadataTooLarge, ErrorCode::None]);
                    assert_eq!(committed(&mut client, group, "t", 0).await.0, at);
                    let found = committed(&mut client, group, "u", 1).await;
                    assert_eq!(found, (at + 100, fits.clone()));
                }
            }
            for version in 0..=6 {
                let request = describe_groups::Request {
                    groups: vec![""].into(),
                    include_authorized_operations: false,
                };
                let body = client.call(&request, version).await;
                let answer: describe_groups::Response<'_> = decode(&body, version);
                assert_eq!(answer.groups.len(), 1, "version {version}");
            }
            let mut member = Member::of(client, "");
            for version in 0..=9 {
                let joined = member.join_once(version).await;
                assert_eq!(joined.code, ErrorCode::InvalidGroupId, "version {version}");
            }
        });
    }
}

/// commit-1: a subscription without user data, with the null that some clients write, and cut off where it may be.
#[test]
fn a_subscription_is_the_clients_own_and_an_odd_one_is_handed_on_as_it_is() {
    scenario(1, |rt| async move {
        ready(&rt, &["t"]).await;
        // Version, one topic `t`, then: null user data; empty; none at all; nothing that could be read.
        let odd: [&[u8]; 5] = [
            b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff",
            b"\0\0\0\0\0\x01\0\x01t\0\0\0\0",
            b"\0\0\0\0\0\x01\0\x01t",
            b"\x7f\xff\x7f\xff\xff\xff",
            b"",
        ];
        for (n, metadata) in odd.into_iter().enumerate() {
            for version in [0, 3, 5, 9] {
                let mut member = Member::connect(&rt, &format!("g{n}-{version}")).await;
                member.protocols = vec![("range".to_owned(), metadata.to_vec())];
                if version >= 4 {
                    let code = member.join_once(version).await.code;
                    assert_eq!(code, ErrorCode::MemberIdRequired);
                }
                member.send_join(version).await;
                let body = member.client.answer::<join_group::Request<'_>>(version).await;
                let answer: join_group::Response<'_> = decode(&body, version);
                assert_eq!(answer.error_code, ErrorCode::None, "{metadata:?}");
                assert_eq!(answer.members.first().expect("itself").metadata, metadata);
            }
        }
    });
}

/// commit-2: one topic of two goes while a group reads both, over every kind of end.
#[test]
fn a_deleted_topic_fails_alone_in_a_commit_and_takes_its_offsets_with_it() {
    for end in ENDS {
        for cores in [1, 2] {
            let (lives, options) = (Lives::new(), options(cores));
            lives.live(&options, end, |rt| async move {
                let mut client = ready(&rt, &["a", "b"]).await;
                let mut member = Member::connect(&rt, "g").await;
                settled_by_versions(&mut member, 7).await;
                for topic in ["a", "b"] {
                    assert_eq!(member.commit(topic, 0, 7).await, ErrorCode::None);
                }
                let (a, b) = (client.topic_id("a").await, client.topic_id("b").await);
                let both = [(ErrorCode::None, 7), (ErrorCode::None, 7)];
                assert_eq!(committed_by_id(&mut client, "g", &[a, b]).await, both);

                assert_eq!(delete(&mut client, "b").await, ErrorCode::None);
                for version in 2..=9 {
                    let at = 10 + i64::from(version);
                    let offsets = [("b", 0, at, Some("")), ("a", 0, at, Some(""))];
                    let by = ("g", member.id.as_str(), member.generation);
                    let codes = commit(&mut client, by, &offsets, version).await;
                    assert_eq!(codes, [ErrorCode::UnknownTopicOrPartition, ErrorCode::None]);
                    assert_eq!(committed(&mut client, "g", "a", 0).await.0, at);
                    assert_eq!(committed(&mut client, "g", "b", 0).await.0, -1);
                }
                let by_id = [b, a].map(|topic_id| offset_commit::Topic {
                    topic_id,
                    partitions: vec![offset_commit::Partition {
                        committed_offset: 30,
                        ..Default::default()
                    }]
                    .into(),
                    ..Default::default()
                });
                let request = offset_commit::Request {
                    group_id: "g",
                    member_id: &member.id,
                    generation_id_or_member_epoch: member.generation,
                    topics: by_id.to_vec().into(),
                    ..Default::default()
                };
                let body = client.call(&request, 10).await;
                let answer: offset_commit::Response<'_> = decode(&body, 10);
                let codes: Vec<_> = answer
                    .topics
                    .iter()
                    .map(|t| t.partitions.first().unwrap().error_code)
                    .collect();
                assert_eq!(codes, [ErrorCode::UnknownTopicId, ErrorCode::None]);
                let found = committed_by_id(&mut client, "g", &[b, a]).await;
                assert_eq!(found, [(ErrorCode::UnknownTopicId, -1), (ErrorCode::None, 30)]);
                client.create("b", 2).await;
                for n in 0..5 {
                    assert_eq!(client.produce("b", 0, &batch(&[b"v"])).await, (ErrorCode::None, n));
                }
                assert_eq!(committed(&mut client, "g", "b", 0).await.0, -1);
            });
            lives.live(&options, end, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                assert_eq!(committed(&mut client, "g", "a", 0).await.0, 30, "{end:?}");
                assert_eq!(committed(&mut client, "g", "b", 0).await.0, -1, "{end:?}");
                let (code, high, _) = client.fetch("b", 0, 0).await;
                assert_eq!((code, high), (ErrorCode::None, 5), "all five are there to be read");
            });
        }
    }
}
