//! Protocols of an endpoint: that of the application, or HTTP/1 carried over HTTP/2 between proxies.

use super::protocol::{http2_settings, upgrades_http1};
use crate::outbound::{context::Context, lazy::EndpointTarget, stack_counts::CountedStack};
use futures::{FutureExt, TryFutureExt, future::LocalBoxFuture};
use http::{HeaderName, HeaderValue, Response, Version, header::TRANSFER_ENCODING, uri::Authority};
use linkerd_proxy_core::{
    EndpointStatus, Error, Reason, Rejected,
    endpoint::Capacity,
    http::{
        HttpRequest, RequestBody, ResponseBody, Upgrade,
        client::{Http1Client, Http2Client},
        for_http2, to_absolute_form, wants_upgrade,
    },
    tls::SessionProtocol,
    transport::Connect,
};
use std::{
    future::ready,
    rc::Rc,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};
use tower_service::Service;

/// Sends requests to one endpoint in the protocol that it speaks.
#[derive(Clone)]
pub struct Client {
    kind: Kind,
    ctx: Rc<Context>,
    _counted: Rc<CountedStack>,
}

#[derive(Clone)]
enum Kind {
    Http1(Http1Client<Connect, RequestBody>),
    Http2(Http2Client<Connect, RequestBody>),
    /// HTTP/1 over HTTP/2. Upgrades, such as WebSocket, use a separate HTTP/1 connection.
    Upgraded {
        http2: Http2Client<Connect, RequestBody>,
        http1: Http1Client<Connect, RequestBody>,
        default_authority: Authority,
    },
}

type SendFuture = LocalBoxFuture<'static, Result<Response<ResponseBody>, Rejected<HttpRequest>>>;

impl Client {
    /// A client of the target's endpoint; it writes the endpoint's status.
    pub(super) fn new(
        ctx: &Rc<Context>,
        target: EndpointTarget,
        version: Version,
        authority: Option<&Arc<str>>,
        counted: CountedStack,
    ) -> Self {
        let outbound = &ctx.config.outbound;
        let EndpointTarget { endpoint, status } = target;
        let connect = |protocol| ctx.connect(&endpoint, authority, Some(protocol));
        let backoff = outbound.connect.backoff;
        let http1 = |status| {
            let connect = connect(SessionProtocol::Http1);
            Http1Client::new(connect, &ctx.http1, backoff, status)
        };
        let http2 = |status| {
            Http2Client::new(
                connect(SessionProtocol::Http2),
                http2_settings(&outbound.http2_client, &endpoint),
                outbound.http2_max_connections,
                backoff,
                status,
            )
        };
        let kind = match version {
            Version::HTTP_2 => Kind::Http2(http2(status)),
            _ if upgrades_http1(ctx, &endpoint) => Kind::Upgraded {
                http2: http2(status),
                // The balancer reads the status of the HTTP/2 client.
                http1: http1(EndpointStatus::new(Capacity::OnDemand)),
                default_authority: Authority::try_from(endpoint.addr.to_string())
                    .expect("a socket address is an authority"),
            },
            _ => Kind::Http1(http1(status)),
        };
        Self {
            kind,
            ctx: ctx.clone(),
            _counted: Rc::new(counted),
        }
    }

    pub(super) fn speaks_http2(&self) -> bool {
        !matches!(self.kind, Kind::Http1(_))
    }

    fn send(&mut self, mut request: HttpRequest) -> SendFuture {
        match &mut self.kind {
            Kind::Http2(client) => {
                for_http2(&mut request);
                client.call(request)
            }
            Kind::Http1(client) => send_http1(client, &self.ctx, request),
            Kind::Upgraded { http1, .. } if wants_upgrade(&request) => {
                // The HTTP/1 client may have to wait until its endpoint is up again. If that takes too long, an attempt gives the
                // error.
                let (mut client, ctx) = (http1.clone(), self.ctx.clone());
                async move {
                    let patience = ctx.config.outbound.http_queue.failfast;
                    let _ = tokio::time::timeout(patience, client.status().up()).await;
                    send_http1(&mut client, &ctx, request).await
                }
                .boxed_local()
            }
            Kind::Upgraded {
                http2,
                default_authority,
                ..
            } => {
                let version = request.version();
                orig_proto_request(&mut request, default_authority);
                let response = http2.call(request);
                response
                    .map_ok(move |mut response| {
                        orig_proto_response(&mut response, version);
                        response
                    })
                    .map_err(not_a_reset)
                    .boxed_local()
            }
        }
    }
}

impl Service<HttpRequest> for Client {
    type Response = Response<ResponseBody>;
    type Error = Rejected<HttpRequest>;
    type Future = SendFuture;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), Self::Error>> {
        match &mut self.kind {
            Kind::Http1(client) => client.poll_ready(cx),
            Kind::Http2(client) | Kind::Upgraded { http2: client, .. } => client.poll_ready(cx),
        }
    }

    fn call(&mut self, request: HttpRequest) -> SendFuture {
        let sent = self.send(request);
        self.ctx.client_bytes.set(size_of_val(&*sent));
        sent
    }
}

/// Sends a request over HTTP/1; an upgraded connection is joined with the application's.
fn send_http1(
    client: &mut Http1Client<Connect, RequestBody>,
    ctx: &Context,
    request: HttpRequest,
) -> SendFuture {
    let Some(upgrade) = Upgrade::of(&request) else {
        return client.call(request);
    };
    let connected = request.context().client.as_ref();
    let guard = connected.map(|connected| connected.listener.connection());
    let pipes = ctx.pipes.clone();
    let response = client.call(request);
    response
        .and_then(move |mut response| {
            let joined = upgrade.join(&mut response, &pipes, guard, std::future::pending());
            ready(joined.map(|()| response).map_err(Rejected::lost))
        })
        .boxed_local()
}

/// Converts an HTTP/1 request into an HTTP/2 request from which the peer proxy restores it.
fn orig_proto_request(request: &mut HttpRequest, default_authority: &Authority) {
    let absolute = request.uri().scheme().is_some();
    let value = match (request.version(), absolute) {
        (Version::HTTP_10, false) => "HTTP/1.0",
        (Version::HTTP_10, true) => "HTTP/1.0; absolute-form",
        (_, false) => "HTTP/1.1",
        (_, true) => "HTTP/1.1; absolute-form",
    };
    let headers = request.headers_mut();
    headers.insert(L5D_ORIG_PROTO, HeaderValue::from_static(value));
    headers.remove(TRANSFER_ENCODING);
    to_absolute_form(request, default_authority);
    *request.version_mut() = Version::HTTP_2;
}

/// Restores the version that the application behind the peer proxy spoke.
fn orig_proto_response(response: &mut Response<ResponseBody>, requested: Version) {
    let version = match response.headers_mut().remove(L5D_ORIG_PROTO) {
        Some(value) if value == "HTTP/1.0" => Version::HTTP_10,
        Some(value) if value == "HTTP/1.1" => Version::HTTP_11,
        _ => requested,
    };
    *response.version_mut() = version;
}

/// Replaces a stream reset, which HTTP/1 cannot express, by an error that is answered.
fn not_a_reset(mut rejected: Rejected<HttpRequest>) -> Rejected<HttpRequest> {
    if let Some(code) = rejected.error.reset_code()
        && rejected.error.reason() == Reason::StreamReset
    {
        let detail = format!("upgraded connection failed with HTTP/2 reset: {code:?}");
        rejected.error = Error::new(Reason::UpgradedReset).detail(detail);
    }
    rejected
}

const L5D_ORIG_PROTO: HeaderName = HeaderName::from_static("l5d-orig-proto");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{request, response};

    const DEFAULT: Authority = Authority::from_static("10.0.0.1:80");

    fn carried(version: Version, uri: &str) -> HttpRequest {
        let mut request = request("");
        *request.version_mut() = version;
        *request.uri_mut() = uri.parse().unwrap();
        let chunked = HeaderValue::from_static("chunked");
        request.headers_mut().insert(TRANSFER_ENCODING, chunked);
        orig_proto_request(&mut request, &DEFAULT);
        request
    }

    #[test]
    fn http1_is_carried_with_its_version_and_form() {
        for (version, uri, carried_as) in [
            (Version::HTTP_10, "/", "HTTP/1.0"),
            (Version::HTTP_11, "/", "HTTP/1.1"),
            (
                Version::HTTP_11,
                "http://a.example/",
                "HTTP/1.1; absolute-form",
            ),
            (
                Version::HTTP_10,
                "http://a.example/",
                "HTTP/1.0; absolute-form",
            ),
        ] {
            let request = carried(version, uri);
            assert_eq!(request.version(), Version::HTTP_2);
            assert_eq!(request.headers()[L5D_ORIG_PROTO], carried_as);
            assert_eq!(request.headers().get(TRANSFER_ENCODING), None);
            assert!(request.uri().authority().is_some());
        }
    }

    #[test]
    fn a_response_has_the_version_that_the_application_spoke() {
        let restored = |said: Option<&'static str>| {
            let mut response = response("");
            *response.version_mut() = Version::HTTP_2;
            if let Some(said) = said {
                let said = HeaderValue::from_static(said);
                response.headers_mut().insert(L5D_ORIG_PROTO, said);
            }
            orig_proto_response(&mut response, Version::HTTP_11);
            assert!(response.headers().is_empty());
            response.version()
        };
        assert_eq!(restored(Some("HTTP/1.0")), Version::HTTP_10);
        assert_eq!(restored(Some("HTTP/1.1")), Version::HTTP_11);
        assert_eq!(restored(Some("HTTP/3")), Version::HTTP_11);
        assert_eq!(restored(None), Version::HTTP_11);
    }

    #[test]
    fn a_reset_of_what_carries_http1_is_an_answer() {
        let reset = Error::new(Reason::StreamReset).reset(h2::Reason::CANCEL);
        let error = not_a_reset(Rejected::lost(reset)).error;
        assert_eq!(error.reason(), Reason::UpgradedReset);
        assert_eq!(error.reset_code(), None);
        let other = not_a_reset(Rejected::lost(Reason::ConnectionLost)).error;
        assert_eq!(other.reason(), Reason::ConnectionLost);
    }
}
