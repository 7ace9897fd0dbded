//! `control`: the embedded controller by itself, for proxies that are started without `--mesh`.

mod admin;
mod authority;
mod listen;
mod metrics;
mod token_keys;

pub use authority::AuthoritySource;
pub use token_keys::TokenOptions;

#[cfg(test)]
pub(crate) use metrics::FAMILIES as CONTROLLER_FAMILIES;

use super::{
    last_line::LastLine,
    mesh::{self, MeshFileFollower},
    signals::Signals,
    start::start_logging,
};
use crate::{config::Env, logging::LogClock, runtime};
use admin::AdminServer;
use authority::{MeshAuthority, is_dns_name};
use linkerd_control::{Authority, Controller, Server};
use metrics::AuthorityExpiry;
use std::{error::Error, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};
use token_keys::TokenKeysFollower;
use tokio::time::timeout;

/// Options of the controller.
#[derive(Debug)]
pub struct ControlOptions {
    /// The mesh file.
    pub mesh: PathBuf,
    /// The address of the listener.
    pub listen: SocketAddr,
    /// The authority of the proxies' certificates. `None`: no certificates are issued.
    pub authority: Option<AuthoritySource>,
    /// The names under which the APIs are served over TLS, with a certificate of the authority. None: plaintext.
    pub tls_names: Vec<String>,
    /// The tokens that permit names. `None`: any token permits any name.
    pub tokens: Option<TokenOptions>,
    /// Permits an address beyond loopback without [`tokens`](Self::tokens).
    pub any_identity: bool,
    /// The address of the admin server.
    pub admin_listen: Option<SocketAddr>,
}

/// A controller that listens, and the parts of it that SIGHUP renews.
struct RunningController {
    controller: Controller,
    server: Server,
    follow: MeshFileFollower,
    authority: Option<MeshAuthority>,
    tls_names: Vec<String>,
    expiry: AuthorityExpiry,
    _tokens: Option<TokenKeysFollower>,
    _admin: Option<AdminServer>,
}

/// Serves a mesh file until SIGTERM or SIGINT.
pub fn run(env: &Env, options: ControlOptions) -> ExitCode {
    match start_logging(env, LogClock::Wall) {
        Ok(log) => {
            let code = serve(options, &LastLine::new(env, log.clone()));
            if let Some(log) = log {
                log.flush();
            }
            code
        }
        Err(code) => code,
    }
}

fn serve(options: ControlOptions, last_line: &LastLine) -> ExitCode {
    let runtime = match runtime::local() {
        Ok(runtime) => runtime,
        Err(error) => return last_line.failed(&error),
    };
    runtime.block_on(async {
        let mut signals = match Signals::listen() {
            Ok(signals) => signals,
            Err(error) => return last_line.failed(&error),
        };
        let started = tokio::select! {
            started = RunningController::start(options) => started,
            signal = signals.terminated(None) => {
                tracing::info!("received {signal} before the start, the controller ends");
                return ExitCode::SUCCESS;
            }
        };
        let running = match started {
            Ok(running) => running,
            Err(error) => return last_line.failed(&*error),
        };
        let reload = || {
            tracing::info!("received SIGHUP, reading the mesh file again");
            running.reload();
        };
        let signal = signals.terminated(Some(&reload)).await;
        tracing::info!("received {signal}, the controller ends");
        ExitCode::SUCCESS
    })
}

impl RunningController {
    async fn start(options: ControlOptions) -> Result<Self, Box<dyn Error>> {
        let ControlOptions {
            mesh,
            listen,
            authority,
            tls_names,
            tokens,
            any_identity,
            admin_listen,
        } = options;
        if let Some(name) = tls_names.iter().find(|name| !is_dns_name(name)) {
            let error =
                format!("--tls-name {name:?} is not a DNS name; write one such as control.test");
            return Err(error.into());
        }
        let is_open = authority.is_some() && tokens.is_none();
        if is_open && !any_identity && !listen.ip().to_canonical().is_loopback() {
            return Err(format!("{listen}: {ANY_IDENTITY}").into());
        }
        // Before all that takes time: a probe learns that the process runs.
        let admin = admin_listen.map(AdminServer::start).transpose()?;
        let expiry = AuthorityExpiry::default();
        let authority = authority.map(MeshAuthority::new).transpose()?;
        let controller = Controller::new();
        if let Some(authority) = &authority {
            controller.identity().authority(authority.present());
            expiry.set(authority);
        }
        let tokens = tokens.map(|tokens| tokens.follow(controller.identity()));
        let tokens = tokens.transpose()?;
        // The file comes first: a proxy that calls before would learn that there are no services, and drop them.
        let follow = mesh::follow(controller.clone(), mesh).await?;
        if let Some(admin) = &admin {
            let (registry, loads) = (admin.registry(), follow.loads());
            metrics::register(registry, controller.clone(), loads, expiry.clone());
        }
        // So do addresses: a proxy would replace the addresses that it knows by none.
        if timeout(RESOLVE_TIMEOUT, follow.resolved()).await.is_err() {
            tracing::warn!(
                "Host names of the mesh file have no addresses after {RESOLVE_TIMEOUT:?}; the controller starts without them"
            );
        }
        let listener = listen::bind(listen).map_err(|error| {
            format!("{error}: cannot listen on {listen}; `--listen` sets another address")
        })?;
        if let Some(authority) = &authority {
            authority.publish()?;
        }
        let tls = authority.as_ref().filter(|_| !tls_names.is_empty());
        let server = match tls {
            Some(authority) => controller.serve_tls(listener, &authority.present(), &tls_names)?,
            None => controller.serve(listener)?,
        };
        announce(server.addr(), is_open, &tls_names);
        if let Some(admin) = &admin {
            admin.ready();
        }
        Ok(Self {
            controller,
            server,
            follow,
            authority,
            tls_names,
            expiry,
            _tokens: tokens,
            _admin: admin,
        })
    }

    /// Reads the mesh file and the authority's files again. Invalid files leave the state unchanged.
    fn reload(&self) {
        self.follow.reload();
        let Some(files) = &self.authority else {
            return;
        };
        match files.reload() {
            Ok(Some(authority)) => match self.renew(&authority) {
                Ok(()) => {
                    self.expiry.set(files);
                    tracing::info!("Certificates are issued by the authority as it was read again")
                }
                Err(error) => tracing::error!(%error, "Authority refused; the last good one stays"),
            },
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "Authority refused; the last good one stays"),
        }
    }

    fn renew(&self, authority: &std::sync::Arc<Authority>) -> Result<(), Box<dyn Error>> {
        if !self.tls_names.is_empty() {
            self.server.renew_tls(authority, &self.tls_names)?;
        }
        self.controller.identity().authority(authority.clone());
        Ok(())
    }
}

/// Long for a resolver that is up, short for a name that does not exist.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Logs the address and its dangers.
fn announce(addr: SocketAddr, is_open: bool, tls_names: &[String]) {
    match tls_names {
        [] => tracing::info!("Controller listens on {addr}"),
        names => tracing::info!(
            "Controller listens on {addr} with TLS as {}",
            names.join(", ")
        ),
    }
    if !tls_names.is_empty() && addr.ip().is_loopback() {
        tracing::warn!(
            "proxies speak plaintext with controllers on loopback; `--listen` another address, or remove `--tls-name`"
        );
    }
    if is_open && !addr.ip().to_canonical().is_loopback() {
        tracing::warn!(
            "every client that reaches {addr} gets a certificate for the name that it asks for; verify tokens with `--token-keys`"
        );
    }
}

/// The refusal of an address that others reach.
const ANY_IDENTITY: &str = "every client that reaches this address would get a certificate for any name: verify tokens with \
    `--token-keys`, listen on loopback, or allow it with `--insecure-any-identity`";
