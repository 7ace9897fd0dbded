use super::*;
use crate::{
    config::HedgeSettings,
    metrics::HedgeCounts,
    outbound::retry_budgets::{BUDGET, SharedBudget},
    testing::{BelowStage, MockStage, TestMetrics, assert_readiness_passes, request, response},
};
use http::Method;
use linkerd_profiles::{RetryBudget, RetryBudgetSettings};
use linkerd_proxy_core::{
    Reason, Unavailable, http::EndpointId, metrics::Labels, stack::RcService,
};
use std::{
    cell::{Cell, RefCell},
    time::Duration,
};
use tokio_test::{assert_pending, assert_ready, task::spawn};
use tower::service_fn;

type Stage = MockStage<HttpRequest, Response<ResponseBody>, Error>;
type Below = BelowStage<HttpRequest, Response<ResponseBody>, Error>;

const MS: Duration = Duration::from_millis(1);
const SETTINGS: HedgeSettings = HedgeSettings {
    percentile: 90.0,
    min_delay: MS,
    max_bytes: 10,
};

/// A route whose requests have taken 80 ms, with its hedging stage.
struct Route {
    metrics: TestMetrics,
    route: Rc<HedgedRoute>,
    stage: Hedge<Stage>,
    below: Below,
}

impl Route {
    fn new(budget: RetryBudgetSettings) -> Self {
        let route = Self::unknown(budget);
        let now = Instant::now();
        for _ in 0..100 {
            route.route.answered(now, now + 80 * MS);
        }
        route
    }

    /// A route without latencies.
    fn unknown(budget: RetryBudgetSettings) -> Self {
        let metrics = TestMetrics::new();
        let families = &metrics.families.outbound.http.hedges;
        let counts = HedgeCounts::new(families, Labels::new().into());
        let shared: SharedBudget = Rc::new(RefCell::new(RetryBudget::new(budget, Instant::now())));
        let budget = HedgeBudget { shared, pays: true };
        let route = Rc::new(HedgedRoute::new("r".into(), SETTINGS, budget, counts));
        let (mock, below) = Stage::new();
        Self {
            stage: HedgeLayer::new(route.clone()).layer(mock),
            metrics,
            route,
            below,
        }
    }

    fn counted(&self, name: &str) -> f64 {
        self.metrics
            .sum(&format!("outbound_http_route_hedge_{name}_total"), &[])
    }

    fn skipped(&self, reason: &str) -> f64 {
        let reason = format!("reason=\"{reason}\"");
        self.metrics
            .sum("outbound_http_route_hedge_skipped_total", &[&reason])
    }
}

fn get() -> HttpRequest {
    of(Method::GET, "")
}

fn of(method: Method, body: &'static str) -> HttpRequest {
    let mut request = request(body);
    *request.method_mut() = method;
    request
}

#[tokio::test(start_paused = true)]
async fn the_first_head_wins_and_the_other_attempt_is_given_up() {
    for hedge_wins in [true, false] {
        let mut route = Route::new(BUDGET);
        let mut answered = spawn(route.stage.call(get()));
        assert_pending!(answered.poll());
        let (first, respond_first) = route.below.next_request().await.unwrap();
        let notes = first.context().attempts.clone().unwrap();
        notes.given_to(EndpointId(7));
        tokio::time::advance(79 * MS).await;
        assert_pending!(answered.poll());
        tokio::time::advance(11 * MS).await;
        assert!(answered.is_woken(), "it took as long as nine of ten others");
        assert_pending!(answered.poll());
        let (second, respond_second) = route.below.next_request().await.unwrap();
        let again = second.context().attempts.clone().unwrap();
        assert_eq!(again.endpoint(), Some(EndpointId(7)), "which it avoids");
        assert!(!Rc::ptr_eq(&notes, &again), "each has its own");
        assert_eq!(second.headers()["host"], "test.example");
        let (wins, _loses) = match hedge_wins {
            true => (respond_second, respond_first),
            false => (respond_first, respond_second),
        };
        wins.send_response(Ok(response("")));
        assert_eq!(assert_ready!(answered.poll()).unwrap().status(), 200);
        drop(answered);
        let won = f64::from(u8::from(hedge_wins));
        assert_eq!(
            (route.counted("requests"), route.counted("successes")),
            (1.0, won)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_fails_leaves_the_decision_to_the_other() {
    for first_fails in [true, false] {
        let mut route = Route::new(BUDGET);
        let mut answered = spawn(route.stage.call(get()));
        assert_pending!(answered.poll());
        let (_, first) = route.below.next_request().await.unwrap();
        tokio::time::advance(100 * MS).await;
        assert_pending!(answered.poll());
        let (_, second) = route.below.next_request().await.unwrap();
        let (fails, goes_on) = if first_fails {
            (first, second)
        } else {
            (second, first)
        };
        fails.send_response(Err(Reason::ConnectionLost.into()));
        assert_pending!(answered.poll());
        goes_on.send_response(Ok(response("")));
        assert_eq!(assert_ready!(answered.poll()).unwrap().status(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn where_both_fail_the_last_failure_is_the_answer() {
    let mut route = Route::new(BUDGET);
    let mut answered = spawn(route.stage.call(get()));
    assert_pending!(answered.poll());
    let (_, first) = route.below.next_request().await.unwrap();
    tokio::time::advance(100 * MS).await;
    assert_pending!(answered.poll());
    let (_, second) = route.below.next_request().await.unwrap();
    first.send_response(Err(Reason::ConnectionLost.into()));
    assert_pending!(answered.poll());
    second.send_response(Err(Reason::InvalidResponse.into()));
    let error = assert_ready!(answered.poll()).unwrap_err();
    assert_eq!(error.reason(), Reason::InvalidResponse);
    assert_eq!(route.counted("successes"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn requests_that_may_not_be_sent_twice_are_not() {
    let mut route = Route::new(BUDGET);
    for method in [Method::POST, Method::PATCH, Method::CONNECT] {
        let request = of(method, "");
        let mut answered = spawn(route.stage.call(request));
        assert_pending!(answered.poll());
        let (_, _respond) = route.below.next_request().await.unwrap();
        tokio::time::advance(10_000 * MS).await;
        assert!(!answered.is_woken(), "no timer");
        assert_eq!(route.counted("requests"), 0.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hedge_needs_enough_latencies_and_a_token_of_the_budget() {
    let mut route = Route::unknown(BUDGET);
    let mut answered = spawn(route.stage.call(get()));
    assert_pending!(answered.poll());
    let (_, _respond) = route.below.next_request().await.unwrap();
    tokio::time::advance(10_000 * MS).await;
    assert!(!answered.is_woken());
    drop(answered);

    let none = RetryBudgetSettings {
        ratio: 0.0,
        min_retries_per_second: 0,
        ..BUDGET
    };
    let mut route = Route::new(none);
    let mut answered = spawn(route.stage.call(get()));
    assert_pending!(answered.poll());
    let (_, respond) = route.below.next_request().await.unwrap();
    tokio::time::advance(100 * MS).await;
    assert_pending!(answered.poll());
    assert_eq!(
        (route.skipped("budget"), route.counted("requests")),
        (1.0, 0.0)
    );
    respond.send_response(Ok(response("")));
    assert!(assert_ready!(answered.poll()).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_hedge_that_no_backend_takes_changes_nothing() {
    let route = Route::new(BUDGET);
    let calls = Cell::new(0);
    let refuses_the_second = service_fn(move |_: HttpRequest| {
        calls.set(calls.get() + 1);
        let is_first = calls.get() == 1;
        async move {
            if is_first {
                tokio::time::sleep(200 * MS).await;
                return Ok(response(""));
            }
            Err(Reason::Unavailable(Unavailable::Unreachable).into())
        }
    });
    let layer = HedgeLayer::new(route.route.clone());
    let mut stage = layer.layer(RcService::new(refuses_the_second));
    assert_eq!(stage.call(get()).await.unwrap().status(), 200);
    assert_eq!(
        (route.skipped("no_backend"), route.counted("requests")),
        (1.0, 0.0)
    );
}

#[tokio::test]
async fn is_ready_when_the_stage_below_is() {
    let Route {
        stage, mut below, ..
    } = Route::new(BUDGET);
    assert_readiness_passes(stage, &mut below);
}
