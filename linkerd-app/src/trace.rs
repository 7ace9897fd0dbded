//! Tracing: spans of sampled requests, exported over OTLP.
//!
//! A worker keeps a request's server span and those of its attempts while it is on its way; stages add to them by
//! [`RequestNotes`](linkerd_proxy_core::http::RequestNotes). When the response has ended, the spans go to the control thread
//! through a bounded queue, which never blocks. There they are printed, and sent to the collector in batches.
//!
//! | file | content |
//! |---|---|
//! | `connection.rs` | the spans of a connection's requests |
//! | `attempts.rs` | the layer of an attempt's client span |
//! | `server_span.rs` | the end of a request, in success or failure |
//! | `exchange.rs`, `head.rs` | the facts of a request |
//! | `spans.rs` | attributes and events of spans |
//! | `tracer.rs` | a worker's side: sampling, and the way to the control thread |
//! | `exporter.rs`, `buffer.rs` | the control thread's side: batches, and when they are sent |
//! | `export_stats.rs` | counters, `/state` |
//! | `resource.rs` | attributes of the process |
//! | `printer.rs` | traces for a person |

mod attempts;
mod buffer;
mod connection;
mod exchange;
mod export_stats;
mod exporter;
mod head;
mod printer;
mod resource;
mod server_span;
mod spans;
#[cfg(test)]
mod tests;
mod tracer;

pub use attempts::{AttemptSpans, AttemptSpansLayer};
pub use connection::ConnectionTracer;
pub use export_stats::ExportStats;
pub use exporter::ExporterParts;
pub use server_span::ServerSpan;
pub use tracer::Tracer;

use crate::{
    config::TraceConfig,
    logging::{LineOutput, LineSource, Logger},
};
use exporter::ExportMessage;
use linkerd_proxy_core::metrics::Registry;
use serde_json::{Value, json};
use std::{io, io::Write, rc::Rc, sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot};

/// The tracing of a proxy. Clones share it.
#[derive(Clone, Debug)]
pub struct Tracing(Arc<TracingState>);

#[derive(Debug)]
struct TracingState {
    config: TraceConfig,
    spans: mpsc::Sender<ExportMessage>,
    stats: Arc<ExportStats>,
    printed: Option<LineOutput>,
}

impl Tracing {
    /// Opens the output, and a queue to the exporter, which is made of the second value on the control thread.
    pub fn start(config: &TraceConfig, log: Option<&Logger>) -> io::Result<(Self, ExporterParts)> {
        let printed = config.output.as_ref();
        let printed = printed
            .map(|output| LineOutput::open(output, PRINTED, log.map(|log| &log.lines)))
            .transpose()?;
        let (spans, messages) = mpsc::channel(QUEUE_TRACES);
        let stats = Arc::<ExportStats>::default();
        let parts = ExporterParts {
            messages,
            stats: stats.clone(),
            printed: printed.as_ref().map(|output| output.lines.clone()),
            resource: resource::attributes(&config.resource),
        };
        let state = TracingState {
            config: config.clone(),
            spans,
            stats,
            printed,
        };
        Ok((Self(Arc::new(state)), parts))
    }

    /// Declares the metrics of the exporter.
    pub fn register(&self, registry: &Registry) {
        let stats = self.0.stats.clone();
        registry.collect(move |out| stats.write(out));
    }

    /// The side of one worker.
    pub fn tracer(&self) -> Rc<Tracer> {
        let TracingState {
            config,
            spans,
            stats,
            ..
        } = &*self.0;
        let (spans, stats) = (spans.clone(), stats.clone());
        Rc::new(Tracer::new(config.sample, config.with_query, spans, stats))
    }

    /// Opens a file of printed traces again, which may have been moved away.
    pub fn reopen(&self) {
        if let Some(printed) = &self.0.printed {
            printed.reopen();
        }
    }

    /// Sends all waiting spans, and waits until they are sent, for a limited time: the collector may be gone.
    pub async fn flush(&self) {
        let (reply, flushed) = oneshot::channel();
        let flush = async {
            if self.0.spans.send(ExportMessage::Flush(reply)).await.is_ok() {
                // An exporter that has ended has nothing to send.
                let _ = flushed.await;
            }
        };
        if tokio::time::timeout(FLUSH, flush).await.is_err() {
            tracing::warn!("The last spans could not be sent in {FLUSH:?}");
        }
        if let Some(printed) = &self.0.printed {
            printed.lines.flush(PRINT_FLUSH);
        }
    }

    /// The part of `/state`.
    pub fn inspect(&self) -> Value {
        let TracingState {
            config,
            stats,
            printed,
            ..
        } = &*self.0;
        let collector = config.collector.as_ref();
        json!({
            "collector": collector.map(|collector| collector.addr.to_string()),
            "sample": config.sample,
            "export": stats.inspect(),
            "output": printed.as_ref().map(|output| json!({
                "name": output.to_string(),
                "queue": output.lines.inspect(),
            })),
        })
    }
}

/// Traces between the workers and the exporter. It takes them at once; the bytes are bounded by [`ExportStats`].
const QUEUE_TRACES: usize = 1024;

/// Time at the end of the process for the last spans.
const FLUSH: Duration = Duration::from_secs(2);
/// Time at the end of the process for the last printed traces.
const PRINT_FLUSH: Duration = Duration::from_secs(1);

const PRINTED: LineSource = LineSource {
    what: "the output of traces",
    thread: "traces",
    on_loss: |lost, batch| {
        // A write to a vector does not fail.
        let _ = writeln!(
            batch,
            "# {lost} traces were dropped: their reader is too slow"
        );
    },
};
