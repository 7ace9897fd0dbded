//! How a response is counted by its status.

use crate::exchange::with_cached;
use http::Response;
use linkerd_proxy_core::{
    Error, Reason,
    http::{End, grpc_name, grpc_status},
    metrics::{Counter, Family, LabelSet},
};
use std::cell::RefCell;

/// The labels of a status: `http_status` or `grpc_status`, and `error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    http: Option<u16>,
    grpc: Option<u8>,
    error: &'static str,
}

/// Counters by status, of one route or one of its backends.
#[derive(Debug)]
pub struct StatusCounters {
    family: Family<Counter>,
    labels: LabelSet,
    grpc: bool,
    counters: RefCell<Vec<(Status, Counter)>>,
}

impl StatusCounters {
    /// Counters of `family`, labelled as gRPC or as HTTP.
    pub fn new(family: &Family<Counter>, labels: LabelSet, grpc: bool) -> Self {
        Self {
            family: family.clone(),
            labels,
            grpc,
            counters: RefCell::default(),
        }
    }

    /// Whether gRPC codes are counted.
    pub fn is_grpc(&self) -> bool {
        self.grpc
    }

    /// Counts a response.
    pub fn count(&self, status: Status) {
        let take = || {
            let labels = self.labels.to_labels();
            let labels = match self.grpc {
                true => labels.with("grpc_status", status.grpc.map_or("UNKNOWN", grpc_name)),
                false => labels.with(
                    "http_status",
                    status.http.map(|code| code.to_string()).unwrap_or_default(),
                ),
            };
            self.family.get(labels.with("error", status.error))
        };
        with_cached(&self.counters, status, take, Counter::incr);
    }
}

impl Status {
    /// The status of a response whose body has not ended yet.
    pub fn of_response<B>(response: &Response<B>, grpc: bool) -> Self {
        Self {
            http: Some(response.status().as_u16()),
            grpc: grpc.then(|| grpc_status(response.headers())).flatten(),
            error: "",
        }
    }

    /// What the end of the body adds.
    pub fn at_end(self, end: End<'_>) -> Self {
        match end {
            End::Complete(trailers) => Self {
                grpc: self.grpc.or_else(|| trailers.and_then(grpc_status)),
                ..self
            },
            End::Dropped => Self {
                error: "UNKNOWN",
                ..self
            },
            End::Failed(error) => {
                let h2 = linkerd_proxy_core::error::find::<h2::Error>(error);
                Self {
                    error: h2.and_then(h2::Error::reason).map_or("IO", reset),
                    ..self
                }
            }
        }
    }

    /// The status of a request without a response.
    ///
    /// What the incumbent answers for an endpoint counts as that answer.
    pub fn of_error(error: &Error) -> Self {
        let answered = |http: u16| Self {
            http: Some(http),
            grpc: Some(error.reason().grpc_code()),
            error: "",
        };
        let failed = |label| Self {
            http: None,
            grpc: None,
            error: label,
        };
        if let Some(code) = error.reset_code() {
            return failed(reset(code));
        }
        match error.reason() {
            Reason::Failfast(_) => failed("FAIL_FAST"),
            Reason::Unavailable(_) | Reason::QueueFull | Reason::InFlightLimit => {
                failed("LOAD_SHED")
            }
            Reason::ConnectRefused
            | Reason::ConnectFailed
            | Reason::ConnectTimeout
            | Reason::ConnectionLost
            | Reason::Prohibited
            | Reason::Loop
            | Reason::UpgradedReset => answered(error.reason().status().as_u16()),
            _ => failed("UNKNOWN"),
        }
    }
}

/// The label of a stream's reset.
fn reset(code: h2::Reason) -> &'static str {
    match code {
        h2::Reason::CANCEL => "CANCEL",
        h2::Reason::REFUSED_STREAM => "REFUSED",
        h2::Reason::ENHANCE_YOUR_CALM => "ENHANCE_YOUR_CALM",
        h2::Reason::NO_ERROR => "GO_AWAY",
        _ => "RESET",
    }
}
