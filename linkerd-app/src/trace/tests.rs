//! The exporter and a collector, in virtual time.

use super::{ExportStats, ExporterParts, Tracer, exporter::ExportMessage};
use futures::future::{FutureExt, LocalBoxFuture};
use linkerd_proxy_core::{
    subscription::{Code, Status},
    trace::{ExportSpans, Span, SpanIds, SpanKind, SpanStatus, TraceBatch},
};
use std::{
    cell::RefCell,
    collections::VecDeque,
    rc::Rc,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::LocalSet,
    time::{Instant, timeout},
};

/// A collector that gives the answers of the test, and then success.
#[derive(Clone, Default)]
struct Collector {
    answers: Rc<RefCell<VecDeque<Answer>>>,
    /// The time and the size of each export.
    exports: Rc<RefCell<Vec<(Instant, usize)>>>,
}

enum Answer {
    Fails(Code),
    Hangs,
    Rejects(u64),
}

impl ExportSpans for Collector {
    fn export(&self, spans: &[Span]) -> LocalBoxFuture<'static, Result<(u64, String), Status>> {
        self.exports
            .borrow_mut()
            .push((Instant::now(), spans.len()));
        let answer = self.answers.borrow_mut().pop_front();
        async move {
            match answer {
                None => Ok((0, String::new())),
                Some(Answer::Rejects(spans)) => Ok((spans, "too many".to_owned())),
                Some(Answer::Fails(code)) => Err(Status::new(code, "down")),
                Some(Answer::Hangs) => std::future::pending().await,
            }
        }
        .boxed_local()
    }
}

struct Fixture {
    collector: Collector,
    messages: mpsc::Sender<ExportMessage>,
    tracer: Tracer,
    stats: Arc<ExportStats>,
}

impl Fixture {
    /// Runs a scenario beside an exporter whose collector gives these answers.
    fn run<F: Future<Output = ()>>(answers: Vec<Answer>, scenario: impl FnOnce(Self) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, async {
            let (messages, receiver) = mpsc::channel(super::QUEUE_TRACES);
            let stats = Arc::<ExportStats>::default();
            let parts = ExporterParts {
                messages: receiver,
                stats: stats.clone(),
                printed: None,
                resource: Vec::new(),
            };
            let collector = Collector {
                answers: Rc::new(RefCell::new(answers.into())),
                ..Collector::default()
            };
            let running = parts.run(Some(collector.clone()));
            let fixture = Self {
                collector,
                tracer: Tracer::new(1.0, true, messages.clone(), stats.clone()),
                messages,
                stats,
            };
            tokio::select! {
                () = running => unreachable!("it runs as long as its queue"),
                () = scenario(fixture) => {}
            }
        });
    }

    fn send(&self, spans: usize) {
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
        self.tracer.send(TraceBatch(vec![span; spans]));
    }

    async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    fn sizes(&self) -> Vec<usize> {
        let exports = self.collector.exports.borrow();
        exports.iter().map(|(_, spans)| *spans).collect()
    }

    async fn flush(&self) -> bool {
        let (reply, flushed) = oneshot::channel();
        let sent = self.messages.send(ExportMessage::Flush(reply)).await;
        sent.is_ok() && timeout(Duration::from_millis(1), flushed).await.is_ok()
    }
}

#[test]
fn spans_are_sent_together_and_leave_the_queue() {
    Fixture::run(vec![], async |fixture| {
        fixture.send(2);
        fixture.send(1);
        fixture.wait(2).await;
        assert_eq!(fixture.sizes(), [3]);
        let state = fixture.stats.inspect();
        assert_eq!(
            (&state["exported"], &state["queued_bytes"]),
            (&3.into(), &0.into())
        );
        assert!(state["last_error"].is_null());
    });
}

#[test]
fn a_collector_that_is_down_costs_the_batch_after_three_exports() {
    let down = || Answer::Fails(Code::Unavailable);
    Fixture::run(vec![down(), down(), down()], async |fixture| {
        fixture.send(2);
        fixture.wait(60).await;
        assert_eq!(fixture.sizes(), [2, 2, 2]);
        fixture.send(1);
        fixture.wait(60).await;
        assert_eq!(fixture.sizes(), [2, 2, 2, 1]);
        let state = fixture.stats.inspect();
        assert_eq!(state["dropped"]["export_failed"], 2);
        assert_eq!(
            (&state["failed_exports"], &state["exported"]),
            (&3.into(), &1.into())
        );
        assert_eq!(state["queued_bytes"], 0);
        let error = state["last_error"]["message"].as_str().unwrap();
        assert!(error.contains("down"), "{error}");
    });
}

#[test]
fn a_collector_that_hangs_is_given_up() {
    Fixture::run(vec![Answer::Hangs], async |fixture| {
        fixture.send(1);
        fixture.wait(5).await;
        fixture.send(1);
        fixture.wait(20).await;
        assert_eq!(fixture.sizes(), [1, 2]);
        assert_eq!(fixture.stats.inspect()["failed_exports"], 1);
    });
}

#[test]
fn what_the_collector_refuses_is_counted() {
    let answers = vec![Answer::Fails(Code::InvalidArgument), Answer::Rejects(1)];
    Fixture::run(answers, async |fixture| {
        fixture.send(2);
        fixture.wait(5).await;
        fixture.send(3);
        fixture.wait(5).await;
        assert_eq!(fixture.sizes(), [2, 3]);
        let state = fixture.stats.inspect();
        assert_eq!(state["dropped"]["export_failed"], 2);
        assert_eq!(
            (&state["dropped"]["rejected"], &state["exported"]),
            (&1.into(), &2.into())
        );
    });
}

#[test]
fn a_flood_is_bounded_and_counted() {
    Fixture::run(vec![Answer::Hangs], async |fixture| {
        for _ in 0..200 {
            for _ in 0..100 {
                fixture.send(1);
            }
            tokio::task::yield_now().await;
        }
        let state = fixture.stats.inspect();
        let (dropped, waiting) = (&state["dropped"]["queue_full"], &state["waiting_spans"]);
        assert!(dropped.as_u64().unwrap() > 10_000, "{state}");
        assert!(waiting.as_u64().unwrap() <= 4096, "{state}");
        let (bytes, max) = (&state["queued_bytes"], &state["max_queued_bytes"]);
        assert!(bytes.as_u64() <= max.as_u64(), "{state}");
    });
}

#[test]
fn a_flush_sends_at_once_and_ends_with_a_failure() {
    Fixture::run(vec![], async |fixture| {
        assert!(fixture.flush().await, "nothing waits");
        fixture.send(1);
        assert!(fixture.flush().await);
        assert_eq!(fixture.sizes(), [1]);
    });
    Fixture::run(vec![Answer::Fails(Code::Unavailable)], async |fixture| {
        fixture.send(1);
        assert!(fixture.flush().await);
    });
    Fixture::run(vec![Answer::Hangs], async |fixture| {
        fixture.send(1);
        assert!(
            !fixture.flush().await,
            "the end of the process does not wait for it"
        );
    });
}
