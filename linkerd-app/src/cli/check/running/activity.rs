//! Listeners, failures and losses, by `/state` of a running proxy.

use crate::{cli::check::report::CheckLine, config::variables};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A line for each listener, over all workers.
pub(super) fn listeners(workers: &Value) -> Vec<CheckLine> {
    let mut listeners: BTreeMap<(String, String), (u64, bool)> = BTreeMap::new();
    for worker in list(workers) {
        for listener in list(&worker["listeners"]["open"]) {
            let text = |field: &str| listener[field].as_str().unwrap_or_default().to_owned();
            let (connections, draining) = listeners
                .entry((text("name"), text("address")))
                .or_default();
            *connections += listener["connections"].as_u64().unwrap_or_default();
            *draining |= listener["draining"] == true;
        }
    }
    if listeners.is_empty() {
        let line = CheckLine::failed("listeners", "no worker accepts connections");
        return vec![line.fix("see the log of the proxy; a worker may be stuck")];
    }
    listeners
        .into_iter()
        .map(|((name, address), (connections, draining))| {
            let detail = format!("{address}, open connections: {connections}");
            match draining {
                false => CheckLine::ok(name, detail),
                true => CheckLine::warn(name, format!("{detail}, and it drains")),
            }
        })
        .collect()
}

/// The failures of the last minutes by reason, the most frequent first. The hint of a reason is its fix.
pub(super) fn failures(failures: &Value) -> Vec<CheckLine> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = now.unwrap_or_default().saturating_sub(RECENT).as_millis();
    let is_recent = |failure: &&Value| {
        let time = failure["time_ms"].as_u64().unwrap_or_default();
        u128::from(time) >= since
    };
    let mut reasons: BTreeMap<&str, (usize, &Value)> = BTreeMap::new();
    for failure in list(&failures["last"]).filter(is_recent) {
        let reason = failure["reason"].as_str().unwrap_or_default();
        // The newest comes first.
        reasons.entry(reason).or_insert((0, failure)).0 += 1;
    }
    let minutes = RECENT.as_secs() / 60;
    if reasons.is_empty() {
        let detail = format!("none in the last {minutes} min");
        return vec![CheckLine::ok("failures", detail)];
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    let others = reasons.split_off(reasons.len().min(MAX_REASONS));
    let mut lines: Vec<_> = reasons
        .into_iter()
        .map(|(reason, (count, last))| {
            let detail = last["detail"].as_str().unwrap_or_default();
            let hint = last["hint"].as_str().unwrap_or_default();
            let detail = format!("{count} in the last {minutes} min; the last one: {detail}");
            CheckLine::warn(reason, detail).fix(hint)
        })
        .collect();
    if !others.is_empty() {
        let detail = format!("{} more in /state?failures", others.len());
        lines.push(CheckLine::warn("other reasons", detail));
    }
    lines
}

/// Losses: series, lines, spans and events that the proxy left out because a bound was reached.
pub(super) fn losses(state: &Value) -> Vec<CheckLine> {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let series: u64 = list(&state["metrics"])
        .map(|family| number(&family["refused"]))
        .sum();
    let dropped = &state["trace"]["export"]["dropped"];
    let spans = dropped.as_object().into_iter().flatten();
    let spans: u64 = spans.map(|(_, count)| number(count)).sum();
    let log = variables::LOG.name();
    let log = format!("its reader is too slow, or {log} asks for too much");
    let all = [
        (
            "metric series",
            series,
            "labels have too many values: proxy_metrics_series_refused_total names the family",
        ),
        ("log lines", number(&state["log"]["dropped_lines"]), &*log),
        (
            "access log lines",
            number(&state["access_log"]["queue"]["dropped_lines"]),
            "its reader is too slow: write it to a file, or sample it",
        ),
        (
            "spans",
            spans,
            "trace.export.last_error in /state says what the collector refuses",
        ),
        (
            "tap events",
            number(&state["taps"]["dropped"]),
            "the client of the tap reads too slowly: narrow it, or lower --max-rps",
        ),
    ];
    all.into_iter()
        .map(|(name, lost, fix)| match lost {
            0 => CheckLine::ok(name, "none dropped"),
            lost => CheckLine::warn(name, format!("{lost} dropped since the start")).fix(fix),
        })
        .collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Failures that are older say little of the present state.
const RECENT: Duration = Duration::from_secs(300);

/// The most reasons with a separate line.
const MAX_REASONS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(lines: &[CheckLine]) -> String {
        let lines = lines.iter().map(|line| format!("{line:?}\n"));
        lines.collect()
    }

    #[test]
    fn listeners_are_summed_over_workers() {
        let worker = |connections: u64, draining: bool| {
            let listener = json!({
                "name": "outbound", "address": "127.0.0.1:4140",
                "connections": connections, "draining": draining,
            });
            json!({ "listeners": { "open": [listener] } })
        };
        let text = shown(&listeners(&json!([worker(1, false), worker(2, false)])));
        assert!(
            text.contains("127.0.0.1:4140, open connections: 3"),
            "{text}"
        );
        assert!(shown(&listeners(&json!([worker(1, true)]))).contains("it drains"));
        assert!(shown(&listeners(&json!([null]))).contains("Failed"));
    }

    #[test]
    fn recent_failures_are_counted_by_reason_with_their_hint() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let failure = |reason: &str, age: u64| {
            let time = now.as_millis() as u64 - age * 1000;
            json!({ "time_ms": time, "reason": reason, "hint": "look", "detail": "cause" })
        };
        let last = [failure("lost", 1), failure("lost", 2), failure("old", 301)];
        let lines = failures(&json!({ "last": last }));
        let text = shown(&lines);
        assert_eq!(lines.len(), 1, "{text}");
        assert!(
            text.contains("2 in the last 5 min; the last one: cause"),
            "{text}"
        );
        assert!(text.contains("fix: Some(\"look\")"), "{text}");
        let many: Vec<_> = (0..7).map(|n| failure(&format!("r{n}"), 1)).collect();
        let text = shown(&failures(&json!({ "last": many })));
        assert!(text.contains("2 more in /state?failures"), "{text}");
        assert!(shown(&failures(&json!({ "last": [] }))).contains("Ok"));
    }

    #[test]
    fn each_loss_is_a_warning() {
        let state = json!({
            "metrics": [{ "refused": 2 }, { "refused": 1 }],
            "log": { "dropped_lines": 4 },
            "access_log": { "queue": { "dropped_lines": 5 } },
            "trace": { "export": { "dropped": { "queue_full": 3, "rejected": 3 } } },
            "taps": { "dropped": 7 },
        });
        let text = shown(&losses(&state));
        for count in 3..8 {
            assert!(text.contains(&format!("{count} dropped since")), "{text}");
        }
        assert_eq!(shown(&losses(&Value::Null)).matches("Ok").count(), 5);
    }
}
