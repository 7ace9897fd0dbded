//! Stage 3: serving an application's HTTP connection.
//!
//! - **Waits for** the control plane's first answer, when requests are routed by their authority.
//! - **Fails as** the stages below, turned into a response; `InvalidRequest`, `InvalidFraming`, `InFlightLimit`.
//! - **Bounds**: requests in flight.
//! - **Metrics**: `outbound_http_errors_total`.

use super::{context::Context, target::TargetStack};
use crate::server::{
    Answers, ClientClaims, InFlightLimitLayer, NormaliseLayer, RespondLayer, serve,
};
use http::{Response, Version};
use linkerd_proxy_core::{
    Error, Reason,
    http::{Connection, HttpRequest, ResponseBody, ServeError},
    metrics::Labels,
    transport::{ClientInfo, Io, Side},
};
use std::rc::Rc;
use tower::ServiceBuilder;
use tower_service::Service;

/// Serves a connection whose requests all have one target. The caller keeps the target in use.
pub fn serve_target(
    ctx: &Rc<Context>,
    io: Io,
    client: Rc<ClientInfo>,
    version: Version,
    target: &TargetStack,
) -> impl Future<Output = Result<(), ServeError>> + use<> {
    let settings = ctx.server_settings();
    let drain = client.listener.drain().watch();
    let router = target.router(ctx, version);
    let connection = Rc::new(Connection::default());
    let stack = stack(ctx, &connection, &client, version, false, router);
    serve(io, client, version, connection, stack, settings, drain)
}

/// Serves a connection whose requests name their targets: to the explicit proxy, or to an ingress.
pub fn serve_named<S>(
    ctx: &Rc<Context>,
    io: Io,
    client: Rc<ClientInfo>,
    version: Version,
    is_explicit: bool,
    by_name: S,
) -> impl Future<Output = Result<(), ServeError>> + use<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error, Future: 'static>
        + 'static,
{
    let settings = ctx.server_settings();
    let drain = client.listener.drain().watch();
    let connection = Rc::new(Connection::default());
    let stack = stack(ctx, &connection, &client, version, is_explicit, by_name);
    serve(io, client, version, connection, stack, settings, drain)
}

/// The server's layers around the router of requests.
fn stack<S>(
    ctx: &Rc<Context>,
    connection: &Rc<Connection>,
    client: &Rc<ClientInfo>,
    version: Version,
    explicit: bool,
    routed: S,
) -> impl Service<HttpRequest, Response = Response<ResponseBody>, Error = h2::Error, Future: 'static>
+ use<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error, Future: 'static>,
{
    let answers = Answers {
        side: Side::Outbound,
        version,
        emit_headers: ctx.config.outbound.emit_headers,
        explicit,
    };
    let failures = ctx.failures.requests(Side::Outbound, client);
    let counting = ctx.clone();
    let count = move |error: &Error| count_error(&counting, error);
    ServiceBuilder::new()
        .layer(RespondLayer::new(answers, connection, failures, count))
        .layer(ctx.observers.layer(Side::Outbound, client))
        .layer(InFlightLimitLayer::new(&ctx.in_flight))
        .layer(NormaliseLayer {
            version,
            claims: ClientClaims::Kept,
        })
        .service(routed)
}

/// Counts a request that the proxy answers itself.
pub fn count_error(ctx: &Context, error: &Error) {
    let reason = error.reason();
    match reason {
        Reason::Unexpected => tracing::warn!(%error, hint = reason.hint(), "request failed"),
        _ => {
            let (reason, hint) = (reason.label(), error.hint());
            tracing::debug!(reason, %error, hint, "request failed");
        }
    }
    let families = &ctx.families.outbound;
    // An answer on behalf of an endpoint is counted at the endpoint, as with the incumbent.
    if !reason.row().for_endpoint {
        let labels = Labels::new().with("error", reason.error_label());
        families.http_errors.get(labels).incr();
    }
}
