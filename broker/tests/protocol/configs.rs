//! Settings of topics and of the broker: described, altered, described again, and in force at once and after a restart.

use rillway::config::Config;
use rillway_io::Runtime;
use rillway_wire::ErrorCode;
use rillway_wire::api::describe_configs::{BROKER, TOPIC};
use rillway_wire::api::{
    alter_configs, create_topics, describe_configs, fetch, incremental_alter_configs, list_offsets,
    produce,
};
use rillway_wire::batch::{BatchBuilder, BatchView, Codec, TimestampType};

use crate::client::{
    Client, End, Lives, batch, bytes, decode, fetch_request, options, produce_request, scenario,
    scenario_with,
};

/// Name, value, source, type, read-only, synonyms as (name, source).
#[derive(Debug, PartialEq)]
struct Described {
    value: String,
    source: i8,
    config_type: i8,
    read_only: bool,
    documented: bool,
    synonyms: Vec<(String, i8)>,
}

async fn describe(
    client: &mut Client,
    kind: i8,
    name: &str,
) -> Result<std::collections::BTreeMap<String, Described>, ErrorCode> {
    let resource = describe_configs::Resource {
        resource_type: kind,
        resource_name: name,
        configuration_keys: None,
    };
    let request = describe_configs::Request {
        resources: vec![resource].into(),
        include_synonyms: true,
        include_documentation: true,
    };
    let body = client.call(&request, 4).await;
    let response: describe_configs::Response<'_> = decode(&body, 4);
    let result = response.results.first().unwrap();
    if result.error_code != ErrorCode::None {
        assert!(result.error_message.is_some_and(|m| !m.is_empty()));
        return Err(result.error_code);
    }
    let described = |c: describe_configs::Config<'_>| Described {
        value: c.value.unwrap_or("").to_owned(),
        source: c.config_source,
        config_type: c.config_type,
        read_only: c.read_only,
        documented: c.documentation.is_some_and(|d| !d.is_empty()),
        synonyms: c.synonyms.iter().map(|s| (s.name.to_owned(), s.source)).collect(),
    };
    Ok(result.configs.iter().map(|c| (c.name.to_owned(), described(c))).collect())
}

async fn value(client: &mut Client, topic: &str, name: &str) -> String {
    describe(client, TOPIC, topic).await.unwrap()[name].value.clone()
}

async fn alter(
    client: &mut Client,
    resource: (i8, &str),
    changes: &[(&str, i8, Option<&str>)],
    validate_only: bool,
) -> (ErrorCode, String) {
    let configs =
        changes.iter().map(|(name, config_operation, value)| incremental_alter_configs::Config {
            name,
            config_operation: *config_operation,
            value: *value,
        });
    let resource = incremental_alter_configs::Resource {
        resource_type: resource.0,
        resource_name: resource.1,
        configs: configs.collect(),
    };
    let request =
        incremental_alter_configs::Request { resources: vec![resource].into(), validate_only };
    let body = client.call(&request, 1).await;
    let response: incremental_alter_configs::Response<'_> = decode(&body, 1);
    let r = response.responses.first().unwrap();
    (r.error_code, r.error_message.unwrap_or("").to_owned())
}

async fn set(client: &mut Client, topic: &str, name: &str, value: &str) -> ErrorCode {
    let set = incremental_alter_configs::SET;
    alter(client, (TOPIC, topic), &[(name, set, Some(value))], false).await.0
}

async fn replace(client: &mut Client, topic: &str, configs: &[(&str, &str)]) -> ErrorCode {
    let configs =
        configs.iter().map(|(name, value)| alter_configs::Config { name, value: Some(value) });
    let resource = alter_configs::Resource {
        resource_type: TOPIC,
        resource_name: topic,
        configs: configs.collect(),
    };
    let request = alter_configs::Request { resources: vec![resource].into(), validate_only: false };
    let body = client.call(&request, 2).await;
    let response: alter_configs::Response<'_> = decode(&body, 2);
    response.responses.first().unwrap().error_code
}

#[test]
fn everything_that_is_described_can_be_set_again() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let before = describe(&mut client, TOPIC, "t").await.unwrap();
        assert!(before.len() >= 22);
        for (name, d) in &before {
            assert_eq!((d.source, d.read_only, d.documented), (5, false, true), "{name}");
            assert!([1, 2, 3, 5, 6, 7].contains(&d.config_type), "{name}");
            assert_eq!(d.synonyms.len(), 1, "{name}");
            assert_eq!(set(&mut client, "t", name, &d.value).await, ErrorCode::None, "{name}");
        }
        let all: Vec<(&str, &str)> =
            before.iter().map(|(n, d)| (n.as_str(), d.value.as_str())).collect();
        assert_eq!(replace(&mut client, "t", &all).await, ErrorCode::None);
        for (name, d) in describe(&mut client, TOPIC, "t").await.unwrap() {
            assert_eq!((&d.value, d.source), (&before[&name].value, 1), "{name}");
            assert_eq!(d.synonyms[0], (name, 1));
        }
    });
}

#[test]
fn a_new_limit_of_batches_holds_for_the_next_one_and_counts_stored_bytes() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 2).await;
        let sized = |n: usize| batch(&[&vec![7; n]]);
        let overhead = sized(90_000).len() - 90_000;
        let (fits, larger) = (sized(100_000 - overhead), sized(100_001 - overhead));
        assert_eq!((fits.len(), larger.len()), (100_000, 100_001));
        assert_eq!(set(&mut client, "t", "max.message.bytes", "100000").await, ErrorCode::None);
        for index in 0..2 {
            assert_eq!(client.produce("t", index, &fits).await.0, ErrorCode::None);
            assert_eq!(client.produce("t", index, &larger).await.0, ErrorCode::MessageTooLarge);
        }
        let mut small = BatchBuilder::new(Codec::Gzip);
        small.push(1_000, None, Some(&vec![7; 1_000_000]), &[]);
        assert_eq!(client.produce("t", 0, &small.build().unwrap()).await.0, ErrorCode::None);
        assert_eq!(set(&mut client, "t", "max.message.bytes", "100001").await, ErrorCode::None);
        assert_eq!(client.produce("t", 1, &larger).await, (ErrorCode::None, 1));
        assert_eq!(
            set(&mut client, "t", "max.message.bytes", "2000000000").await,
            ErrorCode::InvalidConfig,
            "more than a ring takes"
        );
    });
}

#[test]
fn a_shorter_retention_is_looked_at_at_once() {
    let mut settings = options(2);
    settings.shard.retention_check_interval = std::time::Duration::from_secs(86_400);
    scenario_with(settings, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 2).await;
        for index in 0..2 {
            // Of 1970: older than any retention.
            assert_eq!(set(&mut client, "t", "retention.ms", "-1").await, ErrorCode::None);
            client.produce("t", index, &batch(&[b"old"])).await;
        }
        assert_eq!(set(&mut client, "t", "retention.ms", "1000").await, ErrorCode::None);
        for index in 0..2 {
            let mut gone = false;
            // Each alteration is another look: the first rolls the segment, a later one deletes it when it is sealed.
            for round in 0..100 {
                if client.fetch("t", index, 0).await.0 == ErrorCode::OffsetOutOfRange {
                    gone = true;
                    break;
                }
                rt.sleep(std::time::Duration::from_secs(1)).await;
                let ms = (1_000 + round).to_string();
                set(&mut client, "t", "retention.ms", &ms).await;
            }
            assert!(gone, "partition {index}");
        }
    });
}

#[test]
fn settings_outlive_a_stop_and_a_power_cut() {
    let (lives, options) = (Lives::new(), options(2));
    lives.live(&options, End::PowerCut, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 2).await;
        assert_eq!(set(&mut client, "t", "max.message.bytes", "1000").await, ErrorCode::None);
        assert_eq!(set(&mut client, "t", "flush.ms", "17").await, ErrorCode::None);
    });
    for end in [End::Stop, End::PowerCut, End::Stop] {
        lives.live(&options, end, |rt| async move {
            let mut client = Client::connect(&rt).await;
            assert_eq!(value(&mut client, "t", "max.message.bytes").await, "1000");
            assert_eq!(value(&mut client, "t", "flush.ms").await, "17");
            let large = batch(&[&[7; 1000]]);
            assert_eq!(client.produce("t", 1, &large).await.0, ErrorCode::MessageTooLarge);
        });
    }
}

#[test]
fn single_settings_are_set_deleted_appended_and_subtracted_all_or_none() {
    use incremental_alter_configs::{APPEND, DELETE, SET, SUBTRACT};
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let t = (TOPIC, "t");
        let two = [("retention.ms", SET, Some("5")), ("segment.ms", SET, Some("6"))];
        assert_eq!(alter(&mut client, t, &two, false).await.0, ErrorCode::None);
        let mixed = [("retention.ms", DELETE, None), ("segment.ms", SET, Some("soon"))];
        assert_eq!(alter(&mut client, t, &mixed, false).await.0, ErrorCode::InvalidConfig);
        assert_eq!(value(&mut client, "t", "retention.ms").await, "5", "none of the two");
        let deleted = [("retention.ms", DELETE, None)];
        assert_eq!(alter(&mut client, t, &deleted, true).await.0, ErrorCode::None);
        assert_eq!(value(&mut client, "t", "retention.ms").await, "5", "validate_only");
        assert_eq!(alter(&mut client, t, &deleted, false).await.0, ErrorCode::None);
        assert_eq!(value(&mut client, "t", "retention.ms").await, "604800000");
        assert_eq!(value(&mut client, "t", "segment.ms").await, "6");
        let append = [("cleanup.policy", APPEND, Some("delete"))];
        assert_eq!(alter(&mut client, t, &append, false).await.0, ErrorCode::None);
        for (changes, code) in [
            ([("cleanup.policy", APPEND, Some("compactt"))], ErrorCode::InvalidConfig),
            ([("cleanup.policy", SUBTRACT, Some("delete"))], ErrorCode::InvalidConfig),
            ([("retention.ms", APPEND, Some("1"))], ErrorCode::InvalidConfig),
            ([("no.such.key", SET, Some("1"))], ErrorCode::InvalidConfig),
            ([("segment.jitter.ms", SET, Some("1"))], ErrorCode::InvalidConfig),
            ([("min.cleanable.dirty.ratio", SET, Some("2"))], ErrorCode::InvalidConfig),
            ([("retention.ms", SET, None)], ErrorCode::InvalidRequest),
            ([("retention.ms", 9, Some("1"))], ErrorCode::InvalidRequest),
        ] {
            let (got, why) = alter(&mut client, t, &changes, false).await;
            assert_eq!(got, code, "{changes:?}");
            assert!(!why.is_empty() && why.contains(changes[0].0) || changes[0].1 == 9, "{why}");
        }
        let compact = [("cleanup.policy", APPEND, Some("compact"))];
        assert_eq!(alter(&mut client, t, &compact, false).await.0, ErrorCode::None);
        assert_eq!(value(&mut client, "t", "cleanup.policy").await, "delete,compact");
        let only = [("cleanup.policy", SUBTRACT, Some("delete"))];
        assert_eq!(alter(&mut client, t, &only, false).await.0, ErrorCode::None);
        assert_eq!(value(&mut client, "t", "cleanup.policy").await, "compact");
        let lags =
            [("min.compaction.lag.ms", SET, Some("10")), ("max.compaction.lag.ms", SET, Some("9"))];
        let (code, why) = alter(&mut client, t, &lags, false).await;
        assert!(code == ErrorCode::InvalidConfig && why.contains("conflict"), "{why}");
        let twice = [("segment.ms", SET, Some("7")), ("segment.ms", DELETE, None)];
        assert_eq!(alter(&mut client, t, &twice, false).await.0, ErrorCode::InvalidRequest);
        assert_eq!(value(&mut client, "t", "segment.ms").await, "6");
        let gone = (TOPIC, "no-such-topic");
        let code = alter(&mut client, gone, &deleted, false).await.0;
        assert_eq!(code, ErrorCode::UnknownTopicOrPartition);
        let broker = [("message.max.bytes", SET, Some("1"))];
        assert_eq!(
            alter(&mut client, (BROKER, "1000"), &broker, false).await.0,
            ErrorCode::InvalidRequest
        );
    });
}

#[test]
fn alter_configs_replaces_everything() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        assert_eq!(set(&mut client, "t", "retention.ms", "5").await, ErrorCode::None);
        assert_eq!(replace(&mut client, "t", &[("segment.ms", "6")]).await, ErrorCode::None);
        assert_eq!(value(&mut client, "t", "retention.ms").await, "604800000");
        assert_eq!(value(&mut client, "t", "segment.ms").await, "6");
        assert_eq!(
            replace(&mut client, "t", &[("segment.ms", "x")]).await,
            ErrorCode::InvalidConfig
        );
        assert_eq!(
            value(&mut client, "t", "segment.ms").await,
            "6",
            "the connection and the setting live"
        );
    });
}

#[test]
fn a_topics_default_comes_from_the_brokers_setting_and_says_so() {
    let mut config = Config::default();
    config.set("data.dir", "/data").unwrap();
    config.set("log.retention.hours", "1").unwrap();
    config.set("message.max.bytes", "100000").unwrap();
    let configured = config.node(None).unwrap();
    let mut settings = options(1);
    (settings.configs, settings.shard.defaults) = (configured.configs, configured.shard.defaults);
    scenario_with(settings, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        assert_eq!(set(&mut client, "t", "max.message.bytes", "50000").await, ErrorCode::None);
        let topic = describe(&mut client, TOPIC, "t").await.unwrap();
        let retention = &topic["retention.ms"];
        assert_eq!((retention.value.as_str(), retention.source), ("3600000", 4));
        assert_eq!(
            retention.synonyms,
            [("log.retention.ms".to_owned(), 4), ("log.retention.ms".to_owned(), 5)]
        );
        let sources: Vec<i8> = topic["max.message.bytes"].synonyms.iter().map(|s| s.1).collect();
        assert_eq!(sources, [1, 4, 5]);
        let broker = describe(&mut client, BROKER, "1000").await.unwrap();
        let limit = &broker["message.max.bytes"];
        assert_eq!((limit.value.as_str(), limit.source, limit.read_only), ("100000", 4, true));
        assert_eq!(broker["num.partitions"].source, 5);
        assert!(broker.values().all(|d| d.read_only && d.documented));
    });
}

#[test]
fn what_cannot_be_described_says_why() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        for (kind, name, code) in [
            (TOPIC, "none", ErrorCode::UnknownTopicOrPartition),
            (TOPIC, "a b", ErrorCode::InvalidTopicException),
            (BROKER, "7", ErrorCode::InvalidRequest),
            (BROKER, "x", ErrorCode::InvalidRequest),
            (32, "group", ErrorCode::InvalidRequest),
        ] {
            assert_eq!(describe(&mut client, kind, name).await.unwrap_err(), code, "{kind} {name}");
        }
        assert!(describe(&mut client, BROKER, "").await.unwrap().is_empty());
    });
}

async fn produce_timed(client: &mut Client, rt: &Runtime, batch: &[u8]) -> (ErrorCode, i64, i64) {
    let before = rt.wall_ms();
    let body = client.call(&produce_request("t", 0, batch, -1), 7).await;
    let response: produce::Response<'_> = decode(&body, 7);
    let p = response.responses.first().unwrap().partition_responses.first().unwrap();
    (p.error_code, p.log_append_time_ms, before)
}

#[test]
fn with_log_append_time_records_have_the_brokers_time_everywhere() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let (code, given, _) = produce_timed(&mut client, &rt, &batch(&[b"a"])).await;
        assert_eq!((code, given), (ErrorCode::None, -1));
        set(&mut client, "t", "message.timestamp.type", "LogAppendTime").await;
        let (code, given, before) = produce_timed(&mut client, &rt, &batch(&[b"b", b"c"])).await;
        assert_eq!(code, ErrorCode::None);
        assert!(given >= before && given <= rt.wall_ms(), "{given}");
        let body = client.call(&fetch_request(&[("t", 0, 1, 1000)], 1000, 0, 0), 11).await;
        let response: fetch::Response<'_> = decode(&body, 11);
        let records =
            bytes(&response.responses.first().unwrap().partitions.first().unwrap().records);
        let view = BatchView::parse(&records).unwrap();
        assert_eq!(
            (view.timestamp_type(), view.max_timestamp()),
            (TimestampType::LogAppendTime, given)
        );
        assert!(view.check_crc());
        let at_time = list_offsets::Partition { timestamp: given, ..Default::default() };
        let topic = list_offsets::Topic { name: "t", partitions: vec![at_time].into() };
        let asked = list_offsets::Request {
            replica_id: -1,
            topics: vec![topic].into(),
            ..Default::default()
        };
        let body = client.call(&asked, 7).await;
        let response: list_offsets::Response<'_> = decode(&body, 7);
        let p = response.topics.first().unwrap().partitions.first().unwrap();
        assert_eq!((p.offset, p.timestamp), (1, given), "a search by time goes by the broker's");
        let mut claimed = records[..view.total_len()].to_vec();
        claimed[..8].fill(0);
        let code = produce_timed(&mut client, &rt, &claimed).await.0;
        assert_eq!(
            code,
            ErrorCode::InvalidTimestamp,
            "a producer does not claim the broker's time"
        );
    });
}

#[test]
fn times_outside_the_limits_of_the_topic_are_refused() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let at = |time: i64| {
            let mut b = BatchBuilder::new(Codec::None);
            b.push(time, None, Some(b"v"), &[]);
            b.build().unwrap()
        };
        let now = rt.wall_ms();
        set(&mut client, "t", "message.timestamp.before.max.ms", "60000").await;
        set(&mut client, "t", "message.timestamp.after.max.ms", "60000").await;
        for (time, code) in [
            (now, ErrorCode::None),
            (-1, ErrorCode::None),
            (now - 120_000, ErrorCode::InvalidTimestamp),
            (now + 120_000, ErrorCode::InvalidTimestamp),
        ] {
            assert_eq!(client.produce("t", 0, &at(time)).await.0, code, "{}", time - now);
        }
    });
}

#[test]
fn more_replicas_in_sync_than_a_partition_has_are_as_many_as_it_has() {
    scenario(2, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        assert_eq!(set(&mut client, "t", "min.insync.replicas", "2").await, ErrorCode::None);
        let one = batch(&[b"a"]);
        assert_eq!(client.produce("t", 0, &one).await, (ErrorCode::None, 0));
        let body = client.call(&produce_request("t", 0, &one, 1), 7).await;
        let response: produce::Response<'_> = decode(&body, 7);
        let p = response.responses.first().unwrap().partition_responses.first().unwrap();
        assert_eq!((p.error_code, p.base_offset), (ErrorCode::None, 1));
    });
}

/// What Apache Kafka 4.2 answered to the same question, recorded with its Java client.
#[test]
fn every_setting_of_kafka_is_refused_by_name_or_has_kafkas_type_default_and_broker_name() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../client/wire/tests/golden/java-4.2/describe_configs-v4-response.hex"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let digits: String = text
        .lines()
        .filter(|l| !l.starts_with('#'))
        .flat_map(str::chars)
        .filter(char::is_ascii_hexdigit)
        .collect();
    let frame: Vec<u8> = (0..digits.len() / 2)
        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
        .collect();
    scenario(1, move |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let ours = describe(&mut client, TOPIC, "t").await.unwrap();
        // A correlation id and no tagged fields stand before the body.
        let kafka: describe_configs::Response<'_> = decode(&frame[5..], 4);
        let mut known = 0;
        for theirs in &kafka.results.first().unwrap().configs {
            let name = theirs.name;
            let Some(own) = ours.get(name) else {
                let changes = [(name, incremental_alter_configs::SET, theirs.value)];
                let (code, why) = alter(&mut client, (TOPIC, "t"), &changes, false).await;
                assert_eq!(code, ErrorCode::InvalidConfig, "{name}");
                assert!(why.contains("not supported yet"), "{why}");
                continue;
            };
            known += 1;
            assert_eq!(own.config_type, theirs.config_type, "{name}");
            if theirs.config_source == describe_configs::SOURCE_DEFAULT {
                assert_eq!(Some(own.value.as_str()), theirs.value, "{name}");
            }
            for synonym in
                theirs.synonyms.iter().filter(|s| s.source == describe_configs::SOURCE_DEFAULT)
            {
                assert_eq!(own.synonyms[0].0, synonym.name, "{name}");
            }
        }
        assert_eq!(known, ours.len());
    });
}

/// The answer quotes what is wrong, and that with its own words is more than a text of an old version holds.
#[test]
fn names_and_values_as_long_as_the_protocol_lets_them_be_are_answered() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let long = "x".repeat(i16::MAX as usize);
        for (name, value) in [(&*long, "1"), ("cleanup.policy", &*long), ("retention.ms", &*long)] {
            let config = create_topics::Config { name, value: Some(value) };
            let topic = create_topics::Topic {
                name: "made",
                num_partitions: 1,
                replication_factor: 1,
                configs: vec![config].into(),
                ..Default::default()
            };
            let request =
                create_topics::Request { topics: vec![topic].into(), ..Default::default() };
            let body = client.call(&request, 4).await;
            let answer: create_topics::Response<'_> = decode(&body, 4);
            assert_eq!(answer.topics.first().unwrap().error_code, ErrorCode::InvalidConfig);

            let config =
                incremental_alter_configs::Config { name, config_operation: 0, value: Some(value) };
            let resource = incremental_alter_configs::Resource {
                resource_type: TOPIC,
                resource_name: "t",
                configs: vec![config].into(),
            };
            let request = incremental_alter_configs::Request {
                resources: vec![resource].into(),
                ..Default::default()
            };
            let body = client.call(&request, 0).await;
            let answer: incremental_alter_configs::Response<'_> = decode(&body, 0);
            assert_eq!(answer.responses.first().unwrap().error_code, ErrorCode::InvalidConfig);
        }
        assert!(describe(&mut client, BROKER, &long).await.is_err());
    });
}
