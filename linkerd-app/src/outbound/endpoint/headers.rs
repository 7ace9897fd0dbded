//! Header rules of the hop to an endpoint.

use crate::outbound::context::Context;
use http::{HeaderName, HeaderValue, Response, header::HOST, uri::Authority};
use linkerd_profiles::Endpoint;
use linkerd_proxy_core::{
    Error, Reason, Rejected,
    http::{
        HttpRequest, L5D_PROXY_CONNECTION, L5D_PROXY_ERROR, PeerFailure, ResponseBody, has_any,
        prepare_response,
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
}

/// See [`HeaderRulesLayer`].
#[derive(Clone, Debug)]
pub struct HeaderRules<S> {
    inner: S,
    authority_override: Option<Authority>,
    identity: Option<Identity>,
}

impl HeaderRulesLayer {
    pub(super) fn new(ctx: &Context, endpoint: &Endpoint) -> Self {
        let overrides = !ctx.is_local(endpoint);
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
        }
    }
}

pin_project! {
    /// The future of [`HeaderRules`].
    pub struct HeaderRulesFuture<F> {
        #[pin]
        inner: Option<F>,
        refused: Option<Error>,
        is_meshed: bool,
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
                && let Err(error) = scrub(response, *this.is_meshed)
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
                is_meshed: true,
                inner: None,
                refused: Some(Error::new(Reason::IdentityRequired).detail(detail)),
            };
        }
        if let Some(authority) = &self.authority_override {
            override_authority(&mut request, authority);
        }
        HeaderRulesFuture {
            is_meshed: self.identity.is_some(),
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

fn scrub(response: &mut Response<ResponseBody>, is_meshed: bool) -> Result<(), Error> {
    if response.version() != http::Version::HTTP_2 {
        prepare_response(response)?;
    }
    scrub_proxy_headers(response, is_meshed);
    Ok(())
}

/// Removes a peer proxy's headers about its own errors, which are not for the application. The failure that they name is kept
/// in the response's extensions if the peer is a proxy of the mesh.
fn scrub_proxy_headers(response: &mut Response<ResponseBody>, is_meshed: bool) {
    let headers = response.headers_mut();
    if !has_any(headers, &[L5D_PROXY_ERROR, L5D_PROXY_CONNECTION]) {
        return;
    }
    headers.remove(L5D_PROXY_CONNECTION);
    let text = headers.remove(L5D_PROXY_ERROR).filter(|_| is_meshed);
    if let Some(failure) = text.and_then(|text| PeerFailure::told(headers, text)) {
        response.extensions_mut().insert(failure);
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
        let (mut stage, mut below) = stage(None);
        let mut request = request("");
        let identity = HeaderValue::from_static("other.test");
        request.headers_mut().insert(L5D_REQUIRE_ID, identity);
        let rejected = stage.call(request).await.unwrap_err();
        assert_eq!(rejected.error.reason(), Reason::IdentityRequired);
        assert!(rejected.request.is_none(), "no other endpoint has it");
        let mut asked = tokio_test::task::spawn(below.next_request());
        assert!(asked.poll().is_pending());
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
                stage.identity = None;
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
