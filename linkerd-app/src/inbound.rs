//! The life of an inbound connection: from a peer to the application.
//!
//! | # | stage | what happens | file |
//! |--:|---|---|---|
//! | 1 | accept | socket options, original destination, addresses that are allowed | here |
//! | 2 | secure | TLS is detected, and terminated if it is for this proxy; direct connections | `tls.rs` |
//! | 3 | policy | the policy of the port, or its default until there is one | `policy.rs` |
//! | 4 | detect | the protocol of the policy, or else the first bytes; connections and requests are let in | here, `http.rs` |
//! | 5 | application | connection pools to the address that the peer dialled; bytes that are not HTTP are relayed | `application.rs`, `opaque.rs` |
//!
//! A connection for which this proxy is a gateway leaves after stage 3 to `gateway.rs`, and goes on in the outbound side.

mod application;
mod client_identities;
mod context;
mod gateway;
mod gateway_name;
mod handshakes;
mod http;
mod label_names;
mod opaque;
mod peers;
mod policy;
mod profiles;
mod proxy_protocol;
mod server_names;
mod service_name;
mod silent;
#[cfg(test)]
mod tests;
mod tls;
mod tunnel;

pub use client_identities::ClientIdentities;
pub use context::Context;
pub use handshakes::Handshakes;
pub use peers::Peers;
pub use policy::{Admission, PolicyContext, PortPolicy};
pub use profiles::InboundProfiles;
pub use server_names::ServerNames;

use crate::{
    identity::MeshIdentity,
    logging::LogLimit,
    outbound::ForwardedTargets,
    server::{DetectSettings, SilentDestinations, accept, detect, wait_for_certificate},
};
use ::http::Version;
use application::Applications;
use gateway::Gateway;
use linkerd_profiles::ServerProtocol;
use linkerd_proxy_core::{
    Error, Reason,
    http::Responder,
    metrics::Labels,
    tls::{NoTlsReason, TlsStatus},
    transport::{
        Accepted, ClientInfo, Detected, FirstServerBytes, Io, Listener, Lookalikes, RequestScan,
        Side, TransportStream,
    },
};
use policy::PolicySnapshot;
use std::{cell::Cell, net::SocketAddr, rc::Rc, time::Duration};
use tls::{KnownProtocol, SecuredConnection};
use tokio::time::Instant;

/// The inbound side of one worker.
pub struct Inbound {
    ctx: Rc<Context>,
    applications: Applications,
    silent: SilentDestinations<SocketAddr>,
    gateway: Gateway,
    /// Limits the log lines about connections to other addresses, which peers can provoke.
    log: LogLimit,
    /// Limits the log lines about TLS connections that are refused.
    tls_log: LogLimit,
    /// The size of the future of a connection.
    connection_bytes: Cell<usize>,
}

impl Inbound {
    /// An inbound side without connections; `gateway` has the targets that it forwards to as a gateway.
    pub fn new(ctx: Rc<Context>, gateway: Option<ForwardedTargets>) -> Rc<Self> {
        Rc::new(Self {
            gateway: Gateway::new(ctx.clone(), gateway),
            ctx,
            applications: Applications::default(),
            silent: SilentDestinations::default(),
            log: LogLimit::default(),
            tls_log: LogLimit::default(),
            connection_bytes: Cell::default(),
        })
    }

    /// Takes connections until the listener's drain is signalled.
    pub async fn serve(self: Rc<Self>, listener: Listener) {
        let bytes = &self.connection_bytes;
        accept(listener, bytes, |accepted| self.clone().accepted(accepted)).await;
    }

    /// Drops applications and profiles that are not in use, as long as the worker runs.
    pub async fn sweep(self: Rc<Self>) {
        let idle = self.ctx.config.inbound.discovery_idle;
        let profiles = self.ctx.profiles.sweep();
        let peers = async {
            if let Some(mesh) = &self.ctx.mesh {
                self.ctx.peers.watch(mesh.server().credentials()).await;
            }
        };
        tokio::join!(self.applications.sweep(idle), profiles, peers);
    }

    /// The inbound side in `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        serde_json::json!({
            "in_flight": self.ctx.in_flight.count(),
            "max_in_flight": self.ctx.in_flight.limit(),
            "future_bytes": { "connection": self.connection_bytes.get() },
            "half_sent": self.ctx.half_sent.inspect(),
            "handshakes": self.ctx.handshakes.inspect(),
            "peers": self.ctx.peers.inspect(),
            "http1_pools": self.ctx.http1.inspect(),
            "client_identities": self.ctx.policies.client_identities.inspect(),
            "server_names": self.ctx.server_names.inspect(),
            "profiles": self.ctx.profiles.inspect(),
            "silent_clients": self.silent.inspect(SocketAddr::to_string),
            "applications": self.applications.inspect(),
        })
    }

    async fn accepted(self: Rc<Self>, accepted: Accepted) {
        let Accepted {
            stream,
            client,
            guard,
        } = accepted;
        let connection = self.connection(stream, client.clone());
        let served = guard.until_cut_off(connection).await;
        if let Err(error) = served.flatten() {
            self.failed(&client, &error);
        }
    }

    /// All stages of one connection.
    async fn connection(
        self: &Rc<Self>,
        mut stream: TransportStream,
        client: Rc<ClientInfo>,
    ) -> Result<(), Error> {
        // 1. The destination.
        let own = &self.ctx.dialer.own;
        own.check_accepted(Side::Inbound, client.addr, client.going_to())?;
        let destination = match &self.ctx.mesh {
            // A peer proxy may dial this one's own port.
            Some(_) => client.going_to(),
            None => client.destination()?,
        };
        self.check_destination(destination)?;
        if let Some(mesh) = self.ctx.mesh.as_ref()
            && !mesh.server().has_certificate()
        {
            let timeout = self.ctx.config.inbound.detect_timeout;
            let answers = Responder::of_connection(Side::Inbound, false, false);
            let waiting =
                wait_for_certificate(mesh, &mut stream, &client, timeout, answers.without_text());
            Box::pin(waiting).await?;
        }
        // 2. The encryption, and the identity of the client.
        let SecuredConnection {
            stream,
            read,
            client,
            destination,
            protocol: known,
            gateway,
        } = match &self.ctx.mesh {
            None => SecuredConnection::plain(stream, client, destination),
            // Boxed: the handshake is large, and done before the rest begins.
            Some(mesh) => Box::pin(self.secure(mesh, stream, client, destination)).await?,
        };
        // 3. The policy of the port.
        let application = self
            .applications
            .get(&self.ctx, destination, client.addr.ip())?;
        let policy = application.policy().present();
        let tls = match (&policy.policy().protocol, &client.tls) {
            (ServerProtocol::Opaque, TlsStatus::None(_)) => {
                &TlsStatus::None(NoTlsReason::PortSkipped)
            }
            (_, tls) => tls,
        };
        let mut io = Io::new(stream, policy.peer(tls).connections());
        io.begin_with(read);
        if let Some(name) = &gateway {
            let protocol = known.said();
            // Boxed: rarely needed, and it would enlarge the future of every connection.
            let forwarded = self
                .gateway
                .serve(io, client.clone(), protocol, name, &application);
            return Box::pin(forwarded).await;
        }
        // 4. The protocol, and the admission of the client.
        let protocol = match known {
            _ if self.has_proxy_header(destination) => Some(Detected::Opaque),
            KnownProtocol::Unknown if self.expects_silence(&application, &policy, &client) => None,
            known => self.protocol(&mut io, &client, &policy, known).await?,
        };
        let is_searched = self.is_searched(&policy, &client, destination);
        let takes_http_alone = is_searched && self.ctx.config.inbound.detected_http_only;
        let (detected, server) = match protocol {
            Some(detected) => (detected, None),
            None if takes_http_alone => (Detected::Opaque, None),
            None => {
                application.policy().admit(client.addr, tls)?;
                self.was_silent(&application);
                // Boxed: rarely needed, and it would enlarge the future of every connection.
                Box::pin(self.first_speaker(&mut io, &client, &policy, &application)).await?
            }
        };
        let detected = match detected {
            Detected::Opaque if takes_http_alone => return Err(Reason::HttpRequired.into()),
            Detected::Opaque => {
                let scan = is_searched.then(|| RequestScan::new(FirstServerBytes::EndSearch));
                let relayed = self.opaque(&mut io, server, scan, &application, client.addr, tls);
                // Boxed: few connections are opaque.
                match Box::pin(client.listener.until_part_cut_off(relayed)).await?? {
                    Ok(()) => return Ok(()),
                    Err(found) => Self::replayed(&mut io, found)?,
                }
            }
            http => http,
        };
        let version = match detected {
            Detected::Http2 => Version::HTTP_2,
            Detected::Http1 | Detected::Opaque => Version::HTTP_11,
        };
        // 5. The application.
        let listener = client.listener.clone();
        let served = http::serve(&self.ctx, io, client, version, application);
        http::served(listener.until_part_cut_off(served).await?)
    }

    /// Whether a connection is for the proxy's own port, which is for other proxies.
    fn is_own_port(&self, destination: SocketAddr) -> bool {
        let own = self.ctx.config.inbound.listen;
        own.is_some_and(|own| own.port() == destination.port())
    }

    /// Detects the encryption of a connection, and terminates it if it is for this proxy. Opaque ports are left alone.
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
        let application = self
            .applications
            .get(&self.ctx, destination, client.addr.ip())?;
        match application.policy().present().policy().protocol {
            ServerProtocol::Opaque => Ok(SecuredConnection::plain(stream, client, destination)),
            _ if self.silent.is_expected(&destination, Instant::now()) => {
                tls::secure_expected_silent(&self.ctx, mesh, stream, client, destination).await
            }
            _ => tls::secure(&self.ctx, mesh, stream, client, destination).await,
        }
    }

    /// Refuses addresses other than the pod's and, without an identity, the proxy's own port.
    fn check_destination(&self, destination: SocketAddr) -> Result<(), Error> {
        let inbound = &self.ctx.config.inbound;
        if !inbound.ips.is_empty() && !inbound.ips.contains(&destination.ip()) {
            if let Some(unreported) = self.log.take(Instant::now()) {
                let ip = destination.ip();
                tracing::warn!(%ip, unreported, "inbound connections are not allowed on this IP address");
            }
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

    /// The protocol by the policy, a peer proxy or the first bytes; `None` if the client was silent.
    async fn protocol(
        &self,
        io: &mut Io,
        client: &ClientInfo,
        policy: &PolicySnapshot,
        known: KnownProtocol,
    ) -> Result<Option<Detected>, Error> {
        let timeout = match (&policy.policy().protocol, known) {
            (ServerProtocol::Opaque | ServerProtocol::Tls, _) => return Ok(Some(Detected::Opaque)),
            (_, KnownProtocol::Is(protocol)) => return Ok(Some(protocol)),
            // TLS for another server name is opaque to this proxy.
            _ if matches!(client.tls, TlsStatus::Passthrough { .. }) => {
                return Ok(Some(Detected::Opaque));
            }
            // TLS detection has waited for the client already.
            (ServerProtocol::Detect { .. }, KnownProtocol::Silent) => return Ok(None),
            // The client is not waited for: the application may speak first.
            (_, KnownProtocol::SaidOpaque) => return Ok(Some(Detected::Opaque)),
            (ServerProtocol::Detect { timeout, .. }, _) => *timeout,
            // A peer proxy may carry HTTP/1 over HTTP/2.
            (ServerProtocol::Http1(_), _) if client.tls.is_meshed() => {
                let timeout = self.ctx.config.inbound.detect_timeout;
                let detected = self.detect(io, client, policy, timeout).await?;
                return Ok(Some(detected.unwrap_or(Detected::Http1)));
            }
            (ServerProtocol::Http1(_), _) => return Ok(Some(Detected::Http1)),
            (ServerProtocol::Http2(_) | ServerProtocol::Grpc(_), _) => {
                return Ok(Some(Detected::Http2));
            }
        };
        self.detect(io, client, policy, timeout).await
    }

    /// The protocol of the client by its first bytes; `None` if it was silent.
    async fn detect(
        &self,
        io: &mut Io,
        client: &ClientInfo,
        policy: &PolicySnapshot,
        timeout: Duration,
    ) -> Result<Option<Detected>, Error> {
        let families = &self.ctx.families.inbound;
        let count = |result, took| {
            let labels = policy
                .scope()
                .server_labels(Labels::new().with("result", result));
            families.detect_results.get(labels).incr();
            let labels = policy.scope().server_labels(Labels::new());
            families.detect_duration.get(labels).observe_duration(took);
        };
        let settings = DetectSettings {
            timeout,
            lookalikes: Lookalikes::Http,
            answers: Responder::of_connection(
                Side::Inbound,
                client.tls.identity().is_some(),
                false,
            ),
        };
        let drain = &mut client.listener.drain().watch();
        detect(io, settings, drain, count).await
    }

    /// Reports a connection that the proxy closes.
    fn failed(&self, client: &ClientInfo, error: &Error) {
        let (reason, destination) = (error.reason(), client.going_to());
        let failures = &self.ctx.failures;
        failures.connection(Side::Inbound, client, destination, error);
        self.ctx.observers.refused(Side::Inbound, client, error);
        match reason {
            Reason::Unexpected => tracing::warn!(%destination, %error, "connection failed"),
            _ if tls::FAILURES.contains(&reason) => {
                if let Some(unreported) = self.tls_log.take(Instant::now()) {
                    let (reason, hint) = (reason.label(), reason.hint());
                    let client = client.addr;
                    tracing::info!(%client, %destination, reason, %error, hint, unreported, "TLS connection refused");
                }
            }
            _ => {
                let (reason, hint) = (reason.label(), reason.hint());
                tracing::debug!(%destination, reason, %error, hint, "connection failed");
            }
        }
        self.ctx.count_tcp_error(destination, reason.error_label());
    }
}
