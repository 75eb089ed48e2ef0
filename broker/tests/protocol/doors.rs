//! Listeners, the nodes that clients are told of, and who is let in.

use std::net::SocketAddr;
use std::time::Duration;

use rillway::node::{ListenOptions, NodeOptions};
use rillway_api::Template;
use rillway_wire::ErrorCode;
use rillway_wire::api::{api_versions, metadata};

use crate::client::{Client, PORT, batch, decode, options, scenario_with};

/// The nodes that a client is told of, as id=host:port.
async fn nodes(client: &mut Client) -> Vec<String> {
    let body = client
        .call(&metadata::Request { topics: Some(vec![].into()), ..Default::default() }, 9)
        .await;
    let response: metadata::Response<'_> = decode(&body, 9);
    response.brokers.iter().map(|b| format!("{}={}:{}", b.node_id, b.host, b.port)).collect()
}

fn listening(cores: usize, doors: &[(u16, Option<&str>)], nodes: Option<usize>) -> NodeOptions {
    let listener = |(port, template): &(u16, Option<&str>)| ListenOptions {
        addr: SocketAddr::from(([0, 0, 0, 0], *port)),
        advertised: template.map(|t| Template::parse(t).expect("a template")),
    };
    NodeOptions { listeners: doors.iter().map(listener).collect(), nodes, ..options(cores) }
}

#[test]
fn each_listener_tells_its_own_ports_and_all_lead_to_the_same_records() {
    let settings =
        listening(2, &[(PORT, None), (9093, Some("outside-{core}.example:{port}"))], None);
    scenario_with(settings, |rt| async move {
        let mut inside = Client::connect(&rt).await;
        inside.create("t", 2).await;
        let found = nodes(&mut inside).await;
        assert!(found[0].ends_with(":10092") && found[1].ends_with(":10192"), "{found:?}");
        for port in [9093, 10093, 10193] {
            let mut outside = Client::connect_to(&rt, port).await;
            let want = ["1000=outside-0.example:10093", "1001=outside-1.example:10193"];
            assert_eq!(nodes(&mut outside).await, want);
            for index in 0..2 {
                assert_eq!(outside.produce("t", index, &batch(&[b"a"])).await.0, ErrorCode::None);
            }
        }
        assert_eq!(inside.fetch("t", 1, 0).await.1, 3);
    });
}

#[test]
fn a_host_that_is_one_node_needs_one_port_and_serves_every_core() {
    let settings = listening(3, &[(PORT, Some("localhost:19092"))], Some(1));
    scenario_with(settings, |rt| async move {
        let mut client = Client::connect(&rt).await;
        assert_eq!(nodes(&mut client).await, ["1000=localhost:19092"]);
        client.create("t", 6).await;
        for index in 0..6 {
            assert_eq!(client.produce("t", index, &batch(&[b"a"])).await, (ErrorCode::None, 0));
            assert_eq!(client.fetch("t", index, 0).await.1, 1);
        }
        let address = SocketAddr::from(([10, 200, 0, 1], 10092));
        assert!(rt.connect(address).await.is_err(), "no port of a core is open");
    });
}

#[test]
fn fewer_nodes_than_cores_share_the_cores_among_them() {
    scenario_with(listening(3, &[(PORT, None)], Some(2)), |rt| async move {
        let mut client = Client::connect(&rt).await;
        assert_eq!(nodes(&mut client).await.len(), 2);
        client.create("t", 6).await;
        for index in 0..6 {
            let port = client.leader_port("t", index).await;
            let mut leader = Client::connect_to(&rt, port).await;
            assert_eq!(leader.produce("t", index, &batch(&[b"a"])).await, (ErrorCode::None, 0));
        }
    });
}

#[test]
fn connections_beyond_the_limit_of_the_node_are_closed_and_the_others_go_on() {
    let mut settings = options(2);
    settings.limits.connections_max = 3;
    scenario_with(settings, |rt| async move {
        let mut within = Vec::new();
        for port in [PORT, 10092, 10192] {
            let mut client = Client::connect_to(&rt, port).await;
            client.call(&api_versions::Request::default(), 0).await;
            within.push(client);
        }
        for port in [PORT, 10092, 10192] {
            assert!(Client::connect_to(&rt, port).await.is_closed().await, "{port}");
        }
        for client in &mut within {
            client.call(&api_versions::Request::default(), 0).await;
        }
        drop(within.pop());
        rt.sleep(Duration::from_secs(1)).await;
        Client::connect(&rt).await.call(&api_versions::Request::default(), 0).await;
    });
}

#[test]
fn connections_beyond_the_limit_of_one_address_are_closed() {
    let mut settings = options(2);
    settings.limits.connections_per_ip_max = 1;
    scenario_with(settings, |rt| async move {
        let mut first = Client::connect(&rt).await;
        first.call(&api_versions::Request::default(), 0).await;
        assert!(Client::connect_to(&rt, 10192).await.is_closed().await);
        first.call(&api_versions::Request::default(), 0).await;
    });
}

#[test]
fn a_request_that_arrives_slowly_is_not_idle() {
    let mut settings = options(1);
    settings.limits.idle = Duration::from_secs(2);
    scenario_with(settings, |rt| async move {
        let mut client = Client::connect(&rt).await;
        // ApiVersions version 0, correlation id 7, no client id; a byte a second.
        for byte in [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff] {
            client.raw(&[byte]).await;
            rt.sleep(Duration::from_secs(1)).await;
        }
        let content = client.frame().await.expect("an answer");
        assert_eq!(content[..4], [0, 0, 0, 7]);
        assert!(client.is_closed().await, "idle after that");
    });
}
