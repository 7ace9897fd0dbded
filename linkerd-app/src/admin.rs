//! The admin server: probes, metrics, the state of the proxy, and the few settings that can change while it runs.
//!
//! It serves HTTP/1 and HTTP/2, in the clear or in TLS of the mesh, on the control thread and shares nothing with the
//! workers but snapshots, so that a scrape never delays a request and a busy proxy still answers its probes. With an
//! inbound listener, the policy of its port decides about each request ([`AdminPolicy`]).
//!
//! - **sits** beside the proxy: no request of the application passes it.
//! - **waits for** a request's head and its body [`READ_TIMEOUT`](request::READ_TIMEOUT) each, and for a section of `/state`
//!   [`StateSection`]'s second.
//! - **fails as** the statuses of [`router`], which are those of linkerd2-proxy, and as the policy says.
//! - **bounds** connections by [`MAX_CONNECTIONS`], bodies by 64 KiB, streams of a connection by 16.
//! - **metrics**: under a policy, those of an inbound port and its requests.

mod accept;
mod busy_body;
mod connection;
mod console;
mod context;
mod controller;
mod env;
mod explain;
mod log_level;
mod logs;
mod metrics;
mod origin;
mod policy;
mod probes;
mod reply;
mod request;
mod router;
mod secure;
mod shutdown;
mod state;
mod tap;
#[cfg(test)]
mod tests;

pub use context::{AdminContext, StateSection};
pub use controller::ControllerAdmin;
pub use policy::AdminPolicy;

pub(crate) use busy_body::BusyBody;
pub(crate) use connection::converse;
pub(crate) use origin::{hostname, refuse_foreign_page};
pub(crate) use reply::infallible;
pub(crate) use secure::secure;

use connection::Connections;
use context::MAX_CONNECTIONS;
use linkerd_proxy_core::{drain, transport::AcceptErrors};
use std::{
    net::{SocketAddr, TcpListener},
    rc::Rc,
    time::Duration,
};
use tokio::net::TcpStream;

/// Serves until drain is signalled; returns when the connections have finished their requests, after [`FINISH_WITHIN`] at most.
///
/// Must run on a local runtime (`spawn_local`).
pub async fn serve(listener: TcpListener, admin: Rc<AdminContext>, drain: drain::Watch) {
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
    let serving = drain.clone();
    accept_until(listener, drain, |connections, accepted| {
        if let Some((stream, peer)) = accepted {
            connections.serve(stream, peer, &admin, &serving);
        }
        admin.connections.set(connections.len());
    })
    .await;
}

/// Serves the admin server of the embedded controller like [`serve`].
pub async fn serve_controller(
    listener: tokio::net::TcpListener,
    admin: Rc<ControllerAdmin>,
    drain: drain::Watch,
) {
    let serving = drain.clone();
    accept_until(listener, drain, |connections, accepted| {
        if let Some((stream, peer)) = accepted {
            connections.serve_controller(stream, peer, &admin, &serving);
        }
    })
    .await;
}

/// Accepts connections until drain is signalled. `changed` gets each of them, and `None` when one has ended.
async fn accept_until(
    listener: tokio::net::TcpListener,
    mut drain: drain::Watch,
    mut changed: impl FnMut(&mut Connections, Option<(TcpStream, SocketAddr)>),
) {
    let mut connections = Connections::new(MAX_CONNECTIONS);
    let mut errors = AcceptErrors::default();
    loop {
        let accepted = tokio::select! {
            biased;
            () = drain.signaled() => break,
            () = connections.reap(), if !connections.is_empty() => {
                changed(&mut connections, None);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(accepted) => changed(&mut connections, Some(accepted)),
            Err(error) => {
                // For example too many open files, which an immediate retry does not cure.
                errors.log(&error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // From now on the port refuses connections, as the incumbent's does.
    drop(listener);
    let finished = async {
        while !connections.is_empty() {
            connections.reap().await;
        }
    };
    // A client that does not read its answer, such as a tap that was forgotten, must not hold up the shutdown.
    if tokio::time::timeout(FINISH_WITHIN, finished).await.is_err() {
        tracing::debug!("Closing admin connections that have not finished");
    }
}

/// Limit for connections to finish their requests after drain was signalled: the slowest answer is a long scrape.
const FINISH_WITHIN: Duration = Duration::from_secs(5);

/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
