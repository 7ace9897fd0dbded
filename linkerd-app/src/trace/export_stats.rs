//! Counters of the exporter, shared by its thread, the workers and the admin server.

use crate::cut;
use linkerd_proxy_core::metrics::{Exposition, Labels, MetricKind};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Relaxed},
};
use tokio::time::Instant;

/// Counters of the exporter, and the bytes of its queues.
#[derive(Debug, Default)]
pub struct ExportStats {
    queued_bytes: AtomicUsize,
    waiting_spans: AtomicUsize,
    exported: AtomicU64,
    exports: AtomicU64,
    failed_exports: AtomicU64,
    dropped_queue_full: AtomicU64,
    dropped_export_failed: AtomicU64,
    dropped_rejected: AtomicU64,
    last_error: Mutex<Option<(String, Instant)>>,
}

impl ExportStats {
    /// Reserves room in the queues; `false` if there is none.
    pub(super) fn reserve(&self, bytes: usize) -> bool {
        let before = self.queued_bytes.fetch_add(bytes, AcqRel);
        let fits = before.saturating_add(bytes) <= MAX_QUEUED_BYTES;
        if !fits {
            self.release(bytes);
        }
        fits
    }

    /// Frees the room of spans that left the queues.
    pub(super) fn release(&self, bytes: usize) {
        self.queued_bytes.fetch_sub(bytes, AcqRel);
    }

    /// Counts spans for which a queue had no room.
    pub(super) fn dropped_by_queue(&self, spans: usize) {
        self.dropped_queue_full.fetch_add(spans as u64, Relaxed);
    }

    /// Counts spans that were given up after failed exports.
    pub(super) fn dropped_by_failure(&self, spans: usize) {
        self.dropped_export_failed.fetch_add(spans as u64, Relaxed);
    }

    /// Notes the number of spans that wait for the collector.
    pub(super) fn waiting(&self, spans: usize) {
        self.waiting_spans.store(spans, Relaxed);
    }

    /// Counts an export that begins.
    pub(super) fn exporting(&self) {
        self.exports.fetch_add(1, Relaxed);
    }

    /// Counts an export of `spans` spans, of which the collector refused some.
    pub(super) fn exported(&self, spans: usize, rejected: u64, message: String) {
        let rejected = rejected.min(spans as u64);
        self.exported.fetch_add(spans as u64 - rejected, Relaxed);
        self.dropped_rejected.fetch_add(rejected, Relaxed);
        if !message.is_empty() {
            self.note_error(message);
        }
    }

    /// Counts an export that failed.
    pub(super) fn failed(&self, error: String) {
        self.failed_exports.fetch_add(1, Relaxed);
        self.note_error(error);
    }

    fn note_error(&self, mut error: String) {
        error.truncate(cut::start(&error, MAX_ERROR).len());
        *self.last_error.lock() = Some((error, Instant::now()));
    }

    /// The part of `/state`.
    pub(super) fn inspect(&self) -> Value {
        let last_error = self.last_error.lock().clone();
        json!({
            "queued_bytes": self.queued_bytes.load(Relaxed),
            "max_queued_bytes": MAX_QUEUED_BYTES,
            "waiting_spans": self.waiting_spans.load(Relaxed),
            "max_waiting_spans": super::buffer::MAX_SPANS,
            "exported": self.exported.load(Relaxed),
            "exports": self.exports.load(Relaxed),
            "failed_exports": self.failed_exports.load(Relaxed),
            "dropped": {
                "queue_full": self.dropped_queue_full.load(Relaxed),
                "export_failed": self.dropped_export_failed.load(Relaxed),
                "rejected": self.dropped_rejected.load(Relaxed),
            },
            "last_error": last_error.map(|(message, at)| json!({
                "message": message,
                "age_seconds": at.elapsed().as_secs(),
            })),
        })
    }

    /// Writes the counters of a scrape.
    pub(crate) fn write(&self, out: &mut Exposition<'_>) {
        for (name, help, value) in [
            (
                "opentelemetry_span_export_requests",
                "Exports of spans that were begun",
                &self.exports,
            ),
            (
                "opentelemetry_span_exports",
                "Spans that the collector has taken",
                &self.exported,
            ),
            (
                "trace_export_failures_total",
                "Exports of spans that failed",
                &self.failed_exports,
            ),
        ] {
            out.single(MetricKind::Counter, name, help, Some(value.load(Relaxed)));
        }
        let name = "trace_export_spans_dropped_total";
        out.head(MetricKind::Counter, name, "Spans that were dropped.");
        for (reason, value) in [
            ("queue_full", &self.dropped_queue_full),
            ("export_failed", &self.dropped_export_failed),
            ("rejected", &self.dropped_rejected),
        ] {
            let labels = Labels::new().with("reason", reason);
            out.sample(name, &labels, value.load(Relaxed));
        }
    }
}

/// The most bytes of spans between their end and the collector: seconds of a busy proxy that samples all.
const MAX_QUEUED_BYTES: usize = 4 * 1024 * 1024;

/// The longest error that is kept, in bytes: a collector writes it.
const MAX_ERROR: usize = 512;
