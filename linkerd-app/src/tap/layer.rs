//! The layer of taps.

use super::{record::TapRecord, worker_taps::WorkerTaps};
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

/// Shows the requests of a connection to the taps that ask for them.
///
/// - **Sits** below [`RespondLayer`](crate::server::RespondLayer), where errors have their reasons, and below the access log,
///   whose notes it shares.
/// - **Waits for** nothing, **fails as** the stages below.
/// - **Bounds**: those of the taps' queues, beyond which events are dropped.
/// - **Metrics**: `proxy_tap_events_dropped_total`.
#[derive(Clone, Debug)]
pub struct TapLayer {
    taps: Rc<WorkerTaps>,
    side: Side,
    client: Rc<ClientInfo>,
}

/// See [`TapLayer`].
#[derive(Clone, Debug)]
pub struct Tapped<S> {
    inner: S,
    layer: TapLayer,
}

impl TapLayer {
    /// Shows the requests of a client.
    pub fn new(taps: &Rc<WorkerTaps>, side: Side, client: &Rc<ClientInfo>) -> Self {
        Self {
            taps: taps.clone(),
            side,
            client: client.clone(),
        }
    }

    #[cold]
    fn begin(&self, request: &mut HttpRequest) -> Option<TappedExchange> {
        let record = TapRecord::begin(&self.taps, self.side, &self.client, request)?;
        Some(TappedExchange(record))
    }
}

impl<S> Layer<S> for TapLayer {
    type Service = Tapped<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let layer = self.clone();
        Tapped { inner, layer }
    }
}

impl<S> Service<HttpRequest> for Tapped<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error>,
{
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = TappedFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        let exchange = match self.layer.taps.is_empty() {
            true => None,
            false => self.layer.begin(&mut request),
        };
        let inner = self.inner.call(request);
        if let Some(exchange) = &exchange {
            exchange.0.advance();
        }
        TappedFuture { inner, exchange }
    }
}

pin_project! {
    /// The future of [`Tapped`].
    pub struct TappedFuture<F> {
        #[pin]
        inner: F,
        // `None` for a request that no tap asks for.
        exchange: Option<TappedExchange>,
    }
}

impl<F> Future for TappedFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Error>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut polled = this.inner.poll(cx);
        if let Some(TappedExchange(record)) = this.exchange {
            match &mut polled {
                Poll::Pending => record.advance(),
                Poll::Ready(Ok(response)) => record.answered(response),
                Poll::Ready(Err(error)) => record.failed(error),
            }
        }
        polled
    }
}

/// A tapped request that may be dropped before its response.
struct TappedExchange(Rc<TapRecord>);

impl Drop for TappedExchange {
    fn drop(&mut self) {
        self.0.given_up();
    }
}
