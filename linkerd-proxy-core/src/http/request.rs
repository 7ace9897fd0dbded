//! A request on its way through the stages.

use super::{AttemptNotes, RequestBody, RequestNotes, ResponseClasses};
use crate::{tls::Identity, trace::AttemptSpan, transport::ClientInfo};
use http::Request;
use std::{
    any::Any,
    fmt,
    ops::{Deref, DerefMut},
    rc::Rc,
};
use tokio::time::Instant;

/// A request and its context, in a box: each stage moves it.
pub struct HttpRequest<B = RequestBody>(Box<Parts<B>>);

struct Parts<B> {
    request: Request<B>,
    context: RequestContext,
}

/// Facts about a request that are not part of its message. The context travels with the request to its endpoint, so that a
/// stage needs nothing but the request.
///
/// The context is not an extension of the message: extensions are a map that would have to be allocated for each request.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The time at which the request arrived, or its target was discovered.
    pub arrived: Instant,
    /// The start of the present attempt: the arrival, or the time at which a balancer gave the request to an endpoint.
    pub attempted: Instant,
    /// The client's connection; `None` for requests that the proxy makes itself.
    pub client: Option<Rc<ClientInfo>>,
    /// The number of returns from endpoints.
    pub returns: Returns,
    /// The length of the path prefix that matched the request's route, if it matched by a prefix.
    pub matched_prefix: Option<usize>,
    /// The response classes of the route, if there are any.
    pub response_classes: Option<Rc<ResponseClasses>>,
    /// Notes about the attempts, if the route has timeouts or retries.
    pub attempts: Option<Rc<AttemptNotes>>,
    /// The series of the route, for a stage below that counts requests of several routes and knows their type.
    pub route_series: Option<Rc<dyn Any>>,
    /// Notes for the request's line of the access log and its spans, if it has any of them.
    pub notes: Option<Rc<RequestNotes>>,
    /// The span of the present attempt, if the request is sampled. Only a request with notes has one.
    pub attempt: Option<Rc<AttemptSpan>>,
}

/// The number of times that endpoints returned a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returns {
    /// Returned because the connection was lost: the request may have been processed.
    pub lost: u8,
    /// Returned because it was refused before it was processed.
    pub refused: u8,
}

impl<B> HttpRequest<B> {
    /// A request in its context.
    pub fn new(request: Request<B>, context: RequestContext) -> Self {
        Self(Box::new(Parts { request, context }))
    }

    /// The context.
    pub fn context(&self) -> &RequestContext {
        &self.0.context
    }

    /// The context, mutable.
    pub fn context_mut(&mut self) -> &mut RequestContext {
        &mut self.0.context
    }

    /// The message, and its context.
    pub fn into_parts(self) -> (Request<B>, RequestContext) {
        let Parts { request, context } = *self.0;
        (request, context)
    }
}

impl RequestContext {
    /// The context of a request that arrives now.
    pub fn arriving(client: Option<Rc<ClientInfo>>) -> Self {
        let now = Instant::now();
        Self {
            arrived: now,
            attempted: now,
            client,
            returns: Returns::default(),
            matched_prefix: None,
            response_classes: None,
            attempts: None,
            route_series: None,
            notes: None,
            attempt: None,
        }
    }

    /// Notes that a connection is opened for the request.
    pub fn begin_connect(&self) {
        if let Some(notes) = &self.notes {
            notes.begin_connect();
            if let Some(attempt) = &self.attempt {
                attempt.begin_connect();
            }
        }
    }

    /// Notes the end of the connection attempt, in success or failure.
    pub fn end_connect(&self) {
        if let Some(notes) = &self.notes {
            notes.end_connect();
            if let Some(attempt) = &self.attempt {
                attempt.end_connect();
            }
        }
    }

    /// Notes the identity of the endpoint of the present attempt.
    pub fn of_endpoint(&self, identity: &Identity) {
        if let Some(notes) = &self.notes {
            notes.of_endpoint(identity);
            if let Some(attempt) = &self.attempt {
                attempt.of_endpoint(identity);
            }
        }
    }
}

impl Returns {
    /// Whether the request was returned at all.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

impl<B> Deref for HttpRequest<B> {
    type Target = Request<B>;

    fn deref(&self) -> &Request<B> {
        &self.0.request
    }
}

impl<B> DerefMut for HttpRequest<B> {
    fn deref_mut(&mut self) -> &mut Request<B> {
        &mut self.0.request
    }
}

impl<B: fmt::Debug> fmt::Debug for HttpRequest<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRequest")
            .field("request", &self.0.request)
            .field("context", &self.0.context)
            .finish()
    }
}
