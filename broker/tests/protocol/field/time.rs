//! Times of records, and a wall clock that does not go with them.

use std::path::PathBuf;
use std::time::Duration;

use rillway_wire::ErrorCode;
use rillway_wire::api::list_offsets::MAX_TIMESTAMP;
use rillway_wire::batch::Codec;

use super::{CODECS, claiming, create_with, ends, fetch_as, list, read, timed};
use crate::client::{Client, ENDS, End, Lives, fetch_request, options, scenario};
use crate::group_client::{Member, committed};

const T: (&str, i32) = ("t", 0);
const HOUR: Duration = Duration::from_secs(3_600);

/// time-1: time 0 is old, no time at all is counted from the write, and every record keeps what it came with.
#[test]
fn records_of_1970_go_with_the_next_check_and_those_without_a_time_after_retention_ms() {
    for codec in CODECS {
        let mut options = options(1);
        options.shard.retention_check_interval = Duration::from_secs(60);
        options.limits.idle = Duration::from_secs(86_400);
        let lives = Lives::new();
        lives.live(&options, End::Stop, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            let now = rt.wall_ms();
            let topics: [(&str, &[i64]); 4] =
                [("zero", &[0, 0]), ("none", &[-1, -1]), ("now", &[now]), ("mixed", &[0, -1, now])];
            for (topic, times) in topics {
                let configs = [("retention.ms", "3600000")];
                assert_eq!(create_with(&mut client, topic, 1, &configs).await, ErrorCode::None);
                assert_eq!(
                    client.produce(topic, 0, &timed(codec, times)).await,
                    (ErrorCode::None, 0)
                );
                let (_, _, records) = client.fetch(topic, 0, 0).await;
                let got: Vec<_> = read(&records)[0].records.iter().map(|r| r.1).collect();
                assert_eq!(got, times, "{topic}: returned as it came");
            }
            assert_eq!(list(&mut client, ("none", 0), 0, 0).await, (ErrorCode::None, -1, -1));
            assert_eq!(list(&mut client, ("mixed", 0), 0, 0).await, (ErrorCode::None, 0, 0));
            assert_eq!(list(&mut client, ("mixed", 0), 1, 0).await, (ErrorCode::None, 2, now));
            rt.sleep(HOUR - Duration::from_secs(600)).await;
            assert_eq!(ends(&mut client, ("zero", 0)).await, (2, 2));
            for (topic, end) in [("none", 2), ("now", 1), ("mixed", 3)] {
                assert_eq!(ends(&mut client, (topic, 0)).await, (0, end), "{topic} is young");
            }
        });
        lives.live(&options, End::PowerCut, |rt| async move {
            let mut client = Client::connect(&rt).await;
            rt.sleep(Duration::from_secs(1_200)).await;
            for (topic, end) in [("zero", 2), ("none", 2), ("now", 1), ("mixed", 3)] {
                assert_eq!(ends(&mut client, (topic, 0)).await, (end, end), "{topic} is old");
            }
        });
    }
}

/// time-1: a difference from Kafka, which holds every record against the limits: the first and the largest time of a
/// batch are, and a single record between them passes.
#[test]
fn single_records_outside_the_limits_of_time_pass_between_a_first_and_a_last_that_do_not() {
    for codec in CODECS {
        scenario(1, move |rt| async move {
            let mut client = Client::connect(&rt).await;
            let minute = 60_000;
            let configs = [
                ("message.timestamp.before.max.ms", "60000"),
                ("message.timestamp.after.max.ms", "60000"),
            ];
            assert_eq!(create_with(&mut client, "t", 1, &configs).await, ErrorCode::None);
            let now = rt.wall_ms();
            let (old, future) = (now - 10 * minute, now + 10 * minute);
            for (times, code) in [
                (&[now, old, now][..], ErrorCode::None),
                (&[old, now], ErrorCode::InvalidTimestamp),
                (&[now, future], ErrorCode::InvalidTimestamp),
                (&[now, -1], ErrorCode::None),
            ] {
                assert_eq!(client.produce("t", 0, &timed(codec, times)).await.0, code);
            }
            // The header says that none is later than now.
            let hidden = claiming(timed(codec, &[now, future]), now);
            assert_eq!(client.produce("t", 0, &hidden).await, (ErrorCode::None, 5));
        });
    }
}

/// time-2: a restart while the clock stands twenty minutes behind the newest record. The disk moves into a world whose time
/// has only begun. (A step while the broker runs: `ci/load`, on the real clock.)
#[test]
fn a_broker_whose_clock_stands_behind_its_newest_record_serves_appends_waits_and_retains() {
    for end in ENDS {
        let mut options = options(1);
        options.shard.retention_check_interval = Duration::from_secs(10);
        options.limits.idle = Duration::from_secs(86_400);
        let ahead = Lives::new();
        let (tell, told) = rillway_io::mailbox(1);
        ahead.live(&options, end, |rt| async move {
            let mut client = Client::connect(&rt).await;
            rt.sleep(HOUR / 3).await;
            let configs = [("retention.ms", "60000"), ("segment.ms", "30000")];
            assert_eq!(create_with(&mut client, "t", 1, &configs).await, ErrorCode::None);
            let now = rt.wall_ms();
            client.produce("t", 0, &timed(Codec::None, &[now, now + 1])).await;
            let mut member = Member::connect(&rt, "g").await;
            member.settle().await;
            assert_eq!(member.commit("t", 0, 2).await, ErrorCode::None);
            tell.try_send((member.id, member.generation)).unwrap();
        });
        let mut told = told;
        let (id, generation) = told.try_recv().expect("said by the life ahead");
        let behind = Lives::new();
        // The folders of the same topic; all files are replaced.
        behind.live(&options, End::Stop, |rt| async move {
            let mut client = Client::connect(&rt).await;
            client.create("t", 1).await;
            client.produce("t", 0, &timed(Codec::None, &[rt.wall_ms()])).await;
            let mut member = Member::connect(&rt, "g").await;
            member.settle().await;
            assert_eq!(member.commit("t", 0, 0).await, ErrorCode::None);
        });
        let (from, to) = (ahead.world().disk("broker"), behind.world().disk("broker"));
        let files: Vec<PathBuf> = from.files();
        assert!(!files.is_empty());
        to.files().iter().for_each(|path| to.remove(path));
        for path in &files {
            to.put(path, &from.read(path).expect("a file that is listed"));
        }
        behind.live(&options, End::Stop, |rt| async move {
            let mut client = Client::connect(&rt).await;
            assert_eq!(ends(&mut client, T).await, (0, 2));
            // The group is loaded from records that are later than now; its member is neither lost nor kept for longer.
            let mut member = Member::connect(&rt, "g").await;
            (member.id, member.generation) = (id, generation);
            assert_eq!(member.heartbeat().await, ErrorCode::None);
            assert_eq!(committed(&mut client, "g", "t", 0).await.0, 2);
            for at in 0..3 {
                rt.sleep(Duration::from_secs(8)).await;
                assert_eq!(member.commit("t", 0, at).await, ErrorCode::None);
                assert_eq!(member.heartbeat().await, ErrorCode::None);
            }
            rt.sleep(Duration::from_secs(11)).await;
            assert_eq!(member.heartbeat().await, ErrorCode::UnknownMemberId);
            let now = rt.wall_ms();
            let (_, _, records) = client.fetch("t", 0, 0).await;
            let newest = read(&records)[0].max_timestamp;
            assert!(newest > now + 1_000_000, "{newest} is later than {now}");
            assert_eq!(client.produce("t", 0, &timed(Codec::None, &[now])).await.1, 2);
            assert_eq!(list(&mut client, T, MAX_TIMESTAMP, 0).await, (ErrorCode::None, 1, newest));
            let before = rt.now();
            let request = fetch_request(&[("t", 0, 3, 100)], 100, 1, 500);
            assert_eq!(fetch_as(&mut client, &request, 11).await[0].code, ErrorCode::None);
            let waited = rt.now() - before;
            assert!(waited >= Duration::from_millis(500) && waited < Duration::from_secs(1));
            // Nothing is deleted before its time has come on this clock, and then it is.
            rt.sleep(HOUR / 6).await;
            assert_eq!(ends(&mut client, T).await.0, 0);
            rt.sleep(HOUR / 3).await;
            assert_eq!(ends(&mut client, T).await, (3, 3));
        });
    }
}
