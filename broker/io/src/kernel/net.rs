use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::error::Result;
use crate::net::Part;
const NO: &str = "this backend follows in the next commit";
pub(crate) struct Acceptor;
#[allow(clippy::unused_async, unused_variables)]
impl Acceptor {
    pub(crate) async fn accept(&self) -> Result<Conn> {
        panic!("{NO}")
    }
    pub(crate) fn local_addr(&self) -> SocketAddr {
        panic!("{NO}")
    }
}
pub(crate) struct Conn;
#[allow(clippy::unused_async, unused_variables)]
impl Conn {
    pub(crate) async fn recv(&self, into: &mut Vec<u8>, max: usize) -> Result<usize> {
        panic!("{NO}")
    }
    pub(crate) async fn send(&self, parts: &mut VecDeque<Part>) -> Result<()> {
        panic!("{NO}")
    }
    pub(crate) fn peer_addr(&self) -> SocketAddr {
        panic!("{NO}")
    }
    pub(crate) fn local_addr(&self) -> SocketAddr {
        panic!("{NO}")
    }
    pub(crate) fn shutdown(&self) {
        panic!("{NO}")
    }
}
