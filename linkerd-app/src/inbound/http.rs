//! Stage 3: serving a peer's HTTP connection.
//!
//! - **Fails as** the application fails, `InvalidRequest`, `Unauthorized`, `InFlightLimit`, as a response without
//!   informational headers: those are for meshed peers.
//! - **Bounds**: requests in flight.
//! - **Metrics**: `inbound_http_errors_total`.

mod authorize;
mod client_identity;
mod peer_protocol;
mod upgrades;

use self::{
    authorize::AuthorizeLayer, client_identity::ClientIdentityLayer,
    peer_protocol::PeerProtocolLayer, upgrades::UpgradesLayer,
};
use super::{
    application::{Application, ApplicationService},
    context::Context,
};
use crate::{
    metrics::target_labels,
    server::{self, Answers, InFlightLimitLayer, NormaliseLayer, RespondLayer},
};
use http::{Response, Version};
use linkerd_proxy_core::{
    Error, ObserveLayer, Reason, StageNames,
    http::{Connection, HttpRequest, ResponseBody, ServeError},
    metrics::Labels,
    tls::TlsStatus,
    transport::{ClientInfo, Io},
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
    authorized: Result<(), Error>,
) -> impl Future<Output = Result<(), ServeError>> + use<> {
    let settings = ctx.server_settings();
    let drain = client.listener.drain().watch();
    let connection = Rc::new(Connection::default());
    let (ctx, tls) = (ctx.clone(), &client.tls);
    let stack = stack(ctx, &connection, version, tls, application, authorized);
    server::serve(io, client, version, connection, stack, settings, drain)
}

/// The layers of a connection, in the order in which a request meets them.
fn stack(
    ctx: Rc<Context>,
    connection: &Rc<Connection>,
    version: Version,
    tls: &TlsStatus,
    application: Rc<Application>,
    authorized: Result<(), Error>,
) -> impl Service<HttpRequest, Response = Response<ResponseBody>, Error = h2::Error, Future: 'static>
+ use<> {
    let answers = Answers {
        version,
        emit_headers: tls.identity().is_some(),
        explicit: false,
    };
    let (counting, counted) = (ctx.clone(), application.clone());
    let count = move |error: &Error| count(&counting, &counted, error);
    ServiceBuilder::new()
        .layer(RespondLayer::new(answers, connection, count))
        .layer(AuthorizeLayer::new(authorized))
        .layer(InFlightLimitLayer::new(&ctx.in_flight))
        .layer(NormaliseLayer {
            version,
            removes_claims: true,
        })
        .layer(option_layer(ClientIdentityLayer::new(tls)))
        .layer(UpgradesLayer::new(&ctx, &application))
        .layer(PeerProtocolLayer { version })
        .layer(ObserveLayer::new(StageNames::of_endpoint([])))
        .service(ApplicationService::new(application))
}

/// Counts a request that the proxy answers itself.
fn count(ctx: &Context, application: &Application, error: &Error) {
    let reason = error.reason();
    tracing::debug!(reason = reason.label(), %error, hint = reason.hint(), "request failed");
    if reason == Reason::Unauthorized {
        return;
    }
    let labels = Labels::new().with("error", reason.error_label());
    let labels = target_labels(labels, application.connect().addr);
    ctx.families.inbound.http_errors.get(labels).incr();
}
