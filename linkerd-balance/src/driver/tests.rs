use super::*;
use crate::{
    Balance, LoadSettings, Metrics, Params,
    breaker::{BreakerGate, BreakerGroup, OutcomeKind},
};
use http::Response;
use linkerd_proxy_core::{
    Backoff, EndpointStatus, Reason, Unavailable,
    endpoint::{Capacity, FailureAccrual},
    http::{QueueSettings, ResponseBody},
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{num::NonZeroU32, time::Duration};
use tokio::{
    task::{LocalSet, yield_now},
    time::advance,
};
use tower::service_fn;

const SECOND: Duration = Duration::from_secs(1);

/// The breaker of an endpoint that one failure ejects for a second.
fn breaker(status: &EndpointStatus) -> Rc<crate::breaker::EndpointBreaker> {
    let rules = FailureAccrual {
        max_consecutive: NonZeroU32::new(1),
        success_rate: None,
        limits_count: false,
        backoff: Backoff::new(SECOND, 60 * SECOND, 0.0).unwrap(),
        respects_retry_after: false,
        min_ready_endpoints: 0,
    };
    let group = BreakerGroup::new("test", rules, SmallRng::seed_from_u64(1));
    group.breaker("endpoint", status.clone())
}

fn params(metrics: Metrics) -> Params {
    Params {
        name: "test".to_owned(),
        queue: QueueSettings {
            capacity: 1,
            failfast: SECOND,
        },
        load: LoadSettings::default(),
        preferences: None,
        metrics,
        rng: SmallRng::seed_from_u64(1),
        on_unreachable: Box::new(|| {}),
    }
}

#[tokio::test(start_paused = true)]
async fn an_ejected_endpoint_is_not_counted_as_ready_although_no_request_comes() {
    let no_request_comes = async {
        let metrics = Metrics::detached();
        let counts = || (metrics.ready.value(), metrics.pending.value());
        let status = EndpointStatus::new(Capacity::OnDemand);
        let breaker = breaker(&status);
        let mut gate = BreakerGate::new(breaker.clone());
        let taken = service_fn(|()| std::future::ready(Ok::<_, Rejected<()>>(())));
        let mut member = Member::new(taken, status, 1);
        member.breaker = Some(breaker);
        let balance = Balance::one::<()>("endpoint", member, params(metrics.clone()));
        yield_now().await;
        assert_eq!(counts(), (1, 0));

        gate.admit()
            .record(OutcomeKind::Failure, None, Instant::now());
        yield_now().await;
        assert_eq!(counts(), (0, 1), "it is ejected");
        assert_eq!(balance.inspect()["ready"], 0);

        advance(SECOND).await;
        yield_now().await;
        assert_eq!(counts(), (1, 0), "it may be probed");
        let probe = gate.admit();
        yield_now().await;
        assert_eq!(counts(), (0, 1), "it has its probe");
        probe.record(OutcomeKind::Success, None, Instant::now());
        yield_now().await;
        assert_eq!(counts(), (1, 0), "it has recovered");
    };
    LocalSet::new().run_until(no_request_comes).await;
}

type Updates = tokio::sync::mpsc::Sender<Vec<Change<&'static str, Member<Pending>>>>;

/// An endpoint that is never ready.
struct Pending;

impl Service<()> for Pending {
    type Response = Response<ResponseBody>;
    type Error = Rejected<()>;
    type Future = std::future::Pending<Result<Self::Response, Rejected<()>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Rejected<()>>> {
        Poll::Pending
    }

    fn call(&mut self, (): ()) -> Self::Future {
        std::future::pending()
    }
}

/// A balancer whose endpoints the test sends.
fn balance() -> (Balance<&'static str, Pending>, Updates) {
    let (updates, mut sent) = tokio::sync::mpsc::channel(4);
    let sent = futures::stream::poll_fn(move |cx| sent.poll_recv(cx).map(|it| it.map(Ok)));
    let balance = Balance::new::<(), _>(sent, params(Metrics::detached()));
    (balance, updates)
}

fn endpoint(name: &'static str) -> Change<&'static str, Member<Pending>> {
    let status = EndpointStatus::new(Capacity::Connecting);
    Change::Insert(name, Member::new(Pending, status, 1))
}

/// The time that a request waits, and the reason for which it fails.
async fn failure(balance: &Balance<&'static str, Pending>) -> (Duration, Reason) {
    let start = Instant::now();
    let error = balance.clone().call(()).await.map(drop).unwrap_err();
    (start.elapsed(), error.reason())
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_set_that_is_known_to_be_empty_does_not_wait() {
    let requests = async {
        let none = Unavailable::NoEndpoints;
        let (balance, _updates) = self::balance();
        let not_resolved = Reason::Failfast(Unavailable::NotResolved);
        assert_eq!(failure(&balance).await, (SECOND, not_resolved));

        let (balance, updates) = self::balance();
        updates.try_send(vec![]).unwrap();
        yield_now().await;
        assert_eq!(
            failure(&balance).await,
            (Duration::ZERO, Reason::Failfast(none))
        );
        assert_eq!(
            failure(&balance).await,
            (Duration::ZERO, Reason::Unavailable(none))
        );
    };
    LocalSet::new().run_until(requests).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_fails_when_its_set_is_known_to_be_empty() {
    let requests = async {
        let (balance, updates) = balance();
        let learns = async {
            advance(SECOND / 2).await;
            updates.try_send(vec![]).unwrap();
        };
        let (failure, ()) = tokio::join!(failure(&balance), learns);
        let none = Reason::Failfast(Unavailable::NoEndpoints);
        assert_eq!(failure, (SECOND / 2, none));
    };
    LocalSet::new().run_until(requests).await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_whose_successor_comes_in_the_next_message_leaves_no_gap() {
    let requests = async {
        let (balance, updates) = balance();
        updates.try_send(vec![endpoint("a")]).unwrap();
        yield_now().await;
        updates.try_send(vec![Change::Remove("a")]).unwrap();
        let replaced = async {
            advance(Duration::from_millis(50)).await;
            updates.try_send(vec![endpoint("b")]).unwrap();
        };
        let ((waited, reason), ()) = tokio::join!(failure(&balance), replaced);
        let connecting = Reason::Failfast(Unavailable::Connecting);
        assert_eq!((waited, reason), (SECOND, connecting), "it waits for b");

        updates.try_send(vec![Change::Remove("b")]).unwrap();
        yield_now().await;
        // It is shut, but not for the endpoints of a set that was empty.
        updates.try_send(vec![endpoint("c")]).unwrap();
        yield_now().await;
        assert_eq!(
            failure(&balance).await,
            (SECOND, connecting),
            "it waits for c"
        );
    };
    LocalSet::new().run_until(requests).await;
}
