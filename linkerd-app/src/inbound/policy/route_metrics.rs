//! Counts the requests of an inbound route and their responses: `inbound_{http,grpc}_*`.

use crate::{metrics::InboundRouteFamilies, response_metrics::with_cached};
use http::Response;
use linkerd_proxy_core::{
    Error,
    http::{
        BodyEnd, HttpRequest, Now, ObserveRequest, ObserveResponse, ObservedRequest,
        ObservedResponse, ResponseBody, grpc_name,
    },
    metrics::{Counter, Family, Histogram, LabelSet, Labels},
};
use std::{cell::RefCell, rc::Rc};
use tokio::time::Instant;

/// Counts requests of a route that were let in, and their responses.
#[derive(Clone, Debug)]
pub struct InboundRouteMetrics(Rc<InboundRouteSeries>);

#[derive(Debug)]
struct InboundRouteSeries {
    requests: Counter,
    request_duration: Histogram,
    response_duration: Histogram,
    request_frame_size: Histogram,
    response_frame_size: Histogram,
    labels: LabelSet,
    family: Family<Counter>,
    /// By the HTTP status, or by the gRPC code if it is gRPC. Few.
    statuses: RefCell<Vec<(Option<u16>, Counter)>>,
    grpc: bool,
}

impl InboundRouteMetrics {
    /// Counts in series with these labels, as gRPC or as HTTP.
    pub fn new(families: &InboundRouteFamilies, labels: LabelSet, grpc: bool) -> Self {
        Self(Rc::new(InboundRouteSeries {
            requests: families.requests.get(labels.clone()),
            request_duration: families.request_duration.get(labels.clone()),
            response_duration: families.response_duration.get(labels.clone()),
            request_frame_size: families.request_frame_size.get(labels.clone()),
            response_frame_size: families.response_frame_size.get(labels.clone()),
            family: families.statuses.clone(),
            labels,
            statuses: RefCell::default(),
            grpc,
        }))
    }

    /// Counts a request. Returns its arrival.
    pub fn begin(&self, request: &mut HttpRequest) -> Instant {
        let arrived = request.context().arrived;
        self.0.requests.incr();
        request.body_mut().observe(&self.0, arrived);
        arrived
    }

    /// Counts a response when its body ends.
    pub fn answered(&self, arrived: Instant, response: &mut Response<ResponseBody>) {
        response.body_mut().observe(self.0.clone(), arrived);
    }

    /// Counts the proxy's own answer in place of the application's.
    pub fn failed(&self, arrived: Instant, error: &Error) {
        let status = match (error.reset_code(), self.0.grpc) {
            (Some(_), _) => None,
            (None, true) => Some(error.grpc_code()),
            (None, false) => Some(error.status().as_u16()),
        };
        self.0.count(status);
        self.0.request_duration.observe_duration(arrived.elapsed());
    }
}

impl ObserveRequest for InboundRouteSeries {
    fn data(&self, _: &ObservedRequest, len: usize, _: &Now) {
        self.request_frame_size.observe(len as u64);
    }
}

impl ObserveResponse for InboundRouteSeries {
    fn data(&self, _: &ObservedResponse<'_>, len: usize, _: &Now) {
        self.response_frame_size.observe(len as u64);
    }

    fn end(&self, exchange: &ObservedResponse<'_>, end: BodyEnd<'_>, now: &Now) {
        self.request_duration
            .observe_duration(now.since(exchange.start));
        let since = exchange.request_ended();
        let duration = since.map(|since| now.since(since));
        self.response_duration
            .observe_duration(duration.unwrap_or_default());
        self.count(match self.grpc {
            true => exchange.grpc_code(end).map(u16::from),
            false => Some(exchange.status.as_u16()),
        });
    }
}

impl InboundRouteSeries {
    fn count(&self, status: Option<u16>) {
        let take = || {
            let labels = match (status, self.grpc) {
                (None, false) => Labels::new().with("status", ""),
                (Some(status), false) => Labels::new().with("status", status),
                (code, true) => {
                    let code = code.and_then(|code| u8::try_from(code).ok());
                    Labels::new().with("status", code.map_or("UNKNOWN", grpc_name))
                }
            };
            self.family.get(self.labels.and(labels))
        };
        with_cached(&self.statuses, status, take, Counter::incr);
    }
}
