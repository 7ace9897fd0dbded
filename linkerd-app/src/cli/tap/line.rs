//! The line of a request.

use serde_json::Value;
use std::{fmt::Write, time::Duration};

/// The line of a request that has ended.
pub(super) fn end(event: &Value) -> String {
    let mut line = request(event);
    line.push_str(" -> ");
    match event["status"].as_u64() {
        Some(status) => push(&mut line, format_args!("{status}")),
        None => line.push_str("no response"),
    }
    if let Some(code) = event["grpc_status"].as_u64() {
        push(&mut line, format_args!(" grpc-status {code}"));
    }
    if let Some(reset) = event["reset"].as_str() {
        push(&mut line, format_args!(" reset {reset}"));
    }
    if event["cancelled"] == true {
        line.push_str(" cancelled by the client");
    }
    if let Some(reason) = event["reason"].as_str() {
        push(&mut line, format_args!(" {reason}"));
    }
    let latency = event["since_request_ms"].as_f64().unwrap_or_default();
    let bytes = event["response_bytes"].as_u64().unwrap_or_default();
    push(
        &mut line,
        format_args!(" in {latency:.1} ms, {bytes} bytes"),
    );
    push_way(&mut line, event);
    for part in ["detail", "hint"] {
        if let Some(text) = event[part].as_str() {
            let separator = if part == "detail" { ": " } else { ". " };
            push(&mut line, format_args!("{separator}{text}"));
        }
    }
    printable(&line)
}

/// The line of a request that has not ended. `event` is the last one that is known.
pub(super) fn open(event: &Value, age: Duration) -> String {
    let mut line = request(event);
    match event["status"].as_u64() {
        Some(status) => push(&mut line, format_args!(" -> {status}, goes on")),
        None => line.push_str(" -> no response yet"),
    }
    push(&mut line, format_args!(" after {:.1} s", age.as_secs_f64()));
    push_way(&mut line, event);
    printable(&line)
}

/// A header, given as its name and value.
pub(super) fn header(header: &Value) -> String {
    let part = |index: usize| header[index].as_str().unwrap_or_default();
    printable(&format!("{}: {}", part(0), part(1)))
}

fn request(event: &Value) -> String {
    let part = |name: &str| event[name].as_str().unwrap_or_default();
    // A client's spaces could look like the result.
    let word = |name| part(name).replace(char::is_whitespace, "\u{fffd}");
    let (direction, method) = (part("direction"), part("method"));
    format!("{direction} {method} {}{}", word("authority"), word("path"))
}

/// The client, the endpoint and the encryption of either, the backend.
fn push_way(line: &mut String, event: &Value) {
    let (from, to) = (&event["source"], &event["destination"]);
    if let Some(source) = from.as_str() {
        let tls = encryption(&event["source_labels"], "client_id");
        push(line, format_args!(", from {source} ({tls})"));
    }
    match to.as_str() {
        Some(destination) => {
            let tls = encryption(&event["destination_labels"], "server_id");
            push(line, format_args!(", to {destination} ({tls})"));
        }
        None => line.push_str(", to no endpoint"),
    }
    if let Some(backend) = event["backend"].as_str() {
        push(line, format_args!(" of {backend}"));
    }
    if let Some(attempts) = event["attempts"].as_u64().filter(|attempts| *attempts > 1) {
        push(line, format_args!(", sent {attempts} times"));
    }
}

/// `tls` with the peer's identity, or `no tls` with its cause.
fn encryption(labels: &Value, identity: &str) -> String {
    match (labels["tls"].as_str(), labels[identity].as_str()) {
        (Some("true"), Some(identity)) if !identity.is_empty() => format!("tls {identity}"),
        (Some("true"), _) => "tls".to_owned(),
        (Some(reason), _) => format!("no tls: {reason}"),
        (None, _) => "no tls".to_owned(),
    }
}

fn push(line: &mut String, text: std::fmt::Arguments<'_>) {
    // A write to a string does not fail.
    let _ = line.write_fmt(text);
}

/// Replaces control characters, and those that change the direction or the line of a text: a request must not move the cursor of a
/// terminal.
fn printable(text: &str) -> String {
    let moves =
        |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let printable = |c: char| if moves(c) { '\u{fffd}' } else { c };
    text.chars().map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(own: Value) -> Value {
        let mut event = json!({
            "direction": "outbound",
            "method": "GET",
            "authority": "web",
            "path": "/a",
            "source": "10.0.0.7:40000",
            "source_labels": { "tls": "loopback" },
            "destination": "10.1.0.1:8080",
            "destination_labels": { "tls": "true", "server_id": "web.shop" },
            "backend": "web:80",
            "attempts": 1,
            "response_bytes": 5,
            "since_request_ms": 12.345,
        });
        let own = own.as_object().unwrap().clone();
        event.as_object_mut().unwrap().extend(own);
        event
    }

    #[test]
    fn a_success_is_one_line() {
        let line = end(&event(json!({ "status": 200, "grpc_status": 0 })));
        assert_eq!(
            line,
            "outbound GET web/a -> 200 grpc-status 0 in 12.3 ms, 5 bytes, from 10.0.0.7:40000 (no tls: loopback), \
             to 10.1.0.1:8080 (tls web.shop) of web:80"
        );
    }

    #[test]
    fn a_failure_has_its_cause_and_a_hint() {
        let failed = json!({
            "status": 503,
            "destination": null,
            "backend": null,
            "reason": "connect_refused",
            "detail": "refused",
            "hint": "look",
            "attempts": 2,
        });
        let line = end(&event(failed));
        assert!(line.contains("-> 503 connect_refused in"), "{line}");
        assert!(
            line.ends_with(", to no endpoint, sent 2 times: refused. look"),
            "{line}"
        );
        let line = end(&event(json!({ "reset": "CANCEL", "cancelled": true })));
        assert!(
            line.contains("-> no response reset CANCEL cancelled by the client in"),
            "{line}"
        );
    }

    #[test]
    fn a_request_that_has_not_ended_has_its_age() {
        let waiting = open(&event(json!({})), Duration::from_millis(2100));
        assert!(
            waiting.contains("-> no response yet after 2.1 s, from"),
            "{waiting}"
        );
        let going = open(&event(json!({ "status": 200 })), Duration::from_secs(3));
        assert!(going.contains("-> 200, goes on after 3.0 s"), "{going}");
    }

    #[test]
    fn control_characters_are_replaced() {
        let line = end(&event(json!({ "authority": "a\u{1b}[2Jb\n" })));
        assert!(!line.contains(['\u{1b}', '\n']), "{line}");
    }
}
