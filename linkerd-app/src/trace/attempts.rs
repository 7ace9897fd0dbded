//! The layer of an attempt's client span.

use http::Response;
use linkerd_proxy_core::{
    Rejected,
    http::{
        AttemptNotes, BodyEnd, HttpRequest, Now, ObserveResponse, ObservedResponse, ResponseBody,
    },
    trace::{AttemptEnd, AttemptSpan, SpanOutcome},
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};
use tower_layer::Layer;
use tower_service::Service;

/// Records a client span for each attempt to send a sampled request, and makes it the parent of the endpoint's span.
///
/// - **Sits** below the metrics of an endpoint, which note its address, and above the layers that may return the request.
/// - **Waits for** nothing, **fails as** the stages below.
/// - **Bounds**: [`MAX_ATTEMPTS`](linkerd_proxy_core::trace::MAX_ATTEMPTS) spans of a request.
#[derive(Clone, Copy, Debug)]
pub struct AttemptSpansLayer;

/// See [`AttemptSpansLayer`].
#[derive(Clone, Debug)]
pub struct AttemptSpans<S>(S);

impl<S> Layer<S> for AttemptSpansLayer {
    type Service = AttemptSpans<S>;

    fn layer(&self, inner: S) -> Self::Service {
        AttemptSpans(inner)
    }
}

impl<S> Service<HttpRequest> for AttemptSpans<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Rejected<HttpRequest>>,
{
    type Response = Response<ResponseBody>;
    type Error = S::Error;
    type Future = AttemptSpansFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        let span = match &request.context().notes {
            Some(notes) if notes.trace().is_some() => begin(&mut request),
            _ => None,
        };
        AttemptSpansFuture {
            inner: self.0.call(request),
            span,
        }
    }
}

/// Begins the span of an attempt, if the request is sampled.
#[cold]
fn begin(request: &mut HttpRequest) -> Option<Box<OpenAttempt>> {
    let context = request.context();
    let notes = context.notes.clone()?;
    let trace = notes.trace()?;
    // A request that an endpoint returned has waited since then.
    let since = trace
        .last_end()
        .map_or(context.arrived, |end| end.max(context.arrived));
    let waited = context.attempted.saturating_duration_since(since);
    let waited = Some(waited).filter(|waited| *waited >= LEAST_WAIT);
    let attempt = trace.begin_attempt(waited, notes.endpoint(), notes.backend());
    let id = attempt.as_ref().map_or(trace.server, |attempt| attempt.id);
    trace.context.inject(request.headers_mut(), id);
    let context = request.context_mut();
    context.attempt = attempt.clone();
    Some(Box::new(OpenAttempt {
        span: attempt?,
        notes: context.attempts.clone(),
    }))
}

pin_project! {
    /// The future of [`AttemptSpans`].
    pub struct AttemptSpansFuture<F> {
        #[pin]
        inner: F,
        // Boxed, as few requests have one.
        span: Option<Box<OpenAttempt>>,
    }
}

impl<F> Future for AttemptSpansFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Rejected<HttpRequest>>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // The result is changed in place and returned: taking it apart would move it twice.
        let mut polled = this.inner.poll(cx);
        if let Some(open) = this.span {
            open.polled(&mut polled);
        }
        polled
    }
}

/// An attempt that may be given up before its response.
struct OpenAttempt {
    span: Rc<AttemptSpan>,
    /// Notes of a limit of the route that may cancel it.
    notes: Option<Rc<AttemptNotes>>,
}

impl OpenAttempt {
    /// The stages below were polled.
    #[inline(never)]
    fn polled(&self, polled: &mut Poll<Result<Response<ResponseBody>, Rejected<HttpRequest>>>) {
        let span = &self.span;
        match polled {
            Poll::Pending => {}
            Poll::Ready(Ok(response)) => {
                span.answer(response.status());
                let observer = Rc::new(AttemptObserver(span.clone()));
                response.body_mut().observe(observer, span.start);
            }
            Poll::Ready(Err(rejected)) => span.fail(&rejected.error),
        }
    }
}

impl Drop for OpenAttempt {
    fn drop(&mut self) {
        let notes = self.notes.as_ref();
        self.span
            .give_up(notes.is_some_and(|notes| notes.timed_out().is_some()));
    }
}

/// Ends the span with the body of its response.
struct AttemptObserver(Rc<AttemptSpan>);

impl ObserveResponse for AttemptObserver {
    fn end(&self, response: &ObservedResponse<'_>, end: BodyEnd<'_>, now: &Now) {
        let grpc_code = response.grpc_code(end);
        let status = response.status;
        // For a client any such answer is a failure, by the conventions of OpenTelemetry.
        let is_error = status.is_client_error()
            || status.is_server_error()
            || grpc_code.is_some_and(|code| code != 0);
        self.0.finish(AttemptEnd {
            at: now.get(),
            outcome: match end {
                _ if is_error => SpanOutcome::Failure,
                BodyEnd::Complete(_) => SpanOutcome::Success,
                BodyEnd::Failed(_) => SpanOutcome::Failure,
                BodyEnd::Dropped => SpanOutcome::Cancelled,
            },
            grpc_code,
            failure: match end {
                BodyEnd::Failed(error) => Some((error.reason(), error.to_string())),
                BodyEnd::Complete(_) | BodyEnd::Dropped => None,
            },
        });
    }
}

/// The shortest wait that is shown: a shorter one is the time of the choice of an endpoint.
pub(super) const LEAST_WAIT: Duration = Duration::from_micros(100);
