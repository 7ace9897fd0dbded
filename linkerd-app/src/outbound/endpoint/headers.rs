//! Header rules of the hop to an endpoint.

use crate::outbound::context::Context;
use http::{HeaderName, HeaderValue, Response, header::HOST, uri::Authority};
use linkerd_profiles::Endpoint;
use linkerd_proxy_core::{
    Error, Reason, Rejected,
    http::{
        CloseClient, HttpRequest, L5D_PROXY_CONNECTION, L5D_PROXY_ERROR, PeerFailure, ResponseBody,
        has_any, prepare_response,
    },
    tls::Identity,
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context as TaskContext, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Overrides the authority, refuses a request that requires another identity, and removes proxy headers from responses.
#[derive(Clone, Debug)]
pub struct HeaderRulesLayer {
    authority_override: Option<Authority>,
    identity: Option<Identity>,
    peer: Peer,
}

/// The proxy at the other end of the hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    /// No proxy of the mesh: its headers are removed, and mean nothing.
    Foreign,
    /// The proxy of one of a balancer's endpoints.
    Balanced,
    /// The proxy of the only endpoint of a backend. The client's connection has no other endpoint, and ends when the peer asks
    /// for it.
    Forwarded,
}

/// See [`HeaderRulesLayer`].
#[derive(Clone, Debug)]
pub struct HeaderRules<S> {
    inner: S,
    authority_override: Option<Authority>,
    identity: Option<Identity>,
    peer: Peer,
}

impl HeaderRulesLayer {
    /// The rules for an endpoint of a balancer, or for one that `is_forwarded` to.
    pub(super) fn new(ctx: &Context, endpoint: &Endpoint, is_forwarded: bool) -> Self {
        let overrides = !ctx.is_local(endpoint);
        let peer = match ctx.is_meshed(endpoint) {
            false => Peer::Foreign,
            true if is_forwarded => Peer::Forwarded,
            true => Peer::Balanced,
        };
        Self {
            authority_override: endpoint
                .authority_override
                .as_deref()
                .filter(|_| overrides)
                .cloned(),
            identity: endpoint
                .tls
                .as_deref()
                .filter(|_| ctx.is_meshed(endpoint))
                .map(|tls| tls.identity.clone()),
            peer,
        }
    }
}

impl<S> Layer<S> for HeaderRulesLayer {
    type Service = HeaderRules<S>;

    fn layer(&self, inner: S) -> Self::Service {
        HeaderRules {
            inner,
            authority_override: self.authority_override.clone(),
            identity: self.identity.clone(),
            peer: self.peer,
        }
    }
}

pin_project! {
    /// The future of [`HeaderRules`].
    pub struct HeaderRulesFuture<F> {
        #[pin]
        inner: Option<F>,
        refused: Option<Error>,
        peer: Peer,
    }
}

impl<F> Future for HeaderRulesFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Rejected<HttpRequest>>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(inner) = this.inner.as_pin_mut() {
            let mut polled = inner.poll(cx);
            if let Poll::Ready(Ok(response)) = &mut polled
                && let Err(error) = scrub(response, *this.peer)
            {
                return Poll::Ready(Err(Rejected::lost(error)));
            }
            return polled;
        }
        let error = this.refused.take().expect("a refusal is told once");
        Poll::Ready(Err(Rejected::lost(error)))
    }
}

impl<S> Service<HttpRequest> for HeaderRules<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Rejected<HttpRequest>>,
{
    type Response = Response<ResponseBody>;
    type Error = S::Error;
    type Future = HeaderRulesFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        if let Some(identity) = &self.identity {
            request.context().of_endpoint(identity);
        }
        if has_any(request.headers(), &[L5D_REQUIRE_ID])
            && let Some(required) = request.headers_mut().remove(L5D_REQUIRE_ID)
            && !is_of(&required, self.identity.as_ref())
        {
            let found = self.identity.as_ref().map_or("none", Identity::as_str);
            let required = String::from_utf8_lossy(required.as_bytes());
            let detail = format!("required id {required}; found {found}");
            return HeaderRulesFuture {
                peer: self.peer,
                inner: None,
                refused: Some(Error::new(Reason::IdentityRequired).detail(detail)),
            };
        }
        if let Some(authority) = &self.authority_override {
            override_authority(&mut request, authority);
        }
        HeaderRulesFuture {
            peer: self.peer,
            inner: Some(self.inner.call(request)),
            refused: None,
        }
    }
}

/// Whether a header requires this identity.
fn is_of(required: &HeaderValue, identity: Option<&Identity>) -> bool {
    let required = required.to_str().ok().and_then(|id| id.parse().ok());
    required.is_some() && required.as_ref() == identity
}

fn override_authority(request: &mut HttpRequest, authority: &Authority) {
    let headers = request.headers_mut();
    headers.remove(HOST);
    headers.remove(L5D_DST_CANONICAL);
    if request.version() != http::Version::HTTP_2 && request.uri().authority().is_none() {
        // An HTTP/1 request in origin form carries its authority in Host only.
        if let Ok(host) = authority.as_str().parse() {
            request.headers_mut().insert(HOST, host);
        }
        return;
    }
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme.get_or_insert(http::uri::Scheme::HTTP);
    parts.authority = Some(authority.clone());
    parts
        .path_and_query
        .get_or_insert(http::uri::PathAndQuery::from_static("/"));
    *request.uri_mut() =
        http::Uri::from_parts(parts).expect("scheme, authority and path are all there");
}

fn scrub(response: &mut Response<ResponseBody>, peer: Peer) -> Result<(), Error> {
    if response.version() != http::Version::HTTP_2 {
        prepare_response(response)?;
    }
    scrub_proxy_headers(response, peer);
    Ok(())
}

/// Removes a peer proxy's headers about its own errors, which are not for the application. The failure that they name is kept
/// in the response's extensions if the peer is a proxy of the mesh.
fn scrub_proxy_headers(response: &mut Response<ResponseBody>, peer: Peer) {
    let headers = response.headers_mut();
    if !has_any(headers, &[L5D_PROXY_ERROR, L5D_PROXY_CONNECTION]) {
        return;
    }
    let connection = headers.remove(L5D_PROXY_CONNECTION);
    let closes = connection.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"));
    let text = headers.remove(L5D_PROXY_ERROR);
    let text = text.filter(|_| peer != Peer::Foreign);
    if let Some(failure) = text.and_then(|text| PeerFailure::told(headers, text)) {
        response.extensions_mut().insert(failure);
    }
    if closes && peer == Peer::Forwarded {
        response.extensions_mut().insert(CloseClient);
    }
}

const L5D_REQUIRE_ID: HeaderName = HeaderName::from_static("l5d-require-id");
const L5D_DST_CANONICAL: HeaderName = HeaderName::from_static("l5d-dst-canonical");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BelowStage, MockStage, assert_readiness_passes, request, response};
    use http::Version;
    use linkerd_proxy_core::http::PeerAnswer;

    type Stage = MockStage<HttpRequest, Response<ResponseBody>, Rejected<HttpRequest>>;
    type Below = BelowStage<HttpRequest, Response<ResponseBody>, Rejected<HttpRequest>>;

    fn stage(authority: Option<&'static str>) -> (HeaderRules<Stage>, Below) {
        let layer = HeaderRulesLayer {
            authority_override: authority.map(Authority::from_static),
            identity: Some("web.test".parse().unwrap()),
            peer: Peer::Balanced,
        };
        let (mock, below) = Stage::new();
        (layer.layer(mock), below)
    }

    /// The request that the endpoint gets.
    async fn sent(authority: Option<&'static str>, request: HttpRequest) -> HttpRequest {
        let (mut stage, mut below) = stage(authority);
        let _response = stage.call(request);
        below.next_request().await.unwrap().0
    }

    #[tokio::test]
    async fn an_authority_override_replaces_the_host_and_the_logical_name() {
        let canonical = HeaderValue::from_static("web.test:80");
        let mut http1 = request("");
        http1.headers_mut().insert(L5D_DST_CANONICAL, canonical);
        let http1 = sent(Some("other.example:81"), http1).await;
        assert_eq!(http1.headers()[HOST], "other.example:81");
        assert_eq!(http1.headers().get(L5D_DST_CANONICAL), None);
        assert_eq!(http1.uri(), "/");

        let mut http2 = request("");
        *http2.version_mut() = Version::HTTP_2;
        let http2 = sent(Some("other.example:81"), http2).await;
        assert_eq!(http2.headers().get(HOST), None);
        assert_eq!(http2.uri(), "http://other.example:81/");
    }

    #[tokio::test]
    async fn without_an_override_the_request_stays_as_it_is() {
        let request = sent(None, request("")).await;
        assert_eq!(request.headers()[HOST], "test.example");
    }

    #[tokio::test]
    async fn the_identity_of_the_endpoint_may_be_required() {
        let mut required = request("");
        let identity = HeaderValue::from_static("Web.Test");
        required.headers_mut().insert(L5D_REQUIRE_ID, identity);
        let request = sent(None, required).await;
        assert_eq!(request.headers().get(L5D_REQUIRE_ID), None);
    }

    #[tokio::test]
    async fn an_identity_that_the_endpoint_does_not_have_is_refused() {
        // No endpoint has an identity that cannot be parsed; passed on, the request would go to any.
        for required in ["other.test", "@@ @@", ""] {
            let (mut stage, mut below) = stage(None);
            let mut request = request("");
            let identity = HeaderValue::from_static(required);
            request.headers_mut().insert(L5D_REQUIRE_ID, identity);
            let rejected = stage.call(request).await.unwrap_err();
            assert_eq!(rejected.error.reason(), Reason::IdentityRequired);
            assert!(rejected.request.is_none(), "no other endpoint has it");
            let mut asked = tokio_test::task::spawn(below.next_request());
            assert!(asked.poll().is_pending());
        }
    }

    #[tokio::test]
    async fn the_proxy_of_a_forwarded_endpoint_may_end_the_connection_of_the_client() {
        for (peer, value, closes) in [
            (Peer::Forwarded, "close", true),
            (Peer::Forwarded, "keep", false),
            (Peer::Balanced, "close", false),
            (Peer::Foreign, "close", false),
        ] {
            let (mut stage, mut below) = stage(None);
            stage.peer = peer;
            let answered = stage.call(request(""));
            let (_, respond) = below.next_request().await.unwrap();
            let mut response = response("");
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(L5D_PROXY_CONNECTION, value);
            respond.send_response(Ok(response));
            let answer = answered.await.unwrap();
            let is_marked = answer.extensions().get::<CloseClient>().is_some();
            assert_eq!(is_marked, closes, "{peer:?}");
        }
    }

    #[tokio::test]
    async fn proxy_headers_of_a_peer_are_removed_from_its_response() {
        let (mut stage, mut below) = stage(None);
        let answered = stage.call(request(""));
        let (_, respond) = below.next_request().await.unwrap();
        let mut response = response("");
        for name in [L5D_PROXY_ERROR, L5D_PROXY_CONNECTION] {
            let value = HeaderValue::from_static("close");
            response.headers_mut().insert(name, value);
        }
        respond.send_response(Ok(response));
        assert!(answered.await.unwrap().headers().is_empty());
    }

    #[tokio::test]
    async fn only_a_proxy_of_the_mesh_tells_why_it_failed() {
        for (is_meshed, is_its_own, side) in [
            (true, true, "inbound"),
            (true, false, "inbound"),
            (false, true, "inbound"),
            // From an outbound proxy to its own application, which passes it on.
            (true, true, "outbound"),
        ] {
            let (mut stage, mut below) = stage(None);
            if !is_meshed {
                stage.peer = Peer::Foreign;
            }
            let answered = stage.call(request(""));
            let (_, respond) = below.next_request().await.unwrap();
            let mut response = response("");
            let headers = response.headers_mut();
            let error = "error=connection_refused; details=\"connect_refused\"";
            let status = format!("linkerd-proxy; {error}; side={side}; origin=endpoint");
            headers.insert("proxy-status", status.parse().unwrap());
            let name = match is_its_own {
                true => L5D_PROXY_ERROR,
                false => L5D_PROXY_CONNECTION,
            };
            headers.insert(name, HeaderValue::from_static("close"));
            respond.send_response(Ok(response));
            let answer = answered.await.unwrap();
            let reason = answer.peer_failure().map(PeerFailure::reason);
            let is_told = is_meshed && is_its_own && side == "inbound";
            let expected = is_told.then_some(Reason::ConnectRefused);
            assert_eq!(reason, expected);
        }
    }

    #[tokio::test]
    async fn a_rejected_request_comes_back() {
        let (mut stage, mut below) = stage(None);
        let answered = stage.call(request(""));
        let (request, respond) = below.next_request().await.unwrap();
        respond.send_response(Err(Rejected::returned(Reason::ConnectRefused, request)));
        assert!(answered.await.unwrap_err().request.is_some());
    }

    #[tokio::test]
    async fn is_ready_when_the_stage_below_is() {
        let (stage, mut below) = stage(None);
        assert_readiness_passes(stage, &mut below);
    }
}
