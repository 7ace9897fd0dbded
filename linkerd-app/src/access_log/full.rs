//! The full form of a line: a JSON object. What is not known, or did not happen, is left out.

use super::{
    escape::{Escape, push_addr, push_number, push_text},
    exchange::{Exchange, ExchangeEnd},
    head::RequestHead,
};
use crate::{
    request_target::push_url,
    utc::{Fraction, UtcClock},
};
use http::Version;
use linkerd_proxy_core::{
    Reason,
    transport::{ClientInfo, Side},
};
use std::time::Duration;

/// Adds the bytes before a value. The length is known when it is compiled: a few moves in place of a call.
macro_rules! name {
    ($line:expr, $name:literal) => {
        $line.extend_from_slice(concat!(",\"", $name, "\":").as_bytes())
    };
}

/// Adds a text that others wrote.
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

/// Adds a word of the proxy's own, in which nothing is to be escaped.
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

/// Adds the line of an exchange.
pub fn push(line: &mut Vec<u8>, clock: &mut UtcClock, exchange: &Exchange, end: &ExchangeEnd) {
    line.extend_from_slice(b"{\"time\":\"");
    clock.push(line, exchange.time, Fraction::Micros);
    line.push(b'"');
    line.extend_from_slice(&exchange.connection.fields);
    word!(line, "outcome", end.outcome.name());
    push_request(line, exchange);
    push_response(line, exchange, end);
    push_way(line, exchange);
    number!(line, "request_bytes", exchange.request_bytes.get());
    number!(line, "response_bytes", exchange.response_bytes.get());
    push_times(line, exchange, end);
    push_origin(line, exchange);
    line.push(b'}');
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
fn push_request(line: &mut Vec<u8>, exchange: &Exchange) {
    let head = &exchange.head;
    // A token has nothing to be escaped (RFC 9110, 5.6.2).
    word!(line, "method", head.method.as_str());
    if let Some(scheme) = head.uri.scheme_str() {
        text!(line, "scheme", scheme.as_bytes());
    }
    text!(line, "authority", head.authority());
    text!(line, "path", head.path(exchange.has_query), MAX_PATH);
    word!(line, "version", version(head.version));
}

/// The response, or the failure.
fn push_response(line: &mut Vec<u8>, exchange: &Exchange, end: &ExchangeEnd) {
    if let Some(status) = end.status {
        number!(line, "status", status.as_u16().into());
    }
    if let Some(code) = end.grpc_status {
        number!(line, "grpc_status", code.into());
    }
    if let Some((reason, message)) = &end.failure {
        push_failure(line, *reason, message);
    }
    number!(line, "sent", exchange.notes.sent().into());
    number!(line, "returned", exchange.notes.returned().into());
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
fn push_way(line: &mut Vec<u8>, exchange: &Exchange) {
    let notes = &exchange.notes;
    if let Some(route) = notes.route() {
        text!(line, "route", route.as_bytes());
    }
    if let Some(backend) = notes.backend() {
        text!(line, "backend", backend.as_bytes());
    }
    if let Some(endpoint) = notes.endpoint() {
        addr!(line, "endpoint", endpoint);
    }
    if let Some(identity) = notes.identity() {
        text!(line, "endpoint_identity", identity.as_str().as_bytes());
    }
}

fn push_times(line: &mut Vec<u8>, exchange: &Exchange, end: &ExchangeEnd) {
    let notes = &exchange.notes;
    if let Some((_, wait)) = notes.discovery() {
        number!(line, "discovery_us", micros(wait));
    }
    if let Some(sent) = notes.first_sent() {
        let wait = sent.saturating_duration_since(exchange.start);
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
fn push_origin(line: &mut Vec<u8>, exchange: &Exchange) {
    let (head, with_query) = (&exchange.head, exchange.has_query);
    if let Some(trace) = head.trace_id() {
        text!(line, "trace_id", trace);
    } else if let Some(trace) = exchange.notes.trace() {
        // It begins here.
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

/// The listed headers. One may come more than once, and a key may not: the first is shown.
fn push_listed(line: &mut Vec<u8>, head: &RequestHead) {
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

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2",
        _ => "HTTP/1.1",
    }
}

/// Whole microseconds.
fn micros(time: Duration) -> u64 {
    time.as_secs()
        .saturating_mul(1_000_000)
        .saturating_add(time.subsec_micros().into())
}

/// The most bytes of a path.
const MAX_PATH: usize = 4096;

/// The most bytes of another text.
const MAX_TEXT: usize = 1024;
