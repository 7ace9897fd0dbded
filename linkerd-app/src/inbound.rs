//! The life of an inbound connection: from a peer to the application.
//!
//! | # | stage | what happens | file |
//! |--:|---|---|---|
//! | 1 | accept | socket options, original destination, addresses that are allowed | here |
//! | 2 | secure | TLS is detected, and terminated if it is for this proxy; direct connections | `tls.rs` |
//! | 3 | policy | the default policy of the port | `policy.rs` |
//! | 4 | detect | opaque ports, or else the first bytes; HTTP is served | here, `http.rs` |
//! | 5 | application | connection pools to the address that the peer dialled | `application.rs` |

mod application;
mod context;
mod http;
mod policy;
#[cfg(test)]
mod tests;
mod tls;
mod tunnel;

pub use context::Context;
pub use tls::Handshakes;

use crate::{
    identity::MeshIdentity,
    metrics::target_labels,
    server::{DetectSettings, accept, detect},
};
use ::http::Version;
use application::{Application, Applications};
use linkerd_proxy_core::{
    Error, Reason,
    metrics::Labels,
    transport::{
        Accepted, ClientInfo, Detected, Duplex, Io, Listener, Lookalikes, Side, TransportStream,
        relay,
    },
};
use policy::Policy;
use std::{cell::Cell, future::poll_fn, net::SocketAddr, rc::Rc, task::Poll};
use tls::SecuredConnection;
use tower_service::Service;

/// The inbound side of one worker.
pub struct Inbound {
    ctx: Rc<Context>,
    applications: Applications,
    /// The size of the future of a connection.
    connection_bytes: Cell<usize>,
}

impl Inbound {
    /// An inbound side without connections.
    pub fn new(ctx: Rc<Context>) -> Rc<Self> {
        Rc::new(Self {
            ctx,
            applications: Applications::default(),
            connection_bytes: Cell::default(),
        })
    }

    /// Takes connections until the listener's drain is signalled.
    pub async fn serve(self: Rc<Self>, listener: Listener) {
        let bytes = &self.connection_bytes;
        accept(listener, bytes, |accepted| self.clone().accepted(accepted)).await;
    }

    /// Drops applications that are not in use, as long as the worker runs.
    pub async fn sweep(self: Rc<Self>) {
        let idle = self.ctx.config.inbound.discovery_idle;
        self.applications.sweep(idle).await;
    }

    /// The inbound side in `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        serde_json::json!({
            "in_flight": self.ctx.in_flight.count(),
            "future_bytes": { "connection": self.connection_bytes.get() },
            "half_sent": self.ctx.half_sent.inspect(),
            "handshakes": self.ctx.handshakes.inspect(),
            "http1_pools": self.ctx.http1.inspect(),
            "applications": self.applications.inspect(),
        })
    }

    async fn accepted(self: Rc<Self>, accepted: Accepted) {
        let Accepted {
            stream,
            client,
            guard,
        } = accepted;
        let destination = client.going_to();
        let served = guard.until_cut_off(self.connection(stream, client)).await;
        if let Err(error) = served.flatten() {
            self.failed(destination, &error);
        }
    }

    /// All stages of one connection.
    async fn connection(
        self: &Rc<Self>,
        stream: TransportStream,
        client: Rc<ClientInfo>,
    ) -> Result<(), Error> {
        // 1. Where it was going.
        let own = &self.ctx.dialer.own;
        own.check_accepted(Side::Inbound, client.addr, client.going_to())?;
        let destination = match &self.ctx.mesh {
            // A peer proxy may dial this one's own port.
            Some(_) => client.going_to(),
            None => client.destination()?,
        };
        self.check_destination(destination)?;
        // 2. Who the client is.
        let SecuredConnection {
            stream,
            read,
            client,
            destination,
            protocol,
        } = match &self.ctx.mesh {
            None => SecuredConnection::plain(stream, client, destination),
            // In a box: its handshake is large, and done before the rest begins.
            Some(mesh) => Box::pin(self.secure(mesh, stream, client, destination)).await?,
        };
        // 3. Whether it is let in.
        let policy = Policy::of(&self.ctx.config, destination);
        let authorized = policy.authorize(&client);
        // 4. What it speaks.
        let application = self
            .applications
            .get(&self.ctx, destination, &client.tls, &policy)?;
        let mut io = Io::new(stream, application.client_series());
        io.put_back(read);
        let detected = match protocol {
            _ if policy.opaque => Some(Detected::Opaque),
            Some(protocol) => Some(protocol),
            None => self.detect(&mut io, &client, &policy).await?,
        };
        let (detected, server) = match detected {
            Some(detected) => (detected, None),
            None if authorized.is_err() => return authorized,
            // In a box: few connections need it, and all would have room for it.
            None => Box::pin(self.silent(&mut io, &client, &policy, &application)).await?,
        };
        let version = match detected {
            Detected::Http1 => Version::HTTP_11,
            Detected::Http2 => Version::HTTP_2,
            Detected::Opaque => {
                authorized?;
                return self.opaque(io, server, &application).await;
            }
        };
        // 5. The application.
        match http::serve(&self.ctx, io, client, version, application, authorized).await {
            Ok(()) => Ok(()),
            Err(error) => {
                tracing::debug!(%error, "connection closed");
                error.failure().map_or(Ok(()), Err)
            }
        }
    }

    /// Whether a connection is for the proxy's own port, which is for other proxies.
    fn is_own_port(&self, destination: SocketAddr) -> bool {
        let own = self.ctx.config.inbound.listen;
        own.is_some_and(|own| own.port() == destination.port())
    }

    /// The encryption of a connection, as far as the policy of its port lets it be looked at.
    async fn secure(
        &self,
        mesh: &MeshIdentity,
        stream: TransportStream,
        client: Rc<ClientInfo>,
        destination: SocketAddr,
    ) -> Result<SecuredConnection, Error> {
        if client.orig_dst.is_none() || self.is_own_port(destination) {
            return tls::secure_direct(&self.ctx, mesh, stream, client, destination).await;
        }
        match Policy::of(&self.ctx.config, destination).opaque {
            true => Ok(SecuredConnection::skipped(stream, &client, destination)),
            false => tls::secure(&self.ctx, mesh, stream, client, destination).await,
        }
    }

    /// The proxy's own port is not an application, and other addresses than the pod's are not its business.
    fn check_destination(&self, destination: SocketAddr) -> Result<(), Error> {
        let inbound = &self.ctx.config.inbound;
        if !inbound.ips.is_empty() && !inbound.ips.contains(&destination.ip()) {
            tracing::warn!(
                ip = %destination.ip(),
                "inbound connections are not allowed on this IP address"
            );
            return Err(Error::new(Reason::NotAllowedAddress).peer(destination));
        }
        if self.is_own_port(destination) && self.ctx.mesh.is_none() {
            let detail = format!(
                "inbound connection must not target port {}",
                destination.port()
            );
            return Err(Error::new(Reason::Loop).detail(detail));
        }
        Ok(())
    }

    /// The protocol of the client; `None` if it was silent.
    async fn detect(
        &self,
        io: &mut Io,
        client: &ClientInfo,
        policy: &Policy<'_>,
    ) -> Result<Option<Detected>, Error> {
        let families = &self.ctx.families.inbound;
        let count = |result, took| {
            let labels = policy.server_labels(Labels::new().with("result", result));
            families.detect_results.get(labels).incr();
            let labels = policy.server_labels(Labels::new());
            families.detect_duration.get(labels).observe_duration(took);
        };
        let settings = DetectSettings {
            timeout: self.ctx.config.inbound.detect_timeout,
            lookalikes: Lookalikes::Http,
        };
        let drain = &mut client.listener.drain().watch();
        detect(io, settings, drain, count).await
    }

    /// Waits for the first bytes of a silent client or of its application, which may be the one to speak first. A client
    /// that is late is looked at as every other one: a pause would be a way around HTTP processing otherwise.
    async fn silent(
        &self,
        io: &mut Io,
        client: &ClientInfo,
        policy: &Policy<'_>,
        application: &Application,
    ) -> Result<(Detected, Option<Io>), Error> {
        let mut server = application.connect().call(()).await?;
        loop {
            let is_late = poll_fn(|cx| match server.poll_readable(cx) {
                Poll::Ready(()) => Poll::Ready(false),
                Poll::Pending => io.poll_readable(cx).map(|()| true),
            });
            let detected = match is_late.await {
                true => self.detect(io, client, policy).await?,
                false => Some(Detected::Opaque),
            };
            match detected {
                Some(Detected::Opaque) => return Ok((Detected::Opaque, Some(server))),
                Some(http) => return Ok((http, None)),
                None => {}
            }
        }
    }

    /// Relays to `server`, or to a new connection.
    async fn opaque(
        &self,
        mut io: Io,
        server: Option<Io>,
        application: &Application,
    ) -> Result<(), Error> {
        let mut server = match server {
            Some(server) => server,
            None => application.connect().call(()).await?,
        };
        match relay(&mut io, &mut server, &self.ctx.pipes).await {
            Ok((sent, received)) => tracing::debug!(sent, received, "opaque connection ended"),
            Err(error) => tracing::debug!(%error, "opaque connection broke off"),
        }
        Ok(())
    }

    /// A connection that the proxy closes.
    fn failed(&self, destination: SocketAddr, error: &Error) {
        let reason = error.reason();
        match reason {
            Reason::Unexpected => tracing::warn!(%destination, %error, "connection failed"),
            _ => {
                let (reason, hint) = (reason.label(), reason.hint());
                tracing::debug!(%destination, reason, %error, hint, "connection failed");
            }
        }
        let labels = Labels::new().with("error", reason.error_label());
        let family = &self.ctx.families.inbound.tcp_errors;
        family.get(target_labels(labels, destination)).incr();
    }
}
