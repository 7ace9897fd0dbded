//! Stage 3: serving an application's HTTP connection.
//!
//! - **Waits for** the control plane's first answer, when requests are routed by their authority.
//! - **Fails as** the stages below, turned into a response; `InvalidRequest`, `InvalidFraming`, `InFlightLimit`.
//! - **Bounds**: requests in flight.
//! - **Metrics**: `outbound_http_errors_total`, `outbound_http_failures_total`.

use super::{Outbound, explicit::ByAuthority, target::TargetStack};
use crate::server::{Answers, InFlightLimitLayer, NormaliseLayer, RespondLayer, serve};
use http::{Response, Version};
use linkerd_proxy_core::{
    Error,
    http::{Connection, HttpRequest, ResponseBody, ServeError},
    transport::{ClientInfo, Io},
};
use std::rc::Rc;
use tower::ServiceBuilder;
use tower_service::Service;

/// Serves a connection, all requests of which have one target. The caller keeps the target in use.
pub fn serve_target(
    outbound: &Rc<Outbound>,
    io: Io,
    client: Rc<ClientInfo>,
    version: Version,
    target: &TargetStack,
) -> impl Future<Output = Result<(), ServeError>> + use<> {
    let settings = outbound.ctx.server_settings();
    let drain = client.listener.drain().watch();
    let router = target.router(outbound, version);
    let connection = Rc::new(Connection::default());
    let stack = stack(outbound, &connection, version, false, router);
    serve(io, client, version, connection, stack, settings, drain)
}

/// Serves a connection to the explicit proxy: each request names its target.
pub fn serve_explicit(
    outbound: &Rc<Outbound>,
    io: Io,
    client: Rc<ClientInfo>,
    version: Version,
) -> impl Future<Output = Result<(), ServeError>> + use<> {
    let settings = outbound.ctx.server_settings();
    let drain = client.listener.drain().watch();
    let by_authority = ByAuthority::new(outbound, client.clone(), version);
    let connection = Rc::new(Connection::default());
    let stack = stack(outbound, &connection, version, true, by_authority);
    serve(io, client, version, connection, stack, settings, drain)
}

/// The server's layers around what routes requests.
fn stack<S>(
    outbound: &Rc<Outbound>,
    connection: &Rc<Connection>,
    version: Version,
    explicit: bool,
    routed: S,
) -> impl Service<HttpRequest, Response = Response<ResponseBody>, Error = h2::Error, Future: 'static>
+ use<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error, Future: 'static>,
{
    let answers = Answers {
        version,
        emit_headers: outbound.ctx.config.outbound.emit_headers,
        explicit,
    };
    let counting = outbound.clone();
    let count = move |error: &Error| counting.count_http_error(error);
    ServiceBuilder::new()
        .layer(RespondLayer::new(answers, connection, count))
        .layer(InFlightLimitLayer::new(&outbound.ctx.in_flight))
        .layer(NormaliseLayer {
            version,
            removes_claims: false,
        })
        .service(routed)
}
