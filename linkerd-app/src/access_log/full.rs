//! The full form of a line: a JSON object without unknown fields.

use super::{
    escape::{Escape, push_addr, push_number, push_text},
    exchange::{Arrival, Exchange, ExchangeEnd, Outcome},
    head::RequestHead,
    line::Line,
    ways::WayTexts,
};
use crate::{
    request_target::{push_url, without_userinfo},
    utc::{Fraction, UtcClock},
};
use http::Version;
use linkerd_proxy_core::{
    Reason,
    http::RequestWay,
    transport::{ClientInfo, Side},
};
use std::time::{Duration, SystemTime};

/// Adds the bytes before a value. Their length is known at compile time: a few moves in place of a call.
macro_rules! name {
    ($line:expr, $name:literal) => {
        $line.extend_from_slice(concat!(",\"", $name, "\":").as_bytes())
    };
}

/// Adds a text from a peer.
macro_rules! text {
    ($line:expr, $name:literal, $text:expr) => {
        text!($line, $name, $text, MAX_TEXT)
    };
    ($line:expr, $name:literal, $text:expr, $max:expr) => {
        $line.extend_from_slice(concat!(",\"", $name, "\":\"").as_bytes());
        push_text($line, $text, $max, Escape::Json);
        $line.push(b'"');
    };
}

/// Adds a word of the proxy, which needs no escapes.
macro_rules! word {
    ($line:expr, $name:literal, $word:expr) => {
        $line.extend_from_slice(concat!(",\"", $name, "\":\"").as_bytes());
        $line.extend_from_slice($word.as_bytes());
        $line.push(b'"');
    };
}

/// Adds an address.
macro_rules! addr {
    ($line:expr, $name:literal, $addr:expr) => {
        $line.extend_from_slice(concat!(",\"", $name, "\":\"").as_bytes());
        push_addr($line, $addr);
        $line.push(b'"');
    };
}

/// Adds a number.
macro_rules! number {
    ($line:expr, $name:literal, $number:expr) => {
        name!($line, $name);
        push_number($line, $number);
    };
}

/// Begins a line with the facts of the request. The outcome is success until it is set: most requests succeed.
pub fn begin(line: &mut Line, clock: &mut UtcClock, arrival: &Arrival<'_>) {
    push_origin(&mut line.bytes, arrival);
    line.start = line.bytes.len();
    let bytes = &mut line.bytes;
    bytes.extend_from_slice(b"{\"time\":\"");
    clock.push(bytes, arrival.time, Fraction::Micros);
    bytes.push(b'"');
    bytes.extend_from_slice(&arrival.connection.fields);
    name!(bytes, "outcome");
    line.marks[0] = bytes.len();
    bytes.extend_from_slice(SUCCESS);
    push_request(bytes, arrival);
}

/// Ends a line.
pub fn end(line: &mut Line, ways: &mut WayTexts, exchange: &Exchange, end: &ExchangeEnd) {
    if end.outcome != Outcome::Success {
        set_outcome(line, end.outcome);
    }
    let bytes = &mut line.bytes;
    push_response(bytes, exchange, end);
    let way = exchange.notes.way();
    bytes.extend_from_slice(ways.text(&way, |text| push_way(text, &way)));
    number!(bytes, "request_bytes", exchange.request_bytes.get());
    number!(bytes, "response_bytes", exchange.response_bytes.get());
    push_times(bytes, exchange, end);
    if line.start > 0 {
        bytes.extend_from_within(..line.start);
    }
    bytes.push(b'}');
}

/// Adds the line of a request that was refused before it was complete.
#[cold]
pub fn refused(
    line: &mut Vec<u8>,
    clock: &mut UtcClock,
    now: SystemTime,
    side: Side,
    client: &ClientInfo,
    end: &ExchangeEnd,
) {
    line.extend_from_slice(b"{\"time\":\"");
    clock.push(line, now, Fraction::Micros);
    line.push(b'"');
    line.extend_from_slice(&connection_fields(side, client));
    word!(line, "outcome", end.outcome.name());
    push_result(line, end);
    line.push(b'}');
}

#[cold]
fn set_outcome(line: &mut Line, outcome: Outcome) {
    let success = line.marks[0]..line.marks[0] + SUCCESS.len();
    let name = format!("\"{}\"", outcome.name());
    line.bytes.splice(success, name.into_bytes());
}

/// The fields that all requests of a connection share.
pub fn connection_fields(direction: Side, client: &ClientInfo) -> Vec<u8> {
    let mut fields = Vec::new();
    let line = &mut fields;
    word!(line, "direction", side(direction));
    addr!(line, "client", client.addr);
    if let Some(identity) = client.tls.identity() {
        text!(line, "client_identity", identity.as_str().as_bytes());
    }
    addr!(line, "server", client.going_to());
    fields
}

/// The name of a direction.
pub fn side(side: Side) -> &'static str {
    match side {
        Side::Inbound => "inbound",
        Side::Outbound | Side::Control => "outbound",
    }
}

/// The request as the client has sent it.
fn push_request(line: &mut Vec<u8>, arrival: &Arrival<'_>) {
    let head = &arrival.head;
    // A token needs no escapes (RFC 9110, 5.6.2).
    word!(line, "method", head.method.as_str());
    if let Some(scheme) = head.uri.scheme_str() {
        text!(line, "scheme", scheme.as_bytes());
    }
    let authority = head.whole_authority();
    arrival.connection.authority.push(line, authority, |text| {
        text!(text, "authority", without_userinfo(authority));
    });
    text!(line, "path", head.path(arrival.has_query), MAX_PATH);
    match head.version {
        Version::HTTP_10 => line.extend_from_slice(b",\"version\":\"HTTP/1.0\""),
        Version::HTTP_2 => line.extend_from_slice(b",\"version\":\"HTTP/2\""),
        _ => line.extend_from_slice(b",\"version\":\"HTTP/1.1\""),
    }
}

/// The response, or the failure, and the attempts.
fn push_response(line: &mut Vec<u8>, exchange: &Exchange, end: &ExchangeEnd) {
    push_result(line, end);
    match (exchange.notes.sent(), exchange.notes.returned()) {
        (1, 0) => line.extend_from_slice(b",\"sent\":1,\"returned\":0"),
        (sent, returned) => {
            number!(line, "sent", sent.into());
            number!(line, "returned", returned.into());
        }
    }
}

/// The response, or the failure. A call would be a third of its cost for a success.
#[inline(always)]
fn push_result(line: &mut Vec<u8>, end: &ExchangeEnd) {
    if let Some(status) = end.status {
        // Three digits.
        name!(line, "status");
        line.extend_from_slice(status.as_str().as_bytes());
    }
    if let Some(code) = end.grpc_status {
        number!(line, "grpc_status", code.into());
    }
    if let Some((reason, message)) = &end.failure {
        push_failure(line, *reason, message);
    }
}

#[cold]
fn push_failure(line: &mut Vec<u8>, reason: Reason, message: &str) {
    let row = reason.row();
    word!(line, "reason", row.label);
    word!(line, "origin", row.origin.name());
    word!(line, "phase", row.phase.name());
    text!(line, "error", message.as_bytes());
    text!(line, "hint", row.hint.as_bytes());
}

/// The way to the endpoint.
fn push_way(line: &mut Vec<u8>, way: &RequestWay) {
    if let Some(route) = &way.route {
        text!(line, "route", route.as_bytes());
    }
    if let Some(backend) = &way.backend {
        text!(line, "backend", backend.as_bytes());
    }
    if let Some(endpoint) = way.endpoint {
        addr!(line, "endpoint", endpoint);
    }
    if let Some(identity) = &way.identity {
        text!(line, "endpoint_identity", identity.as_str().as_bytes());
    }
}

fn push_times(line: &mut Vec<u8>, exchange: &Exchange, end: &ExchangeEnd) {
    let notes = &exchange.notes;
    if let Some((_, wait)) = notes.discovery() {
        number!(line, "discovery_us", micros(wait));
    }
    if let Some(sent) = notes.first_sent() {
        // Most requests did not wait: a comparison is enough.
        let wait = match sent == exchange.start {
            true => Duration::ZERO,
            false => sent.saturating_duration_since(exchange.start),
        };
        number!(line, "wait_us", micros(wait));
    }
    if let Some(connect) = notes.connect() {
        number!(line, "connect_us", micros(connect));
    }
    if let Some(first_byte) = end.first_byte {
        number!(line, "first_byte_us", micros(first_byte));
    }
    number!(line, "duration_us", micros(end.duration));
}

/// The claims of the client about itself.
fn push_origin(line: &mut Vec<u8>, arrival: &Arrival<'_>) {
    let (head, with_query) = (&arrival.head, arrival.has_query);
    if let Some(trace) = head.trace_id() {
        text!(line, "trace_id", trace);
    } else if let Some(trace) = arrival.notes.trace() {
        // The trace begins here.
        word!(line, "trace_id", trace.id().to_string());
    }
    if let Some(agent) = &head.user_agent {
        text!(line, "user_agent", agent.as_bytes());
    }
    if let Some(referer) = &head.referer {
        name!(line, "referer");
        line.push(b'"');
        push_url(referer.as_bytes(), with_query, |part| {
            push_text(line, part, MAX_TEXT, Escape::Json);
        });
        line.push(b'"');
    }
    if !head.listed.is_empty() {
        push_listed(line, head);
    }
}

/// The listed headers. A header may repeat, and a key may not: the first is shown.
fn push_listed(line: &mut Vec<u8>, head: &RequestHead<'_>) {
    name!(line, "headers");
    let mut before = b'{';
    for (index, (name, value)) in head.listed.iter().enumerate() {
        if head.listed[..index].iter().any(|(other, _)| other == name) {
            continue;
        }
        line.extend_from_slice(&[before, b'"']);
        before = b',';
        push_text(line, name.as_str().as_bytes(), MAX_TEXT, Escape::Json);
        line.extend_from_slice(b"\":\"");
        push_text(line, value.as_bytes(), MAX_TEXT, Escape::Json);
        line.push(b'"');
    }
    line.push(b'}');
}

/// Whole microseconds.
fn micros(time: Duration) -> u64 {
    time.as_secs()
        .saturating_mul(1_000_000)
        .saturating_add(time.subsec_micros().into())
}

const SUCCESS: &[u8] = b"\"success\"";

/// The most bytes of a path.
const MAX_PATH: usize = 4096;

/// The most bytes of another text.
const MAX_TEXT: usize = 1024;
