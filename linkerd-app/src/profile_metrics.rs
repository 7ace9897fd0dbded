//! Counts the requests of a profile's route: `route_*`.

use crate::{
    metrics::ProfileRouteFamilies,
    response_metrics::{Classification, ResponseSeries},
};
use http::{Response, Version};
use linkerd_proxy_core::{
    Error,
    http::{
        BodyEnd, HttpRequest, Now, ObserveResponse, ObservedResponse, ResponseBody,
        ResponseClasses, is_grpc,
    },
    metrics::{Counter, Family, Histogram, LabelSet},
    stack::ObserveCall,
};
use std::rc::Rc;
use tokio::time::Instant;

/// Counts requests of a profile's route, or the attempts to send them, and the responses.
#[derive(Clone, Debug)]
pub struct ProfileRouteMetrics(Rc<ProfileRouteSeries>);

#[derive(Debug)]
struct ProfileRouteSeries {
    labels: LabelSet,
    requests: Counter,
    responses: Family<Counter>,
    /// `None`: latencies are not measured.
    latency: Option<Family<Histogram>>,
    series: ResponseSeries,
    classes: Option<Rc<ResponseClasses>>,
}

/// A request whose response is awaited.
#[derive(Clone, Copy, Debug)]
pub struct ProfileCall {
    arrived: Instant,
    answered_as_grpc: bool,
}

impl ProfileRouteMetrics {
    /// Counts requests, however often they are sent: `route_request_total` and its kin. `classes` are those of the route.
    pub fn of_requests(
        families: &ProfileRouteFamilies,
        labels: &LabelSet,
        classes: Option<Rc<ResponseClasses>>,
    ) -> Self {
        let latency = Some(&families.latency);
        let counted = (&families.requests, &families.responses);
        Self::new(counted, latency, labels, classes)
    }

    /// Counts each attempt to send a request: `route_actual_request_total` and its kin.
    pub fn of_attempts(
        families: &ProfileRouteFamilies,
        labels: &LabelSet,
        classes: Option<Rc<ResponseClasses>>,
    ) -> Self {
        let counted = (&families.actual_requests, &families.actual_responses);
        Self::new(counted, None, labels, classes)
    }

    fn new(
        (requests, responses): (&Family<Counter>, &Family<Counter>),
        latency: Option<&Family<Histogram>>,
        labels: &LabelSet,
        classes: Option<Rc<ResponseClasses>>,
    ) -> Self {
        Self(Rc::new(ProfileRouteSeries {
            labels: labels.clone(),
            requests: requests.get(labels.clone()),
            responses: responses.clone(),
            latency: latency.cloned(),
            series: ResponseSeries::default(),
            classes,
        }))
    }
}

impl ObserveCall<HttpRequest, Response<ResponseBody>> for ProfileRouteMetrics {
    type Call = ProfileCall;

    fn begin(&self, request: &mut HttpRequest) -> ProfileCall {
        self.0.requests.incr();
        ProfileCall {
            arrived: request.context().arrived,
            answered_as_grpc: request.version() == Version::HTTP_2 && is_grpc(request.headers()),
        }
    }

    fn answered(&self, call: &ProfileCall, response: &mut Response<ResponseBody>) {
        response.body_mut().observe(self.0.clone(), call.arrived);
    }

    fn failed(&self, call: &ProfileCall, error: &mut Error) {
        let classes = self.0.classes.as_deref();
        self.0.count(Classification::of_failure(
            error,
            call.answered_as_grpc,
            classes,
        ));
    }
}

impl ObserveResponse for ProfileRouteSeries {
    fn data(&self, exchange: &ObservedResponse<'_>, _: usize, now: &Now) {
        self.first(exchange, now);
    }

    fn end(&self, exchange: &ObservedResponse<'_>, end: BodyEnd<'_>, now: &Now) {
        self.first(exchange, now);
        self.count(Classification::of(exchange, end));
    }
}

impl ProfileRouteSeries {
    /// Measures the latency until the first frame of data, or until the end if there is none.
    fn first(&self, exchange: &ObservedResponse<'_>, now: &Now) {
        if !exchange.has_data
            && let Some(family) = &self.latency
        {
            let latency = now.since(exchange.start);
            self.series
                .observe_latency(family, &self.labels, exchange.status, latency);
        }
    }

    fn count(&self, class: Classification) {
        self.series.count(&self.responses, &self.labels, class);
    }
}

#[cfg(test)]
mod tests;
