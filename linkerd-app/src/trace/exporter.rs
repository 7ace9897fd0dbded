//! The control thread's side of tracing: traces are printed, and sent to the collector in batches.

use super::{
    buffer::{Left, SpanBuffer},
    export_stats::ExportStats,
    printer,
};
use crate::logging::LineQueue;
use futures::future::{LocalBoxFuture, OptionFuture};
use linkerd_proxy_core::{
    subscription::{Code, Status},
    trace::{AttributeValue, ExportSpans, TraceBatch},
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until, timeout},
};

/// A message to the exporter.
#[derive(Debug)]
pub enum ExportMessage {
    /// The spans of a request.
    Trace(TraceBatch),
    /// Sends all waiting spans, and answers when they are sent, or after an export that failed.
    Flush(oneshot::Sender<()>),
}

/// The parts of the exporter, before it has a collector.
#[derive(Debug)]
pub struct ExporterParts {
    pub(super) messages: mpsc::Receiver<ExportMessage>,
    pub(super) stats: Arc<ExportStats>,
    pub(super) printed: Option<LineQueue>,
    /// The attributes of the process.
    pub resource: Vec<(String, AttributeValue)>,
}

impl ExporterParts {
    /// Runs the exporter until all workers have ended. Without a collector traces are only printed.
    pub async fn run(self, collector: Option<impl ExportSpans>) {
        let exporter = Exporter {
            collector,
            stats: self.stats,
            printed: self.printed,
            buffer: SpanBuffer::default(),
            export: None,
            flushing: Vec::new(),
            has_failed: false,
        };
        exporter.run(self.messages).await;
    }
}

/// The exporter of a proxy.
///
/// - **Waits for** one export at a time, [`EXPORT_TIMEOUT`] at most.
/// - **Fails as** nothing: spans that cannot be sent are dropped.
/// - **Bounds**: those of [`SpanBuffer`] and [`ExportStats`].
/// - **Metrics**: `opentelemetry_span_export*`, `trace_export_*`.
struct Exporter<S> {
    collector: Option<S>,
    stats: Arc<ExportStats>,
    printed: Option<LineQueue>,
    buffer: SpanBuffer,
    export: Option<LocalBoxFuture<'static, ExportResult>>,
    flushing: Vec<oneshot::Sender<()>>,
    /// Whether the last export failed, for one line of the log at each change.
    has_failed: bool,
}

/// The number of spans that the collector refused, and its message.
type ExportResult = Result<(u64, String), Status>;

impl<S: ExportSpans> Exporter<S> {
    async fn run(mut self, mut messages: mpsc::Receiver<ExportMessage>) {
        loop {
            let due = self.buffer.next_export();
            tokio::select! {
                message = messages.recv() => match message {
                    Some(ExportMessage::Trace(trace)) => self.take(trace),
                    Some(ExportMessage::Flush(reply)) => self.flush(reply),
                    None => return,
                },
                Some(result) = OptionFuture::from(self.export.as_mut()) => self.exported(result),
                Some(()) = OptionFuture::from(due.map(sleep_until)) => self.begin(),
            }
        }
    }

    fn take(&mut self, trace: TraceBatch) {
        if let Some(lines) = &self.printed {
            lines.push(&printer::print(&trace));
        }
        let (spans, bytes) = (trace.0.len(), trace.size());
        if self.collector.is_none() {
            return self.stats.release(bytes);
        }
        if !self.buffer.push(trace, Instant::now()) {
            self.stats.release(bytes);
            self.stats.dropped_by_queue(spans);
        }
        self.stats.waiting(self.buffer.len());
    }

    fn begin(&mut self) {
        let Some(collector) = &self.collector else {
            return;
        };
        self.stats.exporting();
        let call = collector.export(self.buffer.begin());
        self.export = Some(Box::pin(async {
            let late = || Status::new(Code::DeadlineExceeded, "the collector has not answered");
            let answered = timeout(EXPORT_TIMEOUT, call).await;
            answered.unwrap_or_else(|_| Err(late()))
        }));
    }

    fn exported(&mut self, result: ExportResult) {
        self.export = None;
        let now = Instant::now();
        let is_success = result.is_ok();
        match result {
            Ok((rejected, message)) => {
                let left = self.buffer.succeed(now);
                self.stats.exported(left.spans, rejected, message);
                self.stats.release(left.bytes);
                if std::mem::take(&mut self.has_failed) {
                    tracing::info!("Spans reach the collector again");
                }
            }
            Err(status) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::warn!(%status, "Spans cannot be sent to the collector");
                }
                self.stats.failed(status.to_string());
                if let Some(Left { spans, bytes }) = self.buffer.fail(now, may_be_retried(&status))
                {
                    self.stats.dropped_by_failure(spans);
                    self.stats.release(bytes);
                }
            }
        }
        self.stats.waiting(self.buffer.len());
        if !is_success || self.buffer.len() == 0 {
            self.flushed();
        }
    }

    fn flush(&mut self, reply: oneshot::Sender<()>) {
        self.flushing.push(reply);
        match self.buffer.len() {
            0 => self.flushed(),
            _ => self.buffer.flush(),
        }
    }

    fn flushed(&mut self) {
        self.buffer.flushed();
        for reply in self.flushing.drain(..) {
            // The waiting task may have been dropped.
            let _ = reply.send(());
        }
    }
}

/// Whether another export of the same spans may succeed, by the table of OTLP
/// (<https://opentelemetry.io/docs/specs/otlp/#failures>).
fn may_be_retried(status: &Status) -> bool {
    matches!(
        status.code,
        Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unavailable
            | Code::DataLoss
            | Code::ResourceExhausted
            // A failure of the connection, for which there is no other code.
            | Code::Unknown
    )
}

/// The limit of an export, as of other exporters of OTLP.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
