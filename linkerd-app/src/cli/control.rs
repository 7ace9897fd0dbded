//! `control`: the embedded controller by itself, for proxies that are started without `--mesh`.

mod authority;

pub use authority::AuthoritySource;

use super::{
    mesh::{self, MeshFileFollower},
    signals::Signals,
    start::{failed_to_start, start_logging},
};
use crate::{config::Env, logging::LogClock, runtime};
use authority::{MeshAuthority, is_dns_name};
use linkerd_control::{Authority, Controller, Server, TokenKeys};
use std::{error::Error, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};
use tokio::{net::TcpListener, time::timeout};

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
    /// A file with the keys of the proxies' tokens. `None`: any token is taken for any name.
    pub token_keys: Option<PathBuf>,
    /// The audience of the tokens.
    pub token_audience: String,
    /// Whether any name is signed for clients of other hosts.
    pub insecure_any_identity: bool,
}

/// A controller that listens, and the parts of it that SIGHUP renews.
struct RunningController {
    controller: Controller,
    server: Server,
    follow: MeshFileFollower,
    authority: Option<MeshAuthority>,
    tls_names: Vec<String>,
    token_keys: Option<TokenKeysFile>,
}

/// Serves a mesh file until SIGTERM or SIGINT.
pub fn run(env: &Env, options: ControlOptions) -> ExitCode {
    match start_logging(env, LogClock::Wall) {
        Ok(log) => {
            let code = serve(options);
            if let Some(log) = log {
                log.flush();
            }
            code
        }
        Err(code) => code,
    }
}

fn serve(options: ControlOptions) -> ExitCode {
    let runtime = match runtime::local() {
        Ok(runtime) => runtime,
        Err(error) => return failed_to_start(&error),
    };
    runtime.block_on(async {
        let mut signals = match Signals::listen() {
            Ok(signals) => signals,
            Err(error) => return failed_to_start(&error),
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
            Err(error) => return failed_to_start(&*error),
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
            token_keys,
            token_audience,
            insecure_any_identity,
        } = options;
        if let Some(name) = tls_names.iter().find(|name| !is_dns_name(name)) {
            let error =
                format!("--tls-name {name:?} is not a DNS name; write one such as control.test");
            return Err(error.into());
        }
        let is_open = token_keys.is_none() && !insecure_any_identity;
        if authority.is_some() && is_open && !listen.ip().is_loopback() {
            return Err(format!(
                "every client that reaches {listen} would get a certificate for any name that it asks for; give the keys of the \
                 proxies' tokens with `--token-keys`, or say `--insecure-any-identity`"
            )
            .into());
        }
        let authority = authority.map(MeshAuthority::new).transpose()?;
        let token_keys = token_keys.map(|path| TokenKeysFile {
            path,
            audience: token_audience,
        });
        let controller = Controller::new();
        // With a certificate for a name of the controller, a workload could stand for it.
        controller.identity().reserve(&tls_names);
        if let Some(authority) = &authority {
            controller.identity().authority(authority.present());
        }
        if let Some(keys) = &token_keys {
            controller.identity().token_keys(keys.read()?);
        }
        // The file comes first: a proxy that calls before would learn that there are no services, and drop them.
        let follow = mesh::follow(controller.clone(), mesh).await?;
        // So do addresses: a proxy would replace the addresses that it knows by none.
        if timeout(RESOLVE_TIMEOUT, follow.resolved()).await.is_err() {
            tracing::warn!(
                "Host names of the mesh file have no addresses after {RESOLVE_TIMEOUT:?}; the controller starts without them"
            );
        }
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            format!("{error}: cannot listen on {listen}; `--listen` sets another address")
        })?;
        let tls = authority.as_ref().filter(|_| !tls_names.is_empty());
        let server = match tls {
            Some(authority) => controller.serve_tls(listener, &authority.present(), &tls_names)?,
            None => controller.serve(listener)?,
        };
        // After the port is taken: a start that fails must not replace the anchor of a mesh that runs.
        if let Some(authority) = &authority {
            authority.publish()?;
        }
        let is_any = authority.is_some() && token_keys.is_none();
        announce(server.addr(), is_any, &tls_names);
        Ok(Self {
            controller,
            server,
            follow,
            authority,
            tls_names,
            token_keys,
        })
    }

    /// Reads the mesh file and the authority's files again. Invalid files leave the state unchanged.
    fn reload(&self) {
        self.follow.reload();
        if let Some(keys) = &self.token_keys {
            match keys.read() {
                Ok(keys) => drop(self.controller.identity().token_keys(keys)),
                Err(error) => {
                    tracing::error!(%error, "Keys of tokens refused; the last good ones stay")
                }
            }
        }
        let Some(authority) = &self.authority else {
            return;
        };
        match authority.reload() {
            Ok(Some(authority)) => match self.renew(&authority) {
                Ok(()) => {
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

/// The file with the keys of the proxies' tokens.
struct TokenKeysFile {
    path: PathBuf,
    audience: String,
}

impl TokenKeysFile {
    fn read(&self) -> Result<TokenKeys, Box<dyn Error>> {
        let path = self.path.display();
        let text = std::fs::read_to_string(&self.path);
        let text =
            text.map_err(|error| format!("{path}: {error}; `--token-keys` names the file"))?;
        let keys = TokenKeys::from_jwks(&text, &self.audience);
        keys.map_err(|error| format!("{path}: {error}").into())
    }
}

/// Long for a resolver that is up, short for a name that does not exist.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Logs the address and its dangers.
fn announce(addr: SocketAddr, signs_any_name: bool, tls_names: &[String]) {
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
    if signs_any_name && !addr.ip().is_loopback() {
        tracing::warn!(
            "every client that reaches {addr} gets a certificate for the name that it asks for; let only the mesh reach it"
        );
    }
}
