//! The admin server: probes, metrics, the state of the proxy, and the few things that can be changed while it runs.
//!
//! It serves HTTP/1 and HTTP/2 in the clear on the control thread and shares nothing with the workers but snapshots,
//! so that a scrape never delays a request and a busy proxy still answers its probes.
//!
//! - **sits** beside the proxy: no request of the application passes it.
//! - **waits for** a request's head and its body [`READ_TIMEOUT`] each, and for a section of `/state`
//!   [`StateSection`]'s second.
//! - **fails as** the statuses of [`router`], which are those of linkerd2-proxy.
//! - **bounds** connections by [`MAX_CONNECTIONS`], bodies by 64 KiB, streams of a connection by 100.
//! - **metrics**: none of its own.

mod accept;
mod connection;
mod env;
mod log_level;
mod metrics;
mod origin;
mod probes;
mod reply;
mod router;
mod shutdown;
mod state;
#[cfg(test)]
mod tests;

pub use state::StateSection;

pub(crate) use connection::{converse, infallible};
pub(crate) use origin::hostname;

use crate::{config, logging};
use connection::Connections;
use linkerd_proxy_core::{drain, metrics::Registry, readiness::Readiness, transport::AcceptErrors};
use std::{net::TcpListener, rc::Rc, time::Duration};
use tokio::sync::mpsc;

/// What the admin server tells of, and what it may change.
pub struct Admin {
    /// All metrics.
    pub registry: Registry,
    /// How long series without an owner are kept.
    pub retain: Duration,
    /// What the proxy waits for.
    pub readiness: Readiness,
    /// Controllers that were not reached yet, and why: they do not hold readiness up.
    pub unreached: Box<dyn Fn() -> Vec<String>>,
    /// The filter of the logger. `None`: there is no logger.
    pub log: Option<logging::LogFilter>,
    /// The name of this machine, under which the paths for this host may be asked.
    pub hostname: Option<String>,
    /// The environment that the proxy was started with.
    pub env: config::Env,
    /// Told when the proxy is asked to shut down. `None`: it can't be asked.
    pub shutdown: Option<mpsc::Sender<()>>,
    /// The sections of `/state`.
    pub sections: Vec<StateSection>,
}

/// Serves until the drain begins, and returns when the connections have finished what they were doing.
///
/// Must run where tasks may stay on their thread (`spawn_local`).
pub async fn serve(listener: TcpListener, admin: Rc<Admin>, mut drain: drain::Watch) {
    let listener = match listener
        .set_nonblocking(true)
        .and_then(|()| tokio::net::TcpListener::from_std(listener))
    {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "Admin server failed to start");
            return;
        }
    };
    let mut connections = Connections::new(MAX_CONNECTIONS);
    let mut errors = AcceptErrors::default();
    loop {
        let accepted = tokio::select! {
            biased;
            () = drain.signaled() => break,
            () = connections.reap(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => connections.serve(stream, peer, &admin, &drain),
            Err(error) => {
                // Such as too many open files, which does not end by asking again at once.
                errors.log(&error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // The port is refused from now on, as the incumbent's is.
    drop(listener);
    while !connections.is_empty() {
        connections.reap().await;
    }
}

/// Probes, a scraper or two and people need a handful. One more closes the one that was used least recently, so that
/// whoever opens many and says nothing keeps no probe out.
const MAX_CONNECTIONS: usize = 100;

/// How long a request's head, once begun, and its body may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
