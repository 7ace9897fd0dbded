//! The commands of the binary and their exit codes.
//!
//! | code | when |
//! |--:|---|
//! | 0 | any normal end, also when the grace period ran out |
//! | 1 | something cannot be started; `check` finds another failure than of the configuration; `explain` finds no route; the proxy of `tap` does not answer or ends |
//! | 64 | the configuration, a manifest or the usage is wrong |
//! | 69 | `await`: the proxy is not ready in time |
//! | 95 | `init --check`: connections are not redirected |

mod admin_request;
mod await_ready;
mod check;
mod control;
mod env;
mod explain;
mod init;
mod inject;
mod last_line;
mod mesh;
mod output;
mod service_manager;
mod shutdown;
mod signals;
mod start;
mod tap;

pub use self::await_ready::AwaitOptions;
pub use self::check::{CheckArgs, check};
#[cfg(test)]
pub(crate) use self::control::CONTROLLER_FAMILIES;
pub use self::control::{AuthoritySource, ControlOptions, TokenOptions};
pub use self::env::EnvArgs;
pub use self::explain::ExplainSource;
pub use self::init::InitOptions;
pub use self::inject::{InjectArgs, ManifestArgs, inject_manifests, uninject_manifests};
pub use self::tap::{TapArgs, tap};

use crate::{
    config::{self, Config, EXIT_USAGE, Env, LoadedConfig, LogConfig, PrintedRequests, variables},
    explain::QueryFields,
    logging::{self, LogClock, Logger},
    process, proxy, quickstart, runtime,
};
use futures::future::OptionFuture;
use last_line::LastLine;
use service_manager::ServiceManager;
use shutdown::until_shutdown;
use signals::Signals;
use start::start_logging;
use std::{
    error::Error,
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
};

/// Runs the proxy until a signal or a request ends it.
pub fn run(mut env: Env, mesh: Option<PathBuf>, printed: PrintedRequests) -> ExitCode {
    printed.set(&mut env);
    let clock = match mesh.is_some() || io::stdout().is_terminal() {
        true => LogClock::Wall,
        false => LogClock::Uptime,
    };
    match start_logging(&env, clock) {
        Ok(log) => {
            let code = run_logged(env, mesh, log.clone());
            if let Some(log) = log {
                log.flush();
            }
            code
        }
        Err(code) => code,
    }
}

fn run_logged(mut env: Env, mesh: Option<PathBuf>, log: Option<Logger>) -> ExitCode {
    let last_line = LastLine::new(&env, log.clone());
    let runtime = match runtime::local() {
        Ok(runtime) => runtime,
        Err(error) => return last_line.failed(&error),
    };
    runtime.block_on(async {
        // Before any wait: a SIGHUP while a mesh file is being read would end the process.
        let signals = match Signals::listen() {
            Ok(signals) => signals,
            Err(error) => return last_line.failed(&error),
        };
        // The embedded controller lives as long as the proxy.
        let controller = match mesh {
            None => None,
            Some(file) => match mesh::start(file, &mut env).await {
                Ok(controller) => Some(controller),
                Err(error) => return last_line.failed(&*error),
            },
        };
        let loaded = match load(&env, &last_line) {
            Ok(loaded) => loaded,
            Err(code) => return code,
        };
        let shutdown = loaded.config.shutdown;
        let manager = ServiceManager::of(&env);
        match proxy::start(loaded, env, log).await {
            Ok(running) => {
                // On this thread, which may wait, and after the proxy has begun to accept connections.
                process::reserve_descriptors();
                let file = controller.as_ref().map(|it| &it.follow);
                let (access_log, tracing) = (running.access_log.clone(), running.tracing.clone());
                let manager = manager.as_ref();
                let attended = manager.map(|manager| manager.attend(&running));
                let code = tokio::select! {
                    code = until_shutdown(running, signals, file, shutdown, manager) => code,
                    Some(never) = OptionFuture::from(attended) => match never {},
                };
                if let Some(tracing) = tracing {
                    tracing.flush().await;
                }
                if let Some(log) = access_log {
                    log.flush();
                }
                code
            }
            Err(error) => last_line.failed(&error),
        }
    })
}

/// Prints the way that a request would take, for a person or as JSON.
pub fn explain(fields: &QueryFields, source: ExplainSource, json: bool) -> ExitCode {
    explain::run(fields, source, json)
}

/// Redirects traffic to the proxy.
pub fn init(options: &InitOptions) -> ExitCode {
    init::run(options)
}

/// Checks that traffic is redirected.
pub fn check_redirection(check: &linkerd_init::NetworkCheck) -> ExitCode {
    init::check(check)
}

/// Waits until the proxy is ready, and runs a command then.
pub fn await_ready(options: &AwaitOptions) -> ExitCode {
    await_ready::run(options)
}

/// Serves a mesh file to proxies until a signal ends it.
pub fn control(env: &Env, options: ControlOptions) -> ExitCode {
    control::run(env, options)
}

/// Prints the effective configuration.
pub fn print_env(env: Env, args: &EnvArgs) -> ExitCode {
    env::run(env, args)
}

/// Runs the quickstart: shows the proxy at work.
pub fn quickstart(options: quickstart::QuickstartOptions) -> ExitCode {
    quickstart::run(options, Quickstart { log: None })
}

/// Starts the proxies of the quickstart, in this process.
struct Quickstart {
    /// The logger that all proxies share, once the first has started.
    log: Option<Option<Logger>>,
}

impl quickstart::StartProxy for Quickstart {
    fn start(
        &mut self,
        env: Env,
    ) -> Result<quickstart::ProxyAddresses, Box<dyn Error + Send + Sync>> {
        let log = match &self.log {
            Some(log) => log.clone(),
            None => {
                let log = logging::install(&LogConfig::load(&env), LogClock::Wall)?;
                self.log.insert(log).clone()
            }
        };
        let loaded = Config::load(&env).map_err(|errors| errors.to_string())?;
        let running = runtime::local()?.block_on(proxy::start(loaded, env, log))?;
        let addresses = quickstart::ProxyAddresses {
            outbound: running.outbound[0],
            inbound: running.inbound,
            admin: running.admin,
        };
        // The proxy runs as long as the process.
        std::mem::forget(running);
        Ok(addresses)
    }
}

/// Reads the configuration, and reports all its errors and warnings.
fn load(env: &Env, last_line: &LastLine) -> Result<LoadedConfig, ExitCode> {
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
            let hint = match env.is_set(variables::DESTINATION_SVC_ADDR.name()) {
                true => None,
                false => Some(WITHOUT_ENVIRONMENT),
            };
            last_line.print(&errors.summary_line(), hint);
            Err(ExitCode::from(EXIT_USAGE))
        }
    }
}

/// A hint for users who start the binary by hand, where no injector has set the environment.
const WITHOUT_ENVIRONMENT: &str = "Without a command this is a sidecar, which its environment configures. To try it here: \
     linkerd-proxy quickstart, or linkerd-proxy run --mesh FILE; linkerd-proxy --help lists all commands.";

/// To the log, as the incumbent does.
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
