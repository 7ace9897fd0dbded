//! The spans of a request that has ended.
//!
//! Names, kinds and most attributes are linkerd2-proxy's, which follow the semantic conventions of OpenTelemetry for HTTP
//! (<https://opentelemetry.io/docs/specs/semconv/http/http-spans/>). Those that begin with `linkerd.` are this proxy's.

use super::{
    attempts::LEAST_WAIT,
    exchange::{ServerEnd, TracedExchange},
    head::{MAX_TEXT, text},
};
use linkerd_proxy_core::{
    Reason,
    trace::{
        AttemptEnd, AttemptSpan, Attribute,
        AttributeValue::{Int, Text, Word},
        Span, SpanEvent, SpanKind, SpanOutcome, SpanStatus, TraceBatch,
    },
    transport::Side,
};
use std::{net::SocketAddr, time::Duration};

/// The spans of a request: the server's, and one for each attempt.
pub(super) fn of_request(request: &TracedExchange, end: &ServerEnd) -> TraceBatch {
    let attempts = request.trace().attempts();
    let mut spans = Vec::with_capacity(1 + attempts.len());
    spans.push(server(request, end));
    for (number, attempt) in attempts.iter().enumerate() {
        spans.push(client(request, attempt, number, end));
    }
    TraceBatch(spans)
}

fn server(request: &TracedExchange, end: &ServerEnd) -> Span {
    let (trace, notes) = (request.trace(), &request.notes);
    let mut attributes = attributes(request, SpanKind::Server);
    let peer = &request.connection.client;
    push_peer(&mut attributes, peer.addr);
    let identity = peer.tls.identity().map(|identity| identity.as_str());
    push_identity(&mut attributes, "client_id", peer.tls.is_meshed(), identity);
    if let Some(route) = notes.route() {
        attributes.push(("linkerd.route", Text(text(route.as_bytes(), MAX_TEXT))));
    }
    let code = end.status.map(|status| status.as_u16());
    attributes.push(("linkerd.attempts", Int(notes.sent().into())));
    let unrecorded = trace.unrecorded_attempts();
    if unrecorded > 0 {
        attributes.push(("linkerd.unrecorded_attempts", Int(unrecorded.into())));
    }
    let status = push_end(
        &mut attributes,
        end.outcome,
        code,
        end.grpc_code,
        end.failure.as_ref(),
    );
    Span {
        trace: trace.id(),
        id: trace.server,
        parent: trace.context.parent,
        has_remote_parent: trace.context.parent.is_some(),
        name: request.head.span_name(),
        kind: SpanKind::Server,
        start: trace.time,
        end: trace.time_of(end.at),
        attributes,
        events: discovery(request),
        status,
    }
}

/// The moment at which the destination of a request was known, if it waited for that.
fn discovery(request: &TracedExchange) -> Vec<SpanEvent> {
    let waited = request.notes.discovery();
    let waited = waited.filter(|(_, wait)| *wait >= LEAST_WAIT);
    let event = waited.map(|(at, wait)| SpanEvent {
        name: EVENT_DISCOVERED,
        time: request.trace().time_of(at),
        attributes: vec![("linkerd.wait_us", Int(micros(wait)))],
    });
    event.into_iter().collect()
}

fn client(
    request: &TracedExchange,
    attempt: &AttemptSpan,
    number: usize,
    above: &ServerEnd,
) -> Span {
    let trace = request.trace();
    // An attempt outlives its request if its response is read on after a reset: it ends with the request.
    let end = attempt.end().unwrap_or(AttemptEnd {
        at: above.at,
        outcome: SpanOutcome::Cancelled,
        grpc_code: None,
        failure: None,
    });
    let mut attributes = attributes(request, SpanKind::Client);
    if let Some(endpoint) = attempt.endpoint {
        push_peer(&mut attributes, endpoint);
    }
    let identity = attempt.identity();
    let identity = identity.as_ref().map(|identity| identity.as_str());
    push_identity(&mut attributes, "server_id", identity.is_some(), identity);
    if let Some(backend) = &attempt.backend {
        attributes.push(("linkerd.backend", Text(text(backend.as_bytes(), MAX_TEXT))));
    }
    if number > 0 {
        let resends = i64::try_from(number).unwrap_or(i64::MAX);
        attributes.push(("http.request.resend_count", Int(resends)));
    }
    let code = attempt.head().map(|(_, status)| status.as_u16());
    let status = push_end(
        &mut attributes,
        end.outcome,
        code,
        end.grpc_code,
        end.failure.as_ref(),
    );
    Span {
        trace: trace.id(),
        id: attempt.id,
        parent: Some(trace.server),
        has_remote_parent: false,
        name: request.head.span_name(),
        kind: SpanKind::Client,
        start: trace.time_of(attempt.start),
        end: trace.time_of(end.at),
        attributes,
        events: events(request, attempt),
        status,
    }
}

/// The moments of an attempt: its wait for an endpoint, its connect, the head of its response.
fn events(request: &TracedExchange, attempt: &AttemptSpan) -> Vec<SpanEvent> {
    let trace = request.trace();
    let event = |name, at, attributes| SpanEvent {
        name,
        time: trace.time_of(at),
        attributes,
    };
    let mut events = Vec::new();
    if let Some(waited) = attempt.waited {
        let wait = vec![("linkerd.wait_us", Int(micros(waited)))];
        events.push(event(EVENT_QUEUED, attempt.start, wait));
    }
    if let Some((began, ended)) = attempt.connect() {
        events.push(event(EVENT_CONNECT, began, Vec::new()));
        let connect = vec![("linkerd.connect_us", Int(micros(ended - began)))];
        events.push(event(EVENT_CONNECTED, ended, connect));
    }
    if let Some((at, _)) = attempt.head() {
        events.push(event(EVENT_RESPONSE, at, Vec::new()));
    }
    events
}

fn attributes(request: &TracedExchange, kind: SpanKind) -> Vec<Attribute> {
    let direction = match request.connection.side {
        Side::Inbound => "inbound",
        Side::Outbound | Side::Control => "outbound",
    };
    let mut attributes = Vec::with_capacity(ATTRIBUTES);
    attributes.push(("direction", Word(direction)));
    let with_query = request.connection.with_query;
    request
        .head
        .push_attributes(kind, with_query, &mut attributes);
    attributes
}

fn push_peer(attributes: &mut Vec<Attribute>, peer: SocketAddr) {
    let address = peer.ip().to_canonical().to_string();
    attributes.push(("network.peer.address", Text(address)));
    attributes.push(("network.peer.port", Int(peer.port().into())));
}

/// The encryption of the connection, by the labels of the metrics.
fn push_identity(
    attributes: &mut Vec<Attribute>,
    key: &'static str,
    is_meshed: bool,
    identity: Option<&str>,
) {
    let tls = match is_meshed {
        true => "true",
        false => "no_identity",
    };
    attributes.push(("tls", Word(tls)));
    if let Some(identity) = identity {
        attributes.push((key, Text(text(identity.as_bytes(), MAX_TEXT))));
    }
}

/// Adds the response, or the failure.
fn push_end(
    attributes: &mut Vec<Attribute>,
    outcome: SpanOutcome,
    status: Option<u16>,
    grpc_code: Option<u8>,
    failure: Option<&(Reason, String)>,
) -> SpanStatus {
    if let Some(status) = status {
        // A text, as linkerd2-proxy has it.
        attributes.push(("http.response.status_code", Text(status.to_string())));
    }
    if let Some(code) = grpc_code {
        attributes.push(("rpc.grpc.status_code", Int(code.into())));
    }
    attributes.push(("linkerd.outcome", Word(outcome.name())));
    if let Some((reason, _)) = failure {
        let row = reason.row();
        attributes.push(("linkerd.reason", Word(row.label)));
        attributes.push(("linkerd.origin", Word(row.origin.name())));
        attributes.push(("linkerd.phase", Word(row.phase.name())));
    }
    if outcome != SpanOutcome::Failure {
        return SpanStatus::Unset;
    }
    let kind = match (failure, grpc_code, status) {
        (Some((reason, _)), ..) => Word(reason.label()),
        (None, Some(code), _) if code != 0 => Text(code.to_string()),
        (None, _, Some(status)) => Text(status.to_string()),
        (None, _, None) => Word("timeout"),
    };
    attributes.push(("error.type", kind));
    let message = failure.map_or("", |(_, message)| message);
    SpanStatus::Error(text(message.as_bytes(), MAX_TEXT))
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// The destination is known after the request waited for it.
pub(super) const EVENT_DISCOVERED: &str = "destination.discovered";
/// The attempt begins after the request waited for an endpoint.
pub(super) const EVENT_QUEUED: &str = "endpoint.available";
/// A connection is opened for the request.
pub(super) const EVENT_CONNECT: &str = "connect.start";
/// The connection is open, or has failed.
pub(super) const EVENT_CONNECTED: &str = "connect.end";
/// The head of the response.
pub(super) const EVENT_RESPONSE: &str = "response.headers";

/// Attributes of most spans.
const ATTRIBUTES: usize = 24;
