//! Counters of responses by their status.

use crate::response_metrics::with_cached;
use linkerd_proxy_core::{
    Error, Reason,
    http::{BodyEnd, ObservedResponse, grpc_name},
    metrics::{Counter, Family, LabelSet, Labels},
};
use std::cell::RefCell;

/// The labels of a status: `http_status` or `grpc_status`, and `error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    http: Option<u16>,
    grpc: Option<u8>,
    error: Failure,
}

/// The `error` label. A number, as each request compares and carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    None,
    Unknown,
    Io,
    FailFast,
    LoadShed,
    RequestTimeout,
    ResponseHeadersTimeout,
    ResponseStreamTimeout,
    IdleTimeout,
    Cancel,
    Refused,
    EnhanceYourCalm,
    GoAway,
    Reset,
}

impl Failure {
    /// The label's value.
    fn label(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Unknown => "UNKNOWN",
            Self::Io => "IO",
            Self::FailFast => "FAIL_FAST",
            Self::LoadShed => "LOAD_SHED",
            Self::RequestTimeout => "REQUEST_TIMEOUT",
            Self::ResponseHeadersTimeout => "RESPONSE_HEADERS_TIMEOUT",
            Self::ResponseStreamTimeout => "RESPONSE_STREAM_TIMEOUT",
            Self::IdleTimeout => "IDLE_TIMEOUT",
            Self::Cancel => "CANCEL",
            Self::Refused => "REFUSED",
            Self::EnhanceYourCalm => "ENHANCE_YOUR_CALM",
            Self::GoAway => "GO_AWAY",
            Self::Reset => "RESET",
        }
    }

    fn of_reset(code: h2::Reason) -> Self {
        match code {
            h2::Reason::CANCEL => Self::Cancel,
            h2::Reason::REFUSED_STREAM => Self::Refused,
            h2::Reason::ENHANCE_YOUR_CALM => Self::EnhanceYourCalm,
            h2::Reason::NO_ERROR => Self::GoAway,
            _ => Self::Reset,
        }
    }
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

    /// Counts a response.
    pub fn count(&self, mut status: Status) {
        if !self.grpc {
            // HTTP counters have no label for it.
            status.grpc = None;
        }
        let take = || {
            let labels = match self.grpc {
                true => Labels::new().with("grpc_status", status.grpc.map_or("UNKNOWN", grpc_name)),
                false => Labels::new().with(
                    "http_status",
                    status.http.map(|code| code.to_string()).unwrap_or_default(),
                ),
            };
            let error = status.error.label();
            self.family
                .get(self.labels.and(labels.with("error", error)))
        };
        with_cached(&self.counters, status, take, Counter::incr);
    }
}

impl Status {
    /// The status of a response when its body ends.
    pub fn of(exchange: &ObservedResponse<'_>, end: BodyEnd<'_>) -> Self {
        let response = Self {
            http: Some(exchange.status.as_u16()),
            grpc: exchange.code,
            error: Failure::None,
        };
        match end {
            BodyEnd::Complete(_) => Self {
                grpc: exchange.grpc_code(end),
                ..response
            },
            BodyEnd::Dropped => Self {
                error: Failure::Unknown,
                ..response
            },
            BodyEnd::Failed(error) => Self {
                error: match error.reason() {
                    Reason::RequestTimeout => Failure::RequestTimeout,
                    Reason::ResponseTimeout => Failure::ResponseStreamTimeout,
                    Reason::IdleTimeout => Failure::IdleTimeout,
                    _ => error.reset_code().map_or(Failure::Io, Failure::of_reset),
                },
                ..response
            },
        }
    }

    /// The status of a request without a response.
    ///
    /// An error that the incumbent answers on behalf of an endpoint counts as the endpoint's.
    pub fn of_error(error: &Error) -> Self {
        let answered = |http: u16| Self {
            http: Some(http),
            grpc: u8::try_from(error.grpc_code()).ok(),
            error: Failure::None,
        };
        let failed = |error| Self {
            http: None,
            grpc: None,
            error,
        };
        if let Some(code) = error.reset_code() {
            return failed(Failure::of_reset(code));
        }
        match error.reason() {
            Reason::Failfast(_) => failed(Failure::FailFast),
            Reason::Unavailable(_) | Reason::QueueFull | Reason::InFlightLimit => {
                failed(Failure::LoadShed)
            }
            Reason::RequestTimeout => failed(Failure::RequestTimeout),
            Reason::ResponseTimeout | Reason::ResponseHeadersTimeout | Reason::ProfileTimeout => {
                failed(Failure::ResponseHeadersTimeout)
            }
            Reason::IdleTimeout => failed(Failure::IdleTimeout),
            Reason::ConnectRefused
            | Reason::ConnectFailed
            | Reason::ConnectTimeout
            | Reason::ConnectionLost
            | Reason::Prohibited
            | Reason::Loop
            | Reason::InjectedFailure
            | Reason::Redirected
            | Reason::UpgradedReset => answered(error.status().as_u16()),
            _ => failed(Failure::Unknown),
        }
    }
}
