//! Members that vanish, and members that do not fit together.

use std::time::Duration;

use rillway_io::Runtime;
use rillway_wire::ErrorCode;
use rillway_wire::api::describe_groups;

use crate::client::{Client, decode, options, scenario, scenario_with};
use crate::group_client::{Member, settled_by_versions};

/// State of a group, and the ids of its members.
async fn described(client: &mut Client, group: &str) -> (String, Vec<String>) {
    let request = describe_groups::Request {
        groups: vec![group].into(),
        include_authorized_operations: false,
    };
    let body = client.call(&request, 5).await;
    let answer: describe_groups::Response<'_> = decode(&body, 5);
    let found = answer.groups.first().expect("a group");
    let members = found.members.iter().map(|m| m.member_id.to_owned()).collect();
    (found.group_state.to_owned(), members)
}

async fn ready(rt: &Runtime) -> Client {
    let mut client = Client::connect(rt).await;
    client.create("t", 2).await;
    // The first coordinator makes the topic of offsets.
    let mut first = Member::connect(rt, "warm").await;
    first.settle().await;
    client
}

/// group-1: a thousand joiners take an id and are never seen again.
#[test]
fn ids_that_nobody_came_back_with_are_no_members_and_hold_nobody_up() {
    for (cores, version) in [(1, 4), (2, 5), (1, 7), (2, 9)] {
        scenario(cores, move |rt| async move {
            let mut client = ready(&rt).await;
            for _ in 0..10 {
                let mut vanishing = Client::connect(&rt).await;
                for _ in 0..100 {
                    let mut member = Member::of(vanishing, "g");
                    assert_eq!(member.join_once(version).await.code, ErrorCode::MemberIdRequired);
                    vanishing = member.client;
                }
            }
            assert!(described(&mut client, "g").await.1.is_empty(), "version {version}");
            let before = rt.now();
            let mut real = Member::connect(&rt, "g").await;
            let joined = settled_by_versions(&mut real, version).await;
            assert_eq!(joined.members, [real.id.clone()]);
            // The first rebalance of a group waits 3 s for others, and not for those.
            assert!(rt.now() - before < Duration::from_secs(5), "{:?}", rt.now() - before);
            // More of them disturb nobody, and when their time is over neither.
            let generation = real.generation;
            for _ in 0..100 {
                let mut member = Member::connect(&rt, "g").await;
                assert_eq!(member.join_once(version).await.code, ErrorCode::MemberIdRequired);
            }
            for _ in 0..10 {
                assert_eq!(real.heartbeat().await, ErrorCode::None);
                rt.sleep(Duration::from_secs(3)).await;
            }
            assert_eq!(
                described(&mut client, "g").await,
                ("Stable".to_owned(), vec![real.id.clone()])
            );
            assert_eq!(real.generation, generation);
        });
    }
}

/// group-1: joins of old versions, which are members at once, whose clients die before the answer and try again.
#[test]
fn joins_of_clients_that_died_end_with_their_session_and_those_that_live_go_on() {
    for (cores, version) in [(1, 1), (2, 2), (2, 3)] {
        let mut options = options(cores);
        options.limits.idle = Duration::from_secs(86_400);
        scenario_with(options, move |rt| async move {
            let mut client = ready(&rt).await;
            let mut real = Member::connect(&rt, "g").await;
            settled_by_versions(&mut real, version).await;
            for _ in 0..100 {
                let mut dying = Member::connect(&rt, "g").await;
                dying.send_join(version).await;
                rt.sleep(Duration::from_millis(10)).await;
            }
            let before = rt.now();
            // It goes on as clients do: a rebalance means to join again.
            loop {
                match real.heartbeat().await {
                    ErrorCode::None => rt.sleep(Duration::from_secs(1)).await,
                    ErrorCode::RebalanceInProgress => {
                        let joined = real.join_once(version).await;
                        assert_eq!(joined.code, ErrorCode::None);
                        let code = real.sync(&joined.members, 3).await.0;
                        assert!(
                            [ErrorCode::None, ErrorCode::RebalanceInProgress].contains(&code),
                            "{code:?}"
                        );
                    }
                    other => panic!("the one that lives is told {other:?}"),
                }
                if described(&mut client, "g").await == ("Stable".to_owned(), vec![real.id.clone()])
                {
                    break;
                }
                assert!(rt.now() - before < Duration::from_secs(90), "ghosts do not go");
            }
            assert_eq!(real.heartbeat().await, ErrorCode::None);
        });
    }
}

/// group-2: who does not fit is refused, and those that work do not notice.
#[test]
fn joiners_that_do_not_fit_are_refused_and_the_group_goes_on_without_a_rebalance() {
    for (cores, version) in [(1, 0), (1, 1), (2, 3), (2, 5), (1, 7), (2, 9)] {
        scenario(cores, move |rt| async move {
            ready(&rt).await;
            let with = |names: &[&str]| -> Vec<(String, Vec<u8>)> {
                names.iter().map(|name| ((*name).to_owned(), b"metadata".to_vec())).collect()
            };
            // A group does not begin with nothing.
            let mut first = Member::connect(&rt, "g").await;
            first.protocols = with(&[]);
            assert_eq!(first.join_once(version).await.code, ErrorCode::InconsistentGroupProtocol);
            first.protocol_type = String::new();
            first.protocols = with(&["range"]);
            assert_eq!(first.join_once(version).await.code, ErrorCode::InconsistentGroupProtocol);
            first.protocol_type = "consumer".to_owned();
            settled_by_versions(&mut first, version).await;
            let generation = first.generation;

            let refused: [(&str, &[&str], i32, ErrorCode); 7] = [
                ("consumer", &["roundrobin"], 10_000, ErrorCode::InconsistentGroupProtocol),
                ("consumer", &[], 10_000, ErrorCode::InconsistentGroupProtocol),
                ("connect", &["range"], 10_000, ErrorCode::InconsistentGroupProtocol),
                ("", &["range"], 10_000, ErrorCode::InconsistentGroupProtocol),
                ("consumer", &["range"], 1, ErrorCode::InvalidSessionTimeout),
                ("consumer", &["range"], 5_999, ErrorCode::InvalidSessionTimeout),
                ("consumer", &["range"], 7_200_000, ErrorCode::InvalidSessionTimeout),
            ];
            for (kind, names, session, code) in refused {
                let mut other = Member::connect(&rt, "g").await;
                other.protocol_type = kind.to_owned();
                other.protocols = with(names);
                other.session_timeout_ms = session;
                for _ in 0..3 {
                    let answer = other.join_once(version).await;
                    assert_eq!(answer.code, code, "version {version}: {kind} {names:?} {session}");
                    assert_eq!(first.heartbeat().await, ErrorCode::None);
                }
            }
            assert_eq!(first.generation, generation);

            let mut both = Member::connect(&rt, "g").await;
            both.protocols = with(&["roundrobin", "range"]);
            if version >= 4 {
                assert_eq!(both.join_once(version).await.code, ErrorCode::MemberIdRequired);
            }
            both.send_join(version).await;
            while first.heartbeat().await != ErrorCode::RebalanceInProgress {
                rt.sleep(Duration::from_millis(50)).await;
            }
            let led = first.join_once(version).await;
            let followed = both.joined(version).await;
            for joined in [&led, &followed] {
                assert_eq!((joined.code, joined.protocol.as_str()), (ErrorCode::None, "range"));
                assert_eq!(joined.generation, generation + 1);
            }
        });
    }
}
