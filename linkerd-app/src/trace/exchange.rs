//! The facts of a request that its spans show.

use super::head::TracedHead;
use http::StatusCode;
use linkerd_proxy_core::{
    Reason,
    http::RequestNotes,
    trace::{RequestTrace, SpanOutcome},
    transport::{ClientInfo, Side},
};
use std::rc::Rc;
use tokio::time::Instant;

/// A client's connection, for the spans of its requests.
#[derive(Debug)]
pub(super) struct TracedConnection {
    /// The direction.
    pub(super) side: Side,
    /// The connection.
    pub(super) client: Rc<ClientInfo>,
    /// Whether its spans show queries.
    pub(super) with_query: bool,
}

/// A sampled request, with the notes so far.
pub(super) struct TracedExchange {
    /// The client's connection.
    pub(super) connection: Rc<TracedConnection>,
    /// The request.
    pub(super) head: TracedHead,
    /// Notes of the stages.
    pub(super) notes: Rc<RequestNotes>,
}

/// The end of a request.
#[derive(Debug)]
pub(super) struct ServerEnd {
    /// Its time.
    pub(super) at: Instant,
    /// Success or failure.
    pub(super) outcome: SpanOutcome,
    /// The status, `None` if there was no response.
    pub(super) status: Option<StatusCode>,
    /// The gRPC code, if there is one.
    pub(super) grpc_code: Option<u8>,
    /// The cause, if the proxy knows it, and its message.
    pub(super) failure: Option<(Reason, String)>,
}

impl TracedExchange {
    /// The trace.
    pub(super) fn trace(&self) -> &RequestTrace {
        let trace = self.notes.trace();
        trace.expect("a request with a server span has notes with a trace")
    }
}
