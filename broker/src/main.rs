//! `rillway`: serve, check, config. Flags and their order are here; what they mean is in `config`.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rillway::config::{Config, document};

mod check;
mod serve;

/// A small request takes some twenty small allocations, freed on the same core: with glibc's allocator they were a sixth
/// of its CPU.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A Kafka-protocol broker for Linux: io_uring, one thread per core, every acknowledged record on disk.
#[derive(Parser)]
#[command(name = "rillway", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the broker.
    Serve(ServeArgs),
    /// Tell whether this machine, and the place of the data directory, can keep the promises.
    Check {
        /// Where the data directory is, or will be.
        #[arg(long, value_name = "DIR", default_value = ".")]
        data_dir: PathBuf,
        /// CPUs that the broker is to use.
        #[arg(long, value_name = "CPUS", default_value = "0")]
        cores: String,
        /// Machine-readable output.
        #[arg(long)]
        json: bool,
    },
    /// Print the documented configuration file.
    Config,
}

/// Where the settings come from; later ones win.
#[derive(clap::Args)]
struct ServeArgs {
    /// Data directory; made if it does not exist.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Addresses that clients connect to, separated by commas. Core ports lie 1000 + 100 x core above each.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Listen on addresses that other machines reach, although there is no authentication.
    #[arg(long)]
    listen_without_authentication: bool,
    /// CPUs to use, one thread each: 0,1 or 0-3.
    #[arg(long, value_name = "CPUS")]
    cores: Option<String>,
    /// TOML file; `rillway config` prints one with every setting.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting; may be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl ServeArgs {
    fn config(&self) -> Result<Config, String> {
        let mut config = Config::default();
        if let Some(file) = &self.config {
            config.read_file(file)?;
        }
        config.read_environment(std::env::vars())?;
        for pair in &self.set {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(format!("--set {pair}: expected KEY=VALUE"));
            };
            config.set(name.trim(), value)?;
        }
        if let Some(listen) = &self.listen {
            config.set("listen", listen)?;
        }
        if self.listen_without_authentication {
            config.set("listen.without.authentication", "true")?;
        }
        if let Some(cores) = &self.cores {
            config.set("cores", cores)?;
        }
        if let Some(dir) = &self.data_dir {
            config.data_dir = Some(dir.clone());
        }
        Ok(config)
    }
}

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("RILLWAY_LOG")
        .unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    let done = match Cli::parse().command {
        Command::Serve(args) => args.config().and_then(|config| serve::serve(&config)),
        Command::Check { data_dir, cores, json } => {
            let mut config = Config::default();
            config.set("cores", &cores).and_then(|()| check::check(&data_dir, &config.cores, json))
        }
        Command::Config => {
            use std::io::Write as _;
            std::io::stdout().write_all(document().as_bytes()).map_err(|e| e.to_string())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("rillway: {e}");
            ExitCode::FAILURE
        }
    }
}
