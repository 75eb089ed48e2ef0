//! Where clients find the nodes: each core is a node with a port of its own (design section 5), at the address that
//! the client itself used, or at the one that a template gives.

use std::net::SocketAddr;

/// The nodes that this broker shows.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// Kafka: broker.id.
    pub broker_id: u32,
    pub cluster_id: String,
    /// How many nodes clients see; at least 1, at most the cores. Core c is node c modulo this.
    pub shown: usize,
    /// By listener.
    pub doors: Vec<Door>,
}

/// One listener, as its clients find it again.
#[derive(Clone, Debug)]
pub struct Door {
    /// Port of each node that is shown.
    pub ports: Vec<u16>,
    pub advertised: Option<Template>,
}

/// One node, as one client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised {
    pub id: i32,
    pub host: String,
    pub port: i32,
}

/// `HOST:PORT`, in which `{host}` is the address that the client used, `{port}` the node's port, `{core}` its number
/// from 0 on and `{node}` its id. For NAT, port forwarding and SNI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    host: String,
    port: String,
}

const PLACEHOLDERS: [&str; 4] = ["host", "port", "core", "node"];

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Template, String> {
        let wrong = |why: String| {
            format!(
                "advertised `{text}`: {why}; expected HOST:PORT with {{host}}, {{port}}, {{core}} or {{node}} in it, such as broker-{{core}}.example.com:{{port}}"
            )
        };
        if text.contains("://") {
            return Err(wrong("no PLAINTEXT:// or other protocol in front".to_owned()));
        }
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err(wrong("there is no port".to_owned()));
        };
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(wrong("there is no host".to_owned()));
        }
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let Some(end) = rest[at..].find('}').filter(|_| rest[at..].starts_with('{')) else {
                return Err(wrong("a brace has no other end".to_owned()));
            };
            let name = &rest[at + 1..at + end];
            if !PLACEHOLDERS.contains(&name) {
                return Err(wrong(format!("there is no {{{name}}}")));
            }
            rest = &rest[at + end + 1..];
        }
        let template = Template { host: host.to_owned(), port: port.to_owned() };
        let sample = fill(&template.port, "h", 9092, 0, 1000);
        if template.port.contains("{host}") || sample.parse::<u16>().map_or(true, |p| p == 0) {
            return Err(wrong(format!("`{port}` is no port")));
        }
        Ok(template)
    }

    /// Whether all nodes would be found at one place, which clients fold into one node.
    pub fn is_one_place(&self) -> bool {
        ["{port}", "{core}", "{node}"]
            .iter()
            .all(|p| !self.host.contains(p) && !self.port.contains(p))
    }
}

fn fill(text: &str, host: &str, port: u16, core: usize, node: i32) -> String {
    text.replace("{host}", host)
        .replace("{port}", &port.to_string())
        .replace("{core}", &core.to_string())
        .replace("{node}", &node.to_string())
}

impl Nodes {
    /// Node id of a core: broker id x 1000 + core, of the nodes that are shown.
    pub fn id(&self, core: usize) -> i32 {
        let id = i64::from(self.broker_id) * 1000 + (core % self.shown) as i64;
        i32::try_from(id).expect("broker ids are checked when the configuration is read")
    }

    /// The controller is core 0 of its host.
    pub fn controller(&self) -> i32 {
        self.id(0)
    }

    /// Whether a node id names a node of this host.
    pub fn is_here(&self, id: i32) -> bool {
        (0..self.shown).any(|core| self.id(core) == id)
    }

    /// All nodes, for a client that came in through a listener at `local`.
    pub fn advertised(&self, listener: usize, local: SocketAddr) -> Vec<Advertised> {
        // An IPv4 client of a dual-stack listener knows itself by its IPv4 address.
        let used = local.ip().to_canonical().to_string();
        let door = &self.doors[listener];
        let node = |(core, port): (usize, &u16)| {
            let id = self.id(core);
            let here = Advertised { id, host: used.clone(), port: i32::from(*port) };
            let Some(template) = &door.advertised else { return here };
            let filled = fill(&template.port, &used, *port, core, id);
            Advertised {
                id,
                host: fill(&template.host, &used, *port, core, id),
                // A number of a core that makes it too large: the port as it is here is the better guess.
                port: filled.parse::<u16>().map_or(here.port, i32::from),
            }
        };
        door.ports.iter().enumerate().map(node).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(shown: usize, template: Option<&str>) -> Nodes {
        let advertised = template.map(|t| Template::parse(t).unwrap());
        let ports = (0..shown).map(|i| 10092 + 100 * i as u16).collect();
        Nodes {
            broker_id: 7,
            cluster_id: String::new(),
            shown,
            doors: vec![Door { ports, advertised }],
        }
    }

    fn places(nodes: &Nodes, local: &str) -> Vec<String> {
        let all = nodes.advertised(0, local.parse().unwrap());
        all.iter().map(|n| format!("{}={}:{}", n.id, n.host, n.port)).collect()
    }

    #[test]
    fn without_a_template_nodes_are_where_the_client_came_from() {
        let nodes = nodes(2, None);
        assert_eq!(places(&nodes, "10.0.0.1:9092"), ["7000=10.0.0.1:10092", "7001=10.0.0.1:10192"]);
        assert_eq!(places(&nodes, "[::ffff:10.0.0.1]:9092")[0], "7000=10.0.0.1:10092");
        assert_eq!(places(&nodes, "[fd00::1]:9092")[0], "7000=fd00::1:10092");
    }

    #[test]
    fn a_template_names_each_node() {
        let by_core = nodes(2, Some("broker-{core}.example.com:{port}"));
        assert_eq!(
            places(&by_core, "10.0.0.1:9092"),
            ["7000=broker-0.example.com:10092", "7001=broker-1.example.com:10192"]
        );
        assert_eq!(
            places(&nodes(1, Some("localhost:19092")), "172.17.0.2:9092"),
            ["7000=localhost:19092"]
        );
        assert_eq!(places(&nodes(1, Some("[fd00::2]:1")), "172.17.0.2:9092"), ["7000=fd00::2:1"]);
        assert_eq!(
            places(&nodes(2, Some("{host}:2909{core}")), "10.0.0.1:1")[1],
            "7001=10.0.0.1:29091"
        );
    }

    #[test]
    fn cores_beyond_the_nodes_that_are_shown_are_folded_onto_them() {
        let nodes = nodes(2, None);
        assert_eq!([nodes.id(0), nodes.id(1), nodes.id(2), nodes.id(3)], [7000, 7001, 7000, 7001]);
        assert!(nodes.is_here(7001) && !nodes.is_here(7002));
    }

    #[test]
    fn templates_that_no_client_could_use_are_refused() {
        for bad in [
            "",
            "host",
            ":9092",
            "host:",
            "host:0",
            "host:x",
            "host:{host}",
            "host:99999",
            "PLAINTEXT://host:9092",
            "{hots}:9092",
            "{host:9092",
            "host}:9092",
            "a b:9092",
        ] {
            assert!(Template::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_template_that_is_the_same_for_all_nodes_is_told_from_one_that_is_not() {
        assert!(Template::parse("host:9092").unwrap().is_one_place());
        assert!(Template::parse("{host}:9092").unwrap().is_one_place());
        assert!(!Template::parse("host-{core}:9092").unwrap().is_one_place());
        assert!(!Template::parse("host:{port}").unwrap().is_one_place());
    }
}
