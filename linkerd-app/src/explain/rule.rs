//! The rule of a request in an explanation, and the other rules.

use super::{
    backend::{distribution, millis},
    filter,
};
use linkerd_profiles::{
    HttpRouting, RetryPolicy, RouteRule, RouteTable, TableExplanation, Timeouts,
};
use serde_json::{Value, json};
use std::time::Duration;

/// The rule that takes the request.
pub(super) fn taken(routing: &HttpRouting, explained: &TableExplanation) -> Value {
    let Some(found) = explained.found else {
        return Value::Null;
    };
    let rule = &routing.table.rules()[found.index];
    let mut shown = head(found.index, rule);
    let condition = explained
        .condition
        .map(|index| rule.matches[index].to_string());
    shown["condition"] = condition
        .unwrap_or_else(|| "every request".to_owned())
        .into();
    shown["filters"] = filter::described(&rule.filters).into();
    shown["answered_by_filters"] = filter::answers(&rule.filters);
    shown["timeouts"] = timeouts(&rule.timeouts);
    shown["retry"] = rule.retry.as_ref().map_or(Value::Null, retry);
    shown["allows_request_headers"] = rule.allows_request_headers.into();
    if let Some(route) = &rule.profile {
        shown["labels"] = json!(route.labels);
        shown["timeouts"]["profile_ms"] = route.timeout.map(millis).into();
        let budget = routing.retry_budget.filter(|_| route.is_retryable);
        shown["retry"] = budget.map_or(Value::Null, |budget| {
            json!({ "budget": {
                "ratio": budget.ratio,
                "min_retries_per_second": budget.min_retries_per_second,
                "ttl_ms": millis(budget.ttl),
            }})
        });
    }
    shown["distribution"] = distribution(&rule.distribution, |used| (&used.backend, &used.filters));
    shown
}

/// The settings of a rule, for `/state`.
pub fn rule_settings(rule: &RouteRule) -> Value {
    let hosts = rule.hosts.iter().take(MAX_HOSTS);
    let matches = rule.matches.iter().take(MAX_MATCHES);
    let backends = distribution(&rule.distribution, |used| (&used.backend, &used.filters));
    json!({
        "route": rule.meta.to_string(),
        "hosts": hosts.map(ToString::to_string).collect::<Vec<_>>(),
        "matches": matches.map(ToString::to_string).collect::<Vec<_>>(),
        "filters": filter::described(&rule.filters),
        "timeouts": timeouts(&rule.timeouts),
        "retry": rule.retry.as_ref().map(retry),
        "distribution": backends,
    })
}

/// The rules that do not take the request, each with the reason.
pub(super) fn others(table: &RouteTable, explained: &TableExplanation) -> Value {
    let others = explained.others.iter().map(|other| {
        let mut shown = head(other.index, &table.rules()[other.index]);
        shown["why_not"] = other.miss.to_string().into();
        shown
    });
    others.collect()
}

fn head(index: usize, rule: &RouteRule) -> Value {
    let hosts = rule.hosts.iter().take(MAX_HOSTS);
    json!({
        "rule": index,
        "route": rule.meta.to_string(),
        "hosts": hosts.map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn timeouts(timeouts: &Timeouts) -> Value {
    let ms = |timeout: Option<Duration>| timeout.map(millis);
    json!({
        "request_ms": ms(timeouts.request),
        "response_ms": ms(timeouts.response),
        "idle_ms": ms(timeouts.idle),
    })
}

fn retry(retry: &RetryPolicy) -> Value {
    let statuses = retry.conditions.statuses.iter();
    let statuses = statuses.map(|range| match range.start() == range.end() {
        true => range.start().to_string(),
        false => format!("{}-{}", range.start(), range.end()),
    });
    json!({
        "max_retries": retry.max_retries,
        "max_request_bytes": retry.max_request_bytes,
        "statuses": statuses.collect::<Vec<_>>(),
        "grpc_codes": retry.conditions.grpc_codes,
        "timeout_ms": retry.timeout.map(millis),
    })
}

/// The hosts of a rule that are shown.
const MAX_HOSTS: usize = 10;
/// The conditions of a rule that are shown.
const MAX_MATCHES: usize = 10;
