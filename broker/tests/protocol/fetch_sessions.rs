//! Fetch sessions (KIP-227): what is told when, and what ends a session.

use std::time::Duration;

use rillway_wire::api::fetch::{self, ForgottenTopic, Partition, Request, Topic};
use rillway_wire::{ErrorCode, Uuid};

use crate::client::{Client, batch, bytes, decode, options, scenario, scenario_with};
use crate::field::{delete, trim};

/// A reader with a session, whose requests name `t` by name, or by id from version 13 on.
struct Reader {
    client: Client,
    version: i16,
    topic_id: Uuid,
    session: i32,
    epoch: i32,
}

/// What an answer says of a partition: index, code, high watermark, log start, offsets of its batches.
type Told = (i32, ErrorCode, i64, i64, usize);

impl Reader {
    async fn new(client: Client, version: i16) -> Reader {
        let mut reader =
            Reader { client, version, topic_id: Uuid::default(), session: 0, epoch: 0 };
        reader.topic_id = reader.client.topic_id("t").await;
        reader
    }

    fn request<'a>(&self, partitions: &[(i32, i64)], forgotten: &[i32]) -> Request<'a> {
        let partition = |(partition, fetch_offset): &(i32, i64)| Partition {
            partition: *partition,
            fetch_offset: *fetch_offset,
            partition_max_bytes: 1 << 20,
            ..Default::default()
        };
        let topic = Topic {
            topic: if self.version < 13 { "t" } else { "" },
            topic_id: self.topic_id,
            partitions: partitions.iter().map(partition).collect(),
        };
        let gone = ForgottenTopic {
            topic: if self.version < 13 { "t" } else { "" },
            topic_id: self.topic_id,
            partitions: forgotten.to_vec().into(),
        };
        Request {
            max_bytes: 1 << 20,
            session_id: self.session,
            session_epoch: self.epoch,
            topics: [topic].into_iter().filter(|t| !t.partitions.is_empty()).collect(),
            forgotten_topics_data: [gone]
                .into_iter()
                .filter(|t| !t.partitions.is_empty())
                .collect(),
            ..Default::default()
        }
    }

    async fn ask(&mut self, request: &Request<'_>) -> (ErrorCode, i32, Vec<Told>) {
        let body = self.client.call(request, self.version).await;
        told(&body, self.version)
    }

    /// Opens a session with these partitions.
    async fn open(&mut self, partitions: &[(i32, i64)]) -> Vec<Told> {
        (self.session, self.epoch) = (0, 0);
        let (code, session, told) = self.ask(&self.request(partitions, &[])).await;
        assert_eq!(code, ErrorCode::None);
        assert!(session > 0);
        (self.session, self.epoch) = (session, 1);
        told
    }

    /// The next request of the session, and what is told for it.
    async fn next(&mut self, partitions: &[(i32, i64)], forgotten: &[i32]) -> Vec<Told> {
        let (code, session, told) = self.ask(&self.request(partitions, forgotten)).await;
        assert_eq!((code, session), (ErrorCode::None, self.session));
        self.epoch += 1;
        told
    }
}

fn told(body: &[u8], version: i16) -> (ErrorCode, i32, Vec<Told>) {
    let response: fetch::Response<'_> = decode(body, version);
    let mut all = Vec::new();
    for topic in &response.responses {
        for p in &topic.partitions {
            let len = bytes(&p.records).len();
            all.push((p.partition_index, p.error_code, p.high_watermark, p.log_start_offset, len));
        }
    }
    (response.error_code, response.session_id, all)
}

/// Versions that have sessions, with names and with ids.
const VERSIONS: [i16; 5] = [7, 11, 12, 13, 17];

#[test]
fn an_answer_within_a_session_names_only_what_has_changed() {
    for cores in [1, 2] {
        for version in VERSIONS {
            scenario(cores, move |rt| async move {
                let mut client = Client::connect(&rt).await;
                client.create("t", 3).await;
                let mut writer = Client::connect(&rt).await;
                let mut reader = Reader::new(client, version).await;
                let ok = ErrorCode::None;
                let all = reader.open(&[(0, 0), (1, 0), (2, 0)]).await;
                assert_eq!(all, [(0, ok, 0, 0, 0), (1, ok, 0, 0, 0), (2, ok, 0, 0, 0)]);
                assert_eq!(reader.next(&[], &[]).await, []);
                let one = batch(&[b"a", b"b"]);
                writer.produce("t", 1, &one).await;
                let len = one.len();
                assert_eq!(reader.next(&[], &[]).await, [(1, ok, 2, 0, len)]);
                assert_eq!(reader.next(&[], &[]).await, [(1, ok, 2, 0, len)], "not yet read on");
                assert_eq!(reader.next(&[(1, 2)], &[]).await, []);
                // The start moves: told once.
                assert_eq!(trim(&mut writer, ("t", 1), 2).await, (ok, 2));
                assert_eq!(reader.next(&[], &[]).await, [(1, ok, 2, 2, 0)]);
                assert_eq!(reader.next(&[], &[]).await, []);
                // An error is told each time, and its end.
                let out = ErrorCode::OffsetOutOfRange;
                assert_eq!(reader.next(&[(0, 9)], &[]).await, [(0, out, -1, -1, 0)]);
                assert_eq!(reader.next(&[], &[]).await, [(0, out, -1, -1, 0)]);
                assert_eq!(reader.next(&[(0, 0)], &[]).await, [(0, ok, 0, 0, 0)]);
                assert_eq!(reader.next(&[], &[]).await, []);
                // What is forgotten is not told any more, and what comes back is new.
                assert_eq!(reader.next(&[], &[1]).await, []);
                writer.produce("t", 1, &one).await;
                assert_eq!(reader.next(&[], &[]).await, []);
                assert_eq!(reader.next(&[(1, 2)], &[]).await, [(1, ok, 4, 2, len)]);
            });
        }
    }
}

#[test]
fn partitions_with_records_go_behind_the_others_so_that_none_starves() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 3).await;
        let one = batch(&[b"a"]);
        for index in 0..3 {
            client.produce("t", index, &one).await;
        }
        let mut reader = Reader::new(client, 12).await;
        reader.open(&[(0, 0), (1, 0), (2, 0)]).await;
        let mut order = Vec::new();
        for _ in 0..6 {
            // Room for one batch only.
            let request = Request { max_bytes: one.len() as i32, ..reader.request(&[], &[]) };
            let (_, _, told) = reader.ask(&request).await;
            reader.epoch += 1;
            assert_eq!(told.len(), 1);
            order.push(told[0].0);
        }
        assert_eq!(order, [0, 1, 2, 0, 1, 2]);
    });
}

#[test]
fn a_wait_within_a_session_ends_with_records_of_any_of_its_partitions() {
    for version in VERSIONS {
        scenario(2, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 4).await;
            let mut writer = Client::connect(&rt).await;
            let mut reader = Reader::new(client, version).await;
            reader.open(&[(0, 0), (1, 0), (2, 0), (3, 0)]).await;
            for index in 0..4 {
                let request =
                    Request { max_wait_ms: 30_000, min_bytes: 1, ..reader.request(&[], &[]) };
                reader.client.send(&request, version).await;
                rt.sleep(Duration::from_millis(100)).await;
                let before = rt.now();
                writer.produce("t", index, &batch(&[b"a"])).await;
                let content = reader.client.frame().await.expect("an answer");
                assert!(rt.now() - before < Duration::from_secs(1));
                let body = &content[if version < 12 { 4 } else { 5 }..];
                let (_, _, told) = told(body, version);
                assert_eq!(told.iter().map(|t| t.0).collect::<Vec<_>>(), [index]);
                reader.epoch += 1;
                assert_eq!(reader.next(&[(index, 1)], &[]).await, []);
            }
            // Nothing comes: the time ends it, with nothing to tell.
            let request = Request { max_wait_ms: 500, min_bytes: 1, ..reader.request(&[], &[]) };
            let before = rt.now();
            assert_eq!(reader.ask(&request).await, (ErrorCode::None, reader.session, vec![]));
            assert!(rt.now() - before >= Duration::from_millis(500));
        });
    }
}

#[test]
fn wrong_numbers_of_a_session_and_of_its_requests_have_their_codes() {
    for version in VERSIONS {
        scenario(1, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 1).await;
            let mut reader = Reader::new(client, version).await;
            reader.open(&[(0, 0)]).await;
            let good = reader.session;
            let mut refused = async |session, epoch, code| {
                let request = Request {
                    session_id: session,
                    session_epoch: epoch,
                    ..reader.request(&[], &[])
                };
                assert_eq!(reader.ask(&request).await, (code, 0, vec![]), "{session}, {epoch}");
            };
            for epoch in [1, 2, 77, -2, i32::MIN] {
                for session in [0, -1, i32::MAX] {
                    refused(session, epoch, ErrorCode::FetchSessionIdNotFound).await;
                }
                if epoch != 1 {
                    refused(good, epoch, ErrorCode::InvalidFetchSessionEpoch).await;
                }
            }
            // None of it has harmed the session.
            assert_eq!(reader.next(&[], &[]).await, []);
            // The end ends it, and is answered as if there were none.
            let request = Request { session_epoch: -1, ..reader.request(&[(0, 0)], &[]) };
            let (code, session, told) = reader.ask(&request).await;
            assert_eq!((code, session, told.len()), (ErrorCode::None, 0, 1));
            let gone = reader.ask(&reader.request(&[], &[])).await;
            assert_eq!(gone, (ErrorCode::FetchSessionIdNotFound, 0, vec![]));
            // A new one ends the old one that it names.
            reader.open(&[(0, 0)]).await;
            let old = reader.session;
            let request = Request { session_epoch: 0, ..reader.request(&[(0, 0)], &[]) };
            let (_, new, _) = reader.ask(&request).await;
            assert!(new > 0 && new != old);
            let gone = reader.ask(&reader.request(&[], &[])).await;
            assert_eq!(gone, (ErrorCode::FetchSessionIdNotFound, 0, vec![]));
            // Without partitions it is over.
            (reader.session, reader.epoch) = (new, 1);
            assert_eq!(reader.ask(&reader.request(&[], &[0])).await, (ErrorCode::None, 0, vec![]));
        });
    }
}

#[test]
fn names_and_ids_do_not_mix_in_one_session() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let mut reader = Reader::new(client, 12).await;
        for (first, then) in [(12, 13), (13, 12)] {
            reader.version = first;
            reader.open(&[(0, 0)]).await;
            reader.version = then;
            let mixed = reader.ask(&reader.request(&[], &[])).await;
            assert_eq!(mixed, (ErrorCode::FetchSessionTopicIdError, 0, vec![]));
            reader.version = first;
            assert_eq!(reader.next(&[], &[]).await, [], "it goes on as before");
        }
    });
}

#[test]
fn a_topic_that_goes_during_a_session_is_unknown_and_inconsistent_when_its_name_comes_back() {
    for version in VERSIONS {
        scenario(2, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 2).await;
            let mut writer = Client::connect(&rt).await;
            let mut reader = Reader::new(client, version).await;
            reader.open(&[(0, 0), (1, 0)]).await;
            assert_eq!(delete(&mut writer, "t").await, ErrorCode::None);
            let failed = |index, code| (index, code, -1, -1, 0);
            let unknown = ErrorCode::UnknownTopicOrPartition;
            let told = reader.next(&[], &[]).await;
            assert_eq!(told, [failed(0, unknown), failed(1, unknown)]);
            writer.create("t", 1).await;
            let told = reader.next(&[], &[]).await;
            let first = if version < 13 {
                (0, ErrorCode::None, 0, 0, 0)
            } else {
                failed(0, ErrorCode::InconsistentTopicId)
            };
            assert_eq!(told, [first, failed(1, unknown)]);
        });
    }
}

#[test]
fn an_id_that_a_session_never_found_is_unknown() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let mut reader = Reader::new(client, 17).await;
        reader.topic_id = Uuid([7; 16]);
        let told = [(0, ErrorCode::UnknownTopicId, -1, -1, 0)];
        assert_eq!(reader.open(&[(0, 0)]).await, told);
        assert_eq!(reader.next(&[], &[]).await, told);
    });
}

#[test]
fn a_session_of_another_core_is_not_found_there() {
    scenario(2, |rt| async move {
        let mut first = Client::connect_to(&rt, 10092).await;
        first.create("t", 2).await;
        let mut reader = Reader::new(first, 12).await;
        reader.open(&[(0, 0), (1, 0)]).await;
        let here = std::mem::replace(&mut reader.client, Client::connect_to(&rt, 10192).await);
        let there = reader.ask(&reader.request(&[], &[])).await;
        assert_eq!(there, (ErrorCode::FetchSessionIdNotFound, 0, vec![]));
        // A connection of its own on the same core goes on with it.
        reader.client = here;
        assert_eq!(reader.next(&[], &[]).await, []);
        reader.client = Client::connect_to(&rt, 10092).await;
        assert_eq!(reader.next(&[], &[]).await, []);
    });
}

#[test]
fn two_requests_of_one_session_at_once_end_with_one_answer() {
    scenario(1, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 1).await;
        let mut reader = Reader::new(client, 11).await;
        reader.open(&[(0, 0)]).await;
        let wait = Request { max_wait_ms: 1_000, min_bytes: 1, ..reader.request(&[], &[]) };
        reader.client.send(&wait, 11).await;
        reader.epoch += 1;
        let second = reader.request(&[], &[]);
        reader.client.send(&second, 11).await;
        let first = reader.client.frame().await.expect("an answer");
        let overtaken = (ErrorCode::InvalidFetchSessionEpoch, reader.session, vec![]);
        assert_eq!(told(&first[4..], 11), overtaken);
        let second = reader.client.frame().await.expect("an answer");
        assert_eq!(told(&second[4..], 11), (ErrorCode::None, reader.session, vec![]));
    });
}

#[test]
fn without_a_free_slot_a_reader_is_answered_without_a_session() {
    let mut settings = options(1);
    settings.limits.fetch_sessions_max = 2;
    scenario_with(settings, |rt| async move {
        let mut client = Client::connect(&rt).await;
        client.create("t", 2).await;
        let mut reader = Reader::new(client, 12).await;
        reader.open(&[(0, 0)]).await;
        let small = (reader.session, 1);
        reader.open(&[(0, 0)]).await;
        (reader.session, reader.epoch) = (0, 0);
        let (code, session, told) = reader.ask(&reader.request(&[(0, 0), (1, 0)], &[])).await;
        assert_eq!((code, session, told.len()), (ErrorCode::None, 0, 2));
        // Two minutes later the one that rested longest gives way.
        rt.sleep(Duration::from_secs(121)).await;
        reader.open(&[(0, 0), (1, 0)]).await;
        (reader.session, reader.epoch) = small;
        let gone = reader.ask(&reader.request(&[], &[])).await;
        assert_eq!(gone, (ErrorCode::FetchSessionIdNotFound, 0, vec![]));
    });
}
