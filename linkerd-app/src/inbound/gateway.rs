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
    application::Application,
    context::Context,
    gateway_name::GatewayName,
    http::{self, peer_protocol::PeerProtocolLayer, route_policy::RoutePolicy},
    policy::Admission,
};
use crate::{
    outbound::ForwardedTargets,
    server::{
        self, Answers, BROKEN_OFF, ClientClaims, InFlightLimitLayer, NormaliseLayer, RelayEnd,
        RespondLayer,
    },
};
use ::http::Version;
use linkerd_profiles::Target;
use linkerd_proxy_core::{
    Error,
    http::Connection,
    transport::{ClientInfo, Detected, Io, Side},
};
use std::rc::Rc;
use tower::ServiceBuilder;

/// The part of the inbound side that forwards connections.
pub struct Gateway {
    ctx: Rc<Context>,
    /// `None`: this proxy is no gateway.
    targets: Option<ForwardedTargets>,
}

impl Gateway {
    /// A gateway to `targets`.
    pub fn new(ctx: Rc<Context>, targets: Option<ForwardedTargets>) -> Self {
        Self { ctx, targets }
    }

    /// Serves a connection by forwarding it. `own` has the policy of the proxy's own port.
    pub async fn serve(
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
            Detected::Opaque => return self.relay(io, &client, name, own).await,
        };
        let identity = self.ctx.config.identity.as_ref();
        let identity = identity.map(|identity| &identity.local.identity);
        let forward = Forward::new(
            name,
            self.target(name).ok(),
            identity,
            client.tls.identity(),
        );
        let policy = own.policy().clone();
        let connection = Rc::new(Connection::default());
        let answers = Answers {
            side: Side::Inbound,
            version,
            emit_headers: true,
            explicit: false,
        };
        let counted = policy.clone();
        let count = move |error: &Error| counted.count_error(error);
        let failures = self.ctx.failures.requests(Side::Inbound, &client);
        let stack = ServiceBuilder::new()
            .layer(RespondLayer::new(answers, &connection, failures, count))
            .layer(self.ctx.observers.layer(Side::Inbound, &client))
            .layer(InFlightLimitLayer::new(
                &self.ctx.in_flight.of(client.addr.ip()),
            ))
            .layer(NormaliseLayer {
                version,
                claims: ClientClaims::Removed,
            })
            .layer(PeerProtocolLayer {
                version,
                is_peer: true,
            })
            .service(RoutePolicy::new(
                Admission::new(policy, client.clone()),
                forward,
            ));
        let settings = self.ctx.server_settings(&client);
        let drain = client.listener.drain().watch();
        let listener = client.listener.clone();
        let served = server::serve(io, client, version, connection, stack, settings, drain);
        http::served(listener.until_part_cut_off(served).await?)
    }

    /// Relays a connection that is not HTTP, for as long as the policy lets the client in.
    async fn relay(
        &self,
        io: Io,
        client: &ClientInfo,
        name: &GatewayName,
        own: &Application,
    ) -> Result<(), Error> {
        let policy = own.policy();
        policy.admit(client.addr, &client.tls)?.count();
        let (targets, target) = self.target(name)?;
        let mut revoked = Box::pin(policy.revoked(client.addr, &client.tls));
        let relayed = async { targets.get(target).await?.relay(io).await };
        let end = tokio::select! {
            relayed = client.listener.until_part_cut_off(relayed) => relayed??,
            error = &mut revoked => return Err(error),
        };
        if end == RelayEnd::BrokenOff {
            self.ctx.count_tcp_error(client.going_to(), BROKEN_OFF);
        }
        Ok(())
    }

    /// The target of a name that this gateway forwards to. Fails as `GatewayNotAllowed`.
    fn target(&self, name: &GatewayName) -> Result<forward::AllowedTarget, Error> {
        let suffixes = &self.ctx.config.inbound.gateway_suffixes;
        let target = Target::new(&name.name, name.port).ok();
        let allowed = suffixes.matches(&name.name);
        match (&self.targets, target) {
            (Some(targets), Some(target)) if allowed => Ok((targets.clone(), target)),
            _ => Err(name.not_allowed()),
        }
    }
}
