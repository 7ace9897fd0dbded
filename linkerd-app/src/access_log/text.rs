//! The form of a line for a person.

use super::{
    escape::{Escape, push_addr, push_number, push_text},
    exchange::{Arrival, Exchange, ExchangeEnd, Outcome},
    full::side,
};
use crate::utc::UtcClock;
use linkerd_proxy_core::transport::{ClientInfo, Side};
use std::{
    io::Write,
    time::{Duration, SystemTime},
};

/// Adds `10:42:03.462 outbound GET web/path`.
pub fn begin(line: &mut Vec<u8>, clock: &mut UtcClock, arrival: &Arrival<'_>) {
    let head = &arrival.head;
    clock.push_time_of_day(line, arrival.time);
    for word in [side(arrival.connection.side), head.method.as_str()] {
        line.push(b' ');
        push_text(line, word.as_bytes(), MAX_TEXT, Escape::Hex);
    }
    line.push(b' ');
    push_word(line, head.authority());
    push_word(line, head.path(arrival.has_query));
}

/// Adds ` -> 200 in 1.2 ms from 10.0.0.1:80`, with the backend, the cause of a failure and its hint.
pub fn end(line: &mut Vec<u8>, exchange: &Exchange, end: &ExchangeEnd) {
    line.extend_from_slice(b" -> ");
    push_result(line, end);
    line.extend_from_slice(b" in ");
    push_millis(line, end.duration);
    if let Some(endpoint) = exchange.notes.endpoint() {
        line.extend_from_slice(b" from ");
        push_addr(line, endpoint);
    }
    if let Some(backend) = exchange.notes.backend() {
        line.extend_from_slice(b" of ");
        push_text(line, backend.as_bytes(), MAX_TEXT, Escape::Hex);
    }
    let sent = exchange.notes.sent();
    if sent > 1 {
        line.extend_from_slice(b", sent ");
        push_number(line, sent.into());
        line.extend_from_slice(b" times");
    }
    push_cause(line, end);
}

/// Adds `10:42:03.462 outbound request of 10.0.0.9:40000 -> 400 malformed_request`, with the cause and its hint: the line of a
/// request that was refused before it was complete.
pub fn refused(
    line: &mut Vec<u8>,
    clock: &mut UtcClock,
    now: SystemTime,
    direction: Side,
    client: &ClientInfo,
    end: &ExchangeEnd,
) {
    clock.push_time_of_day(line, now);
    line.push(b' ');
    line.extend_from_slice(side(direction).as_bytes());
    line.extend_from_slice(b" request of ");
    push_addr(line, client.addr);
    line.extend_from_slice(b" -> ");
    push_result(line, end);
    push_cause(line, end);
}

/// The cause of a failure, and its hint.
fn push_cause(line: &mut Vec<u8>, end: &ExchangeEnd) {
    if let Some((reason, message)) = &end.failure {
        line.extend_from_slice(b": ");
        push_text(line, message.as_bytes(), MAX_TEXT, Escape::Hex);
        line.extend_from_slice(b". ");
        line.extend_from_slice(reason.hint().as_bytes());
    }
}

/// A text that is one word: a client's spaces could look like the result.
fn push_word(line: &mut Vec<u8>, text: &[u8]) {
    for (index, part) in text.split(|byte| *byte == b' ').enumerate() {
        if index > 0 {
            line.extend_from_slice(b"\\x20");
        }
        push_text(line, part, MAX_TEXT, Escape::Hex);
    }
}

/// The status, the gRPC code and the reason.
fn push_result(line: &mut Vec<u8>, end: &ExchangeEnd) {
    match end.status {
        Some(status) => line.extend_from_slice(status.as_str().as_bytes()),
        None => line.extend_from_slice(b"no response"),
    }
    if let Some(code) = end.grpc_status {
        line.extend_from_slice(b" grpc-status ");
        push_number(line, code.into());
    }
    if end.outcome == Outcome::Cancelled {
        line.extend_from_slice(b" cancelled by the client");
    }
    if let Some((reason, _)) = &end.failure {
        line.push(b' ');
        line.extend_from_slice(reason.label().as_bytes());
    }
}

fn push_millis(line: &mut Vec<u8>, time: Duration) {
    // A write to a vector does not fail.
    let _ = write!(line, "{:.1} ms", time.as_secs_f64() * 1000.0);
}

const MAX_TEXT: usize = 1024;
