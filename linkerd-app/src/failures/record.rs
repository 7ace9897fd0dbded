//! One failure, and the order of those of all workers.

use super::{MAX_TEXT, RequestHead};
use crate::cut::cut;
use http::StatusCode;
use linkerd_proxy_core::{
    Error, Reason, http::PeerFailure, metrics::Labels, reason::Origin, transport::Side,
};
use serde_json::{Value, json};
use std::{
    error::Error as _,
    net::SocketAddr,
    time::{SystemTime, UNIX_EPOCH},
};

/// A request that this proxy or the endpoint's proxy answered or reset itself, or a connection that this proxy closed.
#[derive(Debug)]
pub struct FailureRecord {
    at: SystemTime,
    side: Side,
    protocol: FailureProtocol,
    reason: Reason,
    origin: Origin,
    hint: &'static str,
    detail: String,
    client: SocketAddr,
    destination: String,
    path: Option<String>,
    endpoint: Option<SocketAddr>,
    trace_id: Option<String>,
    status: Option<u16>,
    grpc_code: Option<u16>,
    is_reset: bool,
    /// The endpoint's proxy has answered it, not this one.
    is_told_by_peer: bool,
}

/// The unit that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureProtocol {
    /// A request.
    Http,
    /// A gRPC request.
    Grpc,
    /// A connection.
    Connection,
}

impl FailureProtocol {
    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Connection => "connection",
        }
    }
}

impl FailureRecord {
    /// A failure that happens now.
    pub fn new(side: Side, protocol: FailureProtocol, client: SocketAddr, error: &Error) -> Self {
        // The end of a connection is no answer, even if it has a code, as that of HTTP/2 has.
        let is_reset = protocol != FailureProtocol::Connection && error.reset_code().is_some();
        let (status, grpc_code) = match protocol {
            _ if is_reset => (None, None),
            FailureProtocol::Connection => (None, None),
            FailureProtocol::Http => (Some(error.status().as_u16()), None),
            FailureProtocol::Grpc => (Some(200), Some(error.grpc_code())),
        };
        Self {
            at: SystemTime::now(),
            side,
            protocol,
            reason: error.reason(),
            origin: error.origin(),
            hint: error.hint(),
            detail: cut(detail_of(error), MAX_TEXT),
            client,
            destination: String::new(),
            path: None,
            endpoint: error.peer_addr(),
            trace_id: None,
            status,
            grpc_code,
            is_reset,
            is_told_by_peer: false,
        }
    }

    /// A failure that the endpoint's proxy has answered with `status`.
    pub fn told(
        side: Side,
        protocol: FailureProtocol,
        client: SocketAddr,
        failure: &PeerFailure,
        status: StatusCode,
    ) -> Self {
        let (reason, detail) = failure.describe();
        let record = Self::new(side, protocol, client, &Error::new(reason));
        Self {
            detail: cut(detail, MAX_TEXT),
            status: Some(status.as_u16()),
            is_told_by_peer: true,
            ..record
        }
    }

    /// Sets the destination of the connection.
    pub fn of_connection(mut self, destination: SocketAddr) -> Self {
        self.destination = destination.to_string();
        self
    }

    /// Sets the destination, the path and the trace of a request.
    pub fn of_request(mut self, head: &RequestHead) -> Self {
        if let Some(authority) = head.authority() {
            self.destination = cut(authority, MAX_TEXT);
        }
        self.path = Some(cut(head.path().to_owned(), MAX_TEXT));
        self.trace_id = head.trace_id().map(str::to_owned);
        self
    }

    /// Marks a failure after the head of the response: there was no answer, but a reset.
    pub fn after_head(mut self) -> Self {
        (self.status, self.grpc_code, self.is_reset) = (None, None, true);
        self
    }

    /// Whether the endpoint's proxy has refused the request: without the reason, its answer would be no failure.
    pub fn is_refused_by_peer(&self) -> bool {
        self.is_told_by_peer && self.status.is_some_and(|status| status < 500)
    }

    /// The labels under which the failure is counted.
    pub fn labels(&self) -> Labels {
        let row = self.reason.row();
        Labels::new()
            .with("direction", self.side.name())
            .with("protocol", self.protocol.name())
            .with("origin", row.origin.name())
            .with("phase", row.phase.name())
            .with("reason", row.label)
    }

    /// The failure in `/state`. `number` is that of its ring: with the time it makes an id that stays the same.
    pub fn inspect(&self, number: u64) -> Value {
        let row = self.reason.row();
        let since_epoch = self.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let time_ms = since_epoch.as_millis() as u64;
        json!({
            "id": format!("{time_ms}-{number}"),
            "time_ms": time_ms,
            "direction": self.side.name(),
            "protocol": self.protocol.name(),
            "reason": self.reason.label(),
            "origin": self.origin.name(),
            "phase": row.phase.name(),
            "hint": self.hint,
            "detail": self.detail,
            "client": self.client.to_string(),
            "destination": self.destination,
            "path": self.path,
            "endpoint": self.endpoint.map(|endpoint| endpoint.to_string()),
            "trace_id": self.trace_id,
            "status": self.status,
            "grpc_code": self.grpc_code,
            "reset": self.is_reset,
            "told_by_peer": self.is_told_by_peer,
        })
    }
}

/// The text of an error, and its cause if the text does not have it: the cause may be for the proxy's own records alone.
fn detail_of(error: &Error) -> String {
    let text = error.to_string();
    let cause = error.source().map(ToString::to_string);
    match cause.filter(|cause| !text.contains(cause)) {
        Some(cause) => format!("{text}: {cause}"),
        None => text,
    }
}

/// The failures of all workers, newest first: the section of `/state`.
pub fn merge(workers: Vec<Value>) -> Value {
    let number = |worker: &Value, name| worker[name].as_u64().unwrap_or(0);
    let total: u64 = workers.iter().map(|worker| number(worker, "total")).sum();
    let refused: u64 = workers
        .iter()
        .map(|worker| number(worker, "refused_by_peers"))
        .sum();
    let limit: u64 = workers.iter().map(|worker| number(worker, "limit")).sum();
    let lists = workers
        .into_iter()
        .filter_map(|mut worker| match worker["last"].take() {
            Value::Array(last) => Some(last),
            _ => None,
        });
    let mut last: Vec<_> = lists.flatten().collect();
    // Stable: failures of one worker and one millisecond stay in order.
    last.sort_by_key(|record| std::cmp::Reverse(record["time_ms"].as_u64()));
    json!({ "total": total, "refused_by_peers": refused, "limit": limit, "last": last })
}
