//! The layer of the access log.

use super::{AccessLogWriter, exchange::LoggedConnection, full, record::AccessRecord};
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

/// Logs the requests of a connection.
///
/// - **Sits** below [`RespondLayer`](crate::server::RespondLayer), where errors have their reasons.
/// - **Waits for** nothing, **fails as** the stages below.
/// - **Bounds**: those of the queue, beyond which lines are dropped.
/// - **Metrics**: `proxy_access_log_lines_dropped_total`.
#[derive(Clone, Debug)]
pub struct AccessLogLayer {
    writer: Rc<AccessLogWriter>,
    connection: Rc<LoggedConnection>,
}

/// See [`AccessLogLayer`].
#[derive(Clone, Debug)]
pub struct AccessLogged<S> {
    inner: S,
    layer: AccessLogLayer,
}

impl AccessLogLayer {
    /// Logs the requests of a client; `None` if this side has no access log.
    pub fn new(
        writer: Option<&Rc<AccessLogWriter>>,
        side: Side,
        client: &Rc<ClientInfo>,
    ) -> Option<Self> {
        let writer = writer?;
        // The incumbent's log has no outbound requests.
        let is_logged = side == Side::Inbound || !writer.format().is_incumbent();
        is_logged.then(|| Self {
            writer: writer.clone(),
            connection: Rc::new(LoggedConnection {
                side,
                client: client.clone(),
                fields: full::connection_fields(side, client),
            }),
        })
    }
}

impl<S> Layer<S> for AccessLogLayer {
    type Service = AccessLogged<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let layer = self.clone();
        AccessLogged { inner, layer }
    }
}

impl<S> Service<HttpRequest> for AccessLogged<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error>,
{
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = AccessLoggedFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        let AccessLogLayer { writer, connection } = &self.layer;
        let record = AccessRecord::new(writer, connection, &mut request);
        AccessLoggedFuture {
            inner: record.measured(|| self.inner.call(request)),
            record: Unanswered(record),
        }
    }
}

pin_project! {
    /// The future of [`AccessLogged`].
    pub struct AccessLoggedFuture<F> {
        #[pin]
        inner: F,
        record: Unanswered,
    }
}

impl<F> Future for AccessLoggedFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Error>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let record = &this.record.0;
        let mut polled = record.measured(|| this.inner.poll(cx));
        match &mut polled {
            Poll::Pending => {}
            Poll::Ready(Ok(response)) => record.answered(response),
            Poll::Ready(Err(error)) => record.failed(error),
        }
        polled
    }
}

/// A request that may be dropped before its response.
struct Unanswered(Rc<AccessRecord>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.given_up();
    }
}
