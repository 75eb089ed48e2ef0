//! Listening sockets of one core: the shared port, and the core's own.

use rillway_io::{Acceptor, Class};

use crate::admission::Admitted;
use crate::connection;
use crate::context::Context;

/// A socket that is bound already.
pub struct Listener {
    pub acceptor: Acceptor,
    /// Which door of [`Nodes`](crate::Nodes) it is.
    pub door: usize,
}

/// Closes idle connections of this core, for as long as it is polled.
pub async fn watch_idle(context: Context) {
    connection::watch_idle(context).await;
}

/// Accepts until the broker stops.
pub async fn serve(context: Context, listener: Listener) {
    let rt = context.shard().runtime().clone();
    loop {
        let conn = match listener.acceptor.accept().await {
            Ok(conn) => conn,
            Err(e) => {
                // Out of descriptors: those who are connected go on, the next one waits.
                tracing::warn!("accept: {e}");
                rt.sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        if context.inner.stopping.get() {
            conn.shutdown();
            return;
        }
        let limits = context.limits();
        let (total, per_address) = (limits.connections_max, limits.connections_per_ip_max);
        let admitted =
            match context.inner.admission.enter(conn.peer_addr().ip(), total, per_address) {
                Ok(admitted) => admitted,
                Err(why) => {
                    context.complain(conn.peer_addr(), &why);
                    conn.shutdown();
                    continue;
                }
            };
        context.inner.connections.set(context.inner.connections.get() + 1);
        let (context, door) = (context.clone(), listener.door);
        let counted = Counted(context.clone(), admitted);
        let task = rt.spawn(Class::Connection, async move {
            let _counted = counted;
            connection::serve(context, conn, door).await;
        });
        drop(task);
    }
}

/// Counts a connection down when it ends, however it ends.
struct Counted(Context, #[expect(dead_code, reason = "counts the node's down")] Admitted);

impl Drop for Counted {
    fn drop(&mut self) {
        let open = &self.0.inner.connections;
        open.set(open.get() - 1);
    }
}
