//! The server span of a request, and its end.

use super::{
    exchange::{ServerEnd, TracedConnection, TracedExchange},
    head::TracedHead,
    spans,
    tracer::Tracer,
};
use crate::response_metrics::Classification;
use http::{Response, StatusCode, Version};
use linkerd_proxy_core::{
    Error,
    http::{
        BodyEnd, HttpRequest, Now, ObserveResponse, ObservedResponse, RequestNotes, ResponseBody,
    },
    trace::SpanOutcome,
};
use std::{cell::Cell, rc::Rc};
use tokio::time::Instant;

/// The server span of a request that is on its way.
pub struct ServerSpan {
    tracer: Rc<Tracer>,
    exchange: TracedExchange,
    is_answered: Cell<bool>,
    is_finished: Cell<bool>,
}

impl ServerSpan {
    /// The span of a request that arrives with `notes`.
    pub(super) fn new(
        tracer: &Rc<Tracer>,
        connection: &Rc<TracedConnection>,
        request: &HttpRequest,
        notes: Rc<RequestNotes>,
    ) -> Rc<Self> {
        Rc::new(Self {
            tracer: tracer.clone(),
            exchange: TracedExchange {
                connection: connection.clone(),
                head: TracedHead::of(request),
                notes,
            },
            is_answered: Cell::default(),
            is_finished: Cell::default(),
        })
    }

    /// The head of the response: the span ends with its body.
    pub fn answered(self: &Rc<Self>, response: &mut Response<ResponseBody>) {
        self.is_answered.set(true);
        let start = self.exchange.trace().start;
        response.body_mut().observe(self.clone(), start);
    }

    /// The failure that the proxy answers, or passes on as a reset.
    pub fn failed(&self, error: &Error) {
        let is_http2 = self.exchange.head.version == Version::HTTP_2;
        let is_reset = is_http2 && error.reset_code().is_some();
        let answers_grpc = is_http2 && self.exchange.head.is_grpc();
        let status = match answers_grpc {
            true => StatusCode::OK,
            false => error.status(),
        };
        self.finish(&ServerEnd {
            at: Instant::now(),
            outcome: SpanOutcome::Failure,
            status: (!is_reset).then_some(status),
            grpc_code: (answers_grpc && !is_reset)
                .then(|| u8::try_from(error.grpc_code()).unwrap_or(UNKNOWN)),
            failure: Some((error.reason(), error.to_string())),
        });
    }

    /// The client has given up before there was a response. Nothing happens if there was one.
    pub fn given_up(&self) {
        if self.is_answered.get() {
            return;
        }
        self.finish(&ServerEnd {
            at: Instant::now(),
            outcome: SpanOutcome::Cancelled,
            status: None,
            grpc_code: None,
            failure: None,
        });
    }

    fn finish(&self, end: &ServerEnd) {
        if !self.is_finished.replace(true) {
            self.tracer.send(spans::of_request(&self.exchange, end));
        }
    }
}

impl ObserveResponse for ServerSpan {
    fn end(&self, response: &ObservedResponse<'_>, end: BodyEnd<'_>, now: &Now) {
        self.finish(&ServerEnd {
            at: now.get(),
            outcome: match end {
                BodyEnd::Dropped => SpanOutcome::Cancelled,
                _ if Classification::of(response, end).is_failure() => SpanOutcome::Failure,
                _ => SpanOutcome::Success,
            },
            status: Some(response.status),
            grpc_code: response.grpc_code(end),
            failure: match end {
                BodyEnd::Failed(error) => Some((error.reason(), error.to_string())),
                BodyEnd::Complete(_) | BodyEnd::Dropped => None,
            },
        });
    }
}

/// gRPC's code of a failure without one.
const UNKNOWN: u8 = 2;
