//! Listening sockets of one core: the shared port, and the core's own.

use rillway_io::{Acceptor, Class};

use crate::connection;
use crate::context::Context;

/// A socket that is bound already.
pub struct Listener(pub Acceptor);

/// Closes idle connections of this core, for as long as it is polled.
pub async fn watch_idle(context: Context) {
    connection::watch_idle(context).await;
}

/// Accepts until the broker stops.
pub async fn serve(context: Context, listener: Listener) {
    let rt = context.shard().runtime().clone();
    loop {
        let conn = match listener.0.accept().await {
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
        let open = context.inner.connections.get();
        if open >= context.limits().connections_max {
            context.complain(
                conn.peer_addr(),
                &format!("{open} connections are open, the limit of this core"),
            );
            conn.shutdown();
            continue;
        }
        context.inner.connections.set(open + 1);
        let context = context.clone();
        let counted = Counted(context.clone());
        let task = rt.spawn(Class::Connection, async move {
            let _counted = counted;
            connection::serve(context, conn).await;
        });
        drop(task);
    }
}

/// Counts a connection down when it ends, however it ends.
struct Counted(Context);

impl Drop for Counted {
    fn drop(&mut self) {
        let open = &self.0.inner.connections;
        open.set(open.get() - 1);
    }
}
