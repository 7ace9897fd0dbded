//! Events as lines of JSON, each complete by itself.

use super::{
    active::TapEnd,
    event::{Headers, TapEvent, TapEventKind, TappedEnd, TappedRequest, TappedWay},
    labels,
};
use linkerd_proxy_core::transport::Side;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The line of an event of the tap `tap`.
pub fn event_line(tap: u32, event: &TapEvent) -> String {
    let mut line = of_request(&event.request);
    line.insert("id".to_owned(), format!("{tap}:{}", event.stream).into());
    of_way(&mut line, &event.way);
    match &event.kind {
        TapEventKind::Request { headers } => {
            set(&mut line, "event", "request");
            set_headers(&mut line, "headers", headers.as_ref());
        }
        TapEventKind::Response(response) => {
            set(&mut line, "event", "response");
            set(&mut line, "status", response.status.as_u16());
            set(&mut line, "since_request_ms", ms(response.since_request));
            set_headers(&mut line, "headers", response.headers.as_ref());
        }
        TapEventKind::End(end) => of_end(&mut line, end),
    }
    text(Value::Object(line))
}

/// The line with the numbers of dropped events and skipped requests so far.
pub fn dropped_line(dropped: u64, skipped: u64) -> String {
    text(json!({ "event": "dropped", "events": dropped, "skipped_requests": skipped }))
}

/// The last line of a tap.
pub fn closed_line(end: TapEnd) -> String {
    let reason = match end {
        TapEnd::Limit => "limit",
        TapEnd::Shutdown => "shutdown",
    };
    text(json!({ "event": "closed", "reason": reason }))
}

fn of_request(request: &TappedRequest) -> Map<String, Value> {
    let mut line = Map::new();
    let direction = match request.side {
        Side::Inbound => "inbound",
        Side::Outbound | Side::Control => "outbound",
    };
    set(&mut line, "direction", direction);
    set(&mut line, "method", request.method.as_str());
    set(&mut line, "scheme", &*request.scheme);
    set(&mut line, "authority", &*request.authority);
    set(&mut line, "path", &*request.path);
    set(&mut line, "version", format!("{:?}", request.version));
    set(&mut line, "source", request.source.to_string());
    let labels = labels::of_client(&request.source_tls);
    set(&mut line, "source_labels", object(&labels));
    line
}

fn of_way(line: &mut Map<String, Value>, way: &TappedWay) {
    let destination = way.destination.map(|addr| addr.to_string());
    set(line, "destination", destination);
    set(line, "destination_labels", object(&way.destination_labels));
    set(line, "route", way.route.clone());
    set(line, "route_labels", object(&way.route_labels));
    set(line, "backend", way.backend.clone());
    set(line, "attempts", way.attempts);
}

fn of_end(line: &mut Map<String, Value>, end: &TappedEnd) {
    set(line, "event", "end");
    set(line, "status", end.status.map(|status| status.as_u16()));
    set(line, "since_request_ms", ms(end.since_request));
    set(line, "since_response_ms", end.since_response.map(ms));
    set(line, "response_bytes", end.response_bytes);
    set(line, "grpc_status", end.grpc_status);
    let reset = end
        .reset
        .map(|code| format!("{:?}", h2::Reason::from(code)));
    set(line, "reset", reset);
    set(line, "cancelled", end.is_cancelled);
    let failure = end.failure.as_ref();
    set(line, "reason", failure.map(|(reason, _)| reason.label()));
    set(line, "detail", failure.map(|(_, detail)| detail.clone()));
    set(line, "hint", failure.map(|(reason, _)| reason.hint()));
    set_headers(line, "trailers", end.trailers.as_ref());
}

fn set(line: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    line.insert(name.to_owned(), value.into());
}

/// Sets headers as a list of names and values, in their order. Bytes that are no text are replaced.
fn set_headers(line: &mut Map<String, Value>, name: &str, headers: Option<&Headers>) {
    if let Some(headers) = headers {
        let headers = headers.iter();
        let headers = headers.map(|(name, value)| json!([name, String::from_utf8_lossy(value)]));
        set(line, name, headers.collect::<Vec<_>>());
    }
}

fn object(labels: &[(String, String)]) -> Value {
    let labels = labels.iter();
    let labels = labels.map(|(name, value)| (name.clone(), value.as_str().into()));
    Value::Object(labels.collect())
}

/// Milliseconds, in microseconds' precision.
fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}

fn text(line: Value) -> String {
    let mut text = line.to_string();
    text.push('\n');
    text
}
