//! The forms of the incumbent's lines. Values that could end a line or a field are escaped, unlike the incumbent's.

use super::{
    escape::{Escape, push_addr, push_text},
    exchange::Arrival,
    line::Line,
};
use crate::{
    request_target::without_userinfo,
    utc::{Fraction, UtcClock},
};
use http::{HeaderValue, StatusCode, uri::Authority};
use std::{io::Write, time::Duration};

/// The status of a response, and its content length.
type Answer<'a> = (StatusCode, Option<&'a [u8]>);

/// Adds `CLIENT IDENTITY - [TIME] "METHOD URI VERSION"`.
pub fn begin_apache(line: &mut Vec<u8>, clock: &mut UtcClock, arrival: &Arrival<'_>) {
    push_addr(line, arrival.connection.client.addr);
    line.push(b' ');
    push_text(line, identity(arrival), MAX_VALUE, Escape::Hex);
    line.extend_from_slice(b" - [");
    clock.push(line, arrival.time, Fraction::Nanos);
    line.extend_from_slice(b"] \"");
    push_text(line, method(arrival), MAX_VALUE, Escape::Hex);
    line.push(b' ');
    push_text(line, uri(arrival).as_bytes(), MAX_URI, Escape::Hex);
    // A write to a vector does not fail.
    let _ = write!(line, " {:?}\"", arrival.head.version);
}

/// Adds ` STATUS`, if there is a response.
pub fn end_apache(line: &mut Vec<u8>, answer: Option<Answer<'_>>) {
    if let Some((status, _)) = answer {
        line.push(b' ');
        line.extend_from_slice(status.as_str().as_bytes());
    }
}

/// Adds an object, with its keys in alphabetical order, and marks the places of the keys that come with the response.
pub fn begin_json(line: &mut Line, clock: &mut UtcClock, arrival: &Arrival<'_>) {
    let head = &arrival.head;
    let bytes = &mut line.bytes;
    bytes.extend_from_slice(b"{\"client.addr\":\"");
    push_addr(bytes, arrival.connection.client.addr);
    bytes.push(b'"');
    push_field(bytes, "client.id", identity(arrival));
    push_field(bytes, "host", without_userinfo(value(head.host)));
    push_field(bytes, "method", method(arrival));
    let busy = bytes.len();
    push_field(bytes, "request_bytes", value(head.content_length));
    let response = bytes.len();
    bytes.extend_from_slice(b",\"timestamp\":\"");
    clock.push(bytes, arrival.time, Fraction::Nanos);
    bytes.push(b'"');
    let total = bytes.len();
    push_field(bytes, "trace_id", head.incumbent_trace());
    push_value(bytes, "uri", uri(arrival).as_bytes(), MAX_URI);
    push_field(bytes, "user_agent", value(head.user_agent));
    push_field(bytes, "version", format!("{:?}", head.version).as_bytes());
    bytes.push(b'}');
    line.marks = [busy, response, total];
}

/// Adds the keys that come with the response, the last one first. `busy` is the time that the stages took, and `total` that of all.
pub fn end_json(line: &mut Line, answer: Option<Answer<'_>>, busy: Duration, total: Duration) {
    let Some((status, length)) = answer else {
        return;
    };
    let nanos = |time: Duration| time.as_nanos().to_string();
    let [at_busy, at_response, at_total] = line.marks;
    line.insert(at_total, |bytes| {
        push_field(bytes, "total_ns", nanos(total).as_bytes());
    });
    line.insert(at_response, |bytes| {
        if let Some(length) = length {
            push_field(bytes, "response_bytes", length);
        }
        bytes.extend_from_slice(b",\"status\":");
        bytes.extend_from_slice(status.as_str().as_bytes());
    });
    line.insert(at_busy, |bytes| {
        push_field(bytes, "processing_ns", nanos(busy).as_bytes());
    });
}

fn push_field(line: &mut Vec<u8>, name: &str, value: &[u8]) {
    push_value(line, name, value, MAX_VALUE);
}

fn push_value(line: &mut Vec<u8>, name: &str, value: &[u8], max: usize) {
    // A write to a vector does not fail.
    let _ = write!(line, ",\"{name}\":\"");
    push_text(line, value, max, Escape::Json);
    line.push(b'"');
}

fn value(value: Option<&HeaderValue>) -> &[u8] {
    value.map_or(b"", HeaderValue::as_bytes)
}

fn identity<'r>(arrival: &Arrival<'r>) -> &'r [u8] {
    let identity = arrival.connection.client.tls.identity();
    identity.map_or(b"-", |identity| identity.as_str().as_bytes())
}

fn method<'r>(arrival: &Arrival<'r>) -> &'r [u8] {
    arrival.head.method.as_str().as_bytes()
}

/// The target without user and password, which the incumbent does log.
fn uri(arrival: &Arrival<'_>) -> String {
    let uri = arrival.head.uri;
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
