//! The forms of the incumbent's lines. Values that could end a line or a field are escaped, which the incumbent's are not.

use super::{
    escape::{Escape, push_addr, push_text},
    exchange::Exchange,
};
use crate::{
    request_target::without_userinfo,
    utc::{Fraction, UtcClock},
};
use http::{HeaderValue, StatusCode, uri::Authority};
use std::{io::Write, time::Duration};

/// The status of a response, and its content length.
type Answer<'a> = (StatusCode, Option<&'a [u8]>);

/// Adds `CLIENT IDENTITY - [TIME] "METHOD URI VERSION" STATUS`; without a response there is no status.
pub fn push_apache(
    line: &mut Vec<u8>,
    clock: &mut UtcClock,
    exchange: &Exchange,
    answer: Option<Answer<'_>>,
) {
    push_addr(line, exchange.connection.client.addr);
    line.push(b' ');
    push_text(line, identity(exchange), MAX_VALUE, Escape::Hex);
    line.extend_from_slice(b" - [");
    clock.push(line, exchange.time, Fraction::Nanos);
    line.extend_from_slice(b"] \"");
    push_text(line, method(exchange), MAX_VALUE, Escape::Hex);
    line.push(b' ');
    push_text(line, uri(exchange).as_bytes(), MAX_URI, Escape::Hex);
    // A vector takes all.
    let _ = write!(line, " {:?}\"", exchange.head.version);
    if let Some((status, _)) = answer {
        line.push(b' ');
        line.extend_from_slice(status.as_str().as_bytes());
    }
}

/// Adds an object, with its keys in the order of the alphabet.
pub fn push_json(
    line: &mut Vec<u8>,
    clock: &mut UtcClock,
    exchange: &Exchange,
    answer: Option<Answer<'_>>,
    total: Duration,
) {
    let head = &exchange.head;
    let nanos = |time: Duration| time.as_nanos().to_string();
    line.extend_from_slice(b"{\"client.addr\":\"");
    push_addr(line, exchange.connection.client.addr);
    line.push(b'"');
    push_field(line, "client.id", identity(exchange));
    push_field(line, "host", without_userinfo(bytes(head.host.as_ref())));
    push_field(line, "method", method(exchange));
    if answer.is_some() {
        push_field(line, "processing_ns", nanos(exchange.busy.get()).as_bytes());
    }
    push_field(line, "request_bytes", bytes(head.content_length.as_ref()));
    if let Some((status, length)) = answer {
        if let Some(length) = length {
            push_field(line, "response_bytes", length);
        }
        line.extend_from_slice(b",\"status\":");
        line.extend_from_slice(status.as_str().as_bytes());
    }
    line.extend_from_slice(b",\"timestamp\":\"");
    clock.push(line, exchange.time, Fraction::Nanos);
    line.push(b'"');
    if answer.is_some() {
        push_field(line, "total_ns", nanos(total).as_bytes());
    }
    push_field(line, "trace_id", head.incumbent_trace());
    push_value(line, "uri", uri(exchange).as_bytes(), MAX_URI);
    push_field(line, "user_agent", bytes(head.user_agent.as_ref()));
    push_field(line, "version", format!("{:?}", head.version).as_bytes());
    line.push(b'}');
}

fn push_field(line: &mut Vec<u8>, name: &str, value: &[u8]) {
    push_value(line, name, value, MAX_VALUE);
}

fn push_value(line: &mut Vec<u8>, name: &str, value: &[u8], max: usize) {
    // A vector takes all.
    let _ = write!(line, ",\"{name}\":\"");
    push_text(line, value, max, Escape::Json);
    line.push(b'"');
}

fn bytes(value: Option<&HeaderValue>) -> &[u8] {
    value.map_or(b"", HeaderValue::as_bytes)
}

fn identity(exchange: &Exchange) -> &[u8] {
    let identity = exchange.connection.client.tls.identity();
    identity.map_or(b"-", |identity| identity.as_str().as_bytes())
}

fn method(exchange: &Exchange) -> &[u8] {
    exchange.head.method.as_str().as_bytes()
}

/// The target without user and password, which the incumbent's lines have.
fn uri(exchange: &Exchange) -> String {
    let uri = &exchange.head.uri;
    let whole = uri.to_string();
    let Some(authority) = uri.authority().map(Authority::as_str) else {
        return whole;
    };
    match authority.rfind('@') {
        Some(at) => whole.replacen(&authority[..=at], "", 1),
        None => whole,
    }
}

/// The most bytes of a URI.
const MAX_URI: usize = 8192;

/// The most bytes of another value.
const MAX_VALUE: usize = 1024;
