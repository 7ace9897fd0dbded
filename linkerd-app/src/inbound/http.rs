//! Stage 3: serving a peer's HTTP connection.
//!
//! - **Fails as** what the application fails as, `InvalidRequest`, `Unauthorized`, `InFlightLimit`, as a response without
//!   informational headers: those are for meshed peers.
//! - **Bounds**: requests in flight.
//! - **Metrics**: `inbound_http_errors_total`.

use super::{Context, Inbound, application::Application, tunnel};
use crate::metrics::target_labels;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Version,
    header::TRANSFER_ENCODING,
};
use hyper::body::Incoming;
use linkerd_proxy_core::{
    Error, Reason,
    http::{
        Connection, HttpRequest, RequestBody, RequestContext, Responder, ResponseBody, ServeError,
        Upgrade, Upload, decline_upgrade, has_any, host_from_target, prepare_request,
        prepare_response, serve_http1, serve_http2, to_origin_form,
    },
    metrics::Labels,
    transport::{ClientInfo, Io},
};
use std::{cell::RefCell, rc::Rc};

/// Serves one connection; its requests share it.
struct Served {
    ctx: Rc<Context>,
    connection: Rc<Connection>,
    version: Version,
    application: Rc<Application>,
    client: Rc<ClientInfo>,
    denied: RefCell<Option<Error>>,
}

/// Serves HTTP until the connection ends.
pub async fn serve(
    inbound: &Rc<Inbound>,
    io: Io,
    client: Rc<ClientInfo>,
    version: Version,
    application: Rc<Application>,
    authorized: Result<(), Error>,
) -> Result<(), ServeError> {
    let ctx = inbound.ctx.clone();
    let settings = ctx.server_settings();
    let drain = client.listener.drain().watch();
    let connection = Rc::new(Connection::default());
    let served = Rc::new(Served {
        ctx,
        connection: connection.clone(),
        version,
        application,
        client,
        denied: RefCell::new(authorized.err()),
    });
    let service = hyper::service::service_fn(move |request| served.clone().handle(request));
    match version {
        Version::HTTP_2 => serve_http2(io, service, &settings, connection, drain).await,
        _ => serve_http1(io, service, &settings, connection, drain).await,
    }
}

impl Served {
    async fn handle(
        self: Rc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<ResponseBody>, h2::Error> {
        let responder = Responder::new(&request, false);
        let busy = self.connection.busy();
        let mut response = match self.exchange(request).await {
            Ok(mut response) => {
                if self.version != Version::HTTP_2 {
                    // The version is that of this connection, whatever the application speaks.
                    *response.version_mut() = Version::HTTP_11;
                }
                response.body_mut().end_well(responder);
                response
            }
            Err(error) => {
                self.count(&error);
                if error.reason().is_fatal() {
                    self.connection.close();
                }
                responder.respond(&error)?
            }
        };
        response.body_mut().hold(Some(busy));
        Ok(response)
    }

    async fn exchange(
        &self,
        mut request: Request<Incoming>,
    ) -> Result<Response<ResponseBody>, Error> {
        if let Some(denied) = &*self.denied.borrow() {
            let error = Error::new(denied.reason()).detail(denied.to_string());
            return Err(error.context(format!("client {}", self.client.addr)));
        }
        let upgrade = self.prepare(&mut request)?;
        let _in_flight = self.ctx.in_flight.begin()?;
        let orig_proto = (self.version == Version::HTTP_2)
            .then(|| restore_version(&mut request))
            .flatten();
        let body = |body| {
            let upload = || Upload::new(Some(self.connection.busy()));
            RequestBody::new(body, upload).scrub_trailers(remove_claims)
        };
        let connects = request.method() == Method::CONNECT;
        let context = RequestContext::arriving(Some(self.client.clone()));
        let request = HttpRequest::new(request.map(body), context);
        let mut response = self.application.send(request).await?;
        if response.version() != Version::HTTP_2 {
            prepare_response(&mut response)?;
        }
        if orig_proto.is_some() {
            carry_version(&mut response);
        }
        if let Some(upgrade) = upgrade {
            let listener = &self.client.listener;
            match connects {
                true => tunnel::join(
                    &self.ctx,
                    &self.application,
                    listener,
                    upgrade,
                    &mut response,
                ),
                false => upgrade.join(&mut response, Some(listener.connection())),
            }
        }
        Ok(response)
    }

    /// Checks and cleans a request. Returns the client's side if it wants to upgrade.
    fn prepare(&self, request: &mut Request<Incoming>) -> Result<Option<Upgrade>, Error> {
        remove_claims(request.headers_mut());
        if prepare_request(request)? {
            return Ok(Upgrade::of(request));
        }
        decline_upgrade(request);
        Ok(None)
    }

    fn count(&self, error: &Error) {
        let reason = error.reason();
        tracing::debug!(reason = reason.label(), %error, hint = reason.hint(), "request failed");
        if reason == Reason::Unauthorized {
            return;
        }
        let labels = Labels::new().with("error", reason.error_label());
        let labels = target_labels(labels, self.application.connect().addr);
        self.ctx.families.inbound.http_errors.get(labels).incr();
    }
}

/// Removes what only proxies may say: who the client is, and what it asked for.
pub(super) fn remove_claims(headers: &mut HeaderMap) {
    if has_any(headers, &[L5D_CLIENT_ID, L5D_DST_CANONICAL]) {
        headers.remove(L5D_CLIENT_ID);
        headers.remove(L5D_DST_CANONICAL);
    }
}

/// Restores an HTTP/1 request that a peer proxy carried over HTTP/2.
fn restore_version(request: &mut Request<Incoming>) -> Option<()> {
    let value = request.headers_mut().remove(L5D_ORIG_PROTO)?;
    let value = value.to_str().unwrap_or_default();
    let version = match value {
        _ if value.starts_with("HTTP/1.1") => Version::HTTP_11,
        _ if value.starts_with("HTTP/1.0") => Version::HTTP_10,
        _ => {
            tracing::warn!(%value, "unknown original protocol");
            return None;
        }
    };
    // Host is made from the authority, whatever came beside it (RFC 9113, section 8.3.1).
    host_from_target(request);
    if !value.ends_with("; absolute-form") {
        to_origin_form(request.uri_mut());
    }
    *request.version_mut() = version;
    Some(())
}

/// Tells the peer proxy which version the application answered in.
fn carry_version<B>(response: &mut Response<B>) {
    let value = match response.version() {
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    };
    let headers = response.headers_mut();
    headers.insert(L5D_ORIG_PROTO, HeaderValue::from_static(value));
    headers.remove(TRANSFER_ENCODING);
    *response.version_mut() = Version::HTTP_2;
}

const L5D_CLIENT_ID: HeaderName = HeaderName::from_static("l5d-client-id");
const L5D_DST_CANONICAL: HeaderName = HeaderName::from_static("l5d-dst-canonical");
const L5D_ORIG_PROTO: HeaderName = HeaderName::from_static("l5d-orig-proto");
