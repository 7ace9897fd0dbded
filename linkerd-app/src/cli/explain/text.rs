//! An explanation in a few lines: the rule that takes the request first, then the others.

use serde_json::Value;
use std::fmt::Write;

/// The document as text.
pub(super) fn render(document: &Value) -> String {
    let mut lines = Vec::new();
    if let Some(error) = document["error"].as_str() {
        lines.push(error.to_owned());
        let known = texts(&document["known_targets"]).join(", ");
        if !known.is_empty() {
            lines.push(format!("known targets: {known}"));
        }
        return joined(lines);
    }
    let request = &document["request"];
    if !request.is_null() {
        lines.push(format!(
            "{} {} ({})",
            text(&request["method"]),
            text(&request["url"]),
            text(&request["version"])
        ));
    }
    let protocol = document["protocol"].as_str().unwrap_or("unknown");
    lines.push(format!(
        "target   {}, protocol {protocol}",
        text(&document["target"])
    ));
    source(&mut lines, document);
    if let Some(note) = document["note"].as_str() {
        lines.push(format!("note     {note}"));
    }
    if let Some(reason) = document["refused"].as_str() {
        lines.push(format!("refused  {reason}"));
    }
    route(&mut lines, &document["route"]);
    let others = list(&document["not_taken"]);
    if !others.is_empty() {
        lines.push("other rules".to_owned());
    }
    for other in others {
        lines.push(format!("  {}: {}", rule(other), text(&other["why_not"])));
    }
    if let Some(more) = document["not_taken_more"].as_u64().filter(|more| *more > 0) {
        lines.push(format!("  and {more} more"));
    }
    joined(lines)
}

/// The policy, its age, and the reason why it or the profile decides.
fn source(lines: &mut Vec<String>, document: &Value) {
    let age = |message: &Value| match message["freshness"]["age_ms"].as_u64() {
        Some(age) => format!(", {:.1} s old", age as f64 / 1000.0),
        None => String::new(),
    };
    let policy = &document["policy"];
    if let Some(parent) = policy["parent"].as_str() {
        lines.push(format!("policy   {parent}{}", age(policy)));
    }
    let profile = &document["profile"];
    if let Some(logical) = profile["logical"].as_str() {
        lines.push(format!("profile  {logical}{}", age(profile)));
    }
    let by = &document["routed_by"];
    if let Some(source) = by["source"].as_str() {
        lines.push(format!("routed   by the {source}: {}", text(&by["why"])));
    }
}

fn route(lines: &mut Vec<String>, route: &Value) {
    if route.is_null() {
        return;
    }
    lines.push(format!(
        "taken    {}: {}",
        rule(route),
        text(&route["condition"])
    ));
    for filter in texts(&route["filters"]) {
        lines.push(format!("filter   {filter}"));
    }
    let timeouts = route["timeouts"].as_object().into_iter().flatten();
    let timeouts: Vec<_> = timeouts
        .filter(|(_, ms)| !ms.is_null())
        .map(|(name, ms)| format!("{} {ms} ms", name.trim_end_matches("_ms")))
        .collect();
    if !timeouts.is_empty() {
        lines.push(format!("timeouts {}", timeouts.join(", ")));
    }
    match route["retry"]["max_retries"].as_u64() {
        Some(retries) => {
            let statuses = texts(&route["retry"]["statuses"]).join(", ");
            let codes = &route["retry"]["grpc_codes"];
            lines.push(format!(
                "retries  {retries}, on status [{statuses}], gRPC codes {codes}"
            ));
        }
        None if !route["retry"]["budget"].is_null() => {
            lines.push(format!(
                "retries  within the budget {}",
                route["retry"]["budget"]
            ));
        }
        None => {}
    }
    let distribution = &route["distribution"];
    let backends = list(&distribution["backends"]);
    lines.push(format!("backends {}", text(&distribution["choice"])));
    for used in backends {
        backend(lines, used);
    }
}

fn backend(lines: &mut Vec<String>, backend: &Value) {
    let mut line = format!("  {}", text(&backend["backend"]));
    for (name, word) in [
        ("destination", "over"),
        ("endpoint", "to"),
        ("fails", "fails:"),
    ] {
        if let Some(value) = backend[name].as_str() {
            let _ = write!(line, " {word} {value}");
        }
    }
    if let Some(share) = backend["share"].as_f64() {
        let _ = write!(line, ", {:.1} %", share * 100.0);
    }
    if !backend["breaker"].is_null() {
        line.push_str(", with a circuit breaker");
    }
    lines.push(line);
    for filter in texts(&backend["filters"]) {
        lines.push(format!("    filter {filter}"));
    }
    let Some(workers) = backend["workers"].as_array() else {
        return;
    };
    if workers.is_empty() {
        lines.push("    not in use: its endpoints are asked for with the next request".to_owned());
    }
    for worker in workers {
        let state = worker["unavailable"].as_str();
        let state = state.map_or("available".to_owned(), |why| {
            format!("not available: {why}")
        });
        lines.push(format!("    worker {}: {state}", worker["worker"]));
        for endpoint in list(&worker["balancer"]["endpoints"]) {
            let error = endpoint["last_error"].as_str();
            let error = error.map(|error| format!(": {error}")).unwrap_or_default();
            lines.push(format!(
                "      {} {}, {:.1} ms, {} in flight{error}",
                text(&endpoint["endpoint"]),
                text(&endpoint["state"]),
                endpoint["estimate_ms"].as_f64().unwrap_or_default(),
                endpoint["in_flight"]
            ));
        }
        if let Some(endpoint) = worker["forward"].as_str() {
            let state = worker["state"].as_str().unwrap_or("not connected");
            lines.push(format!("      {endpoint} {state}"));
        }
    }
}

/// The name of a rule: its route, and its number in the table.
fn rule(rule: &Value) -> String {
    let route = text(&rule["route"]);
    match rule["rule"].as_u64() {
        Some(index) => format!("{route} (rule {index})"),
        None => route.to_owned(),
    }
}

fn joined(lines: Vec<String>) -> String {
    lines.into_iter().map(|line| line + "\n").collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn texts(value: &Value) -> Vec<&str> {
    list(value).iter().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests;
