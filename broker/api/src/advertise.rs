//! Where clients find the nodes: each core is a node with a port of its own (design section 5), at the address that
//! the client itself used.

use std::net::SocketAddr;

/// The nodes that this broker shows.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// Kafka: broker.id.
    pub broker_id: u32,
    /// Port of each core, by core.
    pub ports: Vec<u16>,
    pub cluster_id: String,
}

/// One node, as one client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised {
    pub id: i32,
    pub host: String,
    pub port: i32,
}

impl Nodes {
    /// Node id of a core: broker id x 1000 + core.
    pub fn id(&self, core: usize) -> i32 {
        let id = i64::from(self.broker_id) * 1000 + core as i64;
        i32::try_from(id).expect("broker ids are checked when the configuration is read")
    }

    /// The controller is core 0 of its host.
    pub fn controller(&self) -> i32 {
        self.id(0)
    }

    /// Whether a node id names a core of this host.
    pub fn is_here(&self, id: i32) -> bool {
        (0..self.ports.len()).any(|core| self.id(core) == id)
    }

    /// All nodes, for a client that came in through `local`.
    pub fn advertised(&self, local: SocketAddr) -> Vec<Advertised> {
        let ip = match local.ip() {
            // An IPv4 client of a dual-stack listener knows itself by its IPv4 address.
            std::net::IpAddr::V6(v6) => {
                v6.to_ipv4_mapped().map_or(local.ip(), std::net::IpAddr::V4)
            }
            v4 => v4,
        };
        let node = |(core, port): (usize, &u16)| Advertised {
            id: self.id(core),
            host: ip.to_string(),
            port: i32::from(*port),
        };
        self.ports.iter().enumerate().map(node).collect()
    }
}
