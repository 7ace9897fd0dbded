//! Observers of whole requests: spans, the access log and taps, as one layer.
//!
//! A request without observers pays for one comparison and a pointer in its future, however many observers there can be.

use crate::{
    access_log::{AccessLogWriter, AccessRecord, ConnectionLog},
    tap::{ConnectionTaps, TapRecord, WorkerTaps},
    trace::{ConnectionTracer, ServerSpan, Tracer},
};
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
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

/// The observers of a worker's requests; both directions share them.
#[derive(Debug)]
pub struct Observers {
    /// Tracing. `None`: it is off.
    pub tracer: Option<Rc<Tracer>>,
    /// The access log. `None`: it is off.
    pub access_log: Option<Rc<AccessLogWriter>>,
    /// The open taps.
    pub taps: Rc<WorkerTaps>,
}

/// Shows the requests of a connection to the observers.
///
/// - **Sits** below [`RespondLayer`](crate::server::RespondLayer), where errors have their reasons.
/// - **Waits for** nothing, **fails as** the stages below.
/// - **Bounds**: those of the queues of spans, lines and events, beyond which they are dropped.
/// - **Metrics**: `trace_export_*`, `proxy_access_log_lines_dropped_total`, `proxy_tap_events_dropped_total`.
#[derive(Clone, Debug)]
pub struct ObserversLayer(Rc<ConnectionObservers>);

/// See [`ObserversLayer`].
#[derive(Clone, Debug)]
pub struct ObserversStage<S> {
    inner: S,
    observers: Rc<ConnectionObservers>,
}

/// The observers of a connection's requests.
#[derive(Debug)]
struct ConnectionObservers {
    tracer: Option<ConnectionTracer>,
    access_log: Option<ConnectionLog>,
    taps: ConnectionTaps,
    /// Whether there is a tracer or a log.
    is_on: bool,
}

impl Observers {
    /// No observers, permanently.
    pub fn none() -> Self {
        Self {
            tracer: None,
            access_log: None,
            taps: Rc::new(WorkerTaps::none()),
        }
    }

    /// Logs a request that was refused before it was complete, if `error`, which has ended its connection, says so.
    pub fn refused(&self, side: Side, client: &ClientInfo, error: &Error) {
        if let Some(log) = &self.access_log {
            log.refused(side, client, error);
        }
    }

    /// The layer of a client's connection.
    pub fn layer(&self, side: Side, client: &Rc<ClientInfo>) -> ObserversLayer {
        let tracer = self.tracer.as_ref();
        let tracer = tracer.map(|tracer| ConnectionTracer::new(tracer, side, client));
        let access_log = self.access_log.as_ref();
        let access_log = access_log.and_then(|log| ConnectionLog::new(log, side, client));
        ObserversLayer(Rc::new(ConnectionObservers {
            is_on: tracer.is_some() || access_log.is_some(),
            tracer,
            access_log,
            taps: ConnectionTaps::new(&self.taps, side, client),
        }))
    }
}

impl ConnectionObservers {
    #[inline]
    fn begin(&self, request: &mut HttpRequest) -> ObservedExchange {
        match self.is_on || !self.taps.is_empty() {
            true => self.begin_observed(request),
            false => ObservedExchange::Unobserved,
        }
    }

    /// Spans come first: the log and taps share their notes.
    #[inline(never)]
    fn begin_observed(&self, request: &mut HttpRequest) -> ObservedExchange {
        let tracer = self.tracer.as_ref();
        let span = tracer.and_then(|tracer| tracer.begin(request));
        let access_log = self.access_log.as_ref();
        let record = access_log.map(|log| log.begin(request));
        let tap = match self.taps.is_empty() {
            true => None,
            false => self.taps.begin(request),
        };
        match (tap, record, span) {
            (None, None, None) => ObservedExchange::Unobserved,
            (None, Some(record), None) => ObservedExchange::Logged(record),
            (tap, record, span) => {
                ObservedExchange::Observed(Box::new(ExchangeObservers { tap, record, span }))
            }
        }
    }
}

impl<S> Layer<S> for ObserversLayer {
    type Service = ObserversStage<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let observers = self.0.clone();
        ObserversStage { inner, observers }
    }
}

impl<S> Service<HttpRequest> for ObserversStage<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error>,
{
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = ObserversFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        match self.observers.begin(&mut request) {
            exchange @ ObservedExchange::Unobserved => ObserversFuture {
                inner: self.inner.call(request),
                exchange,
            },
            exchange => self.call_observed(request, exchange),
        }
    }
}

impl<S: Service<HttpRequest>> ObserversStage<S> {
    #[inline(never)]
    fn call_observed(
        &mut self,
        request: HttpRequest,
        exchange: ObservedExchange,
    ) -> ObserversFuture<S::Future> {
        let began = exchange.begin_turn();
        let inner = self.inner.call(request);
        exchange.end_turn(began);
        ObserversFuture { inner, exchange }
    }
}

pin_project! {
    /// The future of [`ObserversStage`].
    pub struct ObserversFuture<F> {
        // Dropped before the exchange, so that attempts have ended when their request does.
        #[pin]
        inner: F,
        exchange: ObservedExchange,
    }
}

impl<F> Future for ObserversFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Error>>,
{
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.exchange {
            ObservedExchange::Unobserved => this.inner.poll(cx),
            exchange => exchange.poll(this.inner, cx),
        }
    }
}

/// A request with its observers, which may be dropped before its response.
enum ObservedExchange {
    /// No observer.
    Unobserved,
    /// The access log alone, as is common: it needs no box.
    Logged(Rc<AccessRecord>),
    /// Several observers.
    Observed(Box<ExchangeObservers>),
}

/// The observers of a request.
struct ExchangeObservers {
    tap: Option<Rc<TapRecord>>,
    record: Option<Rc<AccessRecord>>,
    span: Option<Rc<ServerSpan>>,
}

impl ObservedExchange {
    /// The stages below are called or polled next. Returns the time, if the log shows how long that takes.
    #[inline]
    fn begin_turn(&self) -> Option<Instant> {
        match self {
            Self::Unobserved => None,
            Self::Logged(record) => record.begin_turn(),
            Self::Observed(observers) => observers.record.as_ref()?.begin_turn(),
        }
    }

    /// The stages below were called or polled. The tap follows them.
    #[inline]
    fn end_turn(&self, began: Option<Instant>) {
        match self {
            Self::Unobserved => {}
            Self::Logged(record) => record.end_turn(began),
            Self::Observed(observers) => observers.end_turn(began),
        }
    }

    /// Polls the stages below.
    #[inline(never)]
    fn poll<F>(
        &self,
        stages: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<ResponseBody>, Error>>
    where
        F: Future<Output = Result<Response<ResponseBody>, Error>>,
    {
        let began = self.begin_turn();
        let mut polled = stages.poll(cx);
        self.end_turn(began);
        match &mut polled {
            Poll::Pending => {}
            Poll::Ready(Ok(response)) => self.answered(response),
            Poll::Ready(Err(error)) => self.failed(error),
        }
        polled
    }

    #[inline]
    fn answered(&self, response: &mut Response<ResponseBody>) {
        match self {
            Self::Unobserved => {}
            Self::Logged(record) => record.answered(response),
            Self::Observed(observers) => {
                if let Some(tap) = &observers.tap {
                    tap.answered(response);
                }
                if let Some(record) = &observers.record {
                    record.answered(response);
                }
                if let Some(span) = &observers.span {
                    span.answered(response);
                }
            }
        }
    }

    fn failed(&self, error: &Error) {
        match self {
            Self::Unobserved => {}
            Self::Logged(record) => record.failed(error),
            Self::Observed(observers) => {
                if let Some(tap) = &observers.tap {
                    tap.failed(error);
                }
                if let Some(record) = &observers.record {
                    record.failed(error);
                }
                if let Some(span) = &observers.span {
                    span.failed(error);
                }
            }
        }
    }
}

impl ExchangeObservers {
    #[cold]
    fn end_turn(&self, began: Option<Instant>) {
        if let Some(record) = &self.record {
            record.end_turn(began);
        }
        if let Some(tap) = &self.tap {
            tap.advance();
        }
    }
}

impl Drop for ObservedExchange {
    fn drop(&mut self) {
        match self {
            Self::Unobserved => {}
            Self::Logged(record) => record.given_up(),
            Self::Observed(observers) => {
                if let Some(tap) = &observers.tap {
                    tap.given_up();
                }
                if let Some(record) = &observers.record {
                    record.given_up();
                }
                if let Some(span) = &observers.span {
                    span.given_up();
                }
            }
        }
    }
}
