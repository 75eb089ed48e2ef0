//! One node: its cores, wired. The binary calls this on the kernel backend, the simulator on its own.

use std::net::SocketAddr;
use std::time::Duration;

use rillway_api::{Context, Limits, Listener, Nodes};
use rillway_io::{Acceptor, BindOptions, Class, Inbox, Mailbox, Runtime, Task, mailbox};
use rillway_log::{RingRef, Storage, StorageOptions, StoreOptions};
use rillway_shard::{Port, Shard, ShardOptions, Start, mesh, start};

/// What every core of a node is given. Clone: each core takes its part.
#[derive(Clone)]
pub struct NodeOptions {
    pub listen: SocketAddr,
    /// Kafka: broker.id.
    pub broker_id: u32,
    pub storage: StorageOptions,
    pub store: StoreOptions,
    pub shard: ShardOptions,
    pub limits: Limits,
}

/// The parts that only one core each may take.
pub struct CoreParts {
    port: Port,
    rings: Vec<Mailbox<Result<RingRef, String>>>,
    ring: Inbox<Result<RingRef, String>>,
}

/// Parts for `cores` cores, in order.
pub fn parts(cores: usize) -> Vec<CoreParts> {
    let (outs, ins): (Vec<_>, Vec<_>) = (0..cores).map(|_| mailbox(1)).unzip();
    let cores = mesh(cores).into_iter().zip(ins);
    cores.map(|(port, ring)| CoreParts { port, rings: outs.clone(), ring }).collect()
}

/// A core that serves.
pub struct Core {
    pub context: Context,
    pub shard: Shard,
    /// The listeners and the idle watch.
    tasks: Vec<Task<()>>,
    /// Held by core 0, for the lock.
    _storage: Option<Storage>,
}

/// Port of a core: the listen port itself with one core, else listen port + 1000 + 100 x core, so that listeners on
/// 9092 and 9093 of one host do not meet.
pub fn core_port(listen: u16, core: usize, cores: usize) -> Result<u16, String> {
    if cores == 1 {
        return Ok(listen);
    }
    let port = u64::from(listen) + 1000 + 100 * core as u64;
    u16::try_from(port).map_err(|_| {
        format!(
            "port {port} of core {core} does not exist; choose a listen port of at most {}",
            65535 - 1000 - 100 * (cores - 1)
        )
    })
}

/// Starts one core: recovery, listeners. Returns when it serves.
pub async fn start_core(
    rt: &Runtime,
    parts: CoreParts,
    options: &NodeOptions,
) -> Result<Core, String> {
    let cores = rt.cores();
    let ports = (0..cores)
        .map(|core| core_port(options.listen.port(), core, cores))
        .collect::<Result<Vec<_>, _>>()?;
    // Core 0 looks whether the shared port is free before another core listens there: those wait for their ring.
    let early = if rt.core() == 0 { Some(bind(rt, options.listen, ports[0]).await?) } else { None };
    let first = Start {
        port: parts.port,
        storage: options.storage.clone(),
        store: options.store.clone(),
        options: options.shard,
        rings: parts.rings,
        ring: parts.ring,
    };
    let (shard, storage) = start(rt, first).await.map_err(|e| e.to_string())?;
    let listeners = match early {
        Some(listeners) => listeners,
        None => bind(rt, options.listen, ports[rt.core()]).await?,
    };
    let nodes = Nodes { broker_id: options.broker_id, ports, cluster_id: cluster_id(&shard) };
    let context = Context::new(shard.clone(), nodes, options.limits);
    let mut tasks = vec![rt.spawn(Class::Background, rillway_api::watch_idle(context.clone()))];
    for listener in listeners {
        tasks.push(rt.spawn(Class::Data, rillway_api::serve(context.clone(), listener)));
    }
    Ok(Core { context, shard, tasks, _storage: storage })
}

/// The sockets of one core. The shared port is bound once without sharing, by core 0, or a second broker would join in
/// silently; the core's own port is exclusive.
async fn bind(rt: &Runtime, listen: SocketAddr, own: u16) -> Result<Vec<Listener>, String> {
    let taken = |addr: SocketAddr, e: &rillway_io::Error| {
        let whose = if addr.port() == listen.port() {
            String::new()
        } else {
            format!(
                " (the port of core {} for --listen {listen}: listen port + 1000 + 100 x core)",
                rt.core()
            )
        };
        let hint = match e.kind() {
            std::io::ErrorKind::AddrInUse => "Another program has it; choose another --listen",
            std::io::ErrorKind::AddrNotAvailable => {
                "It is no address of this machine; see `ip address`"
            }
            std::io::ErrorKind::PermissionDenied => {
                "Ports below 1024 need root or CAP_NET_BIND_SERVICE"
            }
            _ => "Choose another --listen",
        };
        format!("{addr}{whose} cannot be listened on: {e}. {hint}")
    };
    if own == listen.port() {
        let only = bind_patiently(rt, listen, BindOptions { shared: false })
            .await
            .map_err(|e| taken(listen, &e))?;
        return Ok(vec![Listener(only)]);
    }
    if rt.core() == 0 {
        let probe = bind_patiently(rt, listen, BindOptions { shared: false })
            .await
            .map_err(|e| taken(listen, &e))?;
        drop(probe);
    }
    let own = SocketAddr::new(listen.ip(), own);
    let mut out = vec![Listener(
        bind_patiently(rt, own, BindOptions { shared: false }).await.map_err(|e| taken(own, &e))?,
    )];
    out.push(Listener(
        bind_patiently(rt, listen, BindOptions { shared: true })
            .await
            .map_err(|e| taken(listen, &e))?,
    ));
    Ok(out)
}

/// How long a port is waited for: a killed broker's requests in flight hold its sockets for a moment, as they hold its
/// lock (one start in 170 right after a kill -9 found the port taken).
const PORT_WAIT: Duration = Duration::from_secs(2);

async fn bind_patiently(
    rt: &Runtime,
    addr: SocketAddr,
    options: BindOptions,
) -> rillway_io::Result<Acceptor> {
    let deadline = rt.now() + PORT_WAIT;
    loop {
        match rt.bind(addr, options).await {
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse && rt.now() < deadline => {
                rt.sleep(Duration::from_millis(50)).await;
            }
            bound => return bound,
        }
    }
}

/// The storage's id, as Kafka prints cluster ids.
fn cluster_id(shard: &Shard) -> String {
    rillway_log::TopicId(shard.store().storage_id()).base64()
}

impl Core {
    /// Takes no more requests, answers what was accepted, commits, and leaves a clean checkpoint.
    pub async fn stop(self) -> Result<(), String> {
        for task in self.tasks {
            task.cancel();
        }
        self.shard.end_waits();
        self.context.stop().await;
        self.shard.quiet().await;
        self.shard.stop().await.map_err(|e| e.to_string())
    }
}

/// Parts that are taken one by one by cores that start on their own threads.
pub struct Shared(std::sync::Mutex<Vec<Option<CoreParts>>>);

impl Shared {
    pub fn new(cores: usize) -> std::sync::Arc<Shared> {
        std::sync::Arc::new(Shared(std::sync::Mutex::new(
            parts(cores).into_iter().map(Some).collect(),
        )))
    }

    /// The parts of one core.
    ///
    /// # Panics
    /// If they were taken before.
    pub fn take(&self, core: usize) -> CoreParts {
        let mut all = self.0.lock().expect("nobody panics while holding it");
        all[core].take().expect("each core takes its parts once")
    }
}
