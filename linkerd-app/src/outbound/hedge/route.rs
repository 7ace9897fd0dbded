//! The hedges of a route: their delay, and the obstacles to them.

use crate::{
    config::HedgeSettings,
    metrics::{HedgeCounts, HedgeSkipped},
    outbound::retry_budgets::{RetryBudgets, SharedBudget},
};
use linkerd_balance::LatencyQuantile;
use linkerd_profiles::{HttpRouting, RouteRule};
use linkerd_proxy_core::http::{HttpRequest, RequestCopy};
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    rc::{Rc, Weak},
    time::Duration,
};
use tokio::time::Instant;

/// The routes of a target whose requests are hedged.
#[derive(Debug)]
pub struct HedgedRoutes {
    settings: HedgeSettings,
    /// Routes whose stacks exist.
    live: RefCell<Vec<Weak<HedgedRoute>>>,
}

/// Latencies and budget of a route whose requests are hedged.
#[derive(Debug)]
pub struct HedgedRoute {
    /// Its name in `/state`.
    name: String,
    settings: HedgeSettings,
    latency: RefCell<LatencyQuantile>,
    budget: HedgeBudget,
    counts: HedgeCounts,
}

/// The budget of hedges, shared with the retries of the route.
#[derive(Debug)]
pub struct HedgeBudget {
    /// The budget.
    pub shared: SharedBudget,
    /// Whether hedging pays into the budget: without retries no other layer does.
    pub pays: bool,
}

impl HedgeBudget {
    /// The budget of a rule: that of its profile if that has one, else that of its backends.
    pub fn of_rule(budgets: &RetryBudgets, routing: &HttpRouting, rule: &RouteRule) -> Self {
        let of_profile = routing.retry_budget.filter(|_| rule.profile.is_some());
        let is_retried = match &rule.profile {
            Some(profile) => profile.is_retryable && of_profile.is_some(),
            None => rule.retry.is_some(),
        };
        let shared = match of_profile {
            Some(settings) => budgets.of_profile(settings),
            None => budgets.of_policy(&rule.distribution),
        };
        Self {
            shared,
            pays: !is_retried,
        }
    }
}

impl HedgedRoutes {
    /// Hedges by these settings.
    pub fn new(settings: HedgeSettings) -> Self {
        Self {
            settings,
            live: RefCell::default(),
        }
    }

    /// Adds a route, listed as long as it is in use.
    pub fn add(&self, name: String, budget: HedgeBudget, counts: HedgeCounts) -> Rc<HedgedRoute> {
        let route = HedgedRoute::new(name, self.settings, budget, counts);
        let mut live = self.live.borrow_mut();
        live.retain(|route| route.strong_count() > 0);
        let route = Rc::new(route);
        live.push(Rc::downgrade(&route));
        route
    }

    /// The first routes and their estimates, for `/state`.
    pub fn inspect(&self) -> Value {
        let live = self.live.borrow();
        let routes = live.iter().filter_map(Weak::upgrade).take(MAX_SHOWN);
        routes.map(|route| route.inspect(Instant::now())).collect()
    }
}

impl HedgedRoute {
    /// A route without latencies yet.
    pub fn new(
        name: String,
        settings: HedgeSettings,
        budget: HedgeBudget,
        counts: HedgeCounts,
    ) -> Self {
        let latency = LatencyQuantile::new(settings.percentile / 100.0, Instant::now());
        Self {
            name,
            settings,
            latency: RefCell::new(latency),
            budget,
            counts,
        }
    }

    /// The delay before a request is hedged. `None`: too few responses for an estimate.
    pub fn delay(&self, now: Instant) -> Option<Duration> {
        let estimate = self.latency.borrow_mut().estimate(now)?;
        Some(estimate.max(self.settings.min_delay))
    }

    /// The most bytes of a body that are kept.
    pub fn max_bytes(&self) -> usize {
        self.settings.max_bytes
    }

    /// The counters.
    pub fn counts(&self) -> &HedgeCounts {
        &self.counts
    }

    /// The request to send once more, taken from the budget, or the reason not to.
    pub fn hedge(
        &self,
        copy: Option<RequestCopy>,
        now: Instant,
    ) -> Result<HttpRequest, HedgeSkipped> {
        let copy = copy.ok_or(HedgeSkipped::NotReplayable)?;
        let body = copy.body();
        if body.upload().is_some_and(|upload| upload.is_broken()) {
            Err(HedgeSkipped::NotReplayable)
        } else if !body.is_whole() {
            Err(HedgeSkipped::BodyTooLarge)
        } else if !body.is_released() {
            Err(HedgeSkipped::RequestUnfinished)
        } else if !self.budget.shared.borrow_mut().withdraw(now) {
            Err(HedgeSkipped::Budget)
        } else {
            Ok(copy.into_request())
        }
    }

    /// Records the latency of a response head. If the hedge answered first, its time stands for that of the first attempt, which
    /// would have taken longer.
    pub fn answered(&self, called: Instant, now: Instant) {
        let latency = now.saturating_duration_since(called);
        self.latency.borrow_mut().observe(latency, now);
        if self.budget.pays {
            self.budget.shared.borrow_mut().deposit(now);
        }
    }

    fn inspect(&self, now: Instant) -> Value {
        let delay = self.delay(now);
        let latency = self.latency.borrow();
        json!({
            "route": self.name,
            "hedged_after_ms": delay.map(|delay| delay.as_secs_f64() * 1e3),
            "recent_requests": latency.samples().round(),
            "required_requests": latency.required().round(),
        })
    }
}

/// The routes that `/state` shows.
const MAX_SHOWN: usize = 50;
