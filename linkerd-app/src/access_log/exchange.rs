//! The facts of an exchange that its line shows.

use super::head::RequestHead;
use http::StatusCode;
use linkerd_proxy_core::{
    Reason,
    http::RequestNotes,
    transport::{ClientInfo, Side},
};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// A client's connection, for the lines of its requests.
#[derive(Debug)]
pub struct LoggedConnection {
    /// The direction.
    pub side: Side,
    /// The connection.
    pub client: Rc<ClientInfo>,
    /// The fields of the full form that all its requests share.
    pub fields: Vec<u8>,
    /// The text of the last authority.
    pub authority: LastText,
}

/// The text of the last value: most requests have the same value as the one before.
#[derive(Debug, Default)]
pub struct LastText(RefCell<Option<(Vec<u8>, Vec<u8>)>>);

impl LastText {
    /// Adds the text of a value; `format` makes it if the value is not the last one.
    pub fn push(&self, line: &mut Vec<u8>, value: &[u8], format: impl FnOnce(&mut Vec<u8>)) {
        let mut last = self.0.borrow_mut();
        if last.as_ref().is_none_or(|(known, _)| known != value) {
            let mut text = Vec::new();
            format(&mut text);
            *last = Some((value.to_vec(), text));
        }
        if let Some((_, text)) = &*last {
            line.extend_from_slice(text);
        }
    }
}

/// A request that arrives.
pub struct Arrival<'r> {
    /// The client's connection.
    pub connection: &'r LoggedConnection,
    /// The request.
    pub head: RequestHead<'r>,
    /// Whether queries are shown.
    pub has_query: bool,
    /// Notes of the stages; so far, that of its trace.
    pub notes: &'r RequestNotes,
    /// The time.
    pub time: SystemTime,
}

/// An exchange whose line is written at its end.
pub struct Exchange {
    /// Notes of the stages.
    pub notes: Rc<RequestNotes>,
    /// The arrival of the request.
    pub start: Instant,
    /// Bytes of the request's body in its last attempt.
    pub request_bytes: Cell<u64>,
    /// Bytes of the response's body.
    pub response_bytes: Cell<u64>,
    /// The time that the stages below took in all of their turns, if the form of the line shows it.
    pub busy: Cell<Duration>,
}

/// The end of an exchange.
#[derive(Debug)]
pub struct ExchangeEnd {
    /// Success, failure, or neither.
    pub outcome: Outcome,
    /// The status, `None` if there was no response.
    pub status: Option<StatusCode>,
    /// The gRPC code, if there is one.
    pub grpc_status: Option<u16>,
    /// The reason of its failure, if the proxy knows it, and the message.
    pub failure: Option<(Reason, String)>,
    /// The time from the request to the head of the response.
    pub first_byte: Option<Duration>,
    /// The whole time.
    pub duration: Duration,
}

/// Success or failure of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A complete response that is no failure.
    Success,
    /// The proxy's own answer, or a response that failed.
    Failure,
    /// The client has given up.
    Cancelled,
}

impl Outcome {
    /// The name in a line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Cancelled => "cancelled",
        }
    }
}
