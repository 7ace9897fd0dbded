//! The layer of the server span.

use super::{exchange::TracedConnection, server_span::ServerSpan, tracer::Tracer};
use http::Response;
use linkerd_proxy_core::{
    Error,
    http::{HttpRequest, ResponseBody},
    transport::{ClientInfo, Side},
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Records the server spans of a connection's sampled requests.
///
/// - **Sits** below [`RespondLayer`](crate::server::RespondLayer), where errors have their reasons, and above the access log,
///   which shares the notes of the request.
/// - **Waits for** nothing, **fails as** the stages below.
/// - **Bounds**: those of the exporter's queue, beyond which spans are dropped.
/// - **Metrics**: `trace_export_*`.
#[derive(Clone, Debug)]
pub struct TraceLayer {
    tracer: Rc<Tracer>,
    connection: Rc<TracedConnection>,
}

/// See [`TraceLayer`].
#[derive(Clone, Debug)]
pub struct Traced<S> {
    inner: S,
    layer: TraceLayer,
}

impl TraceLayer {
    /// Traces the requests of a client; `None` if tracing is off.
    pub fn new(tracer: Option<&Rc<Tracer>>, side: Side, client: &Rc<ClientInfo>) -> Option<Self> {
        let tracer = tracer?.clone();
        let client = client.clone();
        Some(Self {
            tracer,
            connection: Rc::new(TracedConnection { side, client }),
        })
    }
}

impl<S> Layer<S> for TraceLayer {
    type Service = Traced<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let layer = self.clone();
        Traced { inner, layer }
    }
}

impl<S> Service<HttpRequest> for Traced<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error>,
{
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = TracedFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        let TraceLayer { tracer, connection } = &self.layer;
        let notes = tracer.begin(&mut request);
        let span = notes.map(|notes| ServerSpan::new(tracer, connection, &request, notes));
        TracedFuture {
            inner: self.inner.call(request),
            span: span.map(Unanswered),
        }
    }
}

pin_project! {
    /// The future of [`Traced`].
    pub struct TracedFuture<F> {
        // Dropped before the span, so that attempts have ended when that does.
        #[pin]
        inner: F,
        span: Option<Unanswered>,
    }
}

impl<F> Future for TracedFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Error>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut polled = this.inner.poll(cx);
        if let Some(Unanswered(span)) = this.span {
            match &mut polled {
                Poll::Pending => {}
                Poll::Ready(Ok(response)) => span.answered(response),
                Poll::Ready(Err(error)) => span.failed(error),
            }
        }
        polled
    }
}

/// The span of a request that may be dropped before its response.
struct Unanswered(Rc<ServerSpan>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.given_up();
    }
}
