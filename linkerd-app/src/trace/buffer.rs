//! Spans that wait for the collector, and the decision when they are sent.

use linkerd_proxy_core::trace::{Span, TraceBatch};
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// Spans that wait for the collector. A pure type: the exporter passes the time in.
///
/// - **Bounds**: [`MAX_SPANS`] spans. Their bytes are those of the whole queue.
#[derive(Debug, Default)]
pub(super) struct SpanBuffer {
    spans: VecDeque<Span>,
    /// The arrival of the oldest span that is not being sent.
    oldest: Option<Instant>,
    /// The spans at the front that are being sent.
    sending: usize,
    /// The failed exports of the spans at the front.
    tries: u32,
    /// Failed exports since one succeeded.
    failures: u32,
    /// The end of the pause after a failure.
    pause_until: Option<Instant>,
    /// Whether all spans are to be sent at once.
    is_flushing: bool,
}

/// The spans that leave the buffer after an export.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// Their number.
    pub(super) spans: usize,
    /// Their bytes.
    pub(super) bytes: usize,
}

impl SpanBuffer {
    /// Adds the spans of a request; `false` if there is no room for all.
    pub(super) fn push(&mut self, trace: TraceBatch, now: Instant) -> bool {
        if self.spans.len() + trace.0.len() > MAX_SPANS {
            return false;
        }
        self.spans.extend(trace.0);
        self.oldest.get_or_insert(now);
        true
    }

    /// The number of spans.
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// The time at which the next export begins; `None` while one goes on, or with nothing to send.
    pub(super) fn next_export(&self) -> Option<Instant> {
        if self.sending > 0 || self.spans.is_empty() {
            return None;
        }
        let oldest = self.oldest?;
        let is_full = self.spans.len() >= MAX_BATCH;
        let due = match self.is_flushing || is_full {
            true => oldest,
            false => oldest + LINGER,
        };
        let pause = self.pause_until.filter(|_| !self.is_flushing);
        Some(pause.map_or(due, |until| until.max(due)))
    }

    /// The spans of an export that begins.
    pub(super) fn begin(&mut self) -> &[Span] {
        let mut bytes = 0;
        let fitting = self.spans.iter().take(MAX_BATCH).take_while(|span| {
            bytes += span.size();
            bytes <= MAX_BATCH_BYTES
        });
        self.sending = fitting.count().max(1).min(self.spans.len());
        &self.spans.make_contiguous()[..self.sending]
    }

    /// Ends an export that the collector took.
    pub(super) fn succeed(&mut self, now: Instant) -> Left {
        (self.failures, self.pause_until) = (0, None);
        self.leave(now)
    }

    /// Ends an export that failed. The spans stay for the next export, unless they had [`MAX_TRIES`] or the failure is permanent.
    pub(super) fn fail(&mut self, now: Instant, may_be_retried: bool) -> Option<Left> {
        let pause = BACKOFF * 2u32.saturating_pow(self.failures);
        self.pause_until = Some(now + pause.min(MAX_BACKOFF));
        self.failures = self.failures.saturating_add(1);
        self.tries += 1;
        if may_be_retried && self.tries < MAX_TRIES {
            self.sending = 0;
            return None;
        }
        Some(self.leave(now))
    }

    /// Sends all at once, without a pause after failures, until [`flushed`](Self::flushed).
    pub(super) fn flush(&mut self) {
        self.is_flushing = true;
    }

    /// Ends the [`flush`](Self::flush).
    pub(super) fn flushed(&mut self) {
        self.is_flushing = false;
    }

    fn leave(&mut self, now: Instant) -> Left {
        let left = self.spans.drain(..self.sending);
        let (spans, bytes) = left.fold((0, 0), |(spans, bytes), span| {
            (spans + 1, bytes + span.size())
        });
        (self.sending, self.tries) = (0, 0);
        self.oldest = (!self.spans.is_empty()).then_some(now);
        Left { spans, bytes }
    }
}

/// The most spans that wait.
pub(super) const MAX_SPANS: usize = 4096;
/// The most spans of an export, as with linkerd2-proxy.
const MAX_BATCH: usize = 1000;
/// The most bytes of an export, by estimate: collectors take 4 MiB.
const MAX_BATCH_BYTES: usize = 1024 * 1024;
/// The longest time that a span waits for others. A person who looks for a trace waits as long.
const LINGER: Duration = Duration::from_secs(1);
/// The exports of a batch, before it is dropped.
const MAX_TRIES: u32 = 3;
/// The pause after the first failed export; it doubles.
const BACKOFF: Duration = Duration::from_secs(1);
/// The longest pause.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::trace::{SpanIds, SpanKind, SpanStatus};
    use std::time::SystemTime;

    fn trace(spans: usize) -> TraceBatch {
        let ids = SpanIds::new(1);
        let span = Span {
            trace: ids.trace(),
            id: ids.span(),
            parent: None,
            has_remote_parent: false,
            name: "/".to_owned(),
            kind: SpanKind::Server,
            start: SystemTime::UNIX_EPOCH,
            end: SystemTime::UNIX_EPOCH,
            attributes: Vec::new(),
            events: Vec::new(),
            status: SpanStatus::Unset,
        };
        TraceBatch(vec![span; spans])
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_span_waits_for_others_unless_they_are_a_batch() {
        let (mut buffer, now) = (SpanBuffer::default(), Instant::now());
        assert_eq!(buffer.next_export(), None);
        assert!(buffer.push(trace(2), now));
        assert!(buffer.push(trace(2), now + seconds(1) / 2));
        assert_eq!(buffer.next_export(), Some(now + LINGER));
        assert!(buffer.push(trace(MAX_BATCH), now + seconds(1) / 2));
        assert_eq!(buffer.next_export(), Some(now));
        assert_eq!(buffer.begin().len(), MAX_BATCH);
        assert_eq!(buffer.next_export(), None, "one export at a time");
        let later = now + seconds(1);
        assert_eq!(buffer.succeed(later).spans, MAX_BATCH);
        assert_eq!(buffer.len(), 4);
        assert_eq!(buffer.next_export(), Some(later + LINGER));
    }

    #[test]
    fn a_failed_batch_is_sent_again_after_a_growing_pause_and_then_dropped() {
        let (mut buffer, now) = (SpanBuffer::default(), Instant::now());
        assert!(buffer.push(trace(1), now));
        buffer.begin();
        assert_eq!(buffer.fail(now + seconds(1), true), None);
        assert_eq!(buffer.next_export(), Some(now + seconds(2)));
        buffer.begin();
        assert_eq!(buffer.fail(now + seconds(2), true), None);
        assert_eq!(buffer.next_export(), Some(now + seconds(4)));
        buffer.begin();
        let left = buffer.fail(now + seconds(4), true).unwrap();
        assert_eq!((left.spans, buffer.len()), (1, 0));
        assert!(buffer.push(trace(1), now + seconds(4)));
        assert_eq!(buffer.next_export(), Some(now + seconds(8)));
        buffer.begin();
        buffer.succeed(now + seconds(8));
        assert!(buffer.push(trace(1), now + seconds(9)));
        assert_eq!(buffer.next_export(), Some(now + seconds(10)));
    }

    #[test]
    fn what_cannot_succeed_is_dropped_at_once() {
        let (mut buffer, now) = (SpanBuffer::default(), Instant::now());
        assert!(buffer.push(trace(3), now));
        buffer.begin();
        assert_eq!(buffer.fail(now, false).unwrap().spans, 3);
    }

    #[test]
    fn a_flush_waits_for_nothing() {
        let (mut buffer, now) = (SpanBuffer::default(), Instant::now());
        assert!(buffer.push(trace(1), now));
        buffer.begin();
        buffer.fail(now, true);
        buffer.flush();
        assert_eq!(buffer.next_export(), Some(now));
    }

    #[test]
    fn spans_are_bounded_in_number_and_a_batch_in_bytes() {
        let (mut buffer, now) = (SpanBuffer::default(), Instant::now());
        assert!(buffer.push(trace(MAX_SPANS), now));
        assert!(!buffer.push(trace(1), now));
        assert_eq!(buffer.len(), MAX_SPANS);
        let mut large = trace(3);
        for span in &mut large.0 {
            span.name = "a".repeat(MAX_BATCH_BYTES / 2);
        }
        let mut buffer = SpanBuffer::default();
        assert!(buffer.push(large, now));
        assert_eq!(buffer.begin().len(), 1);
    }
}
