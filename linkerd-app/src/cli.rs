//! What the commands of the binary do, and with which exit code they end.
//!
//! | code | when |
//! |--:|---|
//! | 0 | any normal end, also when the grace period ran out |
//! | 1 | something cannot be started |
//! | 64 | the configuration is wrong |

mod check;
mod control;
mod mesh;

use crate::{
    config::{self, Config, EXIT_USAGE, Env, Loaded, Log, print_effective},
    logging::{self, LogFilter},
    process,
    proxy::{self, Running},
    quickstart, runtime,
};
use std::{
    error::Error,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Runs the proxy until it is told to end.
pub fn run(mut env: Env, mesh: Option<PathBuf>) -> ExitCode {
    let log = match start_logging(&env) {
        Ok(log) => log,
        Err(code) => return code,
    };
    let runtime = match runtime::local() {
        Ok(runtime) => runtime,
        Err(error) => return failed_to_start(&error),
    };
    runtime.block_on(async {
        // The embedded controller lives as long as the proxy.
        let _controller = match mesh {
            None => None,
            Some(file) => match mesh::start(file, &mut env).await {
                Ok(controller) => Some(controller),
                Err(error) => return failed_to_start(&*error),
            },
        };
        let loaded = match load(&env) {
            Ok(loaded) => loaded,
            Err(code) => return code,
        };
        let grace = loaded.config.shutdown_grace;
        let signals = match Signals::listen() {
            Ok(signals) => signals,
            Err(error) => return failed_to_start(&error),
        };
        match proxy::start(loaded, env, log) {
            Ok(running) => {
                // On this thread, which has time to wait, and when the proxy takes connections already.
                process::reserve_descriptors();
                until_shutdown(running, signals, grace).await
            }
            Err(error) => failed_to_start(&error),
        }
    })
}

/// Checks the environment and a mesh file, and reports everything that is wrong.
pub fn check(env: Env, mesh: Option<&Path>) -> ExitCode {
    check::run(env, mesh)
}

/// Serves a mesh file to proxies until it is told to end.
pub fn control(env: &Env, mesh: PathBuf, listen: SocketAddr) -> ExitCode {
    control::run(env, mesh, listen)
}

/// Prints the effective configuration.
pub fn print_env(env: &Env) -> ExitCode {
    match Config::load(env) {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                eprintln!("warning: {warning}");
            }
            match print_effective(&loaded, &mut io::stdout().lock()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => failed_to_start(&error),
            }
        }
        Err(errors) => {
            eprintln!("{errors}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// Shows the proxy at work.
pub fn quickstart(options: quickstart::Options) -> ExitCode {
    quickstart::run(options, Quickstart)
}

/// Starts the proxy for the quickstart, in this process.
struct Quickstart;

impl quickstart::StartProxy for Quickstart {
    fn start(self, env: Env) -> Result<quickstart::Addresses, Box<dyn Error + Send + Sync>> {
        let log = logging::install(&Log::load(&env))?;
        let loaded = Config::load(&env).map_err(|errors| errors.to_string())?;
        let running = proxy::start(loaded, env, log)?;
        let addresses = quickstart::Addresses {
            outbound: running.outbound[0],
            inbound: running
                .inbound
                .ok_or("the quickstart needs an inbound listener")?,
            admin: running.admin,
        };
        // It runs as long as the process does.
        std::mem::forget(running);
        Ok(addresses)
    }
}

fn start_logging(env: &Env) -> Result<Option<LogFilter>, ExitCode> {
    match logging::install(&Log::load(env)) {
        Ok(log) => {
            tracing::info!("{}", process::banner());
            Ok(log)
        }
        Err(error) => {
            eprintln!("{error}");
            Err(ExitCode::from(EXIT_USAGE))
        }
    }
}

/// Reads the configuration, and says everything that there is to say about it.
fn load(env: &Env) -> Result<Loaded, ExitCode> {
    match Config::load(env) {
        Ok(loaded) => {
            loaded
                .warnings
                .iter()
                .for_each(|text| tracing::warn!("{text}"));
            loaded
                .notes
                .iter()
                .for_each(|text| tracing::info!("{text}"));
            Ok(loaded)
        }
        Err(errors) => {
            log_errors(&errors);
            eprintln!("{}", errors.summary_line());
            Err(ExitCode::from(EXIT_USAGE))
        }
    }
}

/// Where the incumbent tells of them: in the log.
fn log_errors(errors: &config::ConfigErrors) {
    errors
        .warnings
        .iter()
        .for_each(|text| tracing::warn!("{text}"));
    for error in &errors.errors {
        match error.fix() {
            Some(fix) => tracing::error!("{error} (fix: {fix})"),
            None => tracing::error!("{error}"),
        }
    }
}

fn failed_to_start(error: &(dyn Error + 'static)) -> ExitCode {
    eprintln!("Initialization failure: {error}");
    ExitCode::FAILURE
}

/// The signals that end the proxy. They are listened for before it starts, so that none ends it otherwise.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for one of them, and returns its name.
    async fn terminated(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

/// Waits for a reason to end, and ends: gracefully first, at once when it is told again or the grace period is over.
async fn until_shutdown(mut running: Running, signals: Signals, grace: Duration) -> ExitCode {
    let Signals {
        mut interrupt,
        mut terminate,
    } = signals;
    tokio::select! {
        _ = interrupt.recv() => tracing::info!("received SIGINT, starting shutdown"),
        _ = terminate.recv() => tracing::info!("received SIGTERM, starting shutdown"),
        Some(()) = running.shutdown.recv() => tracing::info!("Received shutdown via admin interface"),
    }
    tokio::select! {
        () = running.drain() => tracing::info!("Shutdown completed gracefully"),
        () = tokio::time::sleep(grace) => {
            tracing::warn!("Graceful shutdown did not complete in {grace:?}, terminating now");
        }
        _ = interrupt.recv() => tracing::warn!("received SIGINT again, terminating now"),
        _ = terminate.recv() => tracing::warn!("received SIGTERM again, terminating now"),
    }
    ExitCode::SUCCESS
}
