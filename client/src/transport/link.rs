//! One connection: resolves a name, connects, then reads in one task and sends in another.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::rc::Rc;

use bytes::Bytes;
use rillway_io::{Class, Conn, IoList, Notify, Runtime, reply};

use super::Inner;
use crate::Address;
use crate::core::LinkId;

/// What waits to be sent on a connection.
#[derive(Default)]
pub(super) struct Outbox {
    lists: RefCell<VecDeque<IoList>>,
    changed: Notify,
    conn: RefCell<Option<Conn>>,
    closed: Cell<bool>,
}

impl Outbox {
    pub(super) fn push(&self, parts: Vec<Bytes>) {
        let mut list = IoList::new();
        for part in parts {
            // Free for what nobody else holds. A batch is held for a retry, and so copied: about 0.1 CPU-s/GiB.
            list.push_bytes(Vec::from(part));
        }
        self.lists.borrow_mut().push_back(list);
        self.changed.notify_all();
    }

    pub(super) fn close(&self) {
        self.closed.set(true);
        if let Some(conn) = self.conn.borrow_mut().take() {
            conn.shutdown();
        }
        self.changed.notify_all();
    }
}

/// A connection's life.
pub(super) async fn run(inner: Rc<Inner>, link: LinkId, to: Address, outbox: Rc<Outbox>) {
    let detail = match connect(&inner.rt, &to).await {
        Ok(conn) if !outbox.closed.get() => {
            *outbox.conn.borrow_mut() = Some(conn.clone());
            let sender = send(conn.clone(), Rc::clone(&outbox));
            inner.rt.spawn(Class::Data, sender).detach();
            inner.with(|core, _| core.connected(link));
            receive(&inner, link, &conn).await
        }
        Ok(_) => return,
        Err(detail) => detail,
    };
    inner.outboxes.borrow_mut().remove(&link);
    outbox.close();
    if !inner.closed.get() {
        inner.with(|core, now| core.closed(link, &detail, now));
    }
}

/// Reads until the connection ends; returns why it did.
async fn receive(inner: &Rc<Inner>, link: LinkId, conn: &Conn) -> String {
    loop {
        let want = inner.core.borrow().want(link);
        if want == 0 || inner.closed.get() {
            return "closed by this side".to_string();
        }
        let mut bytes = inner.core.borrow_mut().lend(link);
        match conn.recv(&mut bytes, want).await {
            Ok(0) => return "the broker closed it".to_string(),
            Ok(_) => inner.with(|core, now| core.received(link, bytes, now)),
            Err(error) => return error.to_string(),
        }
    }
}

/// Sends until the connection ends. The reader learns of it and tells the core.
async fn send(conn: Conn, outbox: Rc<Outbox>) {
    while !outbox.closed.get() {
        let changed = outbox.changed.notified();
        let next = outbox.lists.borrow_mut().pop_front();
        match next {
            Some(list) => {
                if conn.send(list).await.is_err() {
                    conn.shutdown();
                    return;
                }
            }
            None => changed.await,
        }
    }
}

/// Connects to the first address of a name that answers; otherwise returns what went wrong with the last one.
pub(crate) async fn connect(rt: &Runtime, to: &Address) -> Result<Conn, String> {
    let mut why = "the name has no address".to_string();
    for address in resolve(to).await? {
        match rt.connect(address).await {
            Ok(conn) => return Ok(conn),
            Err(error) => why = error.source.to_string(),
        }
    }
    Err(why)
}

/// The addresses of a name. Names are looked up on a thread, since the system's lookup blocks.
async fn resolve(to: &Address) -> Result<Vec<SocketAddr>, String> {
    if let Ok(ip) = to.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, to.port)]);
    }
    let (answer, found) = reply();
    let Address { host, port } = to.clone();
    let look_up = move || {
        let found = (host.as_str(), port).to_socket_addrs();
        answer.send(found.map(Iterator::collect).map_err(|e| e.to_string()))
    };
    let thread = std::thread::Builder::new().name("resolve".to_string());
    thread.spawn(look_up).map_err(|e| e.to_string())?;
    found.await.unwrap_or_else(|| Err("the lookup ended without an answer".to_string()))
}
