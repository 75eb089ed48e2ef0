//! `rillway serve`: one executor per CPU, until SIGTERM or SIGINT.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rillway::config::Config;
use rillway::node::{NodeOptions, Shared, start_core};
use rillway_io::kernel::{KernelOptions, start};
use rillway_io::{Inbox, Mailbox, Runtime, mailbox};
use rillway_log::Mutant;

/// A stop that takes longer is cut off; recovery does the same work as a clean stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// One message for one failure: a core that only noticed that core 0 gave up lets it speak first.
const CORE_0_SPEAKS_WITHIN: Duration = Duration::from_millis(500);

/// Serves until a signal; an error is a sentence for people.
pub(crate) fn serve(config: &Config) -> Result<(), String> {
    let options = config.node(mutant()?)?;
    let cores = config.cores.len();
    let missing = crate::check::missing_cpus(&config.cores);
    if !missing.is_empty() {
        tracing::warn!(
            "CPUs {missing:?} do not exist here; threads for them run unpinned and share the others. \
             `rillway check` shows which there are"
        );
    }
    let parts = Shared::new(cores);
    let (stops, stopped): (Vec<_>, Vec<_>) = (0..cores).map(|_| mailbox::<()>(1)).unzip();
    let stopped =
        Arc::new(std::sync::Mutex::new(stopped.into_iter().map(Some).collect::<Vec<_>>()));
    watch_signals(stops)?;
    let ready = Arc::new(AtomicUsize::new(0));
    let told = Arc::new(AtomicBool::new(false));
    let allowed = config.storage_allow.clone();
    let kernel = KernelOptions { cpus: config.cores.clone(), ..Default::default() };
    let node = start(kernel, move |rt: Runtime| {
        let core = rt.core();
        let parts = parts.take(core);
        let stop = stopped.lock().expect("nobody panics while holding it")[core]
            .take()
            .expect("taken once");
        run_core(
            rt,
            parts,
            options.clone(),
            allowed.clone(),
            stop,
            Arc::clone(&ready),
            Arc::clone(&told),
        )
    })
    .map_err(|e| e.to_string())?;
    node.join().into_iter().collect::<Result<Vec<()>, String>>().map(|_| ())
}

async fn run_core(
    rt: Runtime,
    parts: rillway::node::CoreParts,
    options: NodeOptions,
    allowed: Option<String>,
    mut stop: Inbox<()>,
    ready: Arc<AtomicUsize>,
    told: Arc<AtomicBool>,
) -> Result<(), String> {
    let started = match admitted(&rt, &options, allowed.as_deref()).await {
        Ok(()) => start_core(&rt, parts, &options).await,
        Err(e) => Err(e),
    };
    let core = match started {
        Ok(core) => core,
        Err(e) => {
            // The other cores would wait for this one for ever. What they say is that core 0 is gone; why is its to tell.
            if rt.core() != 0 {
                rt.sleep(CORE_0_SPEAKS_WITHIN).await;
            }
            if told.swap(true, Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            eprintln!("rillway: {e}");
            std::process::exit(1);
        }
    };
    if ready.fetch_add(1, Ordering::SeqCst) + 1 == rt.cores() {
        tracing::info!(
            "ready on {}, {} cores, data in {}",
            options.listeners.iter().map(|l| l.addr.to_string()).collect::<Vec<_>>().join(", "),
            rt.cores(),
            options.storage.dir.display()
        );
    }
    stop.recv().await;
    core.stop().await?;
    if ready.fetch_sub(1, Ordering::SeqCst) == 1 {
        tracing::info!("stopped; everything is flushed, the last checkpoint is written");
    }
    Ok(())
}

/// Core 0 looks at the place before anything is written there.
async fn admitted(
    rt: &Runtime,
    options: &NodeOptions,
    allowed: Option<&str>,
) -> Result<(), String> {
    if rt.core() != 0 {
        return Ok(());
    }
    let dir = &options.storage.dir;
    let refused = |why: String| format!("--data-dir {}: {why}", dir.display());
    if std::fs::metadata(dir).is_ok_and(|m| !m.is_dir()) {
        return Err(refused("is a file, not a directory".to_owned()));
    }
    // A place that is refused is left as it was found.
    let place = rillway::placement::existing(dir);
    let stat = rt.disk().stat_fs(&place).await.map_err(|e| refused(e.to_string()))?;
    rillway::placement::admit(&stat, allowed).map_err(refused)?;
    rt.disk().create_dir_all(dir).await.map_err(|e| refused(e.to_string()))
}

/// SIGTERM and SIGINT ask every core to stop; a second one, or 10 s, ends the process.
fn watch_signals(stops: Vec<Mailbox<()>>) -> Result<(), String> {
    let mut signals = signal_hook::iterator::Signals::new([
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
    ])
    .map_err(|e| format!("signals cannot be watched: {e}"))?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut asked = false;
            for _ in signals.forever() {
                if asked {
                    std::process::exit(130);
                }
                asked = true;
                tracing::info!("stopping");
                for stop in &stops {
                    let _ = stop.try_send(());
                }
                let _ = std::thread::Builder::new().name("stop-limit".to_owned()).spawn(|| {
                    std::thread::sleep(STOP_WITHIN);
                    tracing::warn!(
                        "not stopped after {STOP_WITHIN:?}; ending now, the next start recovers"
                    );
                    std::process::exit(0);
                });
            }
        })
        .map(|_| ())
        .map_err(|e| format!("a thread for signals cannot be started: {e}"))
}

/// Test builds run a mutant by name.
fn mutant() -> Result<Option<Mutant>, String> {
    match std::env::var("RILLWAY_MUTANT") {
        Err(_) => Ok(None),
        Ok(_) if !cfg!(feature = "mutants") => Err(
            "RILLWAY_MUTANT is set, but this build has no mutants (cargo build --features mutants)"
                .to_owned(),
        ),
        Ok(name) => Mutant::by_name(&name).map(Some).ok_or_else(|| format!("no mutant `{name}`")),
    }
}
