//! The last failures of a thread: requests that the proxy answered or reset itself, and connections that it closed.
//!
//! `/state` shows those of all workers as the section `failures`. Both directions write through [`FailureLog`], and only
//! when something fails: a request that succeeds leaves nothing here.
//!
//! - **bounds**: [`MAX_FAILURES`] over all workers and the admin port, the oldest leaves first; each text is cut at [`MAX_TEXT`]
//!   bytes.
//! - **never** holds a query, a header but the trace id, or a body.

mod record;
mod request_head;

pub use record::{FailureProtocol, FailureRecord, merge};
pub use request_head::RequestHead;

use http::StatusCode;
use linkerd_proxy_core::{
    Error,
    http::{HttpRequest, PeerFailure, Responder},
    metrics::{Counter, Family},
    transport::{ClientInfo, Side},
};
use serde_json::{Value, json};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};
use tokio::time::Instant;

/// The last failures of one worker.
///
/// A request is gone when it fails, so its head is kept until its response: of the first [`FIRST_HEADS`] requests, as most mistakes of a
/// configuration show at the start, and for [`HEADS_KEPT_FOR`] after a failure or a look at the log. A proxy that goes on without
/// failures pays nothing for it; the record of its first failure then has the error's text alone.
#[derive(Debug)]
pub struct FailureLog {
    limit: usize,
    /// `proxy_failures_total`
    counted: Family<Counter>,
    ring: RefCell<FailureRing>,
    keeps_heads_until: Cell<Option<Instant>>,
    /// The requests whose heads are still kept because they are the first.
    first_heads: Cell<u32>,
}

/// The failures of one connection's requests.
#[derive(Debug)]
pub struct RequestFailures {
    log: Rc<FailureLog>,
    side: Side,
    client: Rc<ClientInfo>,
}

#[derive(Debug, Default)]
struct FailureRing {
    /// The oldest is at the front.
    records: VecDeque<FailureRecord>,
    total: u64,
    /// Failures that an endpoint's proxy answered with a status below 500, such as 403.
    refused_by_peers: u64,
}

impl FailureLog {
    /// An empty ring for `limit` failures, each of which is counted, too.
    pub fn new(limit: usize, counted: Family<Counter>) -> Rc<Self> {
        Rc::new(Self {
            limit,
            counted,
            ring: RefCell::default(),
            keeps_heads_until: Cell::default(),
            first_heads: Cell::new(FIRST_HEADS),
        })
    }

    /// The failures of the requests of a client's connection.
    pub fn requests(self: &Rc<Self>, side: Side, client: &Rc<ClientInfo>) -> RequestFailures {
        RequestFailures {
            log: self.clone(),
            side,
            client: client.clone(),
        }
    }

    /// Keeps the failure of a connection that the proxy closes.
    pub fn connection(
        &self,
        side: Side,
        client: &ClientInfo,
        destination: SocketAddr,
        error: &Error,
    ) {
        let protocol = FailureProtocol::Connection;
        let record = FailureRecord::new(side, protocol, client.addr, error);
        self.push(record.of_connection(destination));
    }

    /// The number of failures so far, and the last ones, newest first.
    pub fn inspect(&self) -> Value {
        self.keep_heads();
        let ring = self.ring.borrow();
        let newest = ring.records.iter().rev();
        // The newest has the highest number.
        let numbers = (0..=ring.total).rev();
        json!({
            "total": ring.total,
            "refused_by_peers": ring.refused_by_peers,
            "limit": self.limit,
            "last": newest.zip(numbers).map(|(record, number)| record.inspect(number)).collect::<Vec<_>>(),
        })
    }

    /// Whether the head of a request that arrives now is kept.
    #[inline]
    fn keeps_head(&self, now: Instant) -> bool {
        match self.first_heads.get() {
            0 => self
                .keeps_heads_until
                .get()
                .is_some_and(|until| now < until),
            left => {
                self.first_heads.set(left - 1);
                true
            }
        }
    }

    fn keep_heads(&self) {
        let until = Instant::now() + HEADS_KEPT_FOR;
        self.keeps_heads_until.set(Some(until));
    }

    fn push(&self, record: FailureRecord) {
        self.counted.get(record.labels()).incr();
        self.keep(record);
    }

    fn keep(&self, record: FailureRecord) {
        self.keep_heads();
        let mut ring = self.ring.borrow_mut();
        ring.total += 1;
        ring.refused_by_peers += u64::from(record.is_refused_by_peer());
        if ring.records.len() >= self.limit {
            ring.records.pop_front();
        }
        ring.records.push_back(record);
    }
}

impl RequestFailures {
    /// The head of a request, if it is to be kept until its response.
    pub fn head(&self, request: &HttpRequest) -> Option<Box<RequestHead>> {
        let keeps = self.log.keeps_head(request.context().arrived);
        keeps.then(|| Box::new(RequestHead::of(request)))
    }

    /// Keeps the failure of a request. The redirect of a route is no failure.
    pub fn request(&self, head: Option<&RequestHead>, responder: &Responder, error: &Error) {
        if error.location().is_some() {
            return;
        }
        let record = self.record(responder, error);
        self.log.push(match head {
            Some(head) => record.of_request(head),
            None => record,
        });
    }

    /// Keeps the failure of a response that broke off after its head.
    pub fn broken_response(&self, responder: &Responder, error: &Error) {
        self.log.push(self.record(responder, error).after_head());
    }

    /// Keeps a failure that the endpoint's proxy has answered with `status`, and counted.
    pub fn told_by_peer(
        &self,
        head: Option<&RequestHead>,
        responder: &Responder,
        failure: &PeerFailure,
        status: StatusCode,
    ) {
        let (side, client) = (self.side, self.client.addr);
        let record = FailureRecord::told(side, protocol(responder), client, failure, status)
            .of_connection(self.client.going_to());
        self.log.keep(match head {
            Some(head) => record.of_request(head),
            None => record,
        });
    }

    fn record(&self, responder: &Responder, error: &Error) -> FailureRecord {
        FailureRecord::new(self.side, protocol(responder), self.client.addr, error)
            .of_connection(self.client.going_to())
    }
}

fn protocol(responder: &Responder) -> FailureProtocol {
    match responder.is_grpc() {
        true => FailureProtocol::Grpc,
        false => FailureProtocol::Http,
    }
}

/// The failures kept by all threads together.
pub const MAX_FAILURES: usize = 1_000;

/// The part of them that is for the admin port.
pub const ADMIN_FAILURES: usize = 20;
/// The requests of a worker that are named if they fail, whatever came before.
const FIRST_HEADS: u32 = 100;
/// The time after a failure, or a look at the failures, for which the heads of requests are kept: a proxy that fails a request a day
/// names all but the first. A kept head is an allocation of a request, and 2 % of its instructions.
const HEADS_KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest text of a failure, in bytes: the longest names and ordinary paths are shorter.
pub const MAX_TEXT: usize = 512;

#[cfg(test)]
mod tests;
