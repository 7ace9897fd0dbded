//! Returns a request to the balancer when its connection, or the peer proxy's to its application, failed before a response.

use super::{HttpRequest, PeerAnswer, RequestCopy};
use crate::{Error, Rejected, reason::Retry};
use http::Method;
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Keeps a copy of a request, and returns it when the endpoint did not answer.
///
/// - **Sits** above an endpoint's client, below the balancer, which sends a returned request elsewhere.
/// - **Returns** a request that was provably not processed and, once only, a request that is idempotent (RFC 9110, section
///   9.2.2).
/// - **Bounds**: body bytes kept; returns of one request.
#[derive(Clone, Copy, Debug)]
pub struct ReplayLayer {
    /// The most body bytes kept.
    pub max_bytes: usize,
    /// Whether the endpoint can report that it did not process a request, as HTTP/2 and peer proxies do. Then every request is
    /// kept.
    pub refusals: bool,
}

/// See [`ReplayLayer`].
#[derive(Clone, Debug)]
pub struct ReplayService<S> {
    inner: S,
    params: ReplayLayer,
}

/// Most returns of a request that may have been processed.
const MAX_LOST: u8 = 1;

/// Most returns of a request that endpoints keep refusing, which is not passed around for long.
const MAX_REFUSED: u8 = 3;

impl<S> Layer<S> for ReplayLayer {
    type Service = ReplayService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ReplayService {
            inner,
            params: *self,
        }
    }
}

impl<S> Service<HttpRequest> for ReplayService<S>
where
    S: Service<HttpRequest, Response: PeerAnswer, Error = Rejected<HttpRequest>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ReplayFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        ReplayFuture {
            kept: self.params.keep(&mut request),
            inner: self.inner.call(request),
        }
    }
}

pin_project! {
    /// The future of [`ReplayService`].
    pub struct ReplayFuture<F> {
        #[pin]
        inner: F,
        kept: Option<Kept>,
    }
}

impl<F, Rsp> Future for ReplayFuture<F>
where
    F: Future<Output = Result<Rsp, Rejected<HttpRequest>>>,
    Rsp: PeerAnswer,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut polled = this.inner.poll(cx);
        match &mut polled {
            Poll::Ready(Ok(response)) => {
                if let Some(failure) = response.peer_failure()
                    && let Some(kept) = this.kept.take()
                    && let Some(request) = kept.give_back(failure.retry())
                {
                    let error = Error::new(failure.reason()).detail(PEER_FAILED);
                    return Poll::Ready(Err(Rejected::returned(error, request).sent()));
                }
            }
            Poll::Ready(Err(rejected)) if rejected.request.is_none() => {
                if let Some(kept) = this.kept.take() {
                    rejected.request = kept.give_back(rejected.error.reason().retry());
                    rejected.was_sent = true;
                }
            }
            Poll::Ready(Err(_)) | Poll::Pending => {}
        }
        polled
    }
}

const PEER_FAILED: &str = "the endpoint's proxy did not reach its application";

/// A copy of a request.
struct Kept {
    request: RequestCopy,
    idempotent: bool,
}

impl ReplayLayer {
    fn keep(&self, request: &mut HttpRequest) -> Option<Kept> {
        let idempotent = is_idempotent(request.method());
        if !idempotent && !self.refusals {
            return None;
        }
        let copy = request.replayable(self.max_bytes)?;
        Some(Kept {
            request: copy,
            idempotent,
        })
    }
}

impl Kept {
    fn give_back(mut self, retry: Retry) -> Option<HttpRequest> {
        let returns = &mut self.request.context_mut().returns;
        let allowed = match retry {
            Retry::Yes => {
                returns.refused += 1;
                returns.refused <= MAX_REFUSED
            }
            Retry::IfIdempotent => {
                returns.lost += 1;
                self.idempotent && returns.lost <= MAX_LOST
            }
            Retry::No => false,
        };
        if !allowed || !self.request.body().is_whole() {
            return None;
        }
        Some(self.request.into_request())
    }
}

/// Whether a request may be sent twice (RFC 9110, section 9.2.2).
pub fn is_idempotent(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE | Method::PUT | Method::DELETE
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Reason,
        http::{PeerFailure, RequestBody, RequestContext, Responder},
        transport::Side,
    };
    use http::{HeaderValue, Request, Response};
    use http_body_util::BodyExt;
    use std::{cell::Cell, rc::Rc};

    const LAYER: ReplayLayer = ReplayLayer {
        max_bytes: 64 * 1024,
        refusals: false,
    };

    /// Loses every request for the same reason, and counts them.
    struct Lose(Reason, Rc<Cell<u32>>);

    impl Service<HttpRequest> for Lose {
        type Response = Response<()>;
        type Error = Rejected<HttpRequest>;
        type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: HttpRequest) -> Self::Future {
            self.1.set(self.1.get() + 1);
            std::future::ready(Err(Rejected::lost(self.0)))
        }
    }

    /// The number of times that a request is sent until it is not returned.
    fn sent(layer: ReplayLayer, method: Method, reason: Reason) -> u32 {
        let count = Rc::new(Cell::new(0));
        let mut service = layer.layer(Lose(reason, count.clone()));
        let request = Request::builder().method(method).header("x", "1");
        let request = request.body(RequestBody::empty()).unwrap();
        let context = RequestContext::arriving(None);
        let mut request = Some(HttpRequest::new(request, context));
        while let Some(next) = request {
            assert_eq!(next.headers()["x"], "1");
            let rejected = tokio_test::block_on(service.call(next)).unwrap_err();
            request = rejected.request;
        }
        count.get()
    }

    #[test]
    fn a_lost_request_comes_back_once_if_it_is_idempotent() {
        assert_eq!(sent(LAYER, Method::GET, Reason::ConnectionLost), 2);
        assert_eq!(sent(LAYER, Method::PUT, Reason::ConnectionLost), 2);
        assert_eq!(sent(LAYER, Method::POST, Reason::ConnectionLost), 1);
        assert_eq!(sent(LAYER, Method::PATCH, Reason::ConnectionLost), 1);
    }

    #[test]
    fn an_answer_that_is_not_http_is_not_asked_for_again() {
        assert_eq!(sent(LAYER, Method::GET, Reason::InvalidResponse), 1);
    }

    #[test]
    fn a_refused_stream_comes_back_whatever_its_method() {
        let layer = ReplayLayer {
            refusals: true,
            ..LAYER
        };
        assert_eq!(sent(layer, Method::POST, Reason::StreamRefused), 4);
        assert_eq!(sent(layer, Method::POST, Reason::ConnectionLost), 1);
    }

    #[tokio::test]
    async fn what_a_peer_could_not_deliver_comes_back() {
        let peer = |reason| {
            tower::service_fn(move |_: HttpRequest| async move {
                let answered = Request::new(());
                let answer =
                    Responder::new(&answered, Side::Inbound, true).respond(&Error::new(reason));
                let mut answer = answer.unwrap();
                let failure =
                    PeerFailure::told(answer.headers(), HeaderValue::from_static("")).unwrap();
                answer.extensions_mut().insert(failure);
                Ok::<_, Rejected<HttpRequest>>(answer)
            })
        };
        let sent = async |reason, method| {
            let layer = ReplayLayer {
                refusals: true,
                ..LAYER
            };
            let request = Request::builder().method(method);
            let request = request.body(RequestBody::empty()).unwrap();
            let request = HttpRequest::new(request, RequestContext::arriving(None));
            layer.layer(peer(reason)).call(request).await
        };
        let refused = sent(Reason::ConnectRefused, Method::POST)
            .await
            .unwrap_err();
        assert_eq!(refused.error.reason(), Reason::ConnectRefused);
        assert!(refused.request.is_some());
        let lost = sent(Reason::ConnectionLost, Method::GET).await.unwrap_err();
        assert!(lost.request.is_some());
        let processed = sent(Reason::ConnectionLost, Method::POST).await.unwrap();
        assert_eq!(processed.status(), 502, "the peer's own answer");
    }

    /// Reads a request's body and then loses the request.
    struct LoseRead(Rc<Cell<usize>>);

    impl Service<HttpRequest> for LoseRead {
        type Response = Response<()>;
        type Error = Rejected<HttpRequest>;
        type Future = futures::future::LocalBoxFuture<'static, Result<Self::Response, Self::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Pending
        }

        fn call(&mut self, request: HttpRequest) -> Self::Future {
            let read = self.0.clone();
            Box::pin(async move {
                let (request, _) = request.into_parts();
                let body = request.into_body().collect().await.unwrap();
                read.set(read.get() + body.to_bytes().len());
                Err(Rejected::lost(Reason::ConnectionLost))
            })
        }
    }

    #[tokio::test]
    async fn a_request_comes_back_with_its_body_though_that_was_sent() {
        let read = Rc::new(Cell::new(0));
        let mut service = LAYER.layer(LoseRead(read.clone()));
        let request = Request::put("/").body(RequestBody::full("hello")).unwrap();
        let request = HttpRequest::new(request, RequestContext::arriving(None));
        let rejected = service.call(request).await.unwrap_err();
        let returned = rejected.request.unwrap();
        assert_eq!(returned.context().returns.lost, 1);
        let rejected = service.call(returned).await.unwrap_err();
        assert!(rejected.request.is_none(), "it comes back once");
        assert_eq!(read.get(), 10, "the whole body, twice");
    }

    #[test]
    fn is_not_ready_before_the_client_is() {
        let mut service = tokio_test::task::spawn(LAYER.layer(LoseRead(Rc::default())));
        assert!(
            service
                .enter(|cx, mut service| service.poll_ready(cx))
                .is_pending()
        );
    }
}
