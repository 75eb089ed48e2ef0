//! One node: its cores, wired. The binary calls this on the kernel backend, the simulator on its own.

use std::net::SocketAddr;
use std::time::Duration;

use rillway_api::{Admission, BrokerConfigs, Context, Door, Limits, Listener, Nodes, Template};
use rillway_io::{Acceptor, BindOptions, Class, Inbox, Mailbox, Runtime, Task, mailbox};
use rillway_log::{RingRef, Storage, StorageOptions, StoreOptions};
use rillway_shard::{Port, Shard, ShardOptions, Start, mesh, start};

/// What every core of a node is given. Clone: each core takes its part.
#[derive(Clone)]
pub struct NodeOptions {
    /// At least one; each on ports of its own.
    pub listeners: Vec<ListenOptions>,
    /// How many nodes clients see, at most; `None`: as many as cores. Cores beyond are folded onto them.
    pub nodes: Option<usize>,
    /// The settings as clients are shown them.
    pub configs: BrokerConfigs,
    /// Kafka: broker.id.
    pub broker_id: u32,
    pub storage: StorageOptions,
    pub store: StoreOptions,
    pub shard: ShardOptions,
    pub limits: Limits,
}

/// One listener.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    pub addr: SocketAddr,
    /// Where its clients are told that the nodes are; `None`: at the address that they used.
    pub advertised: Option<Template>,
}

impl ListenOptions {
    /// A listener whose clients are told the address that they used.
    pub fn at(addr: SocketAddr) -> ListenOptions {
        ListenOptions { addr, advertised: None }
    }
}

/// The parts that only one core each may take.
pub struct CoreParts {
    port: Port,
    rings: Vec<Mailbox<Result<RingRef, String>>>,
    ring: Inbox<Result<RingRef, String>>,
    admission: Admission,
}

/// Parts for `cores` cores, in order.
pub fn parts(cores: usize) -> Vec<CoreParts> {
    let (outs, ins): (Vec<_>, Vec<_>) = (0..cores).map(|_| mailbox(1)).unzip();
    let cores = mesh(cores).into_iter().zip(ins);
    let admission = Admission::default();
    let part =
        |(port, ring)| CoreParts { port, rings: outs.clone(), ring, admission: admission.clone() };
    cores.map(part).collect()
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

/// Port of a node: the listen port itself if there is one, else listen port + 1000 + 100 x core, so that listeners on
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
    let shown = options.nodes.unwrap_or(usize::MAX).clamp(1, rt.cores());
    let ports_of = |l: &ListenOptions| {
        let ports = (0..shown).map(|core| core_port(l.addr.port(), core, shown));
        ports.collect::<Result<Vec<_>, _>>()
    };
    let doors = options
        .listeners
        .iter()
        .map(|l| Ok(Door { ports: ports_of(l)?, advertised: l.advertised.clone() }))
        .collect::<Result<Vec<_>, String>>()?;
    // Core 0 looks whether the shared ports are free before another core listens there: those wait for their ring.
    let early = if rt.core() == 0 { Some(bind_all(rt, options, &doors).await?) } else { None };
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
        None => bind_all(rt, options, &doors).await?,
    };
    let nodes =
        Nodes { broker_id: options.broker_id, cluster_id: cluster_id(&shard), shown, doors };
    let configs = options.configs.clone();
    let context = Context::new(shard.clone(), nodes, configs, parts.admission, options.limits);
    let mut tasks = vec![rt.spawn(Class::Background, rillway_api::watch_idle(context.clone()))];
    for listener in listeners {
        tasks.push(rt.spawn(Class::Data, rillway_api::serve(context.clone(), listener)));
    }
    Ok(Core { context, shard, tasks, _storage: storage })
}

/// The sockets of one core, of every listener.
async fn bind_all(
    rt: &Runtime,
    options: &NodeOptions,
    doors: &[Door],
) -> Result<Vec<Listener>, String> {
    let mut out = Vec::new();
    for (door, (listener, ports)) in options.listeners.iter().zip(doors).enumerate() {
        let own = ports.ports.get(rt.core()).copied();
        for acceptor in bind(rt, listener.addr, own).await? {
            out.push(Listener { acceptor, door });
        }
    }
    Ok(out)
}

/// The sockets of one core and one listener; `own` is the port of its node, if it is one that clients see. The shared port
/// is bound once without sharing, by core 0, or a second broker would join in silently; the core's own port is exclusive.
async fn bind(rt: &Runtime, listen: SocketAddr, own: Option<u16>) -> Result<Vec<Acceptor>, String> {
    let alone = rt.cores() == 1;
    if rt.core() == 0 {
        let only = bind_patiently(rt, listen, BindOptions { shared: false }).await;
        let only = only.map_err(|e| not_bound(rt, listen, listen, &e))?;
        if alone {
            return Ok(vec![only]);
        }
    }
    let mut out = Vec::new();
    if let Some(port) = own.filter(|port| *port != listen.port()) {
        let own = SocketAddr::new(listen.ip(), port);
        let bound = bind_patiently(rt, own, BindOptions { shared: false }).await;
        out.push(bound.map_err(|e| not_bound(rt, listen, own, &e))?);
    }
    let shared = bind_patiently(rt, listen, BindOptions { shared: true }).await;
    out.push(shared.map_err(|e| not_bound(rt, listen, listen, &e))?);
    Ok(out)
}

fn not_bound(rt: &Runtime, listen: SocketAddr, addr: SocketAddr, e: &rillway_io::Error) -> String {
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
