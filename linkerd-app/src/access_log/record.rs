//! The record of an exchange, and the time at which its line is written.

use super::{
    AccessLogWriter,
    exchange::{Arrival, Exchange, ExchangeEnd, LoggedConnection, Outcome},
    full,
    head::RequestHead,
    incumbent,
    line::Line,
    text,
};
use crate::{config::AccessLogFormat, response_metrics::Classification};
use http::{Response, StatusCode, header::CONTENT_LENGTH};
use linkerd_proxy_core::{
    Error, Reason,
    http::{
        BodyEnd, HttpRequest, Now, ObserveRequest, ObserveResponse, ObservedRequest,
        ObservedResponse, PeerAnswer, PeerFailure, ResponseBody,
    },
    transport::ListenerContext,
};
use std::{
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// An exchange whose line is written at its end.
pub struct AccessRecord {
    writer: Rc<AccessLogWriter>,
    exchange: Exchange,
    /// The line, begun when the request arrived.
    line: RefCell<Line>,
    is_http2: bool,
    is_grpc: bool,
    /// Whether the line shows the time that the stages below take.
    is_timed: bool,
    first_byte: Cell<Option<Duration>>,
    /// The failure that the endpoint's proxy has answered.
    peer_failure: OnceCell<PeerFailure>,
    is_written: Cell<bool>,
    /// The listener of the client's connection.
    listener: Option<Rc<ListenerContext>>,
}

impl AccessRecord {
    /// A request that arrives. Stages below make their notes in its context.
    pub fn new(
        writer: &Rc<AccessLogWriter>,
        connection: &LoggedConnection,
        request: &mut HttpRequest,
    ) -> Rc<Self> {
        let notes = request.context().notes.clone().unwrap_or_default();
        let config = writer.config();
        let client = request.context().client.as_ref();
        let arrival = Arrival {
            connection,
            head: RequestHead::of(request, config),
            has_query: config.query,
            notes: &notes,
            time: SystemTime::now(),
        };
        let record = Rc::new(Self {
            writer: writer.clone(),
            line: RefCell::new(writer.begin(&arrival)),
            is_http2: arrival.head.version == http::Version::HTTP_2,
            is_grpc: arrival.head.is_grpc,
            exchange: Exchange {
                notes: notes.clone(),
                start: request.context().arrived,
                request_bytes: Cell::default(),
                response_bytes: Cell::default(),
                busy: Cell::default(),
            },
            is_timed: config.format == AccessLogFormat::Json,
            first_byte: Cell::default(),
            peer_failure: OnceCell::new(),
            is_written: Cell::default(),
            listener: client.map(|client| client.listener.clone()),
        });
        if !record.is_incumbent() {
            request.context_mut().notes = Some(notes);
            let start = record.exchange.start;
            request.body_mut().observe(&record, start);
        }
        record
    }

    /// The stages below are called or polled next: returns the time, if the form of the lines shows how long they take.
    #[inline]
    pub fn begin_turn(&self) -> Option<Instant> {
        self.is_timed.then(Instant::now)
    }

    /// Adds the time of a turn of the stages below.
    #[inline]
    pub fn end_turn(&self, began: Option<Instant>) {
        if let Some(began) = began {
            let busy = &self.exchange.busy;
            busy.set(busy.get() + began.elapsed());
        }
    }

    /// The head of the response. The incumbent's lines end here.
    pub fn answered(self: &Rc<Self>, response: &mut Response<ResponseBody>) {
        let elapsed = self.exchange.start.elapsed();
        self.first_byte.set(Some(elapsed));
        if let Some(failure) = response.peer_failure() {
            let _ = self.peer_failure.set(failure.clone());
        }
        if self.is_incumbent() {
            let length = response.headers().get(CONTENT_LENGTH);
            let length = length.map(|length| length.as_bytes());
            self.write_incumbent(Some((response.status(), length)), elapsed);
        } else {
            response
                .body_mut()
                .observe(self.clone(), self.exchange.start);
        }
    }

    /// The failure that the proxy answers, or passes on as a reset.
    pub fn failed(&self, error: &Error) {
        let is_reset = self.is_http2 && error.reset_code().is_some();
        let answers_grpc = self.is_http2 && self.is_grpc;
        let status = match answers_grpc {
            true => StatusCode::OK,
            false => error.status(),
        };
        let duration = self.exchange.start.elapsed();
        if self.is_incumbent() {
            let answer = (status, Some(&b"0"[..]));
            return self.write_incumbent((!is_reset).then_some(answer), duration);
        }
        self.write(&ExchangeEnd {
            outcome: Outcome::Failure,
            status: (!is_reset).then_some(status),
            grpc_status: (answers_grpc && !is_reset).then(|| error.grpc_code()),
            failure: Some((error.reason(), error.to_string())),
            first_byte: None,
            duration,
        });
    }

    /// The client has given up before there was a response. Nothing happens if there was one.
    pub fn given_up(&self) {
        if self.first_byte.get().is_some() || self.is_written.get() {
            return;
        }
        if self.is_incumbent() {
            return self.write_incumbent(None, Duration::ZERO);
        }
        let failure = self.cut_off();
        self.write(&ExchangeEnd {
            outcome: match failure {
                Some(_) => Outcome::Failure,
                None => Outcome::Cancelled,
            },
            status: None,
            grpc_status: None,
            failure,
            first_byte: None,
            duration: self.exchange.start.elapsed(),
        });
    }

    /// The reason why an exchange ended without its client, if the proxy has cut off the connection.
    fn cut_off(&self) -> Option<(Reason, String)> {
        let reason = self.listener.as_ref()?.cut_off_reason()?;
        Some((reason, reason.to_string()))
    }

    fn is_incumbent(&self) -> bool {
        self.writer.format().is_incumbent()
    }

    fn write_incumbent(&self, answer: Option<(StatusCode, Option<&[u8]>)>, total: Duration) {
        self.is_written.set(true);
        let mut line = self.line.borrow_mut();
        match self.writer.format() {
            AccessLogFormat::Apache => incumbent::end_apache(&mut line.bytes, answer),
            _ => incumbent::end_json(&mut line, answer, self.exchange.busy.get(), total),
        }
        self.writer.write(&mut line);
    }

    fn write(&self, end: &ExchangeEnd) {
        if self.is_written.replace(true) {
            return;
        }
        if end.outcome == Outcome::Success && !self.writer.is_sampled() {
            return;
        }
        let mut line = self.line.borrow_mut();
        match self.writer.format() {
            AccessLogFormat::Text => text::end(&mut line.bytes, &self.exchange, end),
            _ => full::end(&mut line, &mut self.writer.ways(), &self.exchange, end),
        }
        self.writer.write(&mut line);
    }
}

impl ObserveRequest for AccessRecord {
    fn data(&self, request: &ObservedRequest, len: usize, _: &Now) {
        // An attempt sends the body from its beginning.
        let before = match request.has_data {
            true => self.exchange.request_bytes.get(),
            false => 0,
        };
        self.exchange.request_bytes.set(before + len as u64);
    }
}

impl ObserveResponse for AccessRecord {
    fn data(&self, _: &ObservedResponse<'_>, len: usize, _: &Now) {
        let bytes = &self.exchange.response_bytes;
        bytes.set(bytes.get() + len as u64);
    }

    fn end(&self, response: &ObservedResponse<'_>, end: BodyEnd<'_>, now: &Now) {
        let code = response.grpc_code(end);
        let told = self.peer_failure.get();
        let cut_off = match end {
            BodyEnd::Dropped => self.cut_off(),
            _ => None,
        };
        let outcome = match end {
            BodyEnd::Dropped if cut_off.is_none() => Outcome::Cancelled,
            BodyEnd::Dropped => Outcome::Failure,
            _ if told.is_some() => Outcome::Failure,
            _ if Classification::of(response, end).is_failure() => Outcome::Failure,
            _ => Outcome::Success,
        };
        self.write(&ExchangeEnd {
            outcome,
            status: Some(response.status),
            grpc_status: code.map(u16::from),
            failure: match end {
                BodyEnd::Failed(error) => Some((error.reason(), error.to_string())),
                BodyEnd::Complete(_) | BodyEnd::Dropped => {
                    cut_off.or_else(|| told.map(PeerFailure::describe))
                }
            },
            first_byte: self.first_byte.get(),
            duration: now.since(self.exchange.start),
        });
    }
}
