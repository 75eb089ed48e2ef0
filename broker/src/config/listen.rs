//! Where the broker listens, what it tells clients of that, and on which CPUs.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};

use rillway_api::Template;

use crate::node::ListenOptions;

/// Whether two sockets want the same address.
pub(super) fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let covers = |a: IpAddr, b: IpAddr| a.is_unspecified() && (a.is_ipv6() || b.is_ipv4());
    a.port() == b.port() && (a.ip() == b.ip() || covers(a.ip(), b.ip()) || covers(b.ip(), a.ip()))
}

/// An address to listen on. A name is looked up, and each of its addresses that this machine has is taken (`localhost`
/// is often both 127.0.0.1 and ::1).
fn resolve_one(listen: &str) -> Result<Vec<SocketAddr>, String> {
    let wrong = |why: String| {
        format!(
            "listen address `{listen}`: {why}; expected HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092; several are separated by commas"
        )
    };
    if listen.contains("://") {
        return Err(wrong("no PLAINTEXT:// or other protocol in front".to_owned()));
    }
    let found: Vec<SocketAddr> =
        listen.to_socket_addrs().map_err(|e| wrong(e.to_string()))?.collect();
    if found.iter().any(|a| a.port() == 0) {
        return Err(wrong("port 0 is no port that clients could find again".to_owned()));
    }
    if found.len() > 1 {
        let here: Vec<SocketAddr> = found.iter().copied().filter(|a| is_here(a.ip())).collect();
        if !here.is_empty() {
            return Ok(here);
        }
    }
    if found.is_empty() { Err(wrong("the name has no address".to_owned())) } else { Ok(found) }
}

/// Whether this machine has an address: one that it has can be bound.
fn is_here(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// The listeners, with what they tell clients. One template is for all of them, else there is one for each address that
/// is given.
pub(super) fn listeners(
    listen: &str,
    advertised: Option<&str>,
) -> Result<Vec<ListenOptions>, String> {
    let given: Vec<&str> = listen.split(',').map(str::trim).collect();
    let templates = match advertised {
        None => Vec::new(),
        Some(text) => {
            text.split(',').map(|t| Template::parse(t.trim())).collect::<Result<Vec<_>, _>>()?
        }
    };
    if templates.len() > 1 && templates.len() != given.len() {
        return Err(format!(
            "advertised has {} addresses and listen has {}; give one for all, or one for each",
            templates.len(),
            given.len()
        ));
    }
    let mut out: Vec<ListenOptions> = Vec::new();
    for (at, one) in given.iter().enumerate() {
        let advertised =
            templates.get(at).or_else(|| templates.first().filter(|_| templates.len() == 1));
        for addr in resolve_one(one)? {
            if out.iter().all(|l| l.addr != addr) {
                out.push(ListenOptions { addr, advertised: advertised.cloned() });
            }
        }
    }
    Ok(out)
}

/// No listener that other machines reach without authentication, unless somebody says so.
pub(super) fn check_reachable(listeners: &[ListenOptions], allowed: bool) -> Result<(), String> {
    let reachable = listeners.iter().find(|l| !l.addr.ip().to_canonical().is_loopback());
    match reachable {
        Some(l) if !allowed => Err(format!(
            "{} can be reached by other machines, and there is no authentication: anybody there could read, write and \
             delete everything. Listen on 127.0.0.1 or [::1], or accept that with --listen-without-authentication",
            l.addr
        )),
        _ => Ok(()),
    }
}

/// `core`: each core is a node; `host`: there is one; a number: so many. `None` is the first.
pub(super) fn parse_nodes(value: &str) -> Result<Option<usize>, String> {
    match value.trim() {
        "core" => Ok(None),
        "host" => Ok(Some(1)),
        number => match number.parse::<usize>() {
            Ok(n) if (1..=1000).contains(&n) => Ok(Some(n)),
            _ => Err(format!("nodes is `{value}`, must be core, host, or a number from 1 to 1000")),
        },
    }
}

/// `0,1` or `0-3`.
pub(super) fn parse_cores(value: &str) -> Result<Vec<usize>, String> {
    let wrong = || format!("cores is `{value}`, must be CPU numbers such as 0,1 or 0-3");
    let mut cores = Vec::new();
    for part in value.split(',') {
        match part.trim().split_once('-') {
            None => cores.push(part.trim().parse().map_err(|_| wrong())?),
            Some((from, to)) => {
                let (from, to): (usize, usize) =
                    (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
                if from > to || to - from > 1000 {
                    return Err(wrong());
                }
                cores.extend(from..=to);
            }
        }
    }
    // Node ids are broker.id x 1000 + core.
    if cores.is_empty() || cores.len() > 1000 {
        return Err(wrong());
    }
    let mut seen = std::collections::BTreeSet::new();
    match cores.iter().find(|c| !seen.insert(**c)) {
        Some(twice) => Err(format!("cores is `{value}`: CPU {twice} comes twice")),
        None => Ok(cores),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_lists_and_ranges() {
        assert_eq!(parse_cores("0,2-4").unwrap(), [0, 2, 3, 4]);
        for bad in ["4-2", "a", "", "0,0", "0-2,1"] {
            assert!(parse_cores(bad).is_err(), "{bad}");
        }
    }

    fn addresses(listen: &str) -> Result<Vec<SocketAddr>, String> {
        Ok(listeners(listen, None)?.into_iter().map(|l| l.addr).collect())
    }

    #[test]
    fn sockets_overlap_when_one_address_covers_the_other() {
        let overlap = |a: &str, b: &str| overlap(a.parse().unwrap(), b.parse().unwrap());
        assert!(overlap("0.0.0.0:1", "127.0.0.1:1") && overlap("127.0.0.1:1", "[::]:1"));
        assert!(overlap("[::]:1", "0.0.0.0:1") && overlap("[::1]:1", "[::1]:1"));
        assert!(!overlap("0.0.0.0:1", "[::1]:1") && !overlap("127.0.0.1:1", "[::1]:1"));
        assert!(!overlap("0.0.0.0:1", "0.0.0.0:2"));
    }

    #[test]
    fn listeners_are_several_and_of_both_families() {
        let found = addresses("127.0.0.1:9092, [::1]:9092").unwrap();
        assert_eq!(
            found.iter().map(SocketAddr::to_string).collect::<Vec<_>>(),
            ["127.0.0.1:9092", "[::1]:9092"]
        );
        for bad in
            ["PLAINTEXT://127.0.0.1:9092", "9092", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:9092,"]
        {
            assert!(addresses(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_stands_for_all_its_addresses_that_are_here() {
        let found = addresses("localhost:9092").unwrap();
        assert!(!found.is_empty() && found.iter().all(|a| a.ip().is_loopback()), "{found:?}");
    }

    #[test]
    fn templates_are_one_for_all_or_one_each() {
        let two = "127.0.0.1:9092,127.0.0.1:9093";
        let one = listeners(two, Some("h:{port}")).unwrap();
        assert!(one.iter().all(|l| l.advertised == Some(Template::parse("h:{port}").unwrap())));
        let each = listeners(two, Some("h:{port},i:{port}")).unwrap();
        assert_eq!(each[1].advertised, Some(Template::parse("i:{port}").unwrap()));
        assert!(listeners("127.0.0.1:9092", Some("h:1,i:2")).is_err());
    }

    #[test]
    fn what_other_machines_reach_needs_to_be_allowed() {
        for (listen, reachable) in [
            ("127.0.0.1:1", false),
            ("[::1]:1", false),
            ("127.9.9.9:1", false),
            ("0.0.0.0:1", true),
            ("[::]:1", true),
            ("10.0.0.1:1", true),
            ("127.0.0.1:1,0.0.0.0:2", true),
        ] {
            let listeners = listeners(listen, None).unwrap();
            assert_eq!(check_reachable(&listeners, false).is_err(), reachable, "{listen}");
            assert_eq!(check_reachable(&listeners, true), Ok(()), "{listen}");
        }
    }

    #[test]
    fn nodes_are_cores_or_the_host_or_a_number() {
        assert_eq!(
            (parse_nodes("core"), parse_nodes("host"), parse_nodes("4")),
            (Ok(None), Ok(Some(1)), Ok(Some(4)))
        );
        for bad in ["0", "-1", "hosts", ""] {
            assert!(parse_nodes(bad).is_err(), "{bad}");
        }
    }
}
