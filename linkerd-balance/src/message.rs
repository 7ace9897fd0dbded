//! The balancer's view of requests and responses.

use crate::{
    LoadHandle,
    affinity::{Affinity, AffinityKey},
};
use http::Response;
use linkerd_proxy_core::{
    endpoint::EndpointQueue,
    http::{EndpointId, HttpRequest, QueueNote, ResponseBody},
    transport::Io,
};
use std::rc::Rc;
use tokio::time::Instant;

/// A request that may wait for an endpoint.
pub trait Arrival {
    /// The time of arrival. Reads the clock if the request does not carry its time.
    fn arrived(&self) -> Instant {
        Instant::now()
    }

    /// The affinity key, if the request has one.
    fn affinity(&self, _affinity: &Affinity) -> Option<AffinityKey> {
        None
    }

    /// The endpoint of an earlier, failed attempt: another is preferred.
    fn avoids(&self) -> Option<EndpointId> {
        None
    }

    /// Notes that the request waits in a queue, as long as the note lives, for the limits of the wait.
    fn waits_in<Q: EndpointQueue + 'static>(&self, _queue: &Rc<Q>) -> Option<QueueNote> {
        None
    }

    /// Notes that an endpoint gets the request now, for measurements of the endpoint.
    fn attempted(&mut self, _now: Instant, _endpoint: EndpointId) {}
}

/// A response that ends the measurement of its endpoint's latency.
pub trait MeasuredResponse {
    /// Takes over the measurement, which ends when `load` is dropped.
    fn measure(&mut self, load: LoadHandle) {
        drop(load);
    }
}

impl<B> Arrival for HttpRequest<B> {
    fn arrived(&self) -> Instant {
        self.context().arrived
    }

    fn affinity(&self, affinity: &Affinity) -> Option<AffinityKey> {
        affinity.key(self)
    }

    fn avoids(&self) -> Option<EndpointId> {
        self.context().attempts.as_ref()?.endpoint()
    }

    fn waits_in<Q: EndpointQueue + 'static>(&self, queue: &Rc<Q>) -> Option<QueueNote> {
        let attempts = self.context().attempts.as_ref()?;
        Some(attempts.wait_in(queue.clone()))
    }

    fn attempted(&mut self, now: Instant, endpoint: EndpointId) {
        let context = self.context_mut();
        context.attempted = now;
        if let Some(attempts) = &context.attempts {
            attempts.given_to(endpoint);
        }
    }
}

/// A requested connection.
impl Arrival for () {}

/// The measurement ends when the endpoint accepts the connection.
impl<I> MeasuredResponse for Io<I> {}

/// The measurement ends with the first frame of the body, as with the incumbent, or with the head of a penalised response.
impl MeasuredResponse for Response<ResponseBody> {
    fn measure(&mut self, load: LoadHandle) {
        load.answered(self);
    }
}
