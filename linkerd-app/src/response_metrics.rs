//! Classes of responses, for `response_total` and its kin.

use http::StatusCode;
use linkerd_proxy_core::{
    Error, Reason,
    http::{BodyEnd, BodyError, ClassMatch, ObservedResponse, ResponseClasses, is_failure},
    metrics::{Counter, Family, Histogram, LabelSet, Labels},
};
use std::{cell::RefCell, time::Duration};

/// The end of an exchange: its status, success or failure, gRPC code and error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classification {
    status: Option<StatusCode>,
    failure: bool,
    /// `Some(None)`: gRPC without a code.
    grpc: Option<Option<u8>>,
    error: Option<Broken>,
}

/// The cause of an exchange that ended without a response, or in the middle of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Reset(h2::Reason),
    Timeout,
    Unclassified,
}

/// The series of responses of one owner, by status and class. Each is made for the first response of its kind.
#[derive(Debug, Default)]
pub struct ResponseSeries {
    /// Few: one for each status.
    latencies: RefCell<Vec<(StatusCode, Histogram)>>,
    responses: RefCell<Vec<(Classification, Counter)>>,
}

impl Classification {
    /// A response whose body has ended.
    pub fn of(exchange: &ObservedResponse<'_>, end: BodyEnd<'_>) -> Self {
        if let BodyEnd::Failed(error) = end {
            return Self {
                status: Some(exchange.status),
                failure: true,
                grpc: None,
                error: Some(Broken::by(error)),
            };
        }
        let code = exchange.grpc_code(end);
        let (failure, grpc) = match exchange.class {
            Some(class) => by_class(class, exchange.status, code),
            None => {
                let grpc = exchange.is_grpc.then_some(code);
                let failure = match grpc {
                    // Without a code it counts as a success, as with the incumbent.
                    Some(None) => false,
                    Some(code) => is_failure(exchange.status, code),
                    None => is_failure(exchange.status, None),
                };
                (failure, grpc)
            }
        };
        Self {
            status: Some(exchange.status),
            failure,
            grpc,
            error: None,
        }
    }

    /// A response that is not gRPC's, by its status alone.
    pub fn of_status(status: StatusCode) -> Self {
        Self {
            status: Some(status),
            failure: is_failure(status, None),
            grpc: None,
            error: None,
        }
    }

    /// An exchange without a response: by the proxy's answer for the endpoint, or by the reset that the proxy passes on.
    ///
    /// `grpc`: the answer is gRPC's. `classes` are those of the request's route.
    pub fn of_answer(error: &Error, grpc: bool, classes: Option<&ResponseClasses>) -> Self {
        if let Some(code) = error.reset_code() {
            return Self::broken(Broken::Reset(code));
        }
        let reason = error.reason();
        let (status, code) = match grpc {
            true => (StatusCode::OK, Some(reason.grpc_code())),
            false => (reason.status(), None),
        };
        let (failure, grpc) = match classes.map(|classes| classes.find(status)) {
            Some(class) => by_class(class, status, code),
            None => (true, code.map(Some)),
        };
        Self {
            status: Some(status),
            failure,
            grpc,
            error: None,
        }
    }

    /// A request that failed at a route: by the proxy's answer only if that is for an endpoint.
    pub fn of_failure(error: &Error, grpc: bool, classes: Option<&ResponseClasses>) -> Self {
        match error.reason() {
            Reason::ProfileTimeout => Self::broken(Broken::Timeout),
            reason if reason.row().for_endpoint || error.reset_code().is_some() => {
                Self::of_answer(error, grpc, classes)
            }
            _ => Self::broken(Broken::Unclassified),
        }
    }

    /// Whether it is a failure.
    pub fn is_failure(self) -> bool {
        self.failure
    }

    fn broken(error: Broken) -> Self {
        Self {
            status: None,
            failure: true,
            grpc: None,
            error: Some(error),
        }
    }

    fn labels(self) -> Labels {
        let grpc = match self.grpc {
            None => String::new(),
            Some(code) => code.unwrap_or(UNKNOWN).to_string(),
        };
        let classification = match self.failure {
            true => "failure",
            false => "success",
        };
        status_label(self.status)
            .with("classification", classification)
            .with("grpc_status", grpc)
            .with("error", self.error.map_or("", Broken::label))
    }
}

impl ResponseSeries {
    /// Adds a latency to the series of a status.
    pub fn observe_latency(
        &self,
        family: &Family<Histogram>,
        labels: &LabelSet,
        status: StatusCode,
        latency: Duration,
    ) {
        let take = || family.get(labels.and(status_label(Some(status))));
        with_cached(&self.latencies, status, take, |histogram| {
            histogram.observe_duration(latency);
        });
    }

    /// Counts a response.
    pub fn count(&self, family: &Family<Counter>, labels: &LabelSet, class: Classification) {
        let take = || family.get(labels.and(class.labels()));
        with_cached(&self.responses, class, take, Counter::incr);
    }
}

/// Uses a handle from a short list; adds it if it is missing.
pub(crate) fn with_cached<K: Copy + PartialEq, M>(
    list: &RefCell<Vec<(K, M)>>,
    key: K,
    take: impl FnOnce() -> M,
    apply: impl FnOnce(&M),
) {
    let mut list = list.borrow_mut();
    match list.iter().find(|(known, _)| *known == key) {
        Some((_, handle)) => apply(handle),
        None => {
            let handle = take();
            apply(&handle);
            // Most lists stay with one.
            list.reserve_exact(1);
            list.push((key, handle));
        }
    }
}

/// Failure and gRPC code of a response by the classes of its route.
fn by_class(class: ClassMatch, status: StatusCode, code: Option<u8>) -> (bool, Option<Option<u8>>) {
    match class {
        ClassMatch::Success => (false, None),
        ClassMatch::Failure => (true, None),
        ClassMatch::None => (is_failure(status, code), code.map(Some)),
    }
}

fn status_label(status: Option<StatusCode>) -> Labels {
    match status {
        Some(status) => Labels::new().with("status_code", status.as_u16()),
        None => Labels::new(),
    }
}

impl Broken {
    /// The cause of a broken body.
    fn by(error: &BodyError) -> Self {
        error.reset_code().map_or(Self::Unclassified, Self::Reset)
    }

    /// The `error` label.
    fn label(self) -> &'static str {
        match self {
            Self::Unclassified => "unclassified",
            Self::Timeout => "timeout",
            Self::Reset(h2::Reason::CANCEL) => "h2(CANCEL)",
            Self::Reset(h2::Reason::REFUSED_STREAM) => "h2(REFUSED_STREAM)",
            Self::Reset(h2::Reason::INTERNAL_ERROR) => "h2(INTERNAL_ERROR)",
            Self::Reset(h2::Reason::ENHANCE_YOUR_CALM) => "h2(ENHANCE_YOUR_CALM)",
            Self::Reset(h2::Reason::NO_ERROR) => "h2(NO_ERROR)",
            Self::Reset(_) => "h2(OTHER)",
        }
    }
}

/// The code of a gRPC response that has none.
const UNKNOWN: u8 = 2;
