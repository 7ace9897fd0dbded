//! Connections for which this proxy is a gateway: their transport headers name a service, to which they are forwarded through
//! the outbound side.
//!
//! - **Sits** after stage 3, in place of the application. The policy is that of the proxy's own port.
//! - **Waits for** discovery of the name, and as the outbound side does.
//! - **Fails as** `GatewayNotAllowed`, `GatewayLoop`, and as discovery and the outbound side fail.
//! - **Metrics**: those of both sides.

mod forward;

use self::forward::Forward;
use super::{
    Inbound, application::Application, http::peer_protocol::PeerProtocolLayer,
    http::route_policy::RoutePolicy, policy::Admission,
};
use crate::server::{self, Answers, InFlightLimitLayer, NormaliseLayer, RespondLayer};
use http::Version;
use linkerd_profiles::Target;
use linkerd_proxy_core::{
    Error, Reason,
    http::Connection,
    transport::{ClientInfo, Detected, Io},
};
use std::{rc::Rc, sync::Arc};
use tower::ServiceBuilder;

/// A name and a port that a connection is to be forwarded to.
#[derive(Clone, Debug)]
pub struct GatewayName {
    /// The name.
    pub name: Arc<str>,
    /// The port.
    pub port: u16,
}

impl Inbound {
    /// Serves a connection by forwarding it. `own` has the policy of the proxy's own port.
    pub(super) async fn gateway(
        &self,
        io: Io,
        client: Rc<ClientInfo>,
        protocol: Detected,
        name: &GatewayName,
        own: &Application,
    ) -> Result<(), Error> {
        let version = match protocol {
            Detected::Http1 => Version::HTTP_11,
            Detected::Http2 => Version::HTTP_2,
            Detected::Opaque => return self.gateway_opaque(io, &client, name, own).await,
        };
        let identity = self.ctx.config.identity.as_ref();
        let identity = identity.map(|identity| &identity.local.identity);
        let forward = Forward::new(
            name,
            self.gateway_target(name).ok(),
            identity,
            client.tls.identity(),
        );
        let policy = own.policy().clone();
        let connection = Rc::new(Connection::default());
        let answers = Answers {
            version,
            emit_headers: true,
            explicit: false,
        };
        let counted = policy.clone();
        let count = move |error: &Error| counted.count_error(error);
        let stack = ServiceBuilder::new()
            .layer(RespondLayer::new(answers, &connection, count))
            .layer(InFlightLimitLayer::new(&self.ctx.in_flight))
            .layer(NormaliseLayer {
                version,
                removes_claims: true,
            })
            .layer(PeerProtocolLayer { version })
            .service(RoutePolicy::new(
                Admission::new(policy, client.clone()),
                forward,
            ));
        let settings = self.ctx.server_settings();
        let drain = client.listener.drain().watch();
        match server::serve(io, client, version, connection, stack, settings, drain).await {
            Ok(()) => Ok(()),
            Err(error) => {
                tracing::debug!(%error, "connection closed");
                error.failure().map_or(Ok(()), Err)
            }
        }
    }

    /// Relays a connection that is not HTTP, for as long as the policy lets the client in.
    async fn gateway_opaque(
        &self,
        io: Io,
        client: &ClientInfo,
        name: &GatewayName,
        own: &Application,
    ) -> Result<(), Error> {
        let policy = own.policy();
        policy.admit(client.addr, &client.tls)?.count();
        let (targets, target) = self.gateway_target(name)?;
        let mut revoked = Box::pin(policy.revoked(client.addr, &client.tls));
        let relayed = async { targets.get(target).await?.relay(io).await };
        tokio::select! {
            relayed = relayed => relayed,
            error = &mut revoked => Err(error),
        }
    }

    /// The target of a name that this gateway forwards to. Fails as `GatewayNotAllowed`.
    fn gateway_target(&self, name: &GatewayName) -> Result<forward::AllowedTarget, Error> {
        let suffixes = &self.ctx.config.inbound.gateway_suffixes;
        let target = Target::new(&name.name, name.port).ok();
        let allowed = suffixes.matches(&name.name);
        match (&self.gateway, target) {
            (Some(targets), Some(target)) if allowed => Ok((targets.clone(), target)),
            _ => Err(not_allowed(&name.name)),
        }
    }
}

fn not_allowed(name: &str) -> Error {
    let detail = format!("this proxy is no gateway to {name}");
    Error::new(Reason::GatewayNotAllowed).detail(detail)
}
