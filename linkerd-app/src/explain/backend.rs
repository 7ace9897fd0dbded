//! Backends in an explanation.

use super::filter;
use http::Version;
use linkerd_profiles::{
    Backend, Dispatcher, Distribution, FailureAccrual, HttpFilter, Meta, Target,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// A query for the state of backends on a worker.
#[derive(Clone, Debug)]
pub struct BackendsQuery {
    /// The target that they serve.
    pub target: Target,
    /// The version of HTTP that its clients speak.
    pub version: Version,
    /// The resource whose traffic they get.
    pub parent: Arc<Meta>,
    /// The backends.
    pub backends: Vec<Backend>,
}

/// A distribution and its first backends. `of` gives the backend of an element, and its filters.
pub(super) fn distribution<B>(
    distribution: &Distribution<B>,
    of: impl Fn(&B) -> (&Backend, &[HttpFilter]),
) -> Value {
    let shown = |used: &B, weight: Option<(u32, u64)>| {
        let (backend, filters) = of(used);
        let mut shown = describe(backend);
        shown["filters"] = filter::described(filters).into();
        shown["answered_by_filters"] = filter::answers(filters);
        if let Some((weight, sum)) = weight {
            shown["weight"] = weight.into();
            shown["share"] = (f64::from(weight) / sum as f64).into();
        }
        shown
    };
    let (kind, backends): (_, Vec<_>) = match distribution {
        Distribution::Empty | Distribution::Weightless => ("none", Vec::new()),
        Distribution::FirstAvailable(backends) => {
            let backends = backends.iter().take(MAX_BACKENDS);
            (
                "first available",
                backends.map(|used| shown(used, None)).collect(),
            )
        }
        Distribution::RandomAvailable(backends) => {
            let sum = backends.iter().map(|(_, weight)| u64::from(*weight)).sum();
            let backends = backends.iter().take(MAX_BACKENDS);
            let backends = backends.map(|(used, weight)| shown(used, Some((*weight, sum))));
            ("random by weight", backends.collect())
        }
    };
    let number = distribution.backends().count();
    let kind = if number == 1 { "the only one" } else { kind };
    let more = number - backends.len();
    json!({ "choice": kind, "backends": backends, "more": more })
}

/// The backends of a distribution that are shown.
pub(super) fn shown_backends<B>(distribution: &Distribution<B>) -> impl Iterator<Item = &B> {
    distribution.backends().take(MAX_BACKENDS)
}

fn describe(backend: &Backend) -> Value {
    let mut shown = json!({ "backend": backend.meta.to_string() });
    match &backend.dispatcher {
        Dispatcher::Balance {
            destination,
            breaker,
            ..
        } => {
            shown["destination"] = destination.as_str().into();
            shown["breaker"] = breaker.as_deref().map_or(Value::Null, describe_breaker);
        }
        Dispatcher::Forward(endpoint) => shown["endpoint"] = endpoint.addr.to_string().into(),
        Dispatcher::Fail(message) => shown["fails"] = message.as_str().into(),
    }
    shown
}

fn describe_breaker(rules: &FailureAccrual) -> Value {
    json!({
        "consecutive_failures": rules.max_consecutive,
        "success_rate": rules.success_rate.map(|rate| json!({
            "threshold": f64::from(rate.threshold) / 10_000.0,
            "window_ms": millis(rate.window),
            "min_requests": rate.min_requests,
        })),
        "respects_retry_after": rules.respects_retry_after,
        "min_ready_endpoints": rules.min_ready_endpoints,
    })
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The backends of a rule that are shown.
const MAX_BACKENDS: usize = 50;
