//! A worker's side of tracing: the decision about a request, and the way of its spans to the exporter.

use super::{export_stats::ExportStats, exporter::ExportMessage};
use linkerd_proxy_core::{
    http::{HttpRequest, RequestNotes},
    trace::{RequestTrace, Sampling, SpanIds, TraceBatch, TraceContext},
};
use std::{fmt, rc::Rc, sync::Arc, time::SystemTime};
use tokio::sync::mpsc;

/// A worker's side of tracing.
///
/// - **Bounds**: the queue to the exporter, in traces and in bytes. Beyond them spans are dropped.
/// - **Metrics**: `trace_export_spans_dropped_total`.
pub struct Tracer {
    /// The share of requests without a decision that are sampled.
    sample: f64,
    /// Whether spans show queries.
    pub(super) with_query: bool,
    ids: Rc<SpanIds>,
    spans: mpsc::Sender<ExportMessage>,
    stats: Arc<ExportStats>,
}

impl Tracer {
    /// A tracer that samples this share of the requests without a decision.
    pub(super) fn new(
        sample: f64,
        with_query: bool,
        spans: mpsc::Sender<ExportMessage>,
        stats: Arc<ExportStats>,
    ) -> Self {
        Self {
            sample,
            with_query,
            ids: Rc::new(SpanIds::new(rand::random())),
            spans,
            stats,
        }
    }

    /// Gives a request that is sampled its notes. `None`: it is not sampled, and goes on unchanged.
    pub(super) fn begin(&self, request: &mut HttpRequest) -> Option<Rc<RequestNotes>> {
        let context = self.decide(TraceContext::of(request.headers()))?;
        let start = request.context().arrived;
        let trace = RequestTrace::new(context, &self.ids, SystemTime::now(), start);
        let notes = Rc::new(RequestNotes::traced(trace));
        request.context_mut().notes = Some(notes.clone());
        Some(notes)
    }

    /// The sender's decision, or else a draw.
    fn decide(&self, context: Option<TraceContext>) -> Option<TraceContext> {
        match context {
            Some(context) => match context.sampling {
                Sampling::Sampled => Some(context),
                Sampling::NotSampled => None,
                Sampling::Undecided => self.ids.draw(self.sample).then_some(context),
            },
            None => {
                let is_drawn = self.ids.draw(self.sample);
                is_drawn.then(|| TraceContext::root(self.ids.trace()))
            }
        }
    }

    /// Gives the spans of a request to the exporter, or drops them.
    pub(super) fn send(&self, trace: TraceBatch) {
        let (spans, bytes) = (trace.0.len(), trace.size());
        if !self.stats.reserve(bytes) {
            return self.stats.dropped_by_queue(spans);
        }
        if self.spans.try_send(ExportMessage::Trace(trace)).is_err() {
            self.stats.release(bytes);
            self.stats.dropped_by_queue(spans);
        }
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer")
            .field("sample", &self.sample)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;
    use linkerd_proxy_core::trace::SpanKind;

    fn tracer(sample: f64) -> (Tracer, mpsc::Receiver<ExportMessage>) {
        let (spans, messages) = mpsc::channel(1);
        (Tracer::new(sample, false, spans, Arc::default()), messages)
    }

    fn with(headers: &[(&'static str, &'static str)]) -> HttpRequest {
        let mut request = request("");
        for (name, value) in headers {
            let value = http::HeaderValue::from_static(value);
            request.headers_mut().insert(*name, value);
        }
        request
    }

    fn is_sampled(sample: f64, headers: &[(&'static str, &'static str)]) -> bool {
        tracer(sample).0.begin(&mut with(headers)).is_some()
    }

    #[tokio::test]
    async fn the_sender_decides_and_the_share_where_it_does_not() {
        let sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
        assert!(is_sampled(0.0, &[("traceparent", sampled)]));
        assert!(!is_sampled(1.0, &[("traceparent", unsampled)]));
        for (sample, expected) in [(0.0, false), (1.0, true)] {
            assert_eq!(is_sampled(sample, &[]), expected);
            assert_eq!(is_sampled(sample, &[("traceparent", "broken")]), expected);
            let b3 = ("b3", "80f198ee56343ba8-e457b5a2e4d86bd1");
            assert_eq!(is_sampled(sample, &[b3]), expected);
        }
    }

    #[tokio::test]
    async fn a_request_that_is_not_sampled_stays_as_it_is() {
        let (tracer, _messages) = tracer(0.0);
        let mut request = with(&[("b3", "80f198ee56343ba8-e457b5a2e4d86bd1")]);
        assert!(tracer.begin(&mut request).is_none());
        assert!(request.context().notes.is_none());
        assert_eq!(request.headers()["b3"], "80f198ee56343ba8-e457b5a2e4d86bd1");
    }

    #[tokio::test]
    async fn spans_beyond_the_queue_are_dropped_and_counted() {
        let (tracer, mut messages) = tracer(1.0);
        let ids = SpanIds::new(1);
        let span = linkerd_proxy_core::trace::Span {
            trace: ids.trace(),
            id: ids.span(),
            parent: None,
            has_remote_parent: false,
            name: String::new(),
            kind: SpanKind::Server,
            start: SystemTime::UNIX_EPOCH,
            end: SystemTime::UNIX_EPOCH,
            attributes: Vec::new(),
            events: Vec::new(),
            status: linkerd_proxy_core::trace::SpanStatus::Unset,
        };
        let trace = || TraceBatch(vec![span.clone(), span.clone()]);
        for _ in 0..3 {
            tracer.send(trace());
        }
        assert!(messages.recv().await.is_some());
        assert_eq!(tracer.stats.inspect()["dropped"]["queue_full"], 4);
        let queued = tracer.stats.inspect()["queued_bytes"].as_u64();
        assert_eq!(queued, Some(trace().size() as u64));
    }
}
