//! Stage 3: serving a peer's HTTP connection.
//!
//! - **Fails as** the application fails, `InvalidRequest`, `InFlightLimit`, and as the policy says. Informational headers
//!   are for meshed peers only.
//! - **Bounds**: requests in flight.
//! - **Metrics**: `inbound_http_errors_total`.

mod client_identity;
pub(super) mod forwarded;
pub(super) mod peer_protocol;
mod profile_routes;
pub(super) mod route_policy;
mod upgrades;

use self::{
    client_identity::ClientIdentityLayer, forwarded::ForwardedLayer,
    peer_protocol::PeerProtocolLayer, profile_routes::ProfileRoutesLayer,
    route_policy::RoutePolicy, upgrades::UpgradesLayer,
};
use super::{
    application::{Application, ApplicationService},
    context::Context,
    policy::Admission,
};
use crate::server::{
    self, Answers, ClientClaims, InFlightLimitLayer, NormaliseLayer, RespondLayer,
};
use http::{Response, Version};
use linkerd_proxy_core::{
    Error, ObserveLayer, StageNames,
    http::{Connection, HttpRequest, ResponseBody, ServeError},
    transport::{ClientInfo, Io, Side},
};
use std::rc::Rc;
use tower::{ServiceBuilder, util::option_layer};
use tower_service::Service;

/// Serves HTTP until the connection ends.
pub fn serve(
    ctx: &Rc<Context>,
    io: Io,
    client: Rc<ClientInfo>,
    version: Version,
    application: Rc<Application>,
) -> impl Future<Output = Result<(), ServeError>> + use<> {
    let settings = ctx.server_settings(&client);
    let drain = client.listener.drain().watch();
    let connection = Rc::new(Connection::default());
    let stack = stack(ctx.clone(), &connection, version, application, &client);
    server::serve(io, client, version, connection, stack, settings, drain)
}

/// The result of a connection: an error if the proxy has closed it.
pub fn served(ended: Result<(), ServeError>) -> Result<(), Error> {
    let Err(error) = ended else { return Ok(()) };
    tracing::debug!(%error, "connection closed");
    error.failure().map_or(Ok(()), Err)
}

/// The layers of a connection, in the order in which a request meets them.
fn stack(
    ctx: Rc<Context>,
    connection: &Rc<Connection>,
    version: Version,
    application: Rc<Application>,
    client: &Rc<ClientInfo>,
) -> impl Service<HttpRequest, Response = Response<ResponseBody>, Error = h2::Error, Future: 'static>
+ use<> {
    let answers = Answers {
        side: Side::Inbound,
        version,
        emit_headers: client.tls.identity().is_some(),
        explicit: false,
    };
    let counted = application.policy().clone();
    let count = move |error: &Error| counted.count_error(error);
    let is_peer = answers.emit_headers;
    let failures = ctx.failures.requests(Side::Inbound, client);
    let admission = Admission::new(application.policy().clone(), client.clone());
    let forwarded = ctx.config.inbound.forwarded_header;
    let forwarded = option_layer(ForwardedLayer::new(forwarded, client));
    let claims = match client.tls.identity() {
        Some(_) => ClientClaims::RemovedButService,
        None => ClientClaims::Removed,
    };
    let upgrades = UpgradesLayer::new(&ctx, &application);
    let application = ServiceBuilder::new()
        .layer(ProfileRoutesLayer::new(&ctx))
        .layer(ObserveLayer::new(StageNames::of_endpoint([])))
        .service(ApplicationService::new(application));
    ServiceBuilder::new()
        .layer(RespondLayer::new(answers, connection, failures, count))
        .layer(ctx.observers.layer(Side::Inbound, client))
        .layer(InFlightLimitLayer::new(&ctx.in_flight.of(client.addr.ip())))
        .layer(NormaliseLayer { version, claims })
        .layer(option_layer(ClientIdentityLayer::new(&client.tls)))
        .layer(forwarded)
        .layer(upgrades)
        .layer(PeerProtocolLayer { version, is_peer })
        .service(RoutePolicy::new(admission, application))
}
