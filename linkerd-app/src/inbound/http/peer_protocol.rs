//! HTTP/1 requests that a peer proxy has carried over HTTP/2.

use http::{
    HeaderMap, HeaderName, HeaderValue, Response, Version,
    header::{CONTENT_LENGTH, COOKIE, TRANSFER_ENCODING},
};
use http_body::Body;
use linkerd_proxy_core::{
    Error,
    http::{
        HttpRequest, L5D_PROXY_CONNECTION, L5D_PROXY_ERROR, ResponseBody, add_host, has_any,
        host_from_target, prepare_response, remove_proxy_status, to_origin_form,
    },
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Restores HTTP/1 requests from HTTP/2 (`l5d-orig-proto`), and carries their responses back, without headers that only proxies
/// may set.
///
/// - **Fails as** `InvalidResponse`.
#[derive(Clone, Copy, Debug)]
pub struct PeerProtocolLayer {
    /// The version of the connection.
    pub version: Version,
    /// Whether the client is a proxy of the mesh. Others do not learn which pods a failed request was meant for.
    pub is_peer: bool,
}

/// See [`PeerProtocolLayer`].
#[derive(Clone, Debug)]
pub struct PeerProtocol<S> {
    inner: S,
    params: PeerProtocolLayer,
}

impl<S> Layer<S> for PeerProtocolLayer {
    type Service = PeerProtocol<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let params = *self;
        PeerProtocol { inner, params }
    }
}

impl<S> Service<HttpRequest> for PeerProtocol<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error>,
{
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = PeerProtocolFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        let is_carried = self.params.version == Version::HTTP_2 && restore_version(&mut request);
        PeerProtocolFuture {
            inner: self.inner.call(request),
            is_carried,
            is_peer: self.params.is_peer,
        }
    }
}

pin_project! {
    /// The future of [`PeerProtocol`].
    pub struct PeerProtocolFuture<F> {
        #[pin]
        inner: F,
        is_carried: bool,
        is_peer: bool,
    }
}

impl<F> Future for PeerProtocolFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Error>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut polled = this.inner.poll(cx);
        if let Poll::Ready(Ok(response)) = &mut polled {
            if response.version() != Version::HTTP_2
                && let Err(error) = prepare_response(response)
            {
                return Poll::Ready(Err(error));
            }
            remove_proxy_headers(response.headers_mut());
            if !*this.is_peer {
                remove_proxy_status(response.headers_mut());
            }
            if *this.is_carried {
                carry_version(response);
            }
        }
        polled
    }
}

/// Restores an HTTP/1 request that a peer proxy carried over HTTP/2. `false` if it was not carried.
fn restore_version(request: &mut HttpRequest) -> bool {
    let Some(value) = request.headers_mut().remove(L5D_ORIG_PROTO) else {
        return false;
    };
    let value = value.to_str().unwrap_or_default();
    let version = match value {
        _ if value.starts_with("HTTP/1.1") => Version::HTTP_11,
        _ if value.starts_with("HTTP/1.0") => Version::HTTP_10,
        _ => {
            // No warning: any client can send it.
            tracing::debug!(%value, "unknown original protocol");
            return false;
        }
    };
    if value.ends_with("; absolute-form") {
        // As over HTTP/1: the target counts, whatever Host is beside it (RFC 9112, section 3.2.2).
        add_host(request);
    } else {
        // Host is made from the authority, whatever came beside it (RFC 9113, section 8.3.1).
        host_from_target(request);
        to_origin_form(request.uri_mut());
    }
    *request.version_mut() = version;
    let body_has_ended = request.body().is_end_stream();
    let headers = request.headers_mut();
    join_cookies(headers);
    if !body_has_ended && !headers.contains_key(CONTENT_LENGTH) {
        // The peer has removed the field, and without it an HTTP/1 request has no body.
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        *request.version_mut() = Version::HTTP_11;
    }
    true
}

/// Joins the fields into which HTTP/2 may split cookies (RFC 9113, section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let cookies: Vec<_> = headers.get_all(COOKIE).iter().collect();
    let cookies = cookies.iter().map(|cookie| cookie.as_bytes());
    let joined = cookies.collect::<Vec<_>>().join(&b"; "[..]);
    if let Ok(joined) = HeaderValue::from_bytes(&joined) {
        headers.insert(COOKIE, joined);
    }
}

/// Removes headers that only a proxy may set. A reverse proxy behind this proxy may pass on the headers of its own sidecar, and
/// the client's proxy would take them for this proxy's: it sends a request again that was not processed.
fn remove_proxy_headers(headers: &mut HeaderMap) {
    let names = [L5D_PROXY_ERROR, L5D_PROXY_CONNECTION, L5D_ORIG_PROTO];
    if has_any(headers, &names) {
        for name in names {
            headers.remove(name);
        }
    }
}

/// Names the version of the application's answer to the peer proxy.
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

const L5D_ORIG_PROTO: HeaderName = HeaderName::from_static("l5d-orig-proto");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BelowStage, MockStage, assert_readiness_passes, request, response};
    use http::{
        Request,
        header::{CONTENT_LENGTH, HOST},
        request::Builder,
    };
    use linkerd_proxy_core::{
        Reason,
        http::{RequestBody, RequestContext},
    };
    use std::{cell::RefCell, rc::Rc};
    use tower::service_fn;

    #[tokio::test]
    async fn a_host_beside_an_absolute_target_is_not_touched_and_beside_another_it_is_the_targets()
    {
        for (orig_proto, host) in [("HTTP/1.1; absolute-form", "other"), ("HTTP/1.1", "web:80")] {
            let request = Request::get("http://web:80/a").header(HOST, "other");
            let (seen, _) = exchanged(request.header(L5D_ORIG_PROTO, orig_proto)).await;
            assert_eq!(seen.headers()[HOST], host, "{orig_proto}");
        }
    }

    /// The request that the application gets, and the response that the peer gets.
    async fn exchange(orig_proto: &str) -> (Request<()>, Response<ResponseBody>) {
        let request = Request::get("http://web:80/a").header(L5D_ORIG_PROTO, orig_proto);
        exchanged(request).await
    }

    async fn exchanged(request: Builder) -> (Request<()>, Response<ResponseBody>) {
        exchanged_with(request, RequestBody::empty()).await
    }

    async fn exchanged_with(
        request: Builder,
        body: RequestBody,
    ) -> (Request<()>, Response<ResponseBody>) {
        let seen = Rc::new(RefCell::new(None));
        let noted = seen.clone();
        let application = service_fn(move |request: HttpRequest| {
            let (request, _) = request.into_parts();
            *noted.borrow_mut() = Some(request.map(drop));
            let mut response = Response::new(ResponseBody::empty());
            *response.version_mut() = Version::HTTP_11;
            std::future::ready(Ok::<_, Error>(response))
        });
        let request = request.version(Version::HTTP_2).body(body);
        let request = HttpRequest::new(request.unwrap(), RequestContext::arriving(None));
        let layer = PeerProtocolLayer {
            version: Version::HTTP_2,
            is_peer: true,
        };
        let response = layer.layer(application).call(request).await.unwrap();
        (seen.take().unwrap(), response)
    }

    #[tokio::test]
    async fn http1_is_restored_and_its_answer_carried_back() {
        let (request, response) = exchange("HTTP/1.1").await;
        assert_eq!(request.version(), Version::HTTP_11);
        assert_eq!(
            (request.uri().to_string(), &request.headers()[HOST]),
            ("/a".into(), &"web:80".parse::<HeaderValue>().unwrap())
        );
        assert_eq!(response.version(), Version::HTTP_2);
        assert_eq!(response.headers()[L5D_ORIG_PROTO], "HTTP/1.1");
        let (request, _) = exchange("HTTP/1.1; absolute-form").await;
        assert_eq!(request.uri(), "http://web:80/a");
    }

    #[tokio::test]
    async fn a_body_of_unknown_length_and_divided_cookies_are_restored() {
        for (orig_proto, length, chunked) in [
            ("HTTP/1.1", None, true),
            ("HTTP/1.0", None, true),
            ("HTTP/1.1", Some("5"), false),
        ] {
            let request = Request::get("http://web/").header(L5D_ORIG_PROTO, orig_proto);
            let mut request = request.header(COOKIE, "a=1").header(COOKIE, "b=2");
            if let Some(length) = length {
                request = request.header(CONTENT_LENGTH, length);
            }
            let (seen, _) = exchanged_with(request, RequestBody::full("hello")).await;
            let headers = seen.headers();
            assert_eq!(headers.contains_key(TRANSFER_ENCODING), chunked);
            assert_eq!(seen.version(), Version::HTTP_11);
            let cookies: Vec<_> = headers.get_all(COOKIE).iter().collect();
            assert_eq!(cookies, ["a=1; b=2"]);
        }
        let (seen, _) = exchange("HTTP/1.1").await;
        assert!(!seen.headers().contains_key(TRANSFER_ENCODING));
    }

    #[tokio::test]
    async fn an_unknown_protocol_stays_http2() {
        let (request, response) = exchange("HTTP/9").await;
        assert_eq!(request.version(), Version::HTTP_2);
        assert!(!response.headers().contains_key(L5D_ORIG_PROTO));
    }

    type Stage = MockStage<HttpRequest, Response<ResponseBody>, Error>;
    type Below = BelowStage<HttpRequest, Response<ResponseBody>, Error>;

    fn stage() -> (PeerProtocol<Stage>, Below) {
        stage_for(true)
    }

    fn stage_for(is_peer: bool) -> (PeerProtocol<Stage>, Below) {
        let (mock, below) = Stage::new();
        let layer = PeerProtocolLayer {
            version: Version::HTTP_2,
            is_peer,
        };
        (layer.layer(mock), below)
    }

    #[tokio::test]
    async fn a_client_outside_of_the_mesh_learns_no_pods() {
        for is_peer in [true, false] {
            let (mut stage, mut below) = stage_for(is_peer);
            let answer = stage.call(request(""));
            let (_, respond) = below.next_request().await.unwrap();
            let mut failed = response("");
            let status = HeaderValue::from_static("linkerd-proxy; error=http_response_timeout");
            failed.headers_mut().insert("proxy-status", status);
            respond.send_response(Ok(failed));
            let answer = answer.await.unwrap();
            assert_eq!(answer.headers().contains_key("proxy-status"), is_peer);
        }
    }

    #[tokio::test]
    async fn errors_of_the_application_are_passed_on_and_its_invalid_responses_refused() {
        let (mut stage, mut below) = stage();
        let answer = stage.call(request(""));
        let (_, respond) = below.next_request().await.unwrap();
        respond.send_response(Err(Reason::ConnectRefused.into()));
        let error = answer.await.unwrap_err();
        assert_eq!(error.reason(), Reason::ConnectRefused);

        let answer = stage.call(request(""));
        let (_, respond) = below.next_request().await.unwrap();
        let mut invalid = response("");
        for length in ["1", "2"] {
            let length = HeaderValue::from_static(length);
            invalid.headers_mut().append(CONTENT_LENGTH, length);
        }
        respond.send_response(Ok(invalid));
        let error = answer.await.map(drop).unwrap_err();
        assert_eq!(error.reason(), Reason::InvalidResponse);
    }

    #[tokio::test]
    async fn is_ready_when_the_stage_below_is() {
        let (stage, mut below) = stage();
        assert_readiness_passes(stage, &mut below);
    }
}
